"""The names of devices, ``platform:index``, and what a name or glob of the user's matches."""

from __future__ import annotations

import fnmatch
import re

__all__ = ["is_glob", "key_of", "matches", "platforms", "same_index", "split"]

_GPUS = ("cuda", "rocm")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:\d+\Z")
_PLATFORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def split(name: str) -> tuple[str, int]:
    """Return the platform and the index of a device name.

    Args:
        name: ``"cuda:1"``, or a bare platform, which means its first device.

    Raises:
        ValueError: it is neither.

    Example:
        >>> split("cuda:1"), split("cpu")
        (('cuda', 1), ('cpu', 0))
    """
    if _PLATFORM.match(name):
        return name, 0
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is no device name: write 'cpu', 'cuda:1' or 'tpu:3'")
    platform, _, index = name.partition(":")
    return platform, int(index)


def is_glob(key: str) -> bool:
    """Say whether a key of a mapping can match more than one device."""
    return any(sign in key for sign in "*?[") or ":" not in key


def key_of(key: str) -> str:
    """Return the glob that a key means: a bare platform is all of its devices.

    Example:
        >>> key_of("cuda"), key_of("cuda:*"), key_of("*")
        ('cuda:*', 'cuda:*', '*')
    """
    return f"{key}:*" if _PLATFORM.match(key) else key


def platforms(key: str) -> tuple[str, ...]:
    """Return the platforms that a glob names; none where they are a glob themselves.

    Example:
        >>> platforms("cuda:*"), platforms("gpu:[01]"), platforms("*:0")
        (('cuda',), ('gpu', 'cuda', 'rocm'), ())
    """
    platform = key.partition(":")[0]
    if platform == "gpu":
        return ("gpu", *_GPUS)
    return (platform,) if _PLATFORM.match(platform) else ()


def matches(key: str, name: str) -> bool:
    """Say whether a name or glob of the user's matches a saved device; ``gpu`` is any GPU.

    Example:
        >>> matches("gpu:1", "cuda:1"), matches("cuda:*", "cuda:3"), matches("cpu:1", "cuda:1")
        (True, True, False)
    """
    return any(fnmatch.fnmatchcase(spelling, key) for spelling in _spellings(name))


def same_index(target: str, name: str) -> str | None:
    """Return the device that ``"cpu:*"`` means for a saved device, or None for another target.

    Example:
        >>> same_index("cpu:*", "cuda:3")
        'cpu:3'
    """
    platform, _, star = target.partition(":")
    return f"{platform}:{name.rpartition(':')[2]}" if star == "*" else None


def _spellings(name: str) -> list[str]:
    platform, _, index = name.partition(":")
    return [name, f"gpu:{index}"] if platform in _GPUS else [name]
