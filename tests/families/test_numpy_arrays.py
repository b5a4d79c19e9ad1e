"""Arrays and scalars of numpy: values, dtype, order and flags come back, and bytes uncopied."""

import copyreg
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.ma import mrecords

import jaxpickle
from fresh import Worker, run
from jaxpickle.errors import CorruptError, PicklingError
from jaxpickle.records import build, fill
from round_trips import PROTOCOLS, out_of_band, private_names, round_trips, sent

LARGE = 4096
"""Arrays of so many bytes can leave the stream."""

StringDType = np.dtypes.StringDType
Array = np.ndarray[Any, Any]


class Plain(np.ndarray):  # type: ignore[type-arg]
    """A user's array type with nothing of its own."""


class Unit(np.ndarray):  # type: ignore[type-arg]
    """A user's array type that carries its unit, as numpy's documentation says to."""

    unit: str = "none"

    def __array_finalize__(self, obj: Any) -> None:
        self.unit = getattr(obj, "unit", "none")

    def __reduce__(self) -> Any:
        make, args, state = super().__reduce__()  # type: ignore[misc]
        return make, args, (*state, self.unit)

    def __setstate__(self, state: Any) -> None:
        *rest, self.unit = state
        super().__setstate__(tuple(rest))


class Registered(np.ndarray):  # type: ignore[type-arg]
    """A user's array type with a reducer in copyreg."""


class MaskedUnit(np.ma.MaskedArray):  # type: ignore[type-arg]
    """A user's masked array with a pickle protocol of its own."""

    def __reduce__(self) -> Any:
        make, args, state = super().__reduce__()  # type: ignore[misc]
        return make, args, (*state, self._optinfo["unit"])

    def __setstate__(self, state: Any) -> None:
        *rest, unit = state
        super().__setstate__(tuple(rest))
        self._optinfo["unit"] = unit


class PlainMasked(np.ma.MaskedArray):  # type: ignore[type-arg]
    """A user's masked array with nothing of its own."""


class Metres(np.float64):
    """A user's scalar type."""


class Text(np.str_):
    """A user's text type."""


def _restore(data: bytes) -> Array:
    return np.frombuffer(data).view(Registered)


copyreg.pickle(Registered, lambda array: (_restore, (array.tobytes(),)))  # type: ignore[arg-type]


def assert_same(loaded: Any, array: Any) -> None:
    """Compares all that two arrays or scalars show, bit by bit."""
    assert type(loaded) is type(array)
    assert loaded.dtype == array.dtype
    assert loaded.dtype.str == array.dtype.str
    assert loaded.dtype.type is array.dtype.type
    assert loaded.shape == array.shape
    if array.dtype.hasobject:
        assert repr(loaded.tolist()) == repr(array.tolist())
    elif array.dtype.itemsize:
        assert loaded.tobytes() == array.tobytes()
    if isinstance(array, np.ndarray):
        assert loaded.flags.writeable is array.flags.writeable
        if array.flags.forc:
            assert loaded.flags.c_contiguous is array.flags.c_contiguous
            assert loaded.flags.f_contiguous is array.flags.f_contiguous


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def matrix(values: Any) -> Any:
    """A matrix, made without the warning that numpy's constructor gives."""
    return np.asarray(values).view(np.matrix)


ORDERS = [
    lambda array: array,
    lambda array: np.asfortranarray(array) if array.ndim else array,
    lambda array: array.T,
    lambda array: array[..., ::-1] if array.ndim else array,
]

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@given(
    array=hnp.arrays(hnp.scalar_dtypes() | hnp.nested_dtypes(), SHAPES),
    order=st.sampled_from(ORDERS),
    writable=st.booleans(),
)
def test_any_array_comes_back(array: Array, order: Any, writable: bool) -> None:
    """Whatever the dtype, shape, order and flag, the array and its stream stay the same."""
    array = order(array)
    array.flags.writeable = writable
    data = jaxpickle.dumps(array)
    for loaded in round_trips(array):
        assert_same(loaded, array)
        assert jaxpickle.dumps(loaded) == data


@given(
    array=hnp.arrays(st.sampled_from(["i1", ">f8", "c16", "M8[s]", "U3", "i4,f8"]), (17, 40)),
    order=st.sampled_from(ORDERS),
    writable=st.booleans(),
)
def test_any_large_array_comes_back(array: Array, order: Any, writable: bool) -> None:
    """The same holds where bytes may leave the stream."""
    array = order(np.concatenate([array] * 8))
    array.flags.writeable = writable
    assert array.nbytes >= LARGE
    for loaded in round_trips(array):
        assert_same(loaded, array)


def _ml_arrays() -> Iterator[Any]:
    for name, scalar in sorted(vars(ml_dtypes).items()):
        if isinstance(scalar, type) and issubclass(scalar, np.generic):
            dtype = np.dtype(scalar)
            for size in (3, LARGE):
                memory = np.arange(size * dtype.itemsize, dtype=np.uint8) % 2
                yield pytest.param(memory.view(dtype), id=f"{name}-{size}")


@pytest.mark.parametrize("array", list(_ml_arrays()))
def test_ml_dtypes_arrays_come_back(array: Array) -> None:
    """Every dtype of ml_dtypes, small and large, keeps its bits and its order."""
    for loaded in round_trips(array):
        assert_same(loaded, array)
    for loaded in round_trips(array[:2].reshape(1, 2).T):
        assert_same(loaded, array[:2].reshape(1, 2).T)


RECURSIVE_DTYPE = np.dtype([("key", "O"), ("in", [("n", ">i2"), ("o", "O", (2,))]), ("t", "M8[s]")])

ODD_ARRAYS = [
    np.zeros((3, 0, 2), jax.dtypes.float0),
    np.zeros((3, 2), jax.dtypes.float0),
    np.zeros(3, "V0"),
    np.ndarray((3,), "S0"),
    np.ndarray((2, 2), "U0"),
    np.array(["a\0b", "", "x"], "S3"),
    np.array(["2020-01-01", "NaT"], "M8[D]"),
    np.array(5, ">i8"),
    np.array([1, -1], np.longlong),
    np.broadcast_to(np.arange(3.0), (2, 3)),
    np.arange(24).reshape(2, 3, 4)[:, ::2, 1:],
    np.zeros(9, "i1,f8")["f1"],
    np.arange(9, dtype=np.uint8)[1:].view(np.float64),
    np.array([1.5, 2.5], np.dtype("f4", metadata={"unit": "m"})),
    np.zeros((2, 2), np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    np.zeros(2, np.dtype((np.record, [("a", "f4")]))),
]

OBJECT_ARRAYS = [
    np.array([1, "two", None, (3,), [4]], object),
    np.array([[1, 2], [3, 4]], object).T,
    np.asfortranarray(np.array([[1, 2, 3], [3, 4, 5]], object))[:, ::2],
    np.array(None, object),
    np.zeros((0, 3), object),
    np.fromiter([np.array(5), np.arange(3), [1], ""], object),
    np.array([(1, (2, (3, "x")), "2020-01-01"), ("y", (5, (None, [])), "NaT")], RECURSIVE_DTYPE),
    np.array([b"x"], np.dtype("O", metadata={"vlen": bytes})),
]

STRING_ARRAYS = [
    np.array(
        ["a", "", "a\0", "\0", "中 and a text that is longer than short ones", "x"], StringDType()
    ),
    np.array([["a", "b", "c"], ["d", "e", "f"]], StringDType(coerce=False)).T,
    np.array(["a", np.nan, ""], StringDType(na_object=np.nan)),
    np.array(["a", None], StringDType(na_object=None)),
    np.array(["a", "missing"], StringDType(na_object="missing")),
    np.array("scalar", StringDType()),
    np.array([], StringDType()),
    np.array(["text"] * LARGE, StringDType()),
]


@pytest.mark.parametrize("array", [*ODD_ARRAYS, *OBJECT_ARRAYS, *STRING_ARRAYS], ids=repr)
def test_odd_arrays_come_back(array: Array) -> None:
    """Arrays without bytes, of objects and of texts, views, records: all keep what they hold."""
    for writable in {array.flags.writeable, False}:
        array.flags.writeable = writable
        for loaded in round_trips(array):
            if array.dtype == np.dtype(np.longlong):
                assert loaded.dtype == np.int64
            else:
                assert_same(loaded, array)
            assert loaded.dtype.metadata == array.dtype.metadata
            assert loaded.dtype.isalignedstruct is array.dtype.isalignedstruct


def test_object_array_that_holds_itself() -> None:
    """An array of objects may be among its own elements."""
    array = np.empty(2, object)
    array[0], array[1] = array, {"again": [array]}
    for loaded in round_trips(array):
        assert loaded[0] is loaded
        assert loaded[1]["again"][0] is loaded


def test_record_array_that_holds_itself() -> None:
    """So may one with fields."""
    array = np.zeros(1, [("me", "O"), ("n", "i4")])
    array["me"][0], array["n"] = array, 7
    for loaded in round_trips(array):
        assert loaded["me"][0] is loaded
        assert loaded["n"] == 7


def test_elements_are_shared_with_the_graph() -> None:
    """An object in an array is the one that stands elsewhere in the graph."""
    element = ["x"]
    for array, beside in round_trips((np.array([element, 1], object), element)):
        assert array[0] is beside


def test_shared_array_stays_shared_and_views_part() -> None:
    """An array met twice is stored once; a view of it becomes an array of its own."""
    array = np.arange(10_000.0)
    for first, second, view in round_trips([array, array, array[:5]]):
        assert first is second
        assert not np.shares_memory(first, view)
    assert len(jaxpickle.dumps([array, array])) < 1.1 * array.nbytes


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("dtype", ["f8", ml_dtypes.bfloat16, "M8[ns]", "i4,f4"])
def test_large_arrays_leave_and_arrive_without_a_copy(
    order: Any, writable: bool, dtype: Any
) -> None:
    """The buffer is the array's memory, and the loaded array's memory is the buffer given."""
    array = np.zeros((40, 64), dtype, order)
    array.flags.writeable = writable
    data, buffers = out_of_band(array)
    (buffer,) = buffers
    assert len(data) < 500
    assert address(np.frombuffer(buffer, np.uint8)) == address(array)
    assert memoryview(buffer).readonly is not writable
    transported = sent(buffer)
    for load in (jaxpickle.loads, pickle.loads):
        loaded = load(data, buffers=[transported])
        assert address(loaded) == address(np.frombuffer(transported, np.uint8))
        assert_same(loaded, array)


def test_out_of_band_into_memory_that_cannot_change() -> None:
    """As with numpy's own pickles, an array over a read-only buffer is read-only, not a copy."""
    data, (buffer,) = out_of_band(np.arange(1000.0))
    for memory in (bytes(buffer.raw()), memoryview(bytes(buffer.raw()))):
        loaded = jaxpickle.loads(data, buffers=[memory])
        assert address(loaded) == address(np.frombuffer(memory, np.uint8))
        assert not loaded.flags.writeable


def test_a_buffer_kept_alive_by_the_array() -> None:
    """The memory under a loaded array cannot be taken away or resized."""
    data, (buffer,) = out_of_band(np.arange(1000.0))
    memory = sent(buffer)
    loaded = jaxpickle.loads(data, buffers=[memory])
    with pytest.raises(BufferError):
        memory.clear()
    del loaded
    memory.clear()


def test_the_buffers_that_are_given_are_left_as_they_are() -> None:
    """A buffer of the caller's is never moved: others may look at it, and it may not be resized."""
    data, (buffer,) = out_of_band(np.arange(1000.0))
    given_buffers = [sent(buffer) for _ in range(16)]  # most of them off the alignment
    for memory in given_buffers:
        with memoryview(memory) as looking:
            loaded = jaxpickle.loads(data, buffers=[memory])
            loaded[0] = 5
            assert looking[:8].tobytes() == np.float64(5).tobytes()


@pytest.mark.parametrize("size", [1, 10, LARGE])
@pytest.mark.parametrize("writable", [True, False])
def test_in_band_arrays_own_their_memory(size: int, writable: bool) -> None:
    """What was writable can be written to, and nobody else sees it."""
    array = np.arange(size, dtype=np.uint8)
    array.flags.writeable = writable
    for protocol in PROTOCOLS:
        data = jaxpickle.dumps(array, protocol)
        first, second = jaxpickle.loads(data), jaxpickle.loads(data)
        if writable:
            first[...] = 9
            assert_same(second, array)
        else:
            with pytest.raises(ValueError, match="read-only"):
                first[...] = 9


def test_large_arrays_in_band_are_not_copied_again() -> None:
    """Under protocol 5 the memory that pickle read the bytes into is the array's."""
    copies = [jaxpickle.loads(jaxpickle.dumps(np.arange(1000.0 + n), 5)) for n in range(16)]
    assert [address(loaded) % 64 for loaded in copies] == [0] * 16  # so JAX can alias it
    base = copies[0]
    while isinstance(base, np.ndarray):
        base = base.base
    assert type(base.obj if isinstance(base, memoryview) else base) is bytearray


def test_a_callback_that_keeps_the_bytes_in() -> None:
    """A true result of the callback keeps an array in band; it comes back writable all the same."""
    array = np.arange(1000.0)
    data = jaxpickle.dumps(array, 5, buffer_callback=lambda _: True)
    assert len(data) > array.nbytes
    assert_same(jaxpickle.loads(data), array)


def test_texts_leave_out_of_band() -> None:
    """The text of an array of strings leaves the stream as one buffer, not string by string."""
    data, buffers = out_of_band(np.array(["some text"] * LARGE, StringDType()))
    assert len(buffers) == 2
    assert len(data) < 1000


SCALARS = [
    *(np.dtype(code).type(1) for code in "?bBhHiIlLefdgFDG"),
    np.float64(-0.0),
    np.float32("nan"),
    np.float64(1.5).astype(np.longdouble) / 3,
    np.True_,
    np.datetime64("2020-01-01", "ns"),
    np.datetime64("NaT", "D"),
    np.array([-(2**63)]).view("M8")[0],  # NaT of no unit
    np.timedelta64(5, "25s"),
    np.zeros((), "m8")[()],
    np.str_("text"),
    np.str_(""),
    np.str_("x"),
    np.str_("zeros\0\0"),
    np.str_("\ud800中"),
    np.bytes_(b"text"),
    np.bytes_(b""),
    np.bytes_(b"x"),
    np.bytes_(b"zeros\0\0"),
    np.void(b"raw\0"),
    np.array([(1, 2.0)], "i4,f8")[0],
    np.array([(1, 2.0)], np.dtype((np.record, "i4,f8")))[0],
    np.array([(1, [2])], [("n", "i4"), ("o", "O")])[0],
    np.zeros((), jax.dtypes.float0)[()],
    *(
        scalar(1)
        for _, scalar in sorted(vars(ml_dtypes).items())
        if isinstance(scalar, type) and issubclass(scalar, np.generic)
    ),
]


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: f"{type(scalar).__name__}-{scalar}")
def test_scalars_come_back(scalar: Any) -> None:
    """Scalars of every type, ml_dtypes and records included, keep type, dtype and bits."""
    for loaded in round_trips(scalar):
        assert_same(loaded, scalar)
        if isinstance(scalar, str | bytes):
            assert loaded[:] == scalar[:]  # without the slice, numpy ignores zeros at the end


@given(hnp.arrays(hnp.scalar_dtypes(), ()))
def test_any_scalar_comes_back(array: Array) -> None:
    """Whatever the value, the scalar comes back with its bits and its stream."""
    scalar = array[()]
    for loaded in round_trips(scalar):
        assert_same(loaded, scalar)
        assert jaxpickle.dumps(loaded) == jaxpickle.dumps(scalar)


def test_booleans_are_the_singletons() -> None:
    """numpy's True and False, and `nomask`, are tested with `is`."""
    for true, false, nomask in round_trips([np.True_, np.False_, np.ma.nomask]):
        assert true is np.True_
        assert false is np.False_
        assert nomask is np.ma.nomask


def test_record_scalars_can_be_changed() -> None:
    """A record that is loaded is as mutable as the one that was saved."""
    for record in (np.array([(1, 2.0)], "i4,f8")[0], np.array([(1, [2])], "i4,O")[0]):
        for loaded in round_trips(record):
            loaded["f0"] = 7
            assert loaded["f0"] == 7


def test_users_scalars() -> None:
    """A user's scalar type comes back as itself (numpy alone would make it a float64)."""
    for loaded in round_trips([Metres(1.5), Text("one\0")]):
        assert list(map(type, loaded)) == [Metres, Text]
        assert loaded[0] == 1.5
        assert loaded[1][:] == "one\0"


def test_matrix_and_recarray() -> None:
    """numpy's own subclasses come back as themselves, in band and out."""
    rec = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", ">f8")])
    for array in (matrix([[1, 2], [3, 4]]), matrix(np.zeros((40, 40))).T, rec, rec[:1]):
        for loaded in round_trips(array):
            assert_same(loaded, array)
    for loaded in round_trips(rec):
        assert loaded.b.tolist() == [2.0, 4.0]


def test_chararray() -> None:
    """The deprecated chararray travels for as long as numpy has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = np.char.array(["one", "two "])
        for loaded in round_trips(array):
            assert_same(loaded, array)


def test_memmap_becomes_an_array(tmp_path: Path) -> None:
    """A memmap comes back as a plain array that holds the data, read-only if the map was."""
    written = np.memmap(tmp_path / "data", "f4", "w+", shape=(40, 40))
    written[:] = 3
    written.flush()
    for mode in ("r", "r+"):
        mapped = np.memmap(tmp_path / "data", "f4", mode, shape=(40, 40))  # type: ignore[call-overload]
        for loaded in round_trips(mapped):
            assert_same(loaded, mapped.view(np.ndarray))
            assert loaded.tolist() == [[3.0] * 40] * 40


def test_users_array_types() -> None:
    """A user's subclass comes back as itself; one protocol of its own survives whole."""
    for size in (3, LARGE):
        plain = np.arange(size).view(Plain)
        for loaded in round_trips(plain):
            assert_same(loaded, plain)
        unit = np.arange(size * 2.0).reshape(2, size).T.view(Unit)
        unit.unit = "m/s"
        for loaded in round_trips({"speed": unit}):
            assert_same(loaded["speed"], unit)
            assert loaded["speed"].unit == "m/s"


def test_attributes_without_a_protocol_are_left_as_numpy_leaves_them() -> None:
    """Attributes of a subclass without `__reduce__` do not travel: documented, as in numpy."""
    array: Any = np.arange(3).view(Plain)
    array.note = "lost"
    for loaded in round_trips(array):
        assert not hasattr(loaded, "note")


def test_copyreg_of_a_users_array_type_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reducer that the user registered for a subclass goes before ours."""
    calls = []

    def reduce(array: Any) -> Any:
        calls.append(array)
        return _restore, (array.tobytes(),)

    monkeypatch.setitem(copyreg.dispatch_table, Registered, reduce)
    array = np.arange(3.0).view(Registered)
    for loaded in round_trips(array):
        assert type(loaded) is Registered
        assert loaded.tolist() == [0.0, 1.0, 2.0]
    assert len(calls) == len(PROTOCOLS) + 1


def _masked_arrays() -> list[Any]:
    structured = np.ma.array(
        [(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")], mask=[(0, 1), (1, 0)]
    )
    return [
        np.ma.array([1, 2, 3]),
        np.ma.array([1, 2, 3], mask=[0, 1, 0]),
        np.ma.array([1, 2, 3], mask=[0, 0, 0], fill_value=9),
        np.ma.array([1.0, 2.0], mask=True, hard_mask=True),
        np.ma.array(np.arange(4096.0).reshape(64, 64).T, mask=np.eye(64)),
        np.ma.array(["a", "b"], mask=[1, 0], fill_value="z"),
        np.ma.array([{}, None], mask=[1, 0], dtype=object),
        np.ma.array(5, mask=True),
        np.ma.array(matrix([[1, 2]]), mask=[[0, 1]]),
        np.ma.array([1, 2], mask=[0, 1]).view(PlainMasked),
        structured,
        structured.view(mrecords.mrecarray),
    ]


# `repr` would give an array its fill value.
@pytest.mark.parametrize("array", _masked_arrays(), ids=lambda array: type(array).__name__)
def test_masked_arrays_come_back(array: Any) -> None:
    """Data (hidden values too), mask (or its absence), fill value and hardness are exact."""
    filled = array._fill_value
    for loaded in round_trips(array):
        assert type(loaded) is type(array)
        assert_same(loaded.data, array.data)
        assert (loaded.mask is np.ma.nomask) is (array.mask is np.ma.nomask)
        assert_same(np.asarray(loaded.mask), np.asarray(array.mask))
        assert loaded.hardmask is array.hardmask
        assert (loaded._fill_value is None) is (filled is None)
        assert filled is None or loaded._fill_value.tolist() == filled.tolist()
    assert array._fill_value is filled


def test_a_fill_value_that_was_not_given_is_not_stored() -> None:
    """The default fill value stays a default, and saving does not set it."""
    array = np.ma.array([1, 2])
    for loaded in round_trips(array):
        assert loaded._fill_value is array._fill_value is None


def test_masked_record() -> None:
    """One element of a masked array with fields keeps its masked fields."""
    record = _masked_arrays()[-2][0]
    for loaded in round_trips(record):
        assert type(loaded) is np.ma.mvoid
        assert loaded.tolist() == record.tolist() == (1, None)


def test_masked_is_itself() -> None:
    """The constant `numpy.ma.masked` is tested with `is`."""
    for loaded, elements in round_trips([np.ma.masked, np.array([np.ma.masked, 1], object)]):
        assert loaded is np.ma.masked
        assert elements[0] is np.ma.masked


def test_masked_arrays_leave_without_a_copy() -> None:
    """Data and mask of a large masked array leave and arrive as their own memory."""
    array = np.ma.array(np.arange(8192.0), mask=np.arange(8192) % 2)
    data, buffers = out_of_band(array)
    assert [address(np.frombuffer(b, np.uint8)) for b in buffers] == [
        address(array.data),
        address(array.mask),
    ]
    loaded = jaxpickle.loads(data, buffers=buffers)
    assert np.shares_memory(loaded.data, array.data)
    assert np.shares_memory(loaded.mask, array.mask)


def test_users_masked_array_protocol() -> None:
    """A masked subclass with a protocol of its own keeps what that carries."""
    array: Any = np.ma.array([1.0, 2.0], mask=[0, 1]).view(MaskedUnit)
    array._optinfo["unit"] = "kg"
    for loaded in round_trips(array):
        assert type(loaded) is MaskedUnit
        assert loaded.tolist() == [1.0, None]
        assert loaded._optinfo["unit"] == "kg"


def test_equal_state_gives_equal_bytes() -> None:
    """A user's strings and bytes, literal or read, never change the stream of an array."""
    arrays = [
        np.zeros(1, np.uint8),
        np.zeros(3, [("x", "f4"), ("value", "f4")]),
        np.str_("x"),
        np.bytes_(b"\0"),
        np.array(["x", "value"], StringDType()),
        np.asfortranarray(np.zeros((2, 3))),
    ]
    beside = ["x", "value", "F", "C", b"\0", b"x", "float64"]
    data = jaxpickle.dumps([arrays, beside])
    for loaded in round_trips([arrays, beside]):
        assert jaxpickle.dumps(loaded) == data


def test_no_stream_names_numpys_private_modules() -> None:
    """The check that every round trip makes finds what plain pickle writes (so it can fail)."""
    array = np.arange(3)
    objects = [array, np.float32(1), np.random.default_rng(1), np.ma.array([1])]
    for obj in objects:
        assert private_names(pickle.dumps(obj))
        assert private_names(jaxpickle.dumps(obj)) == []
    assert private_names(pickle.dumps(array, 2))


def test_what_cannot_be_pickled_is_found_in_an_array() -> None:
    """An element that cannot be pickled is an error of ours."""
    with pytest.raises(PicklingError, match="generator"):
        jaxpickle.dumps({"a": np.array([1, (i for i in ())], object)})


def test_fresh_interpreter_without_jax() -> None:
    """A new process that has no jax loads arrays, scalars and masked arrays by plain pickle."""
    graph = {
        "plain": np.arange(10_000.0).reshape(100, 100).T,
        "bfloat16": np.arange(5, dtype=ml_dtypes.bfloat16),
        "objects": np.array([1, "two"], object),
        "scalar": np.float32(1.5),
        "masked": np.ma.array([1, 2], mask=[0, 1]),
        "texts": np.array(["a", "b"], StringDType()),
        "matrix": matrix([[1, 2]]),
    }
    data, buffers = out_of_band(graph)
    there, has_jax = run(
        """
        import pickle, sys
        sys.modules["jax"] = sys.modules["jaxlib"] = None
        for loaded in (
            pickle.loads(blobs["in"]), pickle.loads(blobs["out"], buffers=blobs["buffers"])
        ):
            assert loaded["plain"].flags.f_contiguous and loaded["plain"].flags.writeable
            texts = {k: (type(v).__name__, str(v.dtype), v.tolist()) for k, v in loaded.items()}
        result = texts, sys.modules["jax"] is not None
        """,
        blobs={"in": jaxpickle.dumps(graph), "out": data, "buffers": list(map(sent, buffers))},
    )
    assert there == {k: (type(v).__name__, str(v.dtype), v.tolist()) for k, v in graph.items()}
    assert not has_jax


def test_fresh_interpreter_gets_a_class_by_value(worker1: Worker) -> None:
    """A subclass from `__main__` travels with its arrays, in both directions."""
    data = worker1.run(
        """
        import jaxpickle, numpy as np
        class Local(np.ndarray):
            def double(self):
                return self * 2
        result = jaxpickle.dumps(np.arange(3).view(Local))
        """
    )
    assert private_names(data) == []
    loaded = pickle.loads(data)
    assert type(loaded).__name__ == "Local"
    assert loaded.double().tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "record",
    [
        ("ndarray/1", "float32", (3,), False, True, b"\0" * 11),
        ("ndarray/1", "float32", (3,), False, True, None),
        ("ndarray/1", "object", (1,), False, True, b"\0" * 8),
        ("ndarray/1", ("string", True), (1,), False, True, b"\0" * 16),
        ("ndarray/1", "float32", (-1,), False, True, b""),
        ("ndarray/1", "float32", 3, False, True, b"\0" * 12),
        ("ndarray/1", "float32", ("3",), False, True, b"\0" * 12),
        ("ndarray/1", "float32", (1,) * 99, False, True, b"\0" * 4),
        ("ndarray/1", "|V0", (2**90,), False, True, b""),
        ("ndarray/1", "uint8", (1,), False, True, 256),
        ("ndarray/1", "uint8", (1,), False, True, "a"),
        ("ndarray/1", "no dtype", (1,), False, True, 0),
        ("scalar/1", "float32", b"\0" * 8),
        ("scalar/1", "object", b"\0" * 8),
        ("scalar/1", "<U0", b"\xff"),
        ("scalar/1", "<U0", "text"),
        ("scalar/1", "|S0", None),
        ("scalar/1", None, np.zeros(3)),
        ("scalar/1", "float32", b"\0" * 4, int),
        ("ndarray_subclass/1", int, np.zeros(3)),
        ("ndarray_subclass/1", np.matrix, [1]),
        ("masked_array/1", int, np.zeros(3)),
        ("masked_array/1", np.ma.MaskedArray, np.zeros(3), np.zeros(2, bool)),
    ],
)
def test_damaged_records_are_refused(record: tuple[Any, ...]) -> None:
    """Fields that contradict each other raise CorruptError before any memory is an array."""
    with pytest.raises(CorruptError):
        build(*record)


@pytest.mark.parametrize(
    ("array", "elements"),
    [
        (np.zeros(2, object), [1]),
        (np.zeros(2, object), 5),
        (np.zeros(2, "i4,O"), (np.zeros(2, "i4"),)),
        (np.zeros(2, "i4,O"), (np.zeros(3, "i4"), np.zeros(2, object))),
        (np.zeros(2, StringDType()), (np.array([1, 2]), np.frombuffer(b"ab", np.uint8))),
        (np.zeros(2, StringDType()), (np.array([1, -1]), np.frombuffer(b"a", np.uint8))),
        (np.zeros(2, StringDType()), (np.array([1, -2]), np.frombuffer(b"a", np.uint8))),
        (np.zeros(1, StringDType()), (np.array([1]), np.frombuffer(b"\xff", np.uint8))),
        (np.zeros(1, StringDType()), ([1], b"a")),
    ],
)
def test_damaged_elements_are_refused(array: Array, elements: Any) -> None:
    """Elements that do not fill the array raise CorruptError."""
    with pytest.raises(CorruptError):
        fill(array, ("ndarray/1", elements, True))
