"""Display positions: rows in their order, and the biases that a library learned from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ltr_harness.dataset import RankingDataset
from ltr_harness.groups import Judgments, QueryGroups


def by_position(train: RankingDataset) -> RankingDataset:
    """The rows of each query in the order in which they were displayed."""
    assert train.positions is not None  # field_problems has looked
    query = np.repeat(np.arange(train.n_queries), train.groups.sizes)
    order = np.lexsort((train.positions, query))
    judgments = train.judgments
    ids = judgments.document_ids
    return replace(
        train,
        features=np.ascontiguousarray(train.features[order]),
        judgments=Judgments(
            judgments.labels[order],
            QueryGroups(train.groups.boundaries, train.groups.ids),
            judgments.query_weights,
            None if ids is None else ids[order],
            subtopics=None if judgments.subtopics is None else judgments.subtopics.take(order),
        ),
        positions=train.positions[order],
    )


def learned_bias(what: str, *columns: Mapping[int, float]) -> dict[str, Any]:
    """Position biases as records keep them: position to value, or values."""
    positions = sorted(columns[0])
    return {"position_bias": {what: {str(at): [column[at] for column in columns] for at in positions}}}
