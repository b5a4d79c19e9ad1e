"""Function internals: the class of jitted functions, and the options they were made with."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax._src import sharding_impls
from jax.experimental.layout import Format

__all__ = ["JitFunction", "jit_attributes", "jit_parts"]

JitFunction: Any = type(jax.jit(functools.partial(int)))
"""The class of what ``jax.jit`` returns, exactly."""

_UNSPECIFIED = sharding_impls.UNSPECIFIED
_PLAIN = (
    "static_argnums",
    "static_argnames",
    "donate_argnums",
    "donate_argnames",
    "keep_unused",
    "device",
    "backend",
    "inline",
)
"""Options that JAX keeps as they were given."""

_PAIRS = (("static_argnums", "static_argnames"), ("donate_argnums", "donate_argnames"))
_INTERNAL = frozenset({"__wrapped__", "_fun", "_jit_info"})


def jit_parts(function: Any) -> tuple[Any, dict[str, Any]]:
    """Return the Python function under a jitted one, and the options of its ``jax.jit``.

    Args:
        function: what ``jax.jit`` returned.

    Returns:
        The function, and only those options that differ from their defaults.
    """
    options, defaults = _options(function._jit_info), _defaults()
    given = {name: value for name, value in options.items() if value != defaults[name]}
    for numbers, names in _PAIRS:
        if numbers in given or names in given:  # of one alone, JAX would infer the other
            given |= {numbers: options[numbers], names: options[names]}
    return function.__wrapped__, given


def jit_attributes(function: Any) -> dict[str, Any]:
    """Return the attributes that were set on a jitted function after it was made."""
    plain = vars(jax.jit(function.__wrapped__))
    return {
        name: value
        for name, value in vars(function).items()
        if name not in _INTERNAL and (name not in plain or plain[name] is not value)
    }


@functools.cache
def _defaults() -> dict[str, Any]:
    """Return what the options of a plain ``jax.jit`` are."""
    return _options(jax.jit(lambda: None)._jit_info)  # type: ignore[attr-defined]


def _options(info: Any) -> dict[str, Any]:
    return {
        "in_shardings": _shardings(info, "in"),
        "out_shardings": _shardings(info, "out"),
        "compiler_options": dict(info.compiler_options_kvs),
        **{name: getattr(info, name) for name in _PLAIN},
    }


def _shardings(info: Any, side: str) -> Any:
    """Return ``in_shardings`` or ``out_shardings`` as a user would write them."""
    treedef = getattr(info, f"{side}_shardings_treedef")
    shardings = getattr(info, f"{side}_shardings_leaves")
    layouts = getattr(info, f"{side}_layouts_leaves")
    leaves = [_leaf(*pair) for pair in zip(shardings, layouts, strict=True)]
    if all(leaf is None for leaf in leaves):
        return None
    return jax.tree.unflatten(treedef, leaves)


def _leaf(sharding: Any, layout: Any) -> Any:
    given = None if sharding is _UNSPECIFIED else sharding
    return given if layout is None else Format(layout, given)
