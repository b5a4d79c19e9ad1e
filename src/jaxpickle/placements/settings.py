"""What one load was told: ``devices=`` and ``raise_on_missing_device=``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from jaxpickle.placements import rules

if TYPE_CHECKING:
    import jax
    from jax.sharding import Mesh

__all__ = ["TABLE", "Devices", "Settings"]

Devices: TypeAlias = "Mapping[str, str | jax.Device] | str | jax.Device | Mesh | None"
"""What ``devices=`` takes."""


@dataclass(frozen=True)
class Settings:
    """Where saved devices go, and what a missing one means.

    Args:
        devices: what the user gave; None is the table.
        raise_on_missing_device: whether a missing device is an error.

    Raises:
        TypeError: ``devices`` is none of the forms, or the other no bool.
        ValueError: a name in ``devices`` is no device name.
    """

    devices: Devices = field(default=None, compare=False)
    raise_on_missing_device: bool = True
    rules: tuple[rules.Rule, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.raise_on_missing_device, bool):
            raise TypeError(
                "raise_on_missing_device is True or False, "
                f"not a {type(self.raise_on_missing_device).__name__}"
            )
        object.__setattr__(self, "rules", rules.parse(self.devices))

    def describe(self) -> Any:
        """Return where each device name goes here, or what was given if it was no mapping."""
        if self.devices is not None and not isinstance(self.devices, Mapping):
            return self.devices
        from jaxpickle.placements.resolver import resolver_for

        return resolver_for(self).names()


TABLE = Settings()
"""Nothing given: every object goes where it was, and a missing device is an error."""
