"""Damaged streams: an error, never a crash, whatever happened to the bytes."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import jaxpickle
from fresh import Worker
from jaxpickle.errors import CorruptError, UnpicklingError
from round_trips import PROTOCOLS, out_of_band, sent


def state() -> Any:
    """Returns a small state with one object of each kind that holds data or a place."""
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    array = jax.device_put(jnp.arange(4, dtype="int16"), sharding)
    return {
        "arrays": [jnp.arange(3.0), array, jnp.ones((2, 0), "bfloat16")],
        "key": jax.random.key(3),
        "ref": jax.new_ref(jnp.arange(2)),
        "struct": jax.ShapeDtypeStruct((2,), jnp.float32, sharding=sharding),
        "tree": jax.tree.structure([1, (2, None)]),
        "numpy": [np.arange(3), np.float32(2)],
        "function": jnp.tanh,
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_truncated_streams_are_corrupt(protocol: int) -> None:
    """Cut anywhere, a stream raises CorruptError; without a byte, EOFError as pickle does."""
    data = jaxpickle.dumps(state(), protocol)
    for length in range(1, len(data)):
        with pytest.raises(CorruptError):
            jaxpickle.loads(data[:length])
    for load in (jaxpickle.loads, lambda empty: jaxpickle.load(io.BytesIO(empty))):
        with pytest.raises(EOFError):
            load(b"")


def test_truncated_files_are_corrupt(tmp_path: Path) -> None:
    """The same of a file on disk, with a whole object before the broken one."""
    data = jaxpickle.dumps([1, jnp.arange(50_000)])
    path = tmp_path / "file"
    for length in (1, 30, 150, 70_000, len(data) - 1):
        path.write_bytes(jaxpickle.dumps("whole") + data[:length])
        with path.open("rb") as file:
            assert jaxpickle.load(file) == "whole"
            with pytest.raises(CorruptError):
                jaxpickle.load(file)


@pytest.mark.parametrize(
    "data",
    [b"\0", b"no pickle", b"\x80\x05", bytes(100), b"."],
)
def test_what_is_no_pickle_is_corrupt(data: bytes) -> None:
    """Other files, and the beginning of nothing, are refused as damaged."""
    with pytest.raises(CorruptError):
        jaxpickle.loads(data)


def test_zip_files_are_refused() -> None:
    """A file of another format that begins like a pickle with persistent ids is refused too."""
    with pytest.raises(UnpicklingError):
        jaxpickle.loads(b"PK\3\4" + bytes(50))


FUZZ = """
    import random, resource
    import jax, numpy as np
    import jaxpickle

    # What asks for absurd amounts of memory gets a MemoryError, not the machine's last byte.
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**31, limits[1]))

    data, buffers, chance = blobs["data"], blobs["buffers"], random.Random(blobs["seed"])

    def damaged():
        for at in range(len(data)):
            for byte in (data[at] ^ 1 << chance.randrange(8), chance.randrange(256)):
                yield data[:at] + bytes([byte]) + data[at + 1:]
        for _ in range(1000):
            broken = bytearray(data)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(broken))
                change = chance.choice(["set", "cut", "insert", "move"])
                if change == "set":
                    broken[at] = chance.randrange(256)
                elif change == "cut":
                    del broken[at:at + chance.randrange(8)]
                elif change == "insert":
                    broken[at:at] = chance.randbytes(chance.randrange(8))
                else:
                    start = chance.randrange(len(broken))
                    broken[at:at] = broken[start:start + 16]
            yield bytes(broken)

    def touch(obj):
        for leaf in jax.tree.leaves(obj):
            if isinstance(leaf, jax.Array) and not isinstance(leaf, jax.Ref):
                repr(leaf)

    result = {}
    try:
        for broken in damaged():
            try:
                touch(jaxpickle.loads(broken, buffers=iter(buffers)))
                name = "loaded"
            except Exception as error:
                name = type(error).__name__
            result[name] = result.get(name, 0) + 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
"""


@pytest.fixture(scope="module")
def victim() -> Iterator[Worker]:
    """An interpreter of its own, since it may well die."""
    with Worker(devices=2) as worker:
        yield worker


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's limits")
@pytest.mark.parametrize("way", ["protocol 2", "protocol 5", "out of band"])
def test_damage_never_crashes_the_interpreter(way: str, victim: Worker) -> None:
    """Every byte flipped, and thousands of random changes: exceptions at worst, no signal."""
    data, buffers = jaxpickle.dumps(state(), 2 if way == "protocol 2" else 5), []
    if way == "out of band":
        data, buffers = out_of_band([jnp.arange(3000), jax.random.split(jax.random.key(0), 900)])
        assert len(buffers) == 2
    got = victim.run(
        FUZZ,
        blobs={"data": data, "buffers": [sent(buffer) for buffer in buffers], "seed": way},
    )
    assert sum(got.values()) >= 1000 + 2 * len(data)
    assert got["CorruptError"] > 200
    assert got["loaded"] > 50


def test_the_fuzzer_sees_a_crash() -> None:
    """An interpreter that dies in a load fails the test above."""
    with Worker(devices=1) as worker, pytest.raises(AssertionError, match="died"):
        worker.run("import pickle; pickle.loads(b'cos\\nabort\\n)R.')")
