"""Functions, classes and callables of JAX and numpy by reference, through their public names.

Where an object lives inside a library moves from version to version (``jax._src...``); where
users find it does not.  A record holds the second.
"""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle

from jaxpickle.errors import UnpicklingError
from jaxpickle.records import Reduced, builds, describe

__all__ = ["GLOBALS", "importable_name", "library_name", "reduce_library_global"]

_LIBRARIES = frozenset({"jax", "jaxlib", "numpy"})
GLOBALS = (type, types.FunctionType, types.BuiltinFunctionType)
"""What pickle saves by name: classes and functions."""

_names: dict[int, tuple[Any, str]] = {}
"""The name of each object met so far, by identity; the entry keeps the object alive."""
_aliases: dict[int, tuple[Any, str]] = {}
"""Where users find the objects of the modules scanned so far, by identity."""
_scanned: set[str] = set()


def reduce_library_global(obj: Any) -> Reduced | None:
    """Return the record of a class or function of JAX or numpy, or None for any other object."""
    if not isinstance(obj, GLOBALS) or _root(obj) not in _LIBRARIES:
        return None
    name = library_name(obj)
    return None if name is None else describe("global/1", name)


def library_name(obj: Any) -> str | None:
    """Return the name ``"module:attribute"`` by which a library's object can be imported.

    Args:
        obj: a class, function or other callable with ``__module__``.

    Returns:
        Its public name where it has one, its private name else; None where it is no
        attribute of a module, such as a closure.
    """
    if _root(obj) not in _LIBRARIES:
        return None
    known = _names.get(id(obj))
    if known is None:
        name = importable_name(obj)
        if name is None or not _is_public(name):
            _scan_new_modules()
            alias = _aliases.get(id(obj))
            name = name if alias is None else alias[1]
        if name is None:
            return None
        known = _names[id(obj)] = (obj, name)
    return known[1]


def importable_name(obj: Any) -> str | None:
    """Return ``"module:qualified.name"`` where that leads to ``obj`` itself, else None.

    Objects of ``__main__``, and of modules given to ``cloudpickle.register_pickle_by_value``,
    have no such name: they travel by value.
    """
    module_name = getattr(obj, "__module__", None)
    qualname = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    if not isinstance(module_name, str) or not isinstance(qualname, str):
        return None
    module = sys.modules.get(module_name)
    if module is None or module_name == "__main__" or _is_by_value(module_name):
        return None
    return f"{module_name}:{qualname}" if _attribute(module, qualname) is obj else None


@builds("global/1")
def _build_global(name: str) -> Any:
    module_name, _, qualname = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UnpicklingError(
            f"this stream needs {qualname!r} of module {module_name!r}, which cannot be "
            f"imported here: {error}. Install what provides it, and load again",
            names=(module_name,),
        ) from error
    obj = _attribute(module, qualname)
    if obj is None:
        raise UnpicklingError(
            f"this stream needs {qualname!r} of module {module_name!r}, and this version of "
            f"{module_name.partition('.')[0]} has no such name",
            names=(name,),
        )
    return obj


def _root(obj: Any) -> str | None:
    module = getattr(obj, "__module__", None)
    if isinstance(module, str):
        return module.partition(".")[0]
    return "numpy" if type(obj).__module__ == "numpy" else None


def _attribute(module: Any, qualname: str) -> Any:
    value = module
    for part in qualname.split("."):
        value = getattr(value, part, None)
    return value


def _is_by_value(module_name: str) -> bool:
    registered = cloudpickle.list_registry_pickle_by_value()
    parts = module_name.split(".")
    return any(".".join(parts[: i + 1]) in registered for i in range(len(parts)))


def _scan_new_modules() -> None:
    """Note the public names of the libraries' modules imported since the last scan.

    The shortest path wins, and among equals the first in the alphabet, in whatever order the
    modules were imported.
    """
    fresh = [name for name in sys.modules if name not in _scanned and _is_public_module(name)]
    for name in fresh:
        _scanned.add(name)
        for attribute, value in _published(vars(sys.modules[name])):
            alias = f"{name}:{attribute}"
            _, known = _aliases.get(id(value), (value, alias))
            _aliases[id(value)] = value, min(known, alias, key=_rank)


def _rank(name: str) -> tuple[int, str]:
    return name.count("."), name


def _published(namespace: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the callables of the libraries that a namespace publishes, with their names."""
    for name, value in sorted(namespace.items()):
        if name.startswith("_"):
            continue
        if isinstance(value, types.SimpleNamespace):
            yield from ((f"{name}.{inner}", found) for inner, found in _published(vars(value)))
        elif callable(value) and _root(value) in _LIBRARIES:
            yield name, value


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in re.split("[.:]", name))


def _is_public_module(name: str) -> bool:
    return name.partition(".")[0] in ("jax", "numpy") and _is_public(name)
