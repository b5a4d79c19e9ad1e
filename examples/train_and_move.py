"""Trains on eight devices, pickles the run halfway, and goes on in other processes.

    python examples/train_and_move.py

The run itself, in `digits_training.py`, knows nothing of pickling. `train` below dumps it;
`go_on` loads it, on as many devices as there are. The rest starts the processes (the devices are
those that JAX makes of one CPU, so this runs anywhere) and compares what they report.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax
    from digits_training import Training

HALF = 50  # steps before the run is pickled, and as many after
TOLERANCE = 1e-5  # two devices add in another order than eight
MESHES = {8: (4, 2), 2: (1, 2)}  # the shape ("data", "model") for a number of devices
SECONDS = 300  # that a process may take; it needs about ten


# What a process does


def train(pickled: Path) -> Report:
    """Trains without a stop, and writes the run to a file halfway."""
    import digits_training

    import jaxpickle

    training = digits_training.new_training(mesh())
    training.train(HALF)
    places = places_in(training)
    with pickled.open("wb") as file:
        jaxpickle.dump(training, file)
    training.train(HALF)
    return Report(places, training.losses)


def go_on(pickled: Path) -> Report:
    """Loads the run onto the devices of this process, and trains on."""
    import jax

    import jaxpickle

    with pickled.open("rb") as file:
        if len(jax.devices()) == 8:
            training = jaxpickle.load(file)
        else:
            training = jaxpickle.load(file, devices=mesh())
    places = places_in(training)
    training.train(HALF)
    return Report(places, training.losses)


def mesh() -> jax.sharding.Mesh:
    """All devices of this process, as the axes "data" and "model"."""
    import jax
    import numpy as np

    devices = jax.devices()
    return jax.sharding.Mesh(np.reshape(devices, MESHES[len(devices)]), ("data", "model"))


# What it reports


@dataclass
class Report:
    """Where each array lay when the run was dumped or loaded, and the loss of every step."""

    places: dict[str, str]
    losses: list[float]

    @property
    def final(self) -> float:
        return self.losses[-1]


def places_in(training: Training) -> dict[str, str]:
    """Each array of a run, by its path, with its type and place."""
    import jax

    arrays = {name: getattr(training, name) for name in ("images", "labels", "state")}
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(arrays):
        first, *rest = path
        found[first.key + jax.tree_util.keystr(tuple(rest))] = place_of(leaf)
    return found


def place_of(array: Any) -> str:
    """The spec and the devices of an array: `P('data') on cpu:0..7`."""
    devices = sorted(array.sharding.device_set, key=lambda device: device.id)
    spec = ", ".join(map(repr, array.sharding.spec))
    return f"P({spec}) on {devices[0].platform}:{devices[0].id}..{devices[-1].id}"


# The processes


def main() -> int:
    """Runs the processes, prints what came of them, and returns 0 if all losses agree."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"Training twice on 8 devices, for {2 * HALF} steps without a stop ...", flush=True)
        first, second = in_processes(folder, ("train", "first", 8), ("train", "second", 8))
        size = (folder / "first.pickle").stat().st_size
        print(f"The first was pickled after {HALF} steps: one object, {size:,} bytes.")
        print("Loading it in a process with 8 devices and in one with 2 ...\n", flush=True)
        on_8, on_2 = in_processes(folder, ("go_on", "first", 8), ("go_on", "first", 2))
    print_places(first, on_8, on_2)
    good = print_losses(first, second, on_8, on_2)
    print(f"\n{'All as it should be' if good else 'FAILED'}, in {time.monotonic() - began:.0f} s.")
    return 0 if good else 1


def in_processes(folder: Path, *jobs: tuple[str, str, int]) -> list[Report]:
    """Runs jobs, each a role, a run and a number of devices, side by side."""
    reports = [folder / f"{role}-{run}-{devices}.json" for role, run, devices in jobs]
    processes = [
        start(role, folder / f"{run}.pickle", report, devices)
        for (role, run, devices), report in zip(jobs, reports, strict=True)
    ]
    try:
        for process in processes:
            if process.wait(SECONDS):
                raise SystemExit(f"a process ended with status {process.returncode}")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [Report(**json.loads(report.read_text())) for report in reports]


def start(role: str, pickled: Path, report: Path, devices: int) -> subprocess.Popen[bytes]:
    """Starts this file in a fresh interpreter with a number of devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, __file__, role, pickled, report],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()},
    )


def in_process(role: str, pickled: str, report: str) -> None:
    """Does one job, in the process that was started for it."""
    done = {"train": train, "go_on": go_on}[role](Path(pickled))
    Path(report).write_text(json.dumps(asdict(done)))


# What is printed


def print_places(saved: Report, on_8: Report, on_2: Report) -> None:
    """Prints where each array was, and where it is in the two processes that loaded it."""
    rows: list[tuple[str, ...]] = [
        ("array", "pickled with 8 devices", "loaded with 8", "loaded with 2")
    ]
    for path, place in saved.places.items():
        others = (report.places[path] for report in (on_8, on_2))
        rows.append((path, place, *("the same" if other == place else other for other in others)))
    print_table(rows)


def print_losses(first: Report, second: Report, on_8: Report, on_2: Report) -> bool:
    """Prints the losses; whether they agree as they must."""
    allowed_on_8 = 0.0 if first.losses == second.losses else TOLERANCE
    runs = [
        ("never stopped", first, None),
        ("never stopped, once more", second, None),
        ("loaded with 8 devices", on_8, allowed_on_8),
        ("loaded with 2 devices", on_2, TOLERANCE),
    ]
    rows: list[tuple[str, ...]] = [
        ("loss", f"after {HALF}", f"after {2 * HALF}", "difference", "allowed")
    ]
    for name, report, allowed in runs:
        losses = (f"{report.losses[step - 1]:.9f}" for step in (HALF, 2 * HALF))
        limit = "" if allowed is None else f"{allowed:.0e}" if allowed else "none"
        rows.append((name, *losses, apart(report, first), limit))
    print()
    print_table(rows)
    return all(
        difference(report, first) <= allowed for _, report, allowed in runs if allowed is not None
    )


def apart(report: Report, other: Report) -> str:
    """How far two final losses are from each other, in words."""
    if report is other:
        return ""
    if report.losses == other.losses:
        return "the same bits"
    return f"{difference(report, other):.1e}"


def difference(report: Report, other: Report) -> float:
    """How far two final losses are from each other, relative to the second."""
    return abs(report.final - other.final) / abs(other.final)


def print_table(rows: Sequence[Iterable[str]]) -> None:
    """Prints rows, the first of them headings, in columns."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    for row in rows:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(main())
    in_process(*sys.argv[1:])
