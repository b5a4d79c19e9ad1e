"""The grammar of device names, and what a key of a mapping matches: no device is needed."""

import pytest

from jaxpickle.placements import names


@pytest.mark.parametrize(
    ("name", "parts"),
    [("cpu:0", ("cpu", 0)), ("cuda:12", ("cuda", 12)), ("tpu", ("tpu", 0))],
)
def test_name_is_platform_and_index(name: str, parts: tuple[str, int]) -> None:
    """A device is named `platform:index`; a bare platform is its first device."""
    assert names.split(name) == parts


@pytest.mark.parametrize("name", ["", "cpu:", ":1", "cpu:x", "cpu:-1", "cpu:1 ", "cuda:0/1", "*"])
def test_anything_else_is_no_name(name: str) -> None:
    """What is no `platform:index` is refused, and shown."""
    with pytest.raises(ValueError, match="is no device name"):
        names.split(name)


@pytest.mark.parametrize(
    ("key", "matching", "other"),
    [
        ("cuda:1", ["cuda:1"], ["cuda:0", "cuda:11", "rocm:1", "cpu:1"]),
        ("gpu:1", ["cuda:1", "rocm:1", "gpu:1"], ["cuda:0", "tpu:1", "cpu:1"]),
        ("gpu", ["cuda:0", "rocm:7"], ["cpu:0"]),
        ("gpu:[02]", ["cuda:0", "rocm:2"], ["cuda:1"]),
        ("cpu", ["cpu:0", "cpu:12"], ["cuda:0"]),
        ("cpu:*", ["cpu:0", "cpu:12"], ["cuda:0"]),
        ("cpu:[13]", ["cpu:1", "cpu:3"], ["cpu:2", "cpu:13"]),
        ("cpu:?", ["cpu:7"], ["cpu:12"]),
        ("*", ["cpu:0", "cuda:3", "tpu:1"], []),
        ("*:1", ["cpu:1", "cuda:1"], ["cpu:0", "cpu:11"]),
    ],
)
def test_key_matches(key: str, matching: list[str], other: list[str]) -> None:
    """Keys are names, globs or a bare platform; `gpu:1` stands for `cuda:1` or `rocm:1`."""
    glob = names.key_of(key)
    assert [name for name in matching if not names.matches(glob, name)] == []
    assert [name for name in other if names.matches(glob, name)] == []


@pytest.mark.parametrize(
    ("key", "is_glob"),
    [("cpu", True), ("cpu:*", True), ("cpu:?", True), ("cpu:[01]", True), ("cpu:1", False)],
)
def test_only_a_whole_name_is_exact(key: str, is_glob: bool) -> None:
    """An exact key goes before a glob; a bare platform is `platform:*`, a glob."""
    assert names.is_glob(key) is is_glob


def test_platforms_of_a_glob() -> None:
    """`gpu` is each platform that it stands for; a glob of platforms names none."""
    assert names.platforms("cuda:*") == ("cuda",)
    assert names.platforms("gpu:[01]") == ("gpu", "cuda", "rocm")
    assert names.platforms("*") == names.platforms("c*:1") == ()


def test_same_index() -> None:
    """The target `"cpu:*"` keeps the index; another target has none to keep."""
    assert names.same_index("cpu:*", "cuda:3") == "cpu:3"
    assert names.same_index("cpu:1", "cuda:3") is None
    assert names.same_index("cpu", "cuda:3") is None
