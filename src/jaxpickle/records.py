"""The records of a stream: tags, the versions they carry, and who builds them.

A JAX object is *described* as plain data under a tag and a version (``"array/1"``), and a
stream holds nothing of it but a call of :func:`build` with that tag.  Therefore the names
``jaxpickle.records.build`` and ``jaxpickle.records.fill``, and every tag with its meaning,
are the format: they never change.  A record that must mean something new gets a new
version; the reader of the old one stays.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from jaxpickle.errors import CorruptError, UnpicklingError, VersionError

__all__ = ["Reduced", "build", "builds", "corrupt", "describe", "fill", "fills", "own"]

F = TypeVar("F", bound=Callable[..., Any])

Reduced = tuple[Any, ...]
"""What a reducer returns to pickle: a callable, its arguments, and maybe a state."""

_FAMILIES = {
    "array": "arrays",
    "key": "arrays",
    "ref": "arrays",
    "buffer": "buffers",
    "device": "shardings",
    "memory": "shardings",
    "mesh": "shardings",
    "abstract_mesh": "shardings",
    "sharding": "shardings",
    "spec": "shardings",
    "layout": "shardings",
    "format": "shardings",
    "singleton": "singletons",
    "key_dtype": "singletons",
    "dtype": "dtypes",
    "scalar": "numpy_arrays",
    "ndarray": "numpy_arrays",
    "ndarray_subclass": "numpy_arrays",
    "masked_array": "numpy_arrays",
    "bit_generator": "numpy_random",
    "generator": "numpy_random",
    "random_state": "numpy_random",
    "seed_sequence": "numpy_random",
    "treedef": "trees",
    "shape_dtype": "trees",
    "exception": "exceptions",
    "global": "references",
    "jit": "functions",
    "custom_rule": "functions",
    "function": "by_value",
    "class": "by_value",
    "python": "by_value",
    "stream": "origin",
}
"""Which family module builds each tag; a module is imported when a tag first needs it."""

_RUNS_USER_CODE = frozenset(
    {"class", "exception", "function", "global", "jit", "ndarray_subclass", "singleton", "treedef"}
)
"""Tags whose builders run code of the user's, whose errors are the user's too."""

_builders: dict[str, Callable[..., Any]] = {}
_fillers: dict[str, Callable[..., None]] = {}


def builds(tag: str) -> Callable[[F], F]:
    """Register the decorated function as the builder of ``tag`` (``"name/version"``)."""

    def register(builder: F) -> F:
        _builders[tag] = builder
        return builder

    return register


def fills(tag: str) -> Callable[[F], F]:
    """Register the decorated function as the one that sets the state of ``tag``."""

    def register(filler: F) -> F:
        _fillers[tag] = filler
        return filler

    return register


def describe(tag: str, *fields: Any) -> Reduced:
    """Return the reduction of an object that ``tag`` and ``fields`` describe."""
    return build, (tag, *fields)


def build(tag: str, *fields: Any) -> Any:
    """Build the object that a record describes; the entry point of every stream.

    Args:
        tag: the name and version of the record, ``"array/1"``.
        *fields: the plain data of the record.

    Raises:
        VersionError: the tag is of a newer jaxpickle.
        CorruptError: the fields are not those of the tag.
        UnpicklingError: a buffer was given whose array has been deleted.
    """
    builder = _builders.get(tag) if isinstance(tag, str) else None
    if builder is None:
        builder = _find(tag, _builders)
    try:
        return builder(*fields)
    except BufferError as error:
        raise UnpicklingError(
            f"a buffer of this stream can no longer be read: {error}. Its array was deleted after "
            "it was pickled; write the buffers out, or load from them, before that"
        ) from error
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        if tag.partition("/")[0] in _RUNS_USER_CODE:
            raise
        raise corrupt(tag, f"cannot be built: {type(error).__name__}: {error}") from error


def fill(obj: Any, state: tuple[Any, ...]) -> Any:
    """Set the state of an object whose record is filled after it was built.

    Args:
        obj: what :func:`build` returned.
        state: the tag of the record, followed by the plain data of the state.
    """
    tag, *fields = state
    filler = _fillers.get(tag)
    if filler is None:
        filler = _find(tag, _fillers)
    filler(obj, *fields)
    return obj


def corrupt(tag: str, why: str) -> CorruptError:
    """Return the error for a record whose fields contradict each other."""
    return CorruptError(f"the stream is damaged: its record {tag!r} {why}", names=(tag,))


def _find(tag: Any, table: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function for a tag that was not met before, and remember it."""
    name = tag.partition("/")[0] if isinstance(tag, str) else None
    if name in _FAMILIES:
        try:
            importlib.import_module(f"jaxpickle.families.{_FAMILIES[name]}")
        except ImportError as error:
            from jaxpickle.families import without_jax

            table[tag] = without_jax.stand_in(tag, error)
    try:
        return table[tag]
    except (KeyError, TypeError):  # a tag that cannot be hashed is none of ours
        raise VersionError(
            f"this stream holds a record {tag!r} that this jaxpickle does not know; it was "
            "written by a newer one. Upgrade jaxpickle here: pip install -U jaxpickle",
            names=(str(tag),),
        ) from None


_own: dict[str, str] = {}


def own(text: str) -> str:
    """Return an equal string that is ours alone: never one that a user's object holds.

    Pickle stores a string once if it meets the same object again; a description must not
    depend on whether the user's graph happens to hold its words.

    Args:
        text: any string, lone surrogates included.  No string of one character can be ours
            alone, since CPython keeps one object of many of them: it is returned as it is.
    """
    if len(text) <= 1:
        return text
    known = _own.get(text)
    # One for all threads: pickle would store two that are equal as two.
    return _own.setdefault(text, "".join([text[:1], text[1:]])) if known is None else known
