"""What JAX compares by identity: its sentinels."""

from __future__ import annotations

from typing import Any

import jax
from jax._src import layout, named_sharding

__all__ = ["SENTINELS"]

SENTINELS: dict[str, Any] = {
    "unconstrained": jax.sharding.PartitionSpec.UNCONSTRAINED,
    "unspecified": named_sharding.UNSPECIFIED,
    "auto_layout": layout.Layout.AUTO,
}
"""Each sentinel by the name that streams give it."""
