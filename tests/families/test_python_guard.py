"""Code by value is refused by another Python before any of it is built."""

import pytest

import fresh

FORGED = """
import sys, jaxpickle
from jaxpickle.families import by_value
good = jaxpickle.dumps(lambda: 1)
by_value._HERE = "3.5"
{definition}
result = good, jaxpickle.dumps(obj)
"""

REFUSED = """
import sys, jaxpickle, jaxpickle.unpickler, jaxpickle.families.by_value
made = []
sys.addaudithook(lambda event, args: made.append(args) if event == "code.__new__" else None)
assert jaxpickle.loads(blobs["good"])() == 1 and len(made) == 1, "the hook sees code being built"
made.clear()
def load():
    try:
        jaxpickle.loads(blobs["data"])
    except jaxpickle.errors.VersionError as error:
        return error
error = load()
assert error is not None and made == [], made
result = error.names, error.available, str(error)
"""


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("function", "def function(): return 1\nobj = [function]"),
        ("<lambda>", "obj = {'f': lambda: 1}"),
        ("Made", "class Made:\n    def method(self): return 1\nobj = Made()"),
        ("Made.method", "class Made:\n    def method(self): return 1\nobj = Made().method"),
    ],
)
def test_code_of_another_python_is_refused_before_it_is_built(name: str, definition: str) -> None:
    """A function or class by value from another Python raises before any code object is made."""
    good, data = fresh.run(FORGED.format(definition=definition))
    names, available, text = fresh.run(REFUSED, blobs={"good": good, "data": data})
    assert names == (name, "3.5")
    assert available[0].startswith("3.1")
    assert name in text
    assert "3.5" in text
