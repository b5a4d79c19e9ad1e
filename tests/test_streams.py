"""Streams and files: whatever can be written to and read from, in band and out of band."""

import gzip
import io
import mmap
import os
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import fresh
import jaxpickle
from array_facts import bits, facts
from jaxpickle.errors import CorruptError, UnpicklingError
from jaxpickle.families.buffers import IN_BAND
from round_trips import PROTOCOLS, out_of_band


def spread(array: Any) -> Any:
    """Returns an array laid over eight devices."""
    return jax.device_put(array, NamedSharding(jax.make_mesh((8,), ("x",)), PartitionSpec("x")))


def objects() -> list[Any]:
    """Returns what the files below hold, one after another."""
    array = jnp.arange(50_000)
    return [jnp.arange(3), {"rows": spread(jnp.arange(16_000)), "both": [array, array]}, 7]


def same(loaded: list[Any]) -> bool:
    """Says whether what was read is what `objects` returns."""
    first, second, third = objects()
    return (
        facts(loaded[0]) == facts(first)
        and facts(loaded[1]["rows"]) == facts(second["rows"])
        and facts(loaded[1]["both"][0]) == facts(second["both"][0])
        and loaded[1]["both"][0] is loaded[1]["both"][1]
        and loaded[2:] == [third]
    )


class WriteOnly:
    """The least that a file needs to be written to."""

    def __init__(self, file: Any) -> None:
        self.write = file.write


class ReadOnly:
    """The least that a file needs to be read from."""

    def __init__(self, file: Any) -> None:
        self.read, self.readline = file.read, file.readline


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Opens a file as a mapping, which has `read` and `readline`."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


WAYS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "file": (lambda path: path.open("wb"), lambda path: path.open("rb")),
    "raw file": (lambda path: path.open("wb", 0), lambda path: path.open("rb", 0)),
    "gzip": (lambda path: gzip.GzipFile(path, "wb", 1), lambda path: gzip.GzipFile(path, "rb")),
    "mapping": (lambda path: path.open("wb"), mapped),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("way", WAYS)
def test_files_of_each_kind(way: str, protocol: int, tmp_path: Path) -> None:
    """Several objects, one after another, by each protocol; then the file is at its end."""
    write, read = WAYS[way]
    path = tmp_path / "file"
    with write(path) as file:
        for obj in objects():
            jaxpickle.dump(obj, file, protocol)
    with read(path) as file:
        assert same([jaxpickle.load(file) for _ in range(3)])
        with pytest.raises(EOFError):
            jaxpickle.load(file)
    with read(path) as file:
        assert same([pickle.load(file) for _ in range(3)])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_least_of_files(protocol: int) -> None:
    """An object with `write` is enough to dump to, one with `read` and `readline` to load from."""
    file = io.BytesIO()
    for obj in objects():
        jaxpickle.dump(obj, WriteOnly(file), protocol)
    file.seek(0)
    assert same([jaxpickle.load(ReadOnly(file)) for _ in range(3)])


def test_sockets() -> None:
    """Objects cross a socket's file one by one, each as soon as it is complete."""
    here, there = socket.socketpair()
    with here, there, here.makefile("wb") as sink, there.makefile("rb") as source:
        there.settimeout(60)

        def write() -> None:
            for obj in objects():
                jaxpickle.dump(obj, sink)
                sink.flush()

        writer = threading.Thread(target=write)
        writer.start()
        assert same([jaxpickle.load(source) for _ in range(3)])
        writer.join()


def test_all_that_holds_bytes_loads(tmp_path: Path) -> None:
    """`loads` takes whatever holds bytes, also views and mappings, and changes none of it."""
    data = jaxpickle.dumps(objects())
    path = tmp_path / "file"
    path.write_bytes(data)
    with mapped(path) as mapping, memoryview(mapping) as view:
        for form in (
            data,
            bytearray(data),
            memoryview(data),
            memoryview(b"ab" + data)[2:],
            np.frombuffer(bytearray(data), np.uint8),
            view,
        ):
            assert same(jaxpickle.loads(form))
            assert bytes(form) == data


def test_changing_what_was_loaded_from_changes_no_array() -> None:
    """An array never lies over the bytearray that an in-band stream was given in."""
    for protocol in PROTOCOLS:
        data = bytearray(jaxpickle.dumps(objects(), protocol))
        loaded = jaxpickle.loads(data)
        data[:] = bytes(len(data))
        assert same(loaded)


def test_missing_and_surplus_buffers() -> None:
    """Too few buffers, or none, is an error that says so; too many are left alone."""
    data, buffers = out_of_band(objects())
    assert len(buffers) == 9
    surplus = iter([*buffers, b"more"])
    assert same(jaxpickle.loads(data, buffers=surplus))
    assert list(surplus) == [b"more"]
    for few in (None, [], buffers[:-1]):
        with pytest.raises(UnpicklingError, match="pass the buffers"):
            jaxpickle.loads(data, buffers=few)


@pytest.mark.parametrize("order", [slice(None, None, -1), slice(1, None)])
def test_buffers_in_another_order_do_not_pass(order: slice) -> None:
    """A buffer of another size than its array's is refused."""
    data, buffers = out_of_band([jnp.zeros(2000), jnp.zeros(3000), jnp.zeros(4000)])
    with pytest.raises(CorruptError):
        jaxpickle.loads(data, buffers=buffers[order])


@pytest.mark.versions
def test_true_from_the_callback_keeps_a_buffer_in_band() -> None:
    """What the callback answers with true stays in the stream, in any mixture."""
    state = {"small": jnp.ones(3), "large": jnp.arange(3000), "numpy": np.arange(3000.0)}
    state |= {"rows": spread(jnp.arange(16_000)), "ref": jax.new_ref(jnp.arange(2000))}
    total = len(out_of_band(state)[1])
    for kept in (lambda n: True, lambda n: n % 2, lambda n: n == 0):
        seen: list[Any] = []
        out: list[Any] = []

        def callback(buffer: Any, kept: Any = kept, seen: Any = seen, out: Any = out) -> Any:
            seen.append(buffer)
            stays = kept(len(seen) - 1)
            if not stays:
                out.append(buffer)
            return stays

        data = jaxpickle.dumps(state, buffer_callback=callback)
        assert len(seen) == total
        for loads in (jaxpickle.loads, pickle.loads):
            loaded = loads(data, buffers=out)
            assert {kind: bits(loaded[kind][...]) for kind in loaded} == {
                kind: bits(state[kind][...]) for kind in state
            }


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_callback_needs_protocol_5(protocol: int) -> None:
    """As with pickle, a buffer_callback below protocol 5 is a ValueError."""
    with pytest.raises(ValueError, match="protocol"):
        jaxpickle.dumps(jnp.ones(3), protocol, buffer_callback=[].append)


@pytest.mark.versions
def test_small_arrays_stay_in_band() -> None:
    """Arrays and shards below a few KiB make no buffers; from there on each makes one."""
    sizes = [0, 1, IN_BAND - 1, IN_BAND, IN_BAND + 1]
    for size in sizes:
        _, given = out_of_band([jnp.zeros(size, jnp.uint8), np.zeros(size, np.uint8)])
        assert [buffer.raw().nbytes for buffer in given] == [size] * (2 if size >= IN_BAND else 0)
    assert out_of_band(spread(jnp.zeros(8 * (IN_BAND - 8), jnp.uint8)))[1] == []
    assert len(out_of_band(spread(jnp.zeros(8 * IN_BAND, jnp.uint8)))[1]) == 8


MIB = 2**20
PEAK = """
    import os, sys
    import jax, numpy as np
    import jaxpickle

    def peak():
        fields = dict(line.split(":") for line in open("/proc/self/status"))
        return int(fields["VmHWM"].split()[0]) * 1024

    jaxpickle.loads(jaxpickle.dumps(jax.numpy.ones(10000)))
    start = peak()
    with open(blobs["path"], "rb") as file:
        array = jaxpickle.load(file)
    loaded = peak() - start
    assert float(array[-1]) == 3.0
    with open(os.devnull, "wb") as file:
        jaxpickle.dump(array, file)
    dumped = peak() - start
    del array
    jax.device_put(np.ones(3)).block_until_ready()  # then JAX lets go of the array's memory
    with open(blobs["path"], "rb") as file:
        data = file.read()
    array = jaxpickle.loads(data)
    assert float(array[-1]) == 3.0
    result = loaded, dumped, peak() - start
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's VmHWM")
def test_peak_memory_in_band(tmp_path: Path) -> None:
    """Of 256 MiB: a load takes one array; a dump at most one more; `loads` what it was given.

    Measured as the highest memory of a fresh process, of which a busy machine changes nothing.
    """
    size = 256 * MIB
    path = tmp_path / "array"
    array = jnp.full(size // 4, 3.0)
    with path.open("wb") as file:
        jaxpickle.dump(array, file)
    del array
    loaded, dumped, again = fresh.run(PEAK, devices=1, blobs={"path": str(path)})
    path.unlink()
    slack = 40 * MIB
    assert size <= loaded < size + slack
    assert dumped < 2 * size + slack
    assert again < 2 * size + slack
