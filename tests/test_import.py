"""Importing jaxpickle is free and changes nothing."""

import fresh
from fresh import Worker

STOCK = """
import copy, copyreg, pickle, sys
{before}
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
mesh = jax.make_mesh((4,), ("x",))
state = [
    jnp.arange(3.0),
    jax.device_put(jnp.ones((2, 2), jnp.bfloat16), jax.devices()[1]),
    jax.device_put(np.arange(8.0), NamedSharding(mesh, PartitionSpec("x"))),
    jax.random.key(0),
]
table = sorted(f"{{cls.__module__}}.{{cls.__qualname__}}" for cls in copyreg.dispatch_table)
import cloudpickle
result = [pickle.dumps(state, protocol) for protocol in (2, 3, 4, 5)], table, sorted(
    f"{{cls.__module__}}.{{cls.__qualname__}}" for cls in cloudpickle.Pickler.dispatch_table
), cloudpickle.dumps(state)
"""


def test_import_brings_no_jax() -> None:
    """``import jaxpickle`` imports neither JAX nor numpy, nor cloudpickle."""
    code = """
    import sys
    before = set(sys.modules)
    import jaxpickle
    result = [name for name in ("jax", "jaxlib", "numpy", "cloudpickle") if name in sys.modules]
    """
    assert fresh.run(code) == []


def test_plain_objects_need_no_jax() -> None:
    """A graph without JAX objects is dumped and loaded without importing JAX."""
    code = """
    import sys, jaxpickle
    data = jaxpickle.dumps({"a": [1, 2.0, "x"], "b": (None, {3})})
    result = jaxpickle.loads(data), "jax" in sys.modules
    """
    assert fresh.run(code) == ({"a": [1, 2.0, "x"], "b": (None, {3})}, False)


def test_import_leaves_stock_pickle_as_it_is() -> None:
    """What pickle and cloudpickle make of arrays is byte for byte the same, with us used or not."""
    without = fresh.run(STOCK.format(before=""))
    used = "import jaxpickle; jaxpickle.loads(jaxpickle.dumps([1]))"
    assert fresh.run(STOCK.format(before=used)) == without


def test_using_it_leaves_stock_pickle_as_it_is(worker4: Worker) -> None:
    """Stock pickle is unchanged even after arrays went through our own picklers."""
    code = """
    import copyreg, pickle, jax, jax.numpy as jnp
    x = jax.device_put(jnp.arange(3.0), jax.devices()[2])
    before = pickle.dumps(x), dict(copyreg.dispatch_table)
    import jaxpickle
    jaxpickle.loads(jaxpickle.dumps([x, x.sharding, jnp.tanh, jax.random.key(0)]))
    result = (pickle.dumps(x), dict(copyreg.dispatch_table)) == before
    """
    assert worker4.run(code) is True


def test_no_backend_is_started_by_importing_every_module() -> None:
    """Importing all of the package starts no JAX backend: jax.distributed can still begin."""
    code = """
    import pkgutil, importlib, jaxpickle
    for info in pkgutil.walk_packages(jaxpickle.__path__, "jaxpickle."):
        importlib.import_module(info.name)
    from jax._src import xla_bridge
    result = xla_bridge.backends_are_initialized()
    """
    assert fresh.run(code) is False
