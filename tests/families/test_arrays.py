"""Arrays: weak types, layouts, sharings and forged records. (Where they land has its own tests.)"""

import gc
import pickle
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import jaxpickle
from array_facts import bits, facts
from fresh import Worker
from jaxpickle.errors import CorruptError, PicklingError, VersionError
from jaxpickle.records import build, fill
from round_trips import out_of_band, round_trips, sent

P = PartitionSpec


def mesh(explicit: bool = False) -> Mesh:
    """Returns a mesh of four by two devices."""
    kind = AxisType.Explicit if explicit else AxisType.Auto
    return jax.make_mesh((4, 2), ("row", "column"), axis_types=(kind, kind))


def arrays() -> dict[str, Any]:
    """Returns one array of each kind that JAX tells apart when it calls a jitted function."""
    value = jnp.arange(64.0).reshape(8, 8)
    with jax.default_device(jax.devices()[5]):
        elsewhere = jnp.arange(3.0)
    order = Format(Layout((1, 0)), SingleDeviceSharding(jax.devices()[1]))
    return {
        "uncommitted": value,
        "elsewhere": elsewhere,
        "committed": jax.device_put(value, jax.devices()[0]),
        "placed": jax.device_put(value, jax.devices()[6]),
        "scalar": jnp.float32(3),
        "weak": jnp.asarray(1.0),
        "weak int": jax.lax.full((3,), 1),
        "weak placed": jax.device_put(jax.lax.full((3,), 1.0), jax.devices()[4]),
        "none": jnp.zeros((3, 0)),
        "column major": jax.device_put(value, order),
        "pinned": jax.device_put(
            value, SingleDeviceSharding(jax.devices()[2], memory_kind="pinned_host")
        ),
        "rows": jax.device_put(value, NamedSharding(mesh(), P("row"))),
        "blocks": jax.device_put(value, NamedSharding(mesh(), P("row", "column"))),
        "both": jax.device_put(value, NamedSharding(mesh(), P(("column", "row")))),
        "columns": jax.device_put(value, NamedSharding(mesh(), P(None, "row"))),
        "replicated": jax.device_put(value, NamedSharding(mesh(), P())),
        "explicit": jax.device_put(value, NamedSharding(mesh(explicit=True), P("row"))),
        "weak sharded": jax.device_put(jax.lax.full((8,), 1), NamedSharding(mesh(), P("row"))),
        "sharded none": jax.device_put(jnp.zeros((8, 0)), NamedSharding(mesh(), P("row"))),
        "sharded int4": jax.device_put(value.astype("int4"), NamedSharding(mesh(), P("row"))),
        "uneven order": jax.device_put(
            value, NamedSharding(Mesh(np.array(jax.devices())[[3, 1, 7, 0]], "x"), P("x"))
        ),
    }


@pytest.mark.versions
def test_arrays_of_each_kind_come_back_as_they_were() -> None:
    """dtype, shape, weak type, place, layout, memory, commitment and each shard's values."""
    originals = arrays()
    expected = {name: facts(array) for name, array in originals.items()}
    for loaded in round_trips(originals):
        for name in originals:
            assert facts(loaded[name]) == expected[name], name


@pytest.mark.versions
def test_jitted_functions_take_loaded_arrays_without_a_new_trace() -> None:
    """No kind of array makes JAX trace again, nor add an entry to the cache of its calls."""
    traces = []

    @jax.jit
    def double(x: Any) -> Any:
        traces.append(x)
        return x + x

    loaded = jaxpickle.loads(jaxpickle.dumps(arrays()))
    for name, array in arrays().items():
        double(array)
        traced, cached = len(traces), double._cache_size()
        assert facts(double(loaded[name])) == facts(double(array)), name
        assert (len(traces), double._cache_size()) == (traced, cached), name
    assert len(traces) > 5


@pytest.mark.versions
def test_compiled_programs_take_loaded_arrays() -> None:
    """What was compiled for an array's exact type and place runs with the loaded one."""
    loaded = jaxpickle.loads(jaxpickle.dumps(arrays()))
    for name in ("placed", "weak placed", "rows", "replicated", "explicit"):
        array = arrays()[name]
        program = jax.jit(lambda x: x * 2).lower(array).compile()
        assert bits(program(loaded[name])) == bits(array * 2)


@pytest.mark.versions
def test_loaded_arrays_outlive_their_stream(worker8: Worker) -> None:
    """Values stay after the stream and its buffers are gone, in this process and another."""
    code = """
        import gc, jax, numpy as np
        import jaxpickle
        buffers = [bytes(buffer) for buffer in blobs.pop("buffers")]
        loaded = jaxpickle.loads(blobs.pop("data"), buffers=buffers)
        del buffers
        gc.collect()
        litter = [np.full(1000, 255, np.uint8) for _ in range(2000)]
        result = {name: np.asarray(array) for name, array in loaded.items()}
        """
    state = {"rows": jnp.tile(arrays()["rows"], 50), "large": jnp.arange(5000.0)}
    data, buffers = out_of_band(state)
    got = worker8.run(code, blobs={"data": data, "buffers": [sent(b) for b in buffers]})
    loaded = jaxpickle.loads(data, buffers=buffers)
    expected = {name: np.asarray(array) for name, array in state.items()}
    del buffers, data, state
    gc.collect()
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], array, strict=True)
        np.testing.assert_array_equal(np.asarray(loaded[name]), array, strict=True)


def test_loaded_arrays_are_freed() -> None:
    """Nothing of ours keeps an array alive, neither one dumped nor one loaded."""
    array = jnp.arange(5000.0)
    loaded = jaxpickle.loads(jaxpickle.dumps(array))
    gone = [weakref.ref(array), weakref.ref(loaded)]
    del array, loaded
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


@pytest.mark.versions
def test_shared_arrays_are_stored_once_and_stay_one() -> None:
    """One array in many places is one array afterwards; equal ones stay apart."""
    array = jnp.arange(5000.0)
    shared = jaxpickle.dumps([array, array, {"a": array}])
    assert len(shared) < len(jaxpickle.dumps(array)) + 100
    for first, second, deep, twin in round_trips([array, array, (array,), array + 0]):
        assert first is second is deep[0]
        assert twin is not first


@pytest.mark.versions
def test_replicated_arrays_are_stored_once() -> None:
    """Eight replicas cost the bytes of one, partly replicated ones those of one copy of each."""
    value = jnp.arange(8000.0)
    for spec in (P(), P("row"), P("column"), P(("row", "column"))):
        array = jax.device_put(value, NamedSharding(mesh(), spec))
        assert value.nbytes <= len(jaxpickle.dumps(array)) < value.nbytes + 2500
        _, buffers = out_of_band(array)
        assert sum(buffer.raw().nbytes for buffer in buffers) in (value.nbytes, 0)


@pytest.mark.versions
def test_dumping_a_sharded_array_gathers_nothing() -> None:
    """The array does not hold a host copy of its whole afterwards."""
    array = jax.device_put(jnp.arange(8000.0), NamedSharding(mesh(), P("row")))
    jaxpickle.dumps(array)
    assert array._npy_value is None


@pytest.mark.versions
def test_deleted_and_donated_arrays_are_refused_by_path() -> None:
    """The text says where the array stands, what happened and what to do."""
    deleted, donated = jnp.arange(4.0), jnp.arange(4.0)
    sharded = jax.device_put(jnp.arange(8.0), NamedSharding(mesh(), P("row")))
    keys = jax.random.split(jax.random.key(0))
    deleted.delete()
    jax.jit(lambda x: x + 1, donate_argnums=0)(donated)
    sharded.delete()
    jax.random.key_data(keys)
    keys._base_array.delete()
    for gone in (deleted, donated, sharded, keys):
        for protocol in (2, 5):
            with pytest.raises(PicklingError, match=r"deleted or donated.*before") as caught:
                jaxpickle.dumps({"layers": [1, {"w": gone}]}, protocol)
            assert caught.value.path == "$['layers'][1]['w']"
            assert isinstance(caught.value, pickle.PicklingError)


FLAT = ("single", "cpu:0", "default"), "committed", None
SHARDED = (
    ("named", (("x",), (2,), ("Auto",), ("cpu:0", "cpu:1")), (("x",), (), (), None), None, None),
    "committed",
    None,
)
FORGED = {
    "objects": (("object", (1,), False), FLAT, b"\0" * 8),
    "too few bytes": (("float32", (3,), False), FLAT, b"\0" * 11),
    "too many bytes": (("float32", (3,), False), FLAT, b"\0" * 13),
    "no bytes": (("float32", (3,), False), FLAT, b""),
    "no buffer": (("float32", (3,), False), FLAT, "text"),
    "nothing": (("float32", (3,), False), FLAT, None),
    "negative dimension": (("float32", (-3,), False), FLAT, b""),
    "two negative dimensions": (("float32", (-1, -3), False), FLAT, b"\0" * 12),
    "huge dimension": (("float32", (2**70,), False), FLAT, b""),
    "fractional dimension": (("float32", (1.5, 2), False), FLAT, b"\0" * 12),
    "dimension of text": (("float32", ("3",), False), FLAT, b"\0" * 12),
    "shape of a list": (("float32", [3], False), FLAT, b"\0" * 12),
    "no kind": (None, FLAT, b"\0"),
    "short kind": (("float32", (1,)), FLAT, b"\0" * 4),
    "no parts": (("int8", (4,), False), SHARDED, ()),
    "missing part": (("int8", (4,), False), SHARDED, ((((0, 2),), b"ab"),)),
    "overlapping parts": (
        ("int8", (4,), False),
        SHARDED,
        ((((0, 2),), b"ab"), (((0, 2),), b"ab")),
    ),
    "part too long": (("int8", (4,), False), SHARDED, ((((0, 2),), b"ab"), (((2, 5),), b"abc"))),
    "part below": (("int8", (4,), False), SHARDED, ((((-2, 0),), b"ab"), (((2, 4),), b"ab"))),
    "part backwards": (("int8", (4,), False), SHARDED, ((((2, 0),), b""), (((2, 4),), b"ab"))),
    "part of more dimensions": (("int8", (4,), False), SHARDED, ((((0, 4), (0, 1)), b"abcd"),)),
    "part of another size": (
        ("int8", (4,), False),
        SHARDED,
        ((((0, 2),), b"abc"), (((2, 4),), b"ab")),
    ),
    "part that is none": (("int8", (4,), False), SHARDED, (3,)),
    "partial sums without a place": (("int8", (4,), False), SHARDED, ("partial", b"abcd")),
}


@pytest.mark.parametrize("fields", FORGED.values(), ids=FORGED)
def test_forged_array_records_are_refused(fields: Any) -> None:
    """A record whose fields contradict each other is a CorruptError that names it."""
    with pytest.raises(CorruptError, match="array/1") as caught:
        build("array/1", *fields)
    assert caught.value.names == ("array/1",)


def test_unforged_array_records_are_accepted() -> None:
    """The records above are refused for what is wrong with them, and nothing else."""
    assert bits(build("array/1", ("float32", (3,), False), FLAT, b"\0" * 12)) == b"\0" * 12
    parts = ((((0, 2),), b"ab"), (((2, 4),), b"cd"))
    assert bits(build("array/1", ("int8", (4,), False), SHARDED, parts)) == b"abcd"
    assert bits(build("array/1", ("int8", (4,), False), SHARDED, parts[::-1])) == b"abcd"


@pytest.mark.parametrize("tag", ["array/2", "arrays/1", "array", "", 3, None, b"array/1"])
def test_unknown_tags_name_themselves(tag: Any) -> None:
    """A record of a newer jaxpickle raises VersionError with its tag, built or filled."""
    for call in (lambda: build(tag, 1, 2), lambda: fill(object(), (tag, 1))):
        with pytest.raises(VersionError, match="pip install -U jaxpickle") as caught:
            call()
        assert caught.value.names == (str(tag),)


def test_dtype_that_this_version_lacks_is_named() -> None:
    """A dtype that ml_dtypes, or this JAX, does not have raises VersionError with its name."""
    for name in ("float3_e1m1", "complex32", "str96", "void64"):
        spelled = {"str96": "<U3", "void64": "|V8"}.get(name, name)
        with pytest.raises(VersionError, match=f"{name}.*pip install") as caught:
            build("array/1", (spelled, (1,), False), FLAT, b"\0")
        assert caught.value.names == (name,)
    with pytest.raises(CorruptError, match="names no dtype"):
        build("array/1", ("not a dtype", (1,), False), FLAT, b"\0")
