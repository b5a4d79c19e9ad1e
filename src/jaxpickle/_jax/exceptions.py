"""JAX's exception classes that have no public name in some version, by names of our own."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["exception_class", "exception_name"]

_NAMES = (
    "api_util.InternalFloatingPointError",
    "batching.SpecMatchError",
    "checkify.BatchedError",
    "checkify.DivisionByZeroError",
    "checkify.FailedCheckError",
    "checkify.JaxRuntimeError",
    "checkify.NaNError",
    "checkify.OOBError",
    "core.ForbiddenCollectiveError",
    "core.InconclusiveDimensionOperation",
    "core.JaxprTypeError",
    "core.ShardingTypeError",
    "dtypes.InvalidInputException",
    "dtypes.TypePromotionError",
    "error_check.JaxValueError",
    "named_sharding.DuplicateSpecError",
    "shape_poly.UnexpectedDimVar",
    "sharding.IndivisibleError",
    "sharding_impls.NonUniformShardingError",
    "stages.DeviceAssignmentMismatchError",
)
"""Part of the format of streams, whatever JAX makes of its modules."""

_HOMES = {"batching": "interpreters.batching", "shape_poly": "export.shape_poly"}


def exception_name(cls: type) -> str | None:
    """Return our own name of an exception class, or None where it has a public one."""
    ending = f".{cls.__name__}"
    return next((n for n in _NAMES if n.endswith(ending) and exception_class(n) is cls), None)


def exception_class(name: str) -> Any:
    """Return the class of that name, or None where this version of JAX has none."""
    if name not in _NAMES:
        return None
    home, _, attribute = name.rpartition(".")
    try:
        module = importlib.import_module(f"jax._src.{_HOMES.get(home, home)}")
    except ImportError:
        return None
    return getattr(module, attribute, None)
