"""The one resolver: a pure, cached function of a saved place, the settings and this process.

Arrays, shardings, meshes, devices and functions all ask it, so that an array, its sharding
and the function over the same mesh agree and run together.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.extend.backend as jax_backend
from jax.sharding import Mesh, NamedSharding

from jaxpickle._jax import shardings as private
from jaxpickle.errors import MissingDeviceError, PlacementError
from jaxpickle.placements import here, memories, meshes, specs
from jaxpickle.placements.rules import ByName, Landing, OntoMesh, Rule
from jaxpickle.placements.saved import SavedArray, SavedMesh, SavedSharding, axis_name
from jaxpickle.placements.settings import Settings

__all__ = ["Place", "Resolver", "resolver_for"]

Sharding = jax.sharding.Sharding

_OVER_A_MESH = (
    "To lay it over devices that are here, pass devices=jax.sharding.Mesh(array_of_devices, "
    "axis_names). "
)
_BESIDE_A_MESH = "what lies on no mesh like that of devices= stays where it was, and needs"
_WITH_A_MESH = "With a mesh goes devices=mesh, raise_on_missing_device=False. "


class Place(NamedTuple):
    """Where an array lands.

    Attributes:
        sharding: its sharding here.
        committed: whether it is committed to it.
        layout: its major-to-minor order, or None for the default one.
        device: the device, where it is a whole array in the default memory of one; else None.
    """

    sharding: Sharding
    committed: bool
    layout: tuple[int, ...] | None = None
    device: jax.Device | None = None


class Resolver:
    """Turns saved places into places here, under one set of rules.

    Args:
        rules: the rules of ``devices=``, in order; what none has a say in follows the table.
        raises: whether a missing device is an error, or becomes the default device.
        default: the device where JAX puts new arrays now.
    """

    def __init__(self, rules: tuple[Rule, ...], raises: bool, default: jax.Device) -> None:
        self._rules = rules
        self._raises = raises
        self._default = default
        self._relays = any(isinstance(rule, OntoMesh) for rule in rules)
        self._known: dict[Any, Any] = {}

    def device(self, name: str) -> jax.Device:
        """Return the device here that a bare saved device becomes.

        Raises:
            MissingDeviceError: there is none, and that is an error.
        """
        return self._landing(name).device

    def mesh(self, saved: SavedMesh) -> Mesh:
        """Return the mesh here that a saved one becomes.

        Raises:
            MissingDeviceError: devices of it are missing, and that is an error.
            PlacementError: its devices go neither one to one nor all to one.
        """
        return self._once(("mesh", saved), self._mesh, saved)  # type: ignore[no-any-return]

    def sharding(self, saved: SavedSharding) -> Sharding:
        """Return the sharding here that a bare saved one becomes; it keeps its spec.

        Raises:
            MissingDeviceError: devices of it are missing, and that is an error.
            PlacementError: it cannot be laid over the mesh or devices that it becomes.
        """
        sharding = self._shared(saved)
        memories.check(saved, sharding)
        return sharding

    def place(self, saved: tuple[Any, ...], shape: tuple[int, ...]) -> Place:
        """Return where a saved array of a shape lands.

        Raises:
            MissingDeviceError: devices of it are missing, and that is an error.
            PlacementError: its spec names an axis that its new mesh lacks.
        """
        place = self._known.get(saved)
        if place is None:
            place = self._known[saved] = self._place(SavedArray(*saved))
        memories.check(saved[0], place.sharding)
        if self._relays and isinstance(place.sharding, NamedSharding):
            return place._replace(sharding=specs.fitted(place.sharding, shape))
        return place

    def names(self) -> dict[str, jax.Device]:
        """Return every name that resolves here, with the device that it becomes.

        A glob of another platform means as many of its devices as there are here.
        """
        available = here.available()
        mapped = [rule.known(len(available)) for rule in self._rules if isinstance(rule, ByName)]
        found = {}
        for name in dict.fromkeys([*available, *itertools.chain.from_iterable(mapped)]):
            try:
                found[name] = self.device(name)
            except MissingDeviceError:
                continue
        return found

    def _place(self, saved: SavedArray) -> Place:
        kind, *fields = saved.sharding
        committed = saved.commitment == "committed"
        if kind != "single":
            if kind == "named":
                specs.check_partial_sums(fields[0], fields[1], self.mesh(fields[0]))
            sharding = self._shared(saved.sharding)
            spread = committed and sharding.num_devices > 1
            commits = spread or self._commits(saved.sharding, committed)
            return Place(sharding, commits, saved.layout)
        name, memory_kind = fields
        landing = self._landing(name) if committed else self._uncommitted(name, saved.commitment)
        keeps = committed if landing.committed is None else landing.committed
        plain = landing.device if memory_kind in (None, "default") else None
        return Place(memories.single(landing.device, memory_kind), keeps, saved.layout, plain)

    def _uncommitted(self, name: str, commitment: str) -> Landing:
        """Land an array that JAX had placed: where a rule says, else where JAX would now."""
        try:
            landing = self._ruled(name)
        except MissingDeviceError:
            if self._raises:
                raise
            return Landing(self._default)
        if landing is None and commitment == "elsewhere" and here.has(name):
            return Landing(here.find(name))
        return landing or Landing(self._default)

    def _commits(self, saved: SavedSharding, committed: bool) -> bool:
        """Say whether an array whose mesh has collapsed is committed, as on a single device."""
        kind, first, *_ = saved
        if kind == "named" and self._replacement(first) is not None:
            return committed
        device_names = first[3] if kind == "named" else first
        said = {self._landing(name).committed for name in device_names}
        return False not in said and (committed or True in said)

    def _landing(self, name: str) -> Landing:
        return self._once(("device", name), self._land, name)  # type: ignore[no-any-return]

    def _land(self, name: str) -> Landing:
        try:
            return self._ruled(name) or Landing(here.find(name))
        except MissingDeviceError as error:
            if not self._raises:
                return Landing(self._default, committed=False)
            if self._relays:
                raise here.missing(list(error.names), _BESIDE_A_MESH, name, _WITH_A_MESH) from None
            raise

    def _ruled(self, name: str) -> Landing | None:
        for rule in self._rules:
            landing = rule.device(name)
            if landing is not None:
                return landing
        return None

    def _mesh(self, saved: SavedMesh) -> Mesh:
        axes, shape, types, device_names = saved
        if not device_names:
            return meshes.EMPTY
        replacement = self._replacement(saved)
        if replacement is not None:
            return replacement
        devices = self._devices(
            device_names, f"the mesh {dict(zip(map(axis_name, axes), shape, strict=True))}"
        )
        if len(devices) == 1:
            shape = (1,) * len(axes)
        return meshes.build(devices, shape, axes, types)

    def _replacement(self, saved: SavedMesh) -> Mesh | None:
        """Return the user's mesh that a saved one becomes, or None."""
        axes = tuple(map(axis_name, saved[0]))
        meshes = (rule.mesh(axes) for rule in self._rules)
        return next((mesh for mesh in meshes if mesh is not None), None)

    def _devices(self, device_names: Sequence[str], what: str) -> list[jax.Device]:
        """Return the devices that those of a mesh become: as many, or one for all.

        Raises:
            MissingDeviceError: some are missing, and that is an error.
            PlacementError: they go neither one to one nor all to one, or to two platforms.
        """
        landed: list[jax.Device] = []
        absent: list[str] = []
        for name in device_names:
            try:
                landed.append((self._ruled(name) or Landing(here.find(name))).device)
            except MissingDeviceError as error:
                absent.extend(error.names)
        if absent and self._raises:
            raise here.missing(list(dict.fromkeys(absent)), f"{what} needs", "*", _OVER_A_MESH)
        if absent:
            return [self._default]
        distinct = list(dict.fromkeys(landed))
        if len({device.platform for device in distinct}) > 1:
            raise _not_one_to_one(what, device_names, landed, "lies on two platforms")
        if len(distinct) == 1:
            return distinct
        if len(distinct) != len(landed):
            raise _not_one_to_one(what, device_names, landed, "has fewer devices, but not one")
        return landed

    def _shared(self, saved: SavedSharding) -> Sharding:
        """Return the one object that a sharding becomes, of arrays and by itself."""
        return self._once(("sharding", saved), self._sharding, saved)  # type: ignore[no-any-return]

    def _sharding(self, saved: SavedSharding) -> Sharding:
        kind, *fields = saved
        if kind == "single":
            name, memory_kind = fields
            return memories.single(self.device(name), memory_kind)
        if kind == "hlo":
            return self._hlo(*fields)
        saved_mesh, saved_spec, memory_kind, ids = fields
        if kind == "abstract":
            mesh: Any = meshes.build_abstract(saved_mesh)
        else:
            mesh = self.mesh(saved_mesh)
            memory_kind = memories.kind_here(mesh.devices.flat[0], memory_kind)
        ids = ids if ids is not None and len(ids) == mesh.size else None
        return specs.laid_over(mesh, saved_spec, memory_kind, ids)

    def _hlo(self, device_names: tuple[str, ...], proto: bytes, kind: str | None) -> Sharding:
        devices = self._devices(device_names, "the sharding")
        if len(devices) != len(device_names):
            return memories.single(devices[0], kind)
        return private.build_hlo_sharding(
            tuple(devices), proto, memories.kind_here(devices[0], kind)
        )

    def _once(self, key: Any, make: Callable[[Any], Any], saved: Any) -> Any:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make(saved)
        return found


def resolver_for(settings: Settings) -> Resolver:
    """Return the resolver for some settings and what this process has now."""
    clients = tuple(jax_backend.backends().values())
    return _resolver(
        settings.rules, settings.raise_on_missing_device, here.default_device(), clients
    )


@functools.lru_cache(maxsize=64)
def _resolver(
    rules: tuple[Rule, ...], raises: bool, default: jax.Device, clients: tuple[Any, ...]
) -> Resolver:
    return Resolver(rules, raises, default)


def _not_one_to_one(
    what: str, device_names: Sequence[str], landed: list[jax.Device], why: str
) -> PlacementError:
    pairs = ", ".join(
        f"{name}->{here.name_of(device)}"
        for name, device in zip(device_names[:8], landed, strict=False)
    )
    return PlacementError(
        f"devices= sends {what} ({pairs}{', ...' if len(landed) > 8 else ''}) where it {why}. A "
        "mapping must keep a mesh's devices one to one, or send all to one; to lay it over "
        "other devices, pass a mesh: devices=jax.sharding.Mesh(array_of_devices, axis_names)",
        names=tuple(device_names),
        available=here.available(),
    )
