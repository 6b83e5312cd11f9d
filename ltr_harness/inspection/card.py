"""Data card: every split, and what splits have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ltr_harness.dataset import RankingDataset
from ltr_harness.inspection.split_facts import SplitCard, n_alike_queries, split_card
from ltr_harness.wording import json_value


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
            "splits": [_split_facts(split) for split in self.splits],
            "overlaps": [vars(overlap) | {"queries": list(overlap.queries)} for overlap in self.overlaps],
        }


def data_card(splits: Mapping[str, RankingDataset]) -> DataCard:
    """The card of splits by name.

    Example:
        >>> from ltr_harness.readers.memory import from_arrays
        >>> data = from_arrays([[1.0], [2.0], [2.0]], [0, 1, 0], query_ids=["a", "a", "b"])
        >>> card = data_card({"train": data, "test": data})
        >>> card.splits[0].grades, card.overlaps[0].n_queries
        ({0.0: 2, 1.0: 1}, 2)
    """
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


def _split_facts(split: SplitCard) -> dict[str, Any]:
    left_out = ("content", "dataset", "features", "feature_names")
    facts = {key: value for key, value in vars(split).items() if key not in left_out}
    facts["grades"] = {f"{grade:g}": n for grade, n in split.grades.items()}
    facts["random_ndcg"] = json_value(split.random_ndcg)
    facts["features"] = json_value(split.features)
    return facts
