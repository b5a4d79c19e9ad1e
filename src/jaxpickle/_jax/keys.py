"""PRNG internals: implementations and their registry, key dtypes, and the arrays under keys."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.random

try:
    from jax._src.random.core import PRNGSpec
    from jax._src.random.prng import KeyTy, PRNGImpl, PRNGKeyArray, prngs
except ImportError:  # before JAX 0.10.2
    from jax._src.prng import (  # type: ignore[no-redef, import-not-found]
        KeyTy,
        PRNGImpl,
        PRNGKeyArray,
        prngs,
    )
    from jax._src.random import PRNGSpec  # type: ignore[no-redef, import-not-found]

__all__ = [
    "KeyArray",
    "KeyTy",
    "PRNGImpl",
    "PRNGSpec",
    "base_array",
    "define_impl",
    "impl_of",
    "is_registered",
    "key_dtype",
    "registered_impl",
    "registered_impls",
    "wrap",
]

KeyArray: Any = PRNGKeyArray
"""The class of concrete key arrays, exactly."""


def impl_of(owner: Any) -> Any:
    """Return the implementation behind keys, a key dtype, or what ``jax.random.key_impl`` gave."""
    return owner._impl


def is_registered(impl: Any) -> bool:
    """Say whether ``jax.random.key(seed, impl=name)`` takes the name of this implementation."""
    return bool(prngs.get(impl.name) == impl)


def registered_impl(name: str) -> Any:
    """Return the implementation that is registered under a name, or None."""
    return prngs.get(name)


def registered_impls() -> list[str]:
    """Return the names of the implementations that this process knows."""
    return sorted(prngs)


def define_impl(fields: dict[str, Any]) -> Any:
    """Return the implementation of these functions, which JAX has under no name.

    Raises:
        TypeError: JAX takes other fields.
    """
    return impl_of(jax.extend.random.define_prng_impl(**fields))


def key_dtype(impl: Any) -> Any:
    """Return the dtype of the keys of an implementation."""
    return KeyTy(impl)


def base_array(keys: Any) -> jax.Array:
    """Return the uint32 array under a key array: same sharding, trailing dimensions of the key."""
    return keys._base_array  # type: ignore[no-any-return]


def wrap(impl: Any, base: jax.Array) -> jax.Array:
    """Return the keys over ``base`` without a computation, whatever its placement.

    Raises:
        TypeError: the array does not hold the data of such keys.
    """
    return PRNGKeyArray(impl, base)  # type: ignore[return-value]
