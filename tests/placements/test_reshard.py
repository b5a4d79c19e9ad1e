"""Resharding on load: any array over any mesh, onto any other mesh with its axes."""

import math
import warnings
from typing import Any

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxpickle

DEVICES = jax.devices()
SHAPES = [(x, y) for x in range(1, 9) for y in range(1, 9) if x * y <= 8]


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    """Draws a mesh of axes x and y over some devices in some order."""
    shape = draw(st.sampled_from(SHAPES))
    devices = draw(st.permutations(DEVICES))[: math.prod(shape)]
    names = draw(st.sampled_from([("x", "y"), ("y", "x")]))
    return Mesh(np.array(devices).reshape(shape), names)


@st.composite
def arrays(draw: st.DrawFn) -> jax.Array:
    """Draws an array of up to three dimensions over a mesh, split as it can be."""
    mesh = draw(meshes())
    parts: list[Any] = draw(
        st.sampled_from(
            [(), ("x",), ("y",), ("x", "y"), (None, "y"), (("x", "y"),), (None, ("y", "x"), None)]
        )
    )
    rank = max(len(parts), draw(st.integers(1, 3)))
    spec = P(*parts)
    shape = tuple(
        ways(mesh, part) * draw(st.integers(0, 4)) for part in [*parts, *[None] * rank][:rank]
    )
    dtype = draw(st.sampled_from([np.float32, np.int8, np.uint16]))
    values = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    return jax.device_put(values, NamedSharding(mesh, spec))


def ways(mesh: Mesh, part: Any) -> int:
    """Returns into how many parts a mesh splits a dimension."""
    axes = () if part is None else part if isinstance(part, tuple) else (part,)
    return math.prod(mesh.shape[axis] for axis in axes)


def check(got: jax.Array, original: jax.Array, mesh: Mesh) -> None:
    """Asserts that an array lies over a mesh, and that each shard holds what it should."""
    values = np.asarray(original)
    assert got.sharding.mesh == mesh
    assert (got.dtype, got.shape, got.committed) == (original.dtype, original.shape, True)
    for shard in got.addressable_shards:
        np.testing.assert_array_equal(shard.data, values[shard.index])
    spec = original.sharding.spec
    fits = [size % ways(mesh, part) == 0 for part, size in zip(spec, original.shape, strict=False)]
    if all(fits):
        assert got.sharding == NamedSharding(mesh, spec, memory_kind="device")
    else:
        for fit, kept, part in zip(fits, got.sharding.spec, spec, strict=True):
            assert (kept == part) is fit


@settings(max_examples=60)
@given(arrays(), meshes(), meshes())
def test_any_mesh_to_any_other(array: jax.Array, second: Mesh, third: Mesh) -> None:
    """Onto one mesh and from there onto another: values, sharding, and no shard out of place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jaxpickle.errors.PlacementWarning)
        on_second = jaxpickle.loads(jaxpickle.dumps(array), devices=second)
        check(on_second, array, second)
        on_third = jaxpickle.loads(jaxpickle.dumps(on_second), devices=third)
    check(on_third, on_second, third)


@settings(max_examples=60)
@given(arrays(), st.permutations(range(8)), st.sampled_from([2, 5]))
def test_any_permutation_of_devices(array: jax.Array, order: list[int], protocol: int) -> None:
    """A one-to-one mapping moves each shard as it is to its device's target."""
    mapping = {f"cpu:{index}": f"cpu:{order[index]}" for index in range(8)}
    got = jaxpickle.loads(jaxpickle.dumps(array, protocol), devices=mapping)
    landed = {shard.device.id: shard for shard in got.addressable_shards}
    assert len(landed) == array.sharding.num_devices
    for shard in array.addressable_shards:
        there = landed[order[shard.device.id]]
        assert there.index == shard.index
        np.testing.assert_array_equal(there.data, shard.data)


@settings(max_examples=30)
@given(arrays())
def test_any_array_comes_back_and_collapses(array: jax.Array) -> None:
    """Without `devices=` it is equal; onto one device it is whole, over a mesh of size one."""
    data = jaxpickle.dumps(array)
    got = jaxpickle.loads(data)
    assert got.sharding == array.sharding
    check(got, array, array.sharding.mesh)
    one = jaxpickle.loads(data, devices="cpu:5")
    check(one, array, Mesh(np.array(DEVICES[5:6]).reshape(1, 1), array.sharding.mesh.axis_names))
