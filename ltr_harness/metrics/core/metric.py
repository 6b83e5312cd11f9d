"""The base of all metrics: a value that carries its own definition."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.catalog import load_target
from ltr_harness._util.display import DocumentedNames
from ltr_harness._util.number_text import plain_number
from ltr_harness.data.alignment import refuse_unaligned
from ltr_harness.data.arrays import as_column
from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics.core.explanation import Explanation
from ltr_harness.metrics.core.presets import conventions
from ltr_harness.metrics.core.ranking import Ranking, Ties
from ltr_harness.metrics.core.swap_change import SwapChange

NO_CUTOFF = np.iinfo(np.int64).max
LARGEST_CUTOFF = 1_000_000_000  # no list is longer

EMPTY_VALUES = {"skip": math.nan, "zero": 0.0, "one": 1.0}
"""What a query without relevant documents counts, by a metric's `empty`."""

Cutoffs = NDArray[np.int64]
"""int64 (n_cutoffs,), ascending; `NO_CUTOFF` stands for the whole list."""
Values = NDArray[np.float64]
"""float64 (n_cutoffs, n_queries), NaN where a query is undefined."""
Prepared = Callable[[Ranking], Values]
"""What `Metric.prepare` returns: from rows in rank order to the values."""
Divisor = tuple[str, NDArray[np.float64]]
"""What a sum over ranks is divided by: its name, and float64 (n_cutoffs,)."""
ExplainColumns = Mapping[str, NDArray[Any]]
"""What `explain` shows of rows (n_rows,) or ranks (n_ranks,), by heading."""


class MetricCallError(MetricError, AttributeError):
    """A metric was taken for a function of labels and scores."""

    def __init__(self, metric: object) -> None:
        super().__init__(
            f"{metric} is not a function of labels and scores, which do not say which rows form a query; expected "
            f"ltr_harness.sklearn.scorer({str(metric)!r}) in scikit-learn, feval(…) or eval_metric(…) in LightGBM, "
            "Watch(…) in XGBoost, best_round(…) of ltr_harness.boosting.catboost after CatBoost has trained, or "
            "ltr_harness.evaluate(…)"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric(DocumentedNames):
    """Base of all metrics: an immutable value whose `str()` has every choice that is not the default.

    Fields are the parameters of the grammar; their annotations are what the grammar accepts.

    Attributes:
        k: cutoff, >= 1; None for the whole list.
        ties: how equally scored documents are ordered. ``expected``, the default, is the exact mean over all
            their orders; ``stable`` keeps row order, ``worst`` and ``best`` put low or high labels first,
            ``id`` sorts by document id, descending.
        empty: what a query without relevant documents counts: ``skip`` leaves it out (NaN), or ``zero``, ``one``.
        score_precision: ``float32`` lets scores tie that XGBoost could not tell apart.
    """

    k: int | None = dataclasses.field(default=None, kw_only=False)
    ties: Ties = "expected"
    empty: Literal["skip", "zero", "one"] = "skip"
    score_precision: Literal["float64", "float32"] = "float64"

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    graded: ClassVar[bool]
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    source: ClassVar[str]
    takes_cutoff: ClassVar[bool] = True
    """Whether ``@K`` means anything; R-precision, for one, brings its own cutoff."""
    diagnostic: ClassVar[bool] = False
    """Explains other numbers and says nothing about which ranking is better."""
    uses_whole_order: ClassVar[bool] = False
    """Compares complete orders, so documents that were not retrieved count as tied at the end."""
    uses_subtopics: ClassVar[bool] = False
    """Looks at the grades by subtopic instead of the labels."""
    depends_on_size: ClassVar[bool] = False
    """Goes by the size of scores, and not by their order alone."""
    takes_any_label: ClassVar[bool] = False
    """Takes labels below 0 too, such as returns; of other metrics they are refused."""
    counts_worthless_rows: ClassVar[bool] = False
    """Rows without gain at the end of a list change it; of metrics with `uses_whole_order` they do, too."""
    origin: ClassVar[str | None] = None
    """``path.py:Class`` where it comes from a user's own file."""
    no_jit: ClassVar[bool] = True
    """CatBoost would set an attribute on a metric to compile it."""
    digest: ClassVar[str | None] = None
    """Of the code of a metric from outside; it belongs to the identity of whatever was measured with it."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            accepted = accepted_of(type(self))[field.name]
            value = normal(accepted, getattr(self, field.name))
            if value is REFUSED:
                raise MetricError(
                    f"{self.name}: {field.name}={getattr(self, field.name)!r}; expected {in_words(accepted)}"
                )
            object.__setattr__(self, field.name, value)
        if self.k is not None and not self.takes_cutoff:
            raise MetricError(
                f"{self.name}@{self.k}: {self.name} is defined on the whole list; leave out @{self.k}"
            )
        if self.k is not None and self.k < 1:
            raise MetricError(f"{self.name}@{self.k}: the cutoff must be at least 1")
        if self.k is not None and self.k > LARGEST_CUTOFF:
            raise MetricError(
                f"{self.name}@{self.k}: expected a cutoff of at most {LARGEST_CUTOFF:,}; leave it out for whole lists"
            )

    @classmethod
    def for_tool(cls, tool: str, **chosen: Any) -> Self:
        """The metric as another tool computes it; what is said beside the tool's name wins.

        Args:
            tool: such as ``lightgbm`` or ``trec_eval``; docs/metrics.md has all of them.
            chosen: parameters of the metric.

        Raises:
            MetricError: no such preset, or the tool does not compute this metric.

        Example:
            >>> from ltr_harness.metrics import NDCG
            >>> str(NDCG.for_tool("catboost", k=10, gain="exp"))
            'ndcg(empty=one,ties=worst)@10'
        """
        return cls(**{**conventions(tool, cls.name), **chosen})

    def __str__(self) -> str:
        """Canonical name: defaults left out, parameters sorted; `parse_metric` reads it back."""
        return self._canonical

    def __call__(self, *arguments: Any, **keywords: Any) -> float:
        """Refuse: labels and scores alone do not say which rows form a query.

        Raises:
            MetricError: always; the message names what each library takes.
        """
        raise MetricCallError(self)

    @property
    def __name__(self) -> str:  # scikit-learn asks every function for it, before it scores
        raise MetricCallError(self)

    @property
    def evaluate(self) -> Any:  # CatBoost asks its eval_metric for it, in the first round
        """Refuse: CatBoost, which asks for it, hands over no queries.

        Raises:
            MetricError: always.
        """
        raise MetricCallError(self)

    @cached_property
    def _canonical(self) -> str:  # asked for at every round of boosting
        return self._spelt(self.name)

    @property
    def spelling(self) -> str:
        """The text that `parse_metric` reads back in any process: `str()` with the path of a user's file."""
        return self._spelt(self.origin or self.name)

    def _spelt(self, name: str) -> str:
        parameters = [
            f"{field.name}={text_of(getattr(self, field.name))}"
            for field in sorted(dataclasses.fields(self), key=lambda field: field.name)
            if field.name != "k" and getattr(self, field.name) != field.default
        ]
        if parameters:
            name += f"({','.join(parameters)})"
        if self.k is not None:
            name += f"@{self.k}"
        return name

    @property
    def is_linear_sum(self) -> bool:
        """True for a sum of labels, each times the worth of its rank: right on average where labels are."""
        return False

    @property
    def without_cutoff(self) -> str:
        """The canonical name of the definition, for messages that hold at every cutoff."""
        return str(self).removesuffix(f"@{self.k}")

    @cached_property
    def definition(self) -> Hashable:
        """Equal for metrics that differ by their cutoff alone."""
        fields = dataclasses.fields(self)
        return type(self), *(getattr(self, field.name) for field in fields if field.name != "k")

    def with_cutoff(self, k: int | None) -> Self:
        """The same definition at another cutoff.

        Example:
            >>> from ltr_harness.metrics import NDCG
            >>> str(NDCG(gain="linear").with_cutoff(5))
            'ndcg(gain=linear)@5'
        """
        return dataclasses.replace(self, k=k)

    def at(self, cutoffs: Sequence[int]) -> tuple[Self, ...]:
        """The metric at each cutoff; itself alone where it has one already or takes none.

        Example:
            >>> from ltr_harness.metrics import MRR, RPrec
            >>> [str(metric) for metric in (*MRR().at([1, 10]), *MRR(k=5).at([1, 10]), *RPrec().at([1, 10]))]
            ['mrr@1', 'mrr@10', 'mrr@5', 'rprec']
        """
        if self.k is not None or not self.takes_cutoff:
            return (self,)
        return tuple(self.with_cutoff(k) for k in cutoffs)

    def with_max_grade(self, max_grade: float | None) -> Self:
        """The definition with the scale's highest grade, where it asks for one and says none itself; most ask for none.

        Args:
            max_grade: of the experiment's scale; None where not given.

        Example:
            >>> from ltr_harness.metrics import ERR, MRR, RBP
            >>> [str(metric.with_max_grade(4)) for metric in (ERR(k=10), ERR(max_grade=3), MRR(), RBP(p=0.8))]
            ['err(max_grade=4)@10', 'err(max_grade=3)', 'mrr', 'rbp(p=0.8)']
        """
        return self

    def resolved(self, judgments: Judgments) -> Self:
        """The definition with everything fixed that it takes from the data; most metrics take nothing."""
        return self

    @abstractmethod
    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        """Compute once whatever does not depend on scores.

        Args:
            judgments: labels in query groups.
            cutoffs: int64 (n_cutoffs,), ascending; `NO_CUTOFF` stands for the whole list.

        Returns:
            From rows in rank order to float64 (n_cutoffs, n_queries), NaN where a query is undefined.

        Raises:
            MetricError: the labels are outside the metric's domain; the message names the query.
        """
        raise NotImplementedError

    def swap_change(self, judgments: Judgments) -> SwapChange:
        """Return the change of each query's value when two rows of its ranking change places, which objectives need.

        A metric that is one of the forms of `SwapChange` names it; any other gives a function. `MetricSuite` compares
        what is said here with the metric itself.

        Args:
            judgments: labels in query groups.

        Raises:
            MetricError: the metric does not define it, or the labels are outside its domain.
        """
        raise MetricError(f"{self} does not define its change when two rows change places")

    @property
    def has_swap_change(self) -> bool:
        """True where the metric defines `swap_change` and is no diagnostic, which is nothing to optimise."""
        return type(self).swap_change is not Metric.swap_change and not self.diagnostic

    @property
    def cutoff(self) -> int:
        """K, `NO_CUTOFF` where the whole list counts."""
        return NO_CUTOFF if self.k is None else self.k

    @property
    def depth(self) -> int:
        """The number of ranks that a ranking must have for it."""
        return self.cutoff

    def n_counted_ranks(self, judgments: Judgments) -> int:
        """The most ranks of a query that count."""
        return min(judgments.groups.longest, self.cutoff)

    # What `explain` shows beside ranks and labels. None of it is needed to compute the metric.

    def row_facts(self, judgments: Judgments) -> ExplainColumns:
        """Return the values (n_rows,) that the metric sees in each row, whatever its rank, by heading."""
        return {}

    def rank_facts(self, n_ranks: int) -> ExplainColumns:
        """Return the values (n_ranks,) that the metric gives each rank, whatever stands there, by heading."""
        return {}

    def divisor_at(self, judgments: Judgments, ranking: Ranking, cutoffs: Cutoffs) -> Divisor | None:
        """Return the name of the divisor of the sum over ranks and its value at each cutoff; None without a divisor.

        For judgments of one query.

        Args:
            judgments: of one query.
            ranking: of its documents.
            cutoffs: int64 (n_cutoffs,), ascending.
        """
        return None

    def contributions(self, judgments: Judgments, ranking: Ranking) -> NDArray[np.float64] | None:
        """Return what each rank adds before `divisor_at` divides, for a metric without cutoff that is such a sum.

        For judgments of one query; None where the metric is not a sum over ranks. Metrics with a cutoff need
        none: `explain` evaluates them at every cutoff.
        """
        return None

    @property
    def counts(self) -> bool:
        """True where a query's value is a number of documents or pairs, to be written without decimals."""
        return False

    def explain(
        self,
        labels: ArrayLike,
        scores: ArrayLike,
        document_ids: ArrayLike | None = None,
        *,
        judged: ArrayLike | None = None,
        retrieved: ArrayLike | None = None,
        subtopics: ArrayLike | None = None,
    ) -> Explanation:
        """The arithmetic of one query, document by document, and why other tools get another number.

        Args:
            labels: (n_rows,) grades of the query's rows.
            scores: (n_rows,) higher ranks first.
            document_ids: (n_rows,) names of the rows; needed where ties are broken by them.
            judged: bool (n_rows,), judged rows; None where all are.
            retrieved: bool (n_rows,), rows the ranking lists; None where all are.
            subtopics: (n_rows, n_subtopics) grades by subtopic; None where there are none.

        Example:
            >>> from ltr_harness.metrics import NDCG
            >>> NDCG(k=2).explain([3, 2, 0], [0.1, 0.3, 0.2]).steps[-1]
            '3.0000 / 8.8928 = 0.3374'
        """
        columns = {
            "labels": labels,
            "scores": scores,
            "document_ids": document_ids,
            "judged": judged,
            "retrieved": retrieved,
            "subtopics": subtopics,
        }
        refuse_unaligned(columns)
        size = as_column(labels, "labels").size
        if size == 0:
            raise DataError("labels is empty; expected the documents of one query")
        groups = QueryGroups.from_sizes([size])
        pairs = None if subtopics is None else Subtopics.of_matrix(subtopics, size)
        judgments = Judgments.checked(
            labels, groups, document_ids=document_ids, judged=judged, subtopics=pairs
        )
        explain_query = load_target(
            "ltr_harness.metrics.explain:explain_query"
        )  # it stands above the metrics
        explanation: Explanation = explain_query(self, judgments, scores, retrieved)
        return explanation

    def apply_empty(self, values: Values, is_empty: NDArray[np.bool_]) -> Values:
        """Give queries without relevant documents what `empty` says, in place.

        Args:
            values: float64 (n_cutoffs, n_queries).
            is_empty: bool (n_queries,).
        """
        if np.count_nonzero(is_empty):  # a tenth of what .any() costs, at every round of boosting
            np.copyto(values, EMPTY_VALUES[self.empty], where=is_empty)
        return values


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinaryMetric(Metric):
    """Base of the metrics of binary relevance.

    Attributes:
        relevant: the lowest grade that counts as relevant.
    """

    relevant: float = 1

    graded: ClassVar[bool] = False
    saturates: ClassVar[bool] = False
    """Nearly any ranking has the highest value where most documents are relevant."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.relevant > 0:
            raise MetricError(f"{self.name}: relevant={self.relevant}; expected a grade above 0")

    def row_facts(self, judgments: Judgments) -> ExplainColumns:
        return {"relevant": self.relevant_rows(judgments)[0]}

    def relevant_rows(self, judgments: Judgments) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return flags of the relevant documents, and their number in each query."""
        return judgments.labels >= self.relevant, self.relevant_labels(judgments)[1]

    def relevant_labels(self, judgments: Judgments) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return flags of the relevant ones in `Judgments.label_table`, and the relevant documents of each query."""
        is_relevant = judgments.label_table >= self.relevant
        return is_relevant, judgments.count_rows(is_relevant)


REFUSED: Any = object()
"""Stands for a value that a parameter cannot have."""


_HINTS: dict[str, dict[str, Any]] = {}


def accepted_of(metric: type[Any]) -> dict[str, Any]:
    """Return the annotation of each parameter of a metric, by its name."""
    key = f"{metric.__module__}:{metric.__qualname__}"
    if key not in _HINTS:
        _HINTS[key] = get_type_hints(metric)
    return _HINTS[key]


def normal(accepted: Any, value: Any) -> Any:
    """Return the value as the annotation would have it, or `REFUSED`."""
    if accepted is Any:
        return value  # the metric's own __post_init__ has checked it
    if get_origin(accepted) is Literal:
        return value if value in get_args(accepted) else REFUSED
    options = get_args(accepted) or (accepted,)
    if value is None:
        return value if type(None) in options else REFUSED
    if isinstance(value, bool | np.bool_):
        return bool(value) if bool in options else REFUSED
    if isinstance(value, int | float | np.integer | np.floating):
        return _normal_number(options, value)
    return value if isinstance(value, str) and str in options else REFUSED


def _normal_number(options: Sequence[Any], value: Any) -> Any:
    """Return the number as an integer where it is one; `REFUSED` where only other types are accepted."""
    if not math.isfinite(value):
        return REFUSED
    if value == int(value):
        return int(value) if int in options or float in options else REFUSED
    return float(value) if float in options else REFUSED


def in_words(accepted: Any) -> str:
    """An annotation as messages say it."""
    if get_origin(accepted) is Literal:
        return "one of " + ", ".join(get_args(accepted))
    names = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    options = [names[option] for option in get_args(accepted) or (accepted,) if option in names]
    return " or ".join(dict.fromkeys(options))


def text_of(value: Any) -> str:
    """A value as names have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return plain_number(value)
    return str(value)
