"""dtypes of arrays: each kind that JAX knows keeps its bits, whoever reads it."""

import contextlib
import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxpickle
from array_facts import bits, facts
from fresh import Worker
from jaxpickle.errors import PlacementWarning
from round_trips import out_of_band, round_trips, sent

NUMPY = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"]
NUMPY += ["float16", "float32", "complex64"]
WIDE = ["int64", "uint64", "float64", "complex128"]
ML_DTYPES = sorted(
    name
    for name, scalar in vars(ml_dtypes).items()
    if isinstance(scalar, type) and issubclass(scalar, np.generic)
)
ALL = [*NUMPY, *WIDE, *ML_DTYPES]

REFUSED = {"bcomplex32", "complex32"}
"""Those that no JAX puts into arrays."""
REFUSED_BY_SOME = {"float6_e2m3fn", "float6_e3m2fn"}
"""Those that some of the JAX versions put into arrays."""

SHAPES = [(), (1,), (5,), (0,), (3, 0, 2), (2, 3), (40, 60)]

NARROWED = "ignore:.*will be truncated:UserWarning"
"""What JAX says when it computes in 32 bits with an array of 64."""


def sample(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Returns an array of a dtype: of every bit pattern that one of less than a byte has."""
    count = int(np.prod(shape))
    if name == "bool":
        return (np.arange(count) % 3 == 0).reshape(shape)
    if name not in ML_DTYPES:
        dtype = np.dtype(name)
    elif "int" in name:
        info = ml_dtypes.iinfo(getattr(ml_dtypes, name))
        return (np.arange(count) % 2**info.bits + int(info.min)).astype(info.dtype).reshape(shape)
    else:
        dtype = np.dtype(getattr(ml_dtypes, name))
        patterns = 2 ** min(8, bits_of(dtype))
        if patterns < 256:
            return (np.arange(count) % patterns).astype(np.uint8).view(dtype).reshape(shape)
    data = np.random.default_rng(7).bytes(count * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape)


def bits_of(dtype: np.dtype[Any]) -> int:
    """Returns how many bits a value of a float of ml_dtypes has."""
    return 32 if dtype.name in REFUSED else ml_dtypes.finfo(dtype).bits


def array_of(name: str, shape: tuple[int, ...], device: int = 3) -> jax.Array:
    """Returns an array of a dtype that JAX accepts, on one of the devices."""
    with jax.enable_x64(True):
        return jax.device_put(sample(name, shape), jax.devices()[device])


@functools.cache
def accepted() -> list[str]:
    """Returns the dtypes that this JAX puts into arrays."""
    found = []
    for name in ALL:
        with contextlib.suppress(TypeError, jax.errors.JaxRuntimeError):
            array_of(name, (1,))
            found.append(name)
    return found


@pytest.mark.versions
def test_jax_has_arrays_of_all_but_a_few_dtypes() -> None:
    """The tests below skip nothing but what JAX itself refuses, by name."""
    assert set(ALL) - set(accepted()) - REFUSED_BY_SOME == REFUSED & set(ALL)


@pytest.mark.versions
@pytest.mark.filterwarnings("ignore::jaxpickle.errors.PlacementWarning")
@pytest.mark.parametrize("name", [name for name in ALL if name not in REFUSED])
def test_each_dtype_keeps_its_bits(name: str) -> None:
    """Each dtype, in each shape, by each protocol, in band and out of band, by both loaders."""
    if name not in accepted():
        pytest.skip(f"this JAX has no arrays of {name}")
    arrays = [array_of(name, shape) for shape in SHAPES]
    expected = [facts(array) for array in arrays]
    for array, shape in zip(arrays, SHAPES, strict=True):
        assert bits(array) == sample(name, shape).tobytes()  # JAX itself kept them
    for loaded in round_trips(arrays):
        assert [facts(array) for array in loaded] == expected
        assert all(array.dtype == sample(name, ()).dtype for array in loaded)


@pytest.mark.versions
def test_all_dtypes_in_a_fresh_interpreter(worker1: Worker) -> None:
    """A process with fewer devices reads the same bits, in band and out of band."""
    names = accepted()
    arrays = [array_of(name, shape, device=0) for name in names for shape in SHAPES]
    stream, buffers = out_of_band(arrays)
    assert buffers
    got = worker1.run(
        """
        import pickle, warnings
        import jax, numpy as np
        import jaxpickle

        def facts(arrays):
            assert all(isinstance(array, jax.Array) for array in arrays)
            return [
                (str(x.dtype), x.shape, np.asarray(x).tobytes(), x.committed) for x in arrays
            ]

        warnings.simplefilter("ignore", jaxpickle.errors.PlacementWarning)
        result = [
            facts(jaxpickle.loads(blobs["in"])),
            facts(pickle.loads(blobs["in"])),
            facts(jaxpickle.loads(blobs["out"], buffers=blobs["buffers"])),
            facts(pickle.loads(blobs["out"], buffers=blobs["buffers"])),
        ]
        """,
        blobs={
            "in": jaxpickle.dumps(arrays),
            "out": stream,
            "buffers": [sent(buffer) for buffer in buffers],
        },
    )
    expected = [(str(x.dtype), x.shape, bits(x), True) for x in arrays]
    assert got == [expected] * 4


@pytest.mark.versions
def test_wide_dtypes_stay_wide_with_one_warning_a_load() -> None:
    """Where x64 is off, many arrays of 64 bits stay so, and each load warns exactly once."""
    arrays = {name: [array_of(name, (3,)), array_of(name, (4, 5))] for name in WIDE}
    data = jaxpickle.dumps(arrays)
    assert not jax.config.jax_enable_x64
    for _ in range(2):
        with pytest.warns(PlacementWarning, match="jax_enable_x64") as caught:
            loaded = jaxpickle.loads(data)
        assert len(caught) == 1
        assert {name: [str(x.dtype) for x in loaded[name]] for name in WIDE} == {
            name: [name] * 2 for name in WIDE
        }


@pytest.mark.versions
def test_wide_dtypes_load_without_a_word_where_x64_is_on() -> None:
    """Nothing warns where JAX computes in 64 bits, nor for arrays of 32 bits, nor for numpy's."""
    wide = jaxpickle.dumps([array_of(name, (3,)) for name in WIDE])
    narrow = jaxpickle.dumps([array_of("float32", (3,)), np.ones(3), np.int64(3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with jax.enable_x64(True):
            doubled = [array + array for array in jaxpickle.loads(wide)]
        jaxpickle.loads(narrow)
    assert [str(array.dtype) for array in doubled] == WIDE


@pytest.mark.versions
@pytest.mark.filterwarnings("ignore::jaxpickle.errors.PlacementWarning", NARROWED)
def test_computing_with_loaded_wide_arrays_works() -> None:
    """JAX computes with them as with its own arrays of 64 bits: the same values and dtypes."""
    with jax.enable_x64(True):
        array = jax.device_put(np.arange(6.0), jax.devices()[2])
    loaded = jaxpickle.loads(jaxpickle.dumps(array))
    for function in (jnp.sum, jax.jit(lambda x: x * 2), jax.grad(lambda x: (x**2).sum())):
        ours, own = function(loaded), function(array)
        assert facts(ours) == facts(own)
    assert jnp.sum(loaded) == 15


@pytest.mark.filterwarnings("ignore::jaxpickle.errors.PlacementWarning")
def test_wide_arrays_between_processes_of_either_mode(worker1: Worker) -> None:
    """What a process with x64 on wrote, one with x64 off reads, and the other way round."""
    code = "import jax, numpy, jaxpickle; jax.config.update('jax_enable_x64', blobs['x64'])\n"
    write = code + "result = jaxpickle.dumps(jax.numpy.linspace(0, 1, 7))"
    read = code + "result = numpy.asarray(jaxpickle.loads(blobs['data']))"
    try:
        data = worker1.run(write, blobs={"x64": True})
        with pytest.warns(PlacementWarning):
            here = jaxpickle.loads(data)
        np.testing.assert_array_equal(np.asarray(here), np.linspace(0, 1, 7), strict=True)
        narrow = jaxpickle.dumps(jnp.linspace(0, 1, 7))
        there = worker1.run(read, blobs={"x64": True, "data": narrow})
        np.testing.assert_array_equal(there, np.asarray(jnp.linspace(0, 1, 7)), strict=True)
    finally:
        worker1.run(code, blobs={"x64": False})
