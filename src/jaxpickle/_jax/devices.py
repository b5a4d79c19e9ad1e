"""Device internals: the class of memories, and the memory of a kind."""

from __future__ import annotations

from typing import Any

import jax
from jaxlib import _jax as jaxlib_module

__all__ = ["Memory", "device_of", "memory"]

Memory: Any = jaxlib_module.Memory
"""The class of the memories of a device."""


def device_of(memory: Any) -> jax.Device:
    """Return the device that a memory belongs to."""
    return memory.addressable_by_devices()[0]  # type: ignore[no-any-return]


def memory(device: jax.Device, kind: str | None) -> Any:
    """Return the memory of a kind of a device; its default one where it has no such."""
    return device.default_memory() if kind is None else device.memory(kind)
