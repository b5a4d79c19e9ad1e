"""What a stream gives where JAX cannot be imported: arrays as numpy's, and clear errors.

So a script that only looks at results needs no JAX.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxpickle.errors import UnpicklingError
from jaxpickle.families.parts import Parts, typed, whole

__all__ = ["stand_in"]


def stand_in(tag: str, error: ImportError) -> Callable[..., Any]:
    """Return what builds a tag whose family could not be imported.

    Args:
        tag: the record.
        error: why its family could not be imported.

    Raises:
        ImportError: the cause is not that JAX is missing.
        UnpicklingError: the record needs JAX.
    """
    if _jax_can_be_imported():
        raise error
    builder: Callable[..., Any] | None = _BUILDERS.get(tag)
    if builder is None:
        name = tag.partition("/")[0].replace("_", " ")
        raise UnpicklingError(
            f"this stream holds a JAX object (record {tag!r}: {name}) that needs JAX, which "
            f"cannot be imported here: {error}. Install it: pip install jax",
            names=(tag,),
        ) from error
    return builder


def _array(kind: tuple[Any, ...], place: Any, data: Any) -> np.ndarray[Any, Any]:
    dtype, shape, _ = typed("array/1", kind)
    saved = data if type(data) is tuple else ((whole(shape), data),)
    if saved[:1] == ("partial",):
        raise UnpicklingError("an array of partial sums needs JAX. Install it: pip install jax")
    return Parts("array/1", shape, dtype, saved).read(whole(shape))


def _keys(impl: str, kind: tuple[Any, ...], place: Any, data: Any) -> np.ndarray[Any, Any]:
    """Return the data of PRNG keys, as ``jax.random.key_data`` would."""
    return _array(kind, place, data)


def _ref(
    impl: str | None, mutation: str | None, kind: tuple[Any, ...], place: Any, data: Any
) -> np.ndarray[Any, Any]:
    """Return the values that a reference held."""
    return _array(kind, place, data)


_BUILDERS: dict[str, Callable[..., Any]] = {"array/1": _array, "key/1": _keys, "ref/1": _ref}


def _jax_can_be_imported() -> bool:
    try:
        importlib.import_module("jax")
    except ImportError:
        return False
    return True
