"""Sharded arrays: each distinct shard once, and each device its part, without a gather."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, SingleDeviceSharding

from jaxpickle._jax import arrays as private
from jaxpickle.errors import PicklingError
from jaxpickle.families.buffers import pack
from jaxpickle.families.parts import Bounds, Host, Parts, bounds_of, host_array, whole
from jaxpickle.placements.resolver import Place
from jaxpickle.placements.session import warn_once
from jaxpickle.records import corrupt, own

__all__ = ["PARTIAL", "build", "describe", "host_view"]

Order = tuple[int, ...]

PARTIAL = own("partial")
"""Marks the shards of an array of partial sums, of which each device has its own."""


def describe(array: Any) -> tuple[tuple[Any, ...], Order | None]:
    """Return the shards of an array and their layout, where that is unusual.

    Args:
        array: an array whose shards all lie in this process.

    Returns:
        ``((bounds, bytes), ...)``, each distinct part once; for an array of partial sums
        ``("partial", bytes, ...)``, one for each device.  Then the major-to-minor order.

    Raises:
        PicklingError: it spans processes.
    """
    if not array.is_fully_addressable:
        raise PicklingError(
            "this array spans the processes of a jax.distributed job, and holds only a part of "
            "its values here. Gather it first: "
            "jax.experimental.multihost_utils.process_allgather(x, tiled=True)",
            type_name="jax.Array",
        )
    parts = _distinct(array)
    for _, data in parts:
        data.copy_to_host_async()
    views = [(bounds, *host_view(data)) for bounds, data in parts]
    layout = views[0][2] if views else None
    if _is_partial(array.sharding):
        return (PARTIAL, *(pack(host) for _, host, _ in views)), layout
    return tuple((bounds, pack(host)) for bounds, host, _ in views), layout


def host_view(array: Any) -> tuple[Host, Order | None]:
    """Return a single-device array on the host in C order, and its order on the device.

    Returns:
        The values, C-contiguous and read-only, and the major-to-minor order where it is not that.
    """
    host = private.host_view(array)
    if host.ndim < 2:
        return host, None
    order = private.major_to_minor(array, host)
    unusual = order != tuple(range(host.ndim))
    host = np.ascontiguousarray(host)
    host.flags.writeable = False
    return host, order if unusual else None


def build(tag: str, aval: Any, place: Place, data: Any) -> jax.Array:
    """Return the array of some saved parts, each device's put straight on it.

    Args:
        tag: the record, for errors.
        aval: the abstract value of the whole.
        place: where it lands.
        data: what :func:`describe` returned, or the bytes of a whole array.

    Raises:
        CorruptError: the parts do not make the whole.
    """
    sharding: Any = place.sharding
    if type(data) is tuple and data[:1] == (PARTIAL,):
        hosts = _partial_hosts(tag, aval, sharding, data[1:])
        devices = list(sharding.mesh.devices.flat)
    else:
        indices = sharding.devices_indices_map(aval.shape)
        devices = list(indices)
        saved = data if type(data) is tuple else ((whole(aval.shape), data),)
        parts = Parts(tag, aval.shape, aval.dtype, saved)
        hosts = [parts.read(bounds_of(index, aval.shape)) for index in indices.values()]
    aval = private.placed_aval(aval, sharding)
    if place.layout is not None:
        return _laid_out(aval, place, hosts, devices)
    return private.make_array(aval, sharding, hosts, devices, place.committed)


def _distinct(array: Any) -> list[tuple[Bounds, Any]]:
    shards = array.addressable_shards
    if _is_partial(array.sharding):
        return [((), shard.data) for shard in shards]  # JAX gives partial sums no index
    parts: dict[Bounds, Any] = {}
    for shard in shards:
        parts.setdefault(bounds_of(shard.index, array.shape), shard.data)
    return list(parts.items())


def _partial_hosts(tag: str, aval: Any, sharding: Any, data: tuple[Any, ...]) -> list[Host]:
    if not _is_partial(sharding) or len(data) != sharding.num_devices:
        raise corrupt(tag, "has partial sums that its place does not fit")
    shape = sharding.shard_shape(aval.shape)
    return [host_array(tag, aval.dtype, shape, part) for part in data]


def _laid_out(aval: Any, place: Place, hosts: list[Host], devices: list[Any]) -> jax.Array:
    """Return the array in a layout of its own, or in the default one where that is refused."""
    assert place.layout is not None
    kind = place.sharding.memory_kind
    try:
        # A function that is being traced may load arrays too.
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            arrays = [
                jax.device_put(
                    host,
                    Format(Layout(place.layout), SingleDeviceSharding(device, memory_kind=kind)),
                )
                for host, device in zip(hosts, devices, strict=True)
            ]
    except (ValueError, RuntimeError) as error:
        warn_once(
            f"the layout {place.layout} of an array is not possible here: {error}", about="layout"
        )
        return private.make_array(aval, place.sharding, hosts, devices, place.committed)
    return private.join_arrays(aval, place.sharding, arrays, place.committed)


def _is_partial(sharding: Any) -> bool:
    return isinstance(sharding, NamedSharding) and bool(sharding.spec.unreduced)
