"""Without JAX: results can be read where it cannot be imported; the rest says what it needs."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.experimental.layout
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxpickle
from array_facts import bits
from fresh import Worker
from round_trips import PROTOCOLS, out_of_band, sent

BLOCK = """
    import importlib.abc, sys

    class Missing(importlib.abc.MetaPathFinder):
        names = set(blobs["names"])
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in self.names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Missing())
"""

FACTS = """
    import pickle
    import numpy as np
    import jaxpickle

    def facts(x):
        assert type(x) is np.ndarray, type(x)
        return str(x.dtype), x.shape, x.tobytes()

    def failure(data):
        try:
            jaxpickle.loads(data)
        except Exception as error:
            return type(error).__name__, str(error), getattr(error, "names", None)

"""


@pytest.fixture(scope="module")
def bare() -> Iterator[Worker]:
    """An interpreter where neither jax nor jaxlib can be imported."""
    with Worker() as worker:
        worker.run(BLOCK, blobs={"names": ["jax", "jaxlib"]})
        yield worker


def mesh() -> Mesh:
    """Returns a mesh of four by two devices."""
    return jax.make_mesh((4, 2), ("row", "column"))


def state() -> dict[str, Any]:
    """Returns arrays, keys and Refs of all kinds of dtypes and places."""
    value = jnp.arange(4096.0).reshape(64, 64)
    with jax.enable_x64(True):
        wide = jax.device_put(np.linspace(0, 1, 5))
    order = jax.experimental.layout.Layout((1, 0))
    single = jax.sharding.SingleDeviceSharding(jax.devices()[1])
    return {
        "plain": value,
        "scalar": jnp.int32(3),
        "none": jnp.zeros((3, 0)),
        "weak": jnp.asarray(1.0),
        "bool": value > 7,
        "wide": wide,
        "bfloat16": value.astype("bfloat16"),
        "float8": value.astype("float8_e4m3fn"),
        "int4": value.astype("int4"),
        "committed": jax.device_put(value, jax.devices()[5]),
        "column major": jax.device_put(value, jax.experimental.layout.Format(order, single)),
        "rows": jax.device_put(value, NamedSharding(mesh(), PartitionSpec("row"))),
        "blocks": jax.device_put(value, NamedSharding(mesh(), PartitionSpec("column", "row"))),
        "replicated": jax.device_put(value, NamedSharding(mesh(), PartitionSpec())),
        "sharded bfloat16": jax.device_put(
            value.astype("bfloat16"), NamedSharding(mesh(), PartitionSpec("row"))
        ),
        "keys": jax.random.split(jax.random.key(3), 4),
        "ref": jax.new_ref(value),
        "ref of keys": jax.new_ref(jax.random.split(jax.random.key(3), 4)),
        "numpy": np.arange(3),
    }


@pytest.mark.versions
def test_arrays_come_back_as_numpy(bare: Worker) -> None:
    """Each dtype and sharding, by each protocol, out of band, and by plain pickle."""
    arrays = state()
    data, buffers = out_of_band(arrays)
    got = bare.run(
        FACTS
        + """
    import sys
    loaders = jaxpickle.loads, pickle.loads
    loads = [load(data) for data in blobs["in"] for load in loaders]
    loads += [load(blobs["out"], buffers=blobs["buffers"]) for load in loaders]
    assert "jax" not in sys.modules
    result = [{name: facts(x) for name, x in loaded.items()} for loaded in loads]
    """,
        blobs={
            "in": [jaxpickle.dumps(arrays, protocol) for protocol in PROTOCOLS],
            "out": data,
            "buffers": [sent(buffer) for buffer in buffers],
        },
    )
    expected = {}
    for name, array in arrays.items():
        value = array[...] if "ref" in name else array
        value = jax.random.key_data(value) if "keys" in name else value
        expected[name] = (str(value.dtype), value.shape, bits(value))
    assert len(got) == 2 * len(PROTOCOLS) + 2
    for loaded in got:
        assert loaded == expected


@pytest.mark.versions
def test_sharing_and_user_classes_survive(bare: Worker) -> None:
    """Objects around the arrays are what they were; one array in two places is one."""

    class Result:
        def __init__(self, array: Any) -> None:
            self.array, self.again = array, {"a": [array]}

        def total(self) -> float:
            return float(self.array.sum())

    got = bare.run(
        """
        import jaxpickle
        loaded = jaxpickle.loads(blobs["data"])
        result = loaded.array is loaded.again["a"][0], loaded.total()
        """,
        blobs={"data": jaxpickle.dumps(Result(jnp.arange(4.0)))},
    )
    assert got == (True, 6.0)


def needing_jax() -> dict[str, Any]:
    """Returns objects that mean nothing without JAX, by the tag of their record."""
    sharding = NamedSharding(mesh(), PartitionSpec("row"))
    return {
        "device/1": jax.devices()[2],
        "mesh/1": mesh(),
        "abstract_mesh/1": mesh().abstract_mesh,
        "spec/1": PartitionSpec("row"),
        "sharding/1": sharding,
        "shape_dtype/1": jax.ShapeDtypeStruct((3,), jnp.float32),
        "treedef/1": jax.tree.structure([1, (2,)]),
        "key_dtype/1": jax.random.key(0).dtype,
        "jit/1": jax.jit(lambda x: x + 1),
    }


TAGS = (
    "device/1",
    "mesh/1",
    "abstract_mesh/1",
    "spec/1",
    "sharding/1",
    "shape_dtype/1",
    "treedef/1",
    "key_dtype/1",
    "jit/1",
)


@pytest.mark.versions
@pytest.mark.parametrize("tag", TAGS)
def test_what_needs_jax_says_so_by_name(bare: Worker, tag: str) -> None:
    """Anything else of JAX is an UnpicklingError that names it and says what to install."""
    assert tuple(needing_jax()) == TAGS
    data = jaxpickle.dumps({"deep": [needing_jax()[tag]]})
    kind, text, names = bare.run(
        FACTS + "    result = failure(blobs['data'])", blobs={"data": data}
    )
    assert kind == "UnpicklingError"
    assert tag.partition("/")[0].replace("_", " ") in text
    assert "pip install jax" in text
    assert names == (tag,)


@pytest.mark.versions
def test_functions_of_jax_are_missed_by_name(bare: Worker) -> None:
    """A function of JAX by reference names its module."""
    kind, text, names = bare.run(
        FACTS + "    result = failure(blobs['data'])", blobs={"data": jaxpickle.dumps(jnp.tanh)}
    )
    assert kind == "UnpicklingError"
    assert "'tanh'" in text
    assert names == ("jax.numpy",)


def test_partial_sums_need_jax(bare: Worker) -> None:
    """Partial sums have no values before JAX adds them, so they are refused, by name."""
    sharding = (("x",), (2,), ("Explicit",), ("cpu:0", "cpu:1"))
    spec = ((), ("x",), (), None)
    place = ("named", sharding, spec, None, None), "committed", None
    kind, text, _ = bare.run(
        """
        from jaxpickle.records import build
        try:
            build("array/1", ("int8", (2,), False), blobs["place"], ("partial", b"ab", b"cd"))
        except Exception as error:
            result = type(error).__name__, str(error), None
        """,
        blobs={"place": place},
    )
    assert kind == "UnpicklingError"
    assert "partial sums" in text
    assert "pip install jax" in text


@pytest.mark.versions
def test_damaged_records_are_refused_without_jax_too(bare: Worker) -> None:
    """Forged arrays raise CorruptError here as they do with JAX."""
    got = bare.run(
        """
        from jaxpickle.records import build
        place = ("single", "cpu:0", "default"), "committed", None
        result = []
        for kind, data in [
            (("float32", (3,), False), b"123"),
            (("float32", (-3,), False), b""),
            (("float32", ("3",), False), b"123"),
            (("float32", (3,)), b""),
            (None, b""),
            (("object", (1,), False), b"12345678"),
            (("int8", (4,), False), ((((0, 2),), b"ab"),)),
            (("int8", (4,), False), (3,)),
        ]:
            try:
                result.append(build("array/1", kind, place, data))
            except Exception as error:
                result.append((type(error).__name__, getattr(error, "names", None)))
        """
    )
    assert got == [("CorruptError", ("array/1",))] * 8


def test_without_ml_dtypes_the_error_names_it() -> None:
    """Plain dtypes load even then; bfloat16 says which package it needs."""
    with Worker() as worker:
        worker.run(BLOCK, blobs={"names": ["jax", "jaxlib", "ml_dtypes"]})
        plain, (kind, text, _) = worker.run(
            FACTS + "    result = facts(jaxpickle.loads(blobs['f4'])), failure(blobs['bf16'])",
            blobs={
                "f4": jaxpickle.dumps(jnp.ones(3)),
                "bf16": jaxpickle.dumps({"w": jnp.ones(3, "bfloat16")}),
            },
        )
    assert plain == ("float32", (3,), np.ones(3, "float32").tobytes())
    assert kind in ("UnpicklingError", "VersionError", "ImportError")
    assert "ml_dtypes" in text
    assert "pip install ml_dtypes" in text
    assert "bfloat16" in text
