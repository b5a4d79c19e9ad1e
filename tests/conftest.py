"""JAX as the tests see it (eight CPU devices), and the interpreters that they share."""

import os
from collections.abc import Iterator

# Before anything imports JAX: it reads them once.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import pytest
from hypothesis import settings

from fresh import Worker

# No deadline: the first example of a property pays for JAX's compilation.
# In CI the examples are the same every time, so that a red run can be repeated.
settings.register_profile("jaxpickle", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("jaxpickle")


@pytest.fixture(scope="session")
def worker1() -> Iterator[Worker]:
    """A fresh interpreter with one device."""
    with Worker(devices=1) as worker:
        yield worker


@pytest.fixture(scope="session")
def worker2() -> Iterator[Worker]:
    """A fresh interpreter with two devices."""
    with Worker(devices=2) as worker:
        yield worker


@pytest.fixture(scope="session")
def worker4() -> Iterator[Worker]:
    """A fresh interpreter with four devices."""
    with Worker(devices=4) as worker:
        yield worker


@pytest.fixture(scope="session")
def worker8() -> Iterator[Worker]:
    """A fresh interpreter with eight devices."""
    with Worker(devices=8) as worker:
        yield worker
