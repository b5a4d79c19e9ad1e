"""Warnings: once in a load of ours, once in a process elsewhere."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import fresh
import jaxpickle
from jaxpickle.errors import JaxPickleWarning, PlacementWarning
from jaxpickle.placements import session
from placements.together import grid


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been warned of in this process."""
    monkeypatch.setattr(session, "_warned", set())


def odd_arrays() -> bytes:
    """Returns a stream of arrays, each of which no mesh of three can take as it is."""
    sharding = NamedSharding(grid(2), P("x"))
    return jaxpickle.dumps([jax.device_put(np.ones((n, 5)), sharding) for n in (2, 4, 8)])


def odd_memory() -> bytes:
    """Returns a stream of shardings and arrays in a memory that no device here has."""
    kind = NamedSharding(grid(2), P("x"), memory_kind="pinned_host")
    one = jax.sharding.SingleDeviceSharding(jax.devices()[1], memory_kind="pinned_host")
    arrays = [jax.device_put(np.ones(2), one), jax.device_put(np.ones(2), kind)]
    return jaxpickle.dumps([kind, one, *arrays]).replace(b"pinned_host", b"pinned_toes")


MESH = jax.make_mesh((3,), ("x",), devices=jax.devices()[:3])
CASES = [(odd_arrays, MESH), (odd_memory, None)]


def warned_of(load: Callable[..., Any], data: bytes, **options: Any) -> int:
    """Returns how many warnings of ours a load gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(data, **options)
    assert {entry.category for entry in caught} <= {PlacementWarning}
    return len(caught)


@pytest.mark.usefixtures("new_process")
@pytest.mark.parametrize(("make", "devices"), CASES)
def test_once_per_load_of_ours(make: Callable[[], bytes], devices: Any) -> None:
    """A warning comes once per call of our own load, for all that it concerns."""
    data = make()
    assert [warned_of(jaxpickle.loads, data, devices=devices) for _ in range(3)] == [1, 1, 1]


@pytest.mark.usefixtures("new_process")
@pytest.mark.parametrize(("make", "devices"), CASES)
def test_once_per_process_elsewhere(make: Callable[[], bytes], devices: Any) -> None:
    """Inside another library's loads, whose beginning nobody sees: once per process."""
    data = make()
    with jaxpickle.placement(devices=devices):
        assert [warned_of(pickle.loads, data) for _ in range(3)] == [1, 0, 0]
        assert warned_of(jaxpickle.loads, data) == 1


def test_warning_is_ours() -> None:
    """It is a `PlacementWarning`, a kind of `JaxPickleWarning`, and says what became of it."""
    with pytest.warns(
        JaxPickleWarning, match=r"cpu:0 has no memory of kind 'pinned_toes'.*'device'"
    ):
        jaxpickle.loads(odd_memory())


def test_no_warning_without_a_reason() -> None:
    """A load in which all lands as it was gives none."""
    assert warned_of(jaxpickle.loads, odd_arrays()) == 0


@pytest.mark.versions
def test_once_in_a_fresh_process() -> None:
    """Two plain loads of 64-bit arrays in a process without them: one warning, from the first."""
    code = """
    import pickle, warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counts = []
        for _ in range(2):
            pickle.loads(blobs["data"])
            counts.append(len(caught))
    result = counts
    """
    with jax.enable_x64(True):
        data = jaxpickle.dumps([jax.numpy.ones(2), jax.numpy.zeros(3)])
    assert fresh.run(code, blobs={"data": data}, devices=1) == [1, 1]
