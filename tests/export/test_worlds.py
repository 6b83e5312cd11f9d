"""Models of many shapes in every form: what a form promises holds whatever was trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness.dataset import RankingDataset
from ltr_harness.export.formats import FORMATS, catalog
from ltr_harness.export.libraries import forest_of
from ltr_harness.export.verification import export_model
from ltr_harness.metrics import parse_metric
from ltr_harness.rankers.ranker import FittedModel

pytestmark = pytest.mark.slow


def drawn(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    library = str(rng.choice(["lightgbm", "xgboost", "catboost"]))
    seed = int(rng.integers(1000))
    if library == "lightgbm":
        kinds: list[dict[str, Any]] = [
            {},
            {"boosting": "dart"},
            {"use_missing": False},
            {"objective": "rank_xendcg"},
        ]
        common: dict[str, Any] = {
            "num_leaves": int(rng.integers(2, 60)),
            "max_bin": int(rng.choice([3, 15, 255])),
            "objective_seed": seed,
        }
    elif library == "xgboost":
        kinds = [
            {},
            {"booster": "dart", "rate_drop": 0.5},
            {"grow_policy": "lossguide"},
            {"objective": "rank:pairwise"},
        ]
        common = {
            "max_depth": int(rng.integers(1, 9)),
            "max_bin": int(rng.choice([3, 16, 256])),
            "base_score": float(np.round(rng.normal(), 3)),
            "seed": seed,
        }
    else:
        kinds = [{}, {"nan_mode": "Max"}, {"grow_policy": "Depthwise"}, {"loss_function": "QueryRMSE"}]
        common = {
            "depth": int(rng.integers(1, 7)),
            "border_count": int(rng.choice([3, 16, 254])),
            "random_seed": seed,
        }
    kind: dict[str, Any] = rng.choice(kinds)  # type: ignore[arg-type]
    return library, {**common, **kind, "missing": float(rng.choice([0.0, 0.05, 0.4]))}


@pytest.mark.parametrize("seed", range(60))
def test_every_form_of_every_model(
    seed: int,
    trained: Callable[..., FittedModel],
    rows: Callable[..., RankingDataset],
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(seed)
    library, params = drawn(rng)
    model, split = trained(library, **params), rows(1000 + seed, missing=float(rng.choice([0.0, 0.3])))
    forest = forest_of(model, split.feature_names)
    features = split.features.astype(np.float64)
    exact = 1e-15 if library == "catboost" else 0.0
    np.testing.assert_allclose(forest.scores(features), model.score(split.features), rtol=exact, atol=exact)
    for name in FORMATS:
        runtime = {"onnx": "onnxruntime", "treelite": "treelite"}.get(name)
        if runtime is not None:
            pytest.importorskip(runtime, reason=f"needs {runtime} (the extra `{name}`)")
        found = export_model(
            model, split, parse_metric("ndcg@10"), catalog.load(name)(), tmp_path / f"{name}.model"
        )
        agreements = [found.agreement] if name == "ranklib" else [found.agreement, found.if_missing]
        if name == "ranklib" and found.n_missing:
            continue  # it reads 0 where a value is missing
        for one in agreements:
            assert one.largest_difference <= (1e-14 if name == "treelite" else 2e-6), (name, library, params)
            assert abs(one.loss) < 1e-3, (name, library, params)
