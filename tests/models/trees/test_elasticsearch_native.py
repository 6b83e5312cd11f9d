"""Elasticsearch's own learning to rank: documents by hand, eland's of the same models, and every library's trees."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import DataError, UsageError
from ltr_harness.metrics import parse_metric
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import LEAF, Forest, InnerNode, Tree, forest_of
from ltr_harness.models.trees.formats import native
from ltr_harness.models.trees.formats.native import ElasticsearchNative
from ltr_harness.models.trees.verification import export_model

Trained = Callable[..., FittedModel]
Rows = Callable[..., RankingDataset]

NDCG = parse_metric("ndcg@10")
RAW = (8, 18)  # the last version whose scores are the trees' plain sums
NAMES = ("title", "age")
STUMP = (0, 0.5, True, 3.0, 5.0)


def write(form: ElasticsearchNative, path: Path, *roots: Any, names: tuple[str, ...] = NAMES) -> None:
    """A file of trees by hand: nested tuples (feature, threshold, missing goes left, left, right) and numbers."""
    trees = [
        Tree.grown(root, lambda one: InnerNode(*one) if isinstance(one, tuple) else one) for root in roots
    ]
    model: Any = None
    form.write(Forest(names, tuple(trees), 0.25, "<", float32=True, float32_sum=True), model, path)


def pack(definition: Any) -> str:
    return base64.b64encode(gzip.compress(json.dumps(definition).encode())).decode()


def unpack(path: Path) -> Any:
    return json.loads(
        gzip.decompress(base64.b64decode(json.loads(path.read_text())["compressed_definition"]))
    )


def score_rows(path: Path, names: Any, rows: Any, version: tuple[int, int] = RAW) -> list[float]:
    return ElasticsearchNative(version).read(path, names)(np.asarray(rows, dtype=np.float64)).tolist()


def one_tree(operator: str, **changed: Any) -> dict[str, Any]:
    """A document of one split at .5, 1 where the left child is and 2 at the right, -4 in a second tree."""
    split = {"node_index": 0, "split_feature": 0, "threshold": 0.5, "decision_type": operator}
    below = {"default_left": True, "left_child": 1, "right_child": 2, **changed}
    leaves = [{"node_index": 1, "leaf_value": 1}, {"node_index": 2, "leaf_value": 2}]
    trees = [
        {"tree": {"feature_names": ["age"], "tree_structure": [{**split, **below}, *leaves]}},
        {"tree": {"feature_names": ["title"], "tree_structure": [{"node_index": 0, "leaf_value": -4}]}},
    ]
    return {"trained_model": {"ensemble": {"feature_names": ["age"], "trained_models": trees}}}


def test_the_two_halves_of_the_body(tmp_path: Path) -> None:
    path = tmp_path / "my-ranker.json"
    write(ElasticsearchNative(), path, (1, 0.5, True, 3.0, 5.25))
    split = {"node_index": 0, "split_feature": 0, "threshold": 0.5, "decision_type": "lt"}
    below = {"default_left": True, "left_child": 1, "right_child": 2}
    leaves = [{"node_index": 1, "leaf_value": 3.25}, {"node_index": 2, "leaf_value": 5.5}]
    head = {"target_type": "regression", "feature_names": ["age"]}
    trees = [{"tree": {**head, "tree_structure": [{**split, **below}, *leaves]}}]
    ensemble = {**head, "trained_models": trees, "aggregate_output": {"weighted_sum": {}}}
    assert unpack(path) == {"trained_model": {"ensemble": ensemble}}
    assert list(json.loads(path.read_text())) == ["compressed_definition"]
    features = json.loads((tmp_path / "my-ranker.features.json").read_text())
    score = {
        "query": {"exists": {"field": "age"}},
        "field_value_factor": {"field": "age"},
        "boost_mode": "replace",
    }
    extractor = {"query_extractor": {"feature_name": "age", "query": {"function_score": score}}}
    assert features == {"inference_config": {"learning_to_rank": {"feature_extractors": [extractor]}}}
    write(ElasticsearchNative((8, 14)), path, STUMP)
    assert json.loads(path.read_text())["input"] == {"field_names": ["title"]}


@pytest.mark.parametrize(
    ("operator", "left"),
    [("lte", [1, 1, 0]), ("lt", [1, 0, 0]), ("gte", [0, 1, 1]), ("gt", [0, 0, 1])],
)
@pytest.mark.parametrize("default_left", [True, False])
def test_every_operator_below_at_and_above_the_threshold(
    operator: str, left: list[int], default_left: bool, tmp_path: Path
) -> None:
    path = tmp_path / "ranker.json"
    path.write_text(
        json.dumps({"compressed_definition": pack(one_tree(operator, default_left=default_left))})
    )
    rows = [[9, 0.25], [9, 0.5], [9, 0.75], [9, np.nan], [9, np.inf], [9, -np.inf]]
    expected = [-3.0 if one else -2.0 for one in [*left, *[default_left] * 3]]
    assert score_rows(path, NAMES, rows) == expected
    # the least sum is 1 - 4, and scores begin at 0
    assert (
        score_rows(path, NAMES, rows, (8, 19))
        == score_rows(path, NAMES, rows, (9, 1))
        == [x + 3 for x in expected]
    )


def test_scores_are_float32_behind_their_shift(tmp_path: Path) -> None:
    """If the least sum is -1024, two leaves that differ by 2**-15 are one score."""
    path = tmp_path / "ranker.json"
    write(ElasticsearchNative(), path, (0, 0.5, True, 0.75, 0.75 + 2.0**-15), (1, 0.5, True, 0.0, -1024.0))
    a, b = score_rows(path, NAMES, [[0, 0], [1, 0]], (8, 19))
    assert a == b == 1024.0
    a, b = score_rows(path, NAMES, [[0, 0], [1, 0]])
    assert b - a == 2.0**-15


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("lightgbm", {}),
    ("lightgbm", {"missing": 0.0}),
    ("lightgbm", {"boosting": "dart", "drop_rate": 0.5}),
    ("lightgbm", {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1}),
    ("xgboost", {"base_score": -0.586}),
    ("xgboost", {"booster": "dart", "rate_drop": 0.5}),
    ("xgboost", {"objective": "binary:logistic", "base_score": 0.2}),
    ("catboost", {}),
    ("catboost", {"nan_mode": "Max", "grow_policy": "Lossguide"}),
]


@pytest.mark.parametrize(("library", "params"), KINDS)
def test_models_of_every_library_rank_there_as_here(
    library: str, params: dict[str, Any], train_model: Trained, rows: Rows, tmp_path: Path
) -> None:
    model, split = train_model(library, **params), rows(1)
    for form in (ElasticsearchNative(), ElasticsearchNative(RAW)):
        found = export_model(model, split, NDCG, form, tmp_path / "ranker.json", max_loss=0)
        assert found.with_missing is not None
        for one in (found.agreement, found.with_missing, found.if_missing):
            assert one.n_same_order == one.n_queries
            assert one.largest_beside_offset < 1e-6 + abs(one.offset) * 2.0**-23
    assert found.agreement.offset == pytest.approx(0, abs=1e-7)
    trees = unpack(tmp_path / "ranker.json")["trained_model"]["ensemble"]["trained_models"]
    nodes = [node for tree in trees for node in tree["tree"]["tree_structure"]]
    assert {node.get("decision_type") for node in nodes} == {None, "lt" if library == "xgboost" else "lte"}


def test_a_changed_threshold_is_found(train_model: Trained, rows: Rows, tmp_path: Path) -> None:
    class Altered(ElasticsearchNative):
        def write(self, *given: Any) -> None:
            super().write(*given)
            definition = unpack(given[2])
            for tree in definition["trained_model"]["ensemble"]["trained_models"]:
                tree["tree"]["tree_structure"][0]["decision_type"] = "gt"
            given[2].write_text(json.dumps({"compressed_definition": pack(definition)}))

    found = export_model(
        train_model("lightgbm"), rows(1), NDCG, Altered(), tmp_path / "ranker.json"
    ).agreement
    assert found.n_same_order < 5
    assert found.loss > 0.1


class TestEland:
    """The same models through eland's transformers, read by the same rules."""

    @pytest.fixture(autouse=True)
    def transformers(self) -> None:
        pytest.importorskip("eland", reason="needs eland: pip install eland")
        self.of = pytest.importorskip("eland.ml.transformers").get_model_transformer

    def compare_documents(
        self, estimator: Any, ours: FittedModel, names: list[str], folder: Path
    ) -> tuple[Any, Any, Any]:
        """Compare the documents of eland and of this writer; return the models that score by each, and the forest."""
        serializer = self.of(estimator, feature_names=names).transform()
        there, here = folder / "eland.json", folder / "ranker.json"
        there.write_text(json.dumps({"compressed_definition": serializer.serialize_and_compress_model()}))
        grown = forest_of(ours, names)
        ElasticsearchNative().write(grown, ours, here)
        first, second = (unpack(path)["trained_model"]["ensemble"] for path in (there, here))
        assert first.keys() == second.keys()
        assert first["aggregate_output"] == second["aggregate_output"]
        assert first["target_type"] == second["target_type"]
        trees = [one["trained_models"][0]["tree"] for one in (first, second)]
        assert trees[0].keys() == trees[1].keys()
        known = {*trees[1]["tree_structure"][0]} | {"number_samples", "leaf_value"}
        assert {key for node in trees[0]["tree_structure"] for key in node} <= known
        return *(ElasticsearchNative().read(path, names) for path in (there, here)), grown

    def test_lightgbm(self, rows: Rows, tmp_path: Path) -> None:
        lightgbm = pytest.importorskip("lightgbm")
        from ltr_harness.models.lightgbm import LightGBMModel

        split, names = rows(0), list("abcde")
        estimator = lightgbm.LGBMRegressor(
            objective="regression", n_estimators=20, min_child_samples=4, verbosity=-1, n_jobs=1
        ).fit(split.features, split.labels)
        estimator.booster_.params.setdefault("objective", "regression")
        model = LightGBMModel(booster=estimator.booster_, threads=1)
        eland, ours, _ = self.compare_documents(estimator, model, names, tmp_path)
        features = rows(1).features.astype(np.float64)
        assert len(set(ours(features))) > 100
        np.testing.assert_array_equal(eland(features), ours(features))

    def test_xgboost_but_for_values_at_a_threshold(self, rows: Rows, tmp_path: Path) -> None:
        """eland takes thresholds from XGBoost's text, nine digits, to which Elasticsearch compares in float64."""
        xgboost = pytest.importorskip("xgboost")
        from ltr_harness.models.xgboost import XGBoostModel

        split, names = rows(0), list("abcde")
        queries = np.repeat(np.arange(split.n_queries), split.groups.sizes)
        estimator = xgboost.XGBRanker(
            objective="rank:ndcg", n_estimators=20, max_depth=4, base_score=0.5, n_jobs=1
        ).fit(split.features, split.labels, qid=queries)
        model = XGBoostModel(booster=estimator.get_booster())
        eland, ours, grown = self.compare_documents(estimator, model, names, tmp_path)
        cuts = [
            {
                np.float32(tree.threshold[at])
                for tree in grown.trees
                for at in np.flatnonzero(tree.feature == c)
            }
            for c in range(5)
        ]
        features = rows(1).features
        at_one = np.any([np.isin(features[:, c], list(cuts[c])) for c in range(5)], axis=0)
        assert 0 < np.count_nonzero(at_one) < len(features) - 100
        wide = features.astype(np.float64)
        np.testing.assert_allclose(eland(wide)[~at_one], ours(wide)[~at_one], rtol=0, atol=1e-5)
        here = model.score(features)
        assert np.ptp(ours(wide) - here) < 1e-5
        assert np.ptp(eland(wide)[at_one] - here[at_one]) > 0.01


REFUSED = [
    (("a{{b", "c"), r"features named 'a\{\{b'; expected names without \{\{"),
    (("a..b", ".c"), r"features named 'a\.\.b', '\.c'; expected .* whose parts between dots are not empty"),
    ((" ", "b"), r"features named ' '; expected"),
]


@pytest.mark.parametrize(("names", "message"), REFUSED)
def test_names_that_are_no_field(names: tuple[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        write(ElasticsearchNative(), tmp_path / "ranker.json", STUMP, names=names)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_splits_on_categories_are_refused_by_name(
    library: str, train_model: Trained, rows: Rows, tmp_path: Path
) -> None:
    params = {"min_data_per_group": 1, "cat_l2": 0, "num_leaves": 60} if library == "lightgbm" else {}
    model = train_model(library, categorical=[2], **params)
    with pytest.raises(DataError, match=r"export model: the model splits on categories of 'price'"):
        export_model(model, rows(1), NDCG, ElasticsearchNative(), tmp_path / "ranker.json")
    assert not list(tmp_path.iterdir())


def test_a_definition_larger_than_a_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    form, path = ElasticsearchNative(), tmp_path / "ranker.json"
    write(form, path, STUMP)
    monkeypatch.setattr(native, "_LARGEST", path.stat().st_size - 1)
    with pytest.raises(DataError, match=r"a file of 0 MiB; expected at most 0 MiB, as Elasticsearch reads"):
        write(form, path, STUMP)


def test_documents_that_elasticsearch_would_not_read(tmp_path: Path) -> None:
    path = tmp_path / "ranker.json"
    halved = one_tree("lt")
    halved["trained_model"]["ensemble"]["aggregate_output"] = {"weighted_sum": {"weights": [0.5, 0.5]}}
    good = pack(one_tree("lt"))
    broken = [
        *(pack(one_tree("eq")), pack(one_tree("lt", split_feature=1)), pack(halved), good[:-20]),
        *("none", base64.b64encode(b"no gzip").decode(), pack({"trained_model": {}}), "ü"),
    ]
    for one in broken:
        path.write_text(json.dumps({"compressed_definition": one}))
        with pytest.raises(DataError, match="elasticsearch-native would not read it"):
            ElasticsearchNative().read(path, NAMES)
    path.write_text(json.dumps({"compressed_definition": good}))
    with pytest.raises(DataError, match="elasticsearch-native would not read it"):
        ElasticsearchNative().read(path, ["title"])


def test_versions(tmp_path: Path) -> None:
    form = ElasticsearchNative()
    assert form.versions == form.for_engine("9.1.2").versions == "8.19 and later"
    assert form.for_engine("8.15").versions == "8.15 to before 8.19"
    assert form.for_engine("8.12.1").versions == "before 8.15"
    with pytest.raises(
        UsageError, match=r"8\.11 has no learning to rank of its own; expected 8\.12 or later"
    ):
        form.for_engine("8.11")


def test_the_command(ltr: Any, tmp_path: Path) -> None:
    [run] = (Path(__file__).parents[2] / "experiments" / "runs" / "frozen" / "v1").glob("lgbm--*")
    path = tmp_path / "ranker.json"
    arguments = ["export", "model", run, "--to", "elasticsearch-native", "-o", path, "--max-loss", "0"]
    code, out, err = ltr(*arguments)
    assert code == 0, err
    assert "24 of 24" in out
    assert "elasticsearch-native: read back as versions 8.19 and later do" in err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ranker.features.json", "ranker.json"]
    code, _, err = ltr(*arguments, "--engine-version", "7.17")
    assert code == 2
    assert "--to elasticsearch is for the plugin" in err


def test_leaves_keep_their_float64(train_model: Trained, rows: Rows, tmp_path: Path) -> None:
    model, names = train_model("lightgbm"), rows(0).feature_names
    ElasticsearchNative().write(forest_of(model, names), model, tmp_path / "ranker.json")
    trees = unpack(tmp_path / "ranker.json")["trained_model"]["ensemble"]["trained_models"]
    written = [n["leaf_value"] for tree in trees for n in tree["tree"]["tree_structure"] if "leaf_value" in n]
    grown = [tree.value[tree.feature == LEAF] for tree in forest_of(model, names).trees]
    assert written == np.concatenate(grown).tolist()
