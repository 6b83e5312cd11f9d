"""The outcome in words: one sentence that says which model, by how much, how sure, over how many queries."""

from __future__ import annotations

from collections.abc import Sequence

from ltr_harness.comparison.compared import Compared
from ltr_harness.comparison.result import Paired
from ltr_harness.wording import count_of, plural


def p_text(p: float) -> str:
    """A p-value as a reader should see it: never 0.

    Example:
        >>> p_text(0.04321), p_text(0.5), p_text(0.00009), p_text(float("nan"))
        ('0.0432', '0.5000', '<0.0001', 'n/a')
    """
    if p != p:
        return "n/a"
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def p_equals(p: float) -> str:
    """A p-value with its sign of equality.

    Example:
        >>> p_equals(0.04321), p_equals(0.00009)
        ('p = 0.0432', 'p < 0.0001')
    """
    return f"p = {p_text(p)}".replace("= <", "< ")


def family_text(n_models: int, baseline: str, metrics: Sequence[str], primary: str) -> str:
    """A family of hypotheses by name.

    Example:
        >>> family_text(3, "lgbm", ["mrr@10", "err@10"], "ndcg@10")
        '6 comparisons: 3 models against lgbm at 2 other metrics'
    """
    total = n_models * len(metrics)
    if list(metrics) == [primary]:
        where = primary
    else:
        where = f"other metric {metrics[0]}" if len(metrics) == 1 else count_of(len(metrics), "other metric")
    return f"{count_of(total, 'comparison')}: {count_of(n_models, 'model')} against {baseline} at {where}"


def verdict_sentence(comparison: Compared) -> str:
    """See `Comparison.verdict`."""
    metric, baseline = comparison.primary, comparison.baseline
    leader = comparison.ranking[0]
    top = comparison.summary(leader)
    if not any(comparison.summary(model).n for model in comparison.models):
        return f"Nothing to compare: {metric} is undefined for all {count_of(comparison.n_queries, 'query')}."
    if len(comparison.entrants) == 1:
        interval = f"{comparison.method.percent} % interval {top.ci_low:.4f} to {top.ci_high:.4f}"
        return f"{leader}: {metric} {top.mean:.4f} ({interval}){_over(comparison, top.n)} There is no other model."
    if not any(comparison.paired(model).n for model in comparison.models if model != baseline):
        return f"Nothing to compare: no query has a value of {metric} for both {baseline} and another model."
    best = "highest" if comparison.higher_is_better[metric] else "lowest"
    if leader == baseline:
        rival = comparison.ranking[1]
        pair = comparison.paired(rival)
        against = {
            "worse": "is worse",
            "equivalent": "is equivalent",
        }.get(pair.verdict, "is not distinguishable from it")
        return (
            f"The baseline {baseline} has the {best} mean {metric}, {pair.other_mean:.4f}; the closest, {rival}, "
            f"{against}: {_size(comparison, pair)}{_over(comparison, pair.n)}{_of_models(comparison, pair)}"
        )
    pair = comparison.paired(leader)
    means = f"{pair.model_mean:.4f} against {pair.other_mean:.4f}"  # of the same queries as the difference
    also = [
        model
        for model in comparison.ranking[1:]
        if model != baseline and comparison.paired(model).verdict == "better"
    ]
    if pair.verdict == "better":
        head = f"{leader} is better than {baseline} at {metric}, {means}"
        tail = f" {_listed(also)} {plural('is', len(also))} better as well." if also else ""
    else:
        word = (
            f"equivalent to {baseline}"
            if pair.verdict == "equivalent"
            else f"not distinguishable from {baseline}"
        )
        head = f"{leader} has the {best} mean {metric}, {means}, but is {word}"
        if pair.verdict == "not distinguishable":
            head += f" (n = {pair.n:,})"
        tail = f" Better than {baseline}: {_listed(also)}." if also else ""
    return f"{head}: {_size(comparison, pair)}{_over(comparison, pair.n)}{_of_models(comparison, pair)}{tail}"


def _size(comparison: Compared, pair: Paired) -> str:
    """The difference, its interval and its p-value."""
    method = comparison.method
    family = len(comparison.entrants) - 1
    kind = (
        "interval" if family < 2 else "simultaneous interval" if method.simultaneous else "interval by itself"
    )
    text = f"{pair.difference:+.4f} ({method.percent} % {kind} {pair.ci_low:+.4f} to {pair.ci_high:+.4f}"
    over = f" over {method.unit or 'queries'} and seeds, "
    text += over if pair.over_seeds else f", {method.test_text} "
    text += p_equals(pair.p_corrected)
    if family > 1:
        text += f" jointly over {family} comparisons" if method.simultaneous else " uncorrected"
    return text + ")"


def _of_models(comparison: Compared, pair: Paired) -> str:
    """What one training of a method that depends on its seed says nothing about."""
    if pair.over_seeds or not any(comparison.entrant(name).seeded for name in (pair.model, pair.other)):
        return ""
    return " Trained with one seed: this is about these two trained models, not about the methods."


def _over(comparison: Compared, n: int) -> str:
    """Over how many queries, and why not over all."""
    if n == comparison.n_queries:
        return f", over {count_of(n, 'query')}."
    left_out = comparison.n_queries - n
    if comparison.knows_relevant and left_out == comparison.n_without_relevant:
        why = f"{count_of(left_out, 'query')} {plural('has', left_out)} no relevant document"
    else:
        why = f"{comparison.primary} is undefined for {count_of(left_out, 'query')}"
    return f", over {n:,} of {count_of(comparison.n_queries, 'query')}. {why}."


def _listed(models: Sequence[str]) -> str:
    """Names, with no more than three of them spelled out."""
    if len(models) > 3:
        return f"{', '.join(models[:3])} and {len(models) - 3} more"
    return ", ".join(models[:-1]) + (" and " if len(models) > 1 else "") + models[-1]
