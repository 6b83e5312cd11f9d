"""Models of many shapes in every form: what a form promises holds whatever was trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import run_experiment
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.experiments.training.reproduce import fold_of
from ltr_harness.metrics import parse_metric
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import forest_of
from ltr_harness.models.trees.formats import FORMATS, catalog
from ltr_harness.models.trees.verification import FileAgreement, export_model

pytestmark = pytest.mark.slow

NDCG = parse_metric("ndcg@10")


def draw_model(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
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


def score_gap(found: FileAgreement, name: str) -> float:
    """The largest difference of two scores, in float32 beside the least sum by which Elasticsearch lifts all."""
    if name != "elasticsearch-native":
        return found.largest_difference
    return max(0.0, found.largest_beside_offset - abs(found.offset) * 2.0**-23)


def test_mq2008_keeps_its_order_in_every_form(shared_data: Path, tmp_path: Path) -> None:
    """A fold of real data: 46 features, few of them with many values, none missing."""
    pytest.importorskip("onnxruntime", reason="needs onnxruntime (the extra `onnx`)")
    splits = {"train": ["S1.txt", "S2.txt", "S3.txt"], "valid": "S4.txt", "test": "S5.txt"}
    result = run_experiment(
        {
            "name": "mq2008",
            "data": {
                "reader": "letor",
                "root": str(shared_data / "mq2008"),
                "max_grade": 2,
                "splits": splits,
            },
            "metrics": {"cutoffs": [10], "report": ["ndcg"], "primary": "ndcg@10"},
            "stopping": {"metric": "ndcg@10", "patience": 10, "max_rounds": 60},
            "report": {"formats": ["json"]},
            "models": {"lgbm": {"ranker": "lightgbm", "preset": "small"}, "xgb": {"ranker": "xgboost"}},
        },
        runs=tmp_path / "runs",
    )
    for run in result.runs:
        split = fold_of(run).test
        for name in FORMATS:
            path = tmp_path / f"{run.record.model}-{name}.model"
            found = export_model(run.model, split, NDCG, catalog.load(name)(), path, max_loss=0).agreement
            assert found.n_same_order == found.n_queries == 156, name
            assert score_gap(found, name) < 1e-6, name


@pytest.mark.parametrize("seed", range(60))
def test_every_form_of_every_model(
    seed: int,
    train_model: Callable[..., FittedModel],
    rows: Callable[..., RankingDataset],
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(seed)
    library, params = draw_model(rng)
    model, split = train_model(library, **params), rows(1000 + seed, missing=float(rng.choice([0.0, 0.3])))
    forest = forest_of(model, split.feature_names)
    features = split.features.astype(np.float64)
    exact = 1e-15 if library == "catboost" else 0.0
    np.testing.assert_allclose(forest.scores(features), model.score(split.features), rtol=exact, atol=exact)
    for name in FORMATS:
        if name == "onnx":
            pytest.importorskip("onnxruntime", reason="needs onnxruntime (the extra `onnx`)")
        found = export_model(model, split, NDCG, catalog.load(name)(), tmp_path / f"{name}.model")
        for one in (found.agreement, found.if_missing):
            assert score_gap(one, name) <= 2e-6, (name, library, params)
            assert abs(one.loss) < 1e-3, (name, library, params)
