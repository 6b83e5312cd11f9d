"""Compare results: what is compared, and all models against a baseline in families of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.comparison import comparability as comparable
from ltr_harness.comparison.cautions import cautions as comparison_cautions
from ltr_harness.comparison.cautions import one_training
from ltr_harness.comparison.comparison import Comparison, family_text
from ltr_harness.comparison.contrasts import WEIGHT, Contrast, Sampling, SystemResult, contrast, summarise
from ltr_harness.comparison.over_time import in_periods, signs_cautions
from ltr_harness.comparison.stats.method import UNWEIGHTED, Method, Test
from ltr_harness.errors import Caution, NotComparableError, Problem, UsageError


def compare(
    *runs_or_scores: Any,
    metrics: Sequence[Any] | None = None,
    baseline: str | None = None,
    common_queries: bool = False,
    convention: str | None = None,
    qrels: Any = None,
    ledger: bool = True,
    test: Test = "permutation",
    confidence: float = 0.95,
    margin: float | None = None,
    draws: int = 10_000,
    seed: int = 0,
    unit: str | None = None,
    weights: str | None = None,
) -> Comparison:
    """Which of these rankers is better, by how much, how sure: over the same queries, at a fixed K.

    Every number is per query first. Seeds are averaged within a query, folds are pooled, each model is
    compared with the baseline on paired per-query differences.

    Args:
        *runs_or_scores: runs, run folders (or folders of them), evaluations, tables (pandas, Polars, Arrow, or their
            files) with ``query_id`` and one column per metric, other comparisons (saved ones by the path of their
            ``report.json``), or mappings from a model's name to one of these; a list of evaluations under one name is
            one model trained with several seeds.
        metrics: the metrics to compare; the first is the primary one, which carries the verdict. Without
            them: all, and the primary is the one that the runs declare, else the first.
        baseline: a model's name; without it that of the first saved comparison, else the first model.
        common_queries: compare the queries that all have, and note how many each one lost.
        convention: the tool whose names the columns of tables are: ``ir_measures``, ``pytrec_eval``, ``ranx`` or
            ``trec_eval``. Without it, ``ndcg@5`` is what it is here, and names that only other tools write
            (``nDCG@5``, ``AP``) are compared as ``foreign:nDCG@5``, whatever their definition.
        qrels: judgments in any form that `evaluate_runs` takes; the inputs are then rankings, likewise, and
            `metrics` says by what.
        ledger: count the comparison of stored runs in ``looks.jsonl`` beside their experiments, and note from the tenth
            on what the best of so many models gains by chance.
        test: over queries, which the intervals belong to; `Method` has the choices.
        confidence: of intervals; the test's level is one minus it.
        margin: the largest difference that does not matter, in the metric's unit: adds the verdict `equivalent`.
        draws: random sign patterns or resamples.
        seed: of them.
        unit: the query attribute, such as ``"user_id"``, whose queries belong together (a column of that name in
            tables).
        weights: the query attribute that says how much each query counts in means, tests and intervals; ``"none"``:
            each counts once. Without it those of the first saved comparison, else the query weights of the test data,
            where it has any.

    Raises:
        NotComparableError: K, definitions, queries or labels differ; the message lists all differences.
        UsageError: nothing to compare, or an option or name that does not exist.

    Example:
        >>> import pandas as pd
        >>> a = pd.DataFrame({"query_id": ["1", "2", "3", "4"], "mrr": [1/2, 1/3, 1/2, 1/3]})
        >>> b = pd.DataFrame({"query_id": ["1", "2", "3", "4"], "mrr": [1, 1/10, 1, 1/15]})
        >>> compare({"A": a, "B": b}, test="permutation").paired("B").p
        0.75
    """
    from ltr_harness.comparison.metric_names import resolve_metric
    from ltr_harness.experiments.compare.inputs import gather

    method = Method(test, confidence, margin, draws, seed, unit, weights)
    if qrels is not None:
        from ltr_harness.metrics.evaluate_runs import evaluate_runs

        if not metrics:
            raise UsageError("compare with qrels and without metrics; expected such as metrics=['ndcg@10']")
        one = len(runs_or_scores) == 1
        runs_or_scores = (evaluate_runs(qrels, runs_or_scores[0] if one else list(runs_or_scores), metrics),)
    if isinstance(metrics, str):
        metrics = [metrics]
    first = metrics[0] if metrics else None
    gathered = gather(runs_or_scores, convention, method.unit, first, method.weights)
    if method.weights is None:
        method = replace(method, weights=gathered.weights)
    systems = gathered.systems
    if not systems:
        raise UsageError("nothing to compare; expected at least one run or evaluation")
    if metrics is None and len(gathered.primaries) > 1:
        raise NotComparableError.at(
            "",
            f"the runs declare different primary metrics: {', '.join(gathered.primaries)}",
            "one metric, and one K, that decides",
            f"name it first: metrics={gathered.primaries[:1]!r}",
        )
    cautions = list(gathered.cautions)
    if common_queries:
        systems, lost = comparable.common_queries(systems)
        cautions += lost
    if metrics:
        names = list(dict.fromkeys(resolve_metric(metric, systems) for metric in metrics))
        primary = names[0]
    else:
        NotComparableError.refuse(comparable.differences(systems))
        names = list(systems[0].values)
        primary = gathered.primaries[0] if gathered.primaries else names[0]
    comparison = compare_systems(
        systems,
        names,
        primary=primary,
        baseline=baseline or gathered.baseline,
        method=method,
        cautions=cautions,
    )
    if not (ledger and gathered.runs):
        return comparison
    from ltr_harness.experiments.compare.ledger import counted

    return counted(comparison, gathered.runs)


def compare_systems(
    systems: Sequence[SystemResult],
    metrics: Sequence[str],
    *,
    primary: str | None = None,
    baseline: str | None = None,
    method: Method | None = None,
    cautions: Sequence[Caution] = (),
) -> Comparison:
    """The comparison of models by their per-query values: the primary metric is one family, all others are another."""
    method = method or Method()
    primary = primary or metrics[0]
    names = [system.name for system in systems]
    if primary not in metrics:
        raise UsageError(f"primary metric {primary} is not compared; {did_you_mean(primary, metrics)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    NotComparableError.refuse(
        Problem(name, "two results have this name", "one name for each", "rename one") for name in twice
    )
    baseline = names[0] if baseline is None else baseline
    if baseline not in names:
        raise UsageError(f"no model {baseline!r} to serve as the baseline; {did_you_mean(baseline, names)}")
    NotComparableError.refuse(comparable.differences(systems, metrics))
    comparable.require_finite(systems, metrics)
    if method.test == "bounded":
        comparable.require_bounds(systems, metrics)
    ordered = comparable.aligned(systems)
    weights = comparable.weights_of_queries(ordered, method.weights)
    ordered, unit = in_periods(ordered, method.unit, baseline, primary, weights)
    method = replace(method, unit=unit)
    reference = ordered[names.index(baseline)]
    told = [system for system in ordered if "n_relevant" in system.query_attributes]
    grouped = [part for part in ([primary], [metric for metric in metrics if metric != primary]) if part]
    directions = {metric: reference.higher_is_better[metric] for metric in metrics}
    undefined = {
        metric: np.any([np.isnan(one.per_query(metric)) for one in ordered], axis=0) for metric in metrics
    }
    others = [system for system in ordered if system is not reference]
    families = [[Contrast(one, reference, metric) for metric in part for one in others] for part in grouped]
    without = told[0].query_attributes["n_relevant"] == 0 if told else undefined[primary]
    units = None if method.unit is None else comparable.unit_codes(ordered, method.unit)
    sampling = Sampling(units, weights)
    if weights is None:
        method = replace(method, weights=UNWEIGHTED)
    elif method.weights is None:
        method = replace(method, weights=WEIGHT)
    comparison = Comparison(
        systems=tuple(ordered),
        metrics=tuple(metrics),
        primary=primary,
        baseline=baseline,
        summaries=summarise(ordered, metrics, method, sampling),
        pairs=contrast(families, directions, method, sampling),
        method=method,
        families=tuple(family_text(len(others), baseline, part, primary) for part in grouped if others),
        n_queries=len(reference.query_ids),
        n_without_relevant=int(np.sum(without)),
        n_undefined={metric: int(queries.sum()) for metric, queries in undefined.items()},
        units=units,
        weights=weights,
    )
    decisive = [pair for pair in comparison.pairs if pair.metric == primary]
    found = (*signs_cautions(comparison.fold_signs, decisive), *comparison_cautions(comparison))
    return replace(comparison, cautions=(*one_training(comparison), *cautions, *found))
