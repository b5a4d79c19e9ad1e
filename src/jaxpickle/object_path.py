"""Where in an object graph a fault stands: found after the failure, so success pays nothing."""

from __future__ import annotations

import io
import itertools
import pickle
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxpickle.errors import JaxPickleError
from jaxpickle.records import fill

if TYPE_CHECKING:
    from jaxpickle.pickler import Pickler

__all__ = ["Fault", "find_fault"]

_REMEDIES = {
    "generator": "turn it into a list before pickling",
    "async_generator": "collect it into a list before pickling",
    "coroutine": "await it and keep the result",
    "lock": "leave it out in __getstate__ and make it anew in __setstate__",
    "RLock": "leave it out in __getstate__ and make it anew in __setstate__",
    "socket": "leave it out in __getstate__ and connect anew in __setstate__",
    "TextIOWrapper": "keep the file's name and open it anew in __setstate__",
    "BufferedReader": "keep the file's name and open it anew in __setstate__",
    "BufferedWriter": "keep the file's name and open it anew in __setstate__",
}
_PicklerInPython: Any = vars(pickle)["_Pickler"]

_CAPTURED = ("__globals__", "cell_contents")
_CAPTURED_REMEDY = "make it inside of the function that refers to it, or pass it as an argument"
_DEFAULT_REMEDY = (
    "leave it out in the owner's __getstate__, or teach pickle about it with copyreg.pickle"
)
_DEEP = 20_000
"""Recursion limit while the fault is looked for: the search nests deeper than the C pickler."""

_ATTRIBUTES = ("__wrapped__", "__func__", "__self__", "cell_contents", "func", "args", "keywords")
"""What reductions take apart: jitted functions, methods, cells and partial functions."""

_SEARCHING = threading.RLock()
_NOT_FOUND = object()
_CONTAINERS = (dict, list, tuple, set, frozenset)


@dataclass(frozen=True)
class Fault:
    """An object that cannot be pickled: its path from the root, its type, and why."""

    path: str
    type_name: str
    reason: str

    def message(self, error: BaseException) -> str:
        """Return the text of the error: what failed, where, and what mends it."""
        if isinstance(error, JaxPickleError):
            return f"cannot pickle {self.path}: {self.reason}"
        short = self.type_name.rpartition(".")[2]
        remedy = _REMEDIES.get(short, _DEFAULT_REMEDY)
        if any(name in self.path for name in _CAPTURED):
            remedy = _CAPTURED_REMEDY
        return f"cannot pickle {self.path}, a {self.type_name}: {self.reason}. To mend it, {remedy}"


def find_fault(pickler: Pickler, obj: Any) -> Fault | None:
    """Return the first object in the graph of ``obj`` that ``pickler`` cannot pickle.

    Args:
        pickler: the pickler that failed; its hooks are asked again.
        obj: the root that it was given.

    Returns:
        The fault, or None where the graph pickles (then the fault lies elsewhere: in the
        file, or in the caller's ``buffer_callback``).
    """
    search = _Search(pickler)
    with _deep_recursion():
        try:
            search.dump(obj)
        except Exception as error:
            return Fault(
                path=search.path(),
                type_name=getattr(error, "type_name", None) or _type_name(search.culprit),
                reason=str(error).strip() or type(error).__name__,
            )
    return None


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Raise the recursion limit, which is the process's, for one search at a time."""
    with _SEARCHING:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEEP))
        try:
            yield
        finally:
            sys.setrecursionlimit(limit)


class _Search(_PicklerInPython):  # type: ignore[misc]
    """A pickler in Python that writes nothing and remembers where it stands.

    Its trail is the chain of objects being saved: the user's own, and between them the parts
    (arguments and state) that a reduction made of them.
    """

    def __init__(self, pickler: Pickler) -> None:
        super().__init__(_Nowhere(), protocol=5, buffer_callback=lambda _: None)
        self.dispatch_table = type(pickler).dispatch_table
        self.persistent_id = getattr(pickler, "persistent_id", _no_id)
        self._override = pickler.reducer_override
        self._trail: list[Any] = []
        self._states: dict[int, Any] = {}

    def reducer_override(self, obj: Any) -> Any:
        """Ask the failed pickler, for the objects that the C pickler asks it about."""
        return NotImplemented if _is_plain(obj) else self._override(obj)

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        self._trail.append(obj)
        super().save(obj, save_persistent_id)
        self._trail.pop()

    def save_reduce(self, *reduction: Any, obj: Any = None) -> None:
        _, _, state, _, _, setter = (*reduction, *[None] * 6)[:6]
        # The state of a record is a tag and fields, which are parts of the object as well.
        parts = (state, *state) if setter is fill else (state,)
        self._states |= {id(part): part for part in parts if isinstance(part, (tuple, dict, list))}
        super().save_reduce(*reduction, obj=obj)

    @property
    def culprit(self) -> Any:
        """The innermost object of the user's: not the parts that a reduction made."""
        own = [obj for obj, part in _with_parts(self._trail, self._states) if part is None]
        return own[-1]

    def path(self) -> str:
        """Return the way from the root to the culprit."""
        steps = ["$"]
        trail = list(_with_parts(self._trail, self._states))
        owner = None
        for (parent, part), (child, child_part) in itertools.pairwise(trail):
            if part is None:
                owner = parent
            if child_part is None:
                steps.append(_step(parent, part, owner, child))
        return "".join(steps)


class _Nowhere(io.RawIOBase):
    def write(self, data: Any) -> int:
        return memoryview(data).nbytes


def _no_id(obj: Any) -> None:
    return None


def _is_plain(obj: Any) -> bool:
    return obj is None or type(obj) in (bool, int, float, bytes, str, *_CONTAINERS)


def _with_parts(trail: list[Any], states: dict[int, Any]) -> Iterator[tuple[Any, str | None]]:
    """Yield each object of the trail with what it is of the one before: args, state or None."""
    before: Any = None
    before_part: str | None = None
    for obj in trail:
        part: str | None = None
        if id(obj) in states or (
            before_part == "state" and _has_slots(before) and type(obj) is dict
        ):
            part = "state"
        elif before_part is None and before is not None and _is_args(before, obj):
            part = "args"
        yield obj, part
        before, before_part = obj, part


def _is_args(owner: Any, obj: Any) -> bool:
    return type(obj) is tuple and type(owner) not in _CONTAINERS


def _has_slots(state: Any) -> bool:
    """Say whether a state is a pair: that of the instance's dict, and that of its slots."""
    return type(state) is tuple and len(state) == 2


def _step(parent: Any, part: str | None, owner: Any, child: Any) -> str:
    if part == "args":
        return _attribute(owner, child)
    if isinstance(parent, Mapping):
        key = next((key for key, value in parent.items() if value is child), _NOT_FOUND)
        if key is _NOT_FOUND:
            return ".keys()"
        attribute = part == "state" and isinstance(key, str) and key.isidentifier()
        return f".{key}" if attribute else f"[{key!r:.80}]"
    if isinstance(parent, Sequence):
        index = next((f"[{i}]" for i, item in enumerate(parent) if item is child), "")
        is_state = part == "state" and isinstance(parent, tuple)
        return (_attribute(owner, child) or f".__getstate__(){index}") if is_state else index
    if isinstance(parent, Set):
        return "{...}"
    return ".__class__" if isinstance(child, type) else ""


def _attribute(owner: Any, child: Any) -> str:
    """Return the attribute of ``owner`` that ``child`` is, where it is one."""
    for name in (*_ATTRIBUTES, *_fields(owner)):
        try:
            value = getattr(owner, name, None)
        except Exception:  # a user's property may raise anything
            continue
        if value is child:
            return f".{name}"
    return ""


def _fields(owner: Any) -> Sequence[str]:
    return getattr(owner, "_fields", ()) if isinstance(owner, tuple) else ()


def _type_name(obj: Any) -> str:
    cls = type(obj)
    module = cls.__module__
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"
