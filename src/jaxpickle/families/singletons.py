"""Objects of JAX that travel by name: sentinels, PRNG implementations, key dtypes.

JAX compares them by identity, or keeps one of each, so that a copy of one is not the same.
What stands in records for a PRNG implementation is :func:`describe_impl`'s, whether it belongs to
keys, to their dtype or to a Ref.
"""

from __future__ import annotations

from typing import Any

from jaxpickle._jax import keys
from jaxpickle._jax.singletons import SENTINELS
from jaxpickle.errors import UnpicklingError
from jaxpickle.families import describes
from jaxpickle.records import Reduced, builds, corrupt, describe, own

__all__ = ["build_impl", "describe_impl"]

_SENTINEL_NAMES = {type(obj): own(name) for name, obj in SENTINELS.items()}
_KEY_IMPL = own("key_impl")
_KEY_SPEC = own("key_spec")


def describe_impl(impl: Any) -> Any:
    """Return what stands for a PRNG implementation in a record.

    Args:
        impl: the implementation of some keys.

    Returns:
        Its name, where JAX has it under that name.  Else itself, an object of the graph, which
        travels by its functions.
    """
    return own(impl.name) if keys.is_registered(impl) else impl


def build_impl(tag: str, saved: Any) -> Any:
    """Return the PRNG implementation that :func:`describe_impl` described.

    Args:
        tag: the record, for errors.
        saved: its name, or itself.

    Raises:
        UnpicklingError: nothing is registered here under that name.
        CorruptError: it is no implementation.
    """
    if isinstance(saved, keys.PRNGImpl):
        return saved
    if not isinstance(saved, str):
        raise corrupt(tag, f"names no PRNG implementation: {saved!r:.80}")
    impl = keys.registered_impl(saved)
    if impl is None:
        raise UnpicklingError(
            f"this stream needs the PRNG implementation {saved!r}, which is not registered "
            "here. Import the module that registers it, or upgrade JAX, and load again",
            names=(saved,),
            available=keys.registered_impls(),
        )
    return impl


@describes(*_SENTINEL_NAMES)
def _reduce_sentinel(obj: Any) -> Reduced:
    return describe("singleton/1", _SENTINEL_NAMES[type(obj)])


@describes(keys.KeyTy)
def _reduce_key_dtype(dtype: Any) -> Reduced:
    return describe("key_dtype/1", describe_impl(keys.impl_of(dtype)))


@builds("key_dtype/1")
def _build_key_dtype(impl: Any) -> Any:
    return keys.key_dtype(build_impl("key_dtype/1", impl))


@describes(keys.PRNGImpl)
def _reduce_impl(impl: Any) -> Reduced:
    saved = describe_impl(impl)
    if saved is impl:
        fields = {own(name): value for name, value in impl._asdict().items()}
        saved = fields | {name: own(fields[name]) for name in ("name", "tag")}
    return describe("singleton/1", _KEY_IMPL, saved)


@describes(keys.PRNGSpec)
def _reduce_spec(spec: Any) -> Reduced:
    return describe("singleton/1", _KEY_SPEC, keys.impl_of(spec))


@builds("singleton/1")
def _build_singleton(name: str, content: Any = None) -> Any:
    if name == _KEY_IMPL:
        return _build_key_impl(content)
    if name == _KEY_SPEC and isinstance(content, keys.PRNGImpl):
        return keys.PRNGSpec(content)
    if not isinstance(name, str) or name not in SENTINELS:
        raise corrupt("singleton/1", f"names {name!r}")
    return SENTINELS[name]


def _build_key_impl(content: Any) -> Any:
    if not isinstance(content, dict):
        return build_impl("singleton/1", content)
    try:
        return keys.define_impl(content)
    except TypeError as error:
        raise corrupt("singleton/1", f"is no PRNG implementation: {error}") from error
