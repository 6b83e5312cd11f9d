"""What results mean beside each other: may they be compared, which is better, by how much, how sure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ltr_harness.comparison.against_baseline import compare_entrants as compare_entrants
from ltr_harness.comparison.comparison import Comparison as Comparison
from ltr_harness.comparison.result import Entrant as Entrant
from ltr_harness.comparison.result import Paired as Paired
from ltr_harness.comparison.result import Summary as Summary
from ltr_harness.stats.method import Method as Method
from ltr_harness.stats.method import method_of

__all__ = ["Comparison", "Entrant", "Method", "Paired", "Summary", "compare", "compare_entrants"]


def compare(
    *runs_or_scores: Any,
    metrics: Sequence[Any] | None = None,
    baseline: str | None = None,
    common_queries: bool = False,
    convention: str | None = None,
    qrels: Any = None,
    **options: Any,
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
        qrels: judgments in any form that `evaluate_runs` takes; what is compared are then rankings, likewise, and
            `metrics` says by what.
        **options: how it is computed, the fields of `Method`: ``test``, ``correction``, ``confidence``, ``margin``,
            ``draws``, ``seed``, and ``unit``: the query attribute, such as ``"user_id"``, whose
            queries belong together (a column of that name in tables).

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
    from ltr_harness.comparison.comparable import common_queries as shared
    from ltr_harness.comparison.inputs import gather, resolve_metric
    from ltr_harness.errors import NotComparableError, Problem, UsageError

    method = method_of(options)
    if qrels is not None:
        from ltr_harness.comparison.evaluated_runs import evaluate_runs

        if not metrics:
            raise UsageError("compare with qrels and without metrics; expected such as metrics=['ndcg@10']")
        one = len(runs_or_scores) == 1
        runs_or_scores = (evaluate_runs(qrels, runs_or_scores[0] if one else list(runs_or_scores), metrics),)
    gathered = gather(runs_or_scores, convention, method.unit)
    entrants = gathered.entrants
    if not entrants:
        raise UsageError("nothing to compare; expected at least one run or evaluation")
    if isinstance(metrics, str):
        metrics = [metrics]
    if metrics is None and len(gathered.primaries) > 1:
        raise NotComparableError(
            Problem(
                "",
                f"the runs declare different primary metrics: {', '.join(gathered.primaries)}",
                "one metric, and one K, that decides",
                f"name it first: metrics={gathered.primaries[:1]!r}",
            )
        )
    notes = list(gathered.notes)
    if common_queries:
        entrants, lost = shared(entrants)
        notes += lost
    if metrics:
        names = list(dict.fromkeys(resolve_metric(metric, entrants) for metric in metrics))
        primary = names[0]
    else:
        from ltr_harness.comparison.comparable import require_comparable

        require_comparable(entrants)
        names = list(entrants[0].values)
        primary = gathered.primaries[0] if gathered.primaries else names[0]
    return compare_entrants(
        entrants, names, primary=primary, baseline=baseline or gathered.baseline, method=method, notes=notes
    )
