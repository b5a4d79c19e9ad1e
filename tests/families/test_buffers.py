"""Buffers: whose memory may be aliased, which must be copied, and that a copy happens once."""

import mmap
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxpickle.errors import CorruptError
from jaxpickle.families import buffers
from jaxpickle.families.buffers import ALIGNMENT, IN_BAND, aligned, as_bytes, empty_aligned, pack
from jaxpickle.records import build

SIZE = 3 * IN_BAND
PATTERN = bytes(range(256)) * (SIZE // 256)


def address(data: Any) -> int:
    """Returns where the memory of a buffer starts."""
    return np.frombuffer(data, np.uint8).__array_interface__["data"][0]


def aligned_view(data: Any, shift: int = 0) -> memoryview:
    """Returns a view of SIZE bytes of a larger buffer that starts `shift` past ALIGNMENT."""
    start = -address(data) % ALIGNMENT + shift
    return memoryview(data)[start : start + SIZE]


def mapping(access: int) -> mmap.mmap:
    """Returns a mapped file that holds the pattern."""
    with tempfile.TemporaryFile() as file:
        file.write(PATTERN)
        file.flush()
        return mmap.mmap(file.fileno(), SIZE, access=access)


def numpy_array(*, writable: bool) -> np.ndarray[Any, Any]:
    """Returns an aligned array that holds the pattern and owns its memory with others, or not."""
    array = empty_aligned(SIZE)
    array[...] = np.frombuffer(PATTERN, np.uint8)
    base = array.base
    assert isinstance(base, np.ndarray)
    if not writable:
        array.flags.writeable = base.flags.writeable = False
    return array


def read_only_view_of_writable() -> np.ndarray[Any, Any]:
    """Returns an array that cannot be written, over memory that can."""
    view = numpy_array(writable=True).view()
    view.flags.writeable = False
    return view


STABLE: dict[str, Callable[[], Any]] = {
    "bytes": lambda: aligned_view(b"\0" * 2 * SIZE),
    "numpy": lambda: numpy_array(writable=False),
    "view of numpy": lambda: memoryview(numpy_array(writable=False)),
    "PickleBuffer": lambda: pickle.PickleBuffer(numpy_array(writable=False)),
    "mapping": lambda: mapping(mmap.ACCESS_READ),
    "numpy on a mapping": lambda: np.frombuffer(mapping(mmap.ACCESS_READ), np.uint8),
}
UNSTABLE: dict[str, Callable[[], Any]] = {
    "view of a bytearray": lambda: aligned_view(bytearray(2 * SIZE)),
    "read-only view of a bytearray": lambda: aligned_view(bytearray(2 * SIZE)).toreadonly(),
    "numpy": lambda: numpy_array(writable=True),
    "read-only numpy": read_only_view_of_writable,
    "view of read-only numpy": lambda: memoryview(read_only_view_of_writable()),
    "PickleBuffer": lambda: pickle.PickleBuffer(read_only_view_of_writable()),
    "mapping": lambda: mapping(mmap.ACCESS_WRITE),
    "private mapping": lambda: mapping(mmap.ACCESS_COPY),
    "numpy on a mapping": lambda: np.frombuffer(
        memoryview(mapping(mmap.ACCESS_WRITE)).toreadonly(), np.uint8
    ),
}


@pytest.mark.parametrize("make", STABLE.values(), ids=STABLE)
def test_memory_that_nobody_can_write_is_aliased(make: Callable[[], Any]) -> None:
    """Aligned memory that is read-only through and through is used as it is."""
    data = make()
    got = aligned(data, SIZE, "array/1")
    assert got.__array_interface__["data"][0] == address(data)


@pytest.mark.parametrize("make", UNSTABLE.values(), ids=UNSTABLE)
def test_memory_that_somebody_can_write_is_copied(make: Callable[[], Any]) -> None:
    """Aligned memory whose owner can write it is copied, once, however it was wrapped."""
    data = make()
    got = aligned(data, SIZE, "array/1")
    assert got.__array_interface__["data"][0] != address(data)
    assert got.__array_interface__["data"][0] % ALIGNMENT == 0
    assert got.tobytes() == bytes(data)


@pytest.mark.parametrize("shift", [1, 16, 48, 63])
def test_memory_off_alignment_is_copied_once(shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read-only memory that starts elsewhere is copied into one aligned place."""
    made = []

    def counted(nbytes: int) -> Any:
        made.append(empty_aligned(nbytes))
        return made[-1]

    monkeypatch.setattr(buffers, "empty_aligned", counted)
    data = aligned_view(PATTERN * 2, shift)
    got = aligned(data, SIZE, "array/1")
    assert len(made) == 1
    assert got is made[0]
    assert got.tobytes() == bytes(data)


@pytest.mark.parametrize("size", [0, 1, 100, IN_BAND - 1])
def test_small_bytes_are_not_copied(size: int) -> None:
    """For a few bytes alignment does not matter: XLA copies them anyway."""
    data = b"\1" * size
    got = aligned(data, size, "array/1")
    assert got.tobytes() == data
    assert size == 0 or got.__array_interface__["data"][0] == address(data)


@given(st.integers(1, 3 * IN_BAND))
def test_empty_aligned_starts_on_alignment(nbytes: int) -> None:
    """Fresh memory has the size asked for and starts on ALIGNMENT."""
    memory = empty_aligned(nbytes)
    assert memory.nbytes == nbytes
    assert memory.__array_interface__["data"][0] % ALIGNMENT == 0
    memory[...] = 1


@pytest.mark.parametrize("data", [b"123", b"12345", b"", bytearray(3), None, "1234", 4, [1, 2]])
def test_other_sizes_and_things_are_refused(data: Any) -> None:
    """Bytes of another number, or no bytes at all, are a damaged record, which is named."""
    with pytest.raises(CorruptError, match="key/1"):
        aligned(data, 4, "key/1")


def test_bytes_in_band_become_ours_and_aligned() -> None:
    """What a stream brought is moved to alignment in its own memory, not copied beside it."""
    for data in (PATTERN, bytearray(PATTERN)):
        got = build("buffer/1", data, True)
        assert type(got) is bytearray
        assert got == PATTERN
        assert address(got) % ALIGNMENT == 0
        assert aligned(got, SIZE, "array/1").__array_interface__["data"][0] == address(got)


def test_bytearray_of_the_caller_is_not_ours() -> None:
    """A bytearray given as an out-of-band buffer is neither moved nor aliased."""
    theirs = bytearray(PATTERN)
    got = aligned(build("buffer/1", theirs), SIZE, "array/1")
    theirs[:] = bytes(SIZE)
    assert got.tobytes() == PATTERN


@pytest.mark.parametrize("size", [0, 1, IN_BAND - 1, IN_BAND, IN_BAND + 1])
def test_pack_goes_by_size(size: int) -> None:
    """Below IN_BAND the bytes themselves stand in the record; from there on a buffer does."""
    packed = pack(np.zeros(size, np.uint8))
    assert isinstance(packed, buffers.Buffer) is (size >= IN_BAND)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)])
def test_as_bytes_is_a_flat_view(shape: tuple[int, ...]) -> None:
    """The bytes of any contiguous array are its own memory, not a copy."""
    array = np.ones(shape, np.float32)
    view = as_bytes(array)
    assert view.shape == (array.nbytes,)
    assert np.shares_memory(view, array) or array.nbytes == 0
