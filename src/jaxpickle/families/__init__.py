"""The families: each module describes one kind of object as records, and builds it again.

A family registers what it describes with :func:`describes` (an exact type) or
:func:`describes_kind` (a type and all below it).  :data:`dispatch_table` is what picklers
look up; it imports the families of JAX only when an object of JAX turns up.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import cloudpickle

from jaxpickle.records import Reduced

__all__ = ["describes", "describes_kind", "dispatch_table"]

Reducer = Callable[[Any], Reduced]
R = TypeVar("R", bound=Callable[..., Reduced])

_EXACT: dict[type, Reducer] = {}
_KINDS: list[tuple[type, Reducer]] = []

_NUMPY = ("dtypes", "numpy_arrays", "numpy_random", "buffers")
_JAX = ("arrays", "shardings", "singletons", "trees", "exceptions", "functions", "refusals")
_OWNERS = {"jax": (*_NUMPY, *_JAX), "jaxlib": (*_NUMPY, *_JAX), "numpy": _NUMPY, "jaxpickle": ()}
"""Which families an object of a package may need."""


def describes(*types: type) -> Callable[[R], R]:
    """Register the decorated reducer for exactly these types."""

    def register(reducer: R) -> R:
        _EXACT.update(dict.fromkeys(types, reducer))
        return reducer

    return register


def describes_kind(*types: type) -> Callable[[R], R]:
    """Register the decorated reducer for these types and their subclasses."""

    def register(reducer: R) -> R:
        _KINDS.extend((kind, reducer) for kind in types)
        return reducer

    return register


class _DispatchTable(dict[type, Reducer]):
    """Reducers by type: ours first, cloudpickle's and copyreg's else."""

    def __init__(self) -> None:
        super().__init__()
        self._foreign: weakref.WeakSet[type] = weakref.WeakSet()

    def __missing__(self, cls: type) -> Reducer:
        if cls in self._foreign:
            return cloudpickle.Pickler.dispatch_table[cls]  # type: ignore[no-any-return]
        owners = {base.__module__.partition(".")[0] for base in cls.__mro__} & _OWNERS.keys()
        for owner in sorted(owners):
            for family in _OWNERS[owner]:
                importlib.import_module(f"{__name__}.{family}")
        if owners:
            reducer = _EXACT.get(cls) or _of_kind(cls)
            if reducer is not None:
                self[cls] = reducer
                return reducer
        self._foreign.add(cls)
        return cloudpickle.Pickler.dispatch_table[cls]  # type: ignore[no-any-return]

    def get(self, cls: type, default: Any = None) -> Any:
        """Look up as ``[]`` does: the pickler in Python calls this, the one in C does not."""
        try:
            return self[cls]
        except KeyError:
            return default


def _of_kind(cls: type) -> Reducer | None:
    for kind, reducer in _KINDS:
        if issubclass(cls, kind):
            return reducer
    return None


dispatch_table: dict[type, Reducer] = _DispatchTable()
