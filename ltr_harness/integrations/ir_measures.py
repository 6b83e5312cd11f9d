"""Our metrics as measures of ir_measures, and so in PyTerrier's `pt.Experiment`: exact ties, our definitions."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ltr_harness.data.readers.judgment_formats import qrels_of, run_of
from ltr_harness.data.readers.trec import join
from ltr_harness.errors import MetricError, optional_module
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.binding import BoundOnce
from ltr_harness.metrics.evaluation import evaluate_bound

__all__ = ["measure"]


def measure(metric: str | Metric) -> Any:
    """A metric as a measure of ir_measures, beside its own in one call, and in PyTerrier's ``eval_metrics``.

    It is made by ir_measures' way for measures from outside, and is called ``LTR(ndcg@10)``, so its numbers never
    stand under the name of another definition. As everywhere in ir_measures, all queries of the judgments count, those
    that the ranking lacks as empty rankings. Queries without relevant documents are NaN and left out of the mean,
    where the metric does not say ``empty=zero``.

    Args:
        metric: a name such as ``"ndcg@10"`` or ``"err(max_grade=4)@10"``, or a metric object.

    Raises:
        MetricError: an unknown metric, or one that takes its scale from the judgments.
        DataError: when it is computed, ids, grades or scores that are none; a ranking of other queries.
        MissingExtraError: ir_measures is not installed.

    Example, beside ir_measures' own ``RR``::

        ir_measures.calc_aggregate([measure("mrr"), RR], qrels, run)  # {LTR(mrr): 0.75, RR: 0.5}
    """
    library = optional_module("ir_measures", "measures of ir_measures need ir_measures", "oracles")
    parsed = parse_metric(metric)
    if (scaled := parsed.with_max_grade(4.0)) != parsed:
        found = (
            f"{parsed} would take its scale from the judgments, of which an experiment may hand over parts"
        )
        raise MetricError(f"{found}; expected max_grade, as in {scaled}")

    def per_query(qrels: Any, run: Any) -> Iterable[tuple[str, float]]:
        judged = qrels_of(qrels)
        if len(run):
            joined = join(judged, run_of(run), complete=True)
            judgments, scores, listed = joined.judgments, joined.scores, joined.retrieved
        else:  # as PyTerrier has it of a batch without results
            judgments = judged.judgments
            scores, listed = np.zeros(judgments.groups.n_rows), np.zeros(judgments.groups.n_rows, dtype=bool)
        found = evaluate_bound(BoundOnce([parsed], judgments), scores, retrieved=listed)
        return zip(found.query_ids.tolist(), found[parsed].per_query.tolist(), strict=True)

    measure_object = library.define(per_query, name=f"LTR({parsed})", support_cutoff=False)

    class MeanOfDefined(library.measures.MeanAgg):  # type: ignore[misc, name-defined]
        def add(self, value: float) -> None:
            if not np.isnan(value):
                super().add(value)

    measure_object.aggregator = MeanOfDefined
    return measure_object
