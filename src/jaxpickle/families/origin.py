"""The header of a stream: which versions wrote it, once, before all else.

It stands in front of the pickle proper as opcodes that any unpickler runs and forgets: no
memo entry, nothing left on the stack.
"""

from __future__ import annotations

import functools
import pickle
import platform
import struct
from importlib import metadata

from jaxpickle.placements.session import current_session
from jaxpickle.records import builds

__all__ = ["header"]


@functools.cache
def header(protocol: int) -> bytes:
    """Return the opcodes that put the writer's versions in front of a stream.

    Args:
        protocol: the pickle protocol of the stream, 2 to 5.
    """
    versions = [f"{name}=={_version(name)}" for name in ("jaxpickle", "jax", "jaxlib")]
    fields = ["stream/1", f"python=={platform.python_version()}", *versions]
    call = pickle.GLOBAL + b"jaxpickle.records\nbuild\n" + pickle.MARK
    call += b"".join(map(_unicode, fields)) + pickle.TUPLE + pickle.REDUCE + pickle.POP
    return pickle.PROTO + bytes([protocol]) + call


@builds("stream/1")
def _build_stream(*versions: str) -> None:
    session = current_session()
    if session is not None:
        session.written_by = versions


def _unicode(text: str) -> bytes:
    data = text.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(data)) + data


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
