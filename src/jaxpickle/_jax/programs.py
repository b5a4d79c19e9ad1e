"""The classes of traced and compiled programs, and of the caches that JAX keeps of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core
from jax._src.lib import _jax as extension
from jaxlib import weakref_lru_cache

__all__ = ["CACHES", "PROGRAMS"]

PROGRAMS: tuple[Any, ...] = (
    jax.extend.core.Jaxpr,
    jax.extend.core.ClosedJaxpr,
    jax.extend.core.JaxprEqn,
    jax.stages.Traced,
    jax.stages.Lowered,
    jax.stages.Compiled,
    extension.Traceback,
)
"""What holds a program, or a trace of where it came from."""

CACHES: tuple[Any, ...] = (weakref_lru_cache.WeakrefLRUCache,)
"""What JAX remembers traced functions in."""
