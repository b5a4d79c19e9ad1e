"""Meshes that collapse onto one device: same axis names, all of size one."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxpickle
from jaxpickle.errors import PlacementError
from placements.together import ONE, cpus, expected, grid, report, stream

THIRD = jax.devices()[3]


@pytest.mark.parametrize(
    ("devices", "device"),
    [("cpu", "cpu:0"), ("cpu:3", "cpu:3"), (THIRD, "cpu:3")],
    ids=["platform", "name", "device"],
)
def test_one_device_takes_everything(devices: Any, device: str) -> None:
    """One device or its name: everything goes there, committed; meshes collapse; all runs."""
    got = report(jaxpickle.loads(stream(8), devices=devices))
    singles = dict.fromkeys(("committed", "uncommitted", "elsewhere"), (device, True))
    assert got == expected(ONE, [device], True, device=device, **singles)


def test_mapping_of_all_to_one_does_the_same() -> None:
    """A mapping that sends all devices of a mesh to one collapses it; commitment stays."""
    got = report(jaxpickle.loads(stream(4), devices={"cpu": "cpu:6"}))
    assert got == expected(
        ONE,
        ["cpu:6"],
        True,
        device="cpu:6",
        committed=("cpu:6", True),
        uncommitted=("cpu:6", False),
        elsewhere=("cpu:6", False),
    )


@pytest.mark.parametrize("options", [{"devices": "cpu:3"}, {"raise_on_missing_device": False}])
def test_names_and_types_of_axes_stay(options: Any) -> None:
    """Same axis names and types, all of size one, and the array keeps its `NamedSharding`."""
    kinds = (AxisType.Explicit, AxisType.Auto, AxisType.Manual)
    mesh = jax.make_mesh((2, 2, 1), ("data", "model", "seq"), axis_types=kinds)
    array = jax.device_put(np.ones((4, 4)), NamedSharding(mesh, P("data")))
    data = jaxpickle.dumps((mesh, array)).replace(b"cpu:1", b"cpu:9")
    got_mesh, got = jaxpickle.loads(data, **options)
    assert got_mesh.axis_names == ("data", "model", "seq")
    assert got_mesh.axis_types == kinds
    assert dict(got_mesh.shape) == {"data": 1, "model": 1, "seq": 1}
    assert got.sharding == NamedSharding(got_mesh, P("data"), memory_kind="device")
    assert got.aval.sharding.mesh == got_mesh.abstract_mesh


def test_memory_kind_stays() -> None:
    """A collapsed sharding keeps its memory kind."""
    sharding = NamedSharding(grid(4), P("x"), memory_kind="pinned_host")
    got = jaxpickle.loads(jaxpickle.dumps(sharding), devices="cpu:3")
    assert got.memory_kind == "pinned_host"
    assert got.spec == P("x")


def test_mesh_of_one_device_is_a_mesh() -> None:
    """An array with a `NamedSharding` counts as sharded whatever the size of its mesh."""
    mesh = Mesh(np.array([THIRD]), ("x",))
    array = jax.device_put(np.arange(4.0), NamedSharding(mesh, P("x")))
    got = jaxpickle.loads(jaxpickle.dumps(array))
    assert got.sharding == array.sharding
    assert type(got.sharding) is NamedSharding
    moved = jaxpickle.loads(jaxpickle.dumps(array), devices="cpu:6")
    assert moved.sharding.mesh == Mesh(np.array(jax.devices()[6:7]), ("x",))


HALVES = {"cpu:0": "cpu:0", "cpu:1": "cpu:0", "cpu:2": "cpu:1", "cpu:3": "cpu:1"}


@pytest.mark.parametrize("piece", ["mesh", "sharding", "array", "function", "keys", "ref"])
@pytest.mark.parametrize("devices", [HALVES, {"cpu:1": "cpu:0"}])
def test_between_one_to_one_and_all_to_one_is_refused(
    devices: dict[str, str], piece: str, states: dict[str, bytes]
) -> None:
    """A mapping that is neither raises `PlacementError`, which shows the `Mesh` form."""
    with pytest.raises(PlacementError, match=r"devices=jax\.sharding\.Mesh\(") as caught:
        jaxpickle.loads(states[piece], devices=devices)
    assert caught.value.names == tuple(cpus(0, 1, 2, 3))


def test_the_fallback_is_for_missing_devices_alone() -> None:
    """`raise_on_missing_device=False` mends no mapping that is neither."""
    with pytest.raises(PlacementError, match="fewer devices, but not one"):
        jaxpickle.loads(stream(4), devices=HALVES, raise_on_missing_device=False)
