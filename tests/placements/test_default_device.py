"""The default device: what JAX's configuration or context says, when pickling and loading."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxpickle
from placements.together import ONE, where

THIRD = jax.devices()[3]


@contextmanager
def configured(device: Any) -> Iterator[None]:
    """Sets `jax_default_device` for a block."""
    before = jax.config.jax_default_device
    jax.config.update("jax_default_device", device)
    try:
        yield
    finally:
        jax.config.update("jax_default_device", before)


@pytest.mark.versions
@pytest.mark.parametrize("default", [configured, jax.default_device], ids=["config", "context"])
@pytest.mark.parametrize(("device", "name"), [(THIRD, "cpu:3"), ("cpu", "cpu:0")])
def test_loading_follows_it(default: Any, device: Any, name: str) -> None:
    """Uncommitted arrays land where JAX would put them now, `jax.default_device` included."""
    data = jaxpickle.dumps(jnp.ones(3))
    with default(device):
        assert where(jaxpickle.loads(data)) == (name, False) == where(jnp.ones(3))
    assert where(jaxpickle.loads(data)) == ("cpu:0", False)


@pytest.mark.versions
@pytest.mark.parametrize("default", [configured, jax.default_device], ids=["config", "context"])
@pytest.mark.parametrize("device", [THIRD, "cpu"], ids=["device", "name"])
def test_pickling_follows_it(default: Any, device: Any) -> None:
    """What lies on the default device when pickled goes to the default device when loaded."""
    with default(device):
        data = jaxpickle.dumps(jnp.ones(3))
    assert where(jaxpickle.loads(data)) == ("cpu:0", False)
    with jax.default_device(jax.devices()[6]):
        assert where(jaxpickle.loads(data)) == ("cpu:6", False)


def test_made_under_another_default_and_pickled_outside() -> None:
    """Then it lies elsewhere: on the device of that name, uncommitted."""
    with jax.default_device(THIRD):
        array = jnp.ones(3)
    data = jaxpickle.dumps(array)
    assert where(jaxpickle.loads(data)) == ("cpu:3", False)
    with jax.default_device(jax.devices()[6]):
        assert where(jaxpickle.loads(data)) == ("cpu:3", False)


def test_one_array_pickled_under_two_defaults() -> None:
    """The same array is on the default device under one of them, and elsewhere under the other."""
    array = jnp.ones(3)
    at_home = jaxpickle.dumps(array)
    with jax.default_device(THIRD):
        away = jaxpickle.dumps(array)
    with jax.default_device(jax.devices()[6]):
        assert where(jaxpickle.loads(at_home)) == ("cpu:6", False)
        assert where(jaxpickle.loads(away)) == ("cpu:0", False)


def test_committed_arrays_do_not_follow_it() -> None:
    """An array committed to a device goes to that device, whatever the default one."""
    data = jaxpickle.dumps(jax.device_put(jnp.ones(3), THIRD))
    with jax.default_device(jax.devices()[6]):
        assert where(jaxpickle.loads(data)) == ("cpu:3", True)


@pytest.mark.parametrize(
    ("piece", "place"),
    [
        ("device", "cpu:6"),
        ("committed", ("cpu:6", False)),
        ("array", ((ONE, ["cpu:6"], ("x", "y")), False)),
        ("mesh", (ONE, ["cpu:6"])),
    ],
)
def test_the_fallback_is_the_default_device(
    piece: str, place: Any, states: dict[str, bytes]
) -> None:
    """A missing device becomes the default one, and meshes collapse onto it."""
    data = states[piece].replace(b"cpu:3", b"tpu:3")
    with jax.default_device(jax.devices()[6]):
        got = jaxpickle.loads(data, raise_on_missing_device=False)
    assert where(got) == place
