"""Fresh interpreters: code that runs where nothing of the test's own process exists.

`run` gives a snippet a new interpreter. Starting JAX costs two seconds, so most tests share a
`Worker` instead: one interpreter, with a number of devices of its own, that runs one snippet after
another (the fixtures `worker1`, `worker2`, `worker4` and `worker8`).

A snippet runs as the `__main__` module. It finds its input in `blobs`, and what it leaves in
`result`, made of builtins and numpy alone, comes back. If it fails, the test fails, with the
snippet's traceback and all that it printed. A snippet that starts processes by `spawn` guards its
code with `if __name__ == "__main__"`, as a script does.
"""

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

# Runs snippets until its channel closes. It imports nothing but pickle, so that a snippet meets
# an interpreter as new as a script does.
_LOOP = """
def serve(channel):
    import pickle, sys
    main = sys.modules["__main__"].__dict__
    clean = {name: value for name, value in main.items() if name.startswith("__")}
    with open(channel, "rb", closefd=False) as requests, open(channel, "wb") as replies:
        while True:
            try:
                path, source, blobs, keep = pickle.load(requests)
            except EOFError:
                return
            if not keep:
                main.clear()
                main.update(clean)
            main["__file__"], main["blobs"] = path, blobs
            main.pop("result", None)
            try:
                exec(compile(source, path, "exec"), main)
                reply = True, pickle.dumps(main.get("result"), 5)
            except BaseException:
                import traceback
                reply = False, traceback.format_exc()
            sys.stdout.flush()
            pickle.dump(reply, replies)
            replies.flush()

import sys
serve(int(sys.argv.pop()))
"""


class Worker:
    """An interpreter that runs snippets, and starts with the first of them.

    One that died, or was killed because a snippet took too long, starts anew with the next.

    Args:
        devices: How many CPU devices its JAX has.
        x64: Whether its JAX computes in 64 bits.
        env: Environment variables, besides those of this process.
        hash_seed: `PYTHONHASHSEED`; by default each interpreter has a random one.
        timeout: Seconds that a snippet may take.
    """

    def __init__(
        self,
        *,
        devices: int = 8,
        x64: bool = False,
        env: Mapping[str, str] | None = None,
        hash_seed: str | None = None,
        timeout: float = 120,
    ) -> None:
        self._env = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1" if x64 else "0",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            "PYTHONHASHSEED": hash_seed or "random",
            **(env or {}),
        }
        self._timeout = timeout
        self._interpreter: _Interpreter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        code: str,
        *,
        blobs: Mapping[str, Any] | None = None,
        keep: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Runs a snippet and returns its `result`, or None if it sets none.

        Each snippet starts with an empty `__main__`; imported modules and JAX's state stay.

        Args:
            code: The snippet, dedented.
            blobs: What it finds in `blobs`: bytes, and what else plain pickle carries.
            keep: Whether it sees the names that the snippet before it left.
            timeout: Seconds that it may take, if not those of the worker.

        Raises:
            AssertionError: It raised, died or took too long.
        """
        if self._interpreter is None:
            self._interpreter = _Interpreter(self._env)
        try:
            good, reply = self._interpreter.ask(code, blobs or {}, keep, timeout or self._timeout)
        except BaseException:
            self._interpreter.kill()
            self._interpreter = None
            raise
        if not good:
            raise AssertionError(f"in a fresh interpreter:\n{reply}{self._interpreter.printed()}")
        return pickle.loads(reply)

    def close(self) -> None:
        """Lets the interpreter end.

        Raises:
            AssertionError: It did not end, or not well.
        """
        interpreter, self._interpreter = self._interpreter, None
        if interpreter is not None:
            interpreter.end()


def run(
    code: str,
    *,
    devices: int = 8,
    x64: bool = False,
    blobs: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    hash_seed: str | None = None,
    timeout: float = 120,
) -> Any:
    """Runs a snippet in an interpreter of its own and returns its `result`.

    The arguments are those of `Worker` and of `Worker.run`.
    """
    with Worker(devices=devices, x64=x64, env=env, hash_seed=hash_seed, timeout=timeout) as worker:
        return worker.run(code, blobs=blobs)


class _Interpreter:
    """One process, a channel to it, and a folder for what it reads and prints."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._snippets = 0
        self._printed_before = 0
        self._folder = tempfile.TemporaryDirectory(prefix="fresh-")
        self._output = Path(self._folder.name, "output")
        self._channel, theirs = socket.socketpair()
        with theirs, self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _LOOP, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                # Its working folder is first on its sys.path: an empty one.
                cwd=tempfile.mkdtemp(dir=self._folder.name),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that kill() reaches the children of a snippet too
            )

    def ask(
        self, code: str, blobs: Mapping[str, Any], keep: bool, timeout: float
    ) -> tuple[bool, Any]:
        """Sends a snippet; whether it went well, with its pickled result or its traceback."""
        source = textwrap.dedent(code)
        self._snippets += 1
        # A real file, so that tracebacks and `inspect.getsource` find the text.
        path = Path(self._folder.name, f"snippet_{self._snippets}.py")
        path.write_text(source)
        self._printed_before = self._output.stat().st_size
        self._channel.settimeout(timeout)
        try:
            with self._channel.makefile("rwb") as channel:
                pickle.dump((str(path), source, dict(blobs), keep), channel)
                channel.flush()
                good, reply = pickle.load(channel)
        except TimeoutError:
            raise AssertionError(f"no answer within {timeout} s{self.printed()}") from None
        except (EOFError, OSError):
            status = self._process.wait(10)
            raise AssertionError(f"the interpreter died ({status=}){self.printed()}") from None
        return good, reply

    def printed(self) -> str:
        """What the interpreter has printed since the last snippet began, under a heading."""
        text = self._output.read_bytes()[self._printed_before :].decode(errors="replace").strip()
        return f"\nIt printed:\n{text}" if text else ""

    def end(self) -> None:
        """Lets the process end by itself; AssertionError if it cannot."""
        self._channel.close()
        try:
            status = self._process.wait(30)
            assert status == 0, f"the interpreter ended badly ({status=}){self.printed()}"
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the interpreter does not end{self.printed()}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends the process and all that it started, and removes the folder."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._channel.close()
        self._folder.cleanup()
