"""Errors say where: the path in the object, the type, and the remedy."""

import collections
import dataclasses
import functools
import io
import pickle
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpickle
from jaxpickle.errors import PicklingError

LOCK = threading.Lock()
Pair = collections.namedtuple("Pair", ["left", "right"])


class Layer:
    def __init__(self, cache: Any) -> None:
        self.w = jnp.ones(3)
        self.cache = cache


class Model:
    def __init__(self, cache: Any) -> None:
        self.layers = [Layer(None), Layer(None), Layer(None), Layer(cache)]


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, right: Any) -> None:
        self.left = 1
        self.right = right


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: Any


class UserList(list[Any]):
    pass


class UserDict(dict[str, Any]):
    pass


class TextState:
    def __init__(self, state: Any) -> None:
        self.state = state

    def __getstate__(self) -> Any:
        return self.state


class OwnState:
    def __getstate__(self) -> Any:
        raise ZeroDivisionError("mine")


def deleted() -> jax.Array:
    x = jnp.ones(3)
    x.delete()
    return x


def closure(captured: Any) -> Callable[[], Any]:
    return lambda: captured


def local_class(attribute: Any) -> type:
    class Local:
        shared = attribute

    return Local


CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: LOCK, "$"),
    (lambda: Model(LOCK), "$.layers[3].cache"),
    (lambda: {"a": [Slotted(LOCK)]}, "$['a'][0].right"),
    (lambda: [Frozen(LOCK)], "$[0].value"),
    (lambda: Pair(1, LOCK), "$.right"),
    (lambda: (1, {"k": (2, LOCK)}), "$[1]['k'][1]"),
    (lambda: {2: {(1, "b"): LOCK}}, "$[2][(1, 'b')]"),
    (lambda: UserList([1, LOCK]), "$[1]"),
    (lambda: UserDict(a=LOCK), "$['a']"),
    (lambda: collections.deque([1, LOCK]), "$[1]"),
    (lambda: collections.OrderedDict(a=LOCK), "$['a']"),
    (lambda: collections.defaultdict(list, a=LOCK), "$['a']"),
    (lambda: functools.partial(max, LOCK), "$.args[0]"),
    (lambda: jax.tree_util.Partial(max, key=LOCK), "$.keywords['key']"),
    (lambda: closure(LOCK), "$.__closure__[0].cell_contents"),
    (lambda: jax.jit(closure(LOCK)), "$.__wrapped__.__closure__[0].cell_contents"),
    (lambda: [local_class(LOCK)], "$[0].shared"),
    (lambda: {"it": local_class(LOCK)()}, "$['it'].__class__.shared"),
    (lambda: Model(LOCK).layers[3].__init__, "$.__self__.cache"),  # type: ignore[misc]
    (lambda: {"s": {1, LOCK}}, "$['s']{...}"),
    (lambda: [{(1, LOCK): 2}], "$[0].keys()[1]"),
    (lambda: [TextState(("a/b", (1, LOCK)))], "$[0].__getstate__()[1][1]"),
    (lambda: np.array([1, {"k": LOCK}], dtype=object), "$[1]['k']"),
]


@pytest.mark.parametrize(("make", "path"), CASES, ids=[path for _, path in CASES])
def test_the_path_leads_to_the_culprit(make: Callable[[], Any], path: str) -> None:
    """A lock anywhere in a graph is reported by the way to it, its type and what to do."""
    with pytest.raises(PicklingError) as caught:
        jaxpickle.dumps(make())
    assert caught.value.path == path
    assert caught.value.type_name == "_thread.lock"
    assert f"cannot pickle {path}, a _thread.lock" in str(caught.value)
    captured = "closure" in path
    assert ("make it inside" if captured else "__getstate__") in str(caught.value)


@pytest.mark.parametrize(
    ("culprit", "type_name", "remedy"),
    [
        (lambda: (i for i in ()), "generator", "turn it into a list"),
        (deleted, "jax.Array", "before it is donated"),
        (lambda: memoryview(bytearray(4))[::2].__iter__(), "memory_iterator", "copyreg.pickle"),
    ],
)
def test_each_kind_has_its_remedy(culprit: Callable[[], Any], type_name: str, remedy: str) -> None:
    """What cannot be pickled is named by its type, and the text says what mends it."""
    with pytest.raises(PicklingError, match=remedy) as caught:
        jaxpickle.dumps(Model(culprit()))
    assert caught.value.path == "$.layers[3].cache"
    assert caught.value.type_name == type_name
    assert isinstance(caught.value, pickle.PicklingError)


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap])
def test_a_tracer_is_told_as_such(transform: Callable[[Any], Any]) -> None:
    """A tracer deep in an object, in any transformation, is found and explained."""
    caught = []

    def f(x: jax.Array) -> jax.Array:
        with pytest.raises(PicklingError, match="tracer") as info:
            jaxpickle.dumps({"layers": [{"h": x}]})
        caught.append(info.value)
        return x.sum()

    transform(f)(jnp.ones(3) if transform is not jax.grad else 1.0)
    assert caught[0].path == "$['layers'][0]['h']"


def test_the_users_own_exceptions_stay_theirs() -> None:
    """What ``__getstate__`` raises comes out as it is, with a note that says where."""
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        jaxpickle.dumps(Model(OwnState()))
    assert any("$.layers[3].cache" in note for note in caught.value.__notes__)


def test_a_full_disk_is_no_pickling_error() -> None:
    """An error of the file comes out as it is: nothing in the graph is at fault."""

    class Full(io.RawIOBase):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        jaxpickle.dump([1, 2], Full())


def test_an_error_of_the_buffer_callback_comes_out_as_it_is() -> None:
    """A TypeError of the user's callback is not blamed on the object."""

    def callback(buffer: pickle.PickleBuffer) -> None:
        raise TypeError("my callback")

    with pytest.raises(TypeError, match="my callback"):
        jaxpickle.dumps(jnp.ones(5000), buffer_callback=callback)


def test_too_deep_a_graph_is_told_with_the_limit() -> None:
    """A graph deeper than the recursion limit gives a clear error, not a crash."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(PicklingError, match=r"sys\.setrecursionlimit"):
        jaxpickle.dumps(deep)


def test_success_searches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search runs after a failure only."""
    from jaxpickle import object_path

    def refuse(*_: Any) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr(object_path, "find_fault", refuse)
    jaxpickle.dumps(Model(jnp.ones(3)))


def test_a_failed_dump_writes_nothing_small() -> None:
    """A dump that fails before its first frame leaves the file as it was."""
    file = io.BytesIO()
    with pytest.raises(PicklingError):
        jaxpickle.dump([1, LOCK], file)
    assert file.getvalue() == b""
