"""Grades of a batch's rows: a column, or what the rule of relevance makes of the events."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.logs.batch import LogRows
from ltr_harness.logs.columns import texts_of
from ltr_harness.logs.contract import Contract
from ltr_harness.relevance.attribution import (
    examined,
    grades_from_events,
    grades_from_match,
    satisfied_clicks,
)
from ltr_harness.relevance.events import counts_column, counts_of_lists
from ltr_harness.relevance.rule import Relevance

Floats = NDArray[np.float64]

RELEVANT, LABELLED = "relevant", "labelled"
"""What ready labels count as, in place of events: documents that are relevant, and documents with a label."""


def grades_of_rows(
    rows: LogRows,
    rule: Relevance,
    contract: Contract,
    segments: Mapping[str, pd.Categorical],
) -> tuple[dict[str, NDArray[np.int32]], Floats | None]:
    """Counts of every event per row, or of ready labels, and the rows' grades (None where they cannot be had)."""
    if rule.chosen == "match":
        prediction, truth = (texts_of(rows.category(name)) for name in (rule.prediction or "", rule.label))
        return {}, grades_from_match(prediction, truth, rule.positive)
    if rule.chosen == "label":
        labels = rows.numbers(rule.label)
        counts = {RELEVANT: (labels > 0).astype(np.int32)}
        if rule.unlabelled != "refuse":
            missing = np.isnan(labels)
            contract.check("grade_missing", missing, rows.name)
            labels = np.where(missing, 0.0, labels)
            counts[LABELLED] = (~missing).astype(np.int32)
        return counts, _checked(labels, rows, rule, contract)
    events = _event_counts(rows, rule, contract)
    if events is None:
        return {}, None
    judged = dict(events)
    if rule.dwell:
        texts = {name: texts_of(segments[name])[rows.query_of_row] for name in rule.dwell.by}
        stayed, unknown = satisfied_clicks(
            events[rule.dwell.event], rows.numbers(rule.dwell.column), rule.dwell, texts, rows.boundaries
        )
        contract.check("dwell_missing", unknown, rows.name)
        judged[rule.dwell.event] = stayed.astype(np.int32)
    columns = {rung.condition[0]: rows.numbers(rung.condition[0]) for rung in rule.ladder if rung.condition}
    grades = grades_from_events(rule, judged, columns)
    return events, _checked(grades, rows, rule, contract)


def anything_happened(counts: Mapping[str, NDArray[np.int32]]) -> NDArray[np.bool_]:
    """(n_rows,) whether users did anything with the row, wanted or not: then they have looked at it.

    Shapes: `counts` (n_rows,).
    """
    happened: NDArray[np.bool_] = np.logical_or.reduce([count > 0 for count in counts.values()])
    return happened


def fit(grades: Floats) -> NDArray[np.bool_]:
    """(n_rows,) whether they can be grades at all. Shapes: `grades` (n_rows,)."""
    good: NDArray[np.bool_] = (grades >= 0) & (grades <= np.finfo(np.float32).max)
    return good


def judged_rows(
    rows: LogRows,
    counts: Mapping[str, NDArray[np.int32]],
    scores: Floats,
    rule: Relevance,
    contract: Contract,
) -> NDArray[np.bool_] | None:
    """(n_rows,) the rows that the rule judges; None for all. A query keeps at least one row.

    Shapes: `counts` (n_rows,), `scores` (n_rows,).
    """
    if rule.from_events and counts:
        happened, seen = anything_happened(counts), None
        if rule.unseen == "ignore_below_last_click":
            seen = examined(happened, scores, rows.boundaries)
            contract.check("not_judged", ~seen, rows.name)
        contract.check("no_event", ~happened if seen is None else seen & ~happened, rows.name)
        return seen
    if rule.unlabelled != "ignore" or rule.chosen != "label":
        return None
    keep: NDArray[np.bool_] = ~np.isnan(rows.numbers(rule.label))
    start = rows.boundaries[:-1]
    keep[start[~np.logical_or.reduceat(keep, start)]] = True  # a list without labels has nothing relevant
    return keep


def _checked(grades: Floats, rows: LogRows, rule: Relevance, contract: Contract) -> Floats:
    good = fit(grades)
    contract.check("grade_invalid", ~good, rows.name)
    if rule.max_grade is not None:
        contract.check("grade_off_scale", good & (grades > rule.max_grade), rows.name)
    return grades


def _event_counts(rows: LogRows, rule: Relevance, contract: Contract) -> dict[str, NDArray[np.int32]] | None:
    names = rule.event_names
    if rule.event_log is not None:
        return {name: rows.arranged(rows.table[counts_column(name)].to_numpy()) for name in names}
    if rule.list_column:
        of_lists = counts_of_lists(rows.table[rule.list_column], rule.list_column, names, contract)
        return {name: rows.arranged(count) for name, count in of_lists.items()}
    counts = {}
    sound = True
    for name in names:
        values = rows.numbers(name)
        values = np.where(np.isnan(values), 0.0, values)  # nothing logged is nothing happened
        sound &= contract.check(
            "event_invalid", ~((values >= 0) & np.isfinite(values) & (values == np.floor(values))), rows.name
        )
        counts[name] = np.maximum(np.minimum(values, 2**31 - 1), 0).astype(np.int32)
    for count in counts.values():
        contract.totals["events"] += int(count.sum(dtype=np.int64))
    return counts if sound else None
