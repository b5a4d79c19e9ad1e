"""Shardings that few arrays have: partial sums, reduced axes, and JAX's HLO shardings."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import jaxpickle
from jaxpickle.errors import PlacementError
from placements.together import cpus, grid, name_of

MESH = jax.make_mesh(
    (2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices()[:4]
)
SWAP = {"cpu:0": "cpu:3", "cpu:3": "cpu:0"}


def partial_sums() -> jax.Array:
    """Returns a dot product whose sum over x has not been taken: each half on two devices."""
    with jax.set_mesh(MESH):
        array = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(MESH, P("x")))
        dot = jax.jit(lambda a: jnp.einsum("i,i->", a, a, out_sharding=P(unreduced={"x"})))
        return dot(array)


@pytest.mark.versions
@pytest.mark.parametrize("devices", [None, SWAP])
def test_partial_sums_stay_on_their_devices(devices: Any) -> None:
    """An array of partial sums keeps each device's own, and adds up to the same."""
    array = partial_sums()
    got = jaxpickle.loads(jaxpickle.dumps(array), devices=devices)
    assert got.sharding.spec == array.sharding.spec
    assert jax.typeof(got) == jax.typeof(array)
    parts = [float(shard.data) for shard in got.addressable_shards]
    assert parts == [14.0, 14.0, 126.0, 126.0]
    with jax.set_mesh(got.sharding.mesh):
        assert float(jax.reshard(got, P())) == 140.0


@pytest.mark.parametrize(
    "devices",
    ["cpu:2", Mesh(np.array(jax.devices()[:4]).reshape(4, 1), ("x", "y")), grid(8)],
    ids=["device", "other_shape", "larger"],
)
def test_partial_sums_have_no_other_place(devices: Any) -> None:
    """On a mesh of another shape they would add up to something else: `PlacementError`."""
    data = jaxpickle.dumps(partial_sums())
    with pytest.raises(PlacementError, match=r"partial sums.*jax\.reshard"):
        jaxpickle.loads(data, devices=devices)


def test_partial_sums_on_a_like_mesh() -> None:
    """On a mesh of the same shape they are what they were."""
    like = Mesh(np.array(jax.devices()[4:]).reshape(2, 2), ("x", "y"), axis_types=MESH.axis_types)
    got = jaxpickle.loads(jaxpickle.dumps(partial_sums()), devices=like)
    with jax.set_mesh(like):
        assert float(jax.reshard(got, P())) == 140.0


def hlo_sharding() -> Any:
    """Returns the sharding of a grid as XLA writes it, without its mesh."""
    gspmd: Any = jaxpickle._jax.shardings.GSPMDSharding
    named = NamedSharding(grid(4), P("x", "y"))
    return gspmd(tuple(jax.devices()[:4]), named._to_xla_hlo_sharding(2))


@pytest.mark.versions
@pytest.mark.parametrize(("devices", "landed"), [(None, [0, 1, 2, 3]), (SWAP, [3, 1, 2, 0])])
def test_hlo_sharding_moves_as_a_mesh_does(devices: Any, landed: list[int]) -> None:
    """Each shard goes to its device's target; without `devices=` the sharding is equal."""
    values = np.arange(32.0).reshape(4, 8)
    array = jax.device_put(values, hlo_sharding())
    got, alone = jaxpickle.loads(jaxpickle.dumps((array, array.sharding)), devices=devices)
    assert type(got.sharding) is type(array.sharding)
    assert got.sharding == alone
    assert (got.sharding == array.sharding) is (devices is None)
    first = [shard for shard in got.addressable_shards if shard.index[0].start in (0, None)]
    assert [name_of(shard.device) for shard in got.addressable_shards] == cpus(*landed)
    assert len(first) == 2
    np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize(
    ("options", "committed"),
    [({"devices": "cpu:2"}, True), ({"raise_on_missing_device": False}, False)],
)
def test_hlo_sharding_collapses(options: Any, committed: bool) -> None:
    """Onto one device it is that device's sharding, since it has no axes to keep."""
    array = jax.device_put(np.arange(32.0).reshape(4, 8), hlo_sharding())
    data = jaxpickle.dumps(array).replace(b"cpu:3", b"tpu:3")
    got = jaxpickle.loads(data, **options)
    assert type(got.sharding) is SingleDeviceSharding
    assert got.committed is committed
    np.testing.assert_array_equal(got, array)
