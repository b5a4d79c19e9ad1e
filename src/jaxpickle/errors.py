"""The tree of errors that jaxpickle raises, and the warnings it gives.

::

    JaxPickleError
    ├── PicklingError            (also a pickle.PicklingError)
    └── UnpicklingError          (also a pickle.UnpicklingError)
        ├── PlacementError       where an object should land cannot be honoured
        │   └── MissingDeviceError   a device that the stream names is not here
        ├── UntrustedError       the data names code that the caller did not trust
        ├── CorruptError         the data is damaged or is no pickle
        ├── LimitError           the data asks for more than the reader allows
        └── VersionError         another version of Python, JAX or jaxpickle is needed

    JaxPickleWarning             (a UserWarning)
    └── PlacementWarning         an object landed, but not quite as it was saved
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

__all__ = [
    "CorruptError",
    "JaxPickleError",
    "JaxPickleWarning",
    "LimitError",
    "MissingDeviceError",
    "PicklingError",
    "PlacementError",
    "PlacementWarning",
    "UnpicklingError",
    "UntrustedError",
    "VersionError",
]


class JaxPickleError(Exception):
    """Base of every error that jaxpickle raises on purpose.

    Attributes:
        path: where in the object the fault stands (``$.layers[3].w``), or None.
        names: the names that the error is about (devices, axes, modules), in order.
        available: what there is instead, in order.
        type_name: the type of the object at fault, or None.

    Every error pickles: its text and its attributes come back.
    """

    def __init__(
        self,
        message: str = "",
        *,
        path: str | None = None,
        names: Sequence[str] = (),
        available: Sequence[str] = (),
        type_name: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.names = tuple(names)
        self.available = tuple(available)
        self.type_name = type_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, self.__dict__


class PicklingError(JaxPickleError, pickle.PicklingError):
    """An object cannot be pickled; the text says where it stands and what to do."""


class UnpicklingError(JaxPickleError, pickle.UnpicklingError):
    """A stream cannot be turned back into objects."""


class PlacementError(UnpicklingError):
    """An object cannot land where ``devices=`` or its saved place says."""


class MissingDeviceError(PlacementError):
    """A saved device, or a target of ``devices=``, does not exist in this process.

    ``names`` lists the devices that are missing, ``available`` those there are.
    """


class UntrustedError(UnpicklingError):
    """The data needs names that the caller did not trust; nothing of it has run."""


class CorruptError(UnpicklingError):
    """The data is truncated, damaged, or was never a pickle."""


class LimitError(UnpicklingError):
    """The data asks for more depth, entries or memory than the reader allows."""


class VersionError(UnpicklingError):
    """The data needs another version of Python, JAX or jaxpickle."""


class JaxPickleWarning(UserWarning):
    """Base of every warning that jaxpickle gives."""


class PlacementWarning(JaxPickleWarning):
    """An object was loaded, but could not land quite as it was saved."""
