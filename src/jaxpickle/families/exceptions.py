"""JAX's exceptions: built again without their ``__init__``, which wants the tracer at fault."""

from __future__ import annotations

import abc
import types
from typing import Any

import jax
from jax.core import Tracer

from jaxpickle._jax import exceptions
from jaxpickle.errors import UnpicklingError
from jaxpickle.families import describes_kind
from jaxpickle.records import Reduced, builds, corrupt, describe

__all__: list[str] = []

_LIBRARIES = frozenset({"jax", "jaxlib"})
_LOCAL = (Tracer, types.FrameType, types.TracebackType)
"""What belongs to the run that raised the error, and means nothing outside of it."""


class _OfJax(abc.ABC):  # noqa: B024 never made: its hook says which classes are below it
    """Exceptions of JAX, and users' subclasses of them that pickle as exceptions do."""

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return (
            issubclass(other, BaseException)
            and other.__reduce__ is BaseException.__reduce__
            and other.__reduce_ex__ is BaseException.__reduce_ex__
            and any(base.__module__.partition(".")[0] in _LIBRARIES for base in other.__mro__)
        )


@describes_kind(_OfJax)
def _reduce(error: BaseException) -> Reduced:
    cls = type(error)
    args = tuple(str(arg) if isinstance(arg, _LOCAL) else arg for arg in error.args)
    state = {key: value for key, value in vars(error).items() if not isinstance(value, _LOCAL)}
    return (*describe("exception/1", exceptions.exception_name(cls) or cls, args), state or None)


@builds("exception/1")
def _build(cls: Any, args: tuple[Any, ...]) -> BaseException:
    if isinstance(cls, str):
        cls = _named(cls)
    if not (isinstance(cls, type) and issubclass(cls, BaseException) and isinstance(args, tuple)):
        raise corrupt("exception/1", "describes no exception")
    # A user's __new__ may want other arguments, as JAX's __init__ does.
    builtin = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    error: BaseException = builtin.__new__(cls, *args)
    error.args = args
    return error


def _named(name: str) -> type:
    cls: type | None = exceptions.exception_class(name)
    if cls is None:
        raise UnpicklingError(
            f"this stream holds an exception {name!r}, which JAX {jax.__version__} does not "
            "have. Load it with the version of JAX that wrote it",
            names=(name,),
        )
    return cls
