"""Graphs of objects: what comes back has the same shape, types, sharing and cycles."""

import functools
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

import graph_classes
import jaxpickle
from fresh import Worker
from graph_classes import OPEN, picture
from round_trips import out_of_band, sent


@functools.cache
def leaves() -> list[Any]:
    """Returns arrays and other leaves; a graph may use each of them several times."""
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
    return [
        jnp.arange(3.0),
        jnp.asarray(1.0),
        jax.device_put(jnp.arange(2000), jax.devices()[1]),
        jax.device_put(jnp.arange(4000, dtype="bfloat16"), NamedSharding(mesh, PartitionSpec("x"))),
        jax.random.key(3),
        np.arange(5),
        np.arange(3000.0),
        jnp.zeros((0, 2)),
        None,
        True,
        3,
        2.5,
        "text",
    ]


KINDS = ("list", "dict", "tuple", "frozenset", "set", *OPEN)
KEYS = ("left", "right", 0, 1.5, None, ("a", 1), "x")


@st.composite
def graphs(draw: st.DrawFn) -> Any:
    """Makes a graph: nodes that refer to any other node, later ones and themselves included."""
    count = draw(st.integers(1, 12))
    nodes: list[Any] = list(leaves())
    fresh: list[Any] = []
    for _ in range(count):
        kind = draw(st.sampled_from(KINDS))
        if kind == "tuple":
            # Cannot be changed: of nodes that exist. Cycles go through one that can.
            parts = draw(st.lists(st.integers(0, len(nodes) - 1), max_size=4))
            node: Any = tuple(nodes[i] for i in parts)
        elif kind in ("set", "frozenset"):
            items = draw(st.sets(st.integers(-5, 5) | st.text(max_size=3), max_size=4))
            node = items if kind == "set" else frozenset(items)
        else:
            node = {"list": list, "dict": dict}.get(kind, kind)()
        nodes.append(node)
        fresh.append(node)
    places = st.integers(0, len(nodes) - 1)
    for node in fresh:
        if type(node) is list:
            node.extend(nodes[i] for i in draw(st.lists(places, max_size=4)))
        elif type(node) is dict:
            for key in draw(st.lists(st.sampled_from(KEYS), max_size=4, unique=True)):
                node[key] = nodes[draw(places)]
        elif type(node) in OPEN:
            node.left, node.right = nodes[draw(places)], nodes[draw(places)]
    root = draw(st.sampled_from(fresh))
    return draw(st.sampled_from([root, fresh]))


@given(graphs(), st.integers(2, 5))
@settings(max_examples=60)
def test_graphs_come_back_isomorphic(graph: Any, protocol: int) -> None:
    """Types, values, sharing and cycles are the same, in band and out of band."""
    expected = picture(graph)
    data = jaxpickle.dumps(graph, protocol)
    assert picture(jaxpickle.loads(data)) == expected
    assert picture(pickle.loads(data)) == expected
    data, buffers = out_of_band(graph)
    assert picture(jaxpickle.loads(data, buffers=buffers)) == expected
    assert picture(graph) == expected  # the original is as it was


@given(graphs())
@settings(max_examples=20)
def test_loaded_graphs_can_be_saved_again(graph: Any) -> None:
    """What was loaded is as good as the original: it travels on."""
    once = jaxpickle.loads(jaxpickle.dumps(graph))
    twice = jaxpickle.loads(jaxpickle.dumps(once))
    assert picture(twice) == picture(graph)


class _Sampled:
    """Keeps the graphs that hypothesis makes, to send many of them to one interpreter."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def fill(self, count: int) -> list[Any]:
        """Returns some graphs."""

        @given(graphs())
        @settings(max_examples=count, database=None)
        def keep(graph: Any) -> None:
            self.graphs.append(graph)

        keep()
        return self.graphs


@pytest.mark.parametrize("by_value", [False, True], ids=["importable", "by value"])
def test_graphs_in_a_fresh_interpreter(by_value: bool, worker2: Worker) -> None:
    """Another process, which finds the classes by name or gets them by value, sees the same."""
    import cloudpickle

    sample = _Sampled().fill(25)
    folder = str(Path(graph_classes.__file__).parent)
    if by_value:
        cloudpickle.register_pickle_by_value(graph_classes)
    try:
        data, buffers = out_of_band((sample, picture))
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(graph_classes)
    got = worker2.run(
        """
        import sys
        import jaxpickle
        if not blobs["by_value"]:
            sys.path.append(blobs["folder"])
        try:
            graphs, picture = jaxpickle.loads(blobs["data"], buffers=blobs["buffers"])
            assert ("graph_classes" in sys.modules) is not blobs["by_value"]
            result = [picture(graph) for graph in graphs]
        finally:
            sys.modules.pop("graph_classes", None)
            if not blobs["by_value"]:
                sys.path.remove(blobs["folder"])
        """,
        blobs={
            "data": data,
            "buffers": [sent(buffer) for buffer in buffers],
            "by_value": by_value,
            "folder": folder,
        },
    )
    for theirs, graph in zip(got, sample, strict=True):
        assert theirs == picture(graph)


def test_pictures_tell_graphs_apart() -> None:
    """The comparison above sees sharing, types, values, places and cycles."""
    array, twin = jnp.arange(3.0), jnp.arange(3.0)
    cycle: list[Any] = []
    cycle.append(cycle)
    different = [
        [array, array],
        [array, twin],
        (array, array),
        [array, array + 1],
        [array, jax.device_put(array, jax.devices()[0])],
        [array, jax.device_put(array, jax.devices()[1])],
        [array, np.arange(3.0)],
        cycle,
        [[]],
        [cycle],
        {"left": None, "right": None},
        graph_classes.Plain(),
        graph_classes.Slotted(),
    ]
    pictures = [picture(graph) for graph in different]
    assert all(pictures.count(one) == 1 for one in pictures)
    assert picture([array, array]) == picture([twin, twin])


def test_cycles_through_every_kind() -> None:
    """An object that holds itself, or is held by what it holds, comes back so."""
    for cls in (*OPEN, list, dict):
        obj: Any = cls()
        if cls is list:
            obj.extend([(obj, jnp.ones(2)), {"again": obj}])
        elif cls is dict:
            obj.update(left=(obj, jnp.ones(2)), right=[obj])
        else:
            obj.left, obj.right = (obj, jnp.ones(2)), {"again": [obj]}
        for protocol in (2, 5):
            assert picture(jaxpickle.loads(jaxpickle.dumps(obj, protocol))) == picture(obj)
