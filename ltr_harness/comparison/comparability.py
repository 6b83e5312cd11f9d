"""May these results be set side by side? Whatever differs is reported, all of it at once."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.comparison.contrasts import SystemResult, value_bounds
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import Caution, DataError, NotComparableError, Problem, UsageError
from ltr_harness.metrics.core.grammar import MetricName

# What a query must have in common with its namesake elsewhere: facts of the labels, not of the model.
LABEL_FACTS = ("rows", "n_relevant")


_OTHER_CANDIDATES = (
    "to compare two retrievers, whose candidates differ, give both the same `data.judgments` and document ids"
)

FOREIGN = "foreign:"
"""Before another tool's name for a metric whose definition is not known: no text of our grammar begins so."""


def incompatibilities(systems: Sequence[SystemResult], metrics: Sequence[str] | None = None) -> list[Problem]:
    """Return every reason why these results must not be compared, at these metrics or at all that they have."""
    problems = []
    for system in systems:
        problems += [_lacks(system, metric) for metric in metrics or () if metric not in system.values]
    first = systems[0]
    words = {True: "higher", False: "lower"}
    for system in systems[1:]:
        if metrics is None:
            problems += _metric_differences(first, system)
        for metric, higher in first.higher_is_better.items():
            own_direction = system.higher_is_better.get(metric, higher)
            if own_direction != higher:
                found = f"{metric}: {words[own_direction]} is better here, {words[higher]} in {first.name}"
                problems.append(Problem(system.name, found, "one definition"))
        problems += _query_differences(first, system)
    return problems


def _lacks(system: SystemResult, metric: str) -> Problem:
    """Return the problem of a metric that a system does not have, beside the nearest one that it has."""
    near = _nearest(metric, list(system.values))
    if near is None:
        found = f"has no {metric}; it has {', '.join(system.values) or 'no metric'}"
        return Problem(system.name, found)
    reason, cure = _why_never(near, metric)
    found = f"has no {metric}, and its {near} is not comparable with that, because {reason}"
    return Problem(system.name, found, cure=cure)


LARGEST_VALUE = 1e60
"""Largest size of a value that can be compared: a spread's kurtosis takes its fourth power."""


def require_finite(systems: Sequence[SystemResult], metrics: Sequence[str]) -> None:
    """Raise for values that are infinite or so large that means and spreads of them could not be computed."""
    problems = []
    for system in systems:
        for metric in metrics:
            values = system.values[metric]
            too_large = (np.abs(values) > LARGEST_VALUE).any(axis=0)
            if not too_large.any():
                continue
            query = int(np.argmax(too_large))
            value = values[np.abs(values[:, query]) > LARGEST_VALUE, query][0]
            size = "infinite" if np.isinf(value) else f"{value:g}"
            more = f", as of {int(too_large.sum()) - 1} more" if too_large.sum() > 1 else ""
            found = f"{metric} of query {str(system.query_ids[query])!r} is {size}{more}"
            expected = (
                f"a finite number up to {LARGEST_VALUE:g}, or an empty field where the metric is undefined"
            )
            problems.append(Problem(system.name, found, expected))
    DataError.refuse(problems)


def require_bounds(systems: Sequence[SystemResult], metrics: Sequence[str]) -> None:
    """Bets on values without bounds cannot be made."""
    problems = [
        Problem(
            metric,
            "test bounded, and the bounds of its values are not known",
            "a metric of the harness whose values lie within bounds, such as ndcg@10",
            "leave the metric out, or use test skew-adjusted",
        )
        for metric in metrics
        if not np.isfinite(value_bounds(systems, metric)).all()
    ]
    DataError.refuse(problems)


def require_means(method: Method, context: str, *, units: bool = True) -> None:
    """Raises UsageError for what is not known of a mean over several samples."""
    problems = []
    if method.test not in ("skew-adjusted", "permutation", "t"):
        problems.append(Problem("test", f"{method.test} {context}", "test skew-adjusted, permutation or t"))
    if method.margin is not None:
        problems.append(Problem("margin", f"equivalence {context}", "no margin"))
    if method.unit is not None and not units:
        problems.append(Problem("unit", f"{method.unit!r} {context}", "no unit"))
    UsageError.refuse(problems)


def common_queries(systems: Sequence[SystemResult]) -> tuple[list[SystemResult], list[Caution]]:
    """All systems on the queries that all of them have, and cautions of how many each one lost."""
    ids = [set(system.query_ids.tolist()) for system in systems]
    shared = set.intersection(*ids)
    if not shared:
        counts = ", ".join(
            f"{system.name}: {len(system_ids)}" for system, system_ids in zip(systems, ids, strict=True)
        )
        found = f"no query is common to all ({counts} queries)"
        raise NotComparableError.at("", found, cure="are the ids of one data set?")
    reduced, cautions = [], []
    for system, system_ids in zip(systems, ids, strict=True):
        n_lost = len(system_ids) - len(shared)
        if n_lost:
            keep = np.flatnonzero([query in shared for query in system.query_ids.tolist()])
            # The digest is of all its queries' labels and says nothing about those that remain.
            system = replace(system.take(keep), judgments_fingerprint={})
            of_all = f"{n_lost:,} of {count_of(len(system_ids), 'query')}"
            text = f"{of_all} left out, not common to all"
            cautions.append(Caution("queries-left-out", "note", text, place=system.name))
        reduced.append(system)
    return reduced, cautions


def aligned(systems: Sequence[SystemResult]) -> list[SystemResult]:
    """All systems in one order of queries: sorted by id, so that no result depends on the order of a file."""
    return [system.take(np.argsort(system.query_ids, kind="stable")) for system in systems]


def _metric_differences(first: SystemResult, other: SystemResult) -> list[Problem]:
    lacking = [metric for metric in first.values if metric not in other.values]
    extra = [metric for metric in other.values if metric not in first.values]
    problems = []
    for metric in list(lacking):
        near = _nearest(metric, extra)
        if near is not None:
            reason, cure = _why_never(near, metric)
            found = f"{near} against {metric} of {first.name}: not comparable, because {reason}"
            problems.append(Problem(other.name, found, cure=cure))
            lacking.remove(metric)
            extra.remove(near)
    shared = [metric for metric in first.values if metric in other.values]
    cure = f"compare what both have: metrics={shared!r}" if shared else "evaluate both by the same metrics"
    if lacking:
        found = f"has no {', '.join(lacking)}, which {first.name} has"
        problems.append(Problem(other.name, found, cure=cure))
    if extra:
        found = f"has {', '.join(extra)}, which {first.name} does not have"
        problems.append(Problem(other.name, found, cure=cure))
    return problems


def _nearest(metric: str, candidates: Sequence[str]) -> str | None:
    """The same metric in another definition or at another K: what was probably meant to be compared."""

    def bare(name: str) -> str:
        return MetricName.of(name.removeprefix(FOREIGN)).name.lower()

    own_parameters = MetricName.of(metric).parameters
    same = [other for other in candidates if bare(other) == bare(metric)]
    return min(same, key=lambda other: MetricName.of(other).parameters != own_parameters, default=None)


def _why_never(metric: str, near: str) -> tuple[str, str]:
    """Why two forms of a metric cannot be compared, and the cure."""
    if MetricName.of(metric).k != MetricName.of(near).k:
        return "a different K is a different question", "evaluate both at one K"
    if metric.startswith(FOREIGN) != near.startswith(FOREIGN):
        return (
            "one is another tool's name, whose definition is not known",
            "name its tool, such as convention='ir_measures' or --convention ir_measures, and evaluate both by that",
        )
    return (
        "another definition gives another number for the same ranking",
        "evaluate both by one definition; stored scores are enough, nothing is trained again",
    )


def _query_differences(first: SystemResult, other: SystemResult) -> list[Problem]:
    """Other queries, else the same ids, but other folds, labels, rows or weights behind them."""
    if set(first.query_ids.tolist()) != set(other.query_ids.tolist()):
        return [_other_queries(first, other)]
    if first.document_rules != other.document_rules:
        rules = [system.document_rules or "every listed document counts" for system in (other, first)]
        found = f"other documents count: {rules[0]}; in {first.name}: {rules[1]}"
        return [Problem(other.name, found, "one rule for both", "evaluate both with the same rule")]
    first_folds, other_folds = first.judgments_fingerprint.keys(), other.judgments_fingerprint.keys()
    shared_folds = sorted(first_folds & other_folds)
    if shared_folds and first_folds != other_folds:  # fold 1 of three is not fold 1 of five
        found = (
            f"its test queries are divided into {count_of(len(other_folds), 'fold')}, those of {first.name} into "
            f"{len(first_folds)}"
        )
        cure = "train both on the same division of the queries"
        return [Problem(other.name, found, "the same folds", cure)]
    # of two retrievers the candidates may differ, where what is relevant is known apart from them
    declared = first.truth_declared and other.truth_declared
    problem = _other_judgments(first, other, shared_folds, declared)
    if problem is not None:
        return [problem]
    return _other_label_facts(first, other, declared)


def _other_queries(first: SystemResult, other: SystemResult) -> Problem:
    first_ids, other_ids = set(first.query_ids.tolist()), set(other.query_ids.tolist())
    examples = sorted(other_ids - first_ids) or sorted(first_ids - other_ids)
    found = (
        f"{count_of(len(other_ids), 'query')} against {len(first_ids):,} of {first.name}: "
        f"{len(first_ids - other_ids):,} missing here, {len(other_ids - first_ids):,} only here (such as "
        f"{', '.join(map(repr, examples[:3]))})"
    )
    shared = first_ids & other_ids
    if shared:
        cure = f"common_queries=True, or --common-queries, compares the {len(shared):,} that both have"
    else:
        cure = "they share no query: are the ids of one data set? The same models on several data sets: `compare-sets`"
    return Problem(other.name, found, "the same queries", cure)


def _other_judgments(
    first: SystemResult, other: SystemResult, folds: Sequence[str], declared: bool
) -> Problem | None:
    """Return the problem of folds with other judgments, or other relevant documents where these are declared."""
    if declared:
        first_fingerprint, other_fingerprint = first.truth_fingerprint, other.truth_fingerprint
    else:
        first_fingerprint, other_fingerprint = first.judgments_fingerprint, other.judgments_fingerprint
    differing = [fold for fold in folds if first_fingerprint[fold] != other_fingerprint[fold]]
    if not differing:
        return None
    place = "" if differing == ["all"] else f" of {', '.join(differing)}"
    kind = "relevant documents" if declared else "rows"
    found = f"the test data{place} differ from those of {first.name}: same queries, other labels or {kind}"
    cure = "measure both on the same files, labelled alike: `label`, `grades`, `relevance` in data"
    if not declared:
        cure += f"; {_OTHER_CANDIDATES}"
    return Problem(other.name, found, "one set of judgments", cure)


def _other_label_facts(first: SystemResult, other: SystemResult, declared: bool) -> list[Problem]:
    """Return a problem for each fact about labels that differs for a query."""
    problems = []
    first, other = aligned([first, other])
    for fact in LABEL_FACTS:
        if fact == "rows" and declared:
            continue
        expected, facts = first.query_attributes.get(fact), other.query_attributes.get(fact)
        if expected is None or facts is None:
            continue
        unequal = np.flatnonzero(expected != facts)
        if unequal.size:
            query = unequal[0]
            found = (
                f"{fact} differs from {first.name} in {count_of(unequal.size, 'query')}, such as "
                f"{str(first.query_ids[query])!r}: {facts[query]} against {expected[query]}"
            )
            cure = _OTHER_CANDIDATES if fact == "rows" else ""
            problems.append(Problem(other.name, found, "one set of judgments", cure))
    return problems
