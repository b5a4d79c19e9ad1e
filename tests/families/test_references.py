"""By reference: a stream holds the names that users know, and nothing private of the libraries."""

import collections
import functools
import pickletools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import jaxpickle
from jaxpickle.families import references

PUBLIC = [
    jax.Array, jax.jit, jax.grad, jax.vmap, jax.lax.scan, jax.tree.map, jax.tree_util.Partial,
    jax.sharding.Mesh, AxisType, jax.lax.Precision, jax.errors.JaxRuntimeError, jax.nn.relu,
    jax.nn.initializers.zeros, jax.memory.Space,
    jnp.float32, jnp.bfloat16, jnp.tanh, jnp.add, jax.random.normal, jax.scipy.special.gammaln,
    np.ndarray, np.float32, np.mean, np.add, np.linalg.norm, np.ma.MaskedArray, np.random.Generator,
]  # fmt: skip


@pytest.mark.versions
@pytest.mark.parametrize("obj", PUBLIC, ids=lambda obj: getattr(obj, "__name__", "object"))
def test_public_names(obj: Any) -> None:
    """Each public object has a public name, which leads to it, and comes back as itself."""
    name = references.library_name(obj)
    assert name is not None
    assert "_src" not in name
    assert "._" not in name
    assert jaxpickle.loads(jaxpickle.dumps([obj]))[0] is obj


def test_objects_of_users_have_no_library_name() -> None:
    """A user's function is none of the libraries', whatever it wraps; a closure of JAX neither."""
    assert references.library_name(test_public_names) is None
    assert references.library_name(jax.grad(test_public_names)) is None
    assert references.reduce_library_global(jnp.ones(3)) is None


def test_a_name_that_is_gone_is_told() -> None:
    """A public name that this version lacks is an error that says so."""
    data = jaxpickle.dumps(jnp.tanh).replace(b"jax.numpy:tanh", b"jax.numpy:tanx")
    with pytest.raises(jaxpickle.errors.UnpicklingError, match="tanx"):
        jaxpickle.loads(data)


@pytest.mark.versions
def test_a_stream_names_nothing_private() -> None:
    """No opcode of a stream of all kinds of objects holds a private name of JAX or numpy."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Auto))
    spec = NamedSharding(mesh, PartitionSpec("x", PartitionSpec.UNCONSTRAINED))
    zoo = [
        jnp.ones(3), jnp.ones(5000), jax.random.key(0), jax.new_ref(jnp.ones(2)), jax.devices()[1],
        jax.devices()[1].default_memory(), mesh, AbstractMesh((2,), ("x",)), spec, spec.spec,
        jax.ShapeDtypeStruct((8, 2), jnp.bfloat16, sharding=NamedSharding(mesh, PartitionSpec())),
        jax.ShapeDtypeStruct((), jax.random.key(0).dtype), jnp.ones((2, 2)).format,
        jax.tree.structure({"a": [1, (2, None)], "b": collections.OrderedDict(c=1)}),
        jax.tree_util.Partial(max, 1), functools.partial(jnp.sum, axis=0), AxisType.Explicit,
        jax.lax.Precision.HIGHEST, jax.memory.Space.Host, jax.errors.KeyReuseError, *PUBLIC,
        jax.tree_util.DictKey("a"), jax.tree_util.GetAttrKey("b"), np.ones(3), np.ones(5000),
        np.float64(2), np.dtype("f4"), np.dtype(jnp.bfloat16), np.random.default_rng(0),
        np.random.RandomState(0), np.ma.masked_array([1, 2], [True, False]), np.arange(4)[::2],
        np.array([1, "a", None], dtype=object), np.datetime64("2020-01-01"),
    ]  # fmt: skip
    for obj in zoo:
        for protocol in (2, 5):
            for _, argument, _ in pickletools.genops(jaxpickle.dumps(obj, protocol)):
                for private in ("jax._", "jaxlib", "numpy._", "numpy.core", "numpy.random._"):
                    text = str(argument)
                    assert private not in text or text.startswith("jaxlib=="), (obj, argument)
