"""Classes by value that are pytree nodes arrive registered, however they were registered."""

import textwrap

import pytest

import fresh
from fresh import Worker

# Each defines `tree`, an instance of a class of `__main__` that holds two arrays.
NODES = {
    "node_class": """
        @jax.tree_util.register_pytree_node_class
        class Node:
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
            def tree_flatten(self): return (self.x, self.y), self.name
            @classmethod
            def tree_unflatten(cls, name, leaves): return cls(*leaves, name)
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "keys_class": """
        @jax.tree_util.register_pytree_with_keys_class
        class Node:
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
            def tree_flatten_with_keys(self):
                key = jax.tree_util.GetAttrKey
                return ((key("x"), self.x), (key("y"), self.y)), self.name
            @classmethod
            def tree_unflatten(cls, name, leaves): return cls(*leaves, name)
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "keys_class_with_both": """
        @jax.tree_util.register_pytree_with_keys_class
        class Node:
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
            def tree_flatten(self): return (self.x, self.y), self.name
            def tree_flatten_with_keys(self):
                key = jax.tree_util.GetAttrKey
                return ((key("x"), self.x), (key("y"), self.y)), self.name
            @classmethod
            def tree_unflatten(cls, name, leaves): return cls(*leaves, name)
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "dataclass": """
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass
        class Node:
            x: jax.Array
            y: jax.Array
            name: str = dataclasses.field(default="n", metadata={"static": True})
        tree = Node(jnp.ones(2), jnp.zeros(2))
        """,
    "dataclass_with_dropped_fields": """
        @dataclasses.dataclass
        class Node:
            x: jax.Array
            y: jax.Array
            name: str = "n"
            cache: dict = dataclasses.field(default_factory=dict)
        jax.tree_util.register_dataclass(
            Node, data_fields=["x", "y"], meta_fields=["name"], drop_fields=["cache"])
        tree = Node(jnp.ones(2), jnp.zeros(2))
        """,
    "frozen_slotted_dataclass": """
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass(frozen=True, slots=True)
        class Node:
            x: jax.Array
            y: jax.Array
            name: str = dataclasses.field(default="n", metadata={"static": True})
        tree = Node(jnp.ones(2), jnp.zeros(2))
        """,
    "fields_of_no_dataclass": """
        class Node:
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
        jax.tree_util.register_dataclass(Node, data_fields=["x", "y"], meta_fields=["name"])
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "functions": """
        class Node:
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
        jax.tree_util.register_pytree_node(
            Node, lambda n: ((n.x, n.y), n.name), lambda name, leaves: Node(*leaves, name))
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "functions_with_keys": """
        class Node:
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
        key = jax.tree_util.DictKey
        jax.tree_util.register_pytree_with_keys(
            Node,
            lambda n: (((key("x"), n.x), (key("y"), n.y)), n.name),
            lambda name, leaves: Node(*leaves, name))
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "functions_with_keys_and_without": """
        class Node:
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
        key = jax.tree_util.DictKey
        jax.tree_util.register_pytree_with_keys(
            Node,
            lambda n: (((key("x"), n.x), (key("y"), n.y)), n.name),
            lambda name, leaves: Node(*leaves, name),
            lambda n: ((n.x, n.y), n.name))
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "functions_of_a_closure": """
        def make(fields):
            class Node:
                def __init__(self, *values): self.x, self.y = values; self.name = "n"
            def with_keys(node):
                return tuple((key(f), getattr(node, f)) for f in fields), None
            def flatten(node):
                return tuple(getattr(node, f) for f in fields), None
            key = jax.tree_util.GetAttrKey
            jax.tree_util.register_pytree_node(Node, flatten, lambda _, c: Node(*c), with_keys)
            return Node
        Node, Other = make(["x", "y"]), make(["y", "x"])
        tree = Node(jnp.ones(2), jnp.zeros(2))
        """,
    "functions_of_a_partial": """
        class Node:
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
        def flatten(node, *, keys):
            pairs = [(jax.tree_util.GetAttrKey(f), getattr(node, f)) for f in "xy"]
            return (pairs if keys else [leaf for _, leaf in pairs]), node.name
        jax.tree_util.register_pytree_with_keys(
            Node,
            functools.partial(flatten, keys=True),
            lambda name, leaves: Node(*leaves, name),
            functools.partial(flatten, keys=False))
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "subclass_of_a_base_by_value": """
        class Base:
            def tree_flatten(self): return (self.x, self.y), self.name
            @classmethod
            def tree_unflatten(cls, name, leaves): return cls(*leaves, name)
        jax.tree_util.register_pytree_node_class(Base)
        @jax.tree_util.register_pytree_node_class
        class Node(Base):
            def __init__(self, x, y, name): self.x, self.y, self.name = x, y, name
        tree = Node(jnp.ones(2), jnp.zeros(2), "n")
        """,
    "registered_where_it_is_made": """
        class Registered:
            def __init_subclass__(cls): jax.tree_util.register_pytree_node_class(cls)
            def tree_flatten(self): return tuple(vars(self).values()), type(self).name
            @classmethod
            def tree_unflatten(cls, aux, leaves): return cls(*leaves)
        class Node(Registered):
            name = "n"
            def __init__(self, x, y): self.x, self.y = x, y
        tree = Node(jnp.ones(2), jnp.zeros(2))
        """,
    # As flax.struct.PyTreeNode does.
    "dataclass_made_by_its_base": """
        class Tree:
            def __init_subclass__(cls):
                dataclasses.dataclass(frozen=True)(cls)
                jax.tree_util.register_dataclass(cls)
        class Node(Tree):
            x: jax.Array
            y: jax.Array
            name: str = dataclasses.field(default="n", metadata={"static": True})
            def double(self): return super().__repr__() * 2
        tree = Node(jnp.ones(2), jnp.zeros(2))
        """,
    # As equinox.Module does.
    "dataclass_made_by_its_metaclass": """
        class Meta(type):
            def __new__(meta, name, bases, namespace):
                cls = super().__new__(meta, name, bases, namespace)
                own = "__init__" in vars(cls)
                assert not own or isinstance(cls.__init__.__annotations__, dict)
                dataclasses.dataclass(init=not own)(cls)
                jax.tree_util.register_dataclass(
                    cls, [f.name for f in dataclasses.fields(cls) if f.name != "name"],
                    [f.name for f in dataclasses.fields(cls) if f.name == "name"])
                return cls
        class Tree(metaclass=Meta):
            x: jax.Array
        class Node(Tree):
            y: jax.Array
            name: str
            def __init__(self, x, y, name="n"):
                super().__init__(x)
                self.y, self.name = y, name
        tree = Node(jnp.ones(2), jnp.zeros(2))
        """,
}

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
            assert type(back) is Node and treedef == jax.tree.structure(tree) == jax.tree.structure(back)
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
        "import jax, jaxpickle\nassert jax.tree.leaves(jaxpickle.loads(blobs['data'])[0]()) == [1, 2]",
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


def test_a_class_by_reference_stays_itself(worker1: Worker, tmp_path_factory: pytest.TempPathFactory) -> None:
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


FORGED = """
import sys, jaxpickle
from jaxpickle.families import by_value
good = jaxpickle.dumps(lambda: 1)
by_value._HERE = "3.5"
{definition}
result = good, jaxpickle.dumps(obj)
"""

REFUSED = """
import sys, jaxpickle, jaxpickle.unpickler, jaxpickle.families.by_value
made = []
sys.addaudithook(lambda event, args: made.append(args) if event == "code.__new__" else None)
assert jaxpickle.loads(blobs["good"])() == 1 and len(made) == 1, "the hook sees code being built"
made.clear()
def load():
    try:
        jaxpickle.loads(blobs["data"])
    except jaxpickle.errors.VersionError as error:
        return error
error = load()
assert error is not None and made == [], made
result = error.names, error.available, str(error)
"""


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("function", "def function(): return 1\nobj = [function]"),
        ("<lambda>", "obj = {'f': lambda: 1}"),
        ("Made", "class Made:\n    def method(self): return 1\nobj = Made()"),
        ("Made.method", "class Made:\n    def method(self): return 1\nobj = Made().method"),
    ],
)
def test_code_of_another_python_is_refused_before_it_is_built(name: str, definition: str) -> None:
    """A function or class by value from another Python raises before any code object is made."""
    good, data = fresh.run(FORGED.format(definition=definition))
    names, available, text = fresh.run(REFUSED, blobs={"good": good, "data": data})
    assert names == (name, "3.5")
    assert available[0].startswith("3.1")
    assert name in text
    assert "3.5" in text
