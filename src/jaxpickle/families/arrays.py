"""Arrays, PRNG keys and Refs: values with their place, shard by shard, never gathered.

An array's record is ``(type, place, data)``: the type and the place are descriptions that
equal arrays share, the data is the bytes of one device or the parts of a sharded array.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from jaxpickle._jax import arrays as private
from jaxpickle._jax import keys as private_keys
from jaxpickle.errors import PicklingError, VersionError
from jaxpickle.families import describes, shards
from jaxpickle.families.buffers import aligned, pack
from jaxpickle.families.dtypes import describe_dtype
from jaxpickle.families.parts import typed
from jaxpickle.families.singletons import build_impl, describe_impl
from jaxpickle.placements.saved import saved_place
from jaxpickle.placements.session import current_resolver, warn_once
from jaxpickle.records import Reduced, build, builds, corrupt, own

__all__ = ["describe_array", "place_array"]

_kinds: dict[Any, tuple[Any, ...]] = {}
_KINDS_LIMIT = 100_000

_WIDE = frozenset({"float64", "complex128", "int64", "uint64"})
_NARROWED = (
    "an array of {dtype} was loaded as it is, but 64-bit types are off here, so JAX will "
    "compute with it in 32 bits; call jax.config.update('jax_enable_x64', True) first"
)


@describes(private.ArrayImpl)
def _describe(array: jax.Array) -> Reduced:
    return build, ("array/1", *describe_array(array))


@builds("array/1")
def _build(kind: tuple[Any, ...], place: tuple[Any, ...], data: Any) -> jax.Array:
    return place_array("array/1", kind, place, data)


@describes(private_keys.KeyArray)
def _describe_keys(keys: Any) -> Reduced:
    impl, base = _unwrapped(keys)
    return build, ("key/1", impl, *describe_array(base))


@builds("key/1")
def _build_keys(impl: Any, kind: Any, place: Any, data: Any) -> jax.Array:
    return _wrapped("key/1", impl, place_array("key/1", kind, place, data))


@describes(private.RefImpl)
def _describe_ref(ref: Any) -> Reduced:
    base, impl = private.ref_value(ref), None
    if isinstance(base, private_keys.KeyArray):
        impl, base = _unwrapped(base)
    mutation = private.ref_kind(ref)
    mutation = None if mutation is None else own(mutation)
    return build, ("ref/1", impl, mutation, *describe_array(private.anew(base)))


@builds("ref/1")
def _build_ref(impl: Any, mutation: str | None, kind: Any, place: Any, data: Any) -> Any:
    # What a Ref holds is committed: else JAX would put the copy that it makes elsewhere.
    value = private.anew(place_array("ref/1", kind, place, data), committed=True)
    value = value if impl is None else _wrapped("ref/1", impl, value)
    return private.make_ref(value, mutation)


def describe_array(array: Any) -> tuple[Any, Any, Any]:
    """Return the type, the place and the data of a concrete array.

    Args:
        array: an array of this process; not a tracer, not a key array.

    Raises:
        PicklingError: it is deleted, or spans processes.
    """
    if array.is_deleted():
        raise PicklingError(
            "this array has been deleted or donated: its values are gone. Pickle it before it "
            "is donated, or take it out of what you pickle",
            type_name="jax.Array",
        )
    sharding = array.sharding
    if type(sharding) is SingleDeviceSharding:
        host, layout = shards.host_view(array)
        data: Any = pack(host)
    else:
        data, layout = shards.describe(array)
    return _kind(array), saved_place(sharding, array.committed, layout), data


def place_array(tag: str, kind: tuple[Any, ...], saved: tuple[Any, ...], data: Any) -> jax.Array:
    """Return the array of a record, where the settings in force say.

    Args:
        tag: the record, for errors.
        kind: dtype name, shape and weak type.
        saved: the description of its place.
        data: its bytes, or its shards.

    Raises:
        CorruptError: the fields contradict each other.
        PlacementError: it cannot land where it should.
        VersionError: this JAX has no such dtype.
    """
    aval, dtype, shape, nbytes = _typed(tag, kind)
    if kind[0] in _WIDE and not private.x64_enabled():
        warn_once(_NARROWED.format(dtype=kind[0]), about="64 bits")
    place = current_resolver().place(saved, shape)
    if place.device is None or place.layout is not None or type(data) is tuple:
        return shards.build(tag, aval, place, data)
    host = aligned(data, nbytes, tag).view(dtype).reshape(shape)
    return private.make_array(aval, place.sharding, [host], [place.device], place.committed)


def _kind(array: Any) -> tuple[Any, ...]:
    """Return dtype name, shape and weak type; equal arrays share the tuple."""
    aval = array.aval
    found = _kinds.get(aval)
    if found is None:
        if len(_kinds) >= _KINDS_LIMIT:
            _kinds.clear()
        found = (describe_dtype(aval.dtype), tuple(map(int, aval.shape)), bool(aval.weak_type))
        found = _kinds.setdefault(aval, found)
    return found


def _typed(tag: str, kind: tuple[Any, ...]) -> tuple[Any, np.dtype[Any], tuple[int, ...], int]:
    """Return the abstract value, dtype, shape and bytes that a kind means."""
    try:
        return _type_of(tag, kind)
    except TypeError as error:  # it cannot be hashed
        raise corrupt(tag, f"has no possible type {kind!r:.80}: {error}") from error


@functools.lru_cache(maxsize=4096)
def _type_of(tag: str, kind: tuple[Any, ...]) -> tuple[Any, np.dtype[Any], tuple[int, ...], int]:
    dtype, shape, weak_type = typed(tag, kind)
    if not private.has_dtype(dtype):
        raise VersionError(
            f"this stream holds an array of dtype {dtype.name!r}, and JAX {jax.__version__} has "
            "none of it. Upgrade JAX: pip install -U jax",
            names=(dtype.name,),
        )
    aval = private.abstract_value(shape, dtype, weak_type)
    return aval, dtype, shape, math.prod(shape) * dtype.itemsize


def _wrapped(tag: str, impl: Any, base: jax.Array) -> jax.Array:
    try:
        return private_keys.wrap(build_impl(tag, impl), base)
    except TypeError as error:
        raise corrupt(tag, f"holds no keys: {error}") from error


def _unwrapped(keys: Any) -> tuple[Any, jax.Array]:
    """Return what stands for the implementation of keys in a record, and their data."""
    return describe_impl(private_keys.impl_of(keys)), private_keys.base_array(keys)
