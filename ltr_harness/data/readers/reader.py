"""Reader base classes: options of the experiment file, and one way to read."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ltr_harness._util.text import shortened
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.text_files import located
from ltr_harness.errors import MismatchError


class Reader(BaseModel, ABC):
    """Turns the files of one split into a `RankingDataset`.

    The fields of a subclass are its options under ``data:`` in the experiment file; their descriptions are
    the documentation and the JSON Schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    default_splits: ClassVar[Mapping[str, tuple[str, ...]] | None] = None
    """Split name to files, for a reader that needs no ``splits:`` in the experiment file."""

    @abstractmethod
    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        """The rows of one split: all the files, one after the other.

        Args:
            files: names as they stand in the experiment file.
            root: the folder they are relative to.

        Raises:
            DataError: every problem found, each with file and line (or row, or query).
        """

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        """Every file that `read` would open, companions included: what a record keeps digests of.

        Raises:
            DataError: a file does not exist.
        """
        return ()


class FileReader(Reader):
    """A reader of files on disk, whose queries may stand in the file in pieces."""

    regroup: bool = Field(
        default=False,
        description="Bring the rows of a query together where they are scattered over a file or over several "
        "files of a split. When false, scattered queries are an error.",
    )

    def paths(self, files: Sequence[str], root: Path) -> list[Path]:
        """The files to read, in order.

        Raises:
            DataError: a file does not exist.
        """
        return located(files, root)

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        return tuple(self.paths(files, root))


Beyond = Literal["error", "clip", "missing"]

_RANGE = re.compile(
    r"(?P<low>-?[\d.]+)-(?P<open><?)(?P<high>-?[\d.]+)|<(?P<below>-?[\d.]+)|>=(?P<least>-?[\d.]+)", re.ASCII
)


class _LabelRange(NamedTuple):
    """The labels from `low` to `high`, `high` among them unless `is_open`."""

    low: float
    high: float
    is_open: bool

    @classmethod
    def of(cls, label: str) -> Self | None:
        """Return the range of a label such as 2-3.4, 2-<4, <2 or >=4; None where it is a word."""
        match = _RANGE.fullmatch(label.replace(" ", ""))
        if match is None:
            return None
        try:
            low = float(match["low"] or match["least"] or -np.inf)
            high = float(match["high"] or match["below"] or np.inf)
        except ValueError:  # a version, such as 1.2.3-4
            return None
        return cls(low, high, bool(match["open"] or match["below"])) if low <= high else None

    def __contains__(self, label: object) -> bool:
        if not isinstance(label, float) or not self.low <= label <= self.high:
            return False
        return label < self.high or not self.is_open


def _parse_grades(value: Any) -> Any:
    """Return grades by the text of their labels; bins give 0 below the first limit, 1 from it to below the second, …"""
    if not isinstance(value, Mapping):
        return value
    limits = value["bins"] if [*value] == ["bins"] else None
    if isinstance(limits, int | float):
        cure = "`relevance: {mode: quantiles, column: …, bins: 5}` has as many grades as it is told"
        raise MismatchError("bins is a number", f"the limits, such as bins: [2, 4]; {cure}")
    if not isinstance(limits, list | tuple):
        return {str(label): grade for label, grade in value.items()}
    return _grades_of_bins(limits)


def _grades_of_bins(limits: Sequence[Any]) -> dict[str, int]:
    if not all(isinstance(limit, int | float) and np.isfinite(limit) for limit in limits) or not limits:
        raise MismatchError("bins is not a list of numbers", "such as bins: [2, 4]")
    if any(low >= high for low, high in pairwise(limits)):
        raise ValueError("each of the bins above the one before")
    middle_labels = [f"{low:g}-<{high:g}" for low, high in pairwise(limits)]
    labels = [f"<{limits[0]:g}", *middle_labels, f">={limits[-1]:g}"]
    return {label: grade for grade, label in enumerate(labels)}


def _refuse_repeated_labels(grades: dict[str, float]) -> dict[str, float]:
    if not grades:
        raise ValueError("at least one label")
    label_of_value: dict[str | float, str] = {}
    for label in grades:
        if (earlier_label := label_of_value.setdefault(_label(label), label)) != label:
            raise ValueError(f"each label once; {earlier_label} and {label} are the same number")
    ranges = [(label_range, label) for label in grades if (label_range := _LabelRange.of(label)) is not None]
    for (lower, lower_label), (upper, upper_label) in pairwise(sorted(ranges)):
        if upper.low in lower:
            raise ValueError(f"each label once; {lower_label} and {upper_label} both hold {upper.low:g}")
    return grades


LabelGrade = Annotated[float, Field(ge=0, allow_inf_nan=False)]
GradesOfLabels = Annotated[
    dict[str, LabelGrade],
    BeforeValidator(
        _parse_grades, json_schema_input_type=dict[str, LabelGrade] | dict[Literal["bins"], list[float]]
    ),
    AfterValidator(_refuse_repeated_labels),
]


class ValueOptions(BaseModel):
    """Options of labels and values."""

    unjudged: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Label of documents that nobody judged, such as -1 in semi-supervised sets. Nothing is learned "
        "from them; metrics count them as not relevant, or tell them apart as bpref and judged do.",
    )
    grades: GradesOfLabels | None = Field(
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
                raise ValueError(f"grades names {self.unjudged:g}, which unjudged marks as not judged")
        return self

    def graded(self, labels: Iterable[str | float]) -> NDArray[np.float64]:
        """Return the grades of labels by the option `grades`; NaN where it does not name a label."""
        grades = (self.grades or {}).items()
        grade_of_label = {_label(label): grade for label, grade in grades}
        ranges = [
            (label_range, grade)
            for label, grade in grades
            if (label_range := _LabelRange.of(label)) is not None
        ]
        if self.unjudged is not None:
            grade_of_label[self.unjudged] = self.unjudged

        def grade(label: str | float) -> float:
            if label in grade_of_label:
                return grade_of_label[label]
            return next((grade for label_range, grade in ranges if label in label_range), np.nan)

        return np.array([grade(_label(label)) for label in labels], dtype=np.float64)

    @property
    def mapped_labels(self) -> str:
        """The expectation of messages where `grades` do not have a label."""
        return f"one of {shortened(self.grades or {}, 10)}, as `grades` maps them"


def _label(label: str | float) -> str | float:
    """Return a label as a number where it is one: 1, 1.0 and true are the same, and digits are those of ASCII."""
    truth = {"false": 0.0, "true": 1.0}.get(str(label).strip().lower())
    if truth is not None:
        return truth
    try:
        return label if isinstance(label, str) and "_" in label else float(str(label).encode())
    except ValueError:
        return label
