"""A state that holds one of everything that has a place, and a report of where it all landed.

The report runs the pieces on each other, and is made of builtins, so that another interpreter
can send it back: `worker.run(IMPORT + "...")` gives a snippet the functions of this file.
"""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import jaxpickle

IMPORT = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    "from placements.together import *\n"
)

SIZES = {1: (1, 1), 2: (2, 1), 4: (2, 2), 8: (4, 2)}
"""How the mesh over so many devices is laid out; every array below can be laid over it."""

GRID = {count: {"x": x, "y": y} for count, (x, y) in SIZES.items()}
"""The same, by the names of the axes."""

ONE = GRID[1]
"""The shape of a mesh that has collapsed."""

VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)

KEYS = np.arange(16, dtype=np.uint32).reshape(8, 2)
"""Eight PRNG keys, as data."""


def grid(count: int, first: int = 0) -> Mesh:
    """Returns a mesh of axes x and y over `count` devices."""
    devices = np.array(jax.devices()[first : first + count]).reshape(SIZES[count])
    return Mesh(devices, ("x", "y"))


def make_state(count: int) -> dict[str, Any]:
    """Returns the state over the first `count` devices; what lies on one is on the last."""
    last = jax.devices()[count - 1]
    state = over_mesh(grid(count))
    with jax.default_device(last):
        elsewhere = jnp.arange(5.0)
    return {
        **state,
        "device": last,
        "committed": jax.device_put(np.arange(3.0), last),
        "uncommitted": jnp.arange(4.0),
        "elsewhere": elsewhere,
    }


@functools.cache
def stream(count: int) -> bytes:
    """Returns the state over the first `count` devices as jaxpickle writes it."""
    return jaxpickle.dumps(make_state(count))


def over_mesh(mesh: Mesh) -> dict[str, Any]:
    """Returns one of everything that is laid over a mesh."""
    sharding = NamedSharding(mesh, P("x", "y"))
    by_x, by_y = NamedSharding(mesh, P("x")), NamedSharding(mesh, P("y"))
    return {
        "mesh": mesh,
        "sharding": sharding,
        "array": jax.device_put(VALUES, sharding),
        "function": jax.jit(
            lambda a, k: 2 * a + jax.random.key_data(k)[:, :1],
            in_shardings=(sharding, by_x),
            out_shardings=by_y,
        ),
        "keys": jax.device_put(jax.random.wrap_key_data(KEYS), by_x),
        "ref": jax.new_ref(jax.device_put(VALUES, NamedSharding(mesh, P(None, "x")))),
        "struct": jax.ShapeDtypeStruct((8, 8), np.float32, sharding=sharding),
    }


def report(state: dict[str, Any]) -> dict[str, Any]:
    """Returns where each piece lies, having run them together and checked the values.

    It uses the Ref up.
    """
    got = {name: where(piece) for name, piece in state.items() if name not in ("function", "ref")}
    if "function" in state:
        out = state["function"](state["array"], state["keys"])
        np.testing.assert_array_equal(out, 2 * VALUES + KEYS[:, :1])
        got["out"] = where(out)
        state["function"].lower(state["struct"], state["keys"])
        both = state["ref"][...] + jax.device_put(VALUES, state["sharding"])
        np.testing.assert_array_equal(both, 2 * VALUES)
        got["ref"] = where(jax.freeze(state["ref"]))
        np.testing.assert_array_equal(jax.random.key_data(state["keys"]), KEYS)
    for name, size in (("committed", 3), ("uncommitted", 4), ("elsewhere", 5)):
        if name in state:
            np.testing.assert_array_equal(state[name], np.arange(size))
    return got


def where(piece: Any) -> Any:
    """Returns the place of a device, mesh, sharding, struct, array or key array."""
    if isinstance(piece, jax.Device):
        return name_of(piece)
    if isinstance(piece, Mesh):
        return dict(piece.shape), [name_of(device) for device in piece.devices.flat]
    if isinstance(piece, NamedSharding):
        return *where(piece.mesh), trimmed(piece.spec)
    if isinstance(piece, SingleDeviceSharding):
        (device,) = piece.device_set
        return name_of(device)
    if isinstance(piece, jax.ShapeDtypeStruct):
        return where(piece.sharding)
    return where(piece.sharding), piece.committed


def trimmed(spec: P) -> tuple[Any, ...]:
    """Returns the parts of a spec without those at its end that mean nothing."""
    parts = tuple(spec)
    while parts and parts[-1] is None:
        parts = parts[:-1]
    return parts


def name_of(device: jax.Device) -> str:
    """Returns the name of a device by its index in this process."""
    return f"{device.platform}:{jax.local_devices(backend=device.platform).index(device)}"


def expected(
    shape: dict[str, int], devices: list[str], is_committed: bool, /, **singles: Any
) -> dict[str, Any]:
    """Returns what `report` says if the mesh has this shape and lies on these devices.

    Args:
        shape: how many devices lie along each axis.
        devices: their names.
        is_committed: whether the arrays over it are committed.
        **singles: where the pieces on one device are.
    """
    return {
        "mesh": (shape, devices),
        "sharding": (shape, devices, ("x", "y")),
        "array": ((shape, devices, ("x", "y")), is_committed),
        "keys": ((shape, devices, ("x",)), is_committed),
        "ref": ((shape, devices, (None, "x")), True),  # JAX commits what a Ref holds
        "struct": (shape, devices, ("x", "y")),
        "out": ((shape, devices, ("y",)), True),
        **singles,
    }


def cpus(*indices: int) -> list[str]:
    """Returns the names of CPU devices."""
    return [f"cpu:{index}" for index in indices]
