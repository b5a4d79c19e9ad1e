"""Pytree internals: the registry of node classes, and treedefs node by node."""

from __future__ import annotations

import dataclasses
import operator
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import jax
from jax._src import tree_util

from jaxpickle._jax.keyed_flatten import keyed_flatten
from jaxpickle.errors import PicklingError

__all__ = [
    "REGISTRIES",
    "is_registered",
    "make_treedef",
    "register_dataclass",
    "registration",
    "registry_name",
]

Treedef = Any

REGISTRIES: dict[str, Any] = {
    "default": tree_util.default_registry,
    "none_leaf": tree_util.none_leaf_registry,
    "dispatch": tree_util.dispatch_registry,
    "tracing": tree_util.tracing_registry,
}
"""What JAX takes for nodes, by the names that streams give it; users meet the default one."""


def is_registered(cls: type) -> bool:
    """Say whether ``cls`` has been registered as a pytree node in this process."""
    return cls in tree_util._registry


def registration(cls: type) -> tuple[Any, ...] | None:
    """Return how ``cls`` was registered, as data that can be registered again, or None."""
    entry = tree_util._registry.get(cls)
    if entry is None:
        return None
    flatten, unflatten = entry.to_iter, entry.from_iter
    if _maker(flatten) == "register_dataclass":
        cells = _cells(flatten)
        return "dataclass", cells["data_fields"], cells["meta_fields"]
    if _maker(unflatten) == "register_static":
        return ("static",)
    if _maker(flatten) == "register_pytree_with_keys":
        with_keys = _cells(flatten)["flatten_with_keys"]
    else:
        with_keys = keyed_flatten(cls, flatten)
    if _is_class_protocol(cls, flatten, unflatten, with_keys):
        return "methods", with_keys is not None
    return "functions", flatten, unflatten, with_keys


def register_dataclass(cls: type, data: Iterable[str], meta: Iterable[str]) -> None:
    """Register a class by its fields, as ``jax.tree_util.register_dataclass`` did."""
    data, meta = tuple(data), tuple(meta)
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    dropped = tuple(sorted({f.name for f in fields if f.init} - {*data, *meta}))
    jax.tree_util.register_dataclass(cls, data, meta, drop_fields=dropped)


def registry_name(treedef: Treedef) -> str:
    """Return the name of the registry by which a tree was flattened.

    Raises:
        PicklingError: the registry is not one of JAX's.
    """
    own = treedef.__getstate__()[0]
    for name, registry in REGISTRIES.items():
        if registry is own:
            return name
    raise PicklingError(
        "this PyTreeDef was made by a PyTreeRegistry of its own; make it by jax.tree.structure"
    )


def make_treedef(registry: str, node: tuple[type, Any] | None, children: list[Treedef]) -> Treedef:
    """Return the treedef of one node over ``children``; ``None`` is a leaf.

    JAX checks nothing of it: the class must be registered here and have so many children.
    """
    if node is not None and _is_registered_namedtuple(node[0]):
        return _make_custom(registry, *node, children)
    make = jax.tree_util.PyTreeDef.from_node_data_and_children  # type: ignore[attr-defined]
    return make(REGISTRIES[registry], node, children)


def _is_registered_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and cls is not tuple and is_registered(cls)


def _make_custom(registry: str, cls: type, aux: Any, children: list[Treedef]) -> Treedef:
    """Return a node of a namedtuple with a registration, which JAX makes by unpickling alone."""
    kind = tree_util.tree_structure(OrderedDict()).__getstate__()[1][0][0]  # type: ignore[attr-defined]
    nodes = [node for child in children for node in child.__getstate__()[1]]
    leaves = sum(child.num_leaves for child in children)
    nodes.append((kind, len(children), aux, cls, leaves, len(nodes) + 1))
    treedef = jax.tree_util.PyTreeDef.__new__(jax.tree_util.PyTreeDef)
    treedef.__setstate__((REGISTRIES[registry], nodes))  # type: ignore[attr-defined]
    return treedef


def _maker(function: Any) -> str:
    """Return the name of the function of JAX inside which ``function`` was made, or ""."""
    module = getattr(function, "__module__", None)
    if module != tree_util.__name__:
        return ""
    return str(function.__qualname__).partition(".")[0].lstrip("_")


def _is_class_protocol(cls: type, flatten: Any, unflatten: Any, with_keys: Any) -> bool:
    """Say whether the class was registered by its own tree_flatten and tree_unflatten."""
    own = getattr(cls, "tree_unflatten", None)
    if getattr(unflatten, "__func__", unflatten) is not getattr(own, "__func__", own):
        return False
    if with_keys is None:
        return _calls_method(flatten, "tree_flatten")
    if _calls_method(with_keys, "tree_flatten_with_keys"):
        return True
    code = getattr(getattr(cls, "tree_flatten_with_keys", None), "__code__", None)
    return code is not None and code is getattr(with_keys, "__code__", None)


def _calls_method(function: Any, name: str) -> bool:
    """Say whether ``function`` is the ``operator.methodcaller`` of that name."""
    return isinstance(function, operator.methodcaller) and function.__reduce__()[1] == (name,)


def _cells(function: Any) -> dict[str, Any]:
    """Return the free variables of a closure by name."""
    code, closure = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or closure is None:
        return {}
    return {name: cell.cell_contents for name, cell in zip(code.co_freevars, closure, strict=True)}
