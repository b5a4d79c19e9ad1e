"""What is true of a JAX array: all that must be as before when it comes back."""

from typing import Any

import jax
import numpy as np


def bits(array: Any) -> bytes:
    """Returns the bytes of an array's values, of keys those of their data."""
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array).tobytes()


def facts(array: Any) -> dict[str, Any]:
    """Returns dtype, shape, weak type, place and values, which tell arrays apart if they differ."""
    base = array
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        base = jax.random.key_data(array)
    return {
        "class": type(array),
        "dtype": array.dtype,
        "shape": array.shape,
        "weak_type": array.aval.weak_type,
        "committed": array.committed,
        "sharding": array.sharding,
        "memory": array.sharding.memory_kind,
        "layout": base.format.layout if base.size else None,
        "shards": [(str(s.index), s.device, bits(s.data)) for s in array.addressable_shards],
    }
