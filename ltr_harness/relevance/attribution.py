"""Attribution of events: clicks, dwell time and other events of a row as its relevance.

The same log gives NDCG@5 from 0.64 to 0.96 depending on the rule, so results under different rules are never
compared. Arrays in, grades out; where the events come from is the log's business.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ltr_harness.relevance.rule import Dwell, Relevance

Floats = NDArray[np.float64]


def grades_from_events(
    rule: Relevance, counts: Mapping[str, NDArray[np.integer]], columns: Mapping[str, Floats] | None = None
) -> Floats:
    """The grade of every row.

    * ``sum``: how many of the positive events happened.
    * ``max``: the highest weight among events that happened; stays on the scale of grades.
    * ``weighted_sum``: the sum of weights, at most `clip`.
    * ``ladder``: the grade of the first condition that holds.
    * ``ips``, ``doubly_robust``: as ``max``, before the estimator looks at ranks.

    A negative event (hide, return) makes the row worth 0, never less. float64 (n_rows,), >= 0. Shapes: `counts`
    (n_rows,), `columns` (n_rows,).

    Example:
        >>> rule = Relevance(events={"click": 1, "favorite": 2, "buy": 4})
        >>> happened = {"click": [1, 1, 0, 0, 2], "favorite": [0, 1, 0, 1, 0], "buy": [0, 1, 0, 0, 0]}
        >>> grades_from_events(rule, {name: np.array(n) for name, n in happened.items()}).tolist()
        [1.0, 4.0, 0.0, 2.0, 1.0]
    """
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


def grades_from_match(
    prediction: NDArray[np.str_], truth: NDArray[np.str_], positive: tuple[str, ...]
) -> Floats:
    """1 where the predicted class and the true class are the same and a positive one.

    Shapes: `prediction` (n_rows,), `truth` (n_rows,).
    """
    matches: Floats = ((prediction == truth) & np.isin(truth, positive)).astype(np.float64)
    return matches


def satisfied_clicks(
    clicks: NDArray[np.integer],
    dwell: Floats,
    rule: Dwell,
    segments: Mapping[str, NDArray[np.str_]],
    boundaries: NDArray[np.int64],
) -> tuple[NDArray[np.integer], NDArray[np.bool_]]:
    """Clicks after which the user stayed.

    Nobody measures how long a user stayed on what was clicked last, so a missing dwell time is that of the visit's
    last click, which satisfied. A visit has one last click: of several without a time it is the lowest, as users
    read downwards.

    Source: Y. Kim, A. Hassan, R. White, I. Zitouni, WSDM 2014: 30 s, and that one threshold does not suit all pages.
    The clicks, 0 where they did not satisfy, and whether a row's click has no dwell time that it should have. Shapes:
    `clicks` (n_rows,), `dwell` (n_rows,), `segments` (n_rows,), `boundaries` (n_queries + 1,).
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
    """Rows down to the last one of the query with which something happened; all rows where nothing did.

    Shapes: `happened` (n_rows,), `scores` (n_rows,), `boundaries` (n_queries + 1,).
    """
    last = _last(happened, boundaries)
    kept: NDArray[np.bool_] = (
        (last < 0) | (np.arange(happened.size) <= last) | (scores == scores[np.maximum(last, 0)])
    )
    return kept


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
    said = {
        "label": f"the grade in column {rule.label}",
        "match": f"1 where {rule.prediction} equals {rule.label} and is {positive}",
        "sum": f"the number of events that happened among {positive}",
        "max": f"the highest weight among the events that happened ({weights})",
        "weighted_sum": f"the sum of the weights of the events that happened ({weights})"
        + (f", at most {rule.clip:g}" if rule.clip else ""),
        "ips": f"the highest weight among the events that happened ({weights}) over {_looked(rule)}",
        "doubly_robust": "relevance predicted from features, corrected by the highest weight among the events that "
        f"happened ({weights}) over {_looked(rule)}",
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
        extra.append("rows below the last one that users did anything with are not judged")
    return "; ".join([said, *extra])


def _looked(rule: Relevance) -> str:
    """The divisor of an estimator, in words."""
    if rule.propensity is None:
        return ""
    given = rule.propensity
    by = f"column {given.column}" if given.column else given.source or "by a given table"
    return f"the probability that users looked at its rank ({by}; at least {given.clip:g})"
