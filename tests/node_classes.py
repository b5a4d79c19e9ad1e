"""Every way in which a class of a script or notebook becomes a pytree node."""

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
