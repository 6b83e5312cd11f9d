"""`onnx` in its own runtime: the same sides always, the same scores as far as sums allow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import DataError, MissingExtraError
from ltr_harness.metrics import parse_metric
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import NAN, NEVER, ZERO, Forest, InnerNode, Tree, forest_of
from ltr_harness.models.trees.formats.onnx_model import Onnx
from ltr_harness.models.trees.verification import export_model

Trained = Callable[..., FittedModel]
Rows = Callable[..., RankingDataset]

FROZEN = Path(__file__).parents[2] / "experiments" / "runs" / "frozen" / "v1"
NDCG = parse_metric("ndcg@10")


@pytest.fixture
def form() -> Onnx:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime (the extra `onnx`)")
    return Onnx()


@pytest.mark.parametrize(
    ("library", "params"),
    [
        ("lightgbm", {}),
        ("lightgbm", {"missing": 0.0}),
        ("lightgbm", {"use_missing": False}),
        ("lightgbm", {"boosting": "dart", "drop_rate": 0.5}),
        ("lightgbm", {"min_data_in_leaf": 500}),  # no split at all
        ("xgboost", {}),
        ("xgboost", {"booster": "dart", "rate_drop": 0.5}),
        ("xgboost", {"objective": "rank:pairwise", "base_score": 0.3}),
        ("catboost", {}),
        ("catboost", {"nan_mode": "Max", "grow_policy": "Lossguide"}),
    ],
)
def test_scores_are_the_librarys(
    form: Onnx, library: str, params: dict[str, Any], train_model: Trained, rows: Rows, tmp_path: Path
) -> None:
    model, split = train_model(library, **params), rows(1, missing=0.3)
    found = export_model(model, split, NDCG, form, tmp_path / "model")
    sums_alike = library == "xgboost"
    for one in (found.agreement, found.if_missing):
        assert one.largest_difference <= (0 if sums_alike else 1e-6)
        assert one.loss == pytest.approx(0, abs=0 if sums_alike else 1e-3)


EDGES = [
    0.1,
    -0.1,
    1 + 2**-24,
    1 + 3 * 2**-24,
    0.0,
    -0.0,
    1e-35,
    1e-50,
    -1e-50,
    1e300,
    -1e300,
    3.5,
    2.0**24 + 1,
]


def stumps(comparison: Any, missing_type: int = NAN) -> Forest:
    """For each edge a stump to either side; leaves of a power of two, so that sums tell who went where."""
    splits = [
        InnerNode(0, edge, side, 1.0, 0.0, missing_type) for edge in EDGES[:11] for side in (True, False)
    ]
    trees = (Tree.grown(split._replace(left=2.0**i), lambda node: node) for i, split in enumerate(splits))
    return Forest(("a",), tuple(trees), comparison=comparison)


@pytest.mark.parametrize("comparison", ["<", "<="])
@pytest.mark.parametrize("missing_type", [NAN, NEVER])
def test_which_side_values_at_thresholds_go(
    form: Onnx, comparison: str, missing_type: int, tmp_path: Path
) -> None:
    forest = stumps(comparison, missing_type)
    near = np.array([[edge] for edge in EDGES], dtype=np.float64)
    with np.errstate(over="ignore"):
        at = near.astype(np.float32)
    every = np.concatenate([at, np.nextafter(at, np.float32(np.inf)), np.nextafter(at, np.float32(-np.inf))])
    rows = np.concatenate([every, [[np.nan]]]).astype(np.float64)
    form.write(forest, None, tmp_path / "model")
    scores = form.read(tmp_path / "model", ("a",))(rows)
    assert scores.tolist() == forest.scores(rows).tolist()


@given(
    threshold=st.floats(allow_nan=False, allow_infinity=False),
    value=st.floats(width=32),
    comparison=st.sampled_from(["<", "<="]),
)
def test_a_float32_threshold_changes_no_float32_values_side(
    threshold: float, value: float, comparison: Any
) -> None:
    tree = Tree.grown(InnerNode(0, threshold, False, 1.0, 0.0), lambda node: node)
    forest = Forest(("a",), (tree,), comparison=comparison)
    rounded = forest.in_float32()
    [at] = rounded.trees[0].threshold[:1]
    assert np.float32(at) == at
    with np.errstate(over="ignore"):
        nearest = float(np.float32(threshold))
    for x in (value, nearest):
        rows = np.array([[x]])
        assert rounded.scores(rows).tolist() == forest.scores(rows).tolist()


def test_zeros_that_go_where_missing_values_go_are_refused(
    form: Onnx, train_model: Trained, rows: Rows, tmp_path: Path
) -> None:
    model = train_model("lightgbm", zero_as_missing=True)
    with pytest.raises(DataError, match=r"a split on '\S+' sends 0 where missing values go") as refusal:
        export_model(model, rows(1), NDCG, form, tmp_path / "model")
    assert "train without `zero_as_missing`" in str(refusal.value)
    assert list(tmp_path.iterdir()) == []
    harmless = Forest(("a",), (Tree.grown(InnerNode(0, 0.5, True, 1.0, 0.0, ZERO), lambda node: node),))
    values = np.array([[0.0], [np.nan], [0.4], [0.6]])
    assert harmless.by_nan().scores(values).tolist() == harmless.scores(values).tolist() == [1, 1, 1, 0]


def test_base_score_in_the_first_tree_changes_no_bit(train_model: Trained, rows: Rows) -> None:
    split = rows(1)
    forest = forest_of(train_model("xgboost", objective="rank:pairwise", base_score=0.3), split.feature_names)
    features = split.features.astype(np.float64)
    moved = forest.with_base_in_first_tree()
    assert moved.base_score == 0
    assert moved.scores(features).tolist() == forest.scores(features).tolist()


# --- what has gone wrong elsewhere ---


class Nearest(Onnx):
    """Thresholds as a plain cast rounds them: onnxmltools and hummingbird #802."""

    name: ClassVar[str] = "nearest"

    def write(self, forest: Forest, model: Any, path: Path) -> None:
        def cast(tree: Tree) -> Tree:
            return replace(tree, threshold=tree.threshold.astype(np.float32).astype(np.float64))

        super().write(replace(forest, trees=tuple(map(cast, forest.trees))), model, path)


class WithoutBaseScore(Onnx):
    """onnxmltools #672, onnxruntime #11892."""

    name: ClassVar[str] = "without base_score"

    def write(self, forest: Forest, model: Any, path: Path) -> None:
        super().write(replace(forest, base_score=0.0), model, path)


def test_thresholds_rounded_to_the_nearest_float32_are_noticed(
    train_model: Trained, rows: Rows, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime (the extra `onnx`)")
    model, split = train_model("lightgbm"), rows(1)
    wrong = export_model(model, split, NDCG, Nearest(), tmp_path / "wrong").agreement
    right = export_model(model, split, NDCG, Onnx(), tmp_path / "right").agreement
    assert wrong.n_same_order < 30
    assert wrong.largest_difference > 1e-2
    assert right.largest_difference < 1e-6


def test_a_lost_base_score_is_an_offset(train_model: Trained, rows: Rows, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime (the extra `onnx`)")
    model = train_model("xgboost", objective="rank:pairwise", base_score=0.75)
    found = export_model(model, rows(1), NDCG, WithoutBaseScore(), tmp_path / "model").agreement
    assert found.offset == pytest.approx(-0.75)
    assert found.largest_beside_offset < 1e-6


# --- the command ---


@pytest.mark.skipif(
    Version(xgboost.__version__) < Version("3.1"), reason="the stored model is of XGBoost 3.1 or newer"
)
def test_the_command(form: Onnx, ltr: Any, tmp_path: Path) -> None:
    [run] = FROZEN.glob("xgb--*")
    path = tmp_path / "model"
    code, out, err = ltr("export", "model", run, "--to", form.name, "-o", path, "--max-loss", 0)
    assert code == 0, err
    assert out.count("24 of 24") == 2
    assert path.is_file()


@pytest.mark.parametrize("lacks", ["onnx", "onnxruntime"])
def test_a_missing_package_is_one_message(
    lacks: str, train_model: Trained, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacks == "onnxruntime":
        pytest.importorskip("onnx", reason="needs onnx (the extra `onnx`)")
    monkeypatch.setitem(sys.modules, lacks, None)
    said = f"--to onnx: needs the package {lacks}; pip install 'onnx>="
    with pytest.raises(MissingExtraError, match=said):
        export_model(train_model("xgboost"), rows(1), NDCG, Onnx(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
