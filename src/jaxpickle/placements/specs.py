"""PartitionSpecs against a mesh: built from their description, checked, and fitted to a shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from jaxpickle._jax import shardings as private
from jaxpickle.errors import PlacementError
from jaxpickle.placements.saved import UNCONSTRAINED, SavedMesh, SavedSpec, axis_name
from jaxpickle.placements.session import warn_once

__all__ = ["build", "check_partial_sums", "fitted", "laid_over"]


def build(saved: SavedSpec, mesh: Any = None) -> PartitionSpec:
    """Return the PartitionSpec that a description means.

    Args:
        saved: its description.
        mesh: the mesh that it goes over, whose axes it must know; None for any.

    Raises:
        PlacementError: it names an axis that ``mesh`` lacks.
    """
    partitions, unreduced, reduced, kind = saved
    spec = private.spec_of(
        tuple(map(_partition, partitions)),
        set(map(axis_name, unreduced)),
        set(map(axis_name, reduced)),
        kind,
    )
    if mesh is not None:
        lacking = [axis for axis in _axes(spec) if axis not in mesh.axis_names]
        if lacking:
            raise PlacementError(
                f"a saved {spec} names the axis {lacking[0]!r}, and the mesh that it should be "
                f"laid over has the axes {tuple(mesh.axis_names)}. Give that mesh an axis "
                f"{lacking[0]!r} (of size 1, if need be): devices=jax.sharding.Mesh(...)",
                names=[str(axis) for axis in lacking],
                available=[str(axis) for axis in mesh.axis_names],
            )
    return spec


def laid_over(
    mesh: Any, saved: SavedSpec, memory_kind: str | None, ids: tuple[int, ...] | None
) -> NamedSharding:
    """Return the NamedSharding over a mesh that a saved spec means.

    Args:
        mesh: the mesh here.
        saved: the description of the spec.
        memory_kind: the kind of memory.
        ids: the order of devices, where the sharding has one of its own.

    Raises:
        PlacementError: the mesh lacks an axis, or has it of a type that the spec cannot use.
    """
    spec = build(saved, mesh)
    try:
        return private.named_sharding(mesh, spec, memory_kind, ids)
    except ValueError as error:
        raise PlacementError(f"a saved {spec} does not fit the mesh {mesh}: {error}") from error


def fitted(sharding: NamedSharding, shape: tuple[int, ...]) -> NamedSharding:
    """Return the sharding with those axes left out that do not divide a dimension.

    Args:
        sharding: what the array should get.
        shape: the array's shape.
    """
    mesh, spec = sharding.mesh, sharding.spec
    given = private.partitions(spec)
    parts = tuple(_dividing(part, size, mesh) for part, size in zip(given, shape, strict=False))
    if parts == given:
        return sharding
    kind = private.unreduced_kind(spec)
    fitting = private.spec_of(parts, set(spec.unreduced), set(spec.reduced), kind)
    warn_once(
        f"an array of shape {shape} is not divided by the axes of {spec} over "
        f"{dict(mesh.shape)}; it was laid out as {fitting}, replicated along the others",
        about="indivisible",
    )
    ids = private.logical_device_ids(sharding)
    return private.named_sharding(mesh, fitting, sharding.memory_kind, ids)


def check_partial_sums(saved_mesh: SavedMesh, saved_spec: SavedSpec, mesh: Any) -> None:
    """Refuse to lay partial sums, which belong to their devices, over a mesh of another shape.

    Args:
        saved_mesh: the mesh over which an array lay.
        saved_spec: its spec there.
        mesh: the mesh over which it should land.

    Raises:
        PlacementError: it holds partial sums, and the mesh is not of the shape that it was.
    """
    axes, shape, *_ = saved_mesh
    was, now = dict(zip(map(axis_name, axes), shape, strict=True)), dict(mesh.shape)
    if saved_spec[1] and list(was.items()) != list(now.items()):
        raise PlacementError(
            f"an array of partial sums over {tuple(map(axis_name, saved_spec[1]))} keeps its "
            f"values spread over the mesh {was}, and cannot land on {now}. Sum it before pickling: "
            "jax.reshard(x, a_spec_without_unreduced_axes)",
            names=[str(axis) for axis in was],
            available=[str(axis) for axis in now],
        )


def _dividing(part: Any, size: int, mesh: Any) -> Any:
    """Return the axes of one dimension, less those that do not divide its size."""
    if part is None:
        return None
    axes = part if isinstance(part, tuple) else (part,)
    kept, ways = [], 1
    for axis in axes:
        if size % (ways * mesh.shape[axis]) == 0:
            kept.append(axis)
            ways *= mesh.shape[axis]
    if len(kept) == len(axes):
        return part
    return tuple(kept) if kept else None


def _axes(spec: PartitionSpec) -> Iterator[Any]:
    for part in private.partitions(spec):
        if part is not None and part is not PartitionSpec.UNCONSTRAINED:
            yield from part if isinstance(part, tuple) else (part,)
    yield from spec.unreduced
    yield from spec.reduced


def _partition(part: Any) -> Any:
    if part == UNCONSTRAINED:
        return PartitionSpec.UNCONSTRAINED
    return tuple(map(axis_name, part)) if isinstance(part, tuple) else axis_name(part)
