"""What a stream says of a place: devices, meshes, shardings and layouts as plain data.

A description is made of strings, ints and tuples alone, so that reading it builds nothing.
Equal objects share one description, which pickle therefore stores once; its strings are
ours alone, so that whether a user's string is the same object changes no byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from jaxpickle._jax import shardings as private
from jaxpickle.errors import PicklingError
from jaxpickle.placements import here
from jaxpickle.records import own

__all__ = [
    "UNCONSTRAINED",
    "SavedArray",
    "SavedMesh",
    "SavedSharding",
    "SavedSpec",
    "axis_name",
    "saved_device",
    "saved_mesh",
    "saved_place",
    "saved_sharding",
    "saved_spec",
]

SavedMesh = tuple[Any, ...]
"""``(axis names, shape, axis types, device names in C order)``."""

SavedSpec = tuple[Any, ...]
"""``(partitions, unreduced axes, reduced axes, kind of unreduced or None)``."""

SavedSharding = tuple[Any, ...]
"""One of ``("single", device, memory kind)``,
``("named", mesh, spec, memory kind, logical device ids)``, ``("abstract", mesh, ...)`` or
``("hlo", devices, serialized HloSharding, memory kind)``.  A memory kind is a name,
``"default"`` for the device's default one, or None where none was given."""

UNCONSTRAINED = b"unconstrained"
"""Stands for ``PartitionSpec.UNCONSTRAINED`` among the axis names of a spec."""

_MARK = "="
_SINGLE, _NAMED, _ABSTRACT, _HLO = map(own, ("single", "named", "abstract", "hlo"))

_cache: dict[Any, Any] = {}
_CACHE_LIMIT = 100_000


class SavedArray(NamedTuple):
    """Where an array lay: its sharding, its commitment, and its layout where it is unusual."""

    sharding: SavedSharding
    commitment: str
    layout: tuple[int, ...] | None


def axis_name(saved: Any) -> Any:
    """Return the axis name that a description holds."""
    return saved.removeprefix(_MARK) if type(saved) is str else saved


def saved_device(device: jax.Device) -> str:
    """Return the name of a device of this process.

    Raises:
        PicklingError: another process owns it.
    """
    name = here.name_of(device)
    if name is None:
        raise PicklingError(
            f"{device!r} belongs to process {device.process_index} of a jax.distributed job, "
            f"and this is process {jax.process_index()}; only what lies on this process's own "
            "devices can be pickled. Pickle it in each process: x.addressable_shards, or a "
            "mesh over jax.local_devices()",
            type_name="jax.Device",
        )
    return own(name)


def saved_mesh(mesh: Mesh | AbstractMesh) -> SavedMesh:
    """Return the description of a mesh; an abstract mesh has no device names."""
    return _remembered(("mesh", mesh), _describe_mesh, mesh)  # type: ignore[no-any-return]


def saved_spec(spec: PartitionSpec) -> SavedSpec:
    """Return the description of a PartitionSpec."""
    kind = private.unreduced_kind(spec)
    return (
        tuple(_partition(part) for part in private.partitions(spec)),
        tuple(_axis(axis) for axis in sorted(spec.unreduced, key=str)),
        tuple(_axis(axis) for axis in sorted(spec.reduced, key=str)),
        None if kind is None else own(kind),
    )


def saved_sharding(sharding: jax.sharding.Sharding) -> SavedSharding:
    """Return the description of a sharding.

    Raises:
        PicklingError: it spans processes, or is of a kind that JAX does not export.
    """
    key = ("sharding", sharding)
    return _remembered(key, _describe_sharding, sharding)  # type: ignore[no-any-return]


def saved_place(
    sharding: jax.sharding.Sharding, committed: bool, layout: tuple[int, ...] | None = None
) -> SavedArray:
    """Return the description of where an array lies.

    Args:
        sharding: the array's sharding.
        committed: whether it was put there, or JAX chose.
        layout: its major-to-minor order where it is not the default one.
    """
    default = None if committed else here.default_device()
    key = ("place", sharding, default, layout)
    found = _cache.get(key)
    if found is None:
        commitment = "committed"
        if default is not None:
            commitment = "default" if sharding.device_set == {default} else "elsewhere"
        place = tuple(SavedArray(saved_sharding(sharding), own(commitment), layout))
        found = _remember(key, place)
    return found  # type: ignore[no-any-return]


def _describe_mesh(mesh: Mesh | AbstractMesh) -> SavedMesh:
    axes = tuple(_axis(name) for name in mesh.axis_names)
    shape = tuple(int(size) for size in mesh.axis_sizes)
    types = tuple(own(kind.name) for kind in mesh.axis_types)
    if isinstance(mesh, AbstractMesh):
        return (axes, shape, types, private.abstract_device(mesh))
    if mesh.empty:
        return ((), (), (), ())
    return (axes, shape, types, tuple(saved_device(device) for device in mesh.devices.flat))


def _describe_sharding(sharding: jax.sharding.Sharding) -> SavedSharding:
    if isinstance(sharding, SingleDeviceSharding):
        (device,) = sharding.device_set
        return (_SINGLE, saved_device(device), _memory_kind(sharding, device))
    if isinstance(sharding, NamedSharding):
        mesh, spec = sharding.mesh, saved_spec(sharding.spec)
        ids = private.logical_device_ids(sharding)
        if isinstance(mesh, AbstractMesh):
            return (_ABSTRACT, saved_mesh(mesh), spec, _memory_kind(sharding, None), ids)
        kind = _memory_kind(sharding, mesh.devices.flat[0])
        return (_NAMED, saved_mesh(mesh), spec, kind, ids)
    hlo = private.hlo_sharding(sharding)
    if hlo is None:
        raise PicklingError(
            f"a {type(sharding).__name__} cannot be described; use a NamedSharding",
            type_name=type(sharding).__name__,
        )
    devices, proto = hlo
    named = tuple(saved_device(device) for device in devices)
    return (_HLO, named, proto, _memory_kind(sharding, devices[0]))


def _memory_kind(sharding: jax.sharding.Sharding, device: jax.Device | None) -> str | None:
    kind = sharding.memory_kind
    if kind is None:
        return None
    is_default = device is not None and kind == device.default_memory().kind
    return own("default" if is_default else kind)


def _partition(part: Any) -> Any:
    if part is PartitionSpec.UNCONSTRAINED:
        return UNCONSTRAINED
    return tuple(_axis(axis) for axis in part) if isinstance(part, tuple) else _axis(part)


def _axis(name: Any) -> Any:
    """Return an axis name as descriptions hold it: with a mark in front, so that it is ours.

    Python keeps one object, or a few, for a string of one character: no copy would be ours.
    """
    return own(f"{_MARK}{name}") if type(name) is str else name


def _remembered(key: Any, describe: Any, obj: Any) -> Any:
    found = _cache.get(key)
    return _remember(key, describe(obj)) if found is None else found


def _remember(key: Any, value: Any) -> Any:
    if len(_cache) >= _CACHE_LIMIT:
        _cache.clear()
    return _cache.setdefault(key, value)  # another thread may have been first
