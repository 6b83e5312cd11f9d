"""Log checks, each with its count, its share and three examples.

An error stops the run (exit 2): a number from such a log would be wrong. A warning is shown and, where it is
more frequent than in the baseline, raises an alert. A note is a fact that readers ask for.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness.data.arrays import Floats
from ltr_harness.data.columns import A_RANK, ArrowColumns
from ltr_harness.data.logs.settings import ListColumns
from ltr_harness.errors import Caution, DataError, Problem, Severity

if TYPE_CHECKING:
    import pandas as pd

_FEWEST_RANKED = 10  # queries: in fewer, scores may be ranks by chance
_ERRORS = 3  # standard errors of a sign test
_LOOKED_AT = 10_000  # bad rows at most for three different examples: millions may all be of one kind


class _Check(NamedTuple):
    severity: Severity
    unit: str
    meaning: str
    cure: str


CHECKS = {
    "query-missing": _Check("error", "rows", "rows without a query id", "every row belongs to a query"),
    "item-missing": _Check("error", "rows", "rows without an item id", "name the item, or leave out columns.item_id"),
    "duplicate-item": _Check("error", "rows", "rows repeat an item of the same query",
        "one row per query and item: remove the repetition, or give each list its own query id"),
    "rank-invalid": _Check("error", "rows", f"ranks are missing or not {A_RANK}", "positions count from 1"),
    "never-shown": _Check("error", "rows", "rows have no rank: there are no events for items that were never shown",
        "leave them out: candidates can be compared on what was shown"),
    "retrieved-invalid": _Check("error", "rows", "flags of what was shown are neither 0 nor 1",
        "1 for what was shown"),
    "score-invalid": _Check("error", "rows", "scores are missing or NaN", "a score per row: NaN has no rank"),
    "grade-invalid": _Check("error", "rows", "grades are missing, negative or not finite in 32 bits",
        "grades are numbers >= 0"),
    "grade-fractional": _Check("error", "rows", "grades are not integers, and a metric has exponential gain",
        "use ndcg(gain=linear)@K, or integer labels"),
    "grade-too-high": _Check("error", "rows",
        "grades are above 30, the highest that both boosters can train on, and the gain doubles with each",
        "use ndcg(gain=linear)@K, or fewer grades"),
    "grade-off-scale": _Check("error", "rows", "grades are above the top of the scale",
        "raise relevance.max_grade, or repair the labels"),
    "number-missing": _Check("error", "rows", "numbers are missing or not finite, and quantiles are of numbers",
        "a number per row, or `unlabelled: zero` or `ignore` for missing ones"),
    "grade-missing": _Check("warning", "rows", "rows have no label, seldom at random: low ranks are examined less",
        "label them, or read the numbers as those of the labelled rows"),
    "dwell-missing": _Check("warning", "rows",
        "clicks have no dwell time and a later one of the query has none either: no last click; they do not count",
        "log how long users stayed; only a visit's last click may lack it"),
    "event-invalid": _Check("error", "rows", "event counts are negative or not numbers", "0, 1, 2 … per row"),
    "time-missing": _Check("error", "rows", "timestamps are missing", "every row has a time"),
    "time-out-of-range": _Check("error", "rows", "timestamps lie before 1990 or after 2100",
        "seconds taken for milliseconds?"),
    "time-stray": _Check("warning", "queries",
        "queries lie apart from the rest of the log in time; they are not tested", "is a clock wrong?"),
    "query-scattered": _Check("error", "queries", "queries appear in several places of a log too large for the memory",
        "sort the log by query id"),
    "propensity-invalid": _Check("error", "rows", "propensities are missing or outside 0 … 1",
        "a probability above 0 and at most 1 in each row"),
    "arm-varies": _Check("error", "queries", "queries change arm from row to row",
        "one arm per list; lists that two rankers made are interleaved, not arms"),
    "rank-tied": _Check("warning", "queries", "queries give a rank twice", "such items count as tied"),
    "rank-gap": _Check("warning", "queries", "queries have gaps in their ranks or do not begin at 1: truncated lists",
        "log every row that was shown"),
    "rank-and-score": _Check("warning", "queries", "queries are not ranked by their score",
        "is something else reordering the list? the rank counts here"),
    "constant-score": _Check("warning", "queries", "queries have one score for all their items",
        "is the model answering at all?"),
    "score-is-rank": _Check("warning", "queries",
        "queries have scores that count their rows, the more relevant the lower: the column holds ranks, and its worst"
        " row comes first", "write it as `columns: {rank: …}` in place of `score: …`"),
    "segment-varies": _Check("warning", "queries", "queries change segment from row to row; the first row counts",
        "segments describe the query, not the item"),
    "feature-infinite": _Check("warning", "rows", "values of a feature are infinite; they count as missing",
        "a finite number, or nothing"),
    "unknown-event": _Check("warning", "events", "events have names that the rule does not have",
        "add them to relevance.events, or to negative"),
    "orphan-event": _Check("warning", "events", "events belong to no impression in the log",
        "is the log complete, and the window long enough?"),
    "score-tied": _Check("note", "queries", "queries have tied scores; ties count as the mean over their orders", ""),
    "absent-class": _Check("note", "classes", "positive classes occur in neither column of mode match",
        "the classes as the log spells them"),
    "no-event": _Check("note", "rows",
        "rows have no event; they count as not relevant, whether users examined them or not", ""),
    "not-judged": _Check("note", "rows", "rows lie below the last one of their list with an event; they are unjudged",
        ""),
    "not-shown": _Check("note", "rows", "rows were not shown; they have no rank and count in what metrics divide by",
        ""),
    "propensity-unknown": _Check("note", "rows",
        "rows lie below the last rank of the table of propensities; they count as if examined as often as that rank",
        "give the propensities of all ranks that were shown"),
    "nothing-shown": _Check("warning", "queries", "queries were shown nothing; they are left out",
        "is the log of what was shown complete?"),
    "one-item": _Check("note", "queries", "queries list a single item, which no ranking can get wrong", ""),
    "shorter-than-k": _Check("note", "queries", "queries list fewer items than the cutoff K", ""),
}  # fmt: skip


def _example_order(example: str) -> tuple[int, str]:
    """Return the key that examples are sorted by: row 9 before row 10, all others by their text."""
    length = len(example) if example.startswith("row ") else 0
    return length, example


@dataclass(frozen=True)
class LogCheck:
    """A check that did not pass: how often, and where."""

    check: str  # its name in `CHECKS`
    severity: Severity  # error, warning or note
    log: str  # production or baseline
    # count, total: how many of how many; of rows, queries or events, as `unit` says
    count: int
    total: int
    unit: str
    meaning: str
    examples: tuple[str, ...]  # up to three

    @property
    def share(self) -> float:
        return self.count / self.total if self.total else 0.0

    def __str__(self) -> str:
        suffix = f", such as {', '.join(self.examples)}" if self.examples else ""
        return f"{self.count:,} of {self.total:,} {self.meaning}{suffix}"

    @property
    def caution(self) -> Caution:
        """The caution for readers of the result."""
        return Caution(self.check, self.severity, str(self), CHECKS[self.check].cure, self.log)


@dataclass
class ScoreRanks:
    """Counts of queries whose scores may be ranks, 1 for the best row."""

    n_long: int = 0  # queries of three rows and more
    n_ranked: int = 0  # of these, with the scores 1 to n
    n_falling: int = 0  # of these, with grades that fall as the score rises, and with grades that rise
    n_rising: int = 0

    def add(self, other: "ScoreRanks") -> None:
        self.n_long += other.n_long
        self.n_ranked += other.n_ranked
        self.n_falling += other.n_falling
        self.n_rising += other.n_rising

    @property
    def are_upside_down(self) -> bool:
        """True where most queries have ranks for scores, with the better rows at low numbers beyond chance."""
        if self.n_long < _FEWEST_RANKED or 2 * self.n_ranked <= self.n_long:
            return False
        return self.n_falling - self.n_rising > _ERRORS * math.sqrt(self.n_falling + self.n_rising)


@dataclass(eq=False)
class Contract:
    """The checks of one log, batch after batch."""

    log: str  # production or baseline
    place: str  # how messages call it
    # of the next batch, counted from the log's first row; None where batches are no stretch of it
    first_row: int | None = 0
    _counts: dict[str, int] = field(default_factory=dict)
    _examples: dict[str, list[str]] = field(default_factory=dict)
    totals: dict[str, int] = field(
        default_factory=lambda: {"rows": 0, "queries": 0, "events": 0, "classes": 0}
    )
    classes: set[str] = field(default_factory=set)  # of mode match, those that occur
    score_ranks: ScoreRanks = field(default_factory=ScoreRanks)

    def check(self, name: str, bad: NDArray[np.bool_], show: Callable[[int], str]) -> bool:
        """Count bad rows or queries; True if there are none. Shapes: `bad` (n,)."""
        count = int(np.count_nonzero(bad))
        if count:
            examples: dict[str, None] = {}  # different ones: several bad rows of a query are one example
            for index in np.flatnonzero(bad)[:_LOOKED_AT].tolist():
                examples[show(index)] = None
                if len(examples) == 3:
                    break
            self.count(name, count, examples)
        return count == 0

    def count(self, name: str, n: int, examples: Iterable[str] = ()) -> None:
        """Add bad rows, queries or events that the caller counted."""
        if n:
            self._counts[name] = self._counts.get(name, 0) + n
            # The smallest three, so that reading in other batches shows the same ones.
            all_examples = {*self._examples.get(name, []), *examples}
            self._examples[name] = sorted(all_examples, key=_example_order)[:3]

    def begin(self, rows: int) -> Callable[[int], str]:
        """Begin a batch of so many rows, and return a function that names its rows."""
        first = self.first_row
        self.totals["rows"] += rows
        if first is None:
            return lambda row: "a row where two pieces of the log meet"
        self.first_row = first + rows
        return lambda row: f"row {first + row + 1}"

    def empty(self) -> "Contract":
        """Return an empty one for a piece of the same log, for `add`."""
        return Contract(self.log, self.place)

    def add(self, other: "Contract") -> None:
        """Add the counts of another piece of the log."""
        for name, count in other._counts.items():
            self.count(name, count, other._examples[name])
        self.classes |= other.classes
        self.score_ranks.add(other.score_ranks)
        for unit, total in other.totals.items():
            self.totals[unit] += total

    @property
    def log_checks(self) -> tuple[LogCheck, ...]:
        """The checks that did not pass, errors first, in the order of `CHECKS`."""
        checks = []
        for name, (severity, unit, meaning, _cure) in CHECKS.items():
            if count := self._counts.get(name):
                examples, total = tuple(self._examples[name]), self.totals[unit]
                checks.append(LogCheck(name, severity, self.log, count, total, unit, meaning, examples))
        return tuple(checks)

    @property
    def errors(self) -> list[Problem]:
        failed = (check for check in self.log_checks if check.severity == "error")
        return [Problem(self.place, str(check), cure=CHECKS[check.check].cure) for check in failed]

    def raise_errors(self) -> None:
        """Stop where the log cannot be judged. Raises DataError: every failed check of severity error."""
        DataError.refuse(self.errors)


THREADS = 2  # of the compiled loops over one batch


@dataclass(frozen=True, eq=False)
class LogRows(ArrowColumns):
    """A batch in canonical order: by query, then rank (or score, then item)."""

    order: NDArray[np.int64] | None
    queries: NDArray[np.str_]
    boundaries: NDArray[np.int64]
    place: Callable[[int], str] | None = None  # what messages call a row of the file; None: by its query

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.boundaries)

    @property
    def query_of_row(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def numbers(self, name: str) -> Floats:
        return self.in_canonical_order(super().numbers(name))

    def category(self, name: str) -> "pd.Categorical":
        category = super().category(name)
        return category if self.order is None else category.take(self.order)

    def in_canonical_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of the file's rows in the batch's canonical order. Shapes: `values` (n_rows,)."""
        return values if self.order is None else values[self.order]

    def in_file(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values (n_rows,) in canonical order in the order of the file."""
        if self.order is None:
            return values
        file_values = np.empty_like(values)
        file_values[self.order] = values
        return file_values

    def name(self, row: int) -> str:
        """Return the name of a row for messages."""
        if self.place is not None:
            return self.place(row if self.order is None else int(self.order[row]))
        return f"query {str(self.queries[np.searchsorted(self.boundaries, row, side='right') - 1])!r}"


def in_order(table: Any, columns: ListColumns, contract: Contract) -> LogRows | None:
    """Return a batch's rows, query by query; None where rows lack a query id."""
    columns_of = ArrowColumns(table)
    query = columns_of.category(columns.query_id)
    if not contract.check("query-missing", query.codes < 0, contract.begin(table.num_rows)):
        return None
    key = columns_of.numbers(columns.rank) if columns.rank else -columns_of.numbers(columns.score or "")
    item = columns_of.category(columns.item_id) if columns.item_id else None
    codes = query.codes.astype(np.int32)
    same_query = codes[1:] == codes[:-1]
    in_order = bool(np.all((codes[1:] > codes[:-1]) | (same_query & (key[1:] > key[:-1]))))
    order = None
    if not in_order:
        # Ties by item, so that the order of the file's rows shows nowhere.
        keys = (key, codes) if item is None else (item.codes, key, codes)
        order = np.lexsort(keys)
        codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    boundaries = np.append(starts, codes.size).astype(np.int64)
    rows = LogRows(table, order, query.categories.to_numpy(np.str_)[codes[starts]], boundaries)
    if item is not None:
        item_codes = item.codes if order is None else item.codes[order]
        items = item_codes.astype(np.int32)
        contract.check("item-missing", items < 0, rows.name)
        named = lambda row: f"{rows.name(row)} item {str(item.categories[items[row]])!r}"  # noqa: E731
        contract.check("duplicate-item", _repeated(codes, items, item.categories.size), named)
    return rows


def per_query(
    rows: LogRows, name: str, contract: Contract, check: str = "segment-varies"
) -> "pd.Categorical":
    """Return a column's value for each query, its first row's, and count the queries in which rows differ."""
    of_rows = rows.category(name)
    first = of_rows.codes[rows.boundaries[:-1]]
    varies = np.logical_or.reduceat(of_rows.codes != np.repeat(first, rows.sizes), rows.boundaries[:-1])
    contract.check(check, varies, lambda query: f"query {str(rows.queries[query])!r} ({name})")
    return of_rows.take(rows.boundaries[:-1])


@compiled
def _repeated(queries: NDArray[np.int32], items: NDArray[np.int32], n_items: int) -> NDArray[np.bool_]:
    """Return a mask of rows whose item is higher up in the same query; rows are by query, -1 is no item."""
    seen_in = np.full(n_items, -1, dtype=np.int32)
    repeated = np.zeros(items.size, dtype=np.bool_)
    for row in range(items.size):
        item = items[row]
        if item >= 0:
            repeated[row] = seen_in[item] == queries[row]
            seen_in[item] = queries[row]
    return repeated
