"""May these results be set side by side, and if not, why not? Whatever differs is reported, all of it at once."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ltr_harness.comparison.pairs import Entrant, value_bounds
from ltr_harness.errors import DataError, NotComparableError, Problem, UsageError
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.stats.method import Method
from ltr_harness.wording import count_of

# What a query must have in common with its namesake elsewhere: facts of the labels, not of the model.
LABEL_FACTS = ("rows", "n_relevant")

_OTHER_CANDIDATES = (
    "two retrievers, whose candidates differ, are compared where `data.judgments` and document ids say for both "
    "what is relevant"
)

FOREIGN = "foreign:"
"""Before another tool's name for a metric whose definition is not known: no text of our grammar begins so."""


def differences(entrants: Sequence[Entrant], metrics: Sequence[str] | None = None) -> list[Problem]:
    """Every reason why these results must not be compared; empty where they may be."""
    problems = []
    for entrant in entrants:
        for metric in [metric for metric in metrics or () if metric not in entrant.values]:
            near, cure = _nearest(metric, list(entrant.values)), ""
            if near is None:
                found = f"has no {metric}; it has {', '.join(entrant.values) or 'no metric'}"
            else:
                why, cure = _why_never(near, metric)
                found = f"has no {metric}, and its {near} is never comparable with that: {why}"
            problems.append(Problem(entrant.name, found, cure=cure))
    first = entrants[0]
    words = {True: "higher", False: "lower"}
    for entrant in entrants[1:]:
        if metrics is None:
            problems += _metric_differences(first, entrant)
        for metric, higher in first.higher_is_better.items():
            own = entrant.higher_is_better.get(metric, higher)
            if own != higher:
                found = f"{metric}: {words[own]} is better here, {words[higher]} in {first.name}"
                problems.append(Problem(entrant.name, found, "one definition"))
        problems += _query_differences(first, entrant)
    return problems


def require_finite(entrants: Sequence[Entrant], metrics: Sequence[str]) -> None:
    """An infinite value has no mean, and of what is made from it everything is NaN: it is named instead."""
    problems = []
    for entrant in entrants:
        for metric in metrics:
            infinite = np.isinf(entrant.values[metric]).any(axis=0)
            if infinite.any():
                query = entrant.query_ids[int(np.argmax(infinite))]
                more = f", as of {int(infinite.sum()) - 1} more" if infinite.sum() > 1 else ""
                found = f"{metric} of query {str(query)!r} is infinite{more}"
                expected = "a finite number, or an empty field where the metric is undefined"
                problems.append(Problem(entrant.name, found, expected))
    DataError.refuse(problems)


def require_bounds(entrants: Sequence[Entrant], metrics: Sequence[str]) -> None:
    """Bets on values without bounds cannot be made."""
    problems = [
        Problem(
            metric,
            "test bounded, and the bounds of its values are not known",
            "a metric of the harness whose values lie within bounds, such as ndcg@10",
            "leave the metric out, or use test skew-adjusted",
        )
        for metric in metrics
        if not np.isfinite(value_bounds(entrants, metric)).all()
    ]
    DataError.refuse(problems)


def require_means(method: Method, where: str, *, units: bool = True) -> None:
    """Raises UsageError for what is not known of a mean over several samples."""
    problems = []
    if method.test not in ("skew-adjusted", "permutation", "t"):
        problems.append(Problem("test", f"{method.test} {where}", "test skew-adjusted, permutation or t"))
    if method.margin is not None:
        problems.append(Problem("margin", f"equivalence {where}", "no margin"))
    if method.unit is not None and not units:
        problems.append(Problem("unit", f"{method.unit!r} {where}", "no unit"))
    UsageError.refuse(problems)


def common_queries(entrants: Sequence[Entrant]) -> tuple[list[Entrant], list[str]]:
    """All entrants on the queries that all of them have, and notes of how many each one lost."""
    ids = [set(entrant.query_ids.tolist()) for entrant in entrants]
    shared = set.intersection(*ids)
    if not shared:
        counts = ", ".join(f"{entrant.name}: {len(own)}" for entrant, own in zip(entrants, ids, strict=True))
        found = f"no query is common to all ({counts} queries)"
        raise NotComparableError.at("", found, cure="are the ids of one data set?")
    kept, notes = [], []
    for entrant, own in zip(entrants, ids, strict=True):
        lost = len(own) - len(shared)
        if lost:
            keep = np.flatnonzero([query in shared for query in entrant.query_ids.tolist()])
            # The digest is of all its queries' labels and says nothing about those that remain.
            entrant = replace(entrant.take(keep), judgments_fingerprint={})
            of_all = f"{lost:,} of {count_of(len(own), 'query')}"
            notes.append(f"{entrant.name}: {of_all} left out, not common to all")
        kept.append(entrant)
    return kept, notes


def aligned(entrants: Sequence[Entrant]) -> list[Entrant]:
    """All entrants in one order of queries: sorted by id, so that no result depends on the order of a file."""
    return [entrant.take(np.argsort(entrant.query_ids, kind="stable")) for entrant in entrants]


def _metric_differences(first: Entrant, other: Entrant) -> list[Problem]:
    lacking = [metric for metric in first.values if metric not in other.values]
    extra = [metric for metric in other.values if metric not in first.values]
    problems = []
    for metric in list(lacking):
        near = _nearest(metric, extra)
        if near is not None:
            why, cure = _why_never(near, metric)
            found = f"{near} against {metric} of {first.name}: never comparable: {why}"
            problems.append(Problem(other.name, found, cure=cure))
            lacking.remove(metric)
            extra.remove(near)
    both = [metric for metric in first.values if metric in other.values]
    cure = f"compare what both have: metrics={both!r}" if both else "evaluate both by the same metrics"
    if lacking:
        found = f"has no {', '.join(lacking)}, which {first.name} has"
        problems.append(Problem(other.name, found, cure=cure))
    if extra:
        found = f"has {', '.join(extra)}, which {first.name} does not have"
        problems.append(Problem(other.name, found, cure=cure))
    return problems


def _nearest(metric: str, others: Sequence[str]) -> str | None:
    """The same metric in another definition or at another K: what was probably meant to be compared."""

    def bare(name: str) -> str:
        return MetricName.of(name.removeprefix(FOREIGN)).name.lower()

    wanted = MetricName.of(metric).parameters
    same = [other for other in others if bare(other) == bare(metric)]
    return min(same, key=lambda other: MetricName.of(other).parameters != wanted, default=None)


def _why_never(one: str, other: str) -> tuple[str, str]:
    """Why two forms of a metric cannot be compared, and the cure."""
    if MetricName.of(one).k != MetricName.of(other).k:
        return "a different K is a different question", "evaluate both at one K"
    if one.startswith(FOREIGN) != other.startswith(FOREIGN):
        return (
            "one is another tool's name, whose definition is not known",
            "name its tool, such as convention='ir_measures' or --convention ir_measures, and evaluate both by that",
        )
    return (
        "another definition, so another number for the same ranking",
        "evaluate both by one definition; stored scores are enough, nothing is trained again",
    )


def _query_differences(first: Entrant, other: Entrant) -> list[Problem]:
    """Other queries, else the same ids, but other folds, labels, rows or weights behind them."""
    ours, theirs = set(first.query_ids.tolist()), set(other.query_ids.tolist())
    if ours != theirs:
        only = sorted(theirs - ours) or sorted(ours - theirs)
        found = (
            f"{count_of(len(theirs), 'query')} against {len(ours):,} of {first.name}: "
            f"{len(ours - theirs):,} missing here, {len(theirs - ours):,} only here (such as "
            f"{', '.join(map(repr, only[:3]))})"
        )
        cure = f"common_queries=True, or --common-queries, compares the {len(ours & theirs):,} that both have"
        if not ours & theirs:
            cure = "they share no query: are the ids of one data set? "
            cure += "The same models on several data sets: `compare sets`"
        return [Problem(other.name, found, "the same queries", cure)]
    mine_folds, other_folds = first.judgments_fingerprint.keys(), other.judgments_fingerprint.keys()
    folds = sorted(mine_folds & other_folds)
    if folds and mine_folds != other_folds:  # fold 1 of three is not fold 1 of five
        found = (
            f"its test queries are divided into {count_of(len(other_folds), 'fold')}, those of {first.name} into "
            f"{len(mine_folds)}"
        )
        cure = "train both on the same division of the queries"
        return [Problem(other.name, found, "the same folds", cure)]
    # of two retrievers the candidates may differ, where what is relevant is known apart from them
    declared = first.truth_declared and other.truth_declared
    which = "truth_fingerprint" if declared else "judgments_fingerprint"
    mine_of, theirs_of = getattr(first, which), getattr(other, which)
    differing = [fold for fold in folds if mine_of[fold] != theirs_of[fold]]
    where = "" if differing in ([], ["all"]) else f" of {', '.join(differing)}"
    if differing:
        found = f"the test data{where} differ from those of {first.name}: same queries, other labels or "
        found += "relevant documents" if declared else "rows"
        cure = "measure both on the same files, labelled alike: `label`, `grades`, `relevance` in data"
        if not declared:
            cure += f"; {_OTHER_CANDIDATES}"
        return [Problem(other.name, found, "one set of judgments", cure)]
    problems = []
    mine, yours = aligned([first, other])
    for fact in LABEL_FACTS:
        before, here = mine.query_attributes.get(fact), yours.query_attributes.get(fact)
        if before is None or here is None or (fact == "rows" and declared):
            continue
        unequal = np.flatnonzero(before != here)
        if unequal.size:
            at = unequal[0]
            found = (
                f"{fact} differs from {first.name} in {count_of(unequal.size, 'query')}, such as "
                f"{str(mine.query_ids[at])!r}: {here[at]} against {before[at]}"
            )
            cure = _OTHER_CANDIDATES if fact == "rows" else ""
            problems.append(Problem(other.name, found, "one set of judgments", cure))
    return problems
