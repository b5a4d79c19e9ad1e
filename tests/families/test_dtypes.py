"""dtypes: every kind comes back as it was, under names that no numpy will forget."""

import sys
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

import jaxpickle
from fresh import Worker, run
from jaxpickle.errors import CorruptError, UnpicklingError, VersionError
from jaxpickle.families.dtypes import build_dtype, describe_dtype
from round_trips import round_trips

ML_DTYPES = sorted(
    name
    for name, scalar in vars(ml_dtypes).items()
    if isinstance(scalar, type) and issubclass(scalar, np.generic)
)


class Sample(np.void):
    """A user's scalar type."""


INNER = np.dtype([("x", ">f4"), ("y", ml_dtypes.bfloat16)])

PLAIN = [
    *(np.dtype(code) for code in np.typecodes["All"] if code not in "qQ"),
    *(np.dtype(code).newbyteorder() for code in "hilefdgFDGU"),
    *(np.dtype(getattr(ml_dtypes, name)) for name in ML_DTYPES),
    np.dtype(ml_dtypes.bfloat16).newbyteorder(),
    *map(np.dtype, ["S5", "U3", ">U3", "V8", "S0", "M8[25us]", ">m8[D]", "M8", "m8[ns]"]),
]

COMPOUND = [
    INNER,
    np.dtype([]),
    np.dtype([("a", "i1"), ("b", "f8"), ("c", "O")]),
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype([(("A title", "a"), "i1"), ("b", "f8")]),
    np.dtype([("a", "i1", (2, 3)), ("in", INNER), ("pair", INNER, 2)]),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    np.dtype({"names": ["b", "a"], "formats": ["i4", "i2"], "offsets": [8, 1], "itemsize": 40}),
    np.dtype({"names": [], "formats": [], "offsets": [], "itemsize": 8}),
    np.dtype([("float0", "V"), ("b", "V")]),
    np.dtype([(("T", "x"), "f4"), ("中", "f4"), ("a name", "f4"), ("\ud800", "i1")]),
    np.dtype({"names": ["a", ""], "formats": ["f4", "f4"], "titles": [3, ("a", "b")]}),
    np.dtype(("f4", (2, 3))),
    np.dtype((INNER, 4)),
    np.dtype((np.record, [("a", "f4"), ("b", "i8")])),
    np.dtype((np.record, np.dtype([("a", "i1"), ("b", "f8")], align=True))),
    np.dtype((np.record, "V8")),
    np.dtype((np.float64, [("low", "f4"), ("high", "f4")])),
    np.dtype((np.dtype(">f8"), [("low", "f4"), ("high", "f4")])),
    np.dtype((Sample, [("a", "f4")])),
    np.dtypes.StringDType(),
    np.dtypes.StringDType(coerce=False),
    np.dtypes.StringDType(na_object=None),
    np.dtypes.StringDType(na_object=np.nan, coerce=False),
    np.dtypes.StringDType(na_object="missing"),
    np.dtype("f4", metadata={"unit": "m"}),
    np.dtype("O", metadata={"vlen": str}),
    np.dtype(ml_dtypes.int4, metadata={"packed": True}),
    np.dtype([("a", np.dtype("f4", metadata={"unit": "m"}))], metadata={"b": [1]}),
    np.dtype([("a", "i1"), ("b", "f8")], align=True, metadata={"b": 1}),
]


def facts(dtype: Any) -> Any:
    """Everything that can be asked of a dtype: `==` alone forgives much."""
    if not isinstance(dtype, np.dtype):
        return dtype
    na_object = getattr(dtype, "na_object", "none")
    return (
        type(dtype),
        dtype.type,
        dtype.str,
        dtype.byteorder,
        dtype.itemsize,
        dtype.isalignedstruct,
        dtype.names,
        {name: tuple(map(facts, field)) for name, field in (dtype.fields or {}).items()},
        tuple(map(facts, dtype.subdtype or ())),
        None if dtype.metadata is None else dict(dtype.metadata),
        getattr(dtype, "coerce", None),
        "nan" if na_object != na_object else na_object,
    )


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_plain_dtypes_come_back_by_every_way(dtype: np.dtype[Any]) -> None:
    """Builtin and ml_dtypes dtypes keep kind, size, unit and byte order; a short name says all."""
    assert type(describe_dtype(dtype)) is str
    for loaded in round_trips(dtype):
        assert loaded == dtype
        assert facts(loaded) == facts(dtype)


@pytest.mark.parametrize("dtype", COMPOUND, ids=str)
def test_compound_dtypes_come_back_by_every_way(dtype: np.dtype[Any]) -> None:
    """Fields, offsets, titles, alignment, scalar type, missing value and metadata are kept."""
    for loaded in round_trips(dtype):
        assert facts(loaded) == facts(dtype)


@given(hnp.nested_dtypes() | hnp.scalar_dtypes())
def test_any_dtype_comes_back(dtype: np.dtype[Any]) -> None:
    """Whatever hypothesis nests, the dtype and its stream are the same after a round trip."""
    for loaded in round_trips(dtype):
        assert facts(loaded) == facts(dtype)
        assert jaxpickle.dumps(loaded) == jaxpickle.dumps(dtype)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.dtype("f4"), "float32"),
        (np.dtype(bool), "bool"),
        (np.dtype(">f4"), ">f4"),
        (np.dtype("M8[ns]"), "<M8[ns]"),
        (np.dtype(ml_dtypes.bfloat16), "bfloat16"),
        (np.dtype(ml_dtypes.bfloat16).newbyteorder(">"), ">bfloat16"),
        (np.dtype(ml_dtypes.float8_e5m2), "float8_e5m2"),
        (np.dtype(ml_dtypes.uint4), "uint4"),
        (jax.dtypes.float0, "float0"),
    ],
)
def test_names_are_the_format(dtype: np.dtype[Any], name: str) -> None:
    """The names that streams hold are these: to change one breaks every stream there is."""
    assert describe_dtype(dtype) == name
    assert facts(build_dtype(name)) == facts(dtype)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), INNER, np.dtypes.StringDType()], ids=str)
def test_a_users_equal_string_is_never_the_records(dtype: np.dtype[Any]) -> None:
    """A stream is the same whether a user's string is a literal or read from somewhere."""
    texts = ["float32", "struct", "string", *(dtype.names or ())]
    read = ["".join(list(text)) for text in texts]
    assert jaxpickle.dumps([dtype, *map(sys.intern, texts)]) == jaxpickle.dumps([dtype, *read])


def test_c_types_of_one_size_become_one() -> None:
    """`long long` comes back as the int64 that it is, as in numpy's own pickles."""
    for loaded in round_trips(np.dtype("longlong")):
        assert loaded is np.dtype("int64")


def test_a_name_is_one_object() -> None:
    """Arrays of one dtype share its name in a stream: the second costs a reference alone."""
    assert describe_dtype(np.dtype("f4")) is describe_dtype(np.zeros(3, np.float32).dtype)
    assert jaxpickle.dumps([np.dtype("f4"), np.zeros(2, "f4")]).count(b"float32") == 1


def test_float0_is_jaxs_own_again() -> None:
    """JAX asks whether a dtype *is* float0; what is loaded is that object."""
    for loaded in round_trips(jax.dtypes.float0):
        assert loaded is jax.dtypes.float0


def test_shared_dtypes_stay_shared() -> None:
    """A dtype that stands twice in a graph is one object after the load."""
    for first, second in round_trips([INNER, INNER]):
        assert first is second


def test_missing_value_keeps_its_identity() -> None:
    """The missing value of a string dtype is the one that the graph holds beside it."""
    missing = [1]
    for loaded, beside in round_trips((np.dtypes.StringDType(na_object=missing), missing)):
        assert loaded.na_object is beside


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_key_dtype_builder(impl: str) -> None:
    """The dtype of typed PRNG keys is built from the name of the implementation."""
    from jaxpickle.records import build

    assert build("key_dtype/1", impl) == jax.random.key(0, impl=impl).dtype
    with pytest.raises(UnpicklingError, match="'no_such'"):
        build("key_dtype/1", "no_such")


@pytest.mark.parametrize(
    "description",
    [
        "",
        "f4,f4",
        "FLOAT32",
        "float32 ",
        "i4[ns]",
        "os.system",
        None,
        (),
        7,
        ("no such kind",),
        ("struct", '["a"]', ("float32",), (0,), None, 2, False),
        ("struct", '["a"]', ("float32", "float32"), (0, 4), None, 8, False),
        ("struct", '["a", "b"]', ("object", "int8"), (0, 4), None, 8, False),
        ("struct", "[a", ("float32",), (0,), None, 4, False),
        ("struct",),
        ("subarray", "float32", (-1,)),
        ("typed", int, "|V8"),
        ("typed", 3, "|V8"),
    ],
)
def test_damaged_descriptions_are_refused(description: Any) -> None:
    """What describes no dtype raises CorruptError, and builds none."""
    with pytest.raises(CorruptError):
        build_dtype(description)


@pytest.mark.parametrize("name", ["float9_e9m9", "finfo", "<f7", "<M8[eons]", "|V9999999999"])
def test_unknown_dtypes_are_named(name: str) -> None:
    """A dtype of a newer library, or of another platform, is named in the error."""
    with pytest.raises(VersionError) as caught:
        build_dtype(name)
    assert caught.value.names == (name,)


def test_without_ml_dtypes_the_error_names_it(worker1: Worker) -> None:
    """Where ml_dtypes is missing, plain dtypes load, and the others say what to install."""
    blobs = {"plain": jaxpickle.dumps(INNER["x"]), "ml": jaxpickle.dumps(INNER["y"])}
    worker1.run(
        """
        import pickle, sys
        sys.modules["ml_dtypes"] = None
        try:
            assert pickle.loads(blobs["plain"]).str == ">f4"
            try:
                pickle.loads(blobs["ml"])
            except ImportError as error:
                assert error.name == "ml_dtypes" and "bfloat16" in str(error)
            else:
                raise AssertionError("loaded a dtype that is not here")
        finally:
            del sys.modules["ml_dtypes"]
        """,
        blobs=blobs,
    )


def test_fresh_interpreter_loads_dtypes_without_jax() -> None:
    """Plain pickle, in a new process, loads every dtype, and imports no JAX for it."""
    sent = [dtype for dtype in [*PLAIN, *COMPOUND] if dtype.type is not Sample]
    facts_there, has_jax = run(
        """
        import pickle, sys
        dtypes = pickle.loads(blobs["dtypes"])
        result = [(d.str, d.names, str(d), d.isalignedstruct) for d in dtypes], "jax" in sys.modules
        """,
        blobs={"dtypes": jaxpickle.dumps(sent)},
    )
    assert facts_there == [(d.str, d.names, str(d), d.isalignedstruct) for d in sent]
    assert not has_jax
