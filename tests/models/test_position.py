"""The present ranking as a model: rows as they were shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ltr_harness.errors import DataError, RankerError
from ltr_harness.models.position import PositionRanker
from ltr_harness.models.ranker import Training
from ltr_harness.testing.ranker_suite import ranking_data


def test_the_first_position_has_the_highest_score() -> None:
    data = ranking_data(1, n_queries=2)
    shown = replace(data, positions=np.arange(data.n_rows, 0, -1))
    model = PositionRanker().fit(Training(train=shown, rounds=1))
    assert model.score_split(shown).tolist() == [-at for at in range(data.n_rows, 0, -1)]


def test_data_without_positions_are_refused() -> None:
    bare = replace(ranking_data(1), positions=None)
    with pytest.raises(RankerError, match=r"has no display positions; name their column with `position:`"):
        PositionRanker().fit(Training(train=bare, rounds=1))
    assert "has no display positions" in str(PositionRanker().check_scoring(bare)[0])
    model = PositionRanker().fit(Training(train=ranking_data(1), rounds=1))
    with pytest.raises(DataError, match="has no display positions"):
        model.score_split(bare)
    with pytest.raises(DataError, match="belong to rows of data and not to features"):
        model.score(bare.features)
