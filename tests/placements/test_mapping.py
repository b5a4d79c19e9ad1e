"""`devices=` as a mapping, on a whole state: it moves as one, and runs together where it lands."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpickle
from placements.together import GRID, ONE, VALUES, cpus, expected, grid, over_mesh, report, stream


@pytest.mark.parametrize(
    ("devices", "landed"),
    [
        ({f"cpu:{i}": f"cpu:{i + 4}" for i in range(4)}, (4, 5, 6, 7)),
        ({"cpu:0": "cpu:1", "cpu:1": "cpu:0"}, (1, 0, 2, 3)),
        ({"cpu:0": "cpu:3", "cpu:3": "cpu:2", "cpu:2": "cpu:0"}, (3, 1, 0, 2)),
        ({"cpu:[3]": "cpu:7"}, (0, 1, 2, 7)),
        ({"cpu:*": "cpu:*"}, (0, 1, 2, 3)),
    ],
)
def test_state_moves_one_to_one(devices: dict[str, str], landed: tuple[int, ...]) -> None:
    """For arrays and for every device inside meshes, shardings and functions; swaps work.

    Uncommitted arrays move too, and stay uncommitted.
    """
    got = report(jaxpickle.loads(stream(4), devices=devices))
    last = f"cpu:{landed[3]}"
    assert got == expected(
        GRID[4],
        cpus(*landed),
        True,
        device=last,
        committed=(last, True),
        uncommitted=(f"cpu:{landed[0]}", False),
        elsewhere=(last, False),
    )


@pytest.mark.parametrize("devices", [{"tpu:*": "cpu:*"}, {"*": "cpu:*"}])
def test_state_of_another_platform(devices: dict[str, str]) -> None:
    """`"cpu:*"` keeps the index: what lay on TPU 2 goes to CPU 2, and the mesh stays a mesh."""
    from_tpu = stream(4).replace(b"cpu:", b"tpu:")
    got = report(jaxpickle.loads(from_tpu, devices=devices))
    assert got == expected(
        GRID[4],
        cpus(0, 1, 2, 3),
        True,
        device="cpu:3",
        committed=("cpu:3", True),
        uncommitted=("cpu:0", False),
        elsewhere=("cpu:3", False),
    )


def test_each_shard_goes_to_its_own_device() -> None:
    """A swap moves the shards: what was on device 0 is on device 1, and the whole is the same."""
    array = over_mesh(grid(2))["array"]
    swap = {"cpu:0": "cpu:1", "cpu:1": "cpu:0"}
    moved = jaxpickle.loads(jaxpickle.dumps(array), devices=swap)
    halves = {shard.device.id: np.asarray(shard.data) for shard in moved.addressable_shards}
    np.testing.assert_array_equal(halves[1], VALUES[:4])
    np.testing.assert_array_equal(halves[0], VALUES[4:])
    np.testing.assert_array_equal(moved, VALUES)


@pytest.mark.parametrize("target", ["cpu:6", jax.devices()[6]], ids=["name", "device"])
def test_targets_may_be_devices(target: Any) -> None:
    """Targets are names or `jax.Device`s."""
    data = jaxpickle.dumps(jax.device_put(jnp.ones(3), jax.devices()[1]))
    got = jaxpickle.loads(data, devices={"cpu:1": target})
    assert (got.device.id, got.committed) == (6, True)


def test_default_as_target_is_uncommitted() -> None:
    """`"default"`: the default device, uncommitted, for every piece of a state."""
    with jax.default_device(jax.devices()[5]):
        got = report(jaxpickle.loads(stream(4), devices={"cpu:*": "default"}))
    singles = dict.fromkeys(("committed", "uncommitted", "elsewhere"), ("cpu:5", False))
    assert got == expected(ONE, ["cpu:5"], False, device="cpu:5", **singles)


def test_what_no_key_matches_stays() -> None:
    """What no key matches follows the table: each device of a mesh for itself."""
    mesh = jaxpickle.loads(jaxpickle.dumps(grid(4)), devices={"cpu:1": "cpu:6", "tpu:*": "cpu:7"})
    assert [device.id for device in mesh.devices.flat] == [0, 6, 2, 3]
