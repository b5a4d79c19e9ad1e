"""Streams that several files of placement tests share."""

import pytest

import jaxpickle
from placements.together import make_state


@pytest.fixture(scope="session")
def states() -> dict[str, bytes]:
    """Each piece of the state over four devices, pickled by itself."""
    return {name: jaxpickle.dumps(piece) for name, piece in make_state(4).items()}
