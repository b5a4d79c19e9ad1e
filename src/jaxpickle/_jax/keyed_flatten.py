"""The key-aware flatten function of a pytree node class, which JAX keeps out of Python's sight.

It lies in C++, where neither an attribute nor the garbage collector leads to it.  But a
profiler sees the call when JAX flattens an instance, and a call knows all that makes a function.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jax._src import tree_util

__all__ = ["keyed_flatten"]


def keyed_flatten(cls: type, flatten: Callable[[Any], Any]) -> types.FunctionType | None:
    """Return the function that flattens instances of ``cls`` with their keys.

    Args:
        cls: a class registered as a pytree node.
        flatten: its flatten function without keys, which JAX calls where there is no other.

    Returns:
        A function that does the same, or None where there is none, or it is not Python's.
    """
    try:
        probe: Any = object.__new__(cls)
    except TypeError:
        return None
    keyed = _first_call(tree_util.default_registry.flatten_one_level_with_keys, probe)
    if keyed is None or keyed.is_same(_first_call(flatten, probe)):
        return None
    return keyed.function(probe)


@dataclass(frozen=True)
class _Call:
    """A call of a Python function: its code, and what its arguments and free variables are."""

    code: types.CodeType
    scope: dict[str, Any]
    values: dict[str, Any]

    def is_same(self, other: _Call | None) -> bool:
        """Say whether ``other`` calls the same function with the same arguments."""
        return (
            other is not None
            and self.code is other.code
            and all(value is other.values.get(name) for name, value in self.values.items())
        )

    def function(self, argument: Any) -> types.FunctionType | None:
        """Return the function, if ``argument`` was its first; the others become defaults."""
        code, values = self.code, self.values
        names = code.co_varnames
        if not code.co_argcount or values.get(names[0]) is not argument:
            return None
        keywords = names[code.co_argcount :][: code.co_kwonlyargcount]
        cells = tuple(types.CellType(values[name]) for name in code.co_freevars)
        defaults = tuple(values[name] for name in names[1 : code.co_argcount])
        function = types.FunctionType(code, self.scope, None, defaults, cells)
        function.__kwdefaults__ = {name: values[name] for name in keywords}
        function.__module__ = self.scope.get("__name__", "")
        return function


def _first_call(function: Callable[[Any], Any], probe: Any) -> _Call | None:
    """Return the first call of a Python function in ``function(probe)``."""
    seen: list[_Call] = []

    def see(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and not seen:
            seen.append(_Call(frame.f_code, frame.f_globals, dict(frame.f_locals)))

    outer = sys.getprofile()
    sys.setprofile(see)
    try:
        function(probe)
    except Exception:  # the probe is empty: its function may well stumble over that
        pass
    finally:
        sys.setprofile(outer)
    return seen[0] if seen else None
