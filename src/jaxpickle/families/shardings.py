"""Devices, memories, meshes, shardings, specs, layouts and formats, each as a record.

What lands elsewhere asks the resolver when it is built; what names no device does not.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.experimental.layout import Format, Layout
from jax.sharding import AbstractMesh, Mesh, PartitionSpec, Sharding

from jaxpickle._jax import devices as private
from jaxpickle.families import describes, describes_kind
from jaxpickle.placements import here, memories, meshes, saved, specs
from jaxpickle.placements.session import current_resolver
from jaxpickle.records import Reduced, builds, corrupt, describe

__all__: list[str] = []


@describes(jax.Device)
def _describe_device(device: jax.Device) -> Reduced:
    return describe("device/1", saved.saved_device(device))


@builds("device/1")
def _build_device(name: str) -> jax.Device:
    return current_resolver().device(name)


@describes(private.Memory)
def _describe_memory(memory: Any) -> Reduced:
    device = private.device_of(memory)
    kind = "default" if memory == device.default_memory() else memory.kind
    return describe("memory/1", saved.saved_device(device), kind)


@builds("memory/1")
def _build_memory(name: str, kind: str) -> Any:
    device = current_resolver().device(name)
    known = here.memory_kind(device, kind)
    if known is None:
        memories.warn(kind, device)
    return private.memory(device, known)


@describes(Mesh)
def _describe_mesh(mesh: Mesh) -> Reduced:
    return describe("mesh/1", saved.saved_mesh(mesh))


@builds("mesh/1")
def _build_mesh(mesh: saved.SavedMesh) -> Mesh:
    if len(mesh) != 4:
        raise corrupt("mesh/1", "has not four fields")
    return current_resolver().mesh(mesh)


@describes(AbstractMesh)
def _describe_abstract_mesh(mesh: AbstractMesh) -> Reduced:
    return describe("abstract_mesh/1", saved.saved_mesh(mesh))


@builds("abstract_mesh/1")
def _build_abstract_mesh(mesh: saved.SavedMesh) -> AbstractMesh:
    return meshes.build_abstract(mesh)


@describes_kind(Sharding)
def _describe_sharding(sharding: Sharding) -> Reduced:
    return describe("sharding/1", saved.saved_sharding(sharding))


@builds("sharding/1")
def _build_sharding(sharding: saved.SavedSharding) -> Sharding:
    return current_resolver().sharding(sharding)


@describes(PartitionSpec)
def _describe_spec(spec: PartitionSpec) -> Reduced:
    return describe("spec/1", saved.saved_spec(spec))


@builds("spec/1")
def _build_spec(spec: saved.SavedSpec) -> PartitionSpec:
    return specs.build(spec)


@describes(Layout)
def _describe_layout(layout: Layout) -> Reduced:
    return describe(
        "layout/1", layout.major_to_minor, layout.tiling, layout.sub_byte_element_size_in_bits
    )


@builds("layout/1")
def _build_layout(major_to_minor: tuple[int, ...], tiling: Any, bits: int) -> Layout:
    return Layout(major_to_minor, tiling, bits)


@describes(Format)
def _describe_format(format_: Format) -> Reduced:
    return describe("format/1", format_.layout, format_.sharding)


@builds("format/1")
def _build_format(layout: Any, sharding: Sharding | None) -> Format:
    return Format(layout, sharding)
