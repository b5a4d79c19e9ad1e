"""pickle's four functions: arguments checked, then one Pickler or Unpickler."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from types import EllipsisType
from typing import Any

from jaxpickle.pickler import BufferCallback, Pickler, SourceInfo
from jaxpickle.placements.settings import Devices
from jaxpickle.sink import Writable
from jaxpickle.unpickler import Readable, Unpickler

__all__ = ["dump", "dumps", "load", "loads"]


def dumps(
    obj: Any,
    protocol: int | None = None,
    *,
    buffer_callback: BufferCallback | None = None,
    source_info: SourceInfo = "user",
) -> bytes:
    """Return ``obj``, and every array in it with its device and sharding, as bytes.

    Args:
        obj: any object graph: classes, containers, closures, with JAX objects anywhere.
        protocol: pickle protocol, 2 to 5; None, or a negative number, is the highest.
        buffer_callback: called with each large array's bytes as a ``pickle.PickleBuffer``,
            which then stay out of the result (protocol 5), unless it returns something true;
            no byte of a CPU array is copied.
        source_info: what programs keep of their source, ``"user"`` frames, ``"all"`` or False;
            it is checked, and without effect until programs travel.

    Raises:
        PicklingError: something in ``obj`` cannot be pickled; the text says what and where.
        ValueError: the protocol is not 2 to 5, or ``buffer_callback`` goes with one below 5.

    Example:
        >>> import jax, jaxpickle
        >>> data = jaxpickle.dumps({"w": jax.numpy.ones(3)})
        >>> jaxpickle.loads(data)["w"]
        Array([1., 1., 1.], dtype=float32)
    """
    with io.BytesIO() as file:
        dump(obj, file, protocol, buffer_callback=buffer_callback, source_info=source_info)
        return file.getvalue()


def dump(
    obj: Any,
    file: Writable,
    protocol: int | None = None,
    *,
    buffer_callback: BufferCallback | None = None,
    source_info: SourceInfo = "user",
) -> None:
    """Write ``obj``, and every array in it with its device and sharding, to an open file.

    Args:
        obj: any object graph: classes, containers, closures, with JAX objects anywhere.
        file: an object with a ``write`` method that takes bytes.
        protocol: pickle protocol, 2 to 5; None, or a negative number, is the highest.
        buffer_callback: as for :func:`dumps`.
        source_info: as for :func:`dumps`.

    Raises:
        PicklingError: something in ``obj`` cannot be pickled; the text says what and where.
        TypeError: ``file`` is a path.
        ValueError: as for :func:`dumps`.

    Example:
        >>> import io, jax, jaxpickle
        >>> file = io.BytesIO()
        >>> jaxpickle.dump(jax.numpy.ones(3), file)
        >>> _ = file.seek(0)
        >>> jaxpickle.load(file)
        Array([1., 1., 1.], dtype=float32)
    """
    _refuse_path(file, "dump(obj, file)", "wb")
    pickler = Pickler(file, protocol, buffer_callback=buffer_callback, source_info=source_info)
    pickler.dump(obj)


def loads(
    data: Any,
    *,
    buffers: Iterable[Any] | None = None,
    devices: Devices | EllipsisType = ...,
    raise_on_missing_device: bool | EllipsisType = ...,
) -> Any:
    """Return the object graph in ``data``; its arrays land where they were, or as asked.

    Trusts its input as ``pickle.loads`` does: never load data from strangers with it.

    Args:
        data: bytes that :func:`dumps`, or plain pickle, wrote.
        buffers: the out-of-band buffers, in the order in which they were handed out.
        devices: where arrays, and the devices in meshes, shardings and functions, go: a
            mapping of device names, one device or its name, or a ``jax.sharding.Mesh``;
            None is as they were saved; not given is as the ``placement`` block says.
        raise_on_missing_device: whether a device that is not here is an error (the default),
            or replaced by the default device.

    Raises:
        MissingDeviceError: a device is not here.
        PlacementError: ``devices`` cannot be honoured.
        TypeError: ``devices`` is none of the forms that there are, or ``data`` no bytes.
        ValueError: a name in ``devices`` is no device name.
        CorruptError: ``data`` is damaged.
        VersionError: ``data`` needs another version of Python, JAX or jaxpickle.

    Example:
        >>> import jax, jaxpickle
        >>> data = jaxpickle.dumps(jax.numpy.ones(3))
        >>> jaxpickle.loads(data, devices="cpu").committed
        True
    """
    _refuse_path(data, "load(file)", "rb")
    if type(data) is not bytes:
        data = _viewed(data)
    return load(
        io.BytesIO(data),
        buffers=buffers,
        devices=devices,
        raise_on_missing_device=raise_on_missing_device,
    )


def load(
    file: Readable,
    *,
    buffers: Iterable[Any] | None = None,
    devices: Devices | EllipsisType = ...,
    raise_on_missing_device: bool | EllipsisType = ...,
) -> Any:
    """Return the next object graph in an open file; see :func:`loads`.

    Trusts its input as ``pickle.load`` does: never load data from strangers with it.

    Args:
        file: an object with ``read``, ``readline`` and maybe ``readinto``, open for bytes.
        buffers: as for :func:`loads`.
        devices: as for :func:`loads`.
        raise_on_missing_device: as for :func:`loads`.

    Raises:
        EOFError: the file is at its end.
        TypeError: ``file`` is a path, or bytes.
        UnpicklingError: as for :func:`loads`, and its kinds.

    Example:
        >>> import io, jaxpickle
        >>> jaxpickle.load(io.BytesIO(jaxpickle.dumps([1, 2])))
        [1, 2]
    """
    _refuse_path(file, "load(file)", "rb")
    if isinstance(file, (bytes, bytearray, memoryview)):
        raise TypeError("jaxpickle.load takes an open file, not bytes. Call: jaxpickle.loads(data)")
    return Unpickler(
        file,
        buffers=buffers,
        devices=devices,
        raise_on_missing_device=raise_on_missing_device,
    ).load()


def _viewed(data: Any) -> memoryview:
    try:
        return memoryview(data)
    except TypeError:
        if not hasattr(data, "read"):
            raise
        message = "jaxpickle.loads takes bytes, not a file. Call: jaxpickle.load(file)"
        raise TypeError(message) from None


def _refuse_path(file: Any, call: str, mode: str) -> None:
    if isinstance(file, (str, os.PathLike)):
        raise TypeError(
            f"jaxpickle.{call} takes an open file, not a path. Call: "
            f"with open({os.fspath(file)!r}, {mode!r}) as file: jaxpickle.{call}"
        )
