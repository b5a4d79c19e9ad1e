"""The trusting replay of a stream: a pickle.Unpickler that knows where arrays should land."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from types import EllipsisType
from typing import Any, Protocol

from jaxpickle.errors import CorruptError, JaxPickleError
from jaxpickle.placements.session import Session, chosen
from jaxpickle.placements.settings import Devices

__all__ = ["Unpickler"]


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def readline(self) -> bytes: ...


class Unpickler(pickle.Unpickler):
    """Read object graphs that :class:`jaxpickle.Pickler`, or plain pickle, wrote.

    Trusts its input as ``pickle.Unpickler`` does: never load data from strangers with it.

    Args:
        file: an object with ``read``, ``readline`` and maybe ``readinto``, open for bytes.
        buffers: the out-of-band buffers, in the order in which they were handed out.
        devices: where arrays and devices go; see :func:`jaxpickle.loads`.
        raise_on_missing_device: whether a device that is not here is an error.

    Example:
        >>> import io, jaxpickle
        >>> unpickler = jaxpickle.Unpickler(io.BytesIO(jaxpickle.dumps([1, 2])))
        >>> unpickler.load()
        [1, 2]
        >>> unpickler.raise_on_missing_device
        True
    """

    def __init__(
        self,
        file: _Readable,
        *,
        buffers: Iterable[Any] | None = None,
        devices: Devices | EllipsisType = ...,
        raise_on_missing_device: bool | EllipsisType = ...,
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._settings = chosen(devices, raise_on_missing_device)
        self._tell = getattr(file, "tell", None)

    def load(self) -> Any:
        """Return the next object graph of the file.

        Raises:
            EOFError: the file is at its end.
            MissingDeviceError: a device is not here.
            PlacementError: ``devices`` cannot be honoured.
            CorruptError: the data is damaged.
            VersionError: the data needs another version of Python, JAX or jaxpickle.
        """
        start = self._position()
        try:
            with Session(self._settings):
                return super().load()
        except JaxPickleError:
            raise
        except pickle.UnpicklingError as error:
            raise CorruptError(f"the data is no pickle, or damaged: {error}") from error
        except EOFError as error:
            if self._position() == start:
                raise
            raise CorruptError("the data ends before the object does: it is truncated") from error

    @property
    def devices(self) -> Any:
        """Where each device name goes here: a dict of name to device, or what was given."""
        return self._settings.describe()

    @property
    def raise_on_missing_device(self) -> bool:
        """Whether a device that is not here is an error."""
        return self._settings.raise_on_missing_device

    def _position(self) -> int | None:
        try:
            return None if self._tell is None else self._tell()
        except (OSError, ValueError):
            return None
