"""JAX's exceptions load as they were, same class, text and arguments, and can be raised."""

import functools
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import fresh
import jaxpickle
from fresh import Worker
from jaxpickle._jax import exceptions
from jaxpickle.records import build

PRIVATE = (b"jax._src", b"jaxlib.")
PROTOCOLS = (2, 3, 4, 5)


def caught(function: Callable[..., Any], *args: Any) -> Exception:
    """Returns what `function` raises."""
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


def leak() -> None:
    kept = []
    jax.jit(lambda x: kept.append(x) or x)(1.0)
    kept[0] + 1


def reuse_a_key() -> None:
    with jax.debug_key_reuse(True):
        key = jax.random.key(0)
        jax.random.bits(key)
        jax.random.bits(key)


def fail_at_run_time() -> None:
    shape = jax.ShapeDtypeStruct((), "float32")
    jax.block_until_ready(jax.pure_callback(lambda x: [][0], shape, 1.0))


def check() -> None:
    def checked(x: Any) -> Any:
        checkify.check(x > 0, "x is {x}", x=x)
        return x

    error, _ = checkify.checkify(jax.jit(checked))(-1.0)
    error.throw()


def disagree_on_shardings() -> None:
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        jax.jit(jnp.add)(
            jax.device_put(jnp.ones((4, 4)), P("x", None)),
            jax.device_put(jnp.ones((4, 4)), P("y", None)),
        )


RAISED = {
    "TracerBoolConversionError": lambda: jax.jit(lambda x: 1 if x > 0 else 0)(1.0),
    "TracerArrayConversionError": lambda: jax.jit(np.asarray)(1.0),
    "TracerIntegerConversionError": lambda: jax.jit(lambda x: [1, 2][x])(1),
    "ConcretizationTypeError": lambda: jax.jit(float)(1.0),
    "NonConcreteBooleanIndexError": lambda: jax.jit(lambda x: x[x > 0])(jnp.ones(3)),
    "UnexpectedTracerError": leak,
    "JaxRuntimeError": fail_at_run_time,
    "KeyReuseError": reuse_a_key,
    "ShardingTypeError": disagree_on_shardings,
    "TypePromotionError": lambda: jnp.promote_types("int4", "float8_e4m3fn"),
    "checkify": check,
}


def assert_same(back: BaseException, error: BaseException) -> None:
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    assert getattr(back, "__notes__", None) == getattr(error, "__notes__", None)
    with pytest.raises(type(error)) as raised:
        raise back
    assert raised.value is back


@pytest.mark.versions
@pytest.mark.parametrize("name", RAISED)
def test_an_error_that_jax_raised_loads(name: str) -> None:
    """Errors that JAX itself raises load by any protocol and loader, and name nothing private."""
    error = caught(RAISED[name])
    assert type(error).__name__ == ("JaxRuntimeError" if name == "checkify" else name)
    for protocol in PROTOCOLS:
        data = jaxpickle.dumps(error, protocol)
        assert b"jaxlib" not in data.replace(b"jaxlib==", b"")
        assert_same(jaxpickle.loads(data), error)
        assert_same(pickle.loads(data), error)


@pytest.mark.versions
@pytest.mark.parametrize(
    "name", sorted(n for n in dir(jax.errors) if isinstance(getattr(jax.errors, n), type))
)
def test_every_public_error_class_loads(name: str) -> None:
    """Each class in `jax.errors` travels by a public name or a name of ours."""
    cls = getattr(jax.errors, name)
    make = cls if cls is jax.errors.JaxRuntimeError else functools.partial(cls.__new__, cls)
    error = make("the text")
    data = jaxpickle.dumps(error)
    assert not any(private in data for private in PRIVATE)
    assert_same(jaxpickle.loads(data), error)


@pytest.mark.versions
def test_classes_without_a_public_name_travel_by_a_name_of_ours() -> None:
    """Each of our own names leads to one class of this JAX, or to none; it is never another's."""
    found = {name: exceptions.exception_class(name) for name in exceptions._NAMES}
    assert found["core.ShardingTypeError"] is not None
    for name, cls in found.items():
        if cls is None:
            continue
        assert exceptions.exception_name(cls) == name
        error = cls.__new__(cls)
        data = jaxpickle.dumps(error)
        assert not any(private in data for private in PRIVATE)
        assert type(jaxpickle.loads(data)) is cls


def test_errors_arrive_in_another_process(worker1: Worker) -> None:
    """An error raised here can be raised there, where nothing was traced."""
    error = caught(RAISED["TracerBoolConversionError"])
    text = worker1.run(
        """
        import jaxpickle
        error = jaxpickle.loads(blobs["data"])
        import jax
        try:
            raise error
        except jax.errors.ConcretizationTypeError as again:
            assert again is error and type(error) is jax.errors.TracerBoolConversionError
            result = str(error)
        """,
        blobs={"data": jaxpickle.dumps(error)},
    )
    assert text == str(error)


class FromTracer(jax.errors.TracerBoolConversionError):
    """A user's error with attributes, which wants a tracer when it is made."""

    def __new__(cls, tracer: Any, **_: Any) -> "FromTracer":
        return super().__new__(cls, tracer)

    def __init__(self, tracer: Any, **attributes: Any) -> None:
        super().__init__(tracer)
        self.tracer = tracer
        self.frame = sys._getframe()
        self.__dict__.update(attributes)


def from_tracer(**attributes: Any) -> FromTracer:
    made: list[FromTracer] = []
    jax.jit(lambda x: made.append(FromTracer(x, **attributes)) or x)(1.0)
    return made[0]


def test_a_users_subclass_loads_without_its_tracer() -> None:
    """Attributes come along, but for tracers and frames, which belong to the run that failed."""
    error = from_tracer(step=3, batch=np.arange(3))
    back = jaxpickle.loads(jaxpickle.dumps(error))
    assert_same(back, error)
    assert back.step == 3
    assert back.batch.tolist() == [0, 1, 2]
    assert not hasattr(back, "tracer")
    assert not hasattr(back, "frame")


def test_a_tracer_among_the_arguments_becomes_its_text() -> None:
    """An error whose arguments hold a tracer keeps what it says."""
    errors: list[Exception] = []

    def function(x: Any) -> Any:
        error = jax.errors.ConcretizationTypeError(x)
        error.args = ("value", x)
        errors.append(error)
        return x

    jax.jit(function)(1.0)
    back = jaxpickle.loads(jaxpickle.dumps(errors[0]))
    assert back.args == ("value", str(errors[0].args[1]))


def test_an_attribute_that_cannot_be_pickled_is_named() -> None:
    """What is no tracer is not dropped silently: the error says where it stands."""
    with pytest.raises(jaxpickle.errors.PicklingError, match="lock"):
        jaxpickle.dumps([from_tracer(lock=threading.Lock())])


class OwnReduce(jax.errors.JAXTypeError):
    """A user's error that says itself how it pickles."""

    def __init__(self, number: int) -> None:
        super().__init__(f"number {number}")
        self.number = number

    def __reduce__(self) -> Any:
        return type(self), (self.number + 1,)


class OwnState(jax.errors.JAXTypeError):
    """A user's error that sets its own state."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.seen = sorted(state)


def test_a_users_own_protocol_goes_first() -> None:
    """`__reduce__` and `__setstate__` of a subclass are its own affair."""
    assert jaxpickle.loads(jaxpickle.dumps(OwnReduce(1))).number == 2
    error = OwnState("m")
    error.attribute = 1
    assert jaxpickle.loads(jaxpickle.dumps(error)).seen == ["attribute"]


def test_notes_and_cycles() -> None:
    """Notes come along, and an error may hold itself."""
    error = jax.errors.UnexpectedTracerError("m")
    error.add_note("while loading step 3")
    error.own = [error]
    back = jaxpickle.loads(jaxpickle.dumps(error))
    assert back.__notes__ == ["while loading step 3"]
    assert back.own[0] is back


def test_errors_in_a_group() -> None:
    """An ExceptionGroup of JAX's errors loads."""
    errors = [caught(RAISED["ConcretizationTypeError"]), ValueError("v")]
    group = jaxpickle.loads(jaxpickle.dumps(ExceptionGroup("g", errors)))
    assert_same(group.exceptions[0], errors[0])


def test_a_subclass_by_value_loads_elsewhere() -> None:
    """A subclass defined in `__main__` travels with its error."""
    data = fresh.run(
        """
        import jax, jaxpickle
        class Mine(jax.errors.KeyReuseError):
            def twice(self): return str(self) * 2
        error = Mine("key")
        error.step = 3
        result = jaxpickle.dumps(error)
        """
    )
    fresh.run(
        """
        import jaxpickle
        error = jaxpickle.loads(blobs["data"])
        assert error.step == 3 and "key" in error.twice()
        import jax
        assert isinstance(error, jax.errors.KeyReuseError)
        """,
        blobs={"data": data},
    )


def test_damage_is_reported() -> None:
    """A record that describes no exception, or one that this JAX lacks, says so."""
    for cls, args in [(int, ()), (ValueError, "text"), (None, ())]:
        with pytest.raises(jaxpickle.errors.CorruptError, match="exception/1"):
            build("exception/1", cls, args)
    with pytest.raises(jaxpickle.errors.UnpicklingError, match=r"core\.NoSuchError") as error:
        build("exception/1", "core.NoSuchError", ())
    assert error.value.names == ("core.NoSuchError",)
    with pytest.raises(jaxpickle.errors.UnpicklingError, match=r"os\.system"):
        build("exception/1", "os.system", ())
