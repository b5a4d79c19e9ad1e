"""PyTreeDefs and key paths come back equal; damaged ones never hurt the interpreter."""

import collections
import dataclasses
import functools
import pickle
import sys
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax._src import tree_util as private
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, Partial, PyTreeDef, SequenceKey

import jaxpickle
from fresh import Worker

PRIVATE = (b"jax._src", b"jaxlib.")
PROTOCOLS = (2, 3, 4, 5)


class Point(NamedTuple):
    x: Any
    y: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    act: Any = dataclasses.field(default=None, metadata={"static": True})


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Options:
    depth: int


@jax.tree_util.register_pytree_node_class
class Box:
    def __init__(self, content: Any, label: Any = None) -> None:
        self.content, self.label = content, label

    def tree_flatten(self) -> Any:
        return (self.content,), self.label

    @classmethod
    def tree_unflatten(cls, label: Any, content: Any) -> "Box":
        return cls(*content, label)


@jax.tree_util.register_pytree_node_class
class Pair(NamedTuple):
    """A namedtuple that is a node of its own kind."""

    left: Any
    right: Any

    def tree_flatten(self) -> Any:
        return (self.right,), self.left

    @classmethod
    def tree_unflatten(cls, left: Any, right: Any) -> "Pair":
        return cls(left, *right)


def function(x: Any, y: Any = 1, *, z: Any = 0) -> Any:
    return x + y + z


TREES = {
    "leaf": 1,
    "none": None,
    "empty": [(), [], {}],
    "nested": {"b": 1, "a": (1, None, [2, {"k": 3}])},
    "int_keys": {3: 1, 1: 2},
    "tuple_keys": {("a", 1): 1, ("a", 2): [2]},
    "namedtuple": Point(1, [Point(2, None)]),
    "ordered": collections.OrderedDict(b=1, a=(2, 3)),
    "default": collections.defaultdict(list, b=1, a=2),
    "dataclass": Layer([1, 2], jax.nn.relu),
    "static_function_of_jax": Layer(1, jnp.tanh),
    "static_function_of_a_module": Layer(1, function),
    "static": [Options(2), 1, Options(3)],
    "custom": Box({"a": 1, "b": Box(2, ("aux", 3))}, "label"),
    "custom_namedtuple": Pair("aux", {"a": 1}),
    "partial": Partial(function, 1, z=2),
    "treedef_in_aux": Box(1, jax.tree.structure({"a": [1, 2]})),
}


def structure(treedef: PyTreeDef) -> Any:
    return treedef.unflatten(range(treedef.num_leaves))


@pytest.mark.versions
@pytest.mark.parametrize("name", TREES)
def test_a_treedef_is_equal(name: str) -> None:
    """By every protocol and loader a treedef is equal, hashes alike and unflattens alike."""
    treedef = jax.tree.structure(TREES[name])
    for protocol in PROTOCOLS:
        data = jaxpickle.dumps(treedef, protocol)
        assert not any(private in data for private in PRIVATE)
        for load in (jaxpickle.loads, pickle.loads):
            back = load(data)
            assert back == treedef
            assert hash(back) == hash(treedef)
            assert str(back) == str(treedef)
            assert jax.tree.structure(structure(back)) == treedef
            assert type(structure(back)) is type(structure(treedef))


@pytest.mark.versions
def test_treedefs_arrive_in_another_process(worker1: Worker) -> None:
    """A treedef of containers loads where nothing was imported, and flattens equal trees."""
    tree = {"a": (1, None, [2]), "o": collections.OrderedDict(z=1, y=2)}
    worker1.run(
        """
        import jaxpickle
        treedef = jaxpickle.loads(blobs["data"])
        import jax
        assert treedef == jax.tree.structure(blobs["tree"])
        assert treedef.unflatten([1, 2, 1, 2]) == blobs["tree"]
        """,
        blobs={"data": jaxpickle.dumps(jax.tree.structure(tree)), "tree": tree},
    )


trees = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.builds(Point, inner, inner)
        | st.builds(Box, inner, st.text(max_size=3))
        | st.builds(Layer, inner, st.text(max_size=3))
    ),
    max_leaves=30,
)


@given(trees)
def test_any_treedef_is_equal(tree: Any) -> None:
    """Trees of any nesting of nodes come back equal; the same nodes give the same stream."""
    treedef = jax.tree.structure(tree)
    data = jaxpickle.dumps(treedef)
    assert jaxpickle.loads(data) == treedef
    assert jaxpickle.dumps(jax.tree.structure(structure(treedef))) == data


@pytest.mark.versions
@pytest.mark.parametrize(
    "registry", ["none_leaf_registry", "dispatch_registry", "tracing_registry"]
)
def test_the_registry_is_kept(registry: str) -> None:
    """JAX flattens by registries of its own too (`Lowered.in_tree`); a treedef keeps its own."""
    own = getattr(private, registry)
    treedef = own.flatten([None, (1, Box(2))])[1]
    back = jaxpickle.loads(jaxpickle.dumps(treedef))
    assert back == treedef
    assert back.__getstate__()[0] is own


def test_a_deep_treedef_needs_no_recursion() -> None:
    """A tree of 5000 levels pickles under Python's usual recursion limit."""
    leaf = jax.tree.structure(0)
    treedef = leaf
    for level in range(5000):
        node = (list, None) if level % 2 else (dict, ["a"])
        treedef = PyTreeDef.from_node_data_and_children(private.default_registry, node, [treedef])
    assert sys.getrecursionlimit() < 5000
    assert jaxpickle.loads(jaxpickle.dumps(treedef)) == treedef


def test_a_wide_treedef_is_small_and_fast() -> None:
    """A leaf costs a few bytes, and a hundred thousand of them a fraction of a second each way."""
    treedef = jax.tree.structure(list(range(100_000)))
    start = time.perf_counter()
    data = jaxpickle.dumps(treedef)
    assert jaxpickle.loads(data) == treedef
    assert time.perf_counter() - start < 10
    assert len(data) < 400_000


def test_aux_data_is_shared_with_the_graph() -> None:
    """What a treedef refers to is stored once, however large, and is one object on arrival."""
    big = tuple(range(10_000))
    treedef = jax.tree.structure([Box(1, big), Box(2, big)])
    alone = len(jaxpickle.dumps(big))
    data = jaxpickle.dumps([treedef, big])
    assert len(data) < alone + 1000
    back, again = jaxpickle.loads(data)
    assert structure(back)[0].label is structure(back)[1].label is again


def test_a_class_that_is_not_registered_is_named(worker1: Worker, worker2: Worker) -> None:
    """Where nobody registered the class, the error names it and says what to import."""
    data = worker2.run(
        """
        import types, jax, jaxpickle
        jax.tree_util.register_pytree_node(
            types.SimpleNamespace, lambda n: ((n.x,), None), lambda _, c: n(*c))
        result = jaxpickle.dumps(jax.tree.structure([types.SimpleNamespace(x=1)]))
        """
    )
    names, text = worker1.run(
        """
        import jaxpickle
        try:
            jaxpickle.loads(blobs["data"])
        except jaxpickle.errors.UnpicklingError as error:
            result = error.names, str(error)
        """,
        blobs={"data": data},
    )
    assert names == ("types.SimpleNamespace",)
    assert "types.SimpleNamespace" in text
    assert "Import the module that registers it" in text


@pytest.mark.versions
@pytest.mark.parametrize(
    "key",
    [DictKey("a"), DictKey(("a", 1)), GetAttrKey("w"), SequenceKey(3), FlattenedIndexKey(4)],
    ids=str,
)
def test_a_key_path_entry_is_equal(key: Any) -> None:
    """The entries of key paths keep their class and value, by their public names."""
    for protocol in PROTOCOLS:
        data = jaxpickle.dumps(key, protocol)
        assert not any(private in data for private in PRIVATE)
        back = jaxpickle.loads(data)
        assert back == key
        assert type(back) is type(key)
        assert hash(back) == hash(key)


def test_a_key_path_is_equal() -> None:
    """Whole key paths, as `tree_flatten_with_path` gives them, come back equal."""
    paths = jax.tree_util.tree_flatten_with_path({"a": [1, Point(2, 3)], "b": Layer(1)})
    back = jaxpickle.loads(jaxpickle.dumps(paths))
    assert back == paths


@pytest.mark.versions
def test_a_partial_works(worker1: Worker) -> None:
    """`tree_util.Partial` keeps its function, its arguments, and that it is a pytree."""
    partial = Partial(functools.reduce, function, start := [1, 2])
    back = jaxpickle.loads(jaxpickle.dumps(partial))
    assert type(back) is Partial
    assert back() == partial() == 1 + 2
    assert back.args == (function, start)
    other = Partial(jnp.add, jnp.ones(2))
    data = jaxpickle.dumps(other)
    assert jax.tree.structure(jaxpickle.loads(data)) == jax.tree.structure(other)
    worker1.run(
        """
        import jaxpickle
        partial = jaxpickle.loads(blobs["data"])
        import jax, jax.numpy as jnp
        assert jax.jit(lambda f, x: f(x))(partial, 2.0).tolist() == [3.0, 3.0]
        assert partial.func is jnp.add
        """,
        blobs={"data": data},
    )
