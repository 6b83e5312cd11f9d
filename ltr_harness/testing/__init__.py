"""For the tests of others: conformance suites to inherit, and `assert_not_worse` for a ranker's quality."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.gates import parse_gate
from ltr_harness.comparison.stats.method import Test
from ltr_harness.errors import UsageError
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.compare.inputs import read_inputs
from ltr_harness.metrics import Metric
from ltr_harness.metrics.evaluate_runs import evaluate_runs
from ltr_harness.testing.metric_suite import MetricSuite
from ltr_harness.testing.ranker_suite import RankerSuite

__all__ = ["MetricSuite", "RankerSuite", "assert_not_worse"]


def _only_system(name: str, value: Any) -> SystemResult:
    """Return the one model of an input, under the name of its side."""
    systems = read_inputs([value]).systems
    if len(systems) != 1:
        models = ", ".join(system.name for system in systems)
        raise UsageError(f"{name} holds {count_of(len(systems), 'model')} ({models}); expected one")
    return dataclasses.replace(systems[0], name=name)


def assert_not_worse(
    candidate: Any,
    baseline: Any,
    metric: str | Metric = "ndcg@10",
    *,
    by: float | None = None,
    qrels: Any = None,
    common_queries: bool = False,
    test: Test = "permutation",
    confidence: float = 0.95,
    margin: float | None = None,
    draws: int = 10_000,
    seed: int = 0,
    unit: str | None = None,
    weights: str | None = None,
) -> Comparison:
    """Fail if the candidate is shown to be worse than the baseline or, with `by`, if it is not shown to be no worse.

    Args:
        candidate: an evaluation, a run folder, a table of per-query values or whatever else `compare` takes, of one
            model; with `qrels` a ranking in any form that `evaluate_runs` takes.
        baseline: likewise.
        metric: what decides.
        by: how much worse is accepted, in the metric's unit: then the burden of proof is on the candidate
            (non-inferiority). Without it, only what is significantly worse fails.
        qrels: judgments, where the two are rankings.
        common_queries: compare the queries that both have.
        test: as in `compare`; ``"bounded"`` holds in every world.
        confidence: of intervals; the test's level is one minus it.
        margin: the largest difference that does not matter, which the result then has as `equivalent`.
        draws: random sign patterns or resamples.
        seed: of them.
        unit: the query attribute, such as ``"user_id"``, whose queries belong together.
        weights: as in `compare`: the query attribute that says how much each query counts, or ``"none"``.

    Returns:
        The comparison, where it passes. With `by`, a kind of query so rare that these may hold none, and that could
        make it fail, is a `UserWarning`; pytest shows it and passes.

    Raises:
        AssertionError: it is worse, or its mean is undefined; the message has both means.
        UsageError: the two cannot be compared.

    Example:
        >>> qrels = {str(q): {"right": 1, "wrong": 0} for q in range(8)}
        >>> good = {str(q): {"right": 2.0, "wrong": 1.0} for q in range(8)}
        >>> assert_not_worse(good, good, "mrr", qrels=qrels).paired("candidate").difference
        0.0
    """
    if by is not None and not by >= 0:
        raise UsageError(f"by={by!r}; expected a number of at least 0, in the unit of the metric")
    sides: dict[str, Any] = {"candidate": candidate, "baseline": baseline}
    if qrels is not None:
        evaluated = evaluate_runs(qrels, sides, [metric])
        sides = {name: evaluated[name] for name in sides}
    result = compare(
        *(_only_system(name, value) for name, value in sides.items()),
        metrics=[metric],
        baseline="baseline",
        common_queries=common_queries,
        test=test,
        confidence=confidence,
        margin=margin,
        draws=draws,
        seed=seed,
        unit=unit,
        weights=weights,
    )
    worse, sign = ("<", "-") if result.higher_is_better[result.primary] else (">", "+")
    condition = "baseline and significant" if by is None else f"baseline {sign} {by!r}"
    gate = parse_gate(f"{result.primary} of candidate {worse} {condition}")
    failures = gate.failures(result)
    if failures:
        raise AssertionError("\n".join([*failures, *map(str, result.few_judged)]))
    for caution in gate.cautions(result):
        warnings.warn(str(caution), stacklevel=2)
    return result
