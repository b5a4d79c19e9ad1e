"""The README's table of what becomes of an object, each cell done over."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fresh
from fresh import Worker

README = Path(__file__).resolve().parent.parent / "README.md"
TOOLS = ("pickle", "cloudpickle", "jaxpickle")

# One object of each row, made in the `__main__` of an interpreter of its own, and pickled thrice.
PICKLE = """
import dataclasses, importlib
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.reshape(jax.devices(), (4, 2)), ("x", "y"))
sharding = NamedSharding(mesh, P("x", "y"))

def closure(number):
    return jax.jit(lambda x: x + number, out_shardings=sharding)

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Point:
    x: object

objects = {
    "an array on device 3": [jax.device_put(jnp.ones(3), jax.devices()[3])],
    "an array sharded over 8 devices": [jax.device_put(jnp.ones((4, 4)), sharding)],
    "a `Device`": [jax.devices()[3]],
    "a `Mesh` or `NamedSharding`": [mesh, sharding],
    "a jitted closure with shardings": [closure(1)],
    "a pytree class of a notebook": [Point(1)],
}

def pickled(tool, obj):
    try:
        return importlib.import_module(tool).dumps(obj)
    except Exception as error:
        return None

result = {
    (row, tool): [pickled(tool, obj) for obj in variants]
    for row, variants in objects.items() for tool in blobs["tools"]
}
"""

# What each has become in another interpreter, in the words of the table.
UNPICKLE = """
import importlib
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.reshape(jax.devices(), (4, 2)), ("x", "y"))
sharding = NamedSharding(mesh, P("x", "y"))

def array(x):
    if x.sharding == sharding:
        return f"sharded over the same {len(x.devices())}"
    (device,) = x.devices()
    return f"on device {device.id}"

def device(x):
    return "the same device" if x is jax.devices()[3] else "another device"

def equal(x):
    return "an equal one" if x in (mesh, sharding) else "another one"

def function(f):
    return "runs, with its shardings" if f(jnp.ones((4, 4))).sharding == sharding else "runs"

def node(x):
    return "a leaf, no pytree" if jax.tree.leaves(x) == [x] else "a pytree"

words = {
    "an array on device 3": array,
    "an array sharded over 8 devices": array,
    "a `Device`": device,
    "a `Mesh` or `NamedSharding`": equal,
    "a jitted closure with shardings": function,
    "a pytree class of a notebook": node,
}

def outcome(row, tool, data):
    if data is None:
        return "fails"
    try:
        obj = importlib.import_module(tool).loads(data)
    except Exception as error:
        return "fails"
    return words[row](obj)

result = {
    (row, tool): sorted({outcome(row, tool, data) for data in variants})
    for (row, tool), variants in blobs["pickled"].items()
}
"""


def table() -> dict[tuple[str, str], str]:
    """The cells, by the heads of their row and column."""
    lines = README.read_text().splitlines()
    start = lines.index("| | `pickle` | `cloudpickle` | `jaxpickle` |")
    cells = {}
    for line in lines[start + 2 : lines.index("", start)]:
        row, *outcomes = (cell.strip() for cell in line.strip("|").split("|"))
        cells.update({(row, tool): said for tool, said in zip(TOOLS, outcomes, strict=True)})
    return cells


@pytest.fixture(scope="module")
def outcomes(worker8: Worker) -> Mapping[tuple[str, str], list[str]]:
    """What becomes of each object, carried by each tool from one interpreter to another."""
    pickled: Any = worker8.run(PICKLE, blobs={"tools": TOOLS})
    found: dict[tuple[str, str], list[str]] = {}
    # Ours in an interpreter of its own: a class that cloudpickle brought would be there already.
    for tools in (TOOLS[:2], TOOLS[2:]):
        theirs = {key: variants for key, variants in pickled.items() if key[1] in tools}
        found |= fresh.run(UNPICKLE, blobs={"pickled": theirs})
    return found


def test_the_table_has_all_rows(outcomes: Mapping[tuple[str, str], list[str]]) -> None:
    """What is checked is what is written."""
    assert table().keys() == outcomes.keys()


@pytest.mark.parametrize(("row", "tool"), table())
def test_cell(row: str, tool: str, outcomes: Mapping[tuple[str, str], list[str]]) -> None:
    """Every object of the row comes out as the cell says."""
    assert outcomes[row, tool] == [table()[row, tool]]
