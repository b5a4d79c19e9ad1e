"""What a class by value shows when it is made: cloudpickle makes it empty and fills it later.

Metaclasses and ``__init_subclass__`` look at a class when it is made: those of Equinox and
``flax.struct`` make a dataclass of it there and then, and a pytree node of its fields.  So it
must have its fields from the first; its methods may come later, as they may refer to it.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

__all__ = ["complete", "namespace", "prepare"]


def namespace(cls: type) -> dict[str, Any]:
    """Return what the class of a reader must have in it when it is made.

    Args:
        cls: a class that travels by value.
    """
    first: dict[str, Any] = {"__qualname__": cls.__qualname__}
    own = vars(cls)
    if "__dataclass_fields__" not in own or "__slots__" in own or not _is_hooked(cls):
        return first
    annotations = inspect.get_annotations(cls)
    first["__annotations__"] = annotations
    if "__init__" in own and not own["__dataclass_params__"].init:
        first["__init__"] = None
    for field in dataclasses.fields(cls):
        if field.name in annotations:
            first[field.name] = field
    return first


def prepare(first: dict[str, Any]) -> None:
    """Put a function where the class has an ``__init__`` of its own: a dataclass keeps it.

    Args:
        first: what :func:`namespace` returned.
    """
    if "__init__" in first:

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            """Stand in for the method that is still to come."""

        first["__init__"] = __init__


def complete(cls: type, contents: dict[str, Any]) -> None:
    """Take away what only the making of the class needed.

    Args:
        cls: the class, made and filled.
        contents: what it was filled with.
    """
    for name, value in list(vars(cls).items()):
        if isinstance(value, dataclasses.Field) and name not in contents:
            delattr(cls, name)


def _is_hooked(cls: type) -> bool:
    """Say whether code of somebody runs when a class like ``cls`` is made."""
    own_meta = type(cls).__module__ not in ("builtins", "abc")
    return own_meta or any("__init_subclass__" in vars(base) for base in cls.__mro__[1:-1])
