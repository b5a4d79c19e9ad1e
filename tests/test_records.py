"""Records: tags, versions, and what an unknown or damaged one gives."""

import pickle

import jax.numpy as jnp
import pytest

import jaxpickle
from jaxpickle import records
from jaxpickle.errors import CorruptError, VersionError


def test_a_stream_names_one_entry_point() -> None:
    """All that a stream of JAX objects imports is ``jaxpickle.records.build``."""
    found = []

    class Watching(jaxpickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            found.append((module, name))
            return super().find_class(module, name)

    import io

    import jax

    state = [jnp.ones(2000), jax.devices()[3], jnp.tanh, jax.random.key(1)]
    Watching(io.BytesIO(jaxpickle.dumps(state))).load()
    assert set(found) == {("jaxpickle.records", "build")}


def test_an_unknown_tag_is_a_version_error() -> None:
    """A record of a newer jaxpickle is refused by its name, with the remedy."""
    stream = pickle.dumps(_Record("array/99"))
    with pytest.raises(VersionError, match=r"'array/99'.*pip install -U jaxpickle") as caught:
        jaxpickle.loads(stream)
    assert caught.value.names == ("array/99",)
    with pytest.raises(VersionError):
        pickle.loads(pickle.dumps(_Record("hologram/1")))


def test_fields_that_contradict_each_other_are_corrupt() -> None:
    """A record whose bytes do not fit its shape is refused, by the name of its tag."""
    place = (("single", "cpu:0", "default"), "default", None)
    stream = pickle.dumps(_Record("array/1", ("float32", (3,), False), place, b"\0" * 8))
    with pytest.raises(CorruptError, match=r"'array/1' has 8 bytes"):
        jaxpickle.loads(stream)


def test_fill_finds_its_filler() -> None:
    """The second entry point sets state by tag, and refuses tags that it does not know."""
    with pytest.raises(VersionError, match="array/1"):
        records.fill(object(), ("array/1",))


def test_own_strings_are_equal_and_never_the_same() -> None:
    """A description's string equals the user's, is not it, and is one object in a process."""
    text = "data_axis"
    assert records.own(text) == text
    assert records.own(text) is not text
    assert records.own(text) is records.own("data_" + "axis")


class _Record:
    """Pickles as a record with the given tag and fields."""

    def __init__(self, *record: object) -> None:
        self.record = record

    def __reduce__(self) -> tuple[object, ...]:
        return records.build, self.record
