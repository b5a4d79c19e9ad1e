"""Functions and classes that travel by value: guarded by Python version, pytree nodes registered.

The record of a function puts a guard before its code: the guard is built first, so another
Python is refused before any code object is made of bytes that it cannot understand.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import cloudpickle

from jaxpickle.errors import VersionError
from jaxpickle.families import pytree_nodes, skeletons
from jaxpickle.records import Reduced, build, builds, describe, fill, fills

__all__ = ["guarded"]

_MAKE_CLASS = cloudpickle.cloudpickle._make_skeleton_class  # that of an Enum is another
_HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


class _Guard:
    """Reduces to the check of the Python version that comes before ``name``'s code."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Reduced:
        return describe("python/1", _HERE, self.name)


def guarded(obj: Any, reduced: Any) -> Any:
    """Return cloudpickle's reduction of a function or class with a guard before its code.

    Args:
        obj: the object.
        reduced: what ``cloudpickle.Pickler.reducer_override`` made of it.
    """
    if reduced is NotImplemented or len(reduced) != 6:
        return reduced
    make, args, state, _, _, setstate = reduced
    guard = _Guard(obj.__qualname__)
    if isinstance(obj, types.FunctionType):
        return build, ("function/1", guard, make, *args), state, None, None, setstate
    if make is _MAKE_CLASS:
        meta, name, bases, first, *rest = args
        args = (meta, name, bases, first | skeletons.namespace(obj), *rest)
    filled = ("class/1", setstate, state, pytree_nodes.registration(obj))
    return build, ("class/1", guard, make, *args), filled, None, None, fill


@builds("python/1")
def _check_python(version: str, name: str) -> None:
    if version != _HERE:
        raise VersionError(
            f"{name!r} was pickled by value under Python {version}, and bytecode is not "
            f"understood by another Python: here is {_HERE}. Load it with Python {version}, "
            "or define it in a module that can be imported on both sides, so that it "
            "travels by reference",
            names=(name, version),
            available=(_HERE,),
        )


@builds("function/1")
def _make_function(guard: None, make: Any, *args: Any) -> Any:
    return make(*args)


@builds("class/1")
def _make_class(guard: None, make: Any, *args: Any) -> Any:
    if make is _MAKE_CLASS:
        skeletons.prepare(args[3])
    return make(*args)


@fills("class/1")
def _fill_class(cls: type, setstate: Any, state: Any, registration: Any) -> None:
    setstate(cls, state)
    skeletons.complete(cls, state[0])
    if registration is not None:
        pytree_nodes.register(cls, registration)
