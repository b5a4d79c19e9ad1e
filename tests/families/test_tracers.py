"""Tracers: refused wherever JAX traces, with the path and what to do instead."""

import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import jaxpickle
from jaxpickle.errors import PicklingError


def per_shard(f: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a function on each shard."""
    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((2,), ("x",), axis_types=auto, devices=jax.devices()[:2])
    spec = PartitionSpec("x")
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec))


TRANSFORMS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "jit": jax.jit,
    "grad": lambda f: jax.grad(lambda x: f(x).sum()),
    "vmap": jax.vmap,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: jax.linearize(f, x),
    "scan": lambda f: lambda x: jax.lax.scan(lambda carry, y: (carry, f(y)), 0, x),
    "while_loop": lambda f: lambda x: jax.lax.while_loop(lambda y: y.sum() < 0, f, x),
    "cond": lambda f: lambda x: jax.lax.cond(x.sum() > 0, f, lambda y: y, x),
    "remat": lambda f: jax.grad(jax.checkpoint(lambda x: f(x).sum())),
    "jit of grad of vmap": lambda f: jax.jit(jax.grad(lambda x: jax.vmap(f)(x).sum())),
    "make_jaxpr": jax.make_jaxpr,
    "eval_shape": lambda f: lambda x: jax.eval_shape(f, x),
    "shard_map": per_shard,
}


@pytest.mark.versions
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("protocol", [2, 5])
def test_tracers_are_refused_in_each_transform(transform: str, protocol: int) -> None:
    """The text has the path, the type of the tracer and the remedy; and so has the error."""
    seen = []

    def f(x: Any) -> Any:
        with pytest.raises(PicklingError, match=r"tracer.*outside of jit") as caught:
            jaxpickle.dumps({"model": [1, {"w": x}]}, protocol)
        seen.append(caught.value)
        return x * 2

    TRANSFORMS[transform](f)(jnp.arange(4.0))
    assert seen
    for error in seen:
        assert error.path == "$['model'][1]['w']"
        assert "$['model'][1]['w']" in str(error)
        assert error.type_name is not None
        assert error.type_name.endswith("Tracer")
        assert isinstance(error, pickle.PicklingError)


@pytest.mark.versions
def test_tracers_of_keys_and_refs_are_refused() -> None:
    """Keys and Refs that are being traced are refused like arrays."""
    seen = []

    @jax.jit
    def f(key: Any, ref: Any) -> Any:
        for traced in (key, ref):
            with pytest.raises(PicklingError, match="tracer") as caught:
                jaxpickle.dumps([traced])
            seen.append(caught.value.path)
        return jax.random.normal(key)

    f(jax.random.key(0), jax.new_ref(jnp.ones(3)))
    assert seen == ["$[0]", "$[0]"]


@pytest.mark.versions
def test_leaked_tracers_are_refused() -> None:
    """A tracer kept after tracing, on an instance or in a closure, is found by path."""

    class Model:
        pass

    model = Model()

    @jax.jit
    def f(x: Any) -> Any:
        model.cache = x
        return x

    f(jnp.ones(2))
    with pytest.raises(PicklingError, match=r"return it from the function") as caught:
        jaxpickle.dumps([model])
    assert caught.value.path == "$[0].cache"


@pytest.mark.versions
def test_concrete_arrays_pickle_while_jax_traces() -> None:
    """Constants inside a traced function are data, and can be dumped and loaded there."""
    seen = []
    ref = jax.new_ref(jnp.arange(3.0))
    order = jax.experimental.layout.Format(
        jax.experimental.layout.Layout((1, 0)), jax.sharding.SingleDeviceSharding(jax.devices()[0])
    )
    constants = {
        "array": np.arange(3.0),
        "jax": jnp.arange(3.0),
        "key": jax.random.key(1),
        "ref": ref,
        "column major": jax.device_put(jnp.ones((2, 3)), order),
    }

    for transform in ("jit", "grad", "vmap", "scan"):

        def f(x: Any) -> Any:
            loaded = jaxpickle.loads(jaxpickle.dumps(constants))
            seen.append(loaded)
            return x * 2

        TRANSFORMS[transform](f)(jnp.arange(4.0))
    assert len(seen) >= 4
    for loaded in seen:
        assert not isinstance(loaded["jax"], jax.core.Tracer)
        np.testing.assert_array_equal(np.asarray(loaded["jax"]), np.arange(3.0))
        np.testing.assert_array_equal(np.asarray(loaded["ref"][...]), np.arange(3.0))
        np.testing.assert_array_equal(np.asarray(loaded["column major"]), np.ones((2, 3)))
