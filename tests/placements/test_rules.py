"""What `devices=` may be, and which rule has a say: seen through a resolver, for saved names."""

from typing import Any

import jax
import pytest

from jaxpickle.errors import MissingDeviceError, PlacementError
from jaxpickle.placements.resolver import Resolver, resolver_for
from jaxpickle.placements.rules import Landing
from jaxpickle.placements.settings import Settings
from placements.together import name_of


def landing(devices: Any, name: str, *, raises: bool = True) -> str:
    """Returns where a saved device goes."""
    return name_of(resolver_for(Settings(devices, raises)).device(name))


@pytest.mark.parametrize(
    ("devices", "name", "lands"),
    [
        (None, "cpu:3", "cpu:3"),
        ({}, "cpu:3", "cpu:3"),
        ({"cpu:3": "cpu:1"}, "cpu:3", "cpu:1"),
        ({"cpu:3": "cpu"}, "cpu:3", "cpu:0"),
        ({"cpu": "cpu:6"}, "cpu:3", "cpu:6"),
        ({"cuda:*": "cpu:*"}, "cuda:3", "cpu:3"),
        ({"gpu:*": "cpu:*"}, "rocm:5", "cpu:5"),
        ({"gpu:1": "cpu:2"}, "cuda:1", "cpu:2"),
        ({"gpu:1": "cpu:2"}, "rocm:1", "cpu:2"),
        ({"*": "cpu:*"}, "tpu:7", "cpu:7"),
        ("cpu:4", "cuda:1", "cpu:4"),
        ("cpu", "cuda:1", "cpu:0"),
    ],
)
def test_each_form_says_where_a_device_goes(devices: Any, name: str, lands: str) -> None:
    """Names, globs and platforms as keys; names, platforms and `"cpu:*"` as targets."""
    assert landing(devices, name) == lands


def test_device_objects_are_targets() -> None:
    """Targets are names or `jax.Device`s, in a mapping and alone."""
    sixth = jax.devices()[6]
    assert landing({"cuda:*": sixth}, "cuda:1") == "cpu:6"
    assert landing(sixth, "cuda:1") == "cpu:6"


@pytest.mark.parametrize(("name", "lands"), [("cpu:1", "cpu:5"), ("cpu:2", "cpu:7")])
def test_exact_goes_before_the_first_glob(name: str, lands: str) -> None:
    """An exact key goes before a glob, the first matching glob wins."""
    globs_first = {"cpu:*": "cpu:7", "cpu:[0-3]": "cpu:6", "cpu:1": "cpu:5"}
    assert landing(globs_first, name) == lands


def test_what_no_key_matches_follows_the_table() -> None:
    """Also where that device is missing: the error, or the default device."""
    assert landing({"cuda:*": "cpu:1"}, "cpu:2") == "cpu:2"
    with pytest.raises(MissingDeviceError):
        landing({"cuda:*": "cpu:1"}, "tpu:2")
    assert landing({"cuda:*": "cpu:1"}, "tpu:2", raises=False) == "cpu:0"


def test_a_mapping_is_followed_once() -> None:
    """Swaps work: the target of one key is not looked up as another."""
    swap = {"cpu:0": "cpu:1", "cpu:1": "cpu:0"}
    assert [landing(swap, name) for name in ("cpu:0", "cpu:1")] == ["cpu:1", "cpu:0"]


def test_default_is_the_default_device_at_the_time() -> None:
    """`"default"` is the default device, `jax.default_device` included."""
    assert landing({"cuda:*": "default"}, "cuda:1") == "cpu:0"
    with jax.default_device(jax.devices()[5]):
        assert landing({"cuda:*": "default"}, "cuda:1") == "cpu:5"


@pytest.mark.parametrize("devices", [3, ["cpu"], {"cpu": 3}, {3: "cpu"}, {"cpu": None}, b"cpu"])
def test_other_forms_are_refused(devices: Any) -> None:
    """A `TypeError` lists the forms of `devices=`."""
    with pytest.raises(TypeError, match=r"mapping of device names.*jax\.sharding\.Mesh"):
        Settings(devices)


@pytest.mark.parametrize("devices", ["cpu:x", "", {"cpu:x": "cpu"}, {"cpu": "cpu:?"}, "cpu:*"])
def test_names_that_are_none_are_refused(devices: Any) -> None:
    """A `ValueError` shows the name, before anything is loaded."""
    with pytest.raises(ValueError, match=r"device name|names many devices"):
        Settings(devices)


def test_the_other_argument_is_a_bool() -> None:
    """`raise_on_missing_device` is True or False and nothing like them."""
    with pytest.raises(TypeError, match="True or False, not a int"):
        Settings(None, 1)  # type: ignore[arg-type]


class Foreign:
    """A device of a platform that this process does not have."""

    platform = "tpu"
    client = type("Client", (), {"platform": "tpu", "platform_version": ""})


class HalfAway:
    """A rule that sends one device to another platform."""

    def device(self, name: str) -> Any:
        return Landing(Foreign()) if name == "cpu:1" else None  # type: ignore[arg-type]

    def mesh(self, axes: Any) -> None:
        return None


def test_a_mesh_on_two_platforms_is_refused() -> None:
    """A mapping that mixes platforms in one mesh raises `PlacementError`, showing the Mesh form."""
    resolver = Resolver((HalfAway(),), True, jax.devices()[0])
    saved = (("x",), (2,), ("Auto",), ("cpu:0", "cpu:1"))
    with pytest.raises(PlacementError, match=r"two platforms.*devices=jax\.sharding\.Mesh\("):
        resolver.mesh(saved)
