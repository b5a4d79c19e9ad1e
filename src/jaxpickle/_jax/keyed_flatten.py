"""The key-aware flatten function of a pytree node class, which JAX keeps out of Python's sight.

It lies in C++, where neither an attribute nor the garbage collector leads to it.  But when JAX
flattens an instance by it, a profiler sees the call, and a call holds all that a function is.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from jax._src import tree_util

__all__ = ["keyed_flatten"]


def keyed_flatten(cls: type, flatten: Any) -> types.FunctionType | None:
    """Return the function that flattens instances of ``cls`` with their keys.

    Args:
        cls: a class registered as a pytree node.
        flatten: its flatten function without keys, which JAX calls where there is no other.

    Returns:
        A function that does the same, or None where there is none, or it is not Python's.
    """
    try:
        probe = object.__new__(cls)
    except TypeError:
        return None
    function = _first_call(probe)
    if function is None or function.__code__ is getattr(flatten, "__code__", None):
        return None
    return function


def _first_call(probe: Any) -> types.FunctionType | None:
    """Return the first Python function that JAX calls to flatten ``probe`` with keys."""
    seen: list[types.FunctionType | None] = []

    def see(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and not seen:
            seen.append(_function_of(frame, probe))

    outer = sys.getprofile()
    sys.setprofile(see)
    try:
        tree_util.default_registry.flatten_one_level_with_keys(probe)
    except Exception:
        pass
    finally:
        sys.setprofile(outer)
    return seen[0] if seen else None


def _function_of(frame: types.FrameType, argument: Any) -> types.FunctionType | None:
    """Return the function that ``frame`` is a call of, if ``argument`` was its first."""
    code, values = frame.f_code, frame.f_locals
    first, *rest = code.co_varnames[: code.co_argcount] or (None,)
    if first is None or values.get(first) is not argument:
        return None
    keywords = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    function = types.FunctionType(
        code,
        frame.f_globals,
        argdefs=tuple(values[name] for name in rest),
        closure=tuple(types.CellType(values[name]) for name in code.co_freevars),
    )
    function.__kwdefaults__ = {name: values[name] for name in keywords}
    function.__qualname__ = code.co_qualname
    return function
