"""The trusting replay of a stream: a pickle.Unpickler that knows where arrays should land."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from types import EllipsisType
from typing import Any, Protocol

from jaxpickle.errors import CorruptError, JaxPickleError, UnpicklingError
from jaxpickle.placements.session import Session, chosen
from jaxpickle.placements.settings import Devices

__all__ = ["Readable", "Unpickler"]


_NEEDS = {
    "out-of-band": (
        "the stream's arrays lie out of band: pass the buffers that buffer_callback was given, "
        "all and in order, jaxpickle.loads(data, buffers=buffers)"
    ),
    "persistent": (
        "the stream has persistent ids: load it with a subclass of jaxpickle.Unpickler that has "
        "the persistent_load which its writer meant"
    ),
}
"""What a stream may need of its reader, by a word in the C unpickler's complaint."""


class Readable(Protocol):
    """What an unpickler can read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes."""
        ...

    def readline(self) -> bytes:
        """Return the bytes up to and with the next newline."""
        ...


class Unpickler(pickle.Unpickler):
    """Read object graphs that :class:`jaxpickle.Pickler`, or plain pickle, wrote.

    Trusts its input as ``pickle.Unpickler`` does: never load data from strangers with it.

    Args:
        file: an object with ``read``, ``readline`` and maybe ``readinto``, open for bytes.
        buffers: the out-of-band buffers, in the order in which they were handed out.
        devices: where arrays and devices go; see :func:`jaxpickle.loads`.
        raise_on_missing_device: whether a device that is not here is an error.

    Raises:
        TypeError: ``devices`` is none of the forms that there are.
        ValueError: a name in ``devices`` is no device name.

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
        file: Readable,
        *,
        buffers: Iterable[Any] | None = None,
        devices: Devices | EllipsisType = ...,
        raise_on_missing_device: bool | EllipsisType = ...,
    ) -> None:
        if not (hasattr(file, "read") and hasattr(file, "readline")):
            raise TypeError(
                f"jaxpickle reads from an open file, not from a {type(file).__name__}. Call: "
                "with open(path, 'rb') as file: jaxpickle.load(file)"
            )
        super().__init__(file, buffers=buffers)
        self._given = (devices, raise_on_missing_device)
        chosen(*self._given)  # a wrong argument is told now, not by the load
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
        session = Session(chosen(*self._given))
        try:
            with session:
                return super().load()
        except Exception as error:
            if session.written_by:
                error.add_note(f"the stream was written by {', '.join(session.written_by)}")
            explained = self._explained(error, start, ours=bool(session.written_by))
            if explained is error:
                raise
            raise explained from error

    def _explained(self, error: Exception, start: int | None, *, ours: bool) -> Exception:
        """Return what an error of the unpickler in C means; all others are told already."""
        frame = error.__traceback__ and error.__traceback__.tb_next
        if frame is not None or isinstance(error, JaxPickleError):
            return error
        if isinstance(error, EOFError):
            ends = self._position() == start
            return error if ends else CorruptError("the data ends too early: it is truncated")
        if not isinstance(error, (pickle.UnpicklingError, ValueError, LookupError, OverflowError)):
            return error
        for word, what in _NEEDS.items():
            if ours and word in str(error):
                return UnpicklingError(f"{what} ({error})")
        return CorruptError(f"the data is no pickle, or damaged: {error}")

    @property
    def devices(self) -> Any:
        """Where each device name goes here: a dict of name to device, or what was given."""
        return chosen(*self._given).describe()

    @property
    def raise_on_missing_device(self) -> bool:
        """Whether a device that is not here is an error."""
        return chosen(*self._given).raise_on_missing_device

    def _position(self) -> int | None:
        try:
            return None if self._tell is None else self._tell()
        except (OSError, ValueError):
            return None
