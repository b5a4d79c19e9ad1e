"""Array internals: the concrete class, host views without a cached copy, and cheap placement.

The public ``jax.device_put`` costs about 100 us for a small array, the batched entry below it
about 6 us (measured on JAX 0.10 to 0.12); and only that entry, and the constructor, can make
an array that is not committed to a device other than the default one, or of a weak type.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src import array as jax_array
from jax._src import config, core
from jax._src.interpreters import pxla
from jax._src.lib import xla_client

__all__ = [
    "ArrayImpl",
    "RefImpl",
    "Tracer",
    "abstract_value",
    "anew",
    "has_dtype",
    "host_view",
    "join_arrays",
    "major_to_minor",
    "make_array",
    "make_ref",
    "placed_aval",
    "ref_kind",
    "ref_value",
    "x64_enabled",
]

ArrayImpl: Any = jax_array.ArrayImpl
"""The class of concrete arrays, exactly."""

Tracer: Any = core.Tracer
"""The base of tracers."""

RefImpl: Any = core.Ref
"""The class of array references, exactly."""

_batched_device_put = getattr(xla_client, "batched_device_put", pxla.batched_device_put)


def host_view(array: Any) -> np.ndarray[Any, Any]:
    """Return the values of a single-device array on the host.

    On CPU this is a view of the array's own memory; from elsewhere it is a copy, which is not
    kept on the array as ``np.asarray`` would keep it.
    """
    (device,) = array.devices()
    if device.platform == "cpu":
        return np.asarray(array)
    fetch = getattr(array, "_single_device_array_to_np_array_did_copy", None)
    return np.asarray(array) if fetch is None else np.asarray(fetch()[0])


@functools.lru_cache(maxsize=4096)
def abstract_value(shape: tuple[int, ...], dtype: Any, weak_type: bool) -> Any:
    """Return the abstract value of an array, with a dtype that x64 mode does not narrow."""
    return core.ShapedArray(shape, dtype, weak_type=weak_type)


@functools.cache
def has_dtype(dtype: Any) -> bool:
    """Say whether this JAX has arrays of a dtype of numpy or ml_dtypes."""
    device = jax.local_devices()[0]
    sharding = jax.sharding.SingleDeviceSharding(device)
    aval = abstract_value((0,), dtype, False)
    try:
        make_array(aval, sharding, [np.empty(0, dtype)], [device], False)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def make_array(
    aval: Any, sharding: Any, shards: Sequence[Any], devices: Sequence[Any], committed: bool
) -> jax.Array:
    """Return an array made of host arrays, each put straight on its device.

    Args:
        aval: the abstract value of the whole.
        sharding: its sharding.
        shards: one host array for each device; the same one for replicas.
        devices: the devices, in the order of the sharding.
        committed: whether the array is committed to them.
    """
    arguments = (aval, sharding, shards, devices, committed)
    try:
        return _batched_device_put(*arguments, enable_x64=True)  # type: ignore[no-any-return]
    except jax.errors.JaxRuntimeError:
        # Under jax.transfer_guard("disallow"): this transfer is an explicit one, as that of
        # jax.device_put, and to say so each time would double the price of a small array.
        with config.explicit_device_put_scope():
            return _batched_device_put(*arguments, enable_x64=True)  # type: ignore[no-any-return]


def join_arrays(
    aval: Any, sharding: Any, shards: Sequence[jax.Array], committed: bool
) -> jax.Array:
    """Return an array made of single-device arrays that lie where its sharding says."""
    return ArrayImpl(aval, sharding, list(shards), committed=committed)  # type: ignore[no-any-return]


def placed_aval(aval: Any, sharding: Any) -> Any:
    """Return the abstract value with what JAX says in a type of where the value lies.

    That is the memory space, and the named sharding, of which explicit axes are a part.
    """
    if isinstance(sharding, jax.sharding.NamedSharding):
        return core.update_aval_with_sharding(aval, sharding)
    return aval.update(memory_space=core.mem_kind_to_space(sharding.memory_kind))


def x64_enabled() -> bool:
    """Say whether 64-bit types are enabled."""
    return bool(config.enable_x64.value)


def ref_value(ref: Any) -> Any:
    """Return the array that a reference holds now: its own, see :func:`anew`."""
    return ref._refs._buf


def make_ref(value: jax.Array, kind: str | None) -> Any:
    """Return a reference that holds a copy of an array; a real one, also while JAX traces."""
    no_mesh = jax.sharding.Mesh(np.empty((), dtype=object), ())
    with core.eval_context(), jax.set_mesh(no_mesh):
        return jax.new_ref(value, kind=kind)


def anew(array: Any, *, committed: bool | None = None) -> jax.Array:
    """Return an array object of its own over the same buffers.

    Args:
        array: the array.
        committed: whether the new one is committed to its place; None is as it was.

    When a reference is written, JAX replaces the buffers of its array, and forgets to clear
    what that array remembers of its shards: asked for them once, it is of no use afterwards.
    """
    if array.is_deleted():
        return array  # type: ignore[no-any-return]
    commits = array.committed if committed is None else committed
    return join_arrays(array.aval, array.sharding, array._arrays, commits)


def ref_kind(ref: Any) -> str | None:
    """Return what a reference's ``kind`` says of writes under rematerialization."""
    return ref._aval.kind  # type: ignore[no-any-return]


def major_to_minor(array: Any, host: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Return the order of dimensions in a single-device array's memory, slowest first.

    Args:
        array: the array.
        host: its view from :func:`host_view`; on CPU the strides tell, which is cheap.
    """
    (device,) = array.devices()
    tells = min(host.shape) > 1  # of a dimension of one, the strides say nothing
    if tells and host.flags.c_contiguous and device.platform == "cpu":
        return tuple(range(host.ndim))
    return tuple(array.format.layout.major_to_minor)
