"""Placement is the same by every way in which a state travels."""

import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import jax
import numpy as np
import pytest

import jaxpickle
from placements.together import GRID, cpus, expected, make_state, report
from round_trips import PROTOCOLS, out_of_band, round_trips, sent

AS_SAVED = expected(
    GRID[4],
    cpus(0, 1, 2, 3),
    True,
    device="cpu:3",
    committed=("cpu:3", True),
    uncommitted=("cpu:0", False),
    elsewhere=("cpu:3", False),
)

MOVED = expected(
    GRID[4],
    cpus(7, 6, 5, 4),
    True,
    device="cpu:4",
    committed=("cpu:4", True),
    uncommitted=("cpu:7", False),
    elsewhere=("cpu:4", False),
)
MAPPING = {f"cpu:{index}": f"cpu:{7 - index}" for index in range(4)}


@pytest.mark.versions
def test_each_protocol_in_band_and_out_of_band() -> None:
    """Protocols 2 to 5, with buffers and without, by our own loader and by plain pickle."""
    for got in round_trips(make_state(4)):
        assert report(got) == AS_SAVED


@pytest.mark.parametrize("load", [jaxpickle.loads, pickle.loads, cloudpickle.loads])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_moved_by_each_protocol(protocol: int, load: Callable[[bytes], Any]) -> None:
    """A mapping holds for each protocol and each loader."""
    data = jaxpickle.dumps(make_state(4), protocol)
    with jaxpickle.placement(devices=MAPPING):
        assert report(load(data)) == MOVED


@pytest.mark.parametrize("load", [jaxpickle.loads, pickle.loads, cloudpickle.loads])
def test_moved_out_of_band(load: Callable[..., Any]) -> None:
    """Buffers that came by themselves land where the stream's record says."""
    values = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    sharding = make_state(4)["sharding"]
    data, buffers = out_of_band(jax.device_put(values, sharding))
    assert sum(len(buffer.raw()) for buffer in buffers) == values.nbytes
    with jaxpickle.placement(devices=MAPPING):
        got = load(data, buffers=[sent(buffer) for buffer in buffers])
    assert {device.id for device in got.devices()} == {4, 5, 6, 7}
    np.testing.assert_array_equal(got, values)
