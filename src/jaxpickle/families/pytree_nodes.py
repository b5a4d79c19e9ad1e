"""How a class is registered as a pytree node, as plain data, and registering it so again."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["register", "registration"]

Registration = tuple[Any, ...]


def registration(cls: type) -> Registration | None:
    """Return how ``cls`` is registered as a pytree node, or None where it is not.

    Args:
        cls: a class that travels by value.

    Returns:
        ``("dataclass", data_fields, meta_fields)``, ``("static",)``, ``("methods", keyed)`` or
        ``("functions", flatten, unflatten, flatten_with_keys)``.
    """
    if "jax" not in sys.modules:
        return None
    from jaxpickle._jax import pytrees

    return pytrees.registration(cls)


def register(cls: type, how: Registration) -> None:
    """Register ``cls`` as a pytree node, unless it is one already.

    Args:
        cls: the class, complete with its methods.
        how: what :func:`registration` returned where it was pickled.
    """
    import jax

    from jaxpickle._jax import pytrees

    if pytrees.is_registered(cls):
        return
    kind, *fields = how
    if kind == "dataclass":
        pytrees.register_dataclass(cls, *fields)
    elif kind == "static":
        jax.tree_util.register_static(cls)
    elif kind == "methods":
        _register_methods(cls, *fields)
    else:
        _register_functions(cls, *fields)


def _register_methods(cls: type, keyed: bool) -> None:
    import jax

    if keyed:
        jax.tree_util.register_pytree_with_keys_class(cls)
    else:
        jax.tree_util.register_pytree_node_class(cls)


def _register_functions(cls: type, flatten: Any, unflatten: Any, with_keys: Any) -> None:
    import jax

    if with_keys is None:
        jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    else:
        jax.tree_util.register_pytree_with_keys(cls, with_keys, unflatten, flatten)
