"""Scores and judgments in, metrics out: per query, as means, with counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.display import Displayed
from ltr_harness._util.text import count_of, plural
from ltr_harness.data.alignment import refuse_other_queries, refuse_unaligned
from ltr_harness.data.arrays import KeepsArrays, as_column, keep_array, sealed
from ltr_harness.data.judgments import Judgments, NarrowJudgments, Subtopics
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import Caution, DataError, MetricError
from ltr_harness.metrics import Binding, Metric, parse_metric
from ltr_harness.metrics.core.binding import means_of
from ltr_harness.metrics.core.grammar import as_list, with_tool
from ltr_harness.metrics.core.headroom import Headroom, MeanHeadroom, headroom
from ltr_harness.metrics.core.judged_share import (
    FEW_JUDGED,
    few_judged,
    judged_metrics,
    judged_shares,
    mean_share,
)
from ltr_harness.metrics.core.judged_share import in_words as judged_in_words

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class MetricValues(Displayed, KeepsArrays):
    """One metric's values; arrays are read-only.

    Attributes:
        metric: the metric, with everything it took from the data fixed.
        per_query: float64 (n_queries,), NaN where undefined.
        mean: mean over the defined queries, weighted where queries have weights; NaN if there is none.
        n_queries: all queries.
        n_undefined: those left out of the mean because they have no relevant document.
        judged: mean share of judged documents among the first K; None where nobody said which are judged.
    """

    metric: Metric
    per_query: NDArray[np.float64]
    mean: float
    n_queries: int
    n_undefined: int
    judged: float | None = None

    def __float__(self) -> float:
        return self.mean

    def __repr__(self) -> str:
        defined = self.n_queries - self.n_undefined
        text = f"{self.metric} {self.mean:z.4f} over {defined:,} of {count_of(self.n_queries, 'query')}"
        if self.n_undefined:
            text += f"; {self.n_undefined:,} {plural('has', self.n_undefined)} no relevant document"
        if self.judged is not None and self.judged < 1:
            text += f"; {judged_in_words(self.metric.k, {'': self.judged})}"
        return text


class Evaluation(Displayed):
    """The result of `evaluate`: every metric's `MetricValues` by its name, in the given order."""

    def __init__(
        self,
        binding: Binding,
        per_query: NDArray[np.float64],
        asked: Sequence[Metric],
        judgments_fingerprint: str | None = None,
        retrieved: ArrayLike | None = None,
        judged: Mapping[str, NDArray[np.float64]] | None = None,
        document_rules: str = "",
    ) -> None:
        self.judgments = binding.judgments
        self.judged_shares = dict(judged or {})
        self.document_rules = document_rules  # which documents counted, in words; "" for all that are listed
        self._judgments_fingerprint = judgments_fingerprint
        self._retrieved = None if retrieved is None else keep_array(np.asarray(retrieved))
        self._metrics, self._names, self._asked = binding.metrics, binding.names, asked
        self._per_query = sealed(per_query)

    @cached_property
    def _values(self) -> dict[str, MetricValues]:
        """Each metric's values, by its canonical name."""
        weights = self.judgments.query_weights
        mean_shares = {name: mean_share(shares, weights) for name, shares in self.judged_shares.items()}
        means = means_of(self._per_query, weights)
        return {
            name: MetricValues(
                metric,
                values,
                float(mean),
                values.size,
                int(np.count_nonzero(np.isnan(values))),
                mean_shares.get(name),
            )
            for name, metric, values, mean in zip(
                self._names, self._metrics, self._per_query, means, strict=True
            )
        }

    @cached_property
    def _also(self) -> dict[str, str]:
        """The canonical name of each metric asked for: err@10 became err(max_grade=4)@10, and answers for it."""
        return {str(metric): name for metric, name in zip(self._asked, self._names, strict=True)}

    def __getitem__(self, metric: str | Metric) -> MetricValues:
        name = str(metric)
        if name not in self._values and name not in self._also:
            name = str(parse_metric(metric))
        name = self._also.get(name, name)
        if name not in self._values:
            raise MetricError(f"{metric} was not evaluated; {did_you_mean(str(metric), self._values)}")
        return self._values[name]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Canonical names, in the order asked for."""
        return tuple(self._values)

    @cached_property
    def means(self) -> Mapping[str, float]:
        """Metric name to mean; the names asked for and the canonical ones both answer."""
        return _Means(self)

    @property
    def directions(self) -> dict[str, bool]:
        """Canonical name to whether higher is better."""
        return {name: values.metric.higher_is_better for name, values in self._values.items()}

    @property
    def query_ids(self) -> NDArray[Any]:
        """(n_queries,), in the order of every `per_query`."""
        return self.judgments.groups.ids

    @cached_property
    def judgments_fingerprint(self) -> str:
        """Digest of labels, groups and ids: equal for all evaluations of the same queries.

        Of runs beside qrels that of the qrels, because each run adds documents that nobody judged.
        """
        from ltr_harness.data.dataset import fingerprint_judgments

        return self._judgments_fingerprint or fingerprint_judgments(self.judgments)

    @property
    def truth_fingerprint(self) -> str:
        """Digest of the relevant documents, candidates or not; "" where nobody said which were candidates."""
        from ltr_harness.data.dataset import fingerprint_truth

        return fingerprint_truth(self._split(self.judgments))

    def headroom(self, metric: str | Metric | None = None) -> Headroom | None:
        """Return the values of a random order of the candidates and of the best one, query by query.

        Args:
            metric: one that was evaluated; the first if none is named.

        Returns:
            None where no order is the best by label, such as for `Spearman`, for diagnostics and metrics from outside.

        Example:
            >>> found = evaluate([1, 0, 1], [3, 2, 1], ["mrr"], group_sizes=[2, 1]).headroom()
            >>> found.random.tolist(), found.ceiling.tolist()  # (1 + 1/2) / 2, and a list of one document
            ([0.75, 1.0], [1.0, 1.0])
        """
        return headroom(self[metric or self.metrics[0]].metric, self._candidates)

    def mean_headroom(self, metric: str | Metric | None = None) -> MeanHeadroom | None:
        """The means of a random and of the best order of the candidates, weighted where queries have weights.

        Args:
            metric: one that was evaluated; the first if none is named.

        Example:
            >>> print(evaluate([1, 0, 1], [3, 2, 1], ["mrr"], group_sizes=[2, 1]).mean_headroom())
            random order 0.8750, ceiling 1.0000
        """
        values = self[metric or self.metrics[0]]
        query_headroom = self.headroom(values.metric)
        return (
            None
            if query_headroom is None
            else query_headroom.means(values.per_query, self.judgments.query_weights)
        )

    @cached_property
    def _candidates(self) -> Judgments:
        """The judgments, without ids that would have to be made: for a million rows that costs as much as metrics."""
        judgments = self.judgments
        if self._retrieved is None:
            return judgments
        kind = Judgments if judgments.grades is None else NarrowJudgments
        return self._split(
            kind(
                judgments.compact_labels,
                judgments.groups,
                judgments.query_weights,
                judged=judgments.judged,
                missed=judgments.missed,
            )
        )

    def _split(self, judgments: Judgments) -> Judgments:
        """Documents that the ranking lists, and those that it missed."""
        listed = self._retrieved
        return judgments if listed is None or not listed.any() else judgments.with_missed(listed)

    @cached_property
    def cautions(self) -> tuple[Caution, ...]:
        """The cautions: a gain by which little but the top grade counts, labels below thresholds, few judged."""
        from ltr_harness.metrics.core.cautions import below_threshold, steep_gain

        metrics = [metric_values.metric for metric_values in self._values.values()]
        all_cautions = [*steep_gain(metrics, self.judgments), *below_threshold(metrics, self.judgments)]
        for name, values in self._values.items():
            if values.judged is not None and not any(caution.kind == FEW_JUDGED for caution in all_cautions):
                all_cautions += few_judged(name, values.metric.k, {"": values.judged})
        return tuple(all_cautions)

    def frame(self) -> pd.DataFrame:
        """One row per query, one column per metric, indexed by query id."""
        import pandas as pd

        index = pd.Index(self.query_ids, name="query_id")
        return pd.DataFrame({name: values.per_query for name, values in self._values.items()}, index=index)

    def __repr__(self) -> str:
        lines = [str(values) for values in self._values.values()]
        lines += [f"{caution.severity}: {caution}" for caution in self.cautions]
        return "\n".join(lines)


class _Means(dict[str, float]):
    """Canonical name to mean; it also answers to the names asked for, however they are spelt."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__((name, evaluation[name].mean) for name in evaluation.metrics)
        self._evaluation = evaluation

    def __missing__(self, name: str) -> float:
        return self._evaluation[name].mean


def evaluate(
    labels: ArrayLike,
    scores: ArrayLike,
    metrics: Sequence[str | Metric] = (),
    *,
    query_ids: ArrayLike | None = None,
    group_sizes: ArrayLike | None = None,
    query_weights: ArrayLike | None = None,
    document_ids: ArrayLike | None = None,
    judged: ArrayLike | None = None,
    retrieved: ArrayLike | None = None,
    subtopics: ArrayLike | None = None,
) -> Evaluation:
    """Evaluate a ranking by `scores` with any number of metrics, in one pass.

    Args:
        labels: (n_rows,) grades, or what `Spearman`, `KendallTauDistance`, `TauAP`, `GAUC` and `MeanLabel` also take:
            numbers below 0, such as returns.
        scores: (n_rows,) higher ranks first; infinities are fine, NaN is not.
        metrics: names such as ``"ndcg@10"`` or metric objects; at least one.
        query_ids: (n_rows,) one per row, in any order; queries keep the order they first appear in.
        group_sizes: (n_queries,) rows per query, instead of `query_ids`, for rows sorted by query.
        query_weights: (n_queries,) weight of each query in every mean, in query order.
        document_ids: (n_rows,) needed by metrics with ``ties=id``.
        judged: bool (n_rows,), judged rows; None where all are. `BPref` and `Judged` need it.
        retrieved: bool (n_rows,), rows the ranking lists; the others have no rank, whatever their score, and
            count among the relevant documents. None where all are.
        subtopics: (n_rows, n_subtopics) grades of each row for each subtopic of its query, 0 where it is worth nothing
            for it. `AlphaNDCG` and `ERRIA` need them, and use these grades instead of the labels.

    Returns:
        Means, per-query values and counts.

    Raises:
        DataError: the arrays do not fit together; the message names the query. Series of pandas whose indexes have
            other labels, or the same in another order, do not; a default index is taken by place.
        MetricError: a metric is unknown or the labels are outside its domain.

    Example:
        >>> ev = evaluate([3, 2, 0, 1, 0], [0.5, 0.9, 0.1, 0.2, 0.3], query_ids=list("aaabb"), metrics=["ndcg@3"])
        >>> round(ev.means["ndcg@3"], 4)  # a: (3 + 7/log2 3) / (7 + 3/log2 3), b: 1/log2 3
        0.7325
        >>> ev["ndcg@3"].per_query.round(4).tolist()
        [0.834, 0.6309]
    """
    _refuse_table("labels", labels)
    _refuse_table("scores", scores)
    typed = as_list(metrics)
    parsed = [parse_metric(metric) for metric in typed]
    if document_ids is None:
        _refuse_ties_by_id(typed, parsed)
    if (query_ids is None) == (group_sizes is None):
        raise DataError("evaluate needs either query_ids (one per row) or group_sizes (one per query)")
    columns = {
        "labels": labels,
        "scores": scores,
        "query_ids": query_ids,
        "document_ids": document_ids,
        "judged": judged,
        "retrieved": retrieved,
        "subtopics": subtopics,
    }
    refuse_unaligned(columns)
    order: NDArray[np.int64] | None = None
    if query_ids is not None:
        groups, order = QueryGroups.from_ids(query_ids)
        refuse_other_queries(query_weights, groups.ids)
    else:
        assert group_sizes is not None
        if query_weights is not None:
            refuse_unaligned({"group_sizes": group_sizes, "query_weights": query_weights})
        groups = QueryGroups.from_sizes(group_sizes)
    if order is not None:
        labels, scores = _by_query(labels, "labels", order), _by_query(scores, "scores", order)
        document_ids = _by_query(document_ids, "document_ids", order)
        judged, retrieved = _by_query(judged, "judged", order), _by_query(retrieved, "retrieved", order)
    pairs = None if subtopics is None else Subtopics.of_matrix(subtopics, groups.n_rows)
    if pairs is not None and order is not None:
        pairs = pairs.take(order)
    judgments = Judgments.checked(
        labels,
        groups,
        query_weights=query_weights,
        document_ids=document_ids,
        judged=judged,
        subtopics=pairs,
    )
    return evaluate_bound(Binding(parsed, judgments), scores, parsed, retrieved)


def _refuse_table(name: str, column: Any) -> None:
    """Refuse judgments or rankings in place of a column."""
    if isinstance(column, np.ndarray | list):  # as most are
        return
    if isinstance(column, Mapping | str | PathLike) or hasattr(type(column), "columns"):
        raise DataError(
            f"{name} is a {type(column).__name__}; expected one number per row; judgments and rankings by query and "
            "document: evaluate_runs(qrels, run, metrics=[…])"
        )


def _refuse_ties_by_id(typed: Sequence[str | Metric], parsed: Sequence[Metric]) -> None:
    """Refuse metrics that order ties by the ids of documents, which were not given."""
    for text, metric in zip(typed, parsed, strict=True):
        if metric.ties == "id":
            found = f"{with_tool(str(text))}: ties=id orders tied documents by document id"
            raise MetricError(f"{found}; expected document_ids, one per row, or ties=stable")


def _by_query(column: Any, name: str, order: NDArray[np.int64]) -> Any:
    """Return the column's values (n_rows,) query by query."""
    if column is None:
        return None
    values = as_column(column, name)
    if values.size != order.size:
        raise DataError(f"{values.size} {name} for {order.size} query_ids; expected one of each per row")
    return values[order]


def evaluate_bound(
    binding: Binding,
    scores: ArrayLike,
    requested: Sequence[Metric] | None = None,
    retrieved: ArrayLike | None = None,
    judgments_fingerprint: str | None = None,
    document_rules: str = "",
) -> Evaluation:
    """`evaluate` for bound metrics; `asked` has them as the caller named them, in the binding's order."""
    metrics, judgments = binding.metrics, binding.judgments
    values = sealed(binding.with_more(judged_metrics(metrics, judgments)).per_query(scores, retrieved))
    judged = judged_shares(metrics, judgments, values[len(metrics) :])
    return Evaluation(
        binding,
        values[: len(metrics)],
        requested or binding.metrics,
        judgments_fingerprint,
        retrieved,
        judged,
        document_rules,
    )
