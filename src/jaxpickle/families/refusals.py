"""What cannot be pickled, or not yet, and is told as such instead of by what it is made of."""

from __future__ import annotations

from typing import Any

from jaxpickle._jax import arrays as private
from jaxpickle._jax import programs
from jaxpickle.errors import PicklingError
from jaxpickle.families import describes_kind

__all__: list[str] = []


@describes_kind(private.Tracer)
def _refuse_tracer(tracer: Any) -> Any:
    raise PicklingError(
        f"it is a tracer ({type(tracer).__name__} of {tracer.aval}), which stands for a value "
        "while JAX traces a function and holds none. Pickle outside of jit, grad, vmap and scan; "
        "if it was kept after tracing, return it from the function instead",
        type_name=type(tracer).__name__,
    )


@describes_kind(*programs.PROGRAMS)
def _refuse_program(program: Any) -> Any:
    raise PicklingError(
        f"a {type(program).__name__} cannot be pickled by this version of jaxpickle. Pickle the "
        "function that it was made of, with its arguments, and trace, lower or compile it anew "
        "on the other side",
        type_name=type(program).__name__,
    )


@describes_kind(*programs.CACHES)
def _refuse_cache(cache: Any) -> Any:
    raise PicklingError(
        "it is a cache of JAX, which a function made by jax.checkpoint (jax.remat) or another "
        "transformation refers to; such functions cannot travel by value in this version of "
        "jaxpickle. Define the function in a module that can be imported, or transform it inside "
        "of the function that calls it",
        type_name=type(cache).__name__,
    )
