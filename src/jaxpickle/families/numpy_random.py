"""numpy's random number generators: their state, through their public constructors.

What shares a bit generator, or a seed sequence, shares it again when loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, RandomState, SeedSequence

from jaxpickle.families import describes_kind
from jaxpickle.families.numpy_arrays import own_reduction
from jaxpickle.records import Reduced, builds, corrupt, describe, own

__all__: list[str] = []

_OWN = {
    cls.__name__: cls
    for cls in (
        np.random.MT19937,
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
    )
}
_REFUSALS = (TypeError, ValueError, KeyError, IndexError, OverflowError)
"""What numpy raises for fields that are no state."""


@describes_kind(BitGenerator)
def _reduce_bit_generator(bits: Any) -> Reduced:
    cls = type(bits)
    name = cls.__name__
    kind = own(name) if _OWN.get(name) is cls else cls
    return own_reduction(bits) or describe(
        "bit_generator/1", kind, _owned(bits.state), bits.seed_seq
    )


@builds("bit_generator/1")
def _build_bit_generator(kind: Any, state: dict[str, Any], seed_seq: Any) -> BitGenerator:
    cls: Any = _OWN.get(kind) if isinstance(kind, str) else kind
    _check_class("bit_generator/1", cls, BitGenerator)
    try:
        bits: BitGenerator = _legacy_seeded() if seed_seq is None else cls(seed_seq)
        bits.state = state
    except _REFUSALS as error:
        raise corrupt("bit_generator/1", f"has no state of a {cls.__name__}: {error}") from error
    return bits


@describes_kind(Generator)
def _reduce_generator(generator: Generator) -> Reduced:
    fields = type(generator), generator.bit_generator
    return own_reduction(generator) or describe("generator/1", *fields)


@builds("generator/1")
def _build_generator(cls: Any, bits: Any) -> Generator:
    _check_class("generator/1", cls, Generator)
    _check_class("generator/1", type(bits), BitGenerator)
    generator: Generator = cls.__new__(cls)
    Generator.__init__(generator, bits)  # a subclass's own may want other arguments
    return generator


@describes_kind(RandomState)
def _reduce_random_state(random: Any) -> Reduced:
    state = random.get_state(legacy=False)
    fields = type(random), random._bit_generator, state["has_gauss"], state["gauss"]
    return own_reduction(random) or describe("random_state/1", *fields)


@builds("random_state/1")
def _build_random_state(cls: Any, bits: Any, has_gauss: int, gauss: float) -> RandomState:
    _check_class("random_state/1", cls, RandomState)
    _check_class("random_state/1", type(bits), BitGenerator)
    random: RandomState = cls.__new__(cls)
    RandomState.__init__(random, bits)
    try:
        random.set_state({**bits.state, "has_gauss": has_gauss, "gauss": gauss})
    except _REFUSALS as error:
        raise corrupt("random_state/1", f"has no state: {error}") from error
    return random


@describes_kind(SeedSequence)
def _reduce_seed_sequence(seeds: SeedSequence) -> Reduced:
    fields = seeds.entropy, seeds.spawn_key, seeds.pool_size, seeds.n_children_spawned
    return own_reduction(seeds) or describe("seed_sequence/1", type(seeds), *fields)


@builds("seed_sequence/1")
def _build_seed_sequence(
    cls: Any, entropy: Any, spawn_key: Any, pool_size: int, n_children: int
) -> SeedSequence:
    _check_class("seed_sequence/1", cls, SeedSequence)
    if entropy is None:
        raise corrupt("seed_sequence/1", "has no entropy")
    seeds: SeedSequence = cls.__new__(cls)
    try:
        SeedSequence.__init__(
            seeds,
            entropy,
            spawn_key=spawn_key,
            pool_size=pool_size,
            n_children_spawned=n_children,
        )
    except _REFUSALS as error:
        raise corrupt("seed_sequence/1", f"is no seed sequence: {error}") from error
    return seeds


def _check_class(tag: str, cls: Any, base: type) -> None:
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise corrupt(tag, f"names no {base.__name__}: {cls!r:.80}")


def _legacy_seeded() -> Any:
    """Return a bit generator without a seed sequence, which only ``RandomState(seed)`` makes."""
    return RandomState(0)._bit_generator


def _owned(state: Any) -> Any:
    """Return a state whose strings are those of records alone; see :func:`own`."""
    if isinstance(state, dict):
        return {own(key): _owned(value) for key, value in state.items()}
    return own(state) if type(state) is str else state
