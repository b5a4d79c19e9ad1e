"""ShapeDtypeStruct's private and version-bound fields, as plain data and back."""

from __future__ import annotations

import inspect
from typing import Any

import jax
from jax.experimental.layout import Format

__all__ = ["build_manual_axes", "build_shape_dtype", "manual_axes", "memory_space", "place"]

ManualAxes = tuple[list[str], list[str], list[str], str | None]

_TAKES_MEMORY_SPACE = "_memory_space" in inspect.signature(jax.ShapeDtypeStruct).parameters


def place(struct: jax.ShapeDtypeStruct) -> Any:
    """Return the sharding that the struct was made with: a Format where it has a layout.

    Its property needs a mesh in the context, where it was made with a PartitionSpec.
    """
    if struct._dll is None:
        return struct._sharding
    return Format(struct._dll, struct._sharding)


def memory_space(struct: jax.ShapeDtypeStruct) -> str | None:
    """Return the name of the memory space, or None; before JAX 0.11.2 there is none."""
    space = getattr(struct, "_memory_space", None)
    return None if space is None else str(space.name)


def manual_axes(struct: jax.ShapeDtypeStruct) -> ManualAxes | None:
    """Return the axes that are varying, unreduced and reduced, and how they will be reduced."""
    axes = struct.manual_axis_type
    if axes is None:
        return None
    kind = getattr(axes, "unreduced_kind", None)
    return (
        sorted(axes.varying),
        sorted(axes.unreduced),
        sorted(axes.reduced),
        None if kind is None else str(kind.name),
    )


def build_manual_axes(fields: ManualAxes | None) -> Any:
    """Return the ManualAxisType; before JAX 0.11 unreduced always means a sum."""
    if fields is None:
        return None
    varying, unreduced, reduced, kind = fields
    extra = {}
    if kind is not None and hasattr(jax.sharding, "UnreducedKind"):
        extra["unreduced_kind"] = jax.sharding.UnreducedKind[kind]
    elif kind not in (None, "sum"):
        raise ValueError(f"JAX {jax.__version__} has no unreduced_kind {kind!r}")
    return jax.sharding.ManualAxisType(
        varying=frozenset(varying),
        unreduced=frozenset(unreduced),
        reduced=frozenset(reduced),
        **extra,
    )


def build_shape_dtype(shape: tuple[Any, ...], dtype: Any, space: str | None, **fields: Any) -> Any:
    """Return the struct; where JAX keeps no memory space in it, it is the sharding's anyway."""
    if space is not None and _TAKES_MEMORY_SPACE:
        fields["_memory_space"] = jax.memory.Space[space]
    return jax.ShapeDtypeStruct(shape, dtype, **fields)
