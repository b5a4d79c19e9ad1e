"""`MissingDeviceError`: what it says, that what it shows mends it, and when it is raised."""

import pickle
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxpickle
from jaxpickle.errors import MissingDeviceError, PlacementError
from placements.together import cpus, where

PIECES = ["device", "mesh", "sharding", "array", "function", "keys", "ref", "struct", "committed"]

CALL = re.compile(r"jaxpickle\.loads\(.*?\)(?=[.,;\s]|$)")
"""A call that the text of an error shows."""


def without_cpu(data: bytes, index: int) -> bytes:
    """Returns a stream in which one CPU is a TPU, which is not here."""
    return data.replace(f"cpu:{index}".encode(), f"tpu:{index}".encode())


@pytest.fixture(params=PIECES)
def data(request: pytest.FixtureRequest, states: dict[str, bytes]) -> bytes:
    """A piece, of whose devices the last is missing."""
    return without_cpu(states[request.param], 3)


def test_error_names_what_is_missing_and_what_there_is(data: bytes) -> None:
    """It names the device, lists those there are, and is a `pickle.UnpicklingError`."""
    with pytest.raises(MissingDeviceError, match=r"tpu:3.*it has cpu:0, cpu:1") as caught:
        jaxpickle.loads(data)
    assert isinstance(caught.value, pickle.UnpicklingError)
    assert isinstance(caught.value, PlacementError)
    assert caught.value.names == ("tpu:3",)
    assert caught.value.available == tuple(cpus(*range(8)))


def test_calls_that_the_text_shows_mend_it(data: bytes) -> None:
    """The text shows the call that fixes it: each one, run as it stands, loads the object."""
    with pytest.raises(MissingDeviceError) as caught:
        jaxpickle.loads(data)
    calls = CALL.findall(str(caught.value))
    assert len(calls) == 2
    for call in calls:
        eval(call, {"jaxpickle": jaxpickle, "data": data})


def test_error_comes_through_plain_pickle(data: bytes) -> None:
    """A stream that jaxpickle wrote loads with plain `pickle` under the same rules."""
    with pytest.raises(MissingDeviceError):
        pickle.loads(data)
    with jaxpickle.placement(raise_on_missing_device=False):
        pickle.loads(data)


def test_error_pickles(data: bytes) -> None:
    """Every error pickles, with its attributes."""
    with pytest.raises(MissingDeviceError) as caught:
        jaxpickle.loads(data)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (MissingDeviceError, str(caught.value))
    assert (again.names, again.available) == (caught.value.names, caught.value.available)


def test_all_missing_devices_of_a_mesh_are_named(states: dict[str, bytes]) -> None:
    """One error for a mesh, which names every device that it lacks."""
    data = without_cpu(without_cpu(states["mesh"], 3), 1)
    with pytest.raises(MissingDeviceError, match=r"\{'x': 2, 'y': 2\}") as caught:
        jaxpickle.loads(data)
    assert caught.value.names == ("tpu:1", "tpu:3")


@pytest.mark.parametrize("devices", [{"cpu:1": "cpu:99"}, "cpu:99", {"cpu": "cuda:*"}])
@pytest.mark.parametrize("kind", ["committed", "uncommitted", "device"])
def test_target_that_does_not_exist(devices: Any, kind: str) -> None:
    """It raises `MissingDeviceError` when it is used, also for an array that was uncommitted."""
    first = jax.devices()[1]
    with jax.default_device(first):
        pieces = {"uncommitted": jnp.ones(3), "device": first}
    pieces["committed"] = jax.device_put(jnp.ones(3), first)
    data = jaxpickle.dumps(pieces[kind])
    with pytest.raises(MissingDeviceError, match="devices= sends 'cpu:1' to") as caught:
        jaxpickle.loads(data, devices=devices)
    assert caught.value.names in {("cpu:99",), ("cuda:1",)}
    for call in CALL.findall(str(caught.value)):
        eval(call, {"jaxpickle": jaxpickle, "data": data})
    with jax.default_device(jax.devices()[5]):
        got = jaxpickle.loads(data, devices=devices, raise_on_missing_device=False)
    assert where(got) == ("cpu:5" if kind == "device" else ("cpu:5", False))


def test_target_that_is_not_used_is_no_error(states: dict[str, bytes]) -> None:
    """A target that does not exist raises when it is used: not for what it does not concern."""
    devices = {"cuda:*": "cuda:*", "cpu:7": "tpu:0"}
    assert where(jaxpickle.loads(states["committed"], devices=devices)) == ("cpu:3", True)
    assert jaxpickle.loads(states["mesh"], devices=devices).size == 4


def test_mesh_sent_to_devices_that_are_missing(states: dict[str, bytes]) -> None:
    """The targets are named, and the fallback collapses the mesh."""
    devices = {"cpu:*": "cuda:*"}
    with pytest.raises(MissingDeviceError) as caught:
        jaxpickle.loads(states["array"], devices=devices)
    assert caught.value.names == ("cuda:0", "cuda:1", "cuda:2", "cuda:3")
    got = jaxpickle.loads(states["array"], devices=devices, raise_on_missing_device=False)
    assert where(got) == (({"x": 1, "y": 1}, ["cpu:0"], ("x", "y")), False)
