"""Pickler and Unpickler: pickle's own interface, with all of its hooks free."""

import io
import pickle
import pickletools
from typing import Any

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpickle
from jaxpickle.errors import CorruptError, UnpicklingError

STATE = {"w": jnp.arange(6.0).reshape(2, 3), "n": 3, "s": "text"}


def equal(a: Any, b: Any) -> bool:
    return bool(jax.tree.all(jax.tree.map(lambda x, y: np.array_equal(x, y), a, b)))


def test_they_are_what_users_know() -> None:
    """Pickler is a cloudpickle.Pickler, Unpickler a pickle.Unpickler."""
    assert issubclass(jaxpickle.Pickler, cloudpickle.Pickler)
    assert issubclass(jaxpickle.Unpickler, pickle.Unpickler)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5, None, -1])
@pytest.mark.parametrize("loads", [jaxpickle.loads, pickle.loads, cloudpickle.loads])
def test_every_protocol_loads_everywhere(protocol: int | None, loads: Any) -> None:
    """A stream of protocol 2 to 5 loads with ours, with pickle and with cloudpickle."""
    data = jaxpickle.dumps(STATE, protocol)
    assert data[:2] == b"\x80" + bytes([protocol if protocol and protocol > 0 else 5])
    assert equal(loads(data), STATE)
    assert equal(pickle._loads(data), STATE)  # type: ignore[attr-defined]


@pytest.mark.parametrize("protocol", [0, 1, 6])
def test_other_protocols_are_refused(protocol: int) -> None:
    """Protocols outside of 2 to 5 are a ValueError that says which there are."""
    with pytest.raises(ValueError, match="2 to 5"):
        jaxpickle.dumps(STATE, protocol)


def test_arguments_are_checked() -> None:
    """A wrong source_info or a path instead of a file is told with the right call."""
    with pytest.raises(ValueError, match="source_info"):
        jaxpickle.dumps(STATE, source_info="some")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"with open\('a.pkl', 'wb'\) as file: jaxpickle.dump"):
        jaxpickle.dump(STATE, "a.pkl")  # type: ignore[arg-type]
    for load in (jaxpickle.load, jaxpickle.loads):
        with pytest.raises(TypeError, match=r"with open\('a.pkl', 'rb'\) as file: jaxpickle.load"):
            load("a.pkl")  # type: ignore[arg-type]


def test_the_versions_stand_in_front_of_the_stream() -> None:
    """Each stream says once which Python, JAX, jaxlib and jaxpickle wrote it."""
    strings = [arg for _, arg, _ in pickletools.genops(jaxpickle.dumps(STATE)) if arg]
    written = [text for text in strings if isinstance(text, str) and "==" in text]
    assert [text.partition("==")[0] for text in written] == ["python", "jaxpickle", "jax", "jaxlib"]
    assert f"jax=={jax.__version__}" in written
    pickletools.dis(jaxpickle.dumps(STATE), out=io.StringIO())


def test_several_objects_in_one_file() -> None:
    """dump and load work one object after the other, and the end is an EOFError."""
    file = io.BytesIO()
    for i in range(3):
        jaxpickle.dump({"i": i, "x": jnp.full(3, i)}, file)
    file.seek(0)
    assert [int(jaxpickle.load(file)["x"][0]) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(EOFError):
        jaxpickle.load(file)


def test_one_pickler_shares_across_dumps() -> None:
    """The memo of a Pickler lasts: the second dump refers to the first one's array."""
    file = io.BytesIO()
    x = jnp.arange(2000.0)
    pickler = jaxpickle.Pickler(file)
    pickler.dump(x)
    size = file.tell()
    pickler.dump([x])
    assert file.tell() - size < 500
    file.seek(0)
    unpickler = jaxpickle.Unpickler(file)
    first = unpickler.load()
    assert unpickler.load()[0] is first


def test_persistent_ids_are_the_users() -> None:
    """A subclass keeps an array out of the stream by persistent_id, and puts it back."""
    outside = {"w": STATE["w"]}
    met: list[Any] = []

    class Out(jaxpickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            met.append(obj)
            return "w" if obj is outside["w"] else None

    class In(jaxpickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            return outside[pid]

    file = io.BytesIO()
    Out(file).dump(STATE)
    assert met[0] is STATE
    assert b"array/1" not in file.getvalue()
    file.seek(0)
    assert In(file).load()["w"] is outside["w"]


def test_reducer_override_is_the_users() -> None:
    """A subclass's reducer_override comes first, and may ignore ours: arrays still travel."""

    class Own(jaxpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            return (int, (7,)) if isinstance(obj, Special) else NotImplemented

    file = io.BytesIO()
    Own(file).dump([Special(), jnp.arange(3000.0), jax.devices()[2]])
    file.seek(0)
    seven, x, device = jaxpickle.load(file)
    assert seven == 7
    assert np.array_equal(x, np.arange(3000.0))
    assert device is jax.devices()[2]


def test_find_class_is_the_users() -> None:
    """A subclass's find_class sees each name, and may refuse it."""

    class Strict(jaxpickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module != "jaxpickle.records":
                raise pickle.UnpicklingError(f"no {module}.{name}")
            return super().find_class(module, name)

    assert equal(Strict(io.BytesIO(jaxpickle.dumps(STATE))).load(), STATE)
    with pytest.raises(pickle.UnpicklingError, match=r"no tests?\.?|no test_pickler"):
        Strict(io.BytesIO(jaxpickle.dumps(Special()))).load()


def test_copyreg_for_user_classes_is_honoured() -> None:
    """What users registered with copyreg for their own classes goes on to work."""
    import copyreg

    copyreg.pickle(Special, lambda _: (int, (8,)))
    try:
        assert jaxpickle.loads(jaxpickle.dumps([Special()])) == [8]
    finally:
        copyreg.dispatch_table.pop(Special)


@pytest.mark.parametrize("cut", [1, 2, 10, 30, -1, -5])
def test_truncated_data_is_corrupt(cut: int) -> None:
    """Data that ends too early is a CorruptError, also from a file; none at all is EOFError."""
    data = jaxpickle.dumps(STATE)[:cut]
    with pytest.raises(CorruptError):
        jaxpickle.loads(data)
    with pytest.raises(CorruptError):
        jaxpickle.load(io.BytesIO(data))
    with pytest.raises(EOFError):
        jaxpickle.loads(b"")


def test_garbage_is_corrupt() -> None:
    """Bytes that were never a pickle are a CorruptError."""
    with pytest.raises(CorruptError, match="no pickle"):
        jaxpickle.loads(b"garbage")


def test_what_the_reader_forgot_is_told() -> None:
    """Missing buffers, and ids without a persistent_load, are no damage: the text mends it."""
    buffers: list[pickle.PickleBuffer] = []
    x = jnp.arange(5000.0)
    data = jaxpickle.dumps([x, x + 1], buffer_callback=buffers.append)
    for given in (None, buffers[:1]):
        with pytest.raises(UnpicklingError, match=r"loads\(data, buffers=buffers\)") as caught:
            jaxpickle.loads(data, buffers=given)
        assert type(caught.value) is UnpicklingError

    class Out(jaxpickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return "x" if obj is x else None

    file = io.BytesIO()
    Out(file).dump([x])
    with pytest.raises(UnpicklingError, match="persistent_load"):
        jaxpickle.loads(file.getvalue())


def test_the_users_persistent_load_speaks_for_itself() -> None:
    """An UnpicklingError that a hook raises comes out as it is."""

    class Mine(jaxpickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            raise pickle.UnpicklingError(f"unknown id {pid}")

    with pytest.raises(pickle.UnpicklingError, match=r"^unknown id a$"):
        Mine(io.BytesIO(b"\x80\x05\x8c\x01aQ.")).load()


def test_a_buffer_of_a_deleted_array_is_told() -> None:
    """Buffers that were not written out before their array was deleted cannot be read."""
    buffers: list[pickle.PickleBuffer] = []
    x = jnp.arange(5000.0)
    data = jaxpickle.dumps(x, buffer_callback=buffers.append)
    x.delete()
    with pytest.raises(UnpicklingError, match="deleted"):
        jaxpickle.loads(data, buffers=buffers)


def test_errors_say_who_wrote_the_stream() -> None:
    """An error of a load carries the versions of the writer as a note."""
    data = jaxpickle.dumps(jnp.tanh).replace(b"jax.numpy:tanh", b"jax.numpy:tanx")
    with pytest.raises(UnpicklingError) as caught:
        jaxpickle.loads(data)
    assert any(f"jax=={jax.__version__}" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: jaxpickle.load(b"data"), r"jaxpickle\.loads\(data\)"),  # type: ignore[arg-type]
        (lambda: jaxpickle.loads(io.BytesIO()), r"jaxpickle\.load\(file\)"),
        (lambda: jaxpickle.dump("a", [1]), "with open"),  # type: ignore[arg-type]
        (lambda: jaxpickle.Pickler("a.pkl"), "with open"),  # type: ignore[arg-type]
        (lambda: jaxpickle.Unpickler("a.pkl"), "with open"),  # type: ignore[arg-type]
        (lambda: jaxpickle.loads(None), "bytes-like"),
    ],
)
def test_mixed_up_arguments_are_told(call: Any, remedy: str) -> None:
    """Bytes for a file, a file for bytes, and a path are TypeErrors with the call meant."""
    with pytest.raises(TypeError, match=remedy):
        call()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_stream_holds_no_opcode_of_a_later_protocol(protocol: int) -> None:
    """A stream with a large array uses only what its protocol has."""
    data = jaxpickle.dumps(jnp.zeros(1 << 19), protocol)
    assert max(opcode.proto for opcode, _, _ in pickletools.genops(data)) <= protocol


def test_plain_pickles_load() -> None:
    """What plain pickle wrote, loads with ours: arrays as JAX itself restores them."""
    back = jaxpickle.loads(pickle.dumps(STATE))
    assert equal(back, STATE)


class Special:
    pass
