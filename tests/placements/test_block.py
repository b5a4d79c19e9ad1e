"""`with jaxpickle.placement(...)`: what it steers, what goes before it, and that it ends."""

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import jax
import jax.numpy as jnp
import pytest

import jaxpickle
from jaxpickle.errors import MissingDeviceError
from placements.together import GRID, ONE, cpus, expected, report, stream, where

DEVICES = jax.devices()
DATA = jaxpickle.dumps(jax.device_put(jnp.arange(3.0), DEVICES[1]))
MISSING = DATA.replace(b"cpu:1", b"tpu:1")


def load_from_file(data: bytes) -> Any:
    """Loads from an open file."""
    return jaxpickle.load(io.BytesIO(data))


def load_by_unpickler(data: bytes) -> Any:
    """Loads with an Unpickler."""
    return jaxpickle.Unpickler(io.BytesIO(data)).load()


def load_by_pickle_unpickler(data: bytes) -> Any:
    """Loads with the Unpickler of pickle, in Python."""
    return pickle._Unpickler(io.BytesIO(data)).load()  # type: ignore[attr-defined]


LOADERS = [
    jaxpickle.loads,
    load_from_file,
    load_by_unpickler,
    pickle.loads,
    cloudpickle.loads,
    load_by_pickle_unpickler,
]


@pytest.mark.versions
@pytest.mark.parametrize("load", LOADERS)
def test_block_steers_every_loader(load: Callable[[bytes], Any]) -> None:
    """It steers our own functions and other libraries', and nothing after its end."""
    assert where(load(DATA)) == ("cpu:1", True)
    with jaxpickle.placement(devices="cpu:4"):
        assert where(load(DATA)) == ("cpu:4", True)
    assert where(load(DATA)) == ("cpu:1", True)


@pytest.mark.parametrize("load", [pickle.loads, cloudpickle.loads])
def test_whole_state_runs_together_in_a_block(load: Callable[[bytes], Any]) -> None:
    """A mapping and a device, for a state that another library's loader reads."""
    mapping = {f"cpu:{i}": f"cpu:{i + 4}" for i in range(4)}
    singles = {"device": "cpu:7", "committed": ("cpu:7", True), "elsewhere": ("cpu:7", False)}
    with jaxpickle.placement(devices=mapping):
        got = report(load(stream(4)))
    uncommitted = ("cpu:4", False)
    assert got == expected(GRID[4], cpus(4, 5, 6, 7), True, uncommitted=uncommitted, **singles)
    with jaxpickle.placement(devices=DEVICES[3]):
        got = report(load(stream(4)))
    singles = dict.fromkeys(("committed", "uncommitted", "elsewhere"), ("cpu:3", True))
    assert got == expected(ONE, ["cpu:3"], True, device="cpu:3", **singles)


def test_innermost_block_wins() -> None:
    """The innermost block is in force; at its end the one around it is again."""
    with jaxpickle.placement(devices="cpu:2"):
        with jaxpickle.placement(devices="cpu:3"):
            assert where(pickle.loads(DATA)) == ("cpu:3", True)
        assert where(pickle.loads(DATA)) == ("cpu:2", True)


def test_arguments_are_inherited_one_by_one() -> None:
    """Argument by argument: what a block does not give is as outside it."""
    with jaxpickle.placement(raise_on_missing_device=False):
        with jaxpickle.placement(devices={"cpu:1": "cpu:5"}):
            assert where(pickle.loads(DATA)) == ("cpu:5", True)
            assert where(pickle.loads(MISSING)) == ("cpu:0", False)
        with jaxpickle.placement(raise_on_missing_device=True), pytest.raises(MissingDeviceError):
            pickle.loads(MISSING)
    with jaxpickle.placement(devices="cpu:2"), jaxpickle.placement(raise_on_missing_device=False):
        assert where(pickle.loads(DATA)) == ("cpu:2", True)


def test_none_is_the_table() -> None:
    """`devices=None` is the table: in a block, and in a call, inside another block."""
    with jaxpickle.placement(devices="cpu:2"):
        with jaxpickle.placement(devices=None):
            assert where(pickle.loads(DATA)) == ("cpu:1", True)
            assert where(jaxpickle.loads(DATA)) == ("cpu:1", True)
        assert where(jaxpickle.loads(DATA, devices=None)) == ("cpu:1", True)
        assert where(jaxpickle.loads(DATA)) == ("cpu:2", True)


def test_arguments_of_the_call_go_before_the_block() -> None:
    """For our own functions: the call's arguments, then the block, argument by argument."""
    with jaxpickle.placement(devices="cpu:2", raise_on_missing_device=False):
        assert where(jaxpickle.loads(DATA, devices="cpu:3")) == ("cpu:3", True)
        assert where(jaxpickle.loads(MISSING, devices=None)) == ("cpu:0", False)
        assert where(jaxpickle.loads(DATA, raise_on_missing_device=True)) == ("cpu:2", True)
        with pytest.raises(MissingDeviceError):
            jaxpickle.loads(MISSING, devices=None, raise_on_missing_device=True)


@pytest.mark.parametrize("load", [jaxpickle.loads, pickle.loads])
def test_block_ends_with_an_exception(load: Callable[[bytes], Any]) -> None:
    """After an error inside, in a load or out of one, the settings are as before."""
    with pytest.raises(MissingDeviceError), jaxpickle.placement(devices="cpu:99"):
        load(DATA)
    with pytest.raises(KeyError), jaxpickle.placement(devices="cpu:2"):
        raise KeyError
    assert where(load(DATA)) == ("cpu:1", True)


def test_wrong_argument_changes_nothing() -> None:
    """What `devices=` cannot be raises when the block begins."""
    with pytest.raises(TypeError), jaxpickle.placement(devices=3):  # type: ignore[arg-type]
        pass
    assert where(pickle.loads(DATA)) == ("cpu:1", True)


class Nested:
    """Loads another stream while it is loaded itself, with pickle or in a block."""

    def __init__(self, devices: Any = ...) -> None:
        self.devices = devices

    def __reduce__(self) -> Any:
        return load_nested, (DATA, self.devices)


def load_nested(data: bytes, devices: Any) -> Any:
    """Loads with plain pickle inside the load that calls this."""
    with jaxpickle.placement(devices=devices):
        return pickle.loads(data)


def test_load_inside_a_load() -> None:
    """A pickle inside a pickle follows the load around it, unless a block says otherwise."""
    again = jax.device_put(jnp.ones(2), DEVICES[1])
    data = jaxpickle.dumps([Nested(), Nested("cpu:6"), Nested(None), again])
    places = [where(array) for array in jaxpickle.loads(data, devices="cpu:3")]
    assert places == [("cpu:3", True), ("cpu:6", True), ("cpu:1", True), ("cpu:3", True)]
