"""The forms of ``devices=``: each says, for a saved device or mesh, where it goes, or passes.

A rule is pure data made from what the user gave; it asks JAX for devices only when used, so
that settings can be made, stored and sent where no backend runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxpickle.placements import names

if TYPE_CHECKING:
    import jax
    from jax.sharding import Mesh

__all__ = ["ByName", "Everything", "Landing", "OntoMesh", "Rule", "parse"]

DEFAULT = "default"
"""The target that means the default device, where arrays stay uncommitted."""

_FORMS = (
    "devices= takes a mapping of device names ({'cuda:*': 'cpu:*'}), a device or its name "
    "('cpu', 'cuda:1', jax.devices()[2]), a jax.sharding.Mesh, or None"
)


class Landing(NamedTuple):
    """Where a saved device goes: a device here, and whether arrays are committed to it.

    ``committed`` is None where an array keeps what it was.
    """

    device: jax.Device
    committed: bool | None = None


class Rule:
    """One form of ``devices=``; where it has no say, it passes."""

    def device(self, name: str) -> Landing | None:
        """Return where a saved device goes, or None where this rule has no say."""
        return None

    def mesh(self, axes: tuple[Any, ...]) -> Mesh | None:
        """Return the mesh that one with these axis names becomes, or None."""
        return None


@dataclass(frozen=True)
class ByName(Rule):
    """A mapping: exact names first, then the globs in the order given."""

    exact: tuple[tuple[str, Any], ...]
    globs: tuple[tuple[str, Any], ...]

    def device(self, name: str) -> Landing | None:
        """Return what the first matching key says; the array keeps its commitment."""
        for key, target in (*self.exact, *self.globs):
            if names.matches(key, name):
                return _landing(target, name)
        return None

    def known(self, count: int) -> Iterator[str]:
        """Yield the names that the keys spell out, and of each glob's platform ``count``."""
        yield from (key for key, _ in self.exact)
        for key, _ in self.globs:
            every = (f"{platform}:{i}" for platform in names.platforms(key) for i in range(count))
            yield from (name for name in every if names.matches(key, name))


@dataclass(frozen=True)
class Everything(Rule):
    """One device or its name: all goes there, committed."""

    target: Any

    def device(self, name: str) -> Landing | None:
        """Return the one device."""
        landing = _landing(self.target, name)
        return landing if landing.committed is False else Landing(landing.device, True)


@dataclass(frozen=True)
class OntoMesh(Rule):
    """A mesh: every saved mesh that shares an axis name with it becomes this one."""

    target: Mesh

    def mesh(self, axes: tuple[Any, ...]) -> Mesh | None:
        """Return the mesh, if it has one of the axes."""
        return self.target if set(axes) & set(self.target.axis_names) else None


def parse(devices: Any) -> tuple[Rule, ...]:
    """Return the rules that a ``devices=`` argument means; none for None.

    Args:
        devices: what the user gave.

    Raises:
        TypeError: it is none of the forms.
        ValueError: a name in it is no device name.
    """
    if devices is None:
        return ()
    if isinstance(devices, Mapping):
        return (_by_name(devices),)
    if isinstance(devices, str):
        return (Everything(_checked_target(devices, in_mapping=False)),)
    if _is_device(devices):
        return (Everything(devices),)
    if _is_mesh(devices):
        return (OntoMesh(devices),)
    raise TypeError(f"{_FORMS}; not a {type(devices).__name__}")


def _by_name(devices: Mapping[Any, Any]) -> ByName:
    exact: list[tuple[str, Any]] = []
    globs: list[tuple[str, Any]] = []
    for key, target in devices.items():
        name = _checked_key(key)
        pair = (name, _checked_target(target, in_mapping=True))
        (globs if names.is_glob(key if isinstance(key, str) else name) else exact).append(pair)
    return ByName(tuple(exact), tuple(globs))


def _checked_key(key: Any) -> str:
    if _is_device(key):
        from jaxpickle.placements import here

        return here.name_of(key) or str(key)
    if not isinstance(key, str):
        raise TypeError(f"{_FORMS}; a key of a mapping is a name, not a {type(key).__name__}")
    if not names.is_glob(key):
        names.split(key)
    return names.key_of(key)


def _checked_target(target: Any, *, in_mapping: bool) -> Any:
    if _is_device(target):
        return target
    if not isinstance(target, str):
        raise TypeError(f"{_FORMS}; a target is a device or its name, not {target!r}")
    if target == DEFAULT:
        return target
    if target.endswith(":*"):
        if not in_mapping:
            raise ValueError(
                f"devices={target!r} names many devices; write devices={{'*': {target!r}}} to "
                "keep each object's index"
            )
        names.split(target.removesuffix(":*"))
        return target
    names.split(target)
    return target


def _landing(target: Any, name: str) -> Landing:
    from jaxpickle.placements import here

    if not isinstance(target, str):
        return Landing(target)
    if target == DEFAULT:
        return Landing(here.default_device(), False)
    target = names.same_index(target, name) or target
    if not here.has(target):
        raise here.missing([target], f"devices= sends {name!r} to", name)
    return Landing(here.find(target))


def _is_device(obj: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(obj, jax.Device)


def _is_mesh(obj: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(obj, jax.sharding.Mesh)
