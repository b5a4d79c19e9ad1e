"""The bytes of an array: out of band where pickle can, and back without a needless copy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from jaxpickle.records import Reduced, build, builds, corrupt

__all__ = [
    "ALIGNMENT",
    "IN_BAND",
    "Buffer",
    "aligned",
    "as_bytes",
    "empty_aligned",
    "numbered",
    "pack",
    "unnumbered",
]

ALIGNMENT = 64
"""XLA aliases host memory that starts on this many bytes, and copies other memory."""

IN_BAND = 4096
"""Bytes below which a buffer goes in band: a record of its own would cost more (measured)."""

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Buffer:
    """The bytes of one array or shard, as pickle meets them.

    A copyreg reducer is not told the protocol, but ``__reduce_ex__`` is: so any pickler gets
    these bytes out of band where its protocol has that, and in band below.
    """

    __slots__ = ("view",)

    def __init__(self, view: Bytes) -> None:
        self.view = view

    def __reduce_ex__(self, protocol: Any, /) -> Reduced:
        return self.reduced(int(protocol), in_band=False)

    def reduced(self, protocol: int, *, in_band: bool) -> Reduced:
        """Return the record of these bytes.

        Args:
            protocol: the pickle protocol.
            in_band: whether no ``buffer_callback`` can take them; then they are written as
                mutable bytes, which a reader can shift to alignment where they are.
        """
        if protocol < 5:
            ours = (True,) if self.view.flags.writeable else ()
            return build, ("buffer/1", self.view.tobytes(), *ours)
        view: Any = _writable(self.view) if in_band else self.view
        return build, ("buffer/1", pickle.PickleBuffer(view), *((True,) if in_band else ()))


@builds("buffer/1")
def _build_buffer(data: Any, ours: bool = False) -> Any:
    """Return the memory of a buffer: a bytearray if it is ours, to change and to move.

    Args:
        data: the bytes of the stream, or the buffer that the caller of ``loads`` gave.
        ours: whether they came in the stream, as what may be changed.
    """
    if not isinstance(data, (bytes, bytearray, memoryview, pickle.PickleBuffer)) and ours:
        raise corrupt("buffer/1", f"holds a {type(data).__name__} where bytes should be")
    if not ours:
        return memoryview(data) if type(data) is bytearray else data
    if type(data) is not bytearray:
        data = bytearray(data)
    if len(data) >= IN_BAND:
        _align_in_place(data)
    return data


def pack(array: np.ndarray[Any, Any]) -> bytes | int | Buffer:
    """Return the plain data that stands for the bytes of a C-contiguous array in a record."""
    if array.nbytes >= IN_BAND:
        return Buffer(as_bytes(array))
    return numbered(array.tobytes())


def numbered(data: bytes) -> bytes | int:
    """Return what stands for ``data`` in a record: a number for a single byte, else itself.

    CPython may have one object for all equal single bytes, and pickle would store that of a
    record and one of the user's once in one process, and twice in another.
    """
    return data[0] if len(data) == 1 else data


def unnumbered(data: Any) -> Any:
    """Return the bytes that :func:`numbered` replaced, and anything else as it is.

    Raises:
        ValueError: it is a number that is no byte.
    """
    return bytes((data,)) if type(data) is int else data


def as_bytes(array: np.ndarray[Any, Any]) -> Bytes:
    """Return the bytes of a C-contiguous array as a flat view, without a copy."""
    return array.reshape(-1).view(np.uint8)


def aligned(data: Any, nbytes: int, tag: str) -> Bytes:
    """Return ``data`` as aligned bytes that nobody else can change.

    Args:
        data: what a buffer field of a record holds: bytes, a number that is a single byte, or
            any contiguous buffer.
        nbytes: how many bytes the record's dtype and shape need.
        tag: the record, for the error.

    Returns:
        A view of ``data`` itself where it is aligned and read-only or ours; else a copy.

    Raises:
        CorruptError: ``data`` is no buffer, or has another size.
    """
    try:
        data = unnumbered(data)
        view = np.frombuffer(data, np.uint8)
    except (TypeError, ValueError, AttributeError) as error:
        raise corrupt(tag, f"holds no bytes: {error}") from error
    if view.nbytes != nbytes:
        raise corrupt(tag, f"has {view.nbytes} bytes of data where its shape needs {nbytes}")
    if _is_stable(data) and (nbytes < IN_BAND or _address(view) % ALIGNMENT == 0):
        return view
    copy = empty_aligned(nbytes)
    copy[...] = view
    return copy


def empty_aligned(nbytes: int) -> Bytes:
    """Return fresh memory of ``nbytes`` that starts on ALIGNMENT."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -_address(memory) % ALIGNMENT
    return memory[start : start + nbytes]


def _align_in_place(data: bytearray) -> None:
    """Move the bytes of ``data`` up to an aligned address, inside its own memory.

    A prefix is put in front, which moves the bytes, and taken off again, which moves only
    the start: a third of the price of a copy into fresh memory (measured, 256 MiB).
    """
    if _address(np.frombuffer(data, np.uint8)) % ALIGNMENT == 0:
        return
    data.extend(bytes(ALIGNMENT))  # it may move for that; for what follows it has room
    gap = -_address(np.frombuffer(data, np.uint8)) % ALIGNMENT
    data[:0] = bytes(gap)
    del data[:gap]
    del data[-ALIGNMENT:]


def _is_stable(data: Any) -> bool:
    """Say whether the memory behind ``data`` is read-only, or a bytearray of our own.

    A read-only view does not tell: its owner may go on writing.
    """
    if type(data) in (bytes, bytearray):
        return True
    view = memoryview(data)
    readonly = view.readonly
    owner: Any = view.obj
    while owner is not None:
        inner: Any
        if isinstance(owner, np.ndarray):
            readonly, inner = not owner.flags.writeable, owner.base
        else:
            try:
                view = memoryview(owner)
            except TypeError:  # what is no buffer, as memory of JAX
                break
            readonly, inner = view.readonly, view.obj
        owner = None if inner is owner else inner
    return readonly


def _address(view: Bytes) -> int:
    return int(view.__array_interface__["data"][0])


class _Exposed:
    """The memory of a read-only view, offered as writable (pickle then writes a bytearray)."""

    def __init__(self, view: Bytes) -> None:
        self.view = view
        interface = dict(view.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def _writable(view: Bytes) -> Bytes:
    return np.asarray(_Exposed(view))
