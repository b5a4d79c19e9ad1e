"""Memory kinds and layouts: kept, also over a mesh and where devices are moved."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import jaxpickle
from jaxpickle.errors import PlacementWarning
from placements.together import grid

VALUES = np.arange(48.0, dtype=np.float32).reshape(4, 12)
KINDS = [memory.kind for memory in jax.devices()[0].addressable_memories()]
ON_ONE = SingleDeviceSharding(jax.devices()[1])
OVER_MESH = NamedSharding(grid(4), P("x", "y"))
SHARDINGS = [ON_ONE, OVER_MESH]
FORMS: list[Any] = [None, {"cpu:*": "cpu:*"}, {"cpu:1": "cpu:6"}, "cpu:2"]


@pytest.mark.versions
@pytest.mark.parametrize("devices", FORMS)
@pytest.mark.parametrize("sharding", SHARDINGS, ids=["one", "mesh"])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_kind_is_kept(kind: str, sharding: Any, devices: Any) -> None:
    """An array comes back in memory of the same kind, as does its sharding by itself."""
    array = jax.device_put(VALUES, sharding.with_memory_kind(kind))
    got, alone = jaxpickle.loads(jaxpickle.dumps((array, array.sharding)), devices=devices)
    assert got.sharding.memory_kind == kind
    assert got.sharding == alone
    np.testing.assert_array_equal(got, VALUES)
    if devices is None:
        assert got.sharding == array.sharding


@pytest.mark.versions
@pytest.mark.parametrize("sharding", SHARDINGS, ids=["one", "mesh"])
def test_type_says_the_memory(sharding: Any) -> None:
    """The type of an array in host memory says so, as JAX's computations on it need."""
    array = jax.device_put(VALUES, sharding.with_memory_kind("pinned_host"))
    assert jaxpickle.loads(jaxpickle.dumps(array)).aval == array.aval


@pytest.mark.parametrize("sharding", SHARDINGS, ids=["one", "mesh"])
def test_missing_memory_kind_becomes_the_default_one(sharding: Any) -> None:
    """A memory kind that the target lacks becomes the default one, with a warning."""
    array = jax.device_put(VALUES, sharding.with_memory_kind("pinned_host"))
    data = jaxpickle.dumps(array).replace(b"pinned_host", b"pinned_toes")
    with pytest.warns(PlacementWarning, match="pinned_toes"):
        got = jaxpickle.loads(data)
    assert got.sharding == sharding.with_memory_kind("device")
    np.testing.assert_array_equal(got, VALUES)


def test_memory_of_a_device() -> None:
    """A bare memory goes with its device; of a kind that is not here, to the default one."""
    memory = jax.devices()[1].memory("pinned_host")
    data = jaxpickle.dumps(memory)
    assert jaxpickle.loads(data) is memory
    assert jaxpickle.loads(data, devices="cpu:3") is jax.devices()[3].memory("pinned_host")
    with pytest.warns(PlacementWarning, match="pinned_toes"):
        got = jaxpickle.loads(data.replace(b"pinned_host", b"pinned_toes"))
    assert got is jax.devices()[1].default_memory()


@pytest.mark.versions
@pytest.mark.parametrize("devices", FORMS)
@pytest.mark.parametrize("sharding", SHARDINGS, ids=["one", "mesh"])
@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_layout_is_kept(order: tuple[int, ...], sharding: Any, devices: Any) -> None:
    """An array in column-major order comes back in it, values and all."""
    array = jax.device_put(VALUES, Format(Layout(order), sharding))
    assert array.format.layout.major_to_minor == order
    got = jaxpickle.loads(jaxpickle.dumps(array), devices=devices)
    assert got.format.layout == array.format.layout
    np.testing.assert_array_equal(got, VALUES)
    if devices is None:
        assert got.format == array.format
        assert got.committed


def test_layout_of_three_dimensions() -> None:
    """Any order of dimensions, by its own permutation and not its inverse."""
    values = np.arange(24.0).reshape(2, 3, 4)
    array = jax.device_put(values, Format(Layout((2, 0, 1)), ON_ONE))
    got = jaxpickle.loads(jaxpickle.dumps(array))
    assert got.format == array.format
    np.testing.assert_array_equal(got, values)


def test_laid_out_arrays_load_while_a_function_is_traced() -> None:
    """A load inside a function that JAX traces gives arrays, with their layout, not tracers."""
    data = jaxpickle.dumps(jax.device_put(VALUES, Format(Layout((1, 0)), ON_ONE)))
    loaded = []

    def double() -> jax.Array:
        loaded.append(jaxpickle.loads(data))
        return 2 * loaded[0]

    np.testing.assert_array_equal(jax.jit(double)(), 2 * VALUES)
    assert loaded[0].format.layout.major_to_minor == (1, 0)


def test_impossible_layout_becomes_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout that the target lacks becomes the default one, with a warning."""
    array = jax.device_put(VALUES, Format(Layout((1, 0)), ON_ONE))
    data = jaxpickle.dumps(array)

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no such layout")

    monkeypatch.setattr(jax, "device_put", refuse)
    with pytest.warns(PlacementWarning, match=r"layout \(1, 0\).*no such layout"):
        got = jaxpickle.loads(data)
    assert got.format.layout.major_to_minor == (0, 1)
    assert got.sharding == array.sharding
    np.testing.assert_array_equal(got, VALUES)


@pytest.mark.versions
@pytest.mark.parametrize("shape", [(1, 8), (8, 1), (0, 8), (8, 8)])
def test_layout_of_thin_arrays_is_kept(shape: tuple[int, ...]) -> None:
    """An order that the strides do not show, as a dimension has size one, is kept all the same."""
    device = jax.devices()[1]
    column = Format(Layout((1, 0)), jax.sharding.SingleDeviceSharding(device))
    array = jax.device_put(np.ones(shape, np.float32), column)
    loaded = jaxpickle.loads(jaxpickle.dumps(array))
    assert loaded.format.layout.major_to_minor == array.format.layout.major_to_minor
    jax.jit(lambda x: x + 1, in_shardings=column)(loaded)


@pytest.mark.versions
def test_loads_is_an_explicit_transfer() -> None:
    """A load works where JAX disallows implicit transfers, as ``jax.device_put`` does."""
    data = jaxpickle.dumps([jax.numpy.arange(5000.0), jax.numpy.arange(3.0)])
    with jax.transfer_guard("disallow"):
        large, small = jaxpickle.loads(data)
    assert float(large[-1]) == 4999.0
    assert float(small[-1]) == 2.0


@pytest.mark.versions
def test_a_ref_loads_under_a_mesh() -> None:
    """A mesh in force does not change where a Ref lands."""
    data = jaxpickle.dumps(jax.new_ref(jax.numpy.arange(4.0)))
    with jax.set_mesh(jax.make_mesh((8,), ("x",))):
        ref = jaxpickle.loads(data)
    assert float(ref[...][3]) == 3.0
    assert ref.sharding.device_set == {jax.devices()[0]}
