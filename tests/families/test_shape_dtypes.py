"""ShapeDtypeStructs come back equal, with the sharding, layout and axes that they had."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import (
    AxisType,
    ManualAxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
)

import fresh
import jaxpickle
from fresh import Worker
from jaxpickle.errors import CorruptError
from jaxpickle.records import build

PRIVATE = (b"jax._src", b"jaxlib.")
PROTOCOLS = (2, 3, 4, 5)


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))


def structs() -> dict[str, jax.ShapeDtypeStruct]:
    struct, spec = jax.ShapeDtypeStruct, PartitionSpec("x", None)
    named = NamedSharding(mesh(), spec)
    explicit = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    unreduced = ManualAxisType(unreduced=frozenset(["x"]))
    return {
        "plain": struct((2, 3), jnp.float32),
        "scalar": struct((), np.int8),
        "empty": struct((0, 3), bool),
        "bfloat16": struct((2,), jnp.bfloat16),
        "int4": struct((2,), jnp.int4),
        "float64": struct((2,), np.float64),
        "key": struct((2,), jax.random.key(0).dtype),
        "float0": struct((2,), jax.dtypes.float0),
        "weak": struct((), jnp.float32, weak_type=True),
        "ref": struct((2,), jnp.float32, is_ref=True),
        "varying": struct(
            (2,), jnp.float32, manual_axis_type=ManualAxisType(varying=frozenset(["y", "x"]))
        ),
        "unreduced": struct((2,), jnp.float32, manual_axis_type=unreduced),
        "named": struct((4, 4), jnp.float32, sharding=named),
        "abstract": struct((4, 4), jnp.float32, sharding=NamedSharding(mesh().abstract_mesh, spec)),
        "host": struct(
            (4, 4), jnp.float32, sharding=NamedSharding(mesh(), spec, memory_kind="unpinned_host")
        ),
        "single": struct((4,), jnp.float32, sharding=SingleDeviceSharding(jax.devices()[3])),
        "format": struct((4, 4), jnp.float32, sharding=Format(Layout((1, 0)), named)),
        "traced": jax.eval_shape(
            jnp.sin, struct((4, 4), jnp.float32, sharding=NamedSharding(explicit, spec))
        ),
    }


@pytest.mark.versions
@pytest.mark.parametrize("name", structs())
def test_a_shape_dtype_struct_is_equal(name: str) -> None:
    """Shape, dtype, sharding with layout and memory kind, weak type and the rest are kept."""
    struct = structs()[name]
    for protocol in PROTOCOLS:
        data = jaxpickle.dumps([struct], protocol)
        assert not any(private in data for private in PRIVATE)
        for load in (jaxpickle.loads, pickle.loads):
            (back,) = load(data)
            assert back == struct
            assert back.format == struct.format
            assert repr(back) == repr(struct)
            assert back.weak_type is struct.weak_type
            assert hash(back) == hash(struct)


@pytest.mark.versions
def test_a_struct_with_a_spec_waits_for_its_mesh() -> None:
    """A bare PartitionSpec stays one: the mesh is that of the context in which it is asked."""
    struct = jax.ShapeDtypeStruct((4, 4), jnp.float32, sharding=PartitionSpec("x"))
    back = jaxpickle.loads(jaxpickle.dumps(struct))
    with jax.set_mesh(mesh()):
        assert back == struct
        assert back.sharding == NamedSharding(mesh(), PartitionSpec("x"))


@pytest.mark.versions
def test_the_memory_space_is_kept_where_jax_keeps_it() -> None:
    """From JAX 0.11.2 a struct made of an array knows the array's memory space."""
    array = jax.device_put(jnp.ones(4), jax.memory.Space.Host)
    struct = jax.ShapeDtypeStruct.like(array) if hasattr(jax.ShapeDtypeStruct, "like") else None
    if struct is not None:
        back = jaxpickle.loads(jaxpickle.dumps(struct))
        assert back == struct
        assert getattr(back, "_memory_space", None) is getattr(struct, "_memory_space", None)


def test_a_struct_moves_with_its_devices(worker1: Worker) -> None:
    """`devices=` moves the sharding of a struct as it moves an array's."""
    data = jaxpickle.dumps(structs()["named"])
    moved = jaxpickle.loads(data, devices={"cpu:0": "cpu:1", "cpu:1": "cpu:0"})
    assert moved.sharding.mesh.devices.ravel()[0] == jax.devices()[1]
    assert moved.sharding.spec == PartitionSpec("x", None)
    worker1.run(
        """
        import jaxpickle
        struct = jaxpickle.loads(blobs["data"], devices="cpu:0")
        assert struct.shape == (4, 4) and struct.sharding.mesh.shape == {"x": 1, "y": 1}
        try:
            jaxpickle.loads(blobs["data"])
        except jaxpickle.errors.MissingDeviceError as error:
            result = error.names
        """,
        blobs={"data": data},
    )


def test_a_struct_is_lowered_after_it_has_travelled(worker8: Worker) -> None:
    """`jit(f).lower(struct)` in a fresh process compiles for the sharding that came along."""
    worker8.run(
        """
        import jaxpickle
        struct = jaxpickle.loads(blobs["data"])
        import jax
        compiled = jax.jit(lambda x: x + 1).lower(struct).compile()
        assert compiled.input_shardings[0][0] == struct.sharding
        """,
        blobs={"data": jaxpickle.dumps(structs()["named"])},
    )


def test_equal_structs_give_equal_bytes() -> None:
    """Axes are a set: their order in memory does not show in the stream."""
    streams = {
        fresh.run(
            """
            import jax, jaxpickle
            from jax.sharding import ManualAxisType
            axes = ManualAxisType(varying=frozenset("abcdefgh"))
            struct = jax.ShapeDtypeStruct((2,), "float32", manual_axis_type=axes)
            result = jaxpickle.dumps(struct)
            """,
            hash_seed=seed,
        )
        for seed in ("1", "2")
    }
    assert len(streams) == 1


def test_a_damaged_struct_is_refused() -> None:
    """A shape that is no tuple is reported as damage."""
    with pytest.raises(CorruptError, match="shape_dtype/1"):
        build("shape_dtype/1", 3, np.dtype("float32"), None, False, False, None, None)
