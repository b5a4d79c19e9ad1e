"""The saved parts of a sharded array, and any other part of it, read or joined from them.

Needs no JAX: without it, the whole array is just one more part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxpickle.families.buffers import aligned, empty_aligned
from jaxpickle.families.dtypes import build_dtype
from jaxpickle.records import corrupt

__all__ = ["Bounds", "Host", "Parts", "bounds_of", "host_array", "typed", "whole"]

Host = np.ndarray[Any, Any]
Bounds = tuple[tuple[int, int], ...]
"""Which part of the whole: start and stop in each dimension."""


class Parts:
    """Some disjoint parts of one array, from which any part can be read.

    Args:
        tag: the record that they are of, for errors.
        shape: the shape of the whole.
        dtype: its dtype.
        saved: the bounds and the bytes of each part.

    Raises:
        CorruptError: a part lies outside of the whole, or has another size.
    """

    def __init__(
        self,
        tag: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        saved: Iterable[tuple[Any, Any]],
    ) -> None:
        self._tag = tag
        self._shape = shape
        self._dtype = dtype
        self._hosts: dict[Bounds, Host] = {}
        try:
            for bounds, data in saved:
                part = self._checked(bounds)
                self._hosts[part] = host_array(tag, dtype, _extent(part), data)
        except (TypeError, ValueError) as error:
            raise corrupt(tag, f"has parts of no known form: {error}") from error
        self._saved = tuple(self._hosts.items())

    def read(self, bounds: Bounds) -> Host:
        """Return the part within ``bounds``: a saved one as it is, or joined of several.

        Raises:
            CorruptError: the saved parts do not cover it.
        """
        host = self._hosts.get(bounds)
        if host is None:
            host = self._hosts[bounds] = self._joined(bounds)
        return host

    def _joined(self, bounds: Bounds) -> Host:
        extent = _extent(bounds)
        memory = empty_aligned(math.prod(extent) * self._dtype.itemsize)
        joined = memory.view(self._dtype).reshape(extent)
        filled = 0
        for saved, host in self._saved:
            common = _common(bounds, saved)
            if common is not None:
                joined[_within(common, bounds)] = host[_within(common, saved)]
                filled += math.prod(_extent(common))
        if filled != joined.size:
            raise corrupt(self._tag, "lacks a part of its array")
        return joined

    def _checked(self, bounds: Any) -> Bounds:
        fits = len(bounds) == len(self._shape) and all(
            0 <= start <= stop <= size
            for (start, stop), size in zip(bounds, self._shape, strict=True)
        )
        if not fits:
            raise corrupt(self._tag, f"has a part {bounds!r:.80} outside its shape {self._shape}")
        return bounds  # type: ignore[no-any-return]


def host_array(tag: str, dtype: np.dtype[Any], shape: tuple[int, ...], data: Any) -> Host:
    """Return the array whose bytes a record holds, aligned, and aliased where that is safe.

    Raises:
        CorruptError: the bytes are not as many as dtype and shape need.
    """
    return aligned(data, math.prod(shape) * dtype.itemsize, tag).view(dtype).reshape(shape)


def typed(tag: str, kind: Any) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Return dtype, shape and weak type, checked, of the first field of an array's record.

    Raises:
        CorruptError: no array is of that type.
    """
    try:
        name, shape, weak_type = kind
        dtype = build_dtype(name)
        if type(shape) is not tuple or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("a dimension is no size")
        if dtype.hasobject:
            raise ValueError("it holds objects")
    except (TypeError, ValueError) as error:
        raise corrupt(tag, f"has no possible type {kind!r:.80}: {error}") from error
    return dtype, shape, bool(weak_type)


def bounds_of(index: tuple[slice, ...], shape: tuple[int, ...]) -> Bounds:
    """Return the part of a whole of ``shape`` that a shard's index means."""
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))


def whole(shape: tuple[int, ...]) -> Bounds:
    """Return the part that is all of ``shape``."""
    return tuple((0, size) for size in shape)


def _extent(bounds: Bounds) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in bounds)


def _common(a: Bounds, b: Bounds) -> Bounds | None:
    common = tuple(
        (max(a_start, b_start), min(a_stop, b_stop))
        for (a_start, a_stop), (b_start, b_stop) in zip(a, b, strict=True)
    )
    return common if all(start < stop for start, stop in common) else None


def _within(common: Bounds, outer: Bounds) -> tuple[slice, ...]:
    return tuple(
        slice(start - origin, stop - origin)
        for (start, stop), (origin, _) in zip(common, outer, strict=True)
    )
