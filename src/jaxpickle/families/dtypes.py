"""numpy's dtypes as plain data: short names for the plain ones, nested tuples for the rest.

A description is one of

- a name: ``"float32"``, ``"bfloat16"``, ``"float0"``; or numpy's own code where the name would
  not tell all: ``">f4"``, ``"<M8[ns]"``, ``"|S5"``
- ``("struct", names, formats, offsets, titles, itemsize, aligned)``, the names as JSON: CPython
  has several objects of one character, and none that only a record could use
- ``("subarray", base, shape)``
- ``("string", coerce)`` and ``("string", coerce, na_object)``
- ``("typed", type or code, base)``: scalars of another type, as ``numpy.record``
- ``("metadata", base, metadata)``
- the dtype itself, where another library made it: pickle then asks that library
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxpickle.errors import VersionError
from jaxpickle.families import describes_kind
from jaxpickle.records import Reduced, builds, corrupt, describe, own

__all__ = ["build_dtype", "describe_dtype"]

DType = np.dtype[Any]

_NAMES = {
    "|b1": "bool",
    "|i1": "int8",
    "<i2": "int16",
    "<i4": "int32",
    "<i8": "int64",
    "|u1": "uint8",
    "<u2": "uint16",
    "<u4": "uint32",
    "<u8": "uint64",
    "<f2": "float16",
    "<f4": "float32",
    "<f8": "float64",
    "<c8": "complex64",
    "<c16": "complex128",
    "|O": "object",
}
"""A name means little-endian data, wherever it is read."""
_CODES = {name: code for code, name in _NAMES.items()}
_CODE = re.compile(r"[<>|][biufcmMOSUV]\d{0,10}(\[\d*[a-zA-Zμ]+(/\d+)?\])?")
_ML_NAME = re.compile(r">?[a-z][a-z0-9_]*")
_FLOAT0 = np.dtype([("float0", "V")])


def describe_dtype(dtype: DType) -> Any:
    """Return ``dtype`` as plain data, from which :func:`build_dtype` makes it again.

    Args:
        dtype: any dtype of numpy or ml_dtypes.

    Returns:
        For a plain dtype a short name, which is :func:`own`; see the module for the others.
    """
    bare = _describe_bare(dtype)
    if dtype.metadata is None or bare is dtype:
        return bare
    return own("metadata"), bare, dict(dtype.metadata)


def build_dtype(description: Any) -> DType:
    """Return the dtype that :func:`describe_dtype` described.

    Args:
        description: plain data, see the module.

    Raises:
        CorruptError: it is no description.
        VersionError: this numpy or ml_dtypes has no such dtype.
        ImportError: it is a dtype of ml_dtypes, which is not installed.
    """
    if type(description) is str:
        return _jax_float0() if description == "float0" else _named(description)
    if isinstance(description, np.dtype):
        return description
    try:
        kind, *fields = description
        builder = _BUILDERS[kind]
    except (TypeError, ValueError, KeyError):
        raise corrupt("dtype/1", f"names no dtype: {description!r:.80}") from None
    try:
        return builder(*fields)
    except (TypeError, ValueError, OverflowError) as error:
        raise corrupt("dtype/1", f"is no dtype: {error}") from error


@describes_kind(np.dtype)
def _reduce_dtype(dtype: DType) -> Reduced:
    description = describe_dtype(dtype)
    if description is dtype:
        return dtype.__reduce__()  # type: ignore[no-any-return]
    return describe("dtype/1", description)


builds("dtype/1")(build_dtype)


def _describe_bare(dtype: DType) -> Any:
    if dtype.names is not None:
        return _describe_struct(dtype)
    if isinstance(dtype, np.dtypes.StringDType):
        na_object = (dtype.na_object,) if hasattr(dtype, "na_object") else ()
        return own("string"), dtype.coerce, *na_object
    if type(dtype).__module__ != "numpy.dtypes":
        return _describe_foreign(dtype)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return own("subarray"), describe_dtype(base), shape
    code = dtype.str
    name = own(_NAMES.get(code, code))
    if issubclass(dtype.type, np.void) and dtype.type is not np.void:
        return own("typed"), dtype.type, name
    return name


def _describe_foreign(dtype: DType) -> Any:
    if dtype.type.__module__ != "ml_dtypes":
        return dtype
    swapped = ">" if dtype.str.startswith(">") else ""
    return own(swapped + dtype.type.__name__)


def _describe_struct(dtype: DType) -> Any:
    assert dtype.names is not None
    assert dtype.fields is not None
    fields = [dtype.fields[name] for name in dtype.names]
    formats = tuple(describe_dtype(field[0]) for field in fields)
    offsets = tuple(field[1] for field in fields)
    titles = [field[2] if len(field) > 2 else None for field in fields]
    if dtype.type is np.void and (dtype.names, dtype.itemsize, formats) == _FLOAT0_PARTS:
        return own("float0")
    struct = (
        own("struct"),
        own(json.dumps(dtype.names)),
        formats,
        offsets,
        _describe_titles(titles),
        dtype.itemsize,
        dtype.isalignedstruct,
    )
    if dtype.type is np.void:
        return struct
    kind = dtype.type if issubclass(dtype.type, np.void) else own(dtype.str)
    return own("typed"), kind, struct


_FLOAT0_PARTS = (("float0",), 0, ("|V0",))


def _describe_titles(titles: list[Any]) -> Any:
    if any(title is not None and type(title) is not str for title in titles):
        return tuple(titles)
    return own(json.dumps(titles)) if any(title is not None for title in titles) else None


@functools.lru_cache(maxsize=1024)
def _named(name: str) -> DType:
    code = _CODES.get(name, name)
    try:
        if _CODE.fullmatch(code):
            return np.dtype(code)
        if _ML_NAME.fullmatch(name):
            return _ml_dtype(name)
    except (TypeError, ValueError, AttributeError) as error:
        raise VersionError(
            f"this stream needs the dtype {name!r}, which is not here: {error}. Upgrade numpy "
            "and ml_dtypes: pip install -U numpy ml_dtypes",
            names=(name,),
        ) from error
    raise corrupt("dtype/1", f"names no dtype: {name!r:.80}")


def _ml_dtype(name: str) -> DType:
    try:
        module = importlib.import_module("ml_dtypes")
    except ImportError as error:
        raise ImportError(
            f"this stream needs the dtype {name!r} of ml_dtypes, which cannot be imported here: "
            "pip install ml_dtypes",
            name="ml_dtypes",
        ) from error
    scalar = getattr(module, name.removeprefix(">"))
    if not (isinstance(scalar, type) and issubclass(scalar, np.generic)):
        raise TypeError(f"ml_dtypes.{name} is no dtype")
    dtype = np.dtype(scalar)
    return dtype.newbyteorder(">") if name.startswith(">") else dtype


def _jax_float0() -> DType:
    """Return JAX's own float0 where JAX is: some of its code asks for identity."""
    jax_dtypes = sys.modules.get("jax.dtypes")
    return getattr(jax_dtypes, "float0", _FLOAT0)


def _build_struct(
    names: Any, formats: Any, offsets: Any, titles: Any, itemsize: int, aligned: bool
) -> DType:
    names = json.loads(names)
    if not len(names) == len(formats) == len(offsets):
        raise ValueError(f"{len(names)} names of {len(formats)} fields")
    spec = {
        "names": names,
        "formats": [build_dtype(format_) for format_ in formats],
        "offsets": list(offsets),
        "itemsize": itemsize,
    }
    if titles is not None:
        spec["titles"] = json.loads(titles) if type(titles) is str else list(titles)
    return np.dtype(spec, align=aligned)  # type: ignore[call-overload,no-any-return]


def _build_string(coerce: bool, *na_object: Any) -> DType:
    keywords = dict(zip(("na_object",), na_object, strict=True)) if na_object else {}
    return np.dtypes.StringDType(coerce=coerce, **keywords)


def _build_typed(kind: Any, base: Any) -> DType:
    scalar = build_dtype(kind) if type(kind) is str else kind
    if not isinstance(scalar, np.dtype) and not issubclass(scalar, np.void):
        raise TypeError(f"{scalar!r} is no type of numpy scalars")
    return np.dtype((scalar, build_dtype(base)))


def _build_metadata(base: Any, metadata: dict[str, Any]) -> DType:
    return np.dtype(build_dtype(base), metadata=metadata)


_BUILDERS: dict[str, Callable[..., DType]] = {
    "struct": _build_struct,
    "subarray": lambda base, shape: np.dtype((build_dtype(base), tuple(shape))),
    "string": _build_string,
    "typed": _build_typed,
    "metadata": _build_metadata,
}
