"""Kinds of memory: what a saved one is on a device here, and a warning where it has none."""

from __future__ import annotations

import operator

import jax
from jax.sharding import SingleDeviceSharding

from jaxpickle.placements import here
from jaxpickle.placements.saved import SavedSharding
from jaxpickle.placements.session import warn_once

__all__ = ["check", "kind_here", "single", "warn"]


def single(device: jax.Device, kind: str | None) -> SingleDeviceSharding:
    """Return the sharding of what lies in a saved kind of memory of one device."""
    return SingleDeviceSharding(device, memory_kind=kind_here(device, kind))


def kind_here(device: jax.Device, kind: str | None) -> str | None:
    """Return what a saved kind of memory is on a device: its default one, if it has none such."""
    if kind is None:
        return None
    return here.memory_kind(device, kind) or device.default_memory().kind


def check(saved: SavedSharding, sharding: jax.sharding.Sharding) -> None:
    """Warn where a saved sharding is in another kind of memory here.

    That is apart from making the sharding, which happens once, and not in every load.

    Args:
        saved: what a stream says of it.
        sharding: what it has become.
    """
    kind = saved[3] if len(saved) > 3 else saved[2]
    if kind is not None and kind not in ("default", sharding.memory_kind):
        warn(kind, min(sharding.device_set, key=operator.attrgetter("id")))


def warn(kind: str, device: jax.Device) -> None:
    """Warn that what was saved in a kind of memory is in the default one of ``device`` now."""
    warn_once(
        f"{here.name_of(device)} has no memory of kind {kind!r}; what was saved in it is in "
        f"{device.default_memory().kind!r} now",
        about="memory kind",
    )
