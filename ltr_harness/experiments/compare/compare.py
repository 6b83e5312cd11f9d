"""Compare whatever a user has: runs, folders, evaluations, tables, other comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ltr_harness.comparison.comparability import common_queries as keep_common_queries
from ltr_harness.comparison.comparing import compare_systems
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.stats.method import Method, Test
from ltr_harness.errors import NotComparableError, UsageError

if TYPE_CHECKING:
    from ltr_harness.experiments.compare.inputs import Inputs


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
    """Compare rankers over the same queries at a fixed K: which is better, by how much, how sure.

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
    from ltr_harness.experiments.compare.inputs import read_inputs
    from ltr_harness.experiments.compare.ledger import add_to_ledger

    method = Method(test, confidence, margin, draws, seed, unit, weights)
    if qrels is not None:
        runs_or_scores = (_evaluate_rankings(qrels, runs_or_scores, metrics),)
    requested = [metrics] if isinstance(metrics, str) else list(metrics or ())
    first = requested[0] if requested else None
    inputs = read_inputs(runs_or_scores, convention, method.unit, first, method.weights)
    systems, cautions = inputs.systems, list(inputs.cautions)
    _refuse_inputs(inputs, is_metric_named=metrics is not None)
    if method.weights is None:
        method = replace(method, weights=inputs.weights)
    if common_queries:
        systems, lost_cautions = keep_common_queries(systems)
        cautions += lost_cautions
    names = list(dict.fromkeys(resolve_metric(metric, systems) for metric in requested))
    primaries = names or inputs.primaries
    comparison = compare_systems(
        systems,
        names or None,
        primary=primaries[0] if primaries else None,
        baseline=baseline or inputs.baseline,
        method=method,
        cautions=cautions,
    )
    if not (ledger and inputs.runs):
        return comparison
    return add_to_ledger(comparison, inputs.runs)


def _evaluate_rankings(qrels: Any, rankings: Sequence[Any], metrics: Sequence[Any] | None) -> Any:
    """Evaluate rankings by judgments."""
    from ltr_harness.metrics.evaluate_runs import evaluate_runs

    if not metrics:
        raise UsageError("compare with qrels and without metrics; expected such as metrics=['ndcg@10']")
    runs = rankings[0] if len(rankings) == 1 else list(rankings)
    return evaluate_runs(qrels, runs, metrics)


def _refuse_inputs(inputs: Inputs, *, is_metric_named: bool) -> None:
    """Raise without systems, and where runs declare several primary metrics and nobody named the one that decides."""
    if not inputs.systems:
        raise UsageError("nothing to compare; expected at least one run or evaluation")
    if len(inputs.primaries) > 1 and not is_metric_named:
        raise NotComparableError.at(
            "",
            f"the runs have different primary metrics: {', '.join(inputs.primaries)}",
            "one metric, and one K, that decides",
            f"list it first: metrics={inputs.primaries[:1]!r}",
        )
