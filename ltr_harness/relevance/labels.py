"""Labels of training data by the rule of relevance: what `monitor` computes of a log, for the rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.logs.batch import LogRows, in_order, per_query
from ltr_harness.logs.columns import category_of, timestamps
from ltr_harness.logs.contract import Contract
from ltr_harness.logs.log import Log
from ltr_harness.logs.settings import ListColumns, seconds
from ltr_harness.relevance.attribution import describe
from ltr_harness.relevance.events import JoinedEvents, refuse_unknown_events
from ltr_harness.relevance.grades import grades_of_rows, judged_rows
from ltr_harness.relevance.propensities import estimated, estimated_labels, weight_note
from ltr_harness.relevance.rule import Relevance
from ltr_harness.wording import count_of

Floats = NDArray[np.float64]
_TIMEZONE = "UTC"  # of times without a zone


@dataclass(frozen=True, eq=False)
class RuleLabels:
    """Labels of rows by the rule of relevance."""

    grades: Floats  # float64 (n_rows,), 0 where nobody judged
    judged: NDArray[np.bool_] | None  # (n_rows,), None where all rows are
    notes: tuple[str, ...]  # what a reader of reports should know


@dataclass(frozen=True, eq=False)
class _Placed(LogRows):
    """Rows that messages call by their place in a file."""

    place: Callable[[int], str]

    def name(self, row: int) -> str:
        return self.place(row if self.order is None else int(self.order[row]))


def labels_of(
    log: Log,
    rule: Relevance,
    columns: ListColumns,
    place: Callable[[int], str],
    features: NDArray[np.float32] | None = None,
) -> RuleLabels:
    """The labels of rows, in their order.

    Shapes: `features` (n_rows, n_features). Raises DataError: events or grades that are none, or an event log that does
    not fit.

    Example:
        >>> import pyarrow as pa
        >>> table = pa.table({"q": ["a", "a", "b"], "rank": [1, 2, 1], "click": [1, 1, 0], "buy": [0, 1, 0]})
        >>> from ltr_harness.logs.log import open_log
        >>> rule = Relevance(events={"click": 1, "buy": 4})
        >>> columns = ListColumns(query_id="q", rank="rank")
        >>> labels_of(open_log(table), rule, columns, "row {}".format).grades.tolist()
        [1.0, 4.0, 0.0]
    """
    if rule.propensity is not None:
        rule = rule.model_copy(update={"propensity": estimated(rule.propensity)})
    contract = Contract("data", log.name)
    events = JoinedEvents.read(rule, columns, _TIMEZONE, log, contract)
    parts: list[tuple[Floats, NDArray[np.bool_]]] = []
    happened: dict[str, int] = {}
    first = 0
    by_list = [name for name in (columns.query_id, columns.rank) if name] if rule.by_list else []
    needed = list(dict.fromkeys([*rule.named_columns, *by_list])) or [
        columns.query_id
    ]  # one, to count rows by
    for batch in log.batches(needed, columns.query_id if rule.by_list else None):
        shown = batch if events is None else events.beside(batch, first)
        rows = _rows(shown, rule, columns, contract, lambda row, first=first: place(first + row))  # type: ignore[misc]
        first += batch.num_rows
        if rows is None:
            continue
        counts, found = _graded(rows, rule, columns, contract)
        for event, count in counts.items():
            happened[event] = happened.get(event, 0) + int(count.sum(dtype=np.int64))
        parts.append((_back(found[0], rows.order), _back(found[1], rows.order)))
    contract.raise_errors()
    grades, judged = (np.concatenate(column) for column in zip(*parts, strict=True))
    notes = [f"labels by `relevance`: {describe(rule)}"]
    if rule.propensity is not None:
        grades, note = _estimates(grades, log, rule, columns, contract, place, features)
        notes.append(note)
    if rule.list_column or rule.event_log:
        strange = [e for f in contract.findings if f.check == "unknown_event" for e in f.examples]
        refuse_unknown_events(rule.event_names, happened, strange, log.name)
    notes += [f"relevance: {one}" for one in contract.findings if one.severity == "warning"]
    young = _immature(log, rule, columns)
    if young.any():
        judged &= ~young
        notes.append(
            f"{count_of(int(young.sum()), 'document')} younger than {rule.maturity} still gather labels"
        )
    n = int(np.count_nonzero(~judged))
    if n:
        notes.append(f"{n:,} of {count_of(judged.size, 'document')} not judged, by `relevance`")
    return RuleLabels(np.where(judged, grades, 0.0), judged if n else None, tuple(notes))


def _estimates(
    grades: Floats,
    log: Log,
    rule: Relevance,
    columns: ListColumns,
    contract: Contract,
    place: Callable[[int], str],
    features: NDArray[np.float32] | None,
) -> tuple[Floats, str]:
    """The labels that the rule's estimator makes of what happened, and how much that says."""
    import pyarrow as pa

    assert rule.propensity is not None
    doubly = rule.chosen == "doubly_robust" and features is not None
    looked = rule.propensity.column or columns.rank or ""
    batches = log.batches([looked, *([columns.query_id] if doubly else [])], None)
    table = pa.concat_tables(batches, promote_options="permissive")
    rows = _Placed(table, None, np.empty(0, np.str_), np.array([0, grades.size]), place)
    shown = np.ones(grades.size) if rule.propensity.column else rows.numbers(looked)
    ranks = np.where((shown >= 1) & (shown == np.floor(shown)), shown, 0).astype(np.int64)
    model = None
    if doubly and features is not None:
        queries = category_of(table[columns.query_id], columns.query_id).codes.astype(np.int64)
        model = queries, features
    labels, weights = estimated_labels(grades, rows, ranks, rule, contract, model)
    contract.raise_errors()
    return labels, weight_note(grades if weights is None else weights, rule.propensity.clip)


def _rows(
    table: Any, rule: Relevance, columns: ListColumns, contract: Contract, place: Callable[[int], str]
) -> _Placed | None:
    """A batch in the order in which it was shown, where that matters."""
    if rule.by_list:
        ordered = in_order(table, columns.model_copy(update={"item_id": None}), contract)
        if ordered is None:
            return None
        return _Placed(table, ordered.order, ordered.queries, ordered.boundaries, place)
    contract.begin(table.num_rows)
    return _Placed(table, None, np.empty(0, np.str_), np.array([0, table.num_rows]), place)


def _graded(
    rows: LogRows, rule: Relevance, columns: ListColumns, contract: Contract
) -> tuple[dict[str, NDArray[np.int32]], tuple[Floats, NDArray[np.bool_]]]:
    """Counts of events; grades and which rows are judged, in the batch's canonical order."""
    n = int(rows.boundaries[-1])
    segments = {name: per_query(rows, name, contract) for name in (rule.dwell.by if rule.dwell else ())}
    counts, grades = grades_of_rows(rows, rule, contract, segments)
    if grades is None:
        return counts, (np.zeros(n), np.ones(n, dtype=bool))
    scores = -rows.numbers(columns.rank) if rule.by_list and columns.rank else np.empty(0)
    if rule.unlabelled == "ignore":
        judged: NDArray[np.bool_] | None = ~np.isnan(rows.numbers(rule.label))
    else:
        judged = judged_rows(rows, counts, scores, rule, contract)
    return counts, (grades, np.ones(n, dtype=bool) if judged is None else judged)


def _back(values: NDArray[Any], order: NDArray[np.int64] | None) -> NDArray[Any]:
    """Values in canonical order, in the order of the file."""
    if order is None:
        return values
    in_file = np.empty_like(values)
    in_file[order] = values
    return in_file


def _immature(log: Log, rule: Relevance, columns: ListColumns) -> NDArray[np.bool_]:
    """Rows whose labels had less time to arrive than the rule wants, up to the newest row."""
    if not seconds(rule.maturity) or columns.timestamp is None:
        return np.zeros(1, dtype=bool)
    asked = (
        timestamps(batch[columns.timestamp], columns.timestamp, _TIMEZONE)
        for batch in log.batches([columns.timestamp], None)
    )
    time = np.concatenate(list(asked))
    young: NDArray[np.bool_] = time > time.max(initial=0) - seconds(rule.maturity) * 10**9
    return young
