"""Pickle for everything JAX: arrays keep their device and sharding, and land where you say.

Importing this package imports no JAX and changes nothing: its names are loaded when they
are first used.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as typing's, which would cost most of the time of this import
if TYPE_CHECKING:
    from typing import Any

    from jaxpickle import errors as errors
    from jaxpickle.api import dump as dump
    from jaxpickle.api import dumps as dumps
    from jaxpickle.api import load as load
    from jaxpickle.api import loads as loads
    from jaxpickle.pickler import Pickler as Pickler
    from jaxpickle.placements.session import placement as placement
    from jaxpickle.unpickler import Unpickler as Unpickler

__all__ = ["Pickler", "Unpickler", "dump", "dumps", "errors", "load", "loads", "placement"]

_HOMES = {
    "Pickler": "jaxpickle.pickler",
    "Unpickler": "jaxpickle.unpickler",
    "dump": "jaxpickle.api",
    "dumps": "jaxpickle.api",
    "load": "jaxpickle.api",
    "loads": "jaxpickle.api",
    "placement": "jaxpickle.placements.session",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("jaxpickle.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'jaxpickle' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
