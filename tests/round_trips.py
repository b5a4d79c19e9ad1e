"""Every way in which an object travels: each protocol, in band and out of band, both loaders."""

import pickle
import pickletools
from collections.abc import Iterator
from typing import Any

import jaxpickle

PROTOCOLS = (2, 3, 4, 5)
PRIVATE = ("numpy._core", "numpy.core", "numpy.random._", "_mareconstruct")


def round_trips(obj: Any) -> Iterator[Any]:
    """Yields `obj` as it comes back by each way, having looked at the streams themselves."""
    for protocol in PROTOCOLS:
        data = jaxpickle.dumps(obj, protocol)
        assert private_names(data) == []
        yield jaxpickle.loads(data)
        yield pickle.loads(data)
    data, buffers = out_of_band(obj)
    assert private_names(data) == []
    for load in (jaxpickle.loads, pickle.loads):
        yield load(data, buffers=buffers)
        yield load(data, buffers=[sent(buffer) for buffer in buffers])


def out_of_band(obj: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Returns the stream of `obj` and the buffers that stayed out of it."""
    buffers: list[pickle.PickleBuffer] = []
    return jaxpickle.dumps(obj, 5, buffer_callback=buffers.append), buffers


def sent(buffer: pickle.PickleBuffer) -> bytearray:
    """Returns memory of its own that holds the bytes of `buffer`, as a transport makes it."""
    return bytearray(buffer.raw())


def private_names(data: bytes) -> list[str]:
    """Returns what a stream says that names something private of numpy."""
    texts = [_text(argument) for _, argument, _ in pickletools.genops(data)]
    return [text for text in texts if any(name in text for name in PRIVATE)]


def _text(argument: Any) -> str:
    # The two words of GLOBAL come with a space between them.
    text = argument.decode("latin1") if isinstance(argument, bytes | bytearray) else str(argument)
    return text.replace(" ", ".")
