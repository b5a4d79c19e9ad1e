"""`Unpickler.devices` and `Unpickler.raise_on_missing_device` read the settings back."""

import io
from typing import Any

import jax
import pytest

import jaxpickle
from placements.together import grid

DEVICES = jax.devices()
HERE = {f"cpu:{index}": device for index, device in enumerate(DEVICES)}


def unpickler(**options: Any) -> jaxpickle.Unpickler:
    """Returns an Unpickler of an empty file."""
    return jaxpickle.Unpickler(io.BytesIO(), **options)


def test_without_devices_each_name_is_its_device() -> None:
    """Not given: a dict from every name that resolves here to its `jax.Device`."""
    assert unpickler().devices == HERE
    assert unpickler(devices=None).devices == HERE
    assert unpickler(devices={}).devices == HERE


def test_mapping_is_included() -> None:
    """A mapping: names of other platforms that it gives a meaning, and those that it moves."""
    devices = unpickler(devices={"cuda:1": "cpu:4", "cpu:2": DEVICES[0], "cpu:7": "cpu"}).devices
    moved = {"cpu:2": DEVICES[0], "cpu:7": DEVICES[0]}
    assert devices == {**HERE, **moved, "cuda:1": DEVICES[4]}


def test_globs_are_included() -> None:
    """A glob gives a meaning to names of its platform: to as many as there are devices here."""
    alone = {f"cuda:{index}": device for index, device in enumerate(DEVICES)}
    assert unpickler(devices={"cuda:*": "cpu:*"}).devices == {**HERE, **alone}
    pair = {"tpu:0": DEVICES[3], "tpu:1": DEVICES[3]}
    assert unpickler(devices={"tpu:[01]": "cpu:3"}).devices == {**HERE, **pair}
    gpus = unpickler(devices={"gpu": "cpu:*"}).devices
    assert gpus["cuda:2"] is gpus["rocm:2"] is gpus["gpu:2"] is DEVICES[2]


def test_names_that_do_not_resolve_are_left_out() -> None:
    """A name sent to a device that is not here is none that resolves; with the fallback it is."""
    mapping = {"cpu:2": "cpu:99", "cuda:0": "tpu:0"}
    resolving = {name: device for name, device in HERE.items() if name != "cpu:2"}
    assert unpickler(devices=mapping).devices == resolving
    fallback = unpickler(devices=mapping, raise_on_missing_device=False).devices
    assert fallback == {**HERE, "cpu:2": DEVICES[0], "cuda:0": DEVICES[0]}


def test_default_in_a_mapping_is_the_default_device_now() -> None:
    """`"default"` resolves to what JAX says when it is asked."""
    reader = unpickler(devices={"cuda:0": "default"})
    with jax.default_device(DEVICES[5]):
        assert reader.devices["cuda:0"] is DEVICES[5]
    assert reader.devices["cuda:0"] is DEVICES[0]


@pytest.mark.parametrize("given", ["cpu:3", DEVICES[2], grid(4)], ids=["name", "device", "mesh"])
def test_other_forms_come_back_as_given(given: Any) -> None:
    """For the other forms, what was given."""
    assert unpickler(devices=given).devices is given


@pytest.mark.parametrize("raises", [True, False])
def test_other_setting(raises: bool) -> None:
    """`Unpickler.raise_on_missing_device` reads the other setting back; by default it raises."""
    assert unpickler(raise_on_missing_device=raises).raise_on_missing_device is raises
    assert unpickler().raise_on_missing_device is True


def test_settings_of_a_block_are_read_back() -> None:
    """What was not given is that of the block in which the Unpickler is used, as of any load."""
    reader = unpickler()
    with jaxpickle.placement(devices="cpu:3", raise_on_missing_device=False):
        assert (reader.devices, reader.raise_on_missing_device) == ("cpu:3", False)
    assert reader.raise_on_missing_device


def test_it_holds_for_every_load() -> None:
    """The settings hold for each object of the file, and are back to what they were between."""
    file = io.BytesIO(jaxpickle.dumps(DEVICES[1]) + jaxpickle.dumps(DEVICES[2]))
    reader = jaxpickle.Unpickler(file, devices="cpu:6")
    assert [reader.load(), reader.load()] == [DEVICES[6], DEVICES[6]]
    assert jaxpickle.loads(jaxpickle.dumps(DEVICES[1])) is DEVICES[1]
