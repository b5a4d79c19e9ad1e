"""Jitted functions and JAX's own callables: by reference first, else with all their options."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxpickle._jax import functions as private
from jaxpickle.families import describes, describes_kind
from jaxpickle.families.references import importable_name, library_name
from jaxpickle.records import builds, corrupt, describe, fill, fills, own

__all__: list[str] = []


@describes(private.JitFunction)
def _describe_jit(function: Any) -> Any:
    by_reference = _by_reference(function)
    if by_reference is not None:
        return by_reference
    described = describe("jit/1", *private.jit_parts(function))
    attributes = private.jit_attributes(function)
    return (*described, ("jit/1", attributes), None, None, fill) if attributes else described


@builds("jit/1")
def _build_jit(function: Any, options: dict[str, Any]) -> Any:
    return jax.jit(function, **options)


@fills("jit/1")
def _fill_jit(function: Any, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(function, name, value)


@describes(jax.custom_jvp, jax.custom_vjp)
def _describe_custom_rule(function: Any) -> Any:
    by_reference = _by_reference(function)
    if by_reference is not None:
        return by_reference
    # As state, since a derivative rule may well refer to the function that it is a rule of.
    return (*describe("custom_rule/1", own(type(function).__name__)), dict(vars(function)))


@builds("custom_rule/1")
def _build_custom_rule(name: str) -> Any:
    if name not in ("custom_jvp", "custom_vjp"):
        raise corrupt("custom_rule/1", f"names {name!r}")
    return object.__new__(getattr(jax, name))


@describes_kind(type(jnp.add))
def _describe_ufunc(function: Any) -> Any:
    return _by_reference(function) or function.__reduce_ex__(4)


def _by_reference(function: Any) -> Any:
    """Return how a function travels by reference: JAX's by its public name, others as pickle's."""
    name = library_name(function)
    if name is not None:
        return describe("global/1", name)
    name = importable_name(function)
    return None if name is None else name.partition(":")[2]
