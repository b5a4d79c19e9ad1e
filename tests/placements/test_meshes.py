"""Meshes of every kind, and the arrays over them: equal when they come back."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxpickle
from placements.together import cpus, name_of

DEVICES = np.array(jax.devices())
EXPLICIT, AUTO, MANUAL = AxisType.Explicit, AxisType.Auto, AxisType.Manual
VALUES = np.arange(256.0, dtype=np.float32).reshape(8, 8, 4)

MESHES = {
    "permuted": Mesh(DEVICES[[5, 2, 7, 0]].reshape(2, 2), ("x", "y")),
    "not_from_the_first": Mesh(DEVICES[4:].reshape(2, 2), ("x", "y")),
    "three_dimensions": Mesh(DEVICES.reshape(2, 2, 2), ("x", "y", "z")),
    "size_one": Mesh(DEVICES[3:4].reshape(1, 1), ("x", "y")),
    "transposed": Mesh(DEVICES.reshape(4, 2).T, ("x", "y")),
    "explicit": Mesh(DEVICES[:4].reshape(2, 2), ("x", "y"), axis_types=(EXPLICIT, EXPLICIT)),
    "mixed": Mesh(DEVICES[:4].reshape(2, 2), ("x", "y"), axis_types=(EXPLICIT, AUTO)),
}
MANUAL_AXIS = Mesh(DEVICES[:4].reshape(2, 2), ("x", "y"), axis_types=(AUTO, MANUAL))
SPECS = [P(), P("x"), P("y", "x"), P(None, ("x", "y")), P(None, None, "y"), P(("y", "x"), None)]


@pytest.mark.versions
@pytest.mark.parametrize("mesh", [*MESHES.values(), MANUAL_AXIS], ids=[*MESHES, "manual"])
def test_mesh_comes_back_equal(mesh: Mesh) -> None:
    """Equal mesh: shape, axis names, axis types, and the devices in their order."""
    got = jaxpickle.loads(jaxpickle.dumps(mesh))
    assert got == mesh
    assert list(got.devices.flat) == list(mesh.devices.flat)
    assert got.axis_types == mesh.axis_types


@pytest.mark.versions
@pytest.mark.parametrize("mesh", MESHES.values(), ids=MESHES)
def test_arrays_come_back_equal(mesh: Mesh) -> None:
    """Equal spec, sharding and type (on explicit axes the type holds it), each shard in place."""
    for spec in SPECS:
        array = jax.device_put(VALUES, NamedSharding(mesh, spec))
        got = jaxpickle.loads(jaxpickle.dumps(array))
        assert got.sharding == array.sharding
        assert got.aval == array.aval
        assert jax.typeof(got) == jax.typeof(array)
        for shard, original in zip(got.addressable_shards, array.addressable_shards, strict=True):
            assert (shard.device, shard.index) == (original.device, original.index)
            np.testing.assert_array_equal(shard.data, original.data)


def test_explicit_axes_compute_as_before() -> None:
    """An array over explicit axes computes with one that did not travel."""
    mesh = MESHES["explicit"]
    array = jax.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh, P("x", "y")))
    got = jaxpickle.loads(jaxpickle.dumps(array))
    with jax.set_mesh(mesh):
        total = jnp.add(got, array)
    assert jax.typeof(total) == jax.typeof(array)
    np.testing.assert_array_equal(total, 2 * np.ones((4, 4)))


@pytest.mark.parametrize("mesh", [MESHES["permuted"], MESHES["explicit"]], ids=["auto", "explicit"])
def test_mesh_under_a_mapping(mesh: Mesh) -> None:
    """A mapping moves each device of a mesh to its target, in the mesh's own order."""
    data = jaxpickle.dumps((mesh, jax.device_put(VALUES, NamedSharding(mesh, P("x", "y")))))
    mapping = {f"cpu:{index}": f"cpu:{7 - index}" for index in range(8)}
    got, array = jaxpickle.loads(data, devices=mapping)
    names = [name_of(device) for device in mesh.devices.flat]
    assert [name_of(device) for device in got.devices.flat] == [mapping[name] for name in names]
    assert (got.axis_names, got.axis_types) == (mesh.axis_names, mesh.axis_types)
    assert array.sharding == NamedSharding(got, P("x", "y"), memory_kind="device")
    np.testing.assert_array_equal(array, VALUES)


@pytest.mark.parametrize("devices", [None, "cpu:3", {"cpu": "cpu:1"}, MESHES["permuted"]])
def test_abstract_meshes_stay_as_they_are(devices: Any) -> None:
    """`AbstractMesh`es name no devices: no form of `devices=` concerns them."""
    mesh = AbstractMesh((4, 2), ("x", "y"), axis_types=(EXPLICIT, AUTO))
    pieces = [mesh, NamedSharding(mesh, P("x")), jax.ShapeDtypeStruct((4,), np.float32)]
    got = jaxpickle.loads(jaxpickle.dumps(pieces), devices=devices)
    assert got == pieces


def test_replicated_arrays_are_stored_once() -> None:
    """Each distinct shard is stored once, however many devices hold it."""
    values = np.arange(1 << 14, dtype=np.float32)
    mesh = MESHES["three_dimensions"]
    for spec in (P(), P("y"), P(("x", "y", "z"))):
        data = jaxpickle.dumps(jax.device_put(values, NamedSharding(mesh, spec)))
        assert values.nbytes <= len(data) < values.nbytes + 2048
        got = jaxpickle.loads(data)
        assert len(got.addressable_shards) == 8
        np.testing.assert_array_equal(got, values)


def test_one_sharding_is_stored_once() -> None:
    """A hundred arrays over one mesh say once what it is."""
    sharding = NamedSharding(MESHES["three_dimensions"], P("x"))
    arrays = [jax.device_put(np.ones(2, np.float32), sharding) for _ in range(100)]
    assert jaxpickle.dumps(arrays).count(b"cpu:7") == 1


def test_devices_of_both_halves() -> None:
    """Two meshes over different devices in one state stay apart."""
    first, second = (Mesh(half, ("x",)) for half in (DEVICES[:4], DEVICES[4:]))
    pair = [jax.device_put(np.arange(8.0), NamedSharding(mesh, P("x"))) for mesh in (first, second)]
    got = jaxpickle.loads(jaxpickle.dumps(pair))
    names = [[name_of(device) for device in array.sharding.mesh.devices.flat] for array in got]
    assert names == [cpus(0, 1, 2, 3), cpus(4, 5, 6, 7)]
