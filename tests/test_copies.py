"""Copies, counted: pointers are compared, and sources overwritten, donated and deleted."""

import gc
import mmap
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import jaxpickle
from array_facts import bits, facts
from jaxpickle.families import buffers, parts
from jaxpickle.families.buffers import ALIGNMENT
from round_trips import out_of_band

LOADERS = (jaxpickle.loads, pickle.loads)
P = PartitionSpec


def arrays() -> dict[str, Any]:
    """Returns arrays whose every shard is large enough for a buffer of its own."""
    mesh = jax.make_mesh((4, 2), ("row", "column"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    value = jnp.arange(64 * 1024, dtype="float32").reshape(64, 1024)
    return {
        "plain": value,
        "placed": jax.device_put(value, jax.devices()[3]),
        "bfloat16": value.astype("bfloat16"),
        "int8": value.astype("int8"),
        "rows": jax.device_put(value, NamedSharding(mesh, P("row"))),
        "blocks": jax.device_put(value, NamedSharding(mesh, P("row", "column"))),
        "replicated": jax.device_put(value, NamedSharding(mesh, P())),
        "ref": jax.new_ref(value),
        "keys": jax.random.split(jax.random.key(0), 2000),
    }


KINDS = ("plain", "placed", "bfloat16", "int8", "rows", "blocks", "replicated", "keys")
"""All of them but the Ref."""


def shards(array: Any) -> list[Any]:
    """Returns the single-device arrays of an array, of keys those of their data."""
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = array._base_array
    if isinstance(array, jax.Ref):
        array = array._refs._buf
    return [shard.data for shard in array.addressable_shards]


def pointers(array: Any) -> list[int]:
    """Returns where the memory of each shard starts."""
    return [shard.unsafe_buffer_pointer() for shard in shards(array)]


def address(buffer: Any) -> int:
    """Returns where the memory of a buffer starts."""
    return np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]


@pytest.mark.versions
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loads", LOADERS)
def test_out_of_band_nothing_is_copied(kind: str, loads: Callable[..., Any]) -> None:
    """Each distinct shard leaves as its own memory, and comes back over that same memory."""
    array = arrays()[kind]
    data, given = out_of_band({"x": array})
    assert set(map(address, given)) <= set(pointers(array))
    assert len(given) == {"rows": 4, "blocks": 8}.get(kind, 1)
    assert len(data) < 1500
    loaded = loads(data, buffers=given)["x"]
    assert set(pointers(loaded)) == set(map(address, given))
    assert bits(loaded) == bits(array)


@pytest.mark.versions
def test_replicas_share_one_buffer() -> None:
    """All eight replicas, and the pairs of a partly replicated array, are one memory each."""
    for kind, distinct in (("replicated", 1), ("rows", 4)):
        data, given = out_of_band(arrays()[kind])
        loaded = jaxpickle.loads(data, buffers=given)
        assert len(pointers(loaded)) == 8
        assert len(set(pointers(loaded))) == distinct


@pytest.mark.versions
def test_refs_leave_without_a_copy_and_come_back_in_memory_of_their_own() -> None:
    """A Ref is written in place, so a loaded one never lies over the memory that it came in."""
    ref = arrays()["ref"]
    data, given = out_of_band(ref)
    assert list(map(address, given)) == [ref.unsafe_buffer_pointer()]
    loaded = jaxpickle.loads(data, buffers=given)
    assert loaded.unsafe_buffer_pointer() != ref.unsafe_buffer_pointer()


@pytest.mark.versions
def test_buffers_handed_out_are_read_only() -> None:
    """Nobody can write into an array through the buffers that it gave out."""
    layout = jax.experimental.layout
    order = layout.Format(
        layout.Layout((1, 0)), jax.sharding.SingleDeviceSharding(jax.devices()[0])
    )
    state = {
        **arrays(),
        "int4": arrays()["plain"].astype("int4"),
        "column major": jax.device_put(arrays()["plain"], order),
    }
    _, given = out_of_band(state)
    assert len(given) >= len(state)
    assert [buffer.raw().readonly for buffer in given] == [True] * len(given)


@pytest.mark.versions
@pytest.mark.parametrize("loads", LOADERS)
@pytest.mark.parametrize(
    "wrap",
    [
        bytearray,
        lambda data: memoryview(bytearray(data)),
        lambda data: memoryview(bytearray(data)).toreadonly(),
        lambda data: np.frombuffer(bytearray(data), np.uint8),
        lambda data: _aligned_copy(data),
    ],
    ids=["bytearray", "memoryview", "read-only memoryview", "numpy", "aligned numpy"],
)
def test_writable_buffers_are_copied(loads: Callable[..., Any], wrap: Callable[..., Any]) -> None:
    """What the owner of a buffer writes afterwards does not reach the array."""
    state = {kind: arrays()[kind] for kind in ("plain", "rows", "replicated", "keys")}
    data, given = out_of_band(state)
    theirs = [wrap(buffer.raw()) for buffer in given]
    loaded = loads(data, buffers=theirs)
    expected = {kind: bits(array) for kind, array in state.items()}
    for buffer in theirs:
        memory = np.frombuffer(buffer.obj if isinstance(buffer, memoryview) else buffer, np.uint8)
        memory.flags.writeable = True
        memory[...] = 255
    assert {kind: bits(array) for kind, array in loaded.items()} == expected


def _aligned_copy(data: Any) -> np.ndarray[Any, Any]:
    copy = buffers.empty_aligned(len(data))
    copy[...] = np.frombuffer(data, np.uint8)
    return copy


@contextmanager
def counted_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Collects the memory of each copy that jaxpickle makes inside the block."""
    made: list[Any] = []

    def counted(nbytes: int) -> Any:
        made.append(original(nbytes))
        return made[-1]

    original = buffers.empty_aligned
    with monkeypatch.context() as patch:
        patch.setattr(buffers, "empty_aligned", counted)
        patch.setattr(parts, "empty_aligned", counted)
        yield made


@pytest.mark.versions
@pytest.mark.parametrize("kind", ["plain", "placed", "rows", "replicated", "keys"])
def test_mapped_buffers_are_aliased_if_aligned_and_copied_once_if_not(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a read-only mapping an array lies on the file itself; off alignment, on one copy."""
    array = arrays()[kind]
    data, given = out_of_band(array)
    path = tmp_path / "buffers"
    for shift in (0, 8):
        offsets = []
        with path.open("wb") as file:
            for buffer in given:
                file.write(bytes(-file.tell() % ALIGNMENT + shift))
                offsets.append(file.tell())
                file.write(buffer.raw())
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        views = [
            memoryview(mapped)[start : start + buffer.raw().nbytes]
            for start, buffer in zip(offsets, given, strict=True)
        ]
        with counted_copies(monkeypatch) as made:
            loaded = jaxpickle.loads(data, buffers=views)
        source = made if shift else views
        assert len(made) == (len(given) if shift else 0)
        assert set(pointers(loaded)) == set(map(address, source))
        assert facts(loaded) == facts(array)


@pytest.mark.versions
@pytest.mark.parametrize("kind", ["plain", "placed", "rows", "replicated"])
def test_in_band_arrays_lie_over_the_memory_that_was_read(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With protocol 5 an in-band load makes no copy besides the one that pickle reads into."""
    with counted_copies(monkeypatch) as made:
        loaded = jaxpickle.loads(jaxpickle.dumps(arrays()[kind]))
    assert made == []
    assert facts(loaded) == facts(arrays()[kind])


@pytest.mark.versions
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("kind", ["plain", "placed", "rows", "replicated"])
def test_donating_a_loaded_array_leaves_its_source_intact(kind: str) -> None:
    """An aliased array can be donated: the array it aliases, and the buffers, keep their values."""
    array = arrays()[kind]
    before = bits(array)
    data, given = out_of_band(array)
    loaded = jaxpickle.loads(data, buffers=given)
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    result = add(loaded)
    assert loaded.is_deleted()
    assert bits(array) == before
    assert b"".join(bytes(buffer) for buffer in given)[:64] == before[:64]
    assert bits(result) == bits(array + 1)
    assert bits(jaxpickle.loads(data, buffers=given)) == before


@pytest.mark.versions
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("kind", ["plain", "rows", "replicated"])
@pytest.mark.parametrize("end", ["delete", "donate", "del"])
def test_loaded_arrays_outlive_their_source(kind: str, end: str) -> None:
    """Deleting, donating or dropping the saved array does not change the loaded one."""
    array = arrays()[kind]
    before = bits(array)
    data, given = out_of_band(array)
    loaded = jaxpickle.loads(data, buffers=given)
    if end == "delete":
        array.delete()
    elif end == "donate":
        jax.jit(lambda x: x * 0 - 1, donate_argnums=0)(array).block_until_ready()
    del array, given
    gc.collect()
    litter = [jnp.full((64, 1024), float(i)).block_until_ready() for i in range(8)]
    assert bits(loaded) == before
    assert len(litter) == 8
