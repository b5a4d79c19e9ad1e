"""The walk over an object graph: a cloudpickle.Pickler that describes what is JAX's."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import cloudpickle

from jaxpickle import object_path
from jaxpickle.errors import PicklingError
from jaxpickle.families import by_value, dispatch_table, origin, references
from jaxpickle.families.buffers import Buffer
from jaxpickle.sink import Sink, Writable

__all__ = ["Pickler", "SourceInfo"]

SourceInfo = Literal["user", "all", False]
BufferCallback = Callable[[pickle.PickleBuffer], Any]

_FAULTS = (pickle.PicklingError, TypeError, AttributeError, NotImplementedError)
"""What picklers raise for an object that cannot be pickled; all else is the user's own."""


_TOO_DEEP = (
    "cannot pickle $: the object nests deeper than Python's recursion limit ({limit}). Raise it "
    "with sys.setrecursionlimit, or keep long chains in a list"
)


class Pickler(cloudpickle.Pickler):
    """Write object graphs with JAX objects anywhere in them to a file.

    A ``cloudpickle.Pickler``: what that pickles by value, this does too.  The streams load
    with :class:`jaxpickle.Unpickler`, and with plain ``pickle`` where jaxpickle is installed.

    Args:
        file: an object with a ``write`` method that takes bytes.
        protocol: pickle protocol, 2 to 5; None, or a negative number, is the highest.
        buffer_callback: called with each large array's bytes as a ``pickle.PickleBuffer``,
            which then stay out of the stream (protocol 5).  A true result keeps them in.
        source_info: what programs keep of their source, ``"user"`` frames, ``"all"`` or False;
            it is checked, and without effect until programs travel.

    Raises:
        ValueError: the protocol is not 2 to 5, or ``buffer_callback`` goes with one below 5.

    Example:
        >>> import io, jaxpickle
        >>> file = io.BytesIO()
        >>> jaxpickle.Pickler(file).dump([1, 2])
        >>> jaxpickle.loads(file.getvalue())
        [1, 2]
    """

    dispatch_table: ClassVar[Any] = dispatch_table

    def __init__(
        self,
        file: Writable,
        protocol: int | None = None,
        *,
        buffer_callback: BufferCallback | None = None,
        source_info: SourceInfo = "user",
    ) -> None:
        self.source_info = _checked_source_info(source_info)
        self._protocol = _checked_protocol(protocol)
        self._sink = Sink(file, self._protocol)
        self._in_band = buffer_callback is None
        super().__init__(self._sink, protocol=self._protocol, buffer_callback=buffer_callback)

    def dump(self, obj: Any) -> None:
        """Write ``obj`` and all that it refers to.

        Args:
            obj: any object graph.

        Raises:
            PicklingError: something in it cannot be pickled; the text says what and where.

        Example:
            >>> import io, jaxpickle
            >>> file = io.BytesIO()
            >>> pickler = jaxpickle.Pickler(file)
            >>> pickler.dump("first"), pickler.dump("second")
            (None, None)
            >>> _ = file.seek(0)
            >>> jaxpickle.load(file), jaxpickle.load(file)
            ('first', 'second')
        """
        self._sink.begin(origin.header(self._protocol))
        try:
            super().dump(obj)
        except Exception as error:
            explained = error if self._sink.failed else self._explained(error, obj)
            if explained is error:
                raise
            raise explained from error
        self._sink.end()

    def reducer_override(self, obj: Any) -> Any:
        """Reduce what a dispatch table cannot match: classes, functions, our buffers."""
        if type(obj) is Buffer:
            return obj.reduced(self._protocol, in_band=self._in_band)
        if not isinstance(obj, references.GLOBALS):
            return NotImplemented
        reduced = references.reduce_library_global(obj)
        if reduced is not None:
            return reduced
        return by_value.guarded(obj, super().reducer_override(obj))

    def _explained(self, error: Exception, obj: Any) -> Exception:
        """Return ``error`` with the path of the object that caused it, where there is one."""
        if isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError):
            return PicklingError(_TOO_DEEP.format(limit=sys.getrecursionlimit()), path="$")
        fault = object_path.find_fault(self, obj)
        if fault is None:
            return error
        if not isinstance(error, _FAULTS):
            error.add_note(f"while pickling {fault.path} (a {fault.type_name})")
            return error
        return PicklingError(fault.message(error), path=fault.path, type_name=fault.type_name)


def _checked_protocol(protocol: int | None) -> int:
    if protocol is None:
        return pickle.HIGHEST_PROTOCOL
    highest = pickle.HIGHEST_PROTOCOL
    chosen = highest if protocol < 0 else protocol
    if not 2 <= chosen <= highest:
        raise ValueError(f"protocol must be 2 to {highest}, or None for {highest}; not {protocol}")
    return chosen


def _checked_source_info(source_info: SourceInfo) -> SourceInfo:
    if source_info not in ("user", "all", False):
        raise ValueError(f"source_info must be 'user', 'all' or False; not {source_info!r}")
    return source_info
