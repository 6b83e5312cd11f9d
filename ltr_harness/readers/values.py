"""Options of all file readers: grades of labels, and values beyond float32."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from ltr_harness.wording import count_of, plural

Beyond = Literal["error", "clip", "missing"]

LARGEST = float(np.finfo(np.float32).max)


_RANGE = re.compile(
    r"(?P<low>-?[\d.]+)-(?P<open><?)(?P<high>-?[\d.]+)|<(?P<below>-?[\d.]+)|>=(?P<least>-?[\d.]+)", re.ASCII
)


class _Range(NamedTuple):
    """The labels from `low` to `high`, `high` among them unless `is_open`."""

    low: float
    high: float
    is_open: bool

    @classmethod
    def of(cls, label: str) -> _Range | None:
        """What a label such as 2-3.4, 2-<4, <2 or >=4 means; None where it is a word."""
        found = _RANGE.fullmatch(label.replace(" ", ""))
        if found is None:
            return None
        ends = (found["low"] or found["least"], found["high"] or found["below"])
        try:
            low, high = (float(end) if end else inf for end, inf in zip(ends, (-np.inf, np.inf), strict=True))
        except ValueError:  # a version, such as 1.2.3-4
            return None
        return cls(low, high, bool(found["open"] or found["below"])) if low <= high else None

    def __contains__(self, label: object) -> bool:
        return (
            isinstance(label, float)
            and self.low <= label
            and (label < self.high if self.is_open else label <= self.high)
        )


def _by_text(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if [*value] == ["bins"] and isinstance(value["bins"], list | tuple):
        return _of_bins(value["bins"])
    return {str(label): grade for label, grade in value.items()}


def _of_bins(bins: Sequence[Any]) -> dict[str, int]:
    """The grades 0, 1, … of the labels below the first number, from it to below the second, … from the last on."""
    if not all(isinstance(one, int | float) and np.isfinite(one) for one in bins) or not bins:
        raise ValueError("bins is not a list of numbers, such as bins: [2, 4]")
    if any(low >= high for low, high in pairwise(bins)):
        raise ValueError("each of the bins above the one before")
    between = [f"{low:g}-<{high:g}" for low, high in pairwise(bins)]
    labels = [f"<{bins[0]:g}", *between, f">={bins[-1]:g}"]
    return {label: grade for grade, label in enumerate(labels)}


def _each_once(grades: dict[str, float]) -> dict[str, float]:
    if not grades:
        raise ValueError("at least one label")
    first: dict[str | float, str] = {}
    for label in grades:
        if (same := first.setdefault(_label(label), label)) != label:
            raise ValueError(f"each label once; {same} and {label} are the same number")
    ranges = sorted((known, label) for label in grades if (known := _Range.of(label)) is not None)
    for (one, label), (other, another) in pairwise(ranges):
        if other.low in one:
            raise ValueError(f"each label once; {label} and {another} both hold {other.low:g}")
    return grades


Grade = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Grades = Annotated[
    dict[str, Grade],
    BeforeValidator(_by_text, json_schema_input_type=dict[str, Grade] | dict[Literal["bins"], list[float]]),
    AfterValidator(_each_once),
]


class ValueOptions(BaseModel):
    """Options of labels and values."""

    unjudged: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Label of documents that nobody judged, such as -1 in semi-supervised sets. Nothing is learned "
        "from them; metrics count them as not relevant, or tell them apart as bpref and judged do.",
    )
    grades: Grades | None = Field(
        default=None,
        description="What labels stand for: words and their numbers, such as {bad: 0, fair: 1, good: 2}, or fewer "
        'grades, such as {0: 0, 1: 0, 2: 1}, {"0-1.9": 0, "2-3.4": 1} with both ends, or {bins: [2, 4]}: 0 below 2, '
        "1 from 2 to below 4, 2 from 4 on. Every label of the files is in it, but the one of `unjudged`.",
    )
    beyond_float32: Beyond = Field(
        default="error",
        description="What becomes of feature values that are infinite or beyond the range of float32: an error, the "
        "nearest value of that range (clip), or a missing value.",
    )

    @model_validator(mode="after")
    def _unjudged_apart(self) -> Self:
        if self.grades and self.unjudged is not None:
            labels = {_label(label) for label in self.grades}
            if self.unjudged in (*labels, *self.grades.values()):
                raise ValueError(f"grades names {self.unjudged:g}, which unjudged says that nobody judged")
        return self

    def graded(self, labels: Iterable[str | float]) -> NDArray[np.float64]:
        """What labels stand for by `grades`, which are there; NaN where they do not say.

        Example:
            >>> ValueOptions(grades={"bad": 0, "good": 1, 3: 2}).graded(["good", "3.0", 3, "great"])
            array([ 1.,  2.,  2., nan])
            >>> ValueOptions(grades={"bins": [2, 4]}).graded([0.5, 2, 3.9, 4, 11])
            array([0., 1., 1., 2., 2.])
        """
        known = {_label(label): grade for label, grade in (self.grades or {}).items()}
        ranges = {_Range.of(label): grade for label, grade in (self.grades or {}).items()}
        if self.unjudged is not None:
            known[self.unjudged] = self.unjudged

        def grade(label: str | float) -> float:
            if label in known:
                return known[label]
            return next(
                (grade for held, grade in ranges.items() if held is not None and label in held), np.nan
            )

        return np.array([grade(_label(label)) for label in labels], dtype=np.float64)

    @property
    def mapped_labels(self) -> str:
        """What messages expect where `grades` do not have a label."""
        labels = list(self.grades or {})
        return f"one of {', '.join(labels[:10])}{', …' if len(labels) > 10 else ''}, as `grades` maps them"

    @property
    def grade_notes(self) -> tuple[str, ...]:
        """What to say of labels that were mapped."""
        return () if self.grades is None else (f"labels by `grades`: {grades_in_words(self.grades)}",)


def grades_in_words(grades: Mapping[str, float]) -> str:
    """``bad is 0, good is 1``.

    Example:
        >>> grades_in_words({"bad": 0.0, "2": 1.5})
        'bad is 0, 2 is 1.5'
    """
    return ", ".join(f"{label} is {grade:g}" for label, grade in grades.items())


def _label(label: str | float) -> str | float:
    """A label as a number where it is one: 1 and 1.0 are the same, and digits are those of ASCII."""
    try:
        return label if isinstance(label, str) and "_" in label else float(str(label).encode())
    except ValueError:
        return label


def without_unjudged(
    labels: NDArray[np.float64], unjudged: float | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None, tuple[str, ...]]:
    """Labels, 0 where nobody judged; which were judged, None if all were; and what to say of it.

    Shapes: `labels` (n_rows,).

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
    """Put infinite values in their place, and count them; with ``error`` they stay. Shapes: `values` (n_rows,)."""
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
