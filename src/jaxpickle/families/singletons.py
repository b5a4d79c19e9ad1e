"""Objects of JAX that travel by name: sentinels, PRNG implementations, key dtypes.

JAX compares them by identity, or keeps one of each, so that a copy of one is not the same.
"""

from __future__ import annotations

from typing import Any

import jax

from jaxpickle._jax import singletons
from jaxpickle.errors import UnpicklingError
from jaxpickle.families import describes
from jaxpickle.records import Reduced, builds, corrupt, describe

__all__: list[str] = []

_SENTINEL_NAMES = {type(obj): name for name, obj in singletons.SENTINELS.items()}
_KEY_IMPL = "key_impl"
_KEY_SPEC = "key_spec"


@describes(*_SENTINEL_NAMES)
def _reduce_sentinel(obj: Any) -> Reduced:
    return describe("singleton/1", _SENTINEL_NAMES[type(obj)])


@describes(singletons.KeyTy)
def _reduce_key_dtype(dtype: Any) -> Reduced:
    return describe("key_dtype/1", singletons.key_impl(singletons.impl_of(dtype)))


@builds("key_dtype/1")
def _build_key_dtype(impl: str) -> Any:
    try:
        # Traced, not computed: a dtype should not start a backend.
        return jax.eval_shape(lambda: jax.random.key(0, impl=impl)).dtype
    except ValueError as error:
        raise UnpicklingError(
            f"this stream needs the PRNG implementation {impl!r}, which is not registered "
            "here: import what registers it, and load again",
            names=(impl,),
        ) from error


@describes(singletons.PRNGImpl)
def _reduce_impl(impl: Any) -> Reduced:
    known = singletons.registered_impl(impl.name) is impl
    return describe("singleton/1", _KEY_IMPL, impl.name if known else impl._asdict())


@describes(singletons.PRNGSpec)
def _reduce_spec(spec: Any) -> Reduced:
    return describe("singleton/1", _KEY_SPEC, singletons.impl_of(spec))


@builds("singleton/1")
def _build_singleton(name: str, content: Any = None) -> Any:
    if name == _KEY_IMPL:
        return _build_impl(content)
    if name == _KEY_SPEC and isinstance(content, singletons.PRNGImpl):
        return singletons.PRNGSpec(content)
    if not isinstance(name, str) or name not in singletons.SENTINELS:
        raise corrupt("singleton/1", f"names {name!r}")
    return singletons.SENTINELS[name]


def _build_impl(content: Any) -> Any:
    if isinstance(content, dict):
        return singletons.build_key_impl(content)
    impl = singletons.registered_impl(content)
    if impl is None:
        raise UnpicklingError(
            f"this stream needs the PRNG implementation {content!r}, which is not registered "
            "here. Import the module that registers it, and load again",
            names=(str(content),),
            available=singletons.registered_impls(),
        )
    return impl
