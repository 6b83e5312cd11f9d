"""Features of items are tested by queries: rows of one query are alike, and tests over rows cry wolf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.result import FeatureDrift
from ltr_harness.monitoring.stats.drift import distances

pytestmark = pytest.mark.long

N, ITEMS, FEATURES = 300, 20, 40


def frame(seed: int, correlation: float, shift: float = 0.0, features: int = FEATURES) -> pd.DataFrame:
    """Features whose values in one query share `correlation` of their variance."""
    random = np.random.default_rng(seed)
    of_query = np.repeat(random.standard_normal((N, features)), ITEMS, axis=0)
    values = np.sqrt(correlation) * of_query + np.sqrt(1 - correlation) * random.standard_normal(
        of_query.shape
    )
    rows = pd.DataFrame(values + shift, columns=[f"f{at}" for at in range(features)])
    rows["query_id"] = np.repeat([f"{seed}-{at:04d}" for at in range(N)], ITEMS)
    rows["rank"] = np.tile(np.arange(1, ITEMS + 1), N)
    rows["relevance"] = random.integers(0, 2, N * ITEMS)
    return rows


def drift(now: pd.DataFrame, before: pd.DataFrame) -> dict[str, FeatureDrift]:
    names = [name for name in now if name.startswith("f")]
    config: dict[str, Any] = {
        "columns": {"rank": "rank", "features": names}, "metrics": ["ndcg@10"], "slices": {"features": False},
    }  # fmt: skip
    return {found.name: found for found in monitor(config, log=now, baseline=before).drift}


@pytest.mark.parametrize("features", [FEATURES, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("correlation", "rows_cry_wolf"), [(1.0, 0.95), (0.3, 0.25)])
def test_healthy_features_are_called_drifted_at_most_as_often_as_promised(
    correlation: float, rows_cry_wolf: float, features: int
) -> None:
    now, before = (frame(seed, correlation, features=features) for seed in (1, 2))
    found = drift(now, before)
    kinds = {name.partition(":")[2] for name in found}
    assert kinds == ({""} if correlation == 1 else {"mean", "max", "std"})
    for kind in kinds:
        flagged = [f.p <= 0.05 for name, f in found.items() if name.partition(":")[2] == kind]
        assert len(flagged) == features
        assert np.mean(flagged) <= 0.08
    assert not any(f.drifted for f in found.values())
    naive = [distances(now[f"f{at}"].to_numpy(), before[f"f{at}"].to_numpy())[1] for at in range(40)]
    assert np.mean(np.array(naive) <= 0.05) > rows_cry_wolf


def test_a_shift_of_items_is_said_in_their_own_standard_deviations() -> None:
    found = drift(frame(1, 0.0, 0.3, features=2), frame(2, 0.0, features=2))
    assert found["f0:mean"].shift == pytest.approx(0.3, abs=0.03)  # of a mean's, it would be 1.3
    assert found["f0:mean"].wasserstein == pytest.approx(0.3, abs=0.03)
    assert found["f0:mean"].psi > 1
    assert found["f0:mean"].drifted
    same = drift(frame(1, 1.0, 0.3, features=2), frame(2, 1.0, features=2))
    assert same["f0"].shift == pytest.approx(0.3, abs=0.15)


@pytest.mark.parametrize("features", [20, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("correlation", [1.0, 0.3])
def test_features_of_users_are_tested_by_users(correlation: float, features: int) -> None:
    """200 users ask 10 times each: what is theirs is said once, not ten times."""

    def period(seed: int) -> pd.DataFrame:
        random = np.random.default_rng(seed)
        user = np.repeat(np.arange(200), 10)
        of_user = random.standard_normal((200, features))[user]
        values = np.sqrt(correlation) * of_user + np.sqrt(1 - correlation) * random.standard_normal(
            of_user.shape
        )
        rows = pd.DataFrame(values, columns=[f"f{at}" for at in range(features)])
        rows["loyal"] = np.where(random.random(200) < 0.3, "yes", "no")[user]
        return rows.assign(
            query_id=[f"{seed}-{at}" for at in range(2000)], user=[f"{seed}-{at}" for at in user], rank=1,
            relevance=1,
        )  # fmt: skip

    config: dict[str, Any] = {
        "columns": {
            "rank": "rank", "cluster_id": "user", "segments": ["loyal"],
            "features": [f"f{at}" for at in range(features)],
        },
        "metrics": ["ndcg@10"],
        "slices": {"features": False, "max_predicates": 1},
        "drift": {"psi_floor": 0.001},
    }  # fmt: skip
    now, before = period(1), period(2)
    found = monitor(config, log=now, baseline=before).drift
    numbers = [f for f in found if f.kind == "number"]
    assert np.mean([f.p <= 0.05 for f in numbers]) <= 0.08
    assert sum(f.drifted for f in found) <= 2  # one test among them in twenty runs
    alone = {**config, "columns": {**config["columns"], "cluster_id": None}}
    careless = monitor(alone, log=now, baseline=before).drift
    assert np.mean([f.p <= 0.05 for f in careless if f.kind == "number"]) > 0.15
