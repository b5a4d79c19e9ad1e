"""Arrays of numpy's StringDType as two flat arrays: the length of each text, and all the text.

A list of str would cost pickle an object for each, and could not leave a stream out of band.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

__all__ = ["join", "split"]

Array = np.ndarray[Any, Any]

_MISSING = -1


def join(dtype: np.dtype[Any], texts: list[Any]) -> tuple[Array, Array]:
    """Return the lengths and the text of the elements of an array.

    Args:
        dtype: the StringDType of the array.
        texts: its elements: str, or the missing value of ``dtype``.

    Returns:
        int64 lengths in code points (-1 for a missing value), and the texts one after another
        as UTF-8.
    """
    missing = getattr(dtype, "na_object", None)
    lengths = [_MISSING if text is missing else len(text) for text in texts]
    text = "".join(text for text in texts if text is not missing)
    return np.array(lengths, np.int64), np.frombuffer(text.encode(), np.uint8)


def split(dtype: np.dtype[Any], lengths: Array, memory: Array) -> Array:
    """Return the elements that :func:`join` joined as a flat array of ``dtype``.

    Raises:
        ValueError: the lengths do not fit the text, or ``dtype`` has no missing value.
    """
    if not isinstance(lengths, np.ndarray) or not isinstance(memory, np.ndarray):
        raise ValueError("no arrays of lengths and text")
    counts = lengths.tolist()
    text = memory.tobytes().decode()
    ends = list(accumulate((max(count, 0) for count in counts), initial=0))
    if ends[-1] != len(text) or min(counts, default=0) < _MISSING:
        raise ValueError(f"{ends[-1]} characters where there are {len(text)}")
    if _MISSING in counts and not hasattr(dtype, "na_object"):
        raise ValueError("a missing value where the dtype has none")
    missing = getattr(dtype, "na_object", None)
    elements: list[Any] = [text[start:end] for start, end in pairwise(ends)]
    for i, count in enumerate(counts):
        if count == _MISSING:
            elements[i] = missing
    return np.array(elements, dtype)
