"""Meshes from their description: over devices of this process, or over none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh

from jaxpickle._jax import shardings as private
from jaxpickle.placements.saved import SavedMesh, axis_name

__all__ = ["EMPTY", "build", "build_abstract"]

EMPTY = Mesh(np.empty((), dtype=object), ())
"""The mesh of no device, which is the same everywhere."""


def build(devices: list[jax.Device], shape: Sequence[int], axes: Any, types: Sequence[str]) -> Mesh:
    """Return the mesh over some devices.

    Args:
        devices: the devices, in C order.
        shape: how many there are along each axis.
        axes: the names of the axes, as the description holds them.
        types: the names of their types.
    """
    grid = np.empty(len(devices), dtype=object)
    grid[:] = devices
    return Mesh(grid.reshape(shape), tuple(map(axis_name, axes)), axis_types=_axis_types(types))


def build_abstract(saved: SavedMesh) -> AbstractMesh:
    """Return an abstract mesh, which names no devices and is the same everywhere."""
    axes, shape, types, device = saved
    return AbstractMesh(
        shape,
        tuple(map(axis_name, axes)),
        axis_types=_axis_types(types),
        abstract_device=private.build_abstract_device(device),
    )


def _axis_types(names: Sequence[str]) -> tuple[AxisType, ...]:
    return tuple(AxisType[name] for name in names)
