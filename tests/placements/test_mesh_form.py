"""`devices=` as a `jax.sharding.Mesh`: every saved mesh that shares an axis with it becomes it."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxpickle
from jaxpickle.errors import PlacementError, PlacementWarning
from placements.together import VALUES, cpus, expected, grid, report, stream, where

ALL = np.array(jax.devices())


def mesh_of(devices: list[int], *axes: tuple[str, int]) -> Mesh:
    """Returns a mesh over some devices, with these axes of these sizes."""
    names, shape = zip(*axes, strict=True)
    return Mesh(ALL[devices].reshape(shape), names)


@pytest.mark.parametrize(
    "mesh",
    [
        mesh_of([0, 1, 2, 3], ("x", 2), ("y", 2)),
        mesh_of([3, 2, 1, 0], ("x", 2), ("y", 2)),
        mesh_of([5], ("x", 1), ("y", 1)),
        mesh_of([6, 7], ("x", 1), ("y", 2)),
        mesh_of([0, 1, 2, 3, 4, 5, 6, 7], ("x", 2), ("y", 4)),
        mesh_of([0, 1, 2, 3, 4, 5, 6, 7], ("y", 8), ("x", 1)),
        mesh_of([4, 5, 6, 7], ("x", 2), ("z", 2), ("y", 1)),
    ],
    ids=["same", "permuted", "one", "smaller", "larger", "other_order", "more_axes"],
)
def test_state_is_laid_over_the_mesh(mesh: Mesh) -> None:
    """Every saved mesh with a common axis becomes this one, resharded on load, and all runs.

    All else follows the table.
    """
    got = report(jaxpickle.loads(stream(4), devices=mesh))
    assert got == expected(
        *where(mesh),
        True,
        device="cpu:3",
        committed=("cpu:3", True),
        uncommitted=("cpu:0", False),
        elsewhere=("cpu:3", False),
    )


def test_the_very_mesh() -> None:
    """What comes back is laid over the mesh that was given, not a like one."""
    mesh = mesh_of([4, 5], ("x", 2))
    assert jaxpickle.loads(jaxpickle.dumps(mesh_of([0, 1], ("x", 2))), devices=mesh) is mesh


def test_no_common_axis_follows_the_table() -> None:
    """A saved mesh that has no axis name in common with it goes where the table says."""
    array = jax.device_put(VALUES, NamedSharding(mesh_of([2, 3], ("other", 2)), P("other")))
    got = jaxpickle.loads(jaxpickle.dumps(array), devices=grid(8))
    assert got.sharding == array.sharding
    assert got.committed


@pytest.mark.parametrize("piece", ["sharding", "array", "function", "struct"])
def test_axis_that_the_mesh_lacks(piece: str, states: dict[str, bytes]) -> None:
    """A saved spec that names one: `PlacementError` with the spec and the axes."""
    mesh = mesh_of([0, 1], ("x", 2))
    with pytest.raises(PlacementError, match=r"\('x', 'y'\).*the axes \('x',\)") as caught:
        jaxpickle.loads(states[piece], devices=mesh)
    assert caught.value.names == ("y",)
    assert caught.value.available == ("x",)


def test_spec_need_not_name_all_axes(states: dict[str, bytes]) -> None:
    """What names only axes that the mesh has is laid over it: here the keys, over x alone."""
    got = jaxpickle.loads(states["keys"], devices=mesh_of([0, 1], ("x", 2)))
    assert where(got) == (({"x": 2}, cpus(0, 1), ("x",)), True)


def test_indivisible_dimension_is_replicated_with_one_warning() -> None:
    """An array with a dimension that an axis does not divide is replicated along it."""
    saved = grid(4)
    arrays = [
        jax.device_put(np.arange(n * 8.0).reshape(n, 8), NamedSharding(saved, P("x", "y")))
        for n in (2, 4, 6)
    ]
    mesh = mesh_of([0, 1, 2, 3, 4, 5], ("x", 3), ("y", 2))
    with pytest.warns(PlacementWarning, match=r"\(2, 8\).*replicated") as warned:
        got = jaxpickle.loads(jaxpickle.dumps(arrays), devices=mesh)
    assert len(warned) == 1
    assert [array.sharding.spec for array in got] == [P(None, "y"), P(None, "y"), P("x", "y")]
    for array, original in zip(got, arrays, strict=True):
        np.testing.assert_array_equal(array, original)


def test_part_of_a_dimension_is_kept() -> None:
    """Of two axes over one dimension, the one that divides it stays."""
    array = jax.device_put(np.arange(8.0), NamedSharding(grid(4), P(("x", "y"))))
    with pytest.warns(PlacementWarning):
        got = jaxpickle.loads(
            jaxpickle.dumps(array), devices=mesh_of([0, 1, 2, 3, 4, 5], ("x", 2), ("y", 3))
        )
    assert where(got) == (({"x": 2, "y": 3}, cpus(*range(6)), ("x",)), True)
    np.testing.assert_array_equal(got, np.arange(8.0))


def test_shardings_and_functions_keep_their_spec(states: dict[str, bytes]) -> None:
    """Only arrays are fitted: no warning for the rest, and the spec is the saved one."""
    mesh = mesh_of([0, 1, 2], ("x", 3), ("y", 1))
    for piece in ("sharding", "struct"):
        got = jaxpickle.loads(states[piece], devices=mesh)
        assert getattr(got, "sharding", got) == NamedSharding(mesh, P("x", "y"))
    function = jaxpickle.loads(states["function"], devices=mesh)
    values = jax.device_put(np.ones((6, 3)), NamedSharding(mesh, P("x", "y")))
    keys = jax.random.wrap_key_data(np.zeros((6, 2), np.uint32))
    out = function(values, jax.device_put(keys, NamedSharding(mesh, P("x"))))
    assert out.sharding.mesh == mesh
