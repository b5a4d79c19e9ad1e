"""PRNG key internals: the array under a key array, and a key array over an array."""

from __future__ import annotations

from typing import Any

import jax

__all__ = ["KeyArray", "base_array", "impl_name", "registered", "wrap"]

try:
    from jax._src.random import prng
except ImportError:  # before JAX 0.10.2
    from jax._src import prng  # type: ignore[no-redef, attr-defined]

KeyArray: Any = prng.PRNGKeyArray
"""The class of concrete key arrays, exactly."""


def base_array(keys: Any) -> jax.Array:
    """Return the uint32 array under a key array: same sharding, trailing dimensions of the key."""
    return keys._base_array  # type: ignore[no-any-return]


def impl_name(keys: Any) -> str:
    """Return the name under which the keys' implementation is registered.

    Raises:
        LookupError: it is not registered, so no other process could find it.
    """
    impl = keys._impl
    name = str(impl.name)
    if prng.prngs.get(name) is not impl:
        raise LookupError(name)
    return name


def registered() -> list[str]:
    """Return the names of the implementations that this process knows."""
    return sorted(prng.prngs)


def wrap(impl: str, base: jax.Array) -> jax.Array:
    """Return the keys over ``base`` without a computation, whatever its placement.

    Raises:
        KeyError: no implementation is registered under that name.
        TypeError: the array does not hold the data of such keys.
    """
    return prng.PRNGKeyArray(prng.prngs[impl], base)  # type: ignore[return-value]
