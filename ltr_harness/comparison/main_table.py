"""The main table: every model at the primary metric, best first, beside its difference from the baseline.

The terminal, the page, Markdown, LaTeX, notebooks and `Comparison.table` show the columns that are listed here, and
report.json has their fields at full precision. A new column is added to `main_columns` and nowhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ltr_harness._util.number_text import NumberFormat
from ltr_harness.comparison.contrasts import Paired, Summary
from ltr_harness.comparison.headroom import ModelHeadroom
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.arrays import Floats

TableForm = Literal["page", "terminal", "frame"]
"""A form of the table: `page` is HTML, notebooks, Markdown and LaTeX, `frame` is `Comparison.table`."""

ALL_FORMS: frozenset[TableForm] = frozenset({"page", "terminal", "frame"})


@dataclass(frozen=True)
class MainColumn:
    """A column: the fields that it shows, under its heading and in its format."""

    heading: str
    record: Literal["summaries", "pairs", "headroom"]  # the list of report.json whose objects have the fields
    fields: tuple[str, ...]  # one value; a value with both ends of its interval; or a tally of counts
    format: NumberFormat | Literal["verdict", "tally"]
    interval: str = ""  # heading of the interval, such as "95 % CI"
    hint: str = ""  # a sentence for those who wonder what the heading means
    best: Literal["max", "min"] | None = None  # the good end of the column
    # the headings of value and interval in 80 columns, where they are not those above
    terminal: tuple[str, ...] = ()
    forms: frozenset[TableForm] = ALL_FORMS

    @property
    def has_interval(self) -> bool:
        return len(self.fields) == 3 and self.format != "tally"

    @property
    def long_interval(self) -> str:
        """The heading of the interval where it has a column of its own."""
        return self.interval.replace("CI", "interval")

    @property
    def terminal_headings(self) -> tuple[str, ...]:
        if self.terminal:
            return self.terminal
        return (self.heading, self.long_interval) if self.has_interval else (self.heading,)


class TableSource(Protocol):
    """The part of a `Comparison` that its main table shows."""

    @property
    def models(self) -> tuple[str, ...]: ...
    @property
    def metrics(self) -> tuple[str, ...]: ...
    @property
    def primary(self) -> str: ...
    @property
    def baseline(self) -> str: ...
    @property
    def method(self) -> Method: ...
    @property
    def weights(self) -> Floats | None: ...
    @property
    def higher_is_better(self) -> Mapping[str, bool]: ...
    @property
    def headroom(self) -> Mapping[str, ModelHeadroom]: ...
    @property
    def main_columns(self) -> tuple[MainColumn, ...]: ...

    def summary(self, model: str, metric: str | None = None) -> Summary: ...
    def paired(self, model: str, metric: str | None = None) -> Paired: ...


def main_columns(comparison: TableSource) -> tuple[MainColumn, ...]:
    """Return all columns of the main table after the model's name, in their order."""
    columns = [_verdict(), _mean(comparison), _standard_deviation(comparison), _queries(comparison)]
    columns += [_difference(comparison), _uncorrected_p(), corrected_p(comparison), _tally(comparison)]
    if comparison.headroom:
        columns.append(_gained(comparison))
    return tuple(columns)


def columns_of(comparison: TableSource, form: TableForm) -> list[MainColumn]:
    """Return the columns that a form shows: without those of differences where a model stands alone."""
    has_pairs = len(comparison.models) > 1 or form == "frame"
    return [
        column
        for column in comparison.main_columns
        if form in column.forms and (has_pairs or column.record != "pairs")
    ]


def values_of(comparison: TableSource, column: MainColumn, model: str) -> tuple[Any, ...] | None:
    """Return the fields of a column for one model; None where it has no such record."""
    if column.format == "verdict" and model == comparison.baseline:
        return ("baseline",)
    record: object = None
    if column.record == "summaries":
        record = comparison.summary(model)
    elif column.record == "headroom":
        record = comparison.headroom.get(model)
    elif model != comparison.baseline:
        record = comparison.paired(model)
    return None if record is None else tuple(getattr(record, field) for field in column.fields)


def tally_text(counts: Sequence[int]) -> str:
    return " / ".join(f"{count:,}" for count in counts)


# ---- the columns ----------------------------------------------------------------------------------------


def _verdict() -> MainColumn:
    # the terminal shows a sign, which has no heading
    return MainColumn("Verdict", "pairs", ("verdict",), "verdict", terminal=("",))


def _mean(comparison: TableSource) -> MainColumn:
    percent, weighted = f"{comparison.method.percent} %", _weighted(comparison)
    mean = f"{weighted}mean over queries, each interval by itself.".capitalize()
    best: Literal["max", "min"] = "max" if comparison.higher_is_better[comparison.primary] else "min"
    return MainColumn(
        f"{weighted}{comparison.primary}",
        "summaries",
        ("mean", "ci_low", "ci_high"),
        "metric",
        interval=f"{percent} CI",
        hint=mean,
        best=best,
    )


def _standard_deviation(comparison: TableSource) -> MainColumn:
    heading = f"sd{_unweighted(comparison)}"
    return MainColumn(heading, "summaries", ("sd",), "metric", forms=frozenset({"frame"}))


def _queries(comparison: TableSource) -> MainColumn:
    """The page has n for all models above the table, and a column of its own only where models differ in it."""
    forms: frozenset[TableForm] = frozenset({"frame"})
    if len({comparison.summary(model).n for model in comparison.models}) > 1:
        forms |= {"page"}
    return MainColumn("Queries", "summaries", ("n",), "count", hint="Queries with a value.", forms=forms)


def _difference(comparison: TableSource) -> MainColumn:
    percent = f"{comparison.method.percent} %"
    hint = (
        f"Mean of the paired per-query differences, model minus {comparison.baseline}, with "
        f"{joint_word(comparison)}{percent} intervals."
    )
    interval = interval_heading(comparison)
    terminal_interval = f"{percent} interval" if interval == f"{percent} CI" else interval
    return MainColumn(
        "Difference",
        "pairs",
        ("difference", "ci_low", "ci_high"),
        "difference",
        interval=interval,
        hint=hint,
        terminal=("change", terminal_interval),
    )


def _uncorrected_p() -> MainColumn:
    return MainColumn("p, uncorrected", "pairs", ("p",), "p", forms=frozenset({"frame"}))


def corrected_p(comparison: TableSource, metric: str | None = None) -> MainColumn:
    """Return the column of p-values at a metric; `joint p` where they are of several comparisons together."""
    joint = joint_word(comparison, metric)
    hint = "Corrected for testing several models, or metrics." if joint else ""
    return MainColumn(f"{joint}p", "pairs", ("p_corrected",), "p", hint=hint)


def _tally(comparison: TableSource) -> MainColumn:
    heading = f"Win / tie / loss{_unweighted(comparison)}"
    counts = ("wins", "ties", "losses")
    return MainColumn(heading, "pairs", counts, "tally", forms=frozenset({"frame"}))


def _gained(comparison: TableSource) -> MainColumn:
    percent = f"{comparison.method.percent} %"
    hint = f"Share of what can be gained [{percent} CI]: 0 is a random order of the candidates, 1 the best."
    # shares of different candidates are of different things: none of them is the best
    ceilings = {round(headroom.ceiling, 9) for headroom in comparison.headroom.values()}
    return MainColumn(
        "Gained",
        "headroom",
        ("share", "ci_low", "ci_high"),
        "number",
        hint=hint,
        best="max" if len(ceilings) == 1 else None,
        forms=frozenset({"page"}),
    )


# ---- the words in headings ------------------------------------------------------------------------------


def _weighted(comparison: TableSource) -> str:
    return "weighted " if comparison.weights is not None else ""


def _unweighted(comparison: TableSource) -> str:
    """Return the words for a number that counts each query once, where means do not."""
    return " (unweighted)" if comparison.weights is not None else ""


def joint_word(comparison: TableSource, metric: str | None = None) -> str:
    """Return the word before intervals and p-values that are of a family of several comparisons; "" for a single one.

    The primary metric is a family of its own, all others together are another.
    """
    family = len(comparison.models) - 1
    if metric not in (None, comparison.primary):
        family *= len(comparison.metrics) - 1
    return "joint " if family > 1 else ""


def interval_heading(comparison: TableSource, metric: str | None = None) -> str:
    """Return the heading of intervals of differences, such as ``joint 95 % CI``."""
    joint = joint_word(comparison, metric)
    seeds = ", seeds" if _is_over_seeds(comparison, metric) and not joint else ""
    return f"{joint}{comparison.method.percent} % CI{seeds}"


def coverage_text(comparison: TableSource) -> str:
    """Return what intervals and p-values of the table are over, and for how many comparisons they are corrected."""
    method, n_comparisons = comparison.method, len(comparison.models) - 1
    drawn = "queries" if method.unit is None else f"queries (by {method.unit})"
    if _is_over_seeds(comparison, None):
        drawn += " and seeds"
    text = f"{method.percent} % intervals and p-values cover {drawn}{method.weights_text}"
    return text if n_comparisons < 2 else f"{text}, corrected for {n_comparisons} comparisons"


def _is_over_seeds(comparison: TableSource, metric: str | None) -> bool:
    rivals = (model for model in comparison.models if model != comparison.baseline)
    return any(comparison.paired(model, metric).includes_seeds for model in rivals)


FRAME_NAMES: Mapping[str, str] = {  # names of the tidy table that would otherwise mean two things
    "other": "baseline",
    "other_mean": "baseline_mean",
    "n": "n_paired",
    "ci_low": "difference_ci_low",
    "ci_high": "difference_ci_high",
}
"""Fields of a pair to the columns of `Comparison.frame`; all others keep their names."""


def frame_names(column: MainColumn) -> list[str]:
    """Return the columns of `Comparison.frame` that have the fields of a column."""
    if column.record == "summaries":
        return list(column.fields)
    return [FRAME_NAMES.get(field, field) for field in column.fields]
