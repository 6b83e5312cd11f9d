"""The metrics: one file each, one line in `table.METRICS` each.

A class is imported when its name is first asked for; the imports under TYPE_CHECKING only tell editors so.
"""

from typing import TYPE_CHECKING, Any

from ltr_harness.metrics.core.binding import Binding, TieAudit, bind, tie_audit
from ltr_harness.metrics.core.custom import function_metric
from ltr_harness.metrics.core.grammar import parse_metric
from ltr_harness.metrics.core.metric import Metric
from ltr_harness.metrics.table import ALIASES, METRICS, catalog

if TYPE_CHECKING:
    from ltr_harness.metrics.alpha_ndcg import AlphaNDCG as AlphaNDCG
    from ltr_harness.metrics.bpref import BPref as BPref
    from ltr_harness.metrics.cg import CG as CG
    from ltr_harness.metrics.dcg import DCG as DCG
    from ltr_harness.metrics.err import ERR as ERR
    from ltr_harness.metrics.err_ia import ERRIA as ERRIA
    from ltr_harness.metrics.f1 import F1 as F1
    from ltr_harness.metrics.gauc import GAUC as GAUC
    from ltr_harness.metrics.judged import Judged as Judged
    from ltr_harness.metrics.kendall_tau_distance import KendallTauDistance as KendallTauDistance
    from ltr_harness.metrics.map import MAP as MAP
    from ltr_harness.metrics.mrr import MRR as MRR
    from ltr_harness.metrics.n_relevant import NRelevant as NRelevant
    from ltr_harness.metrics.ndcg import NDCG as NDCG
    from ltr_harness.metrics.nerr import NERR as NERR
    from ltr_harness.metrics.pfound import PFound as PFound
    from ltr_harness.metrics.precision import Precision as Precision
    from ltr_harness.metrics.q import Q as Q
    from ltr_harness.metrics.rbp import RBP as RBP
    from ltr_harness.metrics.rbp_residual import RBPResidual as RBPResidual
    from ltr_harness.metrics.recall import Recall as Recall
    from ltr_harness.metrics.rprec import RPrec as RPrec
    from ltr_harness.metrics.spearman import Spearman as Spearman
    from ltr_harness.metrics.success import Success as Success
    from ltr_harness.metrics.tau_ap import TauAP as TauAP

_CLASSES = {target.rpartition(":")[2]: name for name, target in METRICS.items()}

__all__ = [
    "ALIASES",
    "METRICS",
    "Binding",
    "Metric",
    "TieAudit",
    "bind",
    "catalog",
    "function_metric",
    "parse_metric",
    "tie_audit",
    *sorted(_CLASSES),
]


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module 'ltr_harness.metrics' has no attribute {name!r}")
    return catalog.load(_CLASSES[name])


def __dir__() -> list[str]:
    return sorted(__all__)
