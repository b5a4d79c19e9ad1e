"""Tracers: never data, always a mistake, and told as such."""

from __future__ import annotations

from typing import Any

from jaxpickle._jax import arrays as private
from jaxpickle.errors import PicklingError
from jaxpickle.families import describes_kind

__all__: list[str] = []


@describes_kind(private.Tracer)
def _refuse(tracer: Any) -> Any:
    raise PicklingError(
        f"it is a tracer ({type(tracer).__name__} of {tracer.aval}), which stands for a value "
        "while JAX traces a function and holds none. Pickle outside of jit, grad, vmap and scan; "
        "if it was kept after tracing, return it from the function instead",
        type_name=type(tracer).__name__,
    )
