"""Classes by value that are pytree nodes arrive registered, however they were registered."""

import textwrap

import pytest

import fresh
from fresh import Worker
from node_classes import NODES

START = """
import dataclasses, functools, jax, jax.numpy as jnp, jaxpickle
"""

# What a tree looks like to JAX; it must be the same where it was made and where it arrived.
LOOK = """
def look(tree):
    leaves, treedef = jax.tree.flatten(tree)
    again = jax.tree.unflatten(treedef, [leaf + 1 for leaf in leaves])
    doubled = jax.jit(lambda t: jax.tree.map(lambda x: 2 * x, t))(tree)
    assert type(again) is type(doubled) is type(tree)
    assert again.name == doubled.name == tree.name
    new = type(tree)(*leaves) if dataclasses.is_dataclass(tree) else tree
    assert jax.tree.structure(new) == treedef
    assert [name for name, value in vars(type(tree)).items()
            if isinstance(value, dataclasses.Field)] == []
    return {
        "paths": [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(tree)],
        "leaves": [leaf.tolist() for leaf in leaves],
        "again": [again.x.tolist(), again.y.tolist()],
        "doubled": [doubled.x.tolist(), doubled.y.tolist()],
        "treedef": str(treedef),
        "name": type(tree).__qualname__,
    }
"""

LOAD = """
loads = jaxpickle.loads
tree, treedef = loads(blobs["data"])
assert jax.tree.structure(tree) == treedef
assert type(tree).__module__ == "__main__"
result = look(tree)

tree2, treedef2 = loads(blobs["data"])
assert type(tree2) is type(tree), "loaded twice, it is one class"
assert look(tree2) == result and treedef2 == treedef
"""


def script(*parts: str) -> str:
    return "\n".join(textwrap.dedent(part) for part in parts)


@pytest.mark.versions
@pytest.mark.parametrize("node", NODES)
def test_a_class_by_value_arrives_registered(node: str, worker1: Worker, worker2: Worker) -> None:
    """An instance, and its treedef, work with JAX's tree functions and jit where they arrive.

    Loaded twice, and where they came from, nothing is registered a second time.
    """
    data, there = worker2.run(
        script(
            START,
            NODES[node],
            LOOK,
            """
            data = jaxpickle.dumps((tree, jax.tree.structure(tree)))
            back, treedef = jaxpickle.loads(data)
            assert type(back) is Node
            assert treedef == jax.tree.structure(tree) == jax.tree.structure(back)
            result = data, look(tree)
            """,
        )
    )
    here = worker1.run(script(START, LOOK, LOAD), blobs={"data": data})
    assert here == there


@pytest.mark.versions
def test_a_static_class_by_value_arrives_registered(worker1: Worker, worker2: Worker) -> None:
    """An instance of a class that `register_static` made a node without leaves stays one."""
    data = worker2.run(
        START
        + """
@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Options:
    depth: int = 3

result = jaxpickle.dumps({"o": Options(), "t": jax.tree.structure(Options(4))})
"""
    )
    worker1.run(
        START
        + """
for _ in range(2):
    d = jaxpickle.loads(blobs["data"])
    options = d["o"]
    assert jax.tree.leaves(options) == []
    assert jax.tree.structure(type(options)(4)) == d["t"]
    assert jax.jit(lambda o, x: x * o.depth)(options, 2) == 6
""",
        blobs={"data": data},
    )


def test_a_bare_class_arrives_registered(worker1: Worker, worker2: Worker) -> None:
    """The class alone, or a function that makes instances of it, brings the registration."""
    data = worker2.run(
        script(START, NODES["node_class"], "result = jaxpickle.dumps([lambda: Node(1, 2, 'n')])")
    )
    worker1.run(
        """
        import jax, jaxpickle
        make = jaxpickle.loads(blobs["data"])[0]
        assert jax.tree.leaves(make()) == [1, 2]
        """,
        blobs={"data": data},
    )


def test_plain_pickle_registers_too(worker1: Worker, worker2: Worker) -> None:
    """A stream of ours that plain `pickle.loads` reads registers the class as well."""
    data = worker2.run(script(START, NODES["dataclass"], "result = jaxpickle.dumps(tree)"))
    worker1.run(
        """
        import pickle
        node = pickle.loads(blobs["data"])
        import jax
        assert len(jax.tree.leaves(node)) == 2
        """,
        blobs={"data": data},
    )


def test_a_class_that_is_no_node_stays_a_leaf(worker1: Worker, worker2: Worker) -> None:
    """A class by value that JAX does not know is not made known."""
    data = worker2.run(
        script(START, "class Leaf: pass", "jax.devices()", "result = jaxpickle.dumps(Leaf())")
    )
    worker1.run(
        """
        import jax, jaxpickle
        leaf = jaxpickle.loads(blobs["data"])
        assert jax.tree.leaves(leaf) == [leaf]
        """,
        blobs={"data": data},
    )


def test_a_class_by_value_without_jax() -> None:
    """Pickling and loading a class that has nothing to do with JAX does not import JAX."""
    data = fresh.run(
        """
        import sys, jaxpickle
        class Plain:
            def double(self): return 2 * self.x
        plain = Plain(); plain.x = 4
        result = jaxpickle.dumps(plain)
        assert "jax" not in sys.modules
        """
    )
    fresh.run(
        """
        import sys, jaxpickle
        assert jaxpickle.loads(blobs["data"]).double() == 8
        assert "jax" not in sys.modules
        """,
        blobs={"data": data},
    )


def test_a_class_by_reference_stays_itself(
    worker1: Worker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A node class of an importable module is named, not copied: its module registers it."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "nodes_by_reference.py").write_text(
        script(START, NODES["node_class"].replace("tree = Node", "def make(): return Node"))
    )
    worker1.run(
        """
        import sys
        sys.path.insert(0, blobs["folder"])
        import jax, jaxpickle, nodes_by_reference as module
        data = jaxpickle.dumps(module.make())
        assert b"tree_flatten" not in data
        assert type(jaxpickle.loads(data)) is module.Node
        sys.path.remove(blobs["folder"])
        """,
        blobs={"folder": str(folder)},
    )
