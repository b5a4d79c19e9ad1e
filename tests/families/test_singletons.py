"""Sentinels, enums, PRNG implementations and key dtypes come back as the ones there are."""

import pickle
import sys
from typing import Any

import cloudpickle
import jax
import jax.numpy as jnp
import pytest
from jax._src.sharding_impls import UNSPECIFIED
from jax.experimental.layout import Layout
from jax.extend.random import define_prng_impl
from jax.sharding import AxisType, PartitionSpec

import fresh
import jaxpickle
from fresh import Worker
from jaxpickle._jax import keys
from jaxpickle.records import build

PRIVATE = (b"jax._src", b"jaxlib.")
PROTOCOLS = (2, 3, 4, 5)


SENTINELS = {
    "unconstrained": PartitionSpec.UNCONSTRAINED,
    "unspecified": UNSPECIFIED,
    "auto_layout": Layout.AUTO,
}


@pytest.mark.versions
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", SENTINELS)
def test_a_sentinel_is_itself(name: str, protocol: int) -> None:
    """What JAX compares by identity loads as that one object, and names nothing private."""
    sentinel = SENTINELS[name]
    data = jaxpickle.dumps([sentinel, {"k": sentinel}], protocol)
    assert not any(private in data for private in PRIVATE)
    for load in (jaxpickle.loads, pickle.loads):
        first, second = load(data)
        assert first is sentinel
        assert second["k"] is sentinel


@pytest.mark.versions
def test_a_spec_with_an_unconstrained_dimension_is_equal(worker1: Worker) -> None:
    """The sentinel inside a PartitionSpec is the sentinel of the process that loads it."""
    spec = PartitionSpec("x", PartitionSpec.UNCONSTRAINED, None)
    data = jaxpickle.dumps(spec)
    assert jaxpickle.loads(data) == spec
    worker1.run(
        """
        import jaxpickle
        spec = jaxpickle.loads(blobs["data"])
        from jax.sharding import PartitionSpec as P
        assert spec[1] is P.UNCONSTRAINED and spec == P("x", P.UNCONSTRAINED, None)
        """,
        blobs={"data": data},
    )


def test_an_unknown_sentinel_is_damage() -> None:
    """A name that no sentinel has is reported as a damaged stream."""
    for fields in [("nothing",), (3,), ("key_spec", "threefry2x32"), (["unspecified"],)]:
        with pytest.raises(jaxpickle.errors.CorruptError, match="singleton/1"):
            build("singleton/1", *fields)
    for content in [{}, {"nothing": 1}, 3, ["rbg"]]:
        with pytest.raises(jaxpickle.errors.CorruptError, match="singleton/1"):
            build("singleton/1", "key_impl", content)
    with pytest.raises(jaxpickle.errors.CorruptError, match="key_dtype/1"):
        build("key_dtype/1", 3)


ENUMS = [
    AxisType.Auto,
    AxisType.Explicit,
    AxisType.Manual,
    jax.lax.Precision.HIGHEST,
    jax.lax.DotAlgorithmPreset.BF16_BF16_F32,
    jax.lax.GatherScatterMode.CLIP,
    jax.lax.RoundingMethod.TO_NEAREST_EVEN,
    jax.lax.RandomAlgorithm.RNG_DEFAULT,
    jax.lax.FftType.IRFFT,
    jax.lax.AccuracyMode.HIGHEST,
    jax.image.ResizeMethod.CUBIC,
    jax.memory.Space.Host,
    jax.memory.Space.Device,
]


@pytest.mark.versions
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("member", ENUMS, ids=str)
def test_a_member_of_an_enum_of_jax_is_itself(member: Any, protocol: int) -> None:
    """Enums of JAX travel by their public name, and come back as the same member."""
    data = jaxpickle.dumps([member, type(member)], protocol)
    assert not any(private in data for private in PRIVATE)
    assert jaxpickle.loads(data)[0] is member
    assert pickle.loads(data)[1] is type(member)


IMPLS = ["threefry2x32", "rbg", "unsafe_rbg"]


@pytest.mark.versions
@pytest.mark.parametrize("impl", IMPLS)
def test_a_key_dtype_is_equal(impl: str, worker1: Worker) -> None:
    """The dtype of typed keys travels by the name of its implementation, and fits keys there."""
    dtype = jax.random.key(0, impl=impl).dtype
    data = jaxpickle.dumps({"d": dtype})
    assert not any(private in data for private in PRIVATE)
    back = jaxpickle.loads(data)["d"]
    assert back == dtype
    assert hash(back) == hash(dtype)
    worker1.run(
        """
        import jaxpickle
        dtype = jaxpickle.loads(blobs["data"])["d"]
        import jax
        assert dtype == jax.random.key(1, impl=blobs["impl"]).dtype
        assert jax.numpy.issubdtype(dtype, jax.dtypes.prng_key)
        """,
        blobs={"data": data, "impl": impl},
    )


@pytest.mark.versions
@pytest.mark.parametrize("impl", IMPLS)
def test_a_registered_implementation_is_itself(impl: str) -> None:
    """The implementation object behind a key dtype is found again by its name."""
    implementation = jax.random.key(0, impl=impl).dtype._impl
    data = jaxpickle.dumps(implementation)
    assert not any(private in data for private in PRIVATE)
    assert len(data) < 300
    assert jaxpickle.loads(data) is implementation


def own_spec() -> Any:
    return define_prng_impl(
        key_shape=(3,),
        seed=lambda seed: jnp.full((3,), seed, "uint32"),
        split=lambda key, shape: jnp.zeros((*shape, 3), "uint32"),
        random_bits=lambda key, width, shape: jnp.full(shape, key[0], "uint32"),
        fold_in=lambda key, data: key,
        name="own",
        tag="own",
    )


@pytest.mark.versions
def test_an_implementation_of_the_users_travels(worker1: Worker) -> None:
    """What `define_prng_impl` made, which JAX has under no name, makes keys where it arrives."""
    spec = own_spec()
    data = jaxpickle.dumps(spec)
    assert not any(private in data for private in PRIVATE)
    bits = worker1.run(
        """
        import jaxpickle
        spec = jaxpickle.loads(blobs["data"])
        import jax
        result = int(jax.random.bits(jax.random.key(7, impl=spec)))
        """,
        blobs={"data": by_value(spec)},
    )
    assert bits == 7


def by_value(obj: Any) -> bytes:
    """Returns the stream of `obj`, with this module's functions by value."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        return jaxpickle.dumps(obj)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_an_implementation_that_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody registered the implementation, the error names it and those there are."""
    implementation = jax.random.key(0, impl="rbg").dtype._impl
    key = jax.random.key(0, impl="rbg")
    owners = [implementation, key.dtype, key, jax.new_ref(key)]
    streams = [jaxpickle.dumps(owner) for owner in owners]
    monkeypatch.delitem(keys.prngs, "rbg")
    for data in streams:
        with pytest.raises(jaxpickle.errors.UnpicklingError, match="'rbg'") as caught:
            jaxpickle.loads(data)
        assert caught.value.names == ("rbg",)
        assert "threefry2x32" in caught.value.available


def test_no_backend_is_started() -> None:
    """Sentinels, enums and key dtypes load without starting a JAX backend."""
    key_dtype = jax.random.key(0).dtype
    data = jaxpickle.dumps([PartitionSpec.UNCONSTRAINED, Layout.AUTO, AxisType.Auto, key_dtype])
    fresh.run(
        """
        import jaxpickle
        jaxpickle.loads(blobs["data"])
        from jax._src import xla_bridge
        assert not xla_bridge.backends_are_initialized()
        """,
        blobs={"data": data},
    )
