"""Functions by value whose body names a mesh: it goes where the mesh goes."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxpickle
from placements.together import GRID, ONE, VALUES, cpus, grid, where

SHARDING = NamedSharding(grid(4), P("x", "y"))
SHIFT = {f"cpu:{index}": f"cpu:{index + 4}" for index in range(4)}


def constrained() -> Callable[[jax.Array], jax.Array]:
    """Returns a function with a sharding of a mesh in its closure."""
    over_y = NamedSharding(grid(4), P("y"))
    return jax.jit(lambda a: jax.lax.with_sharding_constraint(2 * a, over_y))


def mapped() -> Callable[[jax.Array], jax.Array]:
    """Returns a function over the shards of a mesh."""
    both = P("x", "y")
    return jax.jit(jax.shard_map(lambda a: 2 * a, mesh=grid(4), in_specs=both, out_specs=both))


def plain() -> Callable[[jax.Array], jax.Array]:
    """Returns a function with only its result's sharding given."""
    return jax.jit(lambda a: 2 * a, out_shardings=SHARDING)


@pytest.mark.versions
@pytest.mark.parametrize("make", [constrained, mapped, plain])
@pytest.mark.parametrize(
    ("options", "mesh"),
    [
        ({}, (GRID[4], cpus(0, 1, 2, 3))),
        ({"devices": SHIFT}, (GRID[4], cpus(4, 5, 6, 7))),
        ({"devices": grid(8)}, (GRID[8], cpus(*range(8)))),
        ({"devices": "cpu:6"}, (ONE, ["cpu:6"])),
    ],
    ids=["table", "mapping", "mesh", "device"],
)
def test_function_runs_on_its_array(
    make: Callable[[], Callable[[jax.Array], jax.Array]], options: Any, mesh: Any
) -> None:
    """An array and the function over the same mesh agree and run together."""
    state = {"function": make(), "array": jax.device_put(VALUES, SHARDING)}
    got = jaxpickle.loads(jaxpickle.dumps(state), **options)
    out = got["function"](got["array"])
    np.testing.assert_array_equal(out, 2 * VALUES)
    assert where(out.sharding)[:2] == mesh


def test_function_falls_back_with_its_array() -> None:
    """Where devices are missing, the fallback collapses both onto the default device."""
    state = {"function": constrained(), "array": jax.device_put(VALUES, SHARDING)}
    data = jaxpickle.dumps(state).replace(b"cpu:3", b"tpu:3")
    with jax.default_device(jax.devices()[5]):
        got = jaxpickle.loads(data, raise_on_missing_device=False)
        out = got["function"](got["array"])
    assert where(out)[0][:2] == (ONE, ["cpu:5"])


def test_loading_inside_a_mesh_context() -> None:
    """A mesh in the context is not where saved arrays go."""
    array = jax.device_put(VALUES, SHARDING)
    data = jaxpickle.dumps((array, jax.numpy.ones(3)))
    kinds = (jax.sharding.AxisType.Explicit,)
    with jax.set_mesh(jax.make_mesh((4,), ("other",), axis_types=kinds)):
        sharded, single = jaxpickle.loads(data)
    assert sharded.sharding == array.sharding
    assert where(single) == ("cpu:0", False)
