"""The demonstration: that it passes, and that it would fail if it should."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "train_and_move.py"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_and_move", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(400)
def test_the_demo_passes_from_any_folder(tmp_path: Path) -> None:
    """It needs no argument, no setting and no folder, and says where each array was and is."""
    done = subprocess.run(
        [sys.executable, DEMO], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    weights = "state.model.layers[0].weights P(None, 'model') on cpu:0..7 the same"
    assert f"{weights} P(None, 'model') on cpu:0..1" in lines
    assert "state.key P() on cpu:0..7 the same P() on cpu:0..1" in lines
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("second", "on_8", "on_2", "good"),
    [
        ([0.3, 0.2], [0.3, 0.2], [0.3, 0.2], True),
        ([0.3, 0.2], [0.3, 0.2], [0.3, 0.2 * (1 + 5e-6)], True),
        ([0.3, 0.2], [0.3, 0.2], [0.3, 0.2 * (1 + 5e-5)], False),
        ([0.3, 0.2], [0.3, 0.2 * (1 + 1e-9)], [0.3, 0.2], False),
        ([0.3, 0.2 * (1 + 1e-9)], [0.3, 0.2 * (1 + 2e-9)], [0.3, 0.2], True),
        ([0.3, 0.2], [0.3, float("nan")], [0.3, 0.2], False),
    ],
)
def test_the_demo_fails_where_losses_differ(
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    second: list[float],
    on_8: list[float],
    on_2: list[float],
    good: bool,
) -> None:
    """Eight devices must give the same bits, if two runs without a stop do; two devices nearly."""
    monkeypatch.setattr(demo, "HALF", 1)
    reports = [demo.Report({}, losses) for losses in ([0.3, 0.2], second, on_8, on_2)]
    assert demo.print_losses(*reports) is good
