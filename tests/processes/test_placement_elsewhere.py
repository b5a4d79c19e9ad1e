"""`devices=` in interpreters with fewer devices than those that wrote the stream."""

from typing import Any

import pytest

from fresh import Worker
from placements.together import GRID, IMPORT, ONE, cpus, expected, stream

REPORT = IMPORT + "result = report(jaxpickle.loads(blobs['data'], devices={}, **blobs['options']))"


def loaded(worker: Worker, devices: str, **options: Any) -> Any:
    """Returns the report of the state of eight devices, loaded with `devices=`."""
    code = REPORT.replace("{}", devices)
    return worker.run(code, blobs={"data": stream(8), "options": options})


@pytest.mark.parametrize("devices", ["'cpu:1'", "jax.devices()[1]"])
def test_one_device(devices: str, worker2: Worker) -> None:
    """A device or its name: everything goes there, committed, and runs together."""
    singles = dict.fromkeys(("committed", "uncommitted", "elsewhere"), ("cpu:1", True))
    got = loaded(worker2, devices)
    assert got == expected(ONE, ["cpu:1"], True, device="cpu:1", **singles)


def test_all_to_one(worker4: Worker) -> None:
    """A mapping of all to one needs none of the saved devices; commitment stays."""
    assert loaded(worker4, "{'cpu:*': 'cpu:3'}") == expected(
        ONE,
        ["cpu:3"],
        True,
        device="cpu:3",
        committed=("cpu:3", True),
        uncommitted=("cpu:3", False),
        elsewhere=("cpu:3", False),
    )


def test_smaller_mesh(worker4: Worker) -> None:
    """A mesh of four for one of eight: all that is laid over it is resharded on load.

    What lies on one device follows the table, here to the default device.
    """
    got = loaded(worker4, "grid(4)", raise_on_missing_device=False)
    on_default = dict.fromkeys(("committed", "uncommitted", "elsewhere"), ("cpu:0", False))
    assert got == expected(GRID[4], cpus(0, 1, 2, 3), True, device="cpu:0", **on_default)
