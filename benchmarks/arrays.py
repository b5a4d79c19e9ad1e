"""Every claim about the speed and the memory of arrays, measured in one run beside its peers.

    python benchmarks/arrays.py [--quick]

Each group of claims is measured in a fresh interpreter with eight forced CPU devices. Times are
medians, and ratios medians over rounds in which the peers take turns, so that what else the
machine does falls on all of them. Exits with 1 if a claim is missed; `--quick` takes small arrays
and one interpreter, and judges only what is no matter of time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax

MIB = 2**20


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    mib: int = 256
    arrays: int = 20_000
    rounds: int = 7


FULL = Scale()
QUICK = Scale(mib=16, arrays=500, rounds=3)


@dataclass(frozen=True)
class Claim:
    """A number that must not be larger than its target."""

    key: str
    text: str
    target: float
    unit: str = ""
    timeless: bool = False  # holds at any scale, on any machine


CLAIMS = {
    "out_of_band": (
        Claim("one", "dumps of one large array out of band", 2, "ms"),
        Claim("sharded", "the same, sharded over 8 devices", 5, "ms"),
        Claim("copied_out", "bytes copied on the way out", 0, "bytes", timeless=True),
        Claim("copied_in", "bytes copied on the way in", 0, "bytes", timeless=True),
    ),
    "in_band": (
        Claim("dumps_numpy", "dumps of one large array, against numpy's pickle 5", 1.1, "x"),
        Claim("dumps_stock", "dumps of one large array, against JAX's own pickle", 0.6, "x"),
        Claim("loads_numpy", "loads of one large array, against numpy's pickle 5", 1.5, "x"),
    ),
    "dump_memory": (
        Claim("extra", "memory that dump to a file takes besides the array", 1, "arrays"),
    ),
    "load_memory": (
        Claim("extra", "memory that load from a file takes, the array included", 1.1, "arrays"),
    ),
    "small": (
        Claim("dumps_stock", "dumps of many small arrays, against JAX's own pickle", 0.8, "x"),
        Claim("loads_stock", "loads of many small arrays, against JAX's own pickle", 0.5, "x"),
    ),
    "importing": (
        Claim("time", "import jaxpickle", 30, "ms"),
        Claim("jax", "processes in which that imported JAX", 0, "", timeless=True),
    ),
}


# What is measured


def out_of_band(scale: Scale) -> dict[str, float]:
    """Dumps with `buffer_callback`, and whether the memory on both sides is the same."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import jaxpickle

    one = large_array(scale)
    mesh = Mesh(jax.devices(), ("x",))
    sharded = jax.device_put(one, NamedSharding(mesh, PartitionSpec("x")))
    found: dict[str, float] = {"copied_out": 0, "copied_in": 0}
    for array in (one, sharded):
        buffers: list[pickle.PickleBuffer] = []
        data = jaxpickle.dumps(array, buffer_callback=buffers.append)
        loaded = jaxpickle.loads(data, buffers=buffers)
        sent = [address(buffer) for buffer in buffers]
        found["copied_out"] += bytes_elsewhere(array, sent)
        found["copied_in"] += bytes_elsewhere(loaded, sent)

    def dumps(array: jax.Array) -> Callable[[], object]:
        return lambda: jaxpickle.dumps(array, buffer_callback=lambda buffer: None)

    times = interleaved(scale.rounds * 5, one=dumps(one), sharded=dumps(sharded))
    return {**found, **{name: 1e3 * median(seconds) for name, seconds in times.items()}}


def in_band(scale: Scale) -> dict[str, float]:
    """`dumps` and `loads` of one array, beside numpy's and stock JAX's."""
    import jax
    import numpy as np

    import jaxpickle

    array = large_array(scale)
    host = np.asarray(array)
    dumps = interleaved(
        scale.rounds,
        ours=lambda: jaxpickle.dumps(array),
        numpy=lambda: pickle.dumps(host, 5),
        stock=lambda: pickle.dumps(array, 5),
    )
    ours, numpys = jaxpickle.dumps(array), pickle.dumps(host, 5)
    loads = interleaved(
        scale.rounds,
        ours=lambda: jax.block_until_ready(jaxpickle.loads(ours)),
        numpy=lambda: pickle.loads(numpys),
    )
    return {
        "dumps_numpy": ratio(dumps["ours"], dumps["numpy"]),
        "dumps_stock": ratio(dumps["ours"], dumps["stock"]),
        "loads_numpy": ratio(loads["ours"], loads["numpy"]),
    }


def dump_memory(scale: Scale) -> dict[str, float]:
    """How far the peak of this process rises while it dumps an array to a file."""
    import jaxpickle

    jaxpickle.dumps(large_array(Scale(mib=1)))  # imports what it needs
    array = large_array(scale)
    with tempfile.TemporaryFile() as file, peak() as rise:
        jaxpickle.dump(array, file)
    return {"extra": rise[0] / array.nbytes}


def load_memory(scale: Scale) -> dict[str, float]:
    """How far the peak of this process rises while it loads an array from a file."""
    import jax

    import jaxpickle

    jaxpickle.loads(jaxpickle.dumps(large_array(Scale(mib=1))))  # imports what it needs
    array = large_array(scale)
    with tempfile.TemporaryFile() as file:
        jaxpickle.dump(array, file)
        file.seek(0)
        del array
        with peak() as rise:
            loaded = jax.block_until_ready(jaxpickle.load(file))
    return {"extra": rise[0] / loaded.nbytes}


def small(scale: Scale) -> dict[str, float]:
    """`dumps` and `loads` of many arrays of 256 bytes, beside stock JAX's."""
    import jax
    import numpy as np

    import jaxpickle

    hosts = np.arange(64 * scale.arrays, dtype=np.float32).reshape(-1, 64)
    arrays = jax.block_until_ready(jax.device_put(list(hosts), jax.devices()[3]))
    dumps = interleaved(
        scale.rounds,
        ours=lambda: jaxpickle.dumps(arrays),
        stock=lambda: pickle.dumps(arrays, 5),
    )
    ours, stock = jaxpickle.dumps(arrays), pickle.dumps(arrays, 5)
    loads = interleaved(
        scale.rounds,
        ours=lambda: jax.block_until_ready(jaxpickle.loads(ours)),
        stock=lambda: jax.block_until_ready(pickle.loads(stock)),
    )
    return {
        "dumps_stock": ratio(dumps["ours"], dumps["stock"]),
        "loads_stock": ratio(loads["ours"], loads["stock"]),
    }


def importing(scale: Scale) -> dict[str, float]:
    """`import jaxpickle` in fresh interpreters: its time, and whether it brought JAX along."""
    code = (
        "import sys, time; start = time.perf_counter(); import jaxpickle;"
        "print(time.perf_counter() - start, 'jax' in sys.modules)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(10 if scale == FULL else 3)
    ]
    found = [run.stdout.split() for run in runs]
    return {
        "time": 1e3 * median(float(seconds) for seconds, _ in found),
        "jax": sum(imported == "True" for _, imported in found),
    }


# How it is measured


def large_array(scale: Scale) -> jax.Array:
    """An array that is not on the default device, its pages touched."""
    import jax
    import numpy as np

    host = np.arange(scale.mib * MIB // 4, dtype=np.float32)
    array: jax.Array = jax.block_until_ready(jax.device_put(host, jax.devices()[3]))
    return array


def interleaved(rounds: int, **calls: Callable[[], object]) -> dict[str, list[float]]:
    """The seconds that each call takes, in rounds; the first round only warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            gc.collect()
            start = time.perf_counter()
            result = call()
            seconds[name].append(time.perf_counter() - start)
            del result
    return {name: values[1:] for name, values in seconds.items()}


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over the rounds of one time relative to another."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))


@contextmanager
def peak() -> Iterator[list[int]]:
    """Leaves in its list how many bytes the peak of resident memory rose above what there was."""
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is what there is now
    before = status("VmRSS")
    rise: list[int] = []
    yield rise
    rise.append(status("VmHWM") - before)


def status(field: str) -> int:
    """A field of this process's status, in bytes."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def address(buffer: pickle.PickleBuffer) -> int:
    """Where the memory of a buffer begins."""
    import numpy as np

    return int(np.frombuffer(memoryview(buffer), np.uint8).ctypes.data)


def bytes_elsewhere(array: jax.Array, addresses: list[int]) -> int:
    """How many bytes of an array begin at none of these addresses."""
    parts = [shard.data for shard in array.addressable_shards]
    return sum(part.nbytes for part in parts if part.unsafe_buffer_pointer() not in addresses)


# The run


def main() -> int:
    """Measures every claim and prints a line for each; 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small arrays; times are not judged")
    parser.add_argument("--measure", nargs="+", choices=CLAIMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.measure:
        print(json.dumps({group: globals()[group](scale) for group in options.measure}))
        return 0
    print(heading(scale))
    interpreters = [[*CLAIMS]] if options.quick else [[group] for group in CLAIMS]
    verdicts = [
        judged(claim, found[claim.key], options.quick)
        for groups in interpreters
        for group, found in measured(groups, options.quick).items()
        for claim in CLAIMS[group]
    ]
    return 0 if all(verdicts) else 1


def heading(scale: Scale) -> str:
    """What the numbers depend on."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("jax", "numpy"))
    python = sys.version.partition(" ")[0]
    return (
        f"{date.today()}: {versions}, Python {python}, {os.cpu_count()} cores; large: "
        f"{scale.mib} MiB of float32, many small: {scale.arrays:,} of 256 bytes, CPU devices\n"
    )


def judged(claim: Claim, value: float, quick: bool) -> bool:
    """Prints a claim beside its number; whether it holds, as far as it is judged."""
    judging = claim.timeless or not quick
    good = not judging or value <= claim.target
    verdict = ("ok" if good else "MISSED") if judging else "not judged"
    number = f"{value:.3g} {claim.unit}".rstrip()
    target = f"{claim.target:g} {claim.unit}".rstrip()
    print(f"{claim.text:58} {number:>12}   at most {target:12} {verdict}", flush=True)
    return good


def measured(groups: list[str], quick: bool) -> dict[str, dict[str, float]]:
    """What a fresh interpreter with eight devices measures of some groups."""
    done = subprocess.run(
        [sys.executable, __file__, *(["--quick"] if quick else []), "--measure", *groups],
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        },
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
