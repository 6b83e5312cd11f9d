"""What becomes of labels that nobody gave and of values that no float32 holds: options of every reader of files."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from ltr_harness.wording import count_of, plural

Beyond = Literal["error", "clip", "missing"]

LARGEST = float(np.finfo(np.float32).max)


class ValueOptions(BaseModel):
    """The options."""

    unjudged: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Label of documents that nobody judged, such as -1 in semi-supervised sets. Nothing is learned "
        "from them; metrics count them as not relevant, or tell them apart as bpref and judged do.",
    )
    beyond_float32: Beyond = Field(
        default="error",
        description="What becomes of feature values that are infinite or beyond the range of float32: an error, the "
        "nearest value of that range (clip), or a missing value.",
    )


def without_unjudged(
    labels: NDArray[np.float64], unjudged: float | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None, tuple[str, ...]]:
    """Labels, 0 where nobody judged; which were judged, None if all were; and what to say of it.

    Args:
        labels: float64 (n_rows,).
        unjudged: the label that means that nobody judged; None: there is none.

    Example:
        >>> labels, judged, notes = without_unjudged(np.array([2.0, -1.0]), -1)
        >>> labels, judged, notes
        (array([2., 0.]), array([ True, False]), ('1 of 2 documents is not judged (unjudged: -1)',))
    """
    if unjudged is None:
        return labels, None, ()
    judged = labels != unjudged
    n = int(np.count_nonzero(~judged))
    if not n:
        return labels, None, ()
    note = (
        f"{n:,} of {count_of(labels.size, 'document')} {plural('is', n)} not judged (unjudged: {unjudged:g})"
    )
    return np.where(judged, labels, 0.0), judged, (note,)


def within_float32(values: NDArray[np.float32], how: Beyond) -> int:
    """Put infinite values in their place, and count them; with ``error`` they stay.

    Args:
        values: float32 (n_rows,), changed.
        how: what becomes of them.
    """
    infinite = np.isinf(values)
    if how == "clip":
        np.clip(values, -LARGEST, LARGEST, out=values)
    elif how == "missing":
        values[infinite] = np.nan
    return int(np.count_nonzero(infinite))


def beyond_notes(n: int, how: Beyond) -> tuple[str, ...]:
    """What to say of values that were put in their place."""
    if not n or how == "error":
        return ()
    now = "clipped to its range" if how == "clip" else "taken as missing"
    return (f"{count_of(n, 'value')} beyond float32 {plural('is', n)} {now} (beyond_float32: {how})",)
