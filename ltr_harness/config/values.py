"""What single values of a configuration may be: names, files, metrics, seeds, grades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from ltr_harness.metrics import Metric
from ltr_harness.rankers.objectives import MetricValue


def one_or_many(value: Any) -> Any:
    """A text for a list of one."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def at_most(number: int) -> AfterValidator:
    """Refuses longer lists before anything looks at what is in them."""

    def check(values: Any) -> Any:
        if len(values) > number:
            raise ValueError(f"at most {number:,}; found {len(values):,}")
        return values

    return AfterValidator(check)


def unique(values: tuple[Hashable, ...]) -> tuple[Any, ...]:
    """Refuses what is given more than once."""
    twice = sorted(str(value) for value, count in Counter(values).items() if count > 1)
    if twice:
        raise ValueError(f"each once; {', '.join(twice)} was given more than once")
    return values


def not_empty(values: Any) -> Any:
    """Refuses an empty list."""
    if not values:
        raise ValueError("at least one")
    return values


def checked_name(value: str) -> str:
    """A name that tables, folders and pages can carry.

    Raises:
        ValueError: it cannot; the text says what is expected.
    """
    if not value.strip() or value != value.strip() or not value.isprintable() or len(value) > 200:
        raise ValueError("1 to 200 printable characters that neither begin nor end with a space")
    return value


def _decides(metric: Metric) -> Metric:
    if metric.diagnostic:
        raise ValueError(
            f"a metric that can decide, such as ndcg@10: {metric.name} does not say which is better"
        )
    return metric


def _fixed_k(metric: Metric) -> Metric:
    if metric.k is None:
        example = metric.with_cutoff(10) if metric.takes_cutoff else "ndcg@10"
        raise ValueError(f"a metric at a fixed K, such as {example}")
    return metric


def only_valid(value: Any) -> Any:
    """Refuses to stop on anything but validation data."""
    if value != "valid":
        raise ValueError(
            "'valid': the number of rounds is chosen on validation data only; chosen on the data that judges "
            "the models (test) it would flatter them, on train it would never stop"
        )
    return value


Name = Annotated[str, AfterValidator(checked_name)]
_FILE = {"type": "string", "format": "file-path"}
Files = Annotated[
    tuple[str, ...],
    BeforeValidator(one_or_many),
    AfterValidator(not_empty),
    at_most(10_000),
    AfterValidator(unique),
    WithJsonSchema({"anyOf": [_FILE, {"type": "array", "items": _FILE}]}),
]
DecidingMetric = Annotated[MetricValue, AfterValidator(_decides)]
FixedKMetric = Annotated[DecidingMetric, AfterValidator(_fixed_k)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Grade = Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0, allow_inf_nan=False)]
