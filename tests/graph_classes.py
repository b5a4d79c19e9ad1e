"""Classes of a user's module, for graphs of objects: found by name where `tests` is on the path."""

import dataclasses
from typing import Any


class Plain:
    """Keeps its attributes in a dict."""

    def __init__(self) -> None:
        self.left: Any = None
        self.right: Any = None


class Slotted:
    """Keeps its attributes in slots."""

    __slots__ = ("left", "right")

    def __init__(self) -> None:
        self.left: Any = None
        self.right: Any = None


class Mixed(Slotted):
    """Keeps some in slots and some in a dict."""

    __slots__ = ("__dict__",)


@dataclasses.dataclass(eq=False)
class Data:
    """A dataclass."""

    left: Any = None
    right: Any = None


@dataclasses.dataclass(eq=False, slots=True)
class SlottedData:
    """A dataclass with slots."""

    left: Any = None
    right: Any = None


class Reduced:
    """Says itself how to be pickled."""

    def __init__(self) -> None:
        self.left: Any = None
        self.right: Any = None

    def __getstate__(self) -> Any:
        return [self.left, self.right]

    def __setstate__(self, state: Any) -> None:
        self.left, self.right = state


OPEN = (Plain, Slotted, Mixed, Data, SlottedData, Reduced)
"""Classes whose instances have a `left` and a `right`, set after they are made."""


def leaf_facts(obj: Any) -> Any:
    """Returns what is true of a leaf; of an array its type, place and values."""
    import jax
    import numpy as np

    if isinstance(obj, jax.Array):
        data = obj
        if jax.dtypes.issubdtype(obj.dtype, jax.dtypes.prng_key):
            data = jax.random.key_data(obj)
        where = [str(shard.device) for shard in obj.addressable_shards]
        return str(obj.dtype), obj.shape, obj.committed, where, np.asarray(data).tobytes()
    if isinstance(obj, np.ndarray):
        return str(obj.dtype), obj.shape, obj.tobytes()
    return obj


def picture(root: Any) -> list[Any]:
    """Returns a graph as plain data: equal for two graphs exactly if they have one shape.

    Every object gets a number when it is first met, in an order that the graph alone decides; an
    object is its type, its leaf's facts, and the numbers of its parts.
    """
    import jax
    import numpy as np

    numbers: dict[int, int] = {}
    met: list[Any] = []

    def number(obj: Any) -> int:
        if isinstance(obj, bool | int | float | str | None):
            met.append(obj)  # one object or several: Python decides that, not the graph
            return len(met) - 1
        if id(obj) not in numbers:
            numbers[id(obj)] = len(met)
            met.append(obj)
        return numbers[id(obj)]

    def parts(obj: Any) -> Any:
        if type(obj) in (list, tuple):
            return [number(item) for item in obj]
        if type(obj) is dict:
            return [(repr(key), number(value)) for key, value in obj.items()]
        if type(obj) in (set, frozenset):
            return sorted(map(repr, obj))
        if type(obj).__name__ in {cls.__name__ for cls in OPEN}:
            return [number(obj.left), number(obj.right)]
        if isinstance(obj, jax.Array | np.ndarray):
            return leaf_facts(obj)
        return repr(obj)

    number(root)
    lines = []
    while len(lines) < len(met):
        obj = met[len(lines)]
        lines.append((type(obj).__name__, parts(obj)))
    return lines
