"""Objects of JAX that have a name instead of contents: sentinels, and PRNG implementations."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.random
from jax._src import layout, named_sharding

try:
    from jax._src.random.core import PRNGSpec
    from jax._src.random.prng import KeyTy, PRNGImpl, prngs
except ImportError:  # before JAX 0.10.2
    from jax._src.prng import KeyTy, PRNGImpl, prngs  # type: ignore[no-redef, import-not-found]
    from jax._src.random import PRNGSpec  # type: ignore[no-redef, import-not-found]

__all__ = [
    "SENTINELS",
    "KeyTy",
    "PRNGImpl",
    "PRNGSpec",
    "build_key_impl",
    "impl_of",
    "key_impl",
    "registered_impl",
    "registered_impls",
]

SENTINELS: dict[str, Any] = {
    "unconstrained": jax.sharding.PartitionSpec.UNCONSTRAINED,
    "unspecified": named_sharding.UNSPECIFIED,
    "auto_layout": layout.Layout.AUTO,
}
"""What JAX compares by identity, by the name that streams give it."""


def impl_of(owner: Any) -> Any:
    """Return the PRNG implementation of a key dtype, or of what ``jax.random.key_impl`` gave."""
    return owner._impl


def registered_impl(name: str) -> Any:
    """Return the implementation that ``jax.random.key(seed, impl=name)`` takes, or None."""
    return prngs.get(name)


def registered_impls() -> list[str]:
    """Return the names of the implementations that this process knows."""
    return sorted(prngs)


def key_impl(impl: Any) -> Any:
    """Return what ``jax.random.key(seed, impl=...)`` takes: a name, or the implementation."""
    return impl.name if registered_impl(impl.name) is impl else PRNGSpec(impl)


def build_key_impl(fields: dict[str, Any]) -> Any:
    """Return the implementation of these functions, which JAX has under no name."""
    return impl_of(jax.extend.random.define_prng_impl(**fields))
