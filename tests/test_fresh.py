"""The interpreters that the other tests stand on."""

import numpy as np
import pytest

import fresh
from fresh import Worker


def test_run_gives_back_what_the_snippet_leaves_in_result() -> None:
    """A snippet gets its blobs and returns builtins and numpy arrays."""
    got = fresh.run(
        """
        import numpy as np
        result = {"size": len(blobs["data"]), "array": np.arange(3)}
        """,
        blobs={"data": b"12345"},
    )
    assert got["size"] == 5
    np.testing.assert_array_equal(got["array"], [0, 1, 2])


def test_interpreter_has_imported_nothing_of_ours() -> None:
    """Neither JAX nor jaxpickle nor numpy nor a test module is there before the snippet asks."""
    loaded = fresh.run("import sys; result = list(sys.modules)")
    assert not {"jax", "jaxlib", "numpy", "cloudpickle", "jaxpickle", "fresh"} & set(loaded)


@pytest.mark.versions
@pytest.mark.parametrize("devices", [1, 2, 4, 8])
def test_shared_workers_have_their_devices(devices: int, request: pytest.FixtureRequest) -> None:
    """The fixture `workerN` has N CPU devices."""
    worker: Worker = request.getfixturevalue(f"worker{devices}")
    code = "import jax; result = [d.platform for d in jax.devices()]"
    assert worker.run(code) == ["cpu"] * devices


def test_x64_hash_seed_and_env_reach_the_interpreter() -> None:
    """What the caller sets is what the snippet meets."""
    got = fresh.run(
        """
        import os, jax
        result = jax.config.jax_enable_x64, hash("a"), os.environ["COLOUR"]
        """,
        x64=True,
        hash_seed="0",
        env={"COLOUR": "blue"},
    )
    again = fresh.run("result = hash('a')", hash_seed="0")
    assert got == (True, again, "blue")


def test_snippets_share_a_process_but_not_their_names() -> None:
    """`__main__` is empty for each snippet unless it is told to keep it; modules stay."""
    with Worker() as worker:
        worker.run("import json; colour = 'blue'")
        assert worker.run("result = colour", keep=True) == "blue"
        assert worker.run("import sys; result = 'colour' in globals(), 'json' in sys.modules") == (
            False,
            True,
        )
        assert worker.run("pass") is None


def test_snippet_is_main() -> None:
    """A class of a snippet is pickled by reference to `__main__`, and has a source to show."""
    with Worker() as worker:
        source = worker.run(
            """
            import inspect, pickle
            class Point:
                x = 1
            assert pickle.loads(pickle.dumps(Point)) is Point
            result = inspect.getsource(Point)
            """
        )
    assert source == "class Point:\n    x = 1\n"


def test_failure_shows_traceback_and_output() -> None:
    """A snippet that raises fails the test, which says why; the worker goes on."""
    with Worker() as worker:
        worker.run("print('long ago')")
        with pytest.raises(AssertionError, match=r"(?s)1 / 0.*ZeroDivision.*a hint") as failure:
            worker.run("print('a hint')\n1 / 0")
        assert "long ago" not in str(failure.value)
        assert worker.run("result = 1") == 1


def test_dead_interpreter_is_reported_and_replaced() -> None:
    """A snippet that kills its interpreter fails its own test and no later one."""
    with Worker() as worker:
        with pytest.raises(AssertionError, match=r"(?s)died.*status=-6.*last words"):
            worker.run("import os, sys; print('last words', flush=True); os.abort()")
        assert worker.run("result = 1") == 1


def test_slow_snippet_is_ended() -> None:
    """A snippet that takes too long is ended, with the processes that it started."""
    code = "import subprocess; subprocess.run(['sleep', '1000'])"
    with Worker() as worker, pytest.raises(AssertionError, match="no answer within"):
        worker.run(code, timeout=0.5)


def test_bad_end_of_an_interpreter_is_reported() -> None:
    """A crash at exit, after the result has come, fails the test as well."""
    with pytest.raises(AssertionError, match="ended badly"):
        fresh.run("import atexit, os; atexit.register(os.abort); result = 1")
