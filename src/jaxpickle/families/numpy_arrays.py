"""numpy's arrays and scalars as records: dtype, shape, order, whether writable, and the bytes.

Unlike numpy's own pickles these name nothing private of numpy, so any numpy reads them.  What
numpy keeps is kept (and the memory order and the writable flag always), with its rules:

- arrays that are not contiguous become so; views of one memory become arrays of their own
- out-of-band bytes are aliased: the array is writable if it was, and if the buffer given is
- a ``numpy.memmap`` comes back as a plain array that holds the data
- attributes of subclasses travel if the subclass has its own ``__reduce__``, and only then
"""

from __future__ import annotations

import copyreg
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxpickle.families import describes, describes_kind, numpy_strings
from jaxpickle.families.buffers import IN_BAND, numbered, pack, unnumbered
from jaxpickle.families.dtypes import build_dtype, describe_dtype
from jaxpickle.records import Reduced, build, builds, corrupt, describe, fill, fills

__all__ = ["own_reduction"]

Array = np.ndarray[Any, Any]
Masked = np.ma.MaskedArray[Any, Any]

_RECONSTRUCT = np.empty(0).__reduce__()[0]
_RECONSTRUCT_MASKED = np.ma.MaskedArray(0).__reduce__()[0]
"""The private functions that numpy's own reductions name; found, so that we need not."""

_PROTOCOL = ("__reduce__", "__reduce_ex__", "__setstate__")


# Arrays


@describes(np.ndarray)
def _reduce_array(array: Array) -> Reduced:
    flags = array.flags
    fortran = flags.f_contiguous and not flags.c_contiguous
    layout = describe_dtype(array.dtype), array.shape, fortran
    if array.dtype.hasobject:
        # Filled after it is built: its elements may refer to it.
        state = ("ndarray/1", _elements(array, fortran), flags.writeable)
        return *describe("ndarray/1", *layout, True, None), state, None, None, fill
    return describe("ndarray/1", *layout, flags.writeable, _data(array, fortran))


@describes(np.memmap)
def _reduce_memmap(array: Array) -> Reduced:
    return _reduce_array(array.view(np.ndarray))


def _data(array: Array, fortran: bool) -> Any:
    if fortran:
        array = array.T
    elif not array.flags.c_contiguous:
        array = array.copy(order="C")
    return pack(array)


def _elements(array: Array, fortran: bool) -> Any:
    """Return what an array holds by reference: objects, texts, or an array of each field."""
    if array.dtype.names is not None:
        return tuple(array[name] for name in array.dtype.names)
    elements = array.ravel("F" if fortran else "C").tolist()
    return elements if array.dtype.kind == "O" else numpy_strings.join(array.dtype, elements)


@builds("ndarray/1")
def _build_array(dtype: Any, shape: Any, fortran: bool, writable: bool, data: Any) -> Array:
    dtype = build_dtype(dtype)
    if dtype.hasobject is not (data is None):
        raise corrupt("ndarray/1", f"holds no data of dtype {dtype!s:.80}")
    if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
        raise corrupt("ndarray/1", f"has no shape: {shape!r:.80}")
    order: Any = "F" if fortran else "C"
    try:
        if data is None:
            return np.zeros(shape, dtype, order)
        array = _over(unnumbered(data), dtype, shape, order, writable)
    except (TypeError, ValueError, OverflowError) as error:
        raise corrupt("ndarray/1", f"is no array: {error}") from error
    if not writable:
        array.flags.writeable = False
    return array


def _over(data: Any, dtype: Any, shape: tuple[int, ...], order: Any, writable: bool) -> Array:
    """Return an array over the memory of ``data``, unless that is a small one's own bytes."""
    nbytes = dtype.itemsize * math.prod(shape)
    memory = np.frombuffer(data, np.uint8)
    if memory.nbytes != nbytes:
        raise ValueError(f"{memory.nbytes} bytes of data where its shape needs {nbytes}")
    if nbytes == 0:
        return np.ndarray(shape, dtype, order=order)
    if writable and nbytes < IN_BAND:
        memory = memory.copy()
    return np.ndarray(shape, dtype, memory, order=order)


@fills("ndarray/1")
def _fill_array(array: Array, elements: Any, writable: bool) -> None:
    try:
        for target, source in _assignments(array, elements):
            target[...] = source
    except (TypeError, ValueError) as error:
        raise corrupt("ndarray/1", f"has other elements than its shape: {error}") from error
    if not writable:
        array.flags.writeable = False


def _assignments(array: Array, elements: Any) -> Iterator[tuple[Array, Array]]:
    names = array.dtype.names
    if names is not None:
        for name, part in zip(names, elements, strict=True):
            yield array[name], part
        return
    if array.dtype.kind == "O":
        flat = np.fromiter(elements, object, len(elements))
    else:
        flat = numpy_strings.split(array.dtype, *elements)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    yield array, flat.reshape(array.shape, order="F" if fortran else "C")


# Scalars


@describes_kind(np.generic)
def _reduce_scalar(scalar: np.generic) -> Reduced:
    cls, kind = type(scalar), scalar.dtype.type
    own = own_reduction(scalar)
    if own is not None:
        return own
    subclass = () if cls is kind else (cls,)
    if scalar.dtype.hasobject:
        return describe("scalar/1", None, np.asarray(scalar), *subclass)
    if isinstance(scalar, np.str_ | np.bytes_):
        # Their text alone: in an array, zeros at its end would be padding.
        text = scalar[:]
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        dtype = np.dtype(kind)
    else:
        dtype, data = scalar.dtype, scalar.tobytes()
    return describe("scalar/1", describe_dtype(dtype), numbered(data), *subclass)


@builds("scalar/1")
def _build_scalar(dtype: Any, data: Any, cls: Any = None) -> Any:
    try:
        kind, value = _kind_and_value(dtype, data)
    except (TypeError, ValueError) as error:
        raise corrupt("scalar/1", f"holds no scalar: {error}") from error
    if type(value) is kind and cls is None:
        return value
    cls = kind if cls is None else cls
    if not (isinstance(cls, type) and issubclass(cls, kind)):
        raise corrupt("scalar/1", f"names no kind of {kind.__name__}: {cls!r:.80}")
    return kind.__new__(cls, value)


def _kind_and_value(dtype: Any, data: Any) -> tuple[Any, Any]:
    """Return a scalar's type and its value: of that type, or the str or bytes to make it of."""
    if dtype is None:
        if not isinstance(data, np.ndarray) or data.shape != ():
            raise ValueError(f"{data!r:.80}")
        return data.dtype.type, data[()]
    built = build_dtype(dtype)
    kind = built.type
    if issubclass(kind, np.void):
        return kind, _build_array(dtype, (), False, True, data)[()]
    data = unnumbered(data)
    if kind is not np.str_ and kind is not np.bytes_:
        (value,) = np.frombuffer(data, built)
        return kind, value
    if not isinstance(data, bytes):
        raise TypeError(f"{data!r:.80}")
    return kind, data if kind is np.bytes_ else data.decode("utf-8", "surrogatepass")


# Subclasses


@describes(type(np.ma.masked))
def _reduce_masked_constant(_: Masked) -> Reduced:
    return describe("masked_array/1", None)


@describes_kind(np.ma.MaskedArray)
def _reduce_masked(array: Any) -> Reduced:
    # The property `fill_value` would set the default as if it had been given.
    fields = array.data, np.ma.getmask(array), array._fill_value, array.hardmask
    return own_reduction(array) or describe("masked_array/1", type(array), *fields)


@builds("masked_array/1")
def _build_masked(
    cls: Any, data: Any = None, mask: Any = None, fill_value: Any = None, hard: bool = False
) -> Any:
    if cls is None:
        return np.ma.masked
    if not (isinstance(cls, type) and issubclass(cls, np.ma.MaskedArray)):
        raise corrupt("masked_array/1", f"names no masked array: {cls!r:.80}")
    if issubclass(cls, np.ma.mvoid):
        return cls(data, mask, fill_value=fill_value, hardmask=hard)
    try:
        array: Masked = np.ma.MaskedArray(
            data, mask, keep_mask=False, hard_mask=hard, fill_value=fill_value
        )
    except (np.ma.MaskError, TypeError, ValueError) as error:
        raise corrupt("masked_array/1", f"is no masked array: {error}") from error
    return array if cls is np.ma.MaskedArray else array.view(cls)


@describes_kind(np.ndarray)
def _reduce_subclass(array: Array) -> Reduced:
    fields = type(array), array.view(np.ndarray)
    return own_reduction(array) or describe("ndarray_subclass/1", *fields)


@builds("ndarray_subclass/1")
def _build_subclass(cls: Any, array: Any = None) -> Array:
    if not (isinstance(cls, type) and issubclass(cls, np.ndarray)):
        raise corrupt("ndarray_subclass/1", f"names no array type: {cls!r:.80}")
    if array is None:
        return np.ndarray.__new__(cls, (0,), np.int8)
    if not isinstance(array, np.ndarray):
        raise corrupt("ndarray_subclass/1", f"holds no array: {array!r:.80}")
    return array.view(cls)


def own_reduction(obj: Any) -> Reduced | None:
    """Return how the class of ``obj`` itself says to pickle it, or None where it does not.

    Args:
        obj: an instance of a class of numpy or ml_dtypes, or of a subclass.

    Returns:
        For a subclass its reduction by copyreg, or by its own ``__reduce__`` and the like, with
        the private functions of numpy in it (of ``super().__reduce__()``) replaced by records.
    """
    cls = type(obj)
    if _is_of_library(cls):
        return None
    base = next(filter(_is_of_library, cls.__mro__))
    if cls in copyreg.dispatch_table:
        return _without_private_names(copyreg.dispatch_table[cls](obj))
    if all(getattr(cls, name, None) is getattr(base, name, None) for name in _PROTOCOL):
        return None
    return _without_private_names(obj.__reduce_ex__(2))


def _is_of_library(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("numpy", "ml_dtypes")


def _without_private_names(reduced: Any) -> Reduced:
    if not isinstance(reduced, tuple) or len(reduced) < 2:
        return reduced
    make, args, *rest = reduced
    if make is _RECONSTRUCT:
        return build, ("ndarray_subclass/1", args[0]), *rest
    if make is _RECONSTRUCT_MASKED:
        cls, data_cls, shape, code = args
        data = np.ndarray.__new__(data_cls, shape, code)
        return build, ("masked_array/1", cls, data, np.zeros(shape, bool)), *rest
    return reduced
