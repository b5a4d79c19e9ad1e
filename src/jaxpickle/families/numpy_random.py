"""numpy's random number generators: their state, through their public constructors.

What shares a bit generator, or a seed sequence, shares it again when loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, RandomState, SeedSequence

from jaxpickle.families import describes_kind
from jaxpickle.families.dtypes import spelled
from jaxpickle.families.numpy_arrays import own_reduction
from jaxpickle.records import Reduced, builds, corrupt, describe

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


@describes_kind(BitGenerator)
def _reduce_bit_generator(bits: Any) -> Reduced:
    own = own_reduction(bits)
    if own is not None:
        return own
    cls = type(bits)
    name = cls.__name__
    kind = spelled(name) if _OWN.get(name) is cls else cls
    return describe("bit_generator/1", kind, _spelled(bits.state), bits.seed_seq)


@builds("bit_generator/1")
def _build_bit_generator(kind: Any, state: dict[str, Any], seed_seq: Any) -> BitGenerator:
    cls = _OWN.get(kind, kind) if isinstance(kind, str) else kind
    if not (isinstance(cls, type) and issubclass(cls, BitGenerator)):
        raise corrupt("bit_generator/1", f"names no bit generator: {kind!r:.80}")
    bits: Any = _legacy_seeded() if seed_seq is None else cls(seed_seq)
    try:
        bits.state = state
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise corrupt("bit_generator/1", f"has no state of a {cls.__name__}: {error}") from error
    return bits  # type: ignore[no-any-return]


@describes_kind(Generator)
def _reduce_generator(generator: Generator) -> Reduced:
    own = own_reduction(generator)
    if own is not None:
        return own
    return describe("generator/1", type(generator), generator.bit_generator)


@builds("generator/1")
def _build_generator(cls: Any, bits: Any) -> Generator:
    if not (isinstance(cls, type) and issubclass(cls, Generator)):
        raise corrupt("generator/1", f"names no generator: {cls!r:.80}")
    return cls(bits)


@describes_kind(RandomState)
def _reduce_random_state(random: Any) -> Reduced:
    own = own_reduction(random)
    if own is not None:
        return own
    state = random.get_state(legacy=False)
    gauss = state["has_gauss"], state["gauss"]
    return describe("random_state/1", type(random), random._bit_generator, *gauss)


@builds("random_state/1")
def _build_random_state(cls: Any, bits: Any, has_gauss: int, gauss: float) -> RandomState:
    if not (isinstance(cls, type) and issubclass(cls, RandomState)):
        raise corrupt("random_state/1", f"names no random state: {cls!r:.80}")
    random = cls(bits)
    random.set_state({**bits.state, "has_gauss": has_gauss, "gauss": gauss})
    return random


@describes_kind(SeedSequence)
def _reduce_seed_sequence(seeds: SeedSequence) -> Reduced:
    own = own_reduction(seeds)
    if own is not None:
        return own
    fields = seeds.entropy, seeds.spawn_key, seeds.pool_size, seeds.n_children_spawned
    return describe("seed_sequence/1", type(seeds), *fields)


@builds("seed_sequence/1")
def _build_seed_sequence(
    cls: Any, entropy: Any, spawn_key: Any, pool_size: int, n_children: int
) -> SeedSequence:
    if not (isinstance(cls, type) and issubclass(cls, SeedSequence)) or entropy is None:
        raise corrupt("seed_sequence/1", f"is no seed sequence: {cls!r:.80} of {entropy!r:.80}")
    try:
        return cls(entropy, spawn_key=spawn_key, pool_size=pool_size, n_children_spawned=n_children)
    except (TypeError, ValueError) as error:
        raise corrupt("seed_sequence/1", f"is no seed sequence: {error}") from error


def _legacy_seeded() -> Any:
    """Return a bit generator without a seed sequence, which only `RandomState(seed)` makes."""
    return RandomState(0)._bit_generator


def _spelled(state: Any) -> Any:
    """Return a state whose strings are those of records alone; see :func:`spelled`."""
    if isinstance(state, dict):
        return {spelled(key): _spelled(value) for key, value in state.items()}
    return spelled(state) if type(state) is str else state
