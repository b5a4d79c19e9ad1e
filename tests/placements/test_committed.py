"""Committed or not, and where: each kind of array under each form of `devices=`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxpickle
from placements.together import where

SECOND = jax.devices()[2]

MISSING = "tpu:2"


def committed() -> jax.Array:
    """Returns an array committed to a device."""
    return jax.device_put(jnp.arange(3.0), SECOND)


def uncommitted() -> jax.Array:
    """Returns an array where JAX put it, on the default device."""
    return jnp.arange(3.0)


def elsewhere() -> jax.Array:
    """Returns an array that is not committed, on a device that is not the default one."""
    with jax.default_device(SECOND):
        return jnp.arange(3.0)


CASES = [
    (committed, None, ("cpu:2", True)),
    (committed, {"cpu:2": "cpu:5"}, ("cpu:5", True)),
    (committed, {"cpu:2": "default"}, ("cpu:0", False)),
    (committed, {"cpu:0": "cpu:5"}, ("cpu:2", True)),
    (committed, "cpu:5", ("cpu:5", True)),
    (committed, "default", ("cpu:0", False)),
    (uncommitted, None, ("cpu:0", False)),
    (uncommitted, {"cpu:0": "cpu:5"}, ("cpu:5", False)),
    (uncommitted, {"cpu": "default"}, ("cpu:0", False)),
    (uncommitted, "cpu:5", ("cpu:5", True)),
    (uncommitted, "cpu", ("cpu:0", True)),
    (elsewhere, None, ("cpu:2", False)),
    (elsewhere, {"cpu:2": "cpu:5"}, ("cpu:5", False)),
    (elsewhere, {"cpu:2": "default"}, ("cpu:0", False)),
    (elsewhere, "cpu:5", ("cpu:5", True)),
]


@pytest.mark.versions
@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize(("make", "devices", "place"), CASES)
def test_where_and_whether_committed(
    make: Callable[[], jax.Array], devices: Any, place: tuple[str, bool], protocol: int
) -> None:
    """The table, a mapping (uncommitted stays uncommitted), a device (all is committed)."""
    assert where(jaxpickle.loads(jaxpickle.dumps(make(), protocol), devices=devices)) == place


@pytest.mark.parametrize(
    ("make", "devices", "place"),
    [
        (committed, None, ("cpu:0", False)),
        (committed, {MISSING: "cpu:5"}, ("cpu:5", True)),
        (elsewhere, None, ("cpu:0", False)),
        (elsewhere, {MISSING: "cpu:5"}, ("cpu:5", False)),
        (elsewhere, "cpu:5", ("cpu:5", True)),
    ],
)
def test_saved_device_is_not_here(
    make: Callable[[], jax.Array], devices: Any, place: tuple[str, bool]
) -> None:
    """The fallback is uncommitted; a rule for the missing device goes before it."""
    data = jaxpickle.dumps(make()).replace(b"cpu:2", MISSING.encode())
    assert where(jaxpickle.loads(data, devices=devices, raise_on_missing_device=False)) == place


def test_uncommitted_elsewhere_is_never_an_error() -> None:
    """Where its device is not here: the default device, with no fallback asked for."""
    data = jaxpickle.dumps(elsewhere()).replace(b"cpu:2", MISSING.encode())
    assert where(jaxpickle.loads(data)) == ("cpu:0", False)


def test_target_missing_for_an_array_elsewhere() -> None:
    """The fallback of a missing target is the default device, also where the saved one is here."""
    got = jaxpickle.loads(
        jaxpickle.dumps(elsewhere()), devices={"cpu:2": "cpu:99"}, raise_on_missing_device=False
    )
    assert where(got) == ("cpu:0", False)


def test_sharded_array_over_its_own_devices_stays_committed() -> None:
    """`"default"` for one device of a mesh frees nothing that still spans several."""
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    data = jaxpickle.dumps(jax.device_put(jnp.arange(4.0), sharding))
    got = jaxpickle.loads(data, devices={"cpu:0": "default"})
    assert got.sharding == sharding
    assert got.committed


def test_uncommitted_arrays_mix() -> None:
    """An array that fell back works with arrays anywhere, as an uncommitted one does."""
    data = jaxpickle.dumps(committed()).replace(b"cpu:2", MISSING.encode())
    got = jaxpickle.loads(data, raise_on_missing_device=False)
    total = got + jax.device_put(jnp.ones(3), jax.devices()[6])
    assert where(total) == ("cpu:6", True)
