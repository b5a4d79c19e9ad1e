"""The file under a pickler, and what must come before a stream: its header, and room."""

from __future__ import annotations

import pickle
import struct
from typing import Any, Protocol

__all__ = ["Sink", "Writable"]

_LARGE = 1 << 20
_ROOM = pickle.BINBYTES8 + struct.pack("<Q", 2048) + bytes(2048) + pickle.POP
"""2 KiB that any unpickler drops, between the header and a first large array.

A copy whose target lies a few hundred bytes ahead of its source, modulo the 4 KiB page, is 1.6
times slower (measured, 256 MiB), and just there the header would put it in a bytes object.
"""


class Writable(Protocol):
    """What a pickler can write to."""

    def write(self, data: Any, /) -> Any:
        """Take bytes, or a buffer of them."""
        ...


class Sink:
    """A file that gets a stream's header with its second write, and nothing before it.

    So a dump that fails in the small part before leaves the file as it was.

    Args:
        file: where the stream goes.
        protocol: its pickle protocol; the opcode that makes room is one of protocol 4.

    Raises:
        TypeError: ``file`` has no ``write``.

    Attributes:
        failed: whether it is the file that raised the error of a failed dump.
    """

    def __init__(self, file: Writable, protocol: int) -> None:
        self.failed = False
        if not hasattr(file, "write"):
            raise TypeError(
                f"jaxpickle writes to an open file, not to a {type(file).__name__}. Call: "
                "with open(path, 'wb') as file: jaxpickle.dump(obj, file)"
            )
        self._file_write = file.write
        self._room = _ROOM if protocol >= 4 else b""
        self._head = b""
        self._held: Any = None

    def begin(self, header: bytes) -> None:
        """Take the header of a stream whose writes follow."""
        self._head, self._held = header, None

    def write(self, data: Any) -> None:
        """Write what the pickler hands out: frames, and the bytes of large arrays as they are."""
        if not self._head:
            self._write(data)
        elif self._held is None:
            self._held = data
        else:
            self._release(self._room if memoryview(data).nbytes >= _LARGE else b"")
            self._write(data)

    def end(self) -> None:
        """Write what is still held."""
        if self._head:
            self._release(b"")

    def _release(self, room: bytes) -> None:
        head, held = self._head, self._held
        self._head, self._held = b"", None
        self._write(head + room)
        if held is not None:
            self._write(held)

    def _write(self, data: Any) -> None:
        try:
            self._file_write(data)
        except BaseException:
            self.failed = True
            raise
