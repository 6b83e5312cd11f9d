"""The metrics: one file each, one line in `METRICS` each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ltr_harness.catalog import Catalog
from ltr_harness.metrics.binding import Binding as Binding
from ltr_harness.metrics.binding import bind as bind
from ltr_harness.metrics.grammar import parse_metric as parse_metric
from ltr_harness.metrics.metric import Metric as Metric

if TYPE_CHECKING:
    from ltr_harness.metrics.dcg import DCG as DCG
    from ltr_harness.metrics.err import ERR as ERR
    from ltr_harness.metrics.map import MAP as MAP
    from ltr_harness.metrics.mrr import MRR as MRR
    from ltr_harness.metrics.ndcg import NDCG as NDCG

METRICS = {
    "dcg": "ltr_harness.metrics.dcg:DCG",
    "err": "ltr_harness.metrics.err:ERR",
    "map": "ltr_harness.metrics.map:MAP",
    "mrr": "ltr_harness.metrics.mrr:MRR",
    "ndcg": "ltr_harness.metrics.ndcg:NDCG",
}

# Other tools' names for the same thing; they parse to the canonical one.
ALIASES = {
    "ap": "map",
    "rr": "mrr",
    "recip_rank": "mrr",
}

catalog = Catalog("metric", METRICS, "ltr_harness.metrics")

_CLASSES = {target.rpartition(":")[2]: name for name, target in METRICS.items()}

__all__ = ["ALIASES", "METRICS", "Binding", "Metric", "bind", "catalog", "parse_metric", *sorted(_CLASSES)]


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module 'ltr_harness.metrics' has no attribute {name!r}")
    return catalog.load(_CLASSES[name])


def __dir__() -> list[str]:
    return sorted(__all__)
