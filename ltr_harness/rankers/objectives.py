"""Names of objectives in other libraries and papers."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import MetricError, Problem
from ltr_harness.metrics import parse_metric

# Names, in small letters, for the same thing or for what stands in its place in another library.
_ALIKE = (
    {"lambda_mart", "lambda_rank", "lambdamart", "lambdarank", "ndcg", "rank:ndcg", "yetirank"},
    {"rank:xendcg", "rank_xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg", "xendcg_mart"},
    {"pairlogit", "pairwise", "rank:pairwise", "ranknet"},
    {"lambdamap", "map", "rank:map"},
    {"mcrank", "multi:softmax", "multi:softprob", "multiclass", "softmax"},
    {"l2", "mse", "pointwise", "queryrmse", "reg:squarederror", "regression", "rmse"},
)


def objective_problems(objective: str, known: Collection[str]) -> list[Problem]:
    """Unknown objective: the problem, with the one that was probably meant.

    Example:
        >>> print(*objective_problems("LambdaMART", ["rank:map", "rank:ndcg"]))
        objective: unknown objective 'LambdaMART'; did you mean 'rank:ndcg'? (known: rank:map, rank:ndcg)
    """
    if objective in known:
        return []
    alike: set[str] = next((names for names in _ALIKE if objective.lower() in names), set())
    meant = next((one for one in known if one.lower() in alike), "")
    if not meant:
        with suppress(MetricError):
            metric = parse_metric(objective)
            expected = f"{{metric: {metric}}}, or one of {', '.join(sorted(known))}"
            return [Problem("objective", f"{objective!r} is a metric", expected)]
    cure = did_you_mean(objective, known, dict.fromkeys(alike, meant))
    return [Problem("objective", f"unknown objective {objective!r}", cure=cure)]
