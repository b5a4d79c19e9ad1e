"""Refs: mutable arrays keep value, place and aliasing, and are independent of the original."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxpickle
from array_facts import bits, facts
from fresh import Worker
from jaxpickle.errors import PicklingError
from round_trips import out_of_band, round_trips, sent


def sharded(value: Any, *axes: str | None, explicit: bool = False) -> Any:
    """Returns an array laid over four devices."""
    types = (AxisType.Explicit if explicit else AxisType.Auto,)
    mesh = jax.make_mesh((4,), ("x",), axis_types=types, devices=jax.devices()[:4])
    return jax.device_put(value, NamedSharding(mesh, PartitionSpec(*axes)))


def values() -> dict[str, Any]:
    """Returns one initial value for each kind of place and type."""
    with jax.default_device(jax.devices()[5]):
        elsewhere = jnp.arange(3)
    return {
        "plain": jnp.arange(4.0),
        "scalar": jnp.int32(3),
        "weak": jnp.asarray(1.0),
        "bfloat16": jnp.ones((2, 3), jnp.bfloat16),
        "int4": jnp.arange(4).astype("int4"),
        "none": jnp.zeros((0, 3)),
        "committed": jax.device_put(jnp.arange(3.0), jax.devices()[3]),
        "elsewhere": elsewhere,
        "large": jax.device_put(jnp.arange(3000.0), jax.devices()[2]),
        "sharded": sharded(jnp.arange(16.0).reshape(8, 2), "x"),
        "explicit": sharded(jnp.arange(8.0), "x", explicit=True),
        "replicated": sharded(jnp.arange(2000.0)),
        "keys": jax.random.split(jax.random.key(3), 4),
        "rbg": jax.random.key(3, impl="rbg"),
    }


@jax.jit
def bump(ref: Any) -> Any:
    """Adds one to a Ref, in place, and returns what it held."""
    before = ref[...]
    ref[...] = before + 1
    return before


@pytest.mark.versions
def test_refs_keep_value_and_place() -> None:
    """A Ref of each dtype and place is a Ref again; what it holds is as it was."""
    refs = {name: jax.new_ref(value) for name, value in values().items()}
    expected = {name: facts(ref[...]) for name, ref in refs.items()}
    assert expected["sharded"]["shards"] == facts(values()["sharded"])["shards"]
    for loaded in round_trips(refs):
        assert {type(ref) for ref in loaded.values()} == {type(refs["plain"])}
        assert {name: facts(ref[...]) for name, ref in loaded.items()} == expected
        assert {name: ref.sharding for name, ref in loaded.items() if name != "rbg"} == {
            name: ref.sharding for name, ref in refs.items() if name != "rbg"
        }


@pytest.mark.versions
def test_writing_a_loaded_ref_leaves_the_original_alone() -> None:
    """Loaded Refs can be written, in jit and outside, also those over out-of-band memory."""
    names = ("plain", "committed", "large", "sharded", "replicated")
    refs = {name: jax.new_ref(values()[name]) for name in names}
    before = {name: bits(ref[...]) for name, ref in refs.items()}
    for loaded in round_trips(refs):
        for name, ref in loaded.items():
            assert bits(bump(ref)) == before[name]
            ref[...] = ref[...] * 2
            expected = (np.asarray(values()[name]) + 1) * 2
            np.testing.assert_array_equal(np.asarray(ref[...]), expected)
            assert ref[...].sharding == refs[name][...].sharding
        assert {name: bits(ref[...]) for name, ref in refs.items()} == before


@pytest.mark.versions
@pytest.mark.parametrize("name", ["large", "replicated", "sharded"])
def test_writing_the_original_leaves_stream_and_loaded_alone(name: str) -> None:
    """Out-of-band bytes are those of the time of the dump, whatever is written afterwards."""
    ref = jax.new_ref(jnp.tile(values()[name], 3))
    before = bits(ref[...])
    data, buffers = out_of_band(ref)
    loaded = jaxpickle.loads(data, buffers=buffers)
    bump(ref)
    ref[...] += 1
    assert bits(ref[...]) != before == bits(loaded[...])
    assert bits(jaxpickle.loads(data, buffers=buffers)[...]) == before


@pytest.mark.versions
@pytest.mark.parametrize("name", ["plain", "int4", "sharded", "replicated", "keys"])
def test_a_ref_can_be_saved_again_after_it_was_written(name: str) -> None:
    """Each dump has the values of its time: the first leaves nothing stale on the Ref."""
    ref = jax.new_ref(values()[name])
    for _ in range(3):
        ref[...] = jax.jit(lambda x: x[::-1])(ref[...])
        assert bits(jaxpickle.loads(jaxpickle.dumps(ref))[...]) == bits(ref[...])
        if name != "keys":
            bump(ref)
            assert facts(jaxpickle.loads(jaxpickle.dumps(ref))[...]) == facts(ref[...])


@pytest.mark.versions
def test_one_ref_in_two_places_comes_back_as_one() -> None:
    """What is written through one name shows in the other; equal Refs stay two."""

    class Owner:
        pass

    ref, owner = jax.new_ref(jnp.zeros(2)), Owner()
    owner.ref, owner.all, owner.twin = ref, {"a": [ref]}, jax.new_ref(jnp.zeros(2))
    owner.add = lambda: bump(ref)
    for loaded in round_trips(owner):
        assert loaded.ref is loaded.all["a"][0]
        assert loaded.ref is not loaded.twin
        loaded.add()
        bump(loaded.all["a"][0])
        np.testing.assert_array_equal(np.asarray(loaded.ref[...]), [2, 2])
        np.testing.assert_array_equal(np.asarray(loaded.twin[...]), [0, 0])
    assert not np.any(np.asarray(ref[...]))


@pytest.mark.versions
def test_ref_and_the_array_it_was_made_of_stay_apart() -> None:
    """Writing a loaded Ref does not change a loaded array that held the same values."""
    array = jnp.arange(2000.0)
    for array_too, ref in round_trips([array, jax.new_ref(array)]):
        bump(ref)
        np.testing.assert_array_equal(np.asarray(array_too), np.arange(2000.0))
        np.testing.assert_array_equal(np.asarray(ref[...]), np.arange(2000.0) + 1)


@pytest.mark.versions
def test_ref_of_keys_gives_and_takes_keys() -> None:
    """The keys in a loaded Ref draw the same numbers, and can be replaced."""
    keys = jax.random.split(jax.random.key(3), 4)
    for loaded in round_trips(jax.new_ref(keys)):
        assert bits(jax.random.normal(loaded[1])) == bits(jax.random.normal(keys[1]))
        loaded[...] = jax.vmap(jax.random.fold_in)(loaded[...], jnp.arange(4))
        expected = jax.vmap(jax.random.fold_in)(keys, jnp.arange(4))
        assert bits(loaded[...]) == bits(expected)


@pytest.mark.versions
def test_kind_of_a_ref_is_kept() -> None:
    """What a Ref's `kind` says of rematerialization is the same afterwards."""
    marked = jax.new_ref(jnp.ones(2), kind="anselm_ref")
    for loaded in round_trips([marked, jax.new_ref(jnp.ones(2))]):
        assert [jax.typeof(ref).kind for ref in loaded] == ["anselm_ref", None]


@pytest.mark.versions
def test_jitted_functions_take_loaded_refs_without_a_new_trace() -> None:
    """A loaded Ref has the same type to JAX as the one that was saved."""
    traces = []

    @jax.jit
    def add(ref: Any) -> None:
        traces.append(ref)
        ref[...] += 1

    for name in ("plain", "committed", "sharded", "explicit"):
        traces.clear()
        ref = jax.new_ref(values()[name])
        add(ref)
        add(jaxpickle.loads(jaxpickle.dumps(ref)))
        assert len(traces) == 1


@pytest.mark.versions
def test_refs_in_a_fresh_process(worker4: Worker) -> None:
    """Another process reads, writes, in jit too, and finds one Ref behind two names."""
    ref = jax.new_ref(sharded(jnp.arange(4000.0), "x"))
    state = {"ref": ref, "again": [ref], "keys": jax.new_ref(jax.random.split(jax.random.key(1)))}
    data, buffers = out_of_band(state)
    got = worker4.run(
        """
        import jax, numpy as np
        import jaxpickle

        state = jaxpickle.loads(blobs["data"], buffers=blobs["buffers"])
        assert state["ref"] is state["again"][0]

        @jax.jit
        def bump(ref):
            ref[...] += 1

        bump(state["again"][0])
        state["ref"][0] = 7.0
        result = (
            np.asarray(state["again"][0][...]),
            [str(shard.device) for shard in state["ref"][...].addressable_shards],
            np.asarray(jax.random.normal(state["keys"][1], (3,))),
        )
        """,
        blobs={"data": data, "buffers": [sent(buffer) for buffer in buffers]},
    )
    expected = np.arange(4000.0, dtype=np.float32) + 1
    expected[0] = 7
    np.testing.assert_array_equal(got[0], expected, strict=True)
    assert got[1] == [str(device) for device in jax.devices()[:4]]
    drawn = jax.random.normal(jax.random.split(jax.random.key(1))[1], (3,))
    np.testing.assert_array_equal(got[2], np.asarray(drawn), strict=True)


def test_ref_of_a_deleted_array_is_refused_by_path() -> None:
    """A Ref whose value is gone says where it stands."""
    ref = jax.new_ref(jnp.ones(3))
    ref[...].delete()  # may be a copy
    ref._refs._buf.delete()
    with pytest.raises(PicklingError, match="deleted or donated") as caught:
        jaxpickle.dumps({"deep": [ref]})
    assert caught.value.path == "$['deep'][0]"
