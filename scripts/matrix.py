"""Runs the tests on every JAX that we support, each in an environment of its own.

    python scripts/matrix.py [--only NAME]... [--reuse-test] [-- PYTEST ARGUMENTS]

Needs a Python 3.11 and a Python 3.13, and fails without either: a JAX that goes untested silently
is worse than a red run. Environments live in `.matrix/` and are kept until what they are made
from changes. Two rows run at a time, each in one process: their tests wait on fresh interpreters
for much of their time, and two cores are what a small machine has.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MATRIX = ROOT / ".matrix"
UV = Path(sys.prefix) / "bin" / "uv"
NEWEST = "newest"
PYTEST_ERRORS = {0: "", 1: "FAILED", 5: "NO TESTS"}


@dataclass(frozen=True)
class Row:
    """One environment, and the part of the suite that runs there."""

    name: str  # a version of JAX, or NEWEST
    python: str
    full: bool = False

    @property
    def place(self) -> Path:
        """Where the environment lives."""
        return MATRIX / f"jax-{self.name}-py{self.python}"

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return self.place / "bin" / "python"

    @property
    def pins(self) -> list[str]:
        """What pip is asked for: both packages, since jax accepts a jaxlib of another release."""
        packages = ("jax", "jaxlib")
        return list(packages) if self.name == NEWEST else [f"{p}=={self.name}" for p in packages]

    @property
    def title(self) -> str:
        """How the row is called in the output."""
        tests = "full suite" if self.full else "-m versions"
        return f"jax {self.name}, Python {self.python}, {tests}"


# The long ones first, so that the short ones fill the gaps. The full rows are those of
# constraints/: the last JAX on Python 3.11, and the newest tested.
ROWS = (
    Row("0.12.0.1", "3.13", full=True),
    Row("0.10.2", "3.11", full=True),
    Row("0.10.0", "3.11"),
    Row("0.11.0", "3.13"),
    Row("0.11.2", "3.13"),
    Row(NEWEST, "3.13"),  # tells of the next break; never fails the command
)


@dataclass(frozen=True)
class Counts:
    """How the tests of a row went."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came of a row."""

    row: Row
    jax: str = "-"
    counts: Counts = Counts()
    seconds: float = 0.0
    error: str = ""
    note: str = ""
    output: str = ""

    @property
    def good(self) -> bool:
        """Whether tests ran and none failed."""
        return not self.error and not self.counts.failed and self.counts.passed > 0

    @property
    def verdict(self) -> str:
        """The last cell of the table."""
        word = "ok" if self.good else self.error or "FAILED"
        if self.row.name == NEWEST and not self.good:
            word += " (reported only)"
        return f"{word}, {self.note}" if self.note else word


def main() -> int:
    """Runs the rows asked for; 0 if all that must pass have passed."""
    options = parse(sys.argv[1:])
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    try:
        pythons = {version: find_python(version) for version in sorted({r.python for r in rows})}
    except LookupError as missing:
        print(missing, file=sys.stderr)
        return 1
    outcomes = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [
            pool.submit(reused if stands_in(row, options) else run, row, pythons, options.pytest)
            for row in rows
        ]
        for job in as_completed(jobs):
            outcomes.append(job.result())
            show(outcomes[-1])
    print_table(sorted(outcomes, key=lambda outcome: ROWS.index(outcome.row)))
    return 0 if all(o.good or o.row.name == NEWEST for o in outcomes) else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; what follows `--` is pytest's."""
    ours, _, pytest = partition(arguments, "--")
    parser = argparse.ArgumentParser(description="Run the tests on every supported JAX.")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=[row.name for row in ROWS],
        help="only this row, by its JAX version or 'newest'; may be repeated",
    )
    parser.add_argument(
        "--reuse-test",
        action="store_true",
        help="take the report of the `make test` just run for the row of the same JAX and Python",
    )
    options = parser.parse_args(ours)
    options.pytest = pytest
    return options


def partition(items: Sequence[str], mark: str) -> tuple[list[str], list[str], list[str]]:
    """`str.partition` for lists."""
    at = items.index(mark) if mark in items else len(items)
    return list(items[:at]), list(items[at : at + 1]), list(items[at + 1 :])


# Interpreters


def find_python(version: str) -> str:
    """A Python of that version which runs; LookupError, with what was tried, if there is none."""
    candidates = list(python_candidates(version))
    for candidate in candidates:
        found = real_interpreter(candidate, version)
        if found:
            return found
    tried = ", ".join(candidates) or "nothing found"
    variable = python_variable(version)
    raise LookupError(f"No Python {version} (tried: {tried}). Name one with {variable}=...")


def python_variable(version: str) -> str:
    """The environment variable that names a Python: PYTHON311 for 3.11."""
    return "PYTHON" + version.replace(".", "")


def python_candidates(version: str) -> Iterator[str]:
    """Where a Python of that version may be; what the user names goes alone."""
    named = os.environ.get(python_variable(version))
    if named:
        yield named
        return
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    if shutil.which("pyenv"):
        # pyenv knows it even where its shim on PATH refuses to run.
        prefix = output_of("pyenv", "prefix", version)
        if prefix:
            yield f"{prefix}/bin/python"


def real_interpreter(candidate: str, version: str) -> str:
    """The path of the interpreter behind `candidate`, or '' if it is not of that version."""
    code = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
    found, _, path = output_of(candidate, "-c", code).partition(" ")
    return path if found == version else ""


def output_of(*command: str) -> str:
    """What a command prints, or '' if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# Environments


def prepare(row: Row, python: str) -> None:
    """Makes the environment of a row, or takes the one that is there if it is still right."""
    stamp = row.place / "stamp"
    text = recipe(row, python)
    current = stamp.exists() and stamp.read_text() == text
    if current and row.name != NEWEST:
        return
    if not current:
        uv("venv", "--clear", "--python", python, str(row.place))
    upgrade = ["--upgrade-package=jax", "--upgrade-package=jaxlib"] if row.name == NEWEST else []
    into = ["--python", str(row.interpreter)]
    uv("pip", "install", *into, *upgrade, "--editable", ".", "--group", "test", *row.pins)
    stamp.write_text(text)


def recipe(row: Row, python: str) -> str:
    """All that an environment is made from, as text."""
    project = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    return "\n".join([str(ROOT), python, *row.pins, project])


def uv(*arguments: str) -> None:
    """Runs uv; RuntimeError with its message if it fails."""
    done = subprocess.run(
        [UV, *arguments, "--quiet"],
        cwd=ROOT,
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


# Runs


def run(row: Row, pythons: dict[str, str], pytest: Sequence[str]) -> Outcome:
    """Makes the environment of a row and runs its tests there."""
    start = time.monotonic()
    try:
        prepare(row, pythons[row.python])
    except RuntimeError as problem:
        return Outcome(row, error="NOT INSTALLED", output=str(problem))
    report = row.place / "report.xml"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        pytest_command(row, report, pytest),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Outcome(
        row,
        jax=output_of(str(row.interpreter), "-c", "import jax.version as v; print(v.__version__)"),
        counts=read_counts(report),
        seconds=time.monotonic() - start,
        error=PYTEST_ERRORS.get(done.returncode, f"FAILED (pytest exit {done.returncode})"),
        output=done.stdout,
    )


def pytest_command(row: Row, report: Path, extra: Sequence[str]) -> list[str]:
    """The command of a row; its cache is its own, since another row runs beside it."""
    command = [str(row.interpreter), "-m", "pytest", "-q", f"--junit-xml={report}"]
    command += ["-o", f"cache_dir={row.place / 'pytest_cache'}"]
    if not row.full:
        command += ["-m", "versions"]
    return [*command, *extra]


def read_counts(report: Path) -> Counts:
    """The counts in pytest's report; zeros where it wrote none."""
    if not report.exists():
        return Counts()
    suites = list(ElementTree.parse(report).iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return Counts(total - failed - skipped, failed, skipped)


# The row that `make test` has run already


def stands_in(row: Row, options: argparse.Namespace) -> bool:
    """Whether the report of `make test` may be taken for this row.

    It may if the default environment, which also runs this script, is of the same Python, jax and
    jaxlib, and the row would run the same tests.
    """
    here = (python_version(), metadata.version("jax"), metadata.version("jaxlib"))
    same_environment = here == (row.python, row.name, row.name)
    same_tests = row.full and not options.pytest
    return options.reuse_test and same_environment and same_tests and test_report().exists()


def python_version() -> str:
    """The Python that runs this script."""
    return ".".join(map(str, sys.version_info[:2]))


def test_report() -> Path:
    """Where `make test` leaves its report."""
    return Path(sys.prefix) / "report.xml"


def reused(row: Row, _pythons: dict[str, str], _pytest: Sequence[str]) -> Outcome:
    """The outcome that `make test` has reported."""
    suites = ElementTree.parse(test_report()).iter("testsuite")
    return Outcome(
        row,
        jax=row.name,
        counts=read_counts(test_report()),
        seconds=sum(float(suite.get("time", "0")) for suite in suites),
        note="ran by `make test`",
    )


# Output


def show(outcome: Outcome) -> None:
    """Prints what a row printed, pytest's closing line included."""
    print(f"\n== {outcome.row.title}: {outcome.verdict}", flush=True)
    if outcome.output:
        print(outcome.output.rstrip(), flush=True)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Prints one line a row."""
    lines = [("row", "jax", "passed", "failed", "skipped", "seconds", "")]
    for o in outcomes:
        counts = (str(o.counts.passed), str(o.counts.failed), str(o.counts.skipped))
        lines.append((o.row.title, o.jax, *counts, f"{o.seconds:.1f}", o.verdict))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    print()
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())
