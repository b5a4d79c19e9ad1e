"""The benchmark of arrays, in its small version."""

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "arrays.py"


def test_the_small_version_runs_and_nothing_is_copied() -> None:
    """Every claim is measured; those that are no matter of time hold."""
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if " at most " in line]
    assert len(lines) == 13
    assert [line.split()[-1] for line in lines if "bytes copied" in line] == ["ok", "ok"]
