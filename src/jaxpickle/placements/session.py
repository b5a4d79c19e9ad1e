"""Which settings are in force: those of the running load, of a block, or none."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import EllipsisType
from typing import TYPE_CHECKING

from jaxpickle.errors import PlacementWarning
from jaxpickle.placements.settings import TABLE, Devices, Settings

if TYPE_CHECKING:
    from jaxpickle.placements.resolver import Resolver

__all__ = ["Session", "chosen", "current_resolver", "current_session", "placement", "warn_once"]

_settings: ContextVar[Settings] = ContextVar("jaxpickle_settings", default=TABLE)
_session: ContextVar[Session | None] = ContextVar("jaxpickle_session", default=None)
_warned: set[str] = set()


class Session:
    """One load of ours: its settings are in force, and each of its warnings comes once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.written_by: tuple[str, ...] = ()
        self.warned: set[str] = set()
        self._running = False
        self._resolver: Resolver | None = None
        self._token: Token[Session | None] | None = None

    @property
    def resolver(self) -> Resolver:
        """The resolver of this load, made when the first placed object turns up."""
        if self._resolver is None:
            from jaxpickle.placements.resolver import resolver_for

            self._resolver = resolver_for(self.settings)
        return self._resolver

    @property
    def is_running(self) -> bool:
        """Whether the load goes on: a task that it started has a copy of its context."""
        return self._running

    def __enter__(self) -> Session:
        self._token, self._running = _session.set(self), True
        return self

    def __exit__(self, *_: object) -> None:
        self._running = False
        if self._token is not None:
            _session.reset(self._token)


@contextmanager
def placement(
    *,
    devices: Devices | EllipsisType = ...,
    raise_on_missing_device: bool | EllipsisType = ...,
) -> Iterator[None]:
    """Steer where arrays land, for every load in this thread or task inside the block.

    It steers our own functions where their own arguments do not say, and other libraries'
    (``pickle.loads``, ``cloudpickle.loads``, a queue's ``get``) as well.

    Args:
        devices: as for :func:`jaxpickle.loads`; None is the table; not given is as outside.
        raise_on_missing_device: as for :func:`jaxpickle.loads`; not given is as outside.

    Raises:
        TypeError: an argument is of no form that ``loads`` takes.
        ValueError: a name in ``devices`` is no device name.

    Example:
        >>> import pickle, jax, jaxpickle
        >>> data = jaxpickle.dumps(jax.numpy.ones(3))
        >>> with jaxpickle.placement(devices="cpu"):
        ...     pickle.loads(data).committed
        True
    """
    settings = _settings.set(chosen(devices, raise_on_missing_device))
    session = _session.set(None)
    try:
        yield
    finally:
        _session.reset(session)
        _settings.reset(settings)


def chosen(
    devices: Devices | EllipsisType, raise_on_missing_device: bool | EllipsisType
) -> Settings:
    """Return the settings in force with those arguments that were given (not ``...``)."""
    session = current_session()
    outer = _settings.get() if session is None else session.settings
    if devices is ... and raise_on_missing_device is ...:
        return outer
    return Settings(
        outer.devices if devices is ... else devices,
        outer.raise_on_missing_device
        if raise_on_missing_device is ...
        else raise_on_missing_device,
    )


def current_session() -> Session | None:
    """Return the running load of ours, or None inside another library's."""
    session = _session.get()
    return session if session is not None and session.is_running else None


def current_resolver() -> Resolver:
    """Return the resolver that decides where an object being loaded now lands."""
    session = current_session()
    if session is not None:
        return session.resolver
    from jaxpickle.placements.resolver import resolver_for

    return resolver_for(_settings.get())


def warn_once(message: str, *, about: str | None = None) -> None:
    """Warn once in a load of ours, and once in a process elsewhere.

    Args:
        message: the text.
        about: what it is about, of which one warning is enough; None is the text itself.
    """
    session = current_session()
    warned = _warned if session is None else session.warned
    if (about or message) not in warned:
        warned.add(about or message)
        warnings.warn(message, PlacementWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """Return the ``stacklevel`` of the code that called into this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("jaxpickle."):
        level, frame = level + 1, frame.f_back
    return level
