"""Sharding internals: fields that have no public name, and HLO shardings as bytes."""

from __future__ import annotations

from typing import Any

import jax
from jax._src import mesh as jax_mesh
from jax._src import sharding_impls
from jax._src.lib import xla_client
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

__all__ = [
    "GSPMDSharding",
    "abstract_device",
    "build_abstract_device",
    "build_hlo_sharding",
    "hlo_sharding",
    "logical_device_ids",
    "named_sharding",
    "partitions",
    "spec_of",
    "unreduced_kind",
]

GSPMDSharding = sharding_impls.GSPMDSharding


def abstract_device(mesh: AbstractMesh) -> tuple[Any, ...] | None:
    """Return ``(kind, cores, platform)`` of the device that an abstract mesh is for, or None."""
    device = mesh.abstract_device
    if device is None:
        return None
    return (device.device_kind, device.num_cores, getattr(device, "platform", None))


def build_abstract_device(fields: tuple[Any, ...] | None) -> Any:
    """Return the abstract device; before JAX 0.12 it has no platform."""
    if fields is None:
        return None
    kind, cores, platform = fields
    names = {"device_kind": kind, "num_cores": cores}
    if "platform" in jax_mesh.AbstractDevice.__dataclass_fields__:
        names["platform"] = platform
    return jax_mesh.AbstractDevice(**names)


def logical_device_ids(sharding: NamedSharding) -> tuple[int, ...] | None:
    """Return the order of devices that a NamedSharding overrides, or None."""
    ids = getattr(sharding, "_logical_device_ids", None)
    return None if ids is None else tuple(ids)


def named_sharding(
    mesh: Any, spec: PartitionSpec, memory_kind: str | None, ids: tuple[int, ...] | None
) -> NamedSharding:
    """Return a NamedSharding, with its order of devices where it has one of its own."""
    if ids is None:
        return NamedSharding(mesh, spec, memory_kind=memory_kind)
    return NamedSharding(mesh, spec, memory_kind=memory_kind, _logical_device_ids=ids)


def partitions(spec: PartitionSpec) -> tuple[Any, ...]:
    """Return the partitions of a spec, also where it has unreduced axes."""
    return tuple(spec._partitions)


def unreduced_kind(spec: PartitionSpec) -> str | None:
    """Return the name of how unreduced axes are to be reduced; JAX has it from 0.11."""
    kind = getattr(spec, "unreduced_kind", None)
    return None if kind is None else str(kind.name)


def spec_of(
    partitions: tuple[Any, ...], unreduced: set[Any], reduced: set[Any], kind: str | None
) -> PartitionSpec:
    """Return a PartitionSpec; before JAX 0.11 unreduced always means a sum."""
    extra = {}
    if kind is not None and hasattr(jax.sharding, "UnreducedKind"):
        extra["unreduced_kind"] = jax.sharding.UnreducedKind[kind]
    elif kind not in (None, "sum"):
        raise ValueError(f"JAX {jax.__version__} has no unreduced_kind {kind!r}")
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced, **extra)


def hlo_sharding(sharding: jax.sharding.Sharding) -> tuple[tuple[jax.Device, ...], bytes] | None:
    """Return the devices of a GSPMDSharding and its HLO sharding as bytes, or None."""
    if not isinstance(sharding, GSPMDSharding):
        return None
    proto = sharding._hlo_sharding.to_proto()
    return tuple(sharding._device_assignment), proto.SerializeToString()


def build_hlo_sharding(
    devices: tuple[jax.Device, ...], proto: bytes, memory_kind: str | None
) -> jax.sharding.Sharding:
    """Return the GSPMDSharding over ``devices``."""
    op = xla_client.OpSharding()
    op.ParseFromString(proto)
    return GSPMDSharding(devices, op, memory_kind=memory_kind)
