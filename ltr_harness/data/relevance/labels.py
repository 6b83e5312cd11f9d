"""Grades of rows: a column, or what the rule of relevance makes of clicks, dwell time and other events.

The same log gives NDCG@5 from 0.64 to 0.96 depending on the rule, so results under different rules are never compared.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.columns import texts_of
from ltr_harness.data.logs.contract import Contract, LogRows, in_order, per_query
from ltr_harness.data.logs.log import Log
from ltr_harness.data.logs.settings import ListColumns, seconds
from ltr_harness.data.queries import Floats, places_within
from ltr_harness.data.relevance.events import (
    JoinedEvents,
    counts_column,
    counts_of_lists,
    refuse_unknown_classes,
    refuse_unknown_events,
)
from ltr_harness.data.relevance.propensities import effective_weight, estimated, estimated_labels
from ltr_harness.data.relevance.rule import MOST_ROWS, Dwell, Propensity, Relevance, event_counts
from ltr_harness.data.times import timestamps
from ltr_harness.errors import Caution


def grades_from_events(
    rule: Relevance, counts: Mapping[str, NDArray[np.integer]], columns: Mapping[str, Floats] | None = None
) -> Floats:
    """The grade of every row by the rule's mode (docs/monitoring.md); estimators look at ranks later."""
    n = next(iter([*counts.values(), *(columns or {}).values()])).size  # a ladder may look at columns alone
    mode = rule.chosen
    grades = np.zeros(n)
    if mode == "ladder":
        open_rows = np.ones(n, dtype=bool)
        for rung in rule.ladder:
            condition = rung.condition
            if condition is None:
                holds = counts[rung.when] > 0
            else:
                with np.errstate(invalid="ignore"):
                    holds = (columns or {})[condition[0]] >= condition[1]
            grades[open_rows & holds] = rung.grade
            open_rows &= ~holds
    elif mode == "sum":
        for name in rule.positive or rule.events:
            grades += _amount(rule, counts[name])
    elif mode == "max" or rule.estimates:
        for name, weight in rule.events.items():
            np.maximum(grades, weight * _amount(rule, counts[name]), out=grades)
    else:
        for name, weight in rule.events.items():
            grades += weight * _amount(rule, counts[name])
        if rule.clip is not None:
            np.minimum(grades, rule.clip, out=grades)
    for name in rule.negative:
        grades[counts[name] > 0] = 0.0
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
    """Clicks (n_rows,), 0 where the user did not stay, and whether a row's click lacks a dwell time it should have.

    A missing dwell time is that of the visit's last click, which satisfied: of several without a time the lowest.

    Source: Y. Kim, A. Hassan, R. White, I. Zitouni, WSDM 2014: 30 s, and that one threshold does not suit all pages.
    """
    least = np.full(clicks.size, rule.satisfied)
    for segment, thresholds in rule.by.items():
        for value, threshold in thresholds.items():
            least[segments[segment] == value] = threshold
    untimed = np.isnan(dwell) & (clicks > 0)
    unknown = untimed & (np.arange(clicks.size) != _last(untimed, boundaries))
    kept: NDArray[np.integer] = np.where((dwell >= least) | (untimed & ~unknown), clicks, 0)
    return kept, unknown


def examined(happened: NDArray[np.bool_], scores: Floats, boundaries: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows (n_rows,) down to the last one of the query with which something happened; all where nothing did."""
    last = _last(happened, boundaries)
    tied = scores == scores[np.maximum(last, 0)]
    return np.asarray((last < 0) | (np.arange(happened.size) <= last) | tied)


def _last(holds: NDArray[np.bool_], boundaries: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every row the last row of its query where it holds, -1 where it holds nowhere."""
    at = np.where(holds, np.arange(holds.size), -1)
    return np.repeat(np.maximum.reduceat(at, boundaries[:-1]), np.diff(boundaries))


def _amount(rule: Relevance, count: NDArray[np.integer]) -> Floats:
    if rule.count == "log1p":
        return np.log1p(count.astype(np.float64))
    return (count > 0).astype(np.float64)


def describe(rule: Relevance) -> str:
    """The rule in one sentence, for the first lines of the report."""
    by_weight = sorted(rule.events.items(), key=lambda event: event[1])  # records sort by name
    weights = ", ".join(f"{name} {weight:g}" for name, weight in by_weight)
    positive = ", ".join(rule.positive or rule.events)
    looked = ""  # the divisor of an estimator
    if (given := rule.propensity) is not None:
        by = f"column {given.column}" if given.column else given.source or "by a given table"
        looked = f"the probability that users examined its rank ({by}; at least {given.clip:g})"
    said = {
        "label": f"the grade in column {rule.label}",
        "quantiles": f"grades 0 to {(rule.bins or 1) - 1} by the quantile of {rule.label} within the query",
        "match": f"1 where {rule.prediction} equals {rule.label} and is {positive}",
        "sum": f"the number of events that happened among {positive}",
        "max": f"the highest weight among the events that happened ({weights})",
        "weighted_sum": f"the sum of the weights of the events that happened ({weights})"
        + (f", at most {rule.clip:g}" if rule.clip else ""),
        "ips": f"the highest weight among the events that happened ({weights}) over {looked}",
        "doubly_robust": "relevance predicted from features, corrected by the highest weight among the events that "
        f"happened ({weights}) over {looked}",
        "ladder": "the first that holds of " + ", ".join(f"{r.when}: {r.grade:g}" for r in rule.ladder),
    }[rule.chosen]
    extra = []
    if rule.dwell:
        others = [f", {by} {of} from {s:g} s" for by, each in rule.dwell.by.items() for of, s in each.items()]
        start = f"a {rule.dwell.event} counts from {rule.dwell.satisfied:g} s of dwell time on"
        extra.append("".join([start, *others]))
    if rule.negative:
        extra.append(f"{', '.join(rule.negative)} makes a row worth 0")
    if rule.count == "log1p" and rule.from_events:
        extra.append("repeated events count log(1 + n)")
    if rule.unseen != "zero":
        extra.append("rows below the last one with an event are not judged")
    return "; ".join([said, *extra])


RELEVANT, LABELLED = "relevant", "labelled"
"""What ready labels count as, in place of events: documents that are relevant, and documents with a label."""


def grades_of_rows(
    rows: LogRows, rule: Relevance, contract: Contract, segments: Mapping[str, pd.Categorical]
) -> tuple[dict[str, NDArray[np.int32]], Floats | None]:
    """Counts of every event per row, or of ready labels, and the rows' grades (None where they cannot be had)."""
    if rule.chosen == "match":
        classes = [rows.category(name) for name in (rule.prediction or "", rule.label)]
        contract.classes.update(*(map(str, column.categories) for column in classes))
        prediction, truth = map(texts_of, classes)
        return {}, ((prediction == truth) & np.isin(truth, rule.positive)).astype(np.float64)
    if rule.chosen == "label":
        labels = rows.numbers(rule.label)
        counts = {RELEVANT: (labels > 0).astype(np.int32)}
        if rule.unlabelled != "refuse":
            missing = np.isnan(labels)
            contract.check("grade-missing", missing, rows.name)
            labels = np.where(missing, 0.0, labels)
            counts[LABELLED] = (~missing).astype(np.int32)
        return counts, _checked(labels, rows, rule, contract)
    names = rule.event_names
    events: dict[str, NDArray[np.int32]] = {}
    if rule.event_log is not None:
        events = {name: rows.arranged(rows.table[counts_column(name)].to_numpy()) for name in names}
    elif rule.list_column:
        of_lists = counts_of_lists(rows.table[rule.list_column], rule.list_column, names, contract)
        events = {name: rows.arranged(count) for name, count in of_lists.items()}
    else:
        sound = True
        for name in names:
            values = rows.numbers(name)
            values = np.where(np.isnan(values), 0.0, values)  # nothing logged is nothing happened
            good = (values >= 0) & np.isfinite(values) & (values == np.floor(values))
            sound &= contract.check("event-invalid", ~good, rows.name)
            events[name] = np.clip(values, 0, 2**31 - 1).astype(np.int32)
            contract.totals["events"] += int(events[name].sum(dtype=np.int64))
        if not sound:
            return {}, None
    judged = dict(events)
    if rule.dwell:
        texts = {name: texts_of(segments[name])[rows.query_of_row] for name in rule.dwell.by}
        clicks, seconds_on = events[rule.dwell.event], rows.numbers(rule.dwell.column)
        stayed, unknown = satisfied_clicks(clicks, seconds_on, rule.dwell, texts, rows.boundaries)
        contract.check("dwell-missing", unknown, rows.name)
        judged[rule.dwell.event] = stayed.astype(np.int32)
    columns = {rung.condition[0]: rows.numbers(rung.condition[0]) for rung in rule.ladder if rung.condition}
    grades = grades_from_events(rule, judged, columns)
    return events, _checked(grades, rows, rule, contract)


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


@dataclass(frozen=True, eq=False)
class RuleLabels:
    """Labels of rows by the rule of relevance."""

    grades: Floats  # float64 (n_rows,), 0 where nobody judged
    judged: NDArray[np.bool_] | None  # (n_rows,), None where all rows are
    cautions: tuple[Caution, ...]


def labels_of(
    log: Log,
    rule: Relevance,
    columns: ListColumns,
    place: Callable[[int], str],
    features: NDArray[np.float32] | None = None,  # (n_rows, n_features)
) -> RuleLabels:
    """The labels of rows, in their order."""
    if rule.propensity is not None:
        rule = rule.model_copy(update={"propensity": estimated(rule.propensity)})
    made = _Labelling(log, rule, columns, place, Contract("data", log.name))
    contract = made.contract
    events = JoinedEvents.read(rule, columns, _TIMEZONE, log, contract)
    parts: list[tuple[Floats, NDArray[np.bool_]]] = []
    happened: dict[str, int] = {}
    repeated: dict[str, int] = {}  # rows with two events and more
    first = 0
    by_list = [name for name in (columns.query_id, columns.rank) if name] if rule.by_list else []
    if rule.chosen == "quantiles":
        parts.append(made.quantiles())
    # one at least, to count rows by
    needed = list(dict.fromkeys([*rule.named_columns, *by_list])) or [columns.query_id]
    for batch in () if parts else log.batches(needed, columns.query_id if rule.by_list else None):
        rows = made.rows(batch if events is None else events.beside(batch, first), first)
        first += batch.num_rows
        if rows is None:
            continue
        segments = {name: per_query(rows, name, contract) for name in (rule.dwell.by if rule.dwell else ())}
        counts, graded = grades_of_rows(rows, rule, contract, segments)
        if graded is None:
            continue  # the contract has the errors
        for event, count in counts.items():
            happened[event] = happened.get(event, 0) + int(count.sum(dtype=np.int64))
            repeated[event] = repeated.get(event, 0) + int(np.count_nonzero(count > 1))
        if rule.unlabelled == "ignore":
            seen: NDArray[np.bool_] | None = ~np.isnan(rows.numbers(rule.label))
        else:
            scores = -rows.numbers(columns.rank) if rule.by_list and columns.rank else np.empty(0)
            seen = judged_rows(rows, counts, scores, rule, contract)
        everyone = np.ones(graded.size, dtype=bool)
        parts.append((rows.in_file(graded), everyone if seen is None else rows.in_file(seen)))
    contract.raise_errors()
    grades, judged = (np.concatenate(column) for column in zip(*parts, strict=True))
    cautions = [Caution("labels-by-rule", "note", f"labels by `relevance`: {describe(rule)}")]
    if rule.from_events and rule.count == "any":
        shares = {name: n / grades.size for name, n in repeated.items() if name not in rule.negative}
        cautions += event_counts({name: share for name, share in shares.items() if share > MOST_ROWS})
    if rule.propensity is not None:
        grades, effective = made.estimates(rule.propensity, grades, features)
        cautions.append(effective)
    if rule.list_column or rule.event_log:
        refuse_unknown_events(rule.event_names, happened, contract)
    refuse_unknown_classes(rule, contract)
    cautions += [
        replace(check.caution, place="relevance")
        for check in contract.log_checks
        if check.severity == "warning" or check.check == "absent-class"
    ]
    if seconds(rule.maturity) and (name := columns.timestamp) is not None:
        times: list[NDArray[np.int64]] = []

        def here(row: int) -> str:
            return place(row + sum(map(len, times)))

        for batch in log.batches([name], None):
            times.append(timestamps(batch[name], name, _TIMEZONE, here))
        time = np.concatenate(times)
        young = time > time.max(initial=0) - seconds(rule.maturity) * 10**9
        judged &= ~young
        if n_young := int(np.count_nonzero(young)):
            text = f"{count_of(n_young, 'document')} younger than {rule.maturity} still gather labels"
            cautions.append(Caution("young-documents", "note", text))
    n = int(np.count_nonzero(~judged))
    if n:
        text = f"{n:,} of {count_of(judged.size, 'document')} not judged, by `relevance`"
        cautions.append(Caution("unjudged-documents", "note", text))
    return RuleLabels(np.where(judged, grades, 0.0), judged if n else None, tuple(cautions))


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

    def quantiles(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Grades within queries, and which rows are judged, of all batches together."""
        rule, query = self.rule, self.columns.query_id
        batches = self.log.batches([rule.label, *([] if query == rule.label else [query])], None)
        rows = self.rows(pa.concat_tables(batches, promote_options="permissive"), 0)
        assert rows is not None
        values, grades = rows.numbers(rule.label), np.zeros(int(rows.boundaries[-1]))
        there = np.isfinite(values)
        bad = ~there if rule.unlabelled == "refuse" else np.isinf(values)
        self.contract.check("number-missing", bad, rows.name)
        if rule.unlabelled != "refuse":
            self.contract.check("grade-missing", ~there, rows.name)
        codes = rows.category(query).codes.astype(np.int64)
        grades[there] = quantile_grades(values[there], codes[there], rule.bins or 1)
        return grades, there if rule.unlabelled == "ignore" else np.ones(there.size, dtype=bool)

    def estimates(
        self, propensity: Propensity, grades: Floats, features: NDArray[np.float32] | None
    ) -> tuple[Floats, Caution]:
        """The labels that the rule's estimator makes of what happened, and how much that says."""
        doubly = self.rule.chosen == "doubly_robust" and features is not None
        looked, query = propensity.column or self.columns.rank or "", self.columns.query_id
        batches = self.log.batches([looked, *([query] if doubly else [])], None)
        table = pa.concat_tables(batches, promote_options="permissive")
        rows = LogRows(table, None, np.empty(0, np.str_), np.array([0, grades.size]), self.place)
        shown = np.ones(grades.size) if propensity.column else rows.numbers(looked)
        ranks = np.where((shown >= 1) & (shown == np.floor(shown)), shown, 0).astype(np.int64)
        model = None
        if doubly and features is not None:
            model = rows.category(query).codes.astype(np.int64), features
        labels, weights = estimated_labels(grades, rows, ranks, self.rule, self.contract, model)
        self.contract.raise_errors()
        return labels, effective_weight(grades if weights is None else weights, propensity.clip)
