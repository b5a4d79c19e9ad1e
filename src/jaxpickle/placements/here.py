"""The devices of this process: by name, the default one, and their memories."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.extend.backend as jax_backend

from jaxpickle.errors import MissingDeviceError
from jaxpickle.placements import names

__all__ = [
    "available",
    "default_device",
    "find",
    "has",
    "local_devices",
    "memory_kind",
    "missing",
    "name_of",
]

_GPUS = ("cuda", "rocm")


def local_devices(platform: str) -> tuple[jax.Device, ...]:
    """Return this process's own devices of a platform, in order; none where it has none."""
    try:
        return tuple(jax.local_devices(backend=platform))
    except RuntimeError:
        return ()


def available() -> list[str]:
    """Return the names of all devices of this process."""
    platforms = [_platform(client) for client in jax_backend.backends().values()]
    return [f"{p}:{i}" for p in dict.fromkeys(platforms) for i in range(len(local_devices(p)))]


def default_device() -> jax.Device:
    """Return the device where JAX puts new arrays now, ``jax.default_device`` included."""
    return jax_backend.get_default_device()


def find(name: str) -> jax.Device:
    """Return the device of this process that has a name.

    Args:
        name: ``"cuda:1"``, ``"gpu:1"``, or a bare platform for its first device.

    Raises:
        MissingDeviceError: there is none.
    """
    platform, index = names.split(name)
    devices = local_devices(platform)
    if index < len(devices):
        return devices[index]
    raise missing([name], "the saved object lies on", name)


def has(name: str) -> bool:
    """Say whether this process has a device of a name."""
    platform, index = names.split(name)
    return index < len(local_devices(platform))


def missing(wanted: list[str], why: str, key: str, also: str = "") -> MissingDeviceError:
    """Return the error for devices that are not here, with the calls that mend it.

    Args:
        wanted: their names.
        why: what needs them.
        key: what must be sent elsewhere, as a key of a mapping.
        also: a sentence on what else mends it.
    """
    there = available()
    instead = {key: there[0]}
    what = f"device {wanted[0]!r}" if len(wanted) == 1 else f"devices {', '.join(wanted)}"
    return MissingDeviceError(
        f"{why} {what}, which this process does not have; it has {_shortened(there)}. {also}"
        "For a load that is not ours, what follows goes into a block of jaxpickle.placement. Say "
        f"where to go instead, jaxpickle.loads(data, devices={instead!r}), or take the default "
        "device, jaxpickle.loads(data, raise_on_missing_device=False)",
        names=wanted,
        available=there,
    )


@functools.cache
def name_of(device: jax.Device) -> str | None:
    """Return the local name of a device, or None where another process owns it."""
    platform = _platform(device.client)
    devices = local_devices(platform)
    if device not in devices:
        return None
    return f"{platform}:{devices.index(device)}"


@functools.cache
def memory_kind(device: jax.Device, kind: str | None) -> str | None:
    """Return the memory kind that a saved one means on ``device``.

    Args:
        device: where the object lands.
        kind: a kind, ``"default"`` for the device's default one, or None for none given.

    Returns:
        The kind, or None where the device does not have it.
    """
    if kind == "default":
        return str(device.default_memory().kind)
    return kind if kind in {memory.kind for memory in device.addressable_memories()} else None


def _platform(client: Any) -> str:
    """Return ``cuda`` or ``rocm`` for what JAX calls ``gpu``, and JAX's own name else."""
    if client.platform in ("gpu", *_GPUS):
        version = client.platform_version.lower()
        return next((gpu for gpu in _GPUS if gpu in version), str(client.platform))
    return str(client.platform)


def _shortened(there: list[str]) -> str:
    if len(there) <= 16:
        return ", ".join(there)
    return f"{', '.join(there[:8])}, ... {there[-1]} ({len(there)} in all)"
