"""Jitted functions and JAX's own callables: by reference first, else with all their options."""

from __future__ import annotations

from typing import Any

import jax

from jaxpickle._jax import functions as private
from jaxpickle.families import describes, describes_kind
from jaxpickle.families.references import importable_name, library_name
from jaxpickle.records import Reduced, builds, describe

__all__: list[str] = []


@describes(private.JitFunction)
def _describe_jit(function: Any) -> Reduced:
    by_reference = _by_reference(function)
    if by_reference is not None:
        return by_reference
    return describe("jit/1", *private.jit_parts(function))


@builds("jit/1")
def _build_jit(function: Any, options: dict[str, Any]) -> Any:
    return jax.jit(function, **options)


@describes_kind(*private.CALLABLES)
def _describe_callable(function: Any) -> Any:
    """Describe a callable object of JAX, such as ``jax.nn.relu`` or ``jnp.add``."""
    return _by_reference(function) or function.__reduce_ex__(4)


def _by_reference(function: Any) -> Reduced | None:
    name = library_name(function) or importable_name(function)
    return None if name is None else describe("global/1", name)
