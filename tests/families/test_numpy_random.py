"""Random number generators of numpy: what is loaded draws what the saved one would have drawn."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxpickle
from fresh import Worker
from jaxpickle.errors import CorruptError
from jaxpickle.records import build
from round_trips import round_trips

NAMES = ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"]


class Loaded(np.random.Generator):
    """A user's generator."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))


class Remembering(np.random.RandomState):
    """A user's random state with a pickle protocol of its own."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed_was = seed

    def __reduce__(self) -> Any:
        return Remembering, (self.seed_was,)


def draws(source: Any) -> list[Any]:
    """Numbers of every kind of step: 32 bits, 64 bits, and pairs of normals, of which one waits."""
    if isinstance(source, np.random.BitGenerator):
        return source.random_raw(5).tolist()  # type: ignore[no-any-return]
    integers = getattr(source, "integers", None) or source.randint
    drawn = [integers(0, 1000, dtype=np.int32) for _ in range(3)]
    return [*drawn, *source.normal(size=3), *source.random(4), integers(0, 2**40, dtype=np.int64)]


@pytest.mark.parametrize("name", NAMES)
def test_bit_generators_go_on(name: str) -> None:
    """Each kind of bit generator keeps its type, its state, and the seeds that it spawns."""
    bits = getattr(np.random, name)(7)
    bits.random_raw(3)
    copies = list(round_trips(bits))
    children = [int(child.random_raw()) for child in bits.spawn(2)]
    expected = draws(bits)
    for loaded in copies:
        assert type(loaded) is type(bits)
        assert [int(child.random_raw()) for child in loaded.spawn(2)] == children
        assert draws(loaded) == expected


@pytest.mark.parametrize("name", NAMES)
def test_generators_go_on(name: str) -> None:
    """A Generator draws on, the half of a 64-bit number that it kept back included."""
    generator = np.random.Generator(getattr(np.random, name)(7))
    generator.integers(0, 1000, dtype=np.int32)  # leaves half of 64 bits
    copies = list(round_trips(generator))
    expected = draws(generator)
    for loaded in copies:
        assert type(loaded) is np.random.Generator
        assert draws(loaded) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.RandomState(3),
        lambda: np.random.RandomState(np.random.PCG64(3)),
        lambda: np.random.RandomState(np.random.MT19937(3)),
    ],
    ids=["legacy seed", "PCG64", "MT19937"],
)
def test_random_states_go_on(make: Any) -> None:
    """A RandomState keeps its bit generator and the normal number that it has in store."""
    random = make()
    random.normal()  # makes two, and keeps one
    assert random.get_state(legacy=False)["has_gauss"] == 1
    stream = jaxpickle.dumps(random)
    copies = list(round_trips(random))
    expected = draws(random)
    for loaded in copies:
        assert type(loaded) is np.random.RandomState
        assert jaxpickle.dumps(loaded) == stream
        assert draws(loaded) == expected


def test_legacy_seed_has_no_seed_sequence() -> None:
    """A bit generator that was seeded the old way cannot spawn, before and after."""
    bits = np.random.RandomState(3)._bit_generator  # type: ignore[attr-defined]
    for loaded in round_trips(bits):
        assert loaded.seed_seq is None
        with pytest.raises(TypeError):
            loaded.spawn(1)


def test_the_global_state_travels_as_a_copy() -> None:
    """The state behind `numpy.random.normal` is saved, and loading it leaves the global alone."""
    ours = np.random.mtrand._rand  # type: ignore[attr-defined]
    before = ours.get_state(legacy=False)["state"]["pos"]
    for loaded in round_trips(ours):
        assert loaded is not ours
        loaded.random(3)
    assert ours.get_state(legacy=False)["state"]["pos"] == before


def test_shared_bit_generator_stays_shared() -> None:
    """Two generators over one bit generator draw from one sequence after the load too."""
    bits = np.random.PCG64(5)
    pair = np.random.Generator(bits), np.random.Generator(bits), bits
    for first, second, loaded in round_trips(pair):
        assert first.bit_generator is second.bit_generator is loaded
    copies = list(round_trips(pair))
    expected = [pair[0].random(), pair[1].random(), pair[0].random()]
    for first, second, _ in copies:
        assert [first.random(), second.random(), first.random()] == expected


@given(
    entropy=st.integers(0, 2**200) | st.lists(st.integers(0, 2**32), min_size=1, max_size=5),
    spawn_key=st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple),
    pool_size=st.sampled_from([4, 8]),
    spawned=st.integers(0, 3),
)
def test_seed_sequences_go_on(
    entropy: Any, spawn_key: tuple[int, ...], pool_size: int, spawned: int
) -> None:
    """A seed sequence keeps entropy, key and pool, and spawns the children that come next."""
    seeds = np.random.SeedSequence(entropy, spawn_key=spawn_key, pool_size=pool_size)
    seeds.spawn(spawned)
    copies = list(round_trips(seeds))
    state, words = seeds.state, seeds.generate_state(4).tolist()
    child = seeds.spawn(1)[0].generate_state(2).tolist()
    for loaded in copies:
        assert loaded.state == state
        assert loaded.generate_state(4).tolist() == words
        assert loaded.spawn(1)[0].generate_state(2).tolist() == child


def test_seed_sequence_shared_with_its_generator() -> None:
    """Children spawned from a generator and from its seed sequence never repeat."""
    seeds = np.random.SeedSequence(1)
    for generator, loaded in round_trips((np.random.default_rng(seeds), seeds)):
        assert generator.bit_generator.seed_seq is loaded


def test_entropy_of_an_array() -> None:
    """Entropy that was given as an array stays one."""
    seeds = np.random.SeedSequence(np.arange(3, dtype=np.uint32))
    for loaded in round_trips(seeds):
        assert type(loaded.entropy) is np.ndarray
        assert loaded.generate_state(3).tolist() == seeds.generate_state(3).tolist()


def test_users_subclasses() -> None:
    """A subclass comes back as itself, and by its own protocol where it has one."""
    for loaded in round_trips(Loaded(1)):
        assert type(loaded) is Loaded
        assert draws(loaded) == draws(Loaded(1))
    random = Remembering(4)
    random.normal()
    for loaded in round_trips(random):
        assert type(loaded) is Remembering
        assert loaded.normal() == np.random.RandomState(4).normal()


def test_equal_state_gives_equal_bytes() -> None:
    """A stream does not change through a round trip, nor with a user's equal string beside it."""
    words = ["state", "PCG64", "bit_generator"]
    graph = [np.random.default_rng(1), np.random.RandomState(2), np.random.SeedSequence(3), *words]
    data = jaxpickle.dumps(graph)
    for loaded in round_trips(graph):
        assert jaxpickle.dumps(loaded) == data


def test_fresh_interpreter_draws_the_same(worker1: Worker) -> None:
    """Plain pickle in another process goes on with every generator."""
    sources = [np.random.Generator(getattr(np.random, name)(9)) for name in NAMES]
    graph = [*sources, np.random.RandomState(9)]
    blobs = {"graph": jaxpickle.dumps(graph)}
    there = worker1.run(
        """
        import pickle
        result = [source.normal(size=3).tolist() for source in pickle.loads(blobs["graph"])]
        """,
        blobs=blobs,
    )
    assert there == [source.normal(size=3).tolist() for source in graph]


@pytest.mark.parametrize(
    "record",
    [
        ("bit_generator/1", "os.system", {}, None),
        ("bit_generator/1", int, {}, None),
        ("bit_generator/1", "PCG64", {}, np.random.SeedSequence(1)),
        ("bit_generator/1", "PCG64", np.random.SFC64(1).state, np.random.SeedSequence(1)),
        ("bit_generator/1", "PCG64", np.random.PCG64(1).state, None),
        ("bit_generator/1", "PCG64", np.random.PCG64(1).state, "seeds"),
        ("generator/1", int, np.random.PCG64(1)),
        ("generator/1", np.random.Generator, 5),
        ("random_state/1", int, np.random.PCG64(1), 0, 0.0),
        ("random_state/1", np.random.RandomState, None, 0, 0.0),
        ("random_state/1", np.random.RandomState, 5, 0, 0.0),
        ("random_state/1", np.random.RandomState, np.random.PCG64(1), 0, "x"),
        ("seed_sequence/1", int, 1, (), 4, 0),
        ("seed_sequence/1", np.random.SeedSequence, None, (), 4, 0),
        ("seed_sequence/1", np.random.SeedSequence, "entropy", (), 4, 0),
        ("seed_sequence/1", np.random.SeedSequence, 1, (), -4, 0),
    ],
)
def test_damaged_records_are_refused(record: tuple[Any, ...]) -> None:
    """A record that describes no generator raises CorruptError; none starts from a random state."""
    with pytest.raises(CorruptError):
        build(*record)
