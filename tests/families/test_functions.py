"""Jitted functions: by reference where they can be found, else with every option they had."""

import inspect
import io
from collections.abc import Callable
from typing import Any

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

import jaxpickle
from fresh import Worker

P = PartitionSpec


@jax.jit
def importable(x: jax.Array) -> jax.Array:
    return x * 2


class Holder:
    @jax.jit
    def method(self: Any) -> Any:
        return 1

    def __init__(self, k: float) -> None:
        self.k = jnp.float32(k)
        self.fast = jax.jit(self.scaled)

    def scaled(self, x: jax.Array) -> jax.Array:
        return self.k * x


def back(obj: Any) -> Any:
    return jaxpickle.loads(jaxpickle.dumps(obj))


@pytest.mark.parametrize(
    "function",
    [jnp.tanh, jnp.sin, jnp.add, jax.nn.relu, jax.nn.softplus, jax.nn.gelu, jnp.where,
     jax.random.normal, jax.lax.scan, jnp.linalg.norm, jax.scipy.special.logsumexp],
    ids=lambda function: getattr(function, "__name__", str(function)),
)  # fmt: skip
def test_functions_of_jax_come_back_as_themselves(function: Callable[..., Any]) -> None:
    """What JAX publishes travels by its public name: the very same object comes back."""
    data = jaxpickle.dumps({"act": function})
    assert jaxpickle.loads(data)["act"] is function
    assert b"_src" not in data
    assert len(data) < 300


def test_an_importable_jitted_function_comes_back_as_itself() -> None:
    """A module's ``@jax.jit def`` travels by reference; so does a jitted method of a class."""
    assert back(importable) is importable
    assert back(Holder.method) is Holder.method


def test_a_module_registered_by_value_is_honoured() -> None:
    """``cloudpickle.register_pickle_by_value`` makes its jitted functions travel by value."""
    import sys

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        copy = back(importable)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert copy is not importable
    assert float(copy(3.0)) == 6.0


def test_the_module_must_exist_on_the_other_side(worker1: Worker) -> None:
    """A function by reference whose module is missing there is an error that names it."""
    data = jaxpickle.dumps(importable)
    code = """
    import jaxpickle
    try:
        jaxpickle.loads(blobs["data"])
    except ModuleNotFoundError as error:
        result = error.name
    """
    assert worker1.run(code, blobs={"data": data}) == importable.__module__.partition(".")[0]


def test_find_class_is_asked_for_a_users_jitted_function() -> None:
    """A jitted function of a module is a name like any other: a subclass may redirect it."""
    asked = []

    class Redirecting(jaxpickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            asked.append((module, name))
            return super().find_class(module, name)

    assert Redirecting(io.BytesIO(jaxpickle.dumps(importable))).load() is importable
    assert (importable.__module__, "importable") in asked


def test_attributes_of_a_jitted_function_survive() -> None:
    """What was set on a jitted function after it was made is set on the loaded one."""
    jitted: Any = jax.jit(lambda x: x)
    jitted.note, jitted.__name__, jitted.__doc__ = {"a": 1}, "renamed", "text"
    loaded = back(jitted)
    assert (loaded.note, loaded.__name__, loaded.__doc__) == ({"a": 1}, "renamed", "text")
    assert float(loaded(2.0)) == 2.0


@pytest.mark.versions
def test_static_numbers_given_as_none_stay_none() -> None:
    """An empty static_argnums beside static_argnames is kept: JAX would infer one else."""

    def f(x: Any, n: Any) -> Any:
        return jnp.asarray(isinstance(n, int))

    jitted = jax.jit(f, static_argnums=(), static_argnames="n")
    assert bool(back(jitted)(1.0, 3)) is bool(jitted(1.0, 3)) is False


def test_static_arguments_survive() -> None:
    """static_argnums and static_argnames still make Python values of their arguments."""

    def f(x: Any, n: int, *, mode: str) -> Any:
        assert isinstance(n, int)
        return x * n if mode == "mul" else x + n

    loaded = back(jax.jit(f, static_argnums=1, static_argnames="mode"))
    assert float(loaded(2.0, 3, mode="mul")) == 6.0
    assert float(loaded(2.0, 3, mode="add")) == 5.0
    assert inspect.signature(loaded) == inspect.signature(f)
    assert loaded.__name__ == "f"


def test_donation_survives() -> None:
    """A donated argument is deleted by the loaded function too."""
    loaded = back(jax.jit(lambda x: x + 1, donate_argnums=0))
    x = jnp.arange(1000.0)
    loaded(x).block_until_ready()
    assert x.is_deleted()


@pytest.mark.versions
def test_shardings_survive() -> None:
    """in_shardings and out_shardings come back, as trees, with None where none was given."""
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    over_x, over_y = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))

    def f(tree: Any, bias: Any) -> Any:
        return {"sum": tree["a"] + bias, "b": tree["b"]}

    jitted = jax.jit(
        f,
        in_shardings=({"a": over_x, "b": None}, None),
        out_shardings={"sum": over_x, "b": over_y},
    )
    tree = {"a": np.ones((8, 4), np.float32), "b": np.ones((8, 4), np.float32)}
    want, got = jitted(tree, 1.0), back(jitted)(tree, 1.0)
    for name in ("sum", "b"):
        assert got[name].sharding == want[name].sharding
        np.testing.assert_array_equal(got[name], want[name])
    assert got["sum"].sharding == over_x


@pytest.mark.versions
def test_layouts_device_and_compiler_options_survive() -> None:
    """A Format among the shardings, and compiler options, come back in the loaded function."""
    device = jax.devices()[2]
    column = Format(Layout((1, 0)), SingleDeviceSharding(device))
    options = {"xla_cpu_enable_fast_math": False}
    jitted = jax.jit(lambda x: x + 1, out_shardings=column, compiler_options=options)
    loaded = back(jitted)
    out = loaded(jnp.ones((2, 3)))
    assert out.format.layout.major_to_minor == (1, 0)
    assert out.devices() == {device}
    assert dict(loaded._jit_info.compiler_options_kvs) == options


@pytest.mark.versions
def test_every_option_of_jit_comes_back() -> None:
    """The record knows all that jax.jit was told: field by field, also those left alone."""
    for options in ({}, {"keep_unused": True}, {"inline": True}, {"donate_argnames": "x"}):
        jitted = jax.jit(lambda x, y: x, **options)  # type: ignore[arg-type]
        ours, theirs = back(jitted)._jit_info, jitted._jit_info  # type: ignore[attr-defined]
        for field in theirs._fields:
            if field not in ("fun_sourceinfo", "fun_signature"):
                assert getattr(ours, field) == getattr(theirs, field), field


def test_an_object_that_jits_its_own_method() -> None:
    """An instance holding ``jax.jit(self.method)``: the loaded one computes with its own array."""
    holder = back(Holder(3.0))
    assert float(holder.fast(jnp.float32(2))) == 6.0
    assert holder.fast.__wrapped__.__self__ is holder


def test_a_jitted_function_that_calls_itself() -> None:
    """Recursion through a closure ends: the loaded function calls the loaded function."""

    def make() -> Any:
        @jax.jit
        def count(x: Any) -> Any:
            return jax.lax.cond(x > 0, lambda v: v - 1, lambda v: v, x) if count else x

        return count

    assert int(back(make())(3)) == 2


def test_a_function_from_main_runs_in_another_process(worker2: Worker, worker8: Worker) -> None:
    """A jitted function defined in a script runs in a process that has not seen the script."""
    written = """
    import jax, jax.numpy as jnp, jaxpickle
    scale = jnp.arange(3.0)
    @jax.jit
    def inner(x):
        return jax.nn.relu(x) * scale
    @jax.jit
    def f(x):
        return inner(x).sum()
    result = jaxpickle.dumps(f)
    """
    read = """
    import jax, jax.numpy as jnp, jaxpickle
    f = jaxpickle.loads(blobs["f"])
    x = jnp.arange(3.0)
    result = float(f(x)), float(jax.grad(f)(x).sum()), float(jax.vmap(f)(jnp.ones((2, 3))).sum())
    """
    data = worker8.run(written)
    assert worker2.run(read, blobs={"f": data}) == (5.0, 3.0, 6.0)


@pytest.mark.versions
def test_custom_derivative_rules_travel_with_their_function(worker1: Worker) -> None:
    """A ``custom_vjp`` and a ``custom_jvp`` of a script keep their rules, also inside jit."""
    code = """
    import jax, jax.numpy as jnp, jaxpickle
    @jax.custom_vjp
    def clip(x):
        return x
    clip.defvjp(lambda x: (x, None), lambda residual, g: (jnp.clip(g, -1, 1),))
    @jax.custom_jvp
    def triple(x):
        return x * x
    triple.defjvp(lambda primals, tangents: (triple(primals[0]), 3.0 * tangents[0]))
    slope = jax.jit(jax.grad(lambda x: clip(x) ** 2))
    result = jaxpickle.dumps((clip, triple, slope))
    """
    clip, triple, slope = jaxpickle.loads(worker1.run(code))
    assert float(slope(5.0)) == 1.0
    assert float(jax.grad(lambda x: clip(x) ** 2)(5.0)) == 1.0
    assert float(jax.grad(triple)(5.0)) == 3.0
    assert float(triple(5.0)) == 25.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: jax.checkpoint(lambda x: jnp.sin(x)), "jax.checkpoint"),
        (lambda: jax.make_jaxpr(jnp.sin)(1.0), "cannot be pickled by this version"),
        (lambda: jax.jit(jnp.sin).lower(1.0), "Lowered cannot be pickled"),
        (lambda: jax.jit(jnp.sin).lower(1.0).compile(), "Compiled cannot be pickled"),
        (lambda: jax.jit(jnp.sin).trace(1.0), "Traced cannot be pickled"),
        (lambda: jax.vjp(jnp.sin, 1.0)[1], "cannot be pickled by this version"),
    ],
)
def test_what_does_not_travel_yet_is_told_as_such(make: Callable[[], Any], words: str) -> None:
    """Programs, and functions that hold them, are refused by name and with a way out."""
    with pytest.raises(jaxpickle.errors.PicklingError, match=words):
        jaxpickle.dumps({"it": make()})
