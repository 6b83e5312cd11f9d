"""Data card: facts of every split, hashes by which equal rows and columns are found, and what splits have in common."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.compiled import compiled
from ltr_harness._util.json_values import json_value
from ltr_harness.data.arrays import Floats, read_only
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import Features, SparseFeatures
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.splits import shuffled
from ltr_harness.experiments.inspection.agreement import JudgmentAgreement, agreement
from ltr_harness.experiments.inspection.candidates import CandidateRecall, candidate_recall
from ltr_harness.experiments.inspection.column_facts import (
    all_different,
    are_ids,
    are_times,
    are_whole,
    auc,
    count_rows_of_queries,
    highest_per_row,
    n_only_relevant,
    tells_relevant,
)
from ltr_harness.metrics import bind
from ltr_harness.metrics.ndcg import NDCG

SAMPLED_QUERIES = 1000  # drawn with a fixed seed, and said to be: a feature's NDCG is computed on these


@dataclass(frozen=True, eq=False)
class Content:
    """One pass over a feature matrix: ranges, and hashes of rows and columns by which equal ones are found.

    A hash is the upper halves of two random linear combinations of the values' bits: two rows share one by 2**-64.
    """

    # low, high and mean of values that are not missing, NaN where all are; n_missing and n_zero; (n_features,) each
    numbers: Mapping[str, NDArray[Any]]
    rows: NDArray[np.uint64]  # (n_rows,), a hash of each row
    blank: NDArray[np.bool_]  # (n_rows,), rows whose values are all zero or missing
    columns: NDArray[np.uint64]  # (n_features,), a hash of each column

    @classmethod
    def of(cls, features: Features) -> Self:
        """Return the digests of every row and of every feature. Shapes: `features` (n_rows, n_features)."""
        n_rows, n_features = features.shape
        bits = np.random.PCG64(20)
        along, down = ((bits.random_raw(2 * n) | np.uint64(1)).reshape(2, -1) for n in (n_features, n_rows))
        low = np.full(n_features, np.inf, dtype=np.float32)
        high = np.full(n_features, -np.inf, dtype=np.float32)
        counts = np.zeros((2, n_features), dtype=np.int64)
        total = np.zeros(n_features)
        rows = np.empty((2, n_rows), dtype=np.uint64)
        blank = np.ones(n_rows, dtype=np.bool_)
        columns = np.zeros((2, n_features), dtype=np.uint64)
        if isinstance(features, SparseFeatures):
            for span, block in features.blocks():
                _scan(
                    block, along, down[:, span], low, high, counts, total, rows[:, span], blank[span], columns
                )
        else:
            _scan(read_only(features), along, down, low, high, counts, total, rows, blank, columns)
        n_missing, n_zero = counts
        absent = n_missing == n_rows
        low[absent] = high[absent] = np.nan
        mean = np.divide(total, n_rows - n_missing, out=np.full(n_features, np.nan), where=~absent)
        numbers = {"low": low, "high": high, "mean": mean, "n_missing": n_missing, "n_zero": n_zero}
        return cls(numbers, _upper_halves(*rows), blank, _upper_halves(*columns))

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Features with one value in all rows, or none."""
        low, high, _, n_missing, _ = self.numbers.values()
        return np.asarray(((low == high) & (n_missing == 0)) | (n_missing == len(self.rows)))

    @cached_property
    def duplicate_of(self) -> NDArray[np.int64]:
        """For each feature the first one with the same values in all rows; itself where there is none."""
        _, first, which = np.unique(self.columns, return_index=True, return_inverse=True)
        return first[which].astype(np.int64)

    @cached_property
    def n_repeated_rows(self) -> int:
        """Rows whose features an earlier row has already."""
        return int((self._sorted[1:] == self._sorted[:-1]).sum())

    @cached_property
    def _sorted(self) -> NDArray[np.uint64]:
        return np.sort(self.rows)

    def seen_in(self, other: Self) -> NDArray[np.bool_]:
        """Return which rows another matrix has as well, (n_rows,), but for blank ones, which are equal everywhere."""
        order = np.argsort(self.rows)
        hashes = self.rows[order]
        positions = np.searchsorted(other._sorted, hashes)
        seen = np.empty(hashes.size, dtype=np.bool_)
        seen[order] = other._sorted[np.minimum(positions, len(other._sorted) - 1)] == hashes
        return seen & ~self.blank

    def shared_rows(self, query: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows another query has as well, (n_rows,), but for blank ones; `query` (n_rows,)."""
        order = np.argsort(self.rows, kind="stable")
        starts = np.flatnonzero(np.diff(self.rows[order], prepend=~self.rows[order[0]]))
        ends = np.append(starts[1:], order.size)
        shared = np.empty(order.size, dtype=np.bool_)
        shared[order] = np.repeat(query[order[starts]] != query[order[ends - 1]], ends - starts)
        return shared & ~self.blank


@compiled
def _scan(
    features: NDArray[np.float32],
    along: NDArray[np.uint64],
    down: NDArray[np.uint64],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    counts: NDArray[np.int64],
    total: NDArray[np.float64],
    rows: NDArray[np.uint64],
    blank: NDArray[np.bool_],
    columns: NDArray[np.uint64],
) -> None:
    """Fill ranges, counts (missing, zero), sums and hashes."""
    n_rows, n_features = features.shape
    row = np.empty(n_features, dtype=np.float32)
    bits = row.view(np.uint32)
    for i in range(n_rows):
        first, second = np.uint64(0), np.uint64(0)
        for j in range(n_features):
            value = features[i, j]
            if np.isnan(value):
                value = np.float32(np.nan)  # one of the many
                counts[0, j] += 1
            else:
                if value == 0:
                    value = np.float32(0)  # -0 is the same number
                    counts[1, j] += 1
                else:
                    blank[i] = False
                total[j] += value
                low[j] = min(low[j], value)
                high[j] = max(high[j], value)
            row[j] = value
            word = np.uint64(bits[j])
            first += along[0, j] * word
            second += along[1, j] * word
            columns[0, j] += down[0, i] * word
            columns[1, j] += down[1, i] * word
        rows[0, i] = first
        rows[1, i] = second


def _upper_halves(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.asarray((a & np.uint64(0xFFFFFFFF00000000)) | (b >> np.uint64(32)))


@dataclass(frozen=True)
class FeatureFacts:
    """One feature in one split."""

    name: str
    # low, high, mean: of values that are not missing; NaN if all are
    low: float
    high: float
    mean: float
    n_missing: int
    n_zero: int
    # NDCG@10 of ranking by this feature alone, in the better direction; NaN where nothing is relevant
    ndcg: float
    descending: bool  # whether the larger value comes first in that direction
    # of telling rows with a label above 0 by it, in its better direction; NaN where all or none have one
    auc: float
    # sampled rows with it, if all have a label above 0 and chance does not explain it; else 0
    n_only_relevant: int
    # in the sampled rows it is neither 0 nor missing where a label is above 0, and seldom elsewhere
    tells_relevant: bool
    varies_in_queries: bool  # a query has two values of it
    # of the sampled rows; categories are none of these
    whole: bool  # whole numbers
    like_ids: bool  # as the number of a document that is in several queries
    like_row_numbers: bool  # as numbers of rows, or of documents of one query each
    like_ranks: bool  # from 1 or 0 on, the rows of most queries
    like_times: bool  # dates such as 20230101, or seconds since 1970
    highest_per_row: float  # median over queries: the highest value over the number of rows
    constant: bool  # one value in all rows
    duplicate_of: str  # another feature with the same values, or ""


@dataclass(frozen=True, eq=False)
class SplitCard:
    """One split."""

    name: str
    n_queries: int
    n_rows: int
    feature_names: tuple[str, ...]
    grades: Mapping[float, int]  # label to rows
    sizes: tuple[float, ...]  # rows per query, quantiles: 0, 25, 50, 75, 90, 100 %
    n_without_relevant: int  # queries whose labels are all 0, those of missed documents included
    # queries with a relevant document whose candidates have equal labels: no ranking is better than another
    n_one_grade: int
    n_single: int  # queries of one row
    n_several_grades: int  # queries with several grades
    n_sorted: int  # queries with several grades whose rows stand in the order of their labels
    n_repeated_rows: int  # rows whose features an earlier row of the split has already
    n_elsewhere: int  # rows whose features a row of another query has; rows without any value but 0 left out
    n_several_rows: int  # queries of two different rows and more; rows without any value but 0 left out
    n_alike: int  # of those, queries at least half of whose rows other queries of the split have too
    n_forced_ties: int  # rows with the same features as another row of the same query, but another label
    # rows that repeat an earlier row of their query, label included; and those of them with a label above 0. Rows
    # without any value but 0 left out
    n_equal_rows: int
    n_equal_relevant: int
    random_ndcg: float  # NDCG@10 that random order gives, by the candidates' ideal list, as the features'
    # of all queries and of slices; empty where nobody said what was missed, or no document has several judgments
    candidates: tuple[CandidateRecall, ...]
    agreement: tuple[JudgmentAgreement, ...]
    n_sampled: int  # queries that `random_ndcg` and the features' NDCG are computed on
    features: tuple[FeatureFacts, ...]
    content: Content  # ranges and hashes
    dataset: RankingDataset

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def named_queries(self) -> bool:
        """True where queries have names; numbers from 0 are only a count."""
        ids = self.dataset.groups.ids
        return not (ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids))))

    def facts(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; NaN is None."""
        by_slice = {"candidates": self.candidates, "agreement": self.agreement}
        left_out = ("content", "dataset", "features", "feature_names", *by_slice)
        return {
            "name": self.name,
            "source": self.dataset.source,
            **{key: value for key, value in vars(self).items() if key not in left_out},
            "grades": {f"{grade:g}": n for grade, n in self.grades.items()},
            "random_ndcg": json_value(self.random_ndcg),
            "cautions": json_value(self.dataset.cautions),
            "features": json_value(self.features),
            **{key: json_value(values) for key, values in by_slice.items() if values},
        }


def split_card(name: str, dataset: RankingDataset) -> SplitCard:
    """Return a split's facts, by one pass over the features and one ranking per feature of a sample of queries."""
    groups, labels = dataset.groups, dataset.labels
    has_grades = groups.max(labels) > groups.min(labels)
    rises = np.diff(labels, prepend=labels[0]) > 0
    rises[groups.boundaries[:-1][groups.has_rows]] = False
    barren = dataset.judgments.without_relevant
    values, counts = np.unique(labels, return_counts=True)
    content = Content.of(dataset.features)
    query = np.repeat(np.arange(groups.n_queries), groups.sizes)
    names = dataset.feature_names
    is_shared = content.shared_rows(query) if names else np.zeros(labels.size, dtype=bool)
    n_alike, n_several_rows = n_alike_queries(content, is_shared, groups) if names else (0, 0)
    useful = np.flatnonzero(groups.max(labels) > 0)
    if len(useful) == 0:
        useful = np.flatnonzero(groups.has_rows)
    chosen = useful[np.sort(shuffled(len(useful), 1)[:SAMPLED_QUERIES])]
    # a feature that orders the candidates perfectly has an NDCG of 1, whatever was missed
    judgments = replace(dataset.judgments, missed=None)
    sample = replace(dataset, judgments=judgments).take(chosen.astype(np.int64))
    sampled, random = _sampled_features(sample)
    ties, equal = _equal_rows(content, labels, query) if names else (0, np.zeros(labels.size, dtype=bool))
    return SplitCard(
        name=name,
        n_queries=dataset.n_queries,
        n_rows=dataset.n_rows,
        feature_names=names,
        grades=dict(zip(values.tolist(), counts.tolist(), strict=True)),
        sizes=tuple(np.quantile(groups.sizes, (0, 0.25, 0.5, 0.75, 0.9, 1)).tolist()),
        n_without_relevant=int(barren.sum()),
        n_one_grade=int((groups.has_rows & ~has_grades & ~barren).sum()),
        n_single=int((groups.sizes == 1).sum()),
        n_several_grades=int(has_grades.sum()),
        n_sorted=int((has_grades & ~groups.any(rises)).sum()),
        n_repeated_rows=content.n_repeated_rows if names else 0,
        n_elsewhere=int(np.count_nonzero(is_shared)),
        n_several_rows=n_several_rows,
        n_alike=n_alike,
        n_forced_ties=ties,
        n_equal_rows=int(np.count_nonzero(equal)),
        n_equal_relevant=int(np.count_nonzero(equal & (labels > 0))),
        random_ndcg=random,
        candidates=candidate_recall(dataset),
        agreement=agreement(dataset),
        n_sampled=sample.n_queries,
        features=tuple(_features(names, content, sampled)),
        content=content,
        dataset=dataset,
    )


def n_alike_queries(content: Content, seen: NDArray[np.bool_], groups: QueryGroups) -> tuple[int, int]:
    """Count the queries of two different rows and more, half of them `seen` (n_rows,); and those of such rows."""
    is_filled = ~content.blank
    lowest = groups.min(np.where(is_filled, content.rows, ~np.uint64(0)))
    is_comparable = groups.max(np.where(is_filled, content.rows, np.uint64(0))) > lowest
    n_seen, n_filled = groups.sum(seen, np.int64), groups.sum(is_filled, np.int64)
    return int(np.count_nonzero(is_comparable & (2 * n_seen >= n_filled))), int(
        np.count_nonzero(is_comparable)
    )


def _features(
    names: Sequence[str], content: Content, sampled: Sequence[Mapping[str, Any]]
) -> Iterator[FeatureFacts]:
    """Yield each feature's facts: those of all rows, and those of the sampled ones."""
    numbers = {field: values.tolist() for field, values in content.numbers.items()}
    constant = content.constant.tolist()
    for j, first in enumerate(content.duplicate_of.tolist()):
        yield FeatureFacts(
            name=names[j],
            **{field: values[j] for field, values in numbers.items()},
            **sampled[j],
            constant=constant[j],
            duplicate_of=names[first] if first != j else "",
        )


def _sampled_features(sample: RankingDataset) -> tuple[list[dict[str, Any]], float]:
    """Return a sample's facts of each feature, by field of `FeatureFacts`, and NDCG@10 of random order."""
    labels, groups, relevant = sample.labels, sample.groups, sample.labels > 0
    with np.errstate(divide="ignore"):
        log_share = np.repeat(np.log(groups.sum(relevant, np.float64) / groups.sizes), groups.sizes)
    whole_grades = bool(labels.max() <= 31 and np.array_equal(labels, np.floor(labels)))
    # Equal values count as in random order: a constant feature is as good as chance.
    metric = NDCG(k=10, ties="expected", gain="exp" if whole_grades else "linear")
    bound = None if labels.min() < 0 else bind([metric], sample.judgments)  # below 0 they are no grades

    def mean(scores: NDArray[np.float64]) -> float:
        return float("nan") if bound is None else float(bound.means(scores)[0])

    facts = []
    for j, name in enumerate(sample.feature_names):
        values = sample.features[:, j].astype(np.float64)
        missing = np.isnan(values)
        ranked = np.where(missing, -np.inf, values)
        up, down = mean(ranked), mean(np.where(missing, -np.inf, -values))
        low, high = groups.min(ranked), groups.max(ranked)
        of_order = {
            "ndcg": float(max(up, down)),
            "descending": bound is None or bool(up >= down),
            "auc": auc(ranked, relevant),
            "varies_in_queries": bool((high > low).any()),
            "highest_per_row": highest_per_row(high, groups.sizes),
        }
        if name in sample.categories:
            facts.append(of_order | _NO_NUMBERS)
            continue
        of_labels = {
            "n_only_relevant": n_only_relevant(values, relevant, log_share),
            "tells_relevant": tells_relevant(values, relevant),
        }
        facts.append(of_order | of_labels | _likenesses(values, low, high, groups))
    return facts, mean(np.zeros(sample.n_rows))


_NO_NUMBERS = {
    "n_only_relevant": 0,
    "tells_relevant": False,
    "whole": False,
    "like_ids": False,
    "like_row_numbers": False,
    "like_ranks": False,
    "like_times": False,
}
"""Facts of a category, which is none of these."""


def _likenesses(values: Floats, low: Floats, high: Floats, groups: QueryGroups) -> dict[str, bool]:
    """Return the things that numbers (n_rows,) look like, from their lowest and highest of each query."""
    is_whole = are_whole(values)
    varies = bool((high > low).any())
    return {
        "whole": is_whole,
        "like_ids": is_whole and varies and are_ids(values, groups.boundaries),
        "like_row_numbers": is_whole and varies and all_different(values),
        "like_ranks": is_whole and varies and count_rows_of_queries(values, low, high, groups.boundaries),
        "like_times": is_whole and are_times(values),
    }


def _equal_rows(
    content: Content, labels: NDArray[np.float64], query: NDArray[np.int64]
) -> tuple[int, NDArray[np.bool_]]:
    """Count the rows with features of another row of their query but another label, and find rows that repeat one.

    Shapes: `labels`, `query` and the result (n_rows,).
    """
    order = np.lexsort((labels, content.rows, query))
    hashes, sorted_labels = content.rows[order], labels[order]
    new = (np.diff(query[order], prepend=-1) != 0) | (np.diff(hashes, prepend=hashes[:1]) != 0)
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], order.size)
    differ = sorted_labels[ends - 1] > sorted_labels[starts]
    equal = np.empty(order.size, dtype=np.bool_)
    equal[order] = ~(new | (np.diff(sorted_labels, prepend=np.nan) != 0))
    return int((ends - starts)[differ].sum()), equal & ~content.blank


@dataclass(frozen=True)
class Overlap:
    """Overlap of two splits."""

    first: str
    second: str
    n_queries: int  # queries of the same name; 0 where queries have no names
    queries: tuple[str, ...]  # the first few of them
    n_same_content: int  # of those, queries that also have an identical row on both sides
    # rows of the second whose features a row of the first has; rows without any value but 0 left out
    n_rows: int
    n_alike: int  # queries of the second at least half of whose rows the first has, see `SplitCard.n_alike`


@dataclass(frozen=True)
class DataCard:
    """All splits and their overlaps."""

    splits: tuple[SplitCard, ...]
    overlaps: tuple[Overlap, ...]

    def facts(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; NaN is None."""
        return {
            "splits": [split.facts() for split in self.splits],
            "overlaps": [vars(overlap) | {"queries": list(overlap.queries)} for overlap in self.overlaps],
        }


def data_card(splits: Mapping[str, RankingDataset]) -> DataCard:
    """Return the card of splits by name."""
    cards = tuple(split_card(name, dataset) for name, dataset in splits.items())
    return DataCard(cards, tuple(_overlap(a, b) for a, b in combinations(cards, 2)))


def _overlap(a: SplitCard, b: SplitCard) -> Overlap:
    n_rows = n_alike = 0
    if a.n_features == b.n_features > 0:
        seen = b.content.seen_in(a.content)
        n_rows = int(np.count_nonzero(seen))
        n_alike = n_alike_queries(b.content, seen, b.dataset.groups)[0] if n_rows else 0
    if not (a.named_queries and b.named_queries):
        return Overlap(a.name, b.name, 0, (), 0, n_rows, n_alike)
    places = {str(name): query for query, name in enumerate(a.dataset.groups.ids.tolist())}
    named = enumerate(map(str, b.dataset.groups.ids.tolist()))
    shared = [(name, places[name], query) for query, name in named if name in places]
    same = sum(not _rows(a, p).isdisjoint(_rows(b, q)) for _, p, q in shared) if a.n_features else 0
    first = tuple(name for name, _, _ in shared[:5])
    return Overlap(a.name, b.name, len(shared), first, same, n_rows, n_alike)


def _rows(card: SplitCard, query: int) -> set[int]:
    start, end = card.dataset.groups.boundaries[query : query + 2]
    return set(card.content.rows[start:end][~card.content.blank[start:end]].tolist())
