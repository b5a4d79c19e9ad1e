"""The structure of a tree and the type of an array: PyTreeDef and ShapeDtypeStruct."""

from __future__ import annotations

from typing import Any

import jax

from jaxpickle._jax import pytrees, shape_dtypes
from jaxpickle.errors import UnpicklingError
from jaxpickle.families import describes
from jaxpickle.records import Reduced, builds, corrupt, describe, own

__all__: list[str] = []

NodeData = tuple[type, Any] | None

_LEAF = (own("leaf"),)
_NONE = (own("none"),)


@describes(jax.tree_util.PyTreeDef)
def _reduce_treedef(treedef: Any) -> Reduced:
    nodes = []
    pending = [treedef]
    while pending:
        node = pending.pop()
        children = node.children()
        nodes.append(_node(node.node_data(), len(children)))
        pending.extend(reversed(children))
    return describe("treedef/1", pytrees.registry_name(treedef), nodes)


def _node(data: NodeData, arity: int) -> tuple[Any, ...]:
    """Return one node as plain data: its kind, and what else it takes to make it again."""
    if data is None:
        return _LEAF
    cls, aux = data
    if cls is type(None):
        return _NONE
    if cls in (tuple, list):
        return own(cls.__name__), arity
    if cls is dict:
        return own("dict"), list(aux)
    if pytrees.is_registered(cls):
        return own("node"), cls, arity, aux
    return own("namedtuple"), cls, arity


@builds("treedef/1")
def _build_treedef(registry: str, nodes: list[Any]) -> Any:
    if not isinstance(registry, str) or registry not in pytrees.REGISTRIES:
        raise corrupt("treedef/1", f"names a registry {registry!r}")
    if not isinstance(nodes, list):
        raise corrupt("treedef/1", "has no list of nodes")
    built: list[Any] = []
    # Backwards, a node comes after its children.
    for node in reversed(nodes):
        data, arity = _parsed(node)
        if not 0 <= arity <= len(built):
            raise corrupt("treedef/1", f"has a node with {arity} children, of {len(built)}")
        children = [built.pop() for _ in range(arity)]
        built.append(pytrees.make_treedef(registry, data, children))
    if len(built) != 1:
        raise corrupt("treedef/1", f"has {len(built)} roots")
    return built[0]


def _parsed(node: Any) -> tuple[NodeData, int]:
    """Return the node data and the number of children of a node in a record."""
    match node:
        case ("leaf",):
            return None, 0
        case ("none",):
            return (type(None), None), 0
        case ("tuple", int(arity)):
            return (tuple, None), arity
        case ("list", int(arity)):
            return (list, None), arity
        case ("dict", list(keys)):
            return (dict, keys), len(keys)
        case ("node", type() as cls, int(arity), aux):
            _check_registered(cls)
            return (cls, aux), arity
        case ("namedtuple", type() as cls, int(arity)):
            _check_namedtuple(cls, arity)
            return (cls, None), arity
    raise corrupt("treedef/1", "has a node of no known form")


def _check_registered(cls: type) -> None:
    if not pytrees.is_registered(cls):
        raise UnpicklingError(
            f"this stream holds a tree with nodes of {_name(cls)}, which is not registered as a "
            "pytree node in this process. Import the module that registers it, and load again",
            names=(_name(cls),),
        )


def _check_namedtuple(cls: type, arity: int) -> None:
    fields = getattr(cls, "_fields", None)
    plain = issubclass(cls, tuple) and not pytrees.is_registered(cls)
    if not plain or not isinstance(fields, tuple) or len(fields) != arity:
        raise UnpicklingError(
            f"this stream holds a tree with nodes of {_name(cls)}, a namedtuple of {arity} "
            "fields where it was written, and another class here. Load it with the version of "
            f"{cls.__module__} that wrote it",
            names=(_name(cls),),
        )


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@describes(jax.ShapeDtypeStruct)
def _reduce_shape_dtype(struct: jax.ShapeDtypeStruct) -> Reduced:
    return describe(
        "shape_dtype/1",
        tuple(struct.shape),
        struct.dtype,
        shape_dtypes.place(struct),
        bool(struct.weak_type),
        bool(struct.is_ref),
        shape_dtypes.manual_axes(struct),
        shape_dtypes.memory_space(struct),
    )


@builds("shape_dtype/1")
def _build_shape_dtype(
    shape: tuple[Any, ...],
    dtype: Any,
    place: Any,
    weak_type: bool,
    is_ref: bool,
    manual_axes: shape_dtypes.ManualAxes | None,
    memory_space: str | None,
) -> Any:
    if not isinstance(shape, tuple):
        raise corrupt("shape_dtype/1", f"has a shape {shape!r}")
    return shape_dtypes.build_shape_dtype(
        shape,
        dtype,
        memory_space,
        sharding=place,
        weak_type=weak_type,
        is_ref=is_ref,
        manual_axis_type=shape_dtypes.build_manual_axes(manual_axes),
    )
