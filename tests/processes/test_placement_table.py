"""The rules without `devices=`, in interpreters with as many devices, more, and fewer."""

import pytest

import jaxpickle
from fresh import Worker
from placements.together import GRID, IMPORT, ONE, cpus, expected, make_state, stream

REPORT = IMPORT + "result = report(jaxpickle.loads(blobs['data'], **blobs['options']))"

pytestmark = pytest.mark.versions

ENOUGH = [(2, 2), (2, 8), (4, 4), (4, 8), (8, 8)]
TOO_FEW = [(8, 4), (8, 2), (8, 1), (4, 2), (2, 1)]


@pytest.fixture
def worker(request: pytest.FixtureRequest) -> Worker:
    """The interpreter with as many devices as the parameter says."""
    return request.getfixturevalue(f"worker{request.param}")


@pytest.mark.parametrize(("saved", "worker"), ENOUGH, indirect=["worker"])
def test_all_comes_back_where_it_was_and_runs_together(saved: int, worker: Worker) -> None:
    """Rows 1, 3, 4, 5, 9 with the devices here: each piece on its devices, committed or not."""
    got = worker.run(REPORT, blobs={"data": stream(saved), "options": {}})
    last = f"cpu:{saved - 1}"
    assert got == expected(
        GRID[saved],
        cpus(*range(saved)),
        True,
        device=last,
        committed=(last, True),
        uncommitted=("cpu:0", False),
        elsewhere=(last, False),
    )


@pytest.mark.parametrize(("saved", "worker"), TOO_FEW, indirect=["worker"])
def test_fallback_is_the_default_device_and_runs_together(saved: int, worker: Worker) -> None:
    """Rows 2, 4, 6, 9 with `raise_on_missing_device=False`: the default device, uncommitted."""
    options, free = {"raise_on_missing_device": False}, False
    got = worker.run(REPORT, blobs={"data": stream(saved), "options": options})
    on_default = dict.fromkeys(["committed", "uncommitted", "elsewhere"], ("cpu:0", False))
    assert got == expected(ONE, ["cpu:0"], free, device="cpu:0", **on_default)


@pytest.mark.parametrize(("saved", "worker"), TOO_FEW, indirect=["worker"])
def test_missing_devices_raise_for_each_piece_by_itself(saved: int, worker: Worker) -> None:
    """Rows 2, 6, 9: `MissingDeviceError` names what is missing; rows 3 and 4: never an error.

    Each call that its text shows, run as it stands, mends it.
    """
    pieces = {name: jaxpickle.dumps(piece) for name, piece in make_state(saved).items()}
    got = worker.run(
        IMPORT
        + """
import re
result = {}
for name, data in blobs.items():
    try:
        jaxpickle.loads(data)
        result[name] = None
    except jaxpickle.errors.MissingDeviceError as error:
        result[name] = error.names, error.available
        calls = re.findall(r"jaxpickle\\.loads\\(.*?\\)(?=,|$)", str(error))
        assert len(calls) == 2
        for call in calls:
            eval(call)
""",
        blobs=pieces,
    )
    here = int(worker.run("import jax; result = len(jax.devices())"))
    there = tuple(cpus(*range(here)))
    last = ((f"cpu:{saved - 1}",), there)
    spread = (tuple(cpus(*range(here, saved))), there)
    laid = ["mesh", "sharding", "array", "function", "keys", "ref", "struct"]
    assert got == {
        **dict.fromkeys(laid, spread),
        "device": last,
        "committed": last,
        "uncommitted": None,
        "elsewhere": None,
    }
