"""The tree of errors: what each is, what it carries, and that it travels."""

import copy
import pickle

import pytest

import jaxpickle
from jaxpickle import errors

CLASSES = [
    cls
    for name in errors.__all__
    if isinstance(cls := getattr(errors, name), type) and issubclass(cls, Exception)
]


def test_the_tree_is_that_of_the_contract() -> None:
    """Each error is also pickle's own, and stands where the drawing puts it."""
    assert errors.PicklingError.__mro__[1:3] == (errors.JaxPickleError, pickle.PicklingError)
    assert errors.UnpicklingError.__mro__[1:3] == (errors.JaxPickleError, pickle.UnpicklingError)
    assert issubclass(errors.MissingDeviceError, errors.PlacementError)
    kinds = (errors.PlacementError, errors.UntrustedError, errors.CorruptError)
    for kind in (*kinds, errors.LimitError, errors.VersionError):
        assert issubclass(kind, errors.UnpicklingError)
    assert issubclass(errors.PlacementWarning, UserWarning)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if issubclass(cls, errors.JaxPickleError)])
@pytest.mark.parametrize("carry", [pickle.dumps, jaxpickle.dumps])
def test_every_error_pickles(cls: type[errors.JaxPickleError], carry: object) -> None:
    """An error comes back with its text and its data, through pickle, ours, and copy."""
    error = cls("no", path="$.a", names=["cpu:1"], available=["cpu:0"], type_name="jax.Array")
    error.add_note("while testing")
    for back in (pickle.loads(carry(error)), copy.copy(error)):  # type: ignore[operator]
        assert type(back) is cls
        assert str(back) == "no"
        assert vars(back) == vars(error)
        assert back.names == ("cpu:1",)


def test_an_error_can_be_made_from_its_text_alone() -> None:
    """The data is optional: libraries that rebuild exceptions from args succeed."""
    error = errors.VersionError("text")
    assert (error.path, error.names, error.available, error.type_name) == (None, (), (), None)
