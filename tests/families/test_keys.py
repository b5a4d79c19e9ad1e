"""PRNG keys: every implementation draws the same numbers after the journey."""

import dataclasses
import sys
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle
import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jaxpickle
from array_facts import bits, facts
from fresh import Worker
from jaxpickle.errors import CorruptError, PicklingError, UnpicklingError
from jaxpickle.records import build
from round_trips import out_of_band, round_trips, sent

OLD = ["threefry2x32", "rbg", "unsafe_rbg"]
NEW = ["philox2x32", "philox4x32", "threefry4x32"]
"""Those that JAX has from 0.10.2."""


def registered() -> list[str]:
    """Returns the implementations that this JAX knows by name."""
    found = []
    for name in [*OLD, *NEW]:
        try:
            jax.random.key(0, impl=name)
        except ValueError:
            assert name in NEW
        else:
            found.append(name)
    return found


def keys_of(name: str) -> dict[str, Any]:
    """Returns keys of an implementation in all shapes and places."""
    key = jax.random.key(7, impl=name)
    batch = jax.random.split(key, 8)
    mesh = Mesh(np.array(jax.devices()[:4]), ("x",))
    return {
        "key": key,
        "batch": batch,
        "grid": batch.reshape(2, 4),
        "none": batch[:0],
        "placed": jax.device_put(key, jax.devices()[3]),
        "sharded": jax.device_put(batch, NamedSharding(mesh, PartitionSpec("x"))),
        "replicated": jax.device_put(batch, NamedSharding(mesh, PartitionSpec())),
        "large": jax.random.split(key, 2000),
    }


DRAWS = """
import jax
import numpy as np

@jax.jit
def drawn(key):
    children = jax.random.split(key, 3)
    return (
        jax.random.normal(key, (3, 2)),
        jax.random.key_data(children),
        jax.random.key_data(jax.random.fold_in(key, 9)),
    )

def draws(key):
    return [np.asarray(x) for x in drawn(key)]
"""
names: dict[str, Any] = {}
exec(DRAWS, names)
draws: Callable[[Any], list[Any]] = names["draws"]


@pytest.mark.versions
@pytest.mark.parametrize("name", registered())
def test_keys_of_each_implementation_come_back(name: str) -> None:
    """Scalar, batched, empty, placed, sharded and replicated keys keep data, dtype and place."""
    keys = keys_of(name)
    expected = {at: facts(key) for at, key in keys.items()}
    for loaded in round_trips(keys):
        assert {at: facts(key) for at, key in loaded.items()} == expected
        assert str(jax.random.key_impl(loaded["key"])) == str(jax.random.key_impl(keys["key"]))


@pytest.mark.versions
def test_keys_draw_the_same_numbers_in_a_fresh_process(worker4: Worker) -> None:
    """normal, bits, split, fold_in and a jitted permutation agree, for each implementation."""
    names = registered()
    keys = {name: keys_of(name) for name in names}
    data, buffers = out_of_band(keys)
    assert buffers
    got = worker4.run(
        DRAWS
        + """
import jaxpickle
keys = jaxpickle.loads(blobs["data"], buffers=blobs["buffers"])
result = {
    name: (
        draws(found["key"]),
        draws(found["batch"][5]),
        np.asarray(jax.random.key_data(found["sharded"])),
        [str(shard.device) for shard in found["sharded"].addressable_shards],
    )
    for name, found in keys.items()
}
""",
        blobs={"data": data, "buffers": [sent(buffer) for buffer in buffers]},
    )
    for name in names:
        *drawn, sharded, places = got[name]
        for key, theirs in zip([keys[name]["key"], keys[name]["batch"][5]], drawn, strict=True):
            for ours, other in zip(draws(key), theirs, strict=True):
                np.testing.assert_array_equal(ours, other, strict=True)
        assert bits(keys[name]["sharded"]) == sharded.tobytes()
        assert places == [str(device) for device in jax.devices()[:4]]


@pytest.mark.versions
def test_jitted_functions_take_loaded_keys_without_a_new_trace() -> None:
    """A loaded key has the same type to JAX as the one that was saved."""
    traces = []

    @jax.jit
    def draw(key: Any) -> Any:
        traces.append(key)
        return jax.random.normal(key, (2,))

    for name in registered():
        traces.clear()
        key = jax.random.key(1, impl=name)
        assert bits(draw(key)) == bits(draw(jaxpickle.loads(jaxpickle.dumps(key))))
        assert len(traces) == 1


@dataclasses.dataclass
class State:
    """A user's class that holds a key, twice."""

    key: Any
    again: Any
    dtype: Any


@pytest.mark.versions
def test_key_inside_a_user_class() -> None:
    """Identity of a shared key, and the dtype of keys, survive inside an instance."""
    key = jax.random.key(3)
    for loaded in round_trips(State(key, key, key.dtype)):
        assert loaded.key is loaded.again
        assert loaded.dtype == key.dtype == loaded.key.dtype
        assert bits(loaded.key) == bits(key)


@pytest.mark.versions
def test_raw_keys_are_plain_arrays() -> None:
    """The keys of `jax.random.PRNGKey` are arrays of uint32, and stay so."""
    raw = jax.random.PRNGKey(3)
    for loaded in round_trips(raw):
        assert facts(loaded) == facts(raw)


def home_made(**functions: Any) -> Any:
    """Returns an implementation that JAX has under no name."""

    def random_bits(key: Any, width: int, shape: Any) -> Any:
        return jnp.full(shape, key[0] * 2 + key[1], f"uint{width}")

    return jax.extend.random.define_prng_impl(
        **{
            "key_shape": (2,),
            "seed": lambda seed: jnp.stack([seed.astype(jnp.uint32)] * 2),
            "split": lambda key, shape: jnp.broadcast_to(key, (*shape, 2)) + jnp.uint32(1),
            "random_bits": random_bits,
            "fold_in": lambda key, data: key + data,
            "name": "home_made",
            "tag": "hm",
            **functions,
        }
    )


def by_value(obj: Any) -> bytes:
    """Returns the stream of `obj`, with this module's functions by value."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        return jaxpickle.dumps(obj)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.versions
def test_keys_of_an_unregistered_implementation_travel(worker4: Worker) -> None:
    """Keys, their dtype, a Ref of them and the implementation arrive, and share one thing."""
    spec = home_made()
    keys = jax.random.split(jax.random.key(3, impl=spec), 4)
    mesh = Mesh(np.array(jax.devices()[:4]), ("x",))
    obj = {
        "keys": keys,
        "key": keys[1],
        "sharded": jax.device_put(keys, NamedSharding(mesh, PartitionSpec("x"))),
        "ref": jax.new_ref(keys),
        "dtype": keys.dtype,
        "spec": spec,
    }
    data = by_value(obj)
    assert data == by_value(obj)
    assert data.count(b"key_impl") == 1  # all share it
    got = worker4.run(
        DRAWS
        + """
import jaxpickle
loaded = jaxpickle.loads(blobs["data"])
keys = loaded["keys"]
assert keys.dtype == loaded["dtype"] == loaded["ref"].dtype == loaded["sharded"].dtype
assert jax.random.key_impl(keys) == loaded["spec"]
arrays = [keys, loaded["sharded"], loaded["ref"][...]]
places = [str(shard.device) for shard in loaded["sharded"].addressable_shards]
result = draws(loaded["key"]), [np.asarray(jax.random.key_data(x)) for x in arrays], places
""",
        blobs={"data": data},
    )
    drawn, arrays, places = got
    for ours, theirs in zip(draws(keys[1]), drawn, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    for theirs in arrays:
        np.testing.assert_array_equal(jax.random.key_data(keys), theirs, strict=True)
    assert places == [str(device) for device in jax.devices()[:4]]


@pytest.mark.versions
def test_keys_of_an_implementation_that_cannot_travel_say_where() -> None:
    """A function of the implementation that cannot be pickled is named by its path."""
    lock = threading.Lock()

    def fold_in(key: Any, data: Any) -> Any:
        with lock:
            return key

    key = jax.random.key(3, impl=home_made(fold_in=fold_in))
    for obj, path in [({"a": [key]}, "$['a'][0]"), ([jax.new_ref(key)], "$[0]")]:
        with pytest.raises(PicklingError, match="lock") as caught:
            jaxpickle.dumps(obj)
        assert str(caught.value.path).startswith(path)


@pytest.mark.versions
def test_a_registered_name_does_not_hide_another_implementation() -> None:
    """What only shares its name with a registered implementation stays what it is."""
    registered = jax.extend.random.threefry_prng_impl
    key = jax.random.key(3)
    other = type(key)(registered._replace(tag="other"), jax.random.key_data(key))
    same = type(key)(registered._replace(), jax.random.key_data(key))
    for loaded in round_trips([other, same]):
        assert [found.dtype.name for found in loaded] == ["key<other>", "key<fry>"]
        assert loaded[0].dtype == other.dtype
        assert loaded[1].dtype._impl is registered
    assert jaxpickle.dumps(same) == jaxpickle.dumps(key)


@pytest.mark.versions
def test_implementation_that_the_reader_lacks_is_named() -> None:
    """A stream with keys of an unknown implementation raises, and tells which there are."""
    function, (tag, _, *fields) = jax.random.key(3), _record(jax.random.key(3))
    assert bits(build(tag, "threefry2x32", *fields)) == bits(function)
    with pytest.raises(UnpicklingError, match=r"'cha_cha'.*not registered") as caught:
        build(tag, "cha_cha", *fields)
    assert caught.value.names == ("cha_cha",)
    assert "threefry2x32" in caught.value.available
    with pytest.raises(CorruptError, match=r"key/1.*PRNG implementation"):
        build(tag, ["threefry2x32"], *fields)


def test_forged_key_data_is_refused() -> None:
    """Data of another shape or dtype than keys have is a damaged record, not a strange key."""
    _, place, data = _record(jnp.zeros((4,), jnp.uint32))[1:]
    for kind in [("uint32", (4,), False), ("int32", (2, 2), False), ("uint32", (1, 4), False)]:
        with pytest.raises(CorruptError, match="key/1"):
            build("key/1", "threefry2x32", kind, place, data)


def _record(array: Any) -> Any:
    """Returns the fields of an array's record, its tag first."""
    return jaxpickle.Pickler.dispatch_table[type(array)](array)[1]
