"""Grades of rows: a column, or what the rule of relevance makes of clicks, dwell time and other events.

The same log gives NDCG@5 from 0.64 to 0.96 depending on the rule, so results under different rules are never compared.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Floats
from ltr_harness.data.columns import texts_of
from ltr_harness.data.logs.contract import Contract, LogRows, in_order, per_query
from ltr_harness.data.logs.log import Log
from ltr_harness.data.logs.settings import ListColumns, seconds
from ltr_harness.data.queries import places_within
from ltr_harness.data.relevance.events import (
    JoinedEvents,
    counts_column,
    counts_of_lists,
    refuse_unknown_classes,
    refuse_unknown_events,
)
from ltr_harness.data.relevance.propensities import effective_weight, estimated, estimated_labels
from ltr_harness.data.relevance.rule import MOST_ROWS, Dwell, Propensity, Relevance, Rung, event_counts
from ltr_harness.data.relevance.rule_in_words import describe
from ltr_harness.data.times import timestamps
from ltr_harness.errors import Caution


def grades_from_events(
    rule: Relevance, counts: Mapping[str, NDArray[np.integer]], columns: Mapping[str, Floats] | None = None
) -> Floats:
    """Return the grade of every row by the rule's mode (docs/partial-feedback.md); estimators look at ranks later."""
    columns = columns or {}
    n = next(iter([*counts.values(), *columns.values()])).size  # a ladder may look at columns alone
    mode = rule.chosen
    if mode == "ladder":
        grades = _ladder_grades(rule.ladder, n, counts, columns)
    elif mode == "sum":
        grades = np.zeros(n)
        for name in rule.positive or rule.events:
            grades += _amount(rule, counts[name])
    elif mode == "max" or rule.estimates:
        grades = np.zeros(n)
        for name, weight in rule.events.items():
            np.maximum(grades, weight * _amount(rule, counts[name]), out=grades)
    else:
        grades = np.zeros(n)
        for name, weight in rule.events.items():
            grades += weight * _amount(rule, counts[name])
        if rule.clip is not None:
            np.minimum(grades, rule.clip, out=grades)
    for name in rule.negative:
        grades[counts[name] > 0] = 0.0
    return grades


def _ladder_grades(
    ladder: Sequence[Rung],
    n_rows: int,
    counts: Mapping[str, NDArray[np.integer]],
    columns: Mapping[str, Floats],
) -> Floats:
    """Return the grade (n_rows,) of the first rung that holds for each row, 0 where none does."""
    grades, is_open = np.zeros(n_rows), np.ones(n_rows, dtype=bool)
    for rung in ladder:
        if rung.condition is None:
            holds = counts[rung.when] > 0
        else:
            column, least = rung.condition
            with np.errstate(invalid="ignore"):
                holds = columns[column] >= least
        grades[is_open & holds] = rung.grade
        is_open &= ~holds
    return grades


def quantile_grades(values: Floats, queries: NDArray[np.int64], bins: int) -> Floats:
    """The grade floor(bins m / n) of each row, of whose query's n rows m have a smaller value; ties share the lower.

    Shapes: `values`, `queries` (n_rows,); rows of a query need not stand together.
    """
    below, _ = places_within(values, queries)
    _, query, sizes = np.unique(queries, return_inverse=True, return_counts=True)
    return (bins * below // sizes[query]).astype(np.float64)


def satisfied_clicks(
    clicks: NDArray[np.integer],
    dwell: Floats,
    rule: Dwell,
    segments: Mapping[str, NDArray[np.str_]],
    boundaries: NDArray[np.int64],
) -> tuple[NDArray[np.integer], NDArray[np.bool_]]:
    """Return clicks (n_rows,), 0 where the user did not stay, and a mask of clicks that wrongly lack a dwell time.

    A missing dwell time is that of the visit's last click, which satisfied: of several without a time the lowest.

    Source: Y. Kim, A. Hassan, R. White, I. Zitouni, WSDM 2014: 30 s, and that one threshold does not suit all pages.
    """
    thresholds_of_rows = np.full(clicks.size, rule.satisfied)
    for segment, thresholds in rule.by.items():
        for value, threshold in thresholds.items():
            thresholds_of_rows[segments[segment] == value] = threshold
    untimed = np.isnan(dwell) & (clicks > 0)
    lacks_time = untimed & (np.arange(clicks.size) != _last(untimed, boundaries))
    is_satisfied = (dwell >= thresholds_of_rows) | (untimed & ~lacks_time)
    return np.where(is_satisfied, clicks, 0), lacks_time


def examined(happened: NDArray[np.bool_], scores: Floats, boundaries: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of rows (n_rows,) down to the last of the query with an event; all of a query without one."""
    last = _last(happened, boundaries)
    tied = scores == scores[np.maximum(last, 0)]
    return np.asarray((last < 0) | (np.arange(happened.size) <= last) | tied)


def _last(holds: NDArray[np.bool_], boundaries: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for every row, the last row of its query where `holds` is true, -1 where it is nowhere."""
    marked_rows = np.where(holds, np.arange(holds.size), -1)
    return np.repeat(np.maximum.reduceat(marked_rows, boundaries[:-1]), np.diff(boundaries))


def _amount(rule: Relevance, count: NDArray[np.integer]) -> Floats:
    if rule.count == "log1p":
        return np.log1p(count.astype(np.float64))
    return (count > 0).astype(np.float64)


RELEVANT, LABELLED = "relevant", "labelled"
"""What ready labels count as, in place of events: documents that are relevant, and documents with a label."""


def grades_of_rows(
    rows: LogRows, rule: Relevance, contract: Contract, segments: Mapping[str, pd.Categorical]
) -> tuple[dict[str, NDArray[np.int32]], Floats | None]:
    """Return counts of every event per row, or of ready labels, and the rows' grades, None where they cannot be had."""
    if rule.chosen == "match":
        return {}, _matches(rows, rule, contract)
    if rule.chosen == "label":
        return _ready_labels(rows, rule, contract)
    counts = _event_counts(rows, rule, contract)
    if counts is None:
        return {}, None
    satisfied = counts
    if rule.dwell:
        satisfied = counts | {
            rule.dwell.event: _clicks_with_dwell(rows, rule.dwell, counts, contract, segments)
        }
    columns = {rung.condition[0]: rows.numbers(rung.condition[0]) for rung in rule.ladder if rung.condition}
    grades = grades_from_events(rule, satisfied, columns)
    return counts, _checked(grades, rows, rule, contract)


def _matches(rows: LogRows, rule: Relevance, contract: Contract) -> Floats:
    """Return 1 for each row whose predicted class is right and counts, else 0."""
    classes = [rows.category(name) for name in (rule.prediction or "", rule.label)]
    contract.classes.update(*(map(str, column.categories) for column in classes))
    prediction, truth = map(texts_of, classes)
    is_right = (prediction == truth) & np.isin(truth, rule.positive)
    return np.asarray(is_right, dtype=np.float64)


def _ready_labels(
    rows: LogRows, rule: Relevance, contract: Contract
) -> tuple[dict[str, NDArray[np.int32]], Floats]:
    """Return which rows are relevant and, where some have no label, which have one; and the labels, 0 for none."""
    labels = rows.numbers(rule.label)
    counts = {RELEVANT: (labels > 0).astype(np.int32)}
    if rule.unlabelled != "refuse":
        missing = np.isnan(labels)
        contract.check("grade-missing", missing, rows.name)
        labels = np.where(missing, 0.0, labels)
        counts[LABELLED] = (~missing).astype(np.int32)
    return counts, _checked(labels, rows, rule, contract)


def _event_counts(rows: LogRows, rule: Relevance, contract: Contract) -> dict[str, NDArray[np.int32]] | None:
    """Return how often each event happened per row; None where counts are no whole numbers from 0."""
    names = rule.event_names
    if rule.event_log is not None:
        return {name: rows.in_canonical_order(rows.table[counts_column(name)].to_numpy()) for name in names}
    if rule.list_column:
        of_lists = counts_of_lists(rows.table[rule.list_column], rule.list_column, names, contract)
        return {name: rows.in_canonical_order(count) for name, count in of_lists.items()}
    events: dict[str, NDArray[np.int32]] = {}
    is_sound = True
    for name in names:
        values = rows.numbers(name)
        values = np.where(np.isnan(values), 0.0, values)  # nothing logged is nothing happened
        good = (values >= 0) & np.isfinite(values) & (values == np.floor(values))
        is_sound &= contract.check("event-invalid", ~good, rows.name)
        events[name] = np.clip(values, 0, 2**31 - 1).astype(np.int32)
        contract.totals["events"] += int(events[name].sum(dtype=np.int64))
    return events if is_sound else None


def _clicks_with_dwell(
    rows: LogRows,
    dwell: Dwell,
    counts: Mapping[str, NDArray[np.int32]],
    contract: Contract,
    segments: Mapping[str, pd.Categorical],
) -> NDArray[np.int32]:
    """Return the clicks (n_rows,) after which users stayed long enough."""
    texts = {name: texts_of(segments[name])[rows.query_of_row] for name in dwell.by}
    times = rows.numbers(dwell.column)
    stayed, unknown = satisfied_clicks(counts[dwell.event], times, dwell, texts, rows.boundaries)
    contract.check("dwell-missing", unknown, rows.name)
    return stayed.astype(np.int32)


def fit(grades: Floats) -> NDArray[np.bool_]:
    """(n_rows,) whether they can be grades at all. Shapes: `grades` (n_rows,)."""
    return np.asarray((grades >= 0) & (grades <= np.finfo(np.float32).max))


def judged_rows(
    rows: LogRows,
    counts: Mapping[str, NDArray[np.int32]],  # (n_rows,)
    scores: Floats,  # (n_rows,)
    rule: Relevance,
    contract: Contract,
) -> NDArray[np.bool_] | None:
    """(n_rows,) the rows that the rule judges; None for all. A query keeps at least one row."""
    if rule.from_events and counts:
        # whatever users did with a row, wanted or not: they have looked at it
        happened, seen = np.logical_or.reduce([count > 0 for count in counts.values()]), None
        if rule.unseen == "ignore_below_last_click":
            seen = examined(happened, scores, rows.boundaries)
            contract.check("not-judged", ~seen, rows.name)
        contract.check("no-event", ~happened if seen is None else seen & ~happened, rows.name)
        return seen
    if rule.unlabelled != "ignore" or rule.chosen != "label":
        return None
    keep: NDArray[np.bool_] = ~np.isnan(rows.numbers(rule.label))
    start = rows.boundaries[:-1]
    keep[start[~np.logical_or.reduceat(keep, start)]] = True  # a list without labels has nothing relevant
    return keep


def _checked(grades: Floats, rows: LogRows, rule: Relevance, contract: Contract) -> Floats:
    good = fit(grades)
    contract.check("grade-invalid", ~good, rows.name)
    if rule.max_grade is not None:
        contract.check("grade-off-scale", good & (grades > rule.max_grade), rows.name)
    return grades


_TIMEZONE = "UTC"  # of times without a zone
_NOTED = ("absent-class", "propensity-unknown")  # notes on a log that are cautions about its labels as well


@dataclass(frozen=True, eq=False)
class RuleLabels:
    """Labels of rows by the rule of relevance."""

    grades: Floats  # float64 (n_rows,), 0 where nobody judged
    judged: NDArray[np.bool_] | None  # (n_rows,), None where all rows are
    cautions: tuple[Caution, ...]


def _cautions_of_checks(contract: Contract) -> Iterator[Caution]:
    """Yield the cautions of the checks that did not pass and that matter to labels."""
    for check in contract.log_checks:
        if check.severity == "warning" or check.check in _NOTED:
            yield replace(check.caution, place="relevance")


def labels_of(
    log: Log,
    rule: Relevance,
    columns: ListColumns,
    place: Callable[[int], str],
    features: NDArray[np.float32] | None = None,  # (n_rows, n_features)
) -> RuleLabels:
    """Return the labels of rows, in their order."""
    if rule.propensity is not None:
        rule = rule.model_copy(update={"propensity": estimated(rule.propensity)})
    labelling = _Labelling(log, rule, columns, place, Contract("data", log.name))
    contract, tally = labelling.contract, _EventTally()
    if rule.chosen == "quantiles":
        grades, judged = labelling.quantiles()
    else:
        grades, judged = labelling.by_batch(tally)
    cautions = [Caution("labels-by-rule", "note", f"labels by `relevance`: {describe(rule)}")]
    if rule.from_events and rule.count == "any":
        cautions += event_counts(tally.often_repeated(grades.size, rule.negative))
    if rule.propensity is not None:
        grades, effective = labelling.estimates(rule.propensity, grades, features)
        cautions.append(effective)
    if rule.list_column or rule.event_log:
        refuse_unknown_events(rule.event_names, tally.n_events, contract)
    refuse_unknown_classes(rule, contract)
    cautions += _cautions_of_checks(contract)
    if seconds(rule.maturity) and columns.timestamp is not None:
        is_young = labelling.young_rows(columns.timestamp)
        judged &= ~is_young
        if n_young := int(np.count_nonzero(is_young)):
            text = f"{count_of(n_young, 'document')} younger than {rule.maturity}, whose labels are still arriving"
            cautions.append(Caution("young-documents", "note", text))
    n_unjudged = int(np.count_nonzero(~judged))
    if not n_unjudged:
        return RuleLabels(grades, None, tuple(cautions))
    text = f"{n_unjudged:,} of {count_of(judged.size, 'document')} not judged, by `relevance`"
    cautions.append(Caution("unjudged-documents", "note", text))
    return RuleLabels(np.where(judged, grades, 0.0), judged, tuple(cautions))


class _EventTally:
    """The number of each event in all rows, and of rows with more than one."""

    def __init__(self) -> None:
        self.n_events: dict[str, int] = {}
        self._n_repeated: dict[str, int] = {}

    def add(self, counts: Mapping[str, NDArray[np.int32]]) -> None:
        """Add the counts (n_rows,) of each event in further rows."""
        for event, count in counts.items():
            self.n_events[event] = self.n_events.get(event, 0) + int(count.sum(dtype=np.int64))
            n_repeated = int(np.count_nonzero(count > 1))
            self._n_repeated[event] = self._n_repeated.get(event, 0) + n_repeated

    def often_repeated(self, n_rows: int, negative: Collection[str]) -> dict[str, float]:
        """Return the share of rows with several events, of events that are not negative and for which it is large."""
        shares = {event: n / n_rows for event, n in self._n_repeated.items() if event not in negative}
        return {event: share for event, share in shares.items() if share > MOST_ROWS}


@dataclass(frozen=True, eq=False)
class _Labelling:
    """A log whose rows get labels."""

    log: Log
    rule: Relevance
    columns: ListColumns
    place: Callable[[int], str]
    contract: Contract

    def rows(self, table: Any, first: int) -> LogRows | None:
        """A batch, from row `first` of the log on, in the order in which it was shown, where that matters."""
        place = lambda row: self.place(first + row)  # noqa: E731
        if self.rule.by_list:
            columns = self.columns.model_copy(update={"item_id": None})
            rows = in_order(table, columns, self.contract)
            return None if rows is None else replace(rows, place=place)
        self.contract.begin(table.num_rows)
        return LogRows(table, None, np.empty(0, np.str_), np.array([0, table.num_rows]), place)

    def by_batch(self, tally: _EventTally) -> tuple[Floats, NDArray[np.bool_]]:
        """Return grades, and which rows are judged, batch by batch; the events are counted in `tally`."""
        rule, columns = self.rule, self.columns
        events = JoinedEvents.read(rule, columns, _TIMEZONE, self.log, self.contract)
        parts: list[tuple[Floats, NDArray[np.bool_]]] = []
        first = 0
        for batch in self._batches():
            rows = self.rows(batch if events is None else events.add_counts(batch, first), first)
            first += batch.num_rows
            if rows is None:
                continue
            segments = {name: per_query(rows, name, self.contract) for name in rule.dwell_segments}
            counts, grades = grades_of_rows(rows, rule, self.contract, segments)
            if grades is None:
                continue  # the contract has the errors
            tally.add(counts)
            judged = self._judged(rows, counts)
            judged = np.ones(grades.size, dtype=bool) if judged is None else rows.in_file(judged)
            parts.append((rows.in_file(grades), judged))
        self.contract.raise_errors()
        all_grades, all_judged = (np.concatenate(column) for column in zip(*parts, strict=True))
        return all_grades, all_judged

    def _batches(self) -> Iterator[Any]:
        """Yield the columns that the rule needs, batch by batch; of whole queries where it looks at lists."""
        rule, query = self.rule, self.columns.query_id
        names = [*rule.named_columns]
        if rule.by_list:
            names += [name for name in (query, self.columns.rank) if name]
        # one at least, to count rows by
        needed = list(dict.fromkeys(names)) or [query]
        return self.log.batches(needed, query if rule.by_list else None)

    def _judged(self, rows: LogRows, counts: Mapping[str, NDArray[np.int32]]) -> NDArray[np.bool_] | None:
        """Return which rows (n_rows,) of a batch are judged; None for all."""
        rule, rank = self.rule, self.columns.rank
        if rule.unlabelled == "ignore":
            return ~np.isnan(rows.numbers(rule.label))
        scores = -rows.numbers(rank) if rule.by_list and rank else np.empty(0)
        return judged_rows(rows, counts, scores, rule, self.contract)

    def young_rows(self, timestamp: str) -> NDArray[np.bool_]:
        """Return which rows (n_rows,) are so young, by a column of times, that they still gather labels."""
        times: list[NDArray[np.int64]] = []

        def place(row: int) -> str:
            return self.place(row + sum(map(len, times)))

        for batch in self.log.batches([timestamp], None):
            times.append(timestamps(batch[timestamp], timestamp, _TIMEZONE, place))
        time = np.concatenate(times)
        return np.asarray(time > time.max(initial=0) - seconds(self.rule.maturity) * 10**9)

    def quantiles(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return grades within queries, and which rows are judged, of all batches together."""
        rule, query = self.rule, self.columns.query_id
        batches = self.log.batches(list(dict.fromkeys([rule.label, query])), None)
        rows = self.rows(pa.concat_tables(batches, promote_options="permissive"), 0)
        assert rows is not None
        values, grades = rows.numbers(rule.label), np.zeros(int(rows.boundaries[-1]))
        is_finite = np.isfinite(values)
        if rule.unlabelled == "refuse":
            self.contract.check("number-missing", ~is_finite, rows.name)
        else:
            self.contract.check("number-missing", np.isinf(values), rows.name)
            self.contract.check("grade-missing", ~is_finite, rows.name)
        self.contract.raise_errors()
        codes = rows.category(query).codes.astype(np.int64)
        grades[is_finite] = quantile_grades(values[is_finite], codes[is_finite], rule.bins or 1)
        if rule.unlabelled == "ignore":
            return grades, is_finite
        return grades, np.ones(is_finite.size, dtype=bool)

    def estimates(
        self, propensity: Propensity, grades: Floats, features: NDArray[np.float32] | None
    ) -> tuple[Floats, Caution]:
        """Return the labels of the rule's estimator, and a caution with their effective weight."""
        if self.rule.chosen != "doubly_robust":
            features = None
        rank_column, query = propensity.column or self.columns.rank or "", self.columns.query_id
        names = [rank_column] if features is None else [rank_column, query]
        table = pa.concat_tables(self.log.batches(names, None), promote_options="permissive")
        rows = LogRows(table, None, np.empty(0, np.str_), np.array([0, grades.size]), self.place)
        ranks_or_ones = np.ones(grades.size) if propensity.column else rows.numbers(rank_column)
        ranks = np.where(
            (ranks_or_ones >= 1) & (ranks_or_ones == np.floor(ranks_or_ones)), ranks_or_ones, 0
        ).astype(np.int64)
        model = None
        if features is not None:
            model = rows.category(query).codes.astype(np.int64), features
        labels, weights = estimated_labels(grades, rows, ranks, self.rule, self.contract, model)
        self.contract.raise_errors()
        return labels, effective_weight(grades if weights is None else weights, propensity.clip)
