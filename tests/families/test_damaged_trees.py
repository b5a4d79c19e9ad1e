"""A damaged treedef is refused: JAX itself checks none, and would read beyond its nodes."""

import dataclasses
import random
from typing import Any, NamedTuple

import jax
import pytest

import jaxpickle
from jaxpickle.errors import CorruptError, UnpicklingError
from jaxpickle.records import build


class Point(NamedTuple):
    x: Any
    y: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    act: Any = dataclasses.field(default=None, metadata={"static": True})


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


def structure(treedef: Any) -> Any:
    return treedef.unflatten(range(treedef.num_leaves))


DAMAGED = [
    ("default", []),
    ("default", [("leaf",), ("leaf",)]),
    ("default", [("tuple", 1)]),
    ("default", [("tuple", 3), ("leaf",), ("leaf",)]),
    ("default", [("list", -1), ("leaf",)]),
    ("default", [("list", 2**70), ("leaf",)]),
    ("default", [("list", "1"), ("leaf",)]),
    ("default", [("dict", ["a", "b"]), ("leaf",)]),
    ("default", [("dict", None), ("leaf",)]),
    ("default", [("none", 1), ("leaf",)]),
    ("default", [("none",), ("leaf",)]),
    ("default", [("node", "Box", 1, None), ("leaf",)]),
    ("default", [("node", Box), ("leaf",)]),
    ("default", [("namedtuple", Point, 2), ("leaf",)]),
    ("default", [("leaf", 3)]),
    ("default", [None]),
    ("default", ["leaf"]),
    ("nothing", [("leaf",)]),
    (["default"], [("leaf",)]),
    ("default", 7),
]


@pytest.mark.parametrize("fields", DAMAGED, ids=str)
def test_a_damaged_treedef_is_refused(fields: Any) -> None:
    """Counts, kinds and forms that do not fit raise CorruptError: JAX itself checks none."""
    with pytest.raises(CorruptError, match="treedef/1"):
        build("treedef/1", *fields)


@pytest.mark.parametrize(
    "node",
    [("namedtuple", Point, 1), ("namedtuple", dict, 1), ("namedtuple", tuple, 1),
     ("namedtuple", Pair, 1), ("namedtuple", Box, 1), ("node", int, 1, None)],
    ids=str,
)  # fmt: skip
def test_a_class_that_is_another_here_is_refused(node: Any) -> None:
    """A class that is no node of that kind in this process is named, not called."""
    with pytest.raises(UnpicklingError) as caught:
        build("treedef/1", "default", [node, ("leaf",)])
    assert caught.value.names[0].endswith(node[1].__name__)


def test_random_damage_never_hurts_the_interpreter() -> None:
    """Records put together at random build a working treedef or raise an error of ours."""
    chance = random.Random(0)
    kinds = [
        ("leaf",), ("none",), ("tuple", 2), ("list", 1), ("dict", ["a", "b"]), ("tuple", 0),
        ("node", Box, 1, None), ("node", Layer, 1, (None,)), ("namedtuple", Point, 2),
    ]  # fmt: skip
    built = 0
    for _ in range(3000):
        nodes = [chance.choice(kinds) for _ in range(chance.randrange(1, 8))]
        try:
            treedef = build("treedef/1", "default", nodes)
        except CorruptError:
            continue
        built += 1
        assert jax.tree.structure(structure(treedef)) == treedef
        assert jaxpickle.loads(jaxpickle.dumps(treedef)) == treedef
    assert built > 100
