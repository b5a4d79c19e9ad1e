"""Equal bytes: equal state gives equal streams, in every process and at any time."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

import jaxpickle
from fresh import run
from round_trips import PROTOCOLS, out_of_band

STATE = """
import collections, datetime, enum
import jax, jax.numpy as jnp, numpy as np
import jax.experimental.layout
from jax.sharding import (
    AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding,
)
import jaxpickle

def make_state():
    mesh = jax.make_mesh((4, 2), ("data", "m"), axis_types=(AxisType.Explicit, AxisType.Auto))
    auto = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("x", "yy", "z"))
    explicit = Mesh(auto.devices, auto.axis_names, axis_types=(AxisType.Explicit,) * 3)
    value = jnp.arange(64.0).reshape(8, 8)
    keys = jax.random.split(jax.random.key(1), 8)
    sharded = jax.device_put(value, NamedSharding(mesh, P("data")))
    specs = [
        P(), P("x"), P(("x", "yy"), None), P(P.UNCONSTRAINED, "x"),
        P(None, unreduced={"x", "yy", "z"}), P(reduced={"z", "yy"}),
        P("x", unreduced=frozenset(["z", "yy"])),
    ]
    return {
        "arrays": [
            value, value.astype("bfloat16"), jnp.arange(3000), jnp.int8(1), jnp.int8(1),
            jnp.bool_(True), jnp.zeros(0), jnp.float32(2), jnp.asarray(1.0), sharded,
            jax.device_put(value, jax.devices()[3]),
            jax.device_put(jnp.tile(value, 40), NamedSharding(auto, P("x", ("yy", "z")))),
            jax.device_put(value, NamedSharding(auto, P())),
        ],
        "keys": [keys, jax.random.key(1, impl="rbg"), jax.device_put(keys, jax.devices()[2])],
        "refs": [jax.new_ref(value), jax.new_ref(keys)],
        "numpy": [np.arange(3), np.float32(1), np.arange(9.0).reshape(3, 3).T],
        "meshes": [mesh, auto, mesh.abstract_mesh, AbstractMesh((2, 3), ("x", "yy"))],
        "specs": specs,
        "shardings": [NamedSharding(explicit, spec) for spec in specs[:3] + specs[4:]],
        "single": SingleDeviceSharding(jax.devices()[1], memory_kind="pinned_host"),
        "devices": [jax.devices()[0], jax.devices()[7]],
        "structs": [
            jax.ShapeDtypeStruct((3,), jnp.float32),
            jax.ShapeDtypeStruct((8, 3), jnp.bfloat16, sharding=NamedSharding(auto, P("x"))),
            jax.ShapeDtypeStruct((3,), jax.random.key(0).dtype, weak_type=True),
        ],
        "layouts": [
            jax.experimental.layout.Layout((1, 0)),
            jax.experimental.layout.Format(
                jax.experimental.layout.Layout((1, 0)), NamedSharding(auto, P("x"))
            ),
        ],
        "treedefs": [
            jax.tree.structure({"b": [1, 2, (3, None)], "a": collections.OrderedDict(z=1, y=2)}),
            jax.tree.structure(collections.defaultdict(list, a=1)),
        ],
        "dtypes": [np.dtype("float32"), np.dtype(jnp.bfloat16), jax.random.key(0).dtype],
        "functions": [jnp.tanh, jax.nn.relu, jnp.add, jax.numpy.linalg.norm, jax.jit, np.sin],
        "classes": [jax.Array, np.ndarray, jnp.float32],
        "importable": [
            datetime.date(2020, 1, 1), collections.Counter("ab"), enum.auto, (1, 2, frozenset([3])),
        ],
    }
"""

WRITE = (
    STATE
    + """
def streams(state):
    found = [jaxpickle.dumps(state, protocol) for protocol in (2, 3, 4, 5)]
    buffers = []
    found.append(jaxpickle.dumps(state, 5, buffer_callback=buffers.append))
    return found + [bytes(buffer) for buffer in buffers]
"""
)


@pytest.mark.versions
def test_processes_with_other_hash_seeds_write_equal_bytes() -> None:
    """Sets, caches and the order of imports and of earlier dumps leave no trace in a stream."""
    first = run(WRITE + "result = streams(make_state())", hash_seed="1")
    second = run(
        "import numpy.linalg, jax.scipy.linalg, jax.experimental.pjit, jax.nn, jax.scipy.stats\n"
        + WRITE
        + """
other = make_state()
for name in sorted(other, reverse=True):
    jaxpickle.dumps(other[name], 4)
    jaxpickle.loads(jaxpickle.dumps([other[name]] * 2))
again = streams(make_state())
result = streams(make_state())
assert result == again
""",
        hash_seed="2",
    )
    assert len(first) > 5
    for ours, theirs in zip(first, second, strict=True):
        assert ours == theirs


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_loaded_state_writes_the_bytes_that_it_came_from(protocol: int) -> None:
    """Arrays, meshes, shardings, specs and treedefs that were loaded are saved as before."""
    names: dict = {}
    exec(STATE, names)
    state = names["make_state"]()
    for name in ("arrays", "keys", "meshes", "specs", "shardings", "devices", "structs"):
        for obj in state[name]:
            data = jaxpickle.dumps(obj, protocol)
            assert jaxpickle.dumps(jaxpickle.loads(data), protocol) == data, obj


def spelled_anew(text: str) -> str:
    """Returns an equal string that is another object; of one character only where there are two."""
    other = "".join([text[:1], text[1:]]) if len(text) > 1 else chr(ord(text))
    assert other == text
    return other


def ours() -> dict[str, object]:
    """Returns an object for each word that a record of ours may hold."""
    mesh = jax.make_mesh((4, 2), ("data", "x"))
    explicit = jax.make_mesh((8,), ("long",), axis_types=(AxisType.Explicit,))
    value = jnp.arange(8.0)
    pinned = jax.sharding.SingleDeviceSharding(jax.devices()[1], memory_kind="pinned_host")
    committed = jax.device_put(value, jax.devices()[0])
    with jax.default_device(jax.devices()[3]):
        elsewhere = jnp.arange(8.0)
    return {
        "float32": value,
        "bfloat16": value.astype("bfloat16"),
        "int4": value.astype("int4"),
        "array/1": value,
        "ref/1": jax.new_ref(value),
        "key/1": jax.random.key(0),
        "threefry2x32": jax.random.key(0),
        "rbg": jax.random.key(0, impl="rbg"),
        "cpu:0": value,
        "single": value,
        "default": value,
        "committed": committed,
        "elsewhere": elsewhere,
        "pinned_host": jax.device_put(value, pinned),
        "named": jax.device_put(value, NamedSharding(mesh, PartitionSpec())),
        "abstract": NamedSharding(mesh.abstract_mesh, PartitionSpec("data")),
        "data": mesh,
        "x": mesh,
        "long": NamedSharding(explicit, PartitionSpec("long")),
        "Auto": mesh,
        "Explicit": explicit,
        "mesh/1": mesh,
        "sharding/1": NamedSharding(mesh, PartitionSpec("x", "data")),
        "spec/1": PartitionSpec("x"),
        "unconstrained": PartitionSpec(PartitionSpec.UNCONSTRAINED),
        "sum": PartitionSpec(unreduced={"x"}),
        "device/1": jax.devices()[2],
        "cpu:2": jax.devices()[2],
        "shape_dtype/1": jax.ShapeDtypeStruct((3,), jnp.float32),
        "partial": _partial_sums(),
        "treedef/1": jax.tree.structure([1, (2, None), {"a": 1}]),
        "list": jax.tree.structure([1, 2]),
        "tuple": jax.tree.structure((1, 2)),
        "dict": jax.tree.structure({"a": 2}),
        "leaf": jax.tree.structure(1),
        "none": jax.tree.structure(None),
        "global/1": jnp.tanh,
        "jax.numpy:tanh": jnp.tanh,
        "ndarray/1": np.arange(3),
        "int64": np.arange(3),
        "scalar/1": np.int64(3),
    }


def _partial_sums() -> jax.Array:
    """Returns an array of which each device has a part of the sum."""
    mesh = jax.make_mesh((8,), ("long",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0), PartitionSpec("long"))
        spec = PartitionSpec(unreduced={"long"})
        return jax.jit(lambda x: jnp.einsum("x,x->", x, x, out_sharding=spec))(x)


WORDS = (
    "float32",
    "bfloat16",
    "int4",
    "array/1",
    "ref/1",
    "key/1",
    "threefry2x32",
    "rbg",
    "cpu:0",
    "single",
    "default",
    "committed",
    "elsewhere",
    "pinned_host",
    "named",
    "abstract",
    "data",
    "x",
    "long",
    "Auto",
    "Explicit",
    "mesh/1",
    "sharding/1",
    "spec/1",
    "unconstrained",
    "sum",
    "device/1",
    "cpu:2",
    "shape_dtype/1",
    "partial",
    "treedef/1",
    "list",
    "tuple",
    "dict",
    "leaf",
    "none",
    "global/1",
    "jax.numpy:tanh",
    "ndarray/1",
    "int64",
    "scalar/1",
)


@pytest.mark.parametrize("word", WORDS)
def test_words_of_the_user_are_never_taken_for_ours(word: str) -> None:
    """A record does not depend on which of several equal strings the user's graph holds."""
    obj = ours()[word]
    for protocol in (2, 5):
        literal = jaxpickle.dumps([word, obj], protocol)
        anew = jaxpickle.dumps([spelled_anew(word), obj], protocol)
        interned = jaxpickle.dumps([sys.intern(word), obj], protocol)
        assert literal == anew == interned


def test_each_word_is_tried() -> None:
    """The tests above leave out none of the objects."""
    assert tuple(ours()) == WORDS


@pytest.mark.parametrize("size", [0, 1, 2, 7])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bytes_of_the_user_are_never_taken_for_ours(size: int, protocol: int) -> None:
    """An array's few bytes are its own, even where Python has one object for equal bytes."""
    arrays = [jnp.ones(size, jnp.int8), np.ones(size, np.int8), jnp.ones(size, jnp.int8)]
    one = bytes([1] * size)
    other = memoryview(one).tobytes()
    assert (one is other) is (size == 0)
    assert jaxpickle.dumps([one, *arrays], protocol) == jaxpickle.dumps([other, *arrays], protocol)


@pytest.mark.parametrize("name", ["data", "データ", "x", "中"])
def test_axis_names_built_at_run_time_are_the_same_names(name: str) -> None:
    """Meshes and specs over equal names, however spelled, are written alike."""
    other = spelled_anew(name)
    devices = np.array(jax.devices())
    one, two = Mesh(devices, (name,)), Mesh(devices, (other,))
    pairs = [
        (one, two),
        (NamedSharding(one, PartitionSpec(name)), NamedSharding(two, PartitionSpec(other))),
        (PartitionSpec(name), PartitionSpec(other)),
        ([name, one, PartitionSpec(name)], [name, two, PartitionSpec(other)]),
        (AbstractMesh((2,), (name,)), AbstractMesh((2,), (other,))),
        (
            [jax.device_put(jnp.arange(8), NamedSharding(one, PartitionSpec(name))), other],
            [jax.device_put(jnp.arange(8), NamedSharding(two, PartitionSpec(other))), name],
        ),
    ]
    for a, b in pairs:
        assert jaxpickle.dumps(a) == jaxpickle.dumps(b), a


def test_sharing_among_descriptions_follows_equality() -> None:
    """Equal shardings, be they one object or several, are described once, in any order."""
    devices = np.array(jax.devices())

    def sharding() -> NamedSharding:
        return NamedSharding(Mesh(devices, (spelled_anew("data"),)), PartitionSpec("data"))

    value, one = jnp.arange(8.0), sharding()
    shared = [jax.device_put(value, one), jax.device_put(value, one), one]
    apart = [jax.device_put(value, sharding()), jax.device_put(value, sharding()), one]
    assert jaxpickle.dumps(shared) == jaxpickle.dumps(apart)
    assert out_of_band(shared)[0] == out_of_band(apart)[0]
