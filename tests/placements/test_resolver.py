"""The resolver: a pure, cached function of a saved place, the settings and the devices here."""

import sys
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxpickle
from jaxpickle.placements.resolver import resolver_for
from jaxpickle.placements.settings import TABLE, Settings
from placements.together import grid, over_mesh

MESH = (("x",), (2,), ("Auto",), ("cpu:0", "cpu:1"))
NAMED = ("named", MESH, (("x",), (), (), None), "default", None)
SINGLE = ("single", "cpu:3", "default")
FORMS: list[Any] = [None, {"cpu:0": "cpu:1", "cpu:1": "cpu:0"}, "cpu:2", {"cpu": "cpu:4"}]


@pytest.mark.parametrize("devices", FORMS)
def test_same_question_same_object(devices: Any) -> None:
    """The same saved place under equal settings becomes the very same object, each time."""
    first, second = resolver_for(Settings(devices)), resolver_for(Settings(devices))
    assert first.mesh(MESH) is second.mesh(MESH)
    assert first.sharding(NAMED) is second.sharding(NAMED)
    assert first.device("cpu:0") is second.device("cpu:0")
    for sharding in (NAMED, SINGLE):
        saved = (sharding, "committed", None)
        assert first.place(saved, (4,)) is second.place(saved, (4,))


def test_order_of_questions_does_not_matter() -> None:
    """Where a saved device or mesh goes is a pure function: what was asked before changes nothing.

    Here of a mapping that fails for the mesh, before and after its devices were asked for.
    """
    halves = Settings({"cpu:1": "cpu:0", "cpu:3": "cpu:0"})
    wide = (("x",), (4,), ("Auto",), ("cpu:0", "cpu:1", "cpu:2", "cpu:3"))
    for _ in range(2):
        with pytest.raises(jaxpickle.errors.PlacementError):
            resolver_for(halves).mesh(wide)
        assert resolver_for(halves).device("cpu:1") is jax.devices()[0]


def test_new_default_device_is_respected() -> None:
    """ "Default device" is what JAX says when loading: a cached answer never outlives it."""
    saved = (("single", "cpu:0", "default"), "default", None)
    for index in (0, 3, 5, 0):
        with jax.default_device(jax.devices()[index]):
            assert resolver_for(TABLE).place(saved, ()).device is jax.devices()[index]


def test_equal_settings_are_one_resolver() -> None:
    """The rules count, not the object that the user gave; a change of it later changes nothing."""
    devices = {"cpu:0": "cpu:1"}
    settings = Settings(devices)
    devices["cpu:0"] = "cpu:2"
    assert resolver_for(settings) is resolver_for(Settings({"cpu:0": "cpu:1"}))
    assert resolver_for(settings).device("cpu:0") is jax.devices()[1]
    assert resolver_for(settings) is not resolver_for(Settings({"cpu:0": "cpu:1"}, False))


@pytest.mark.parametrize("devices", FORMS)
def test_one_stream_holds_one_mesh(devices: Any) -> None:
    """An array, its `NamedSharding` and the mesh agree: they hold the same mesh object."""
    state = over_mesh(grid(2))
    got = jaxpickle.loads(jaxpickle.dumps(state), devices=devices)
    meshes = [got["mesh"], *(got[n].sharding.mesh for n in ("array", "keys", "struct"))]
    assert {id(mesh) for mesh in [*meshes, got["sharding"].mesh]} == {id(got["mesh"])}


def test_settings_need_no_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of names are made without a device: a rule asks JAX only when it is used."""
    monkeypatch.setitem(sys.modules, "jax", None)
    settings = Settings({"cuda:*": "cpu:*", "cpu": "default"})
    with jaxpickle.placement(devices="cuda:1"):
        pass
    assert settings == Settings({"cuda:*": "cpu:*", "cpu": "default"})


def test_an_empty_mesh_lies_nowhere() -> None:
    """A mesh of no devices comes back under any settings."""
    empty = Mesh(np.empty((), dtype=object), ())
    for devices in FORMS:
        assert jaxpickle.loads(jaxpickle.dumps(empty), devices=devices) == empty
