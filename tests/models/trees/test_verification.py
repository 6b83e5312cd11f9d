"""`export model`: what is written is read back, and what it loses is found, said and refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import DataError, GateError
from ltr_harness.metrics import parse_metric
from ltr_harness.models.lightgbm import LightGBMModel
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import Forest, InnerNode, Tree, forest_of
from ltr_harness.models.trees.formats import FORMATS, ModelFormat, catalog, dump
from ltr_harness.models.trees.formats.dump import Dump
from ltr_harness.models.trees.verification import export_model, verify

Trained = Callable[..., FittedModel]
Rows = Callable[..., RankingDataset]

FROZEN = Path(__file__).parents[2] / "experiments" / "runs" / "frozen" / "v1"
NDCG = parse_metric("ndcg@10")


class Altered(Dump):
    """The dump with one threshold changed after it was written, as a wrong converter would."""

    name: ClassVar[str] = "altered"

    def write(self, forest: Any, model: Any, path: Path) -> None:
        super().write(forest, model, path)
        content = json.loads(path.read_text())
        content["tree_info"][0]["tree_structure"]["threshold"] = 1e9
        path.write_text(json.dumps(content))
        (path.parent / "companion.txt").write_text("what the engine wants besides")


def test_the_same_scores_agree(train_model: Trained, rows: Rows) -> None:
    split, model = rows(1), train_model("lightgbm")
    found = verify(model, model.score, split, NDCG)
    assert found.agreement.n_same_order == found.agreement.n_queries == 30
    assert found.agreement.largest_difference == found.agreement.offset == found.agreement.loss == 0
    assert found.first is None
    assert found.n_missing == np.isnan(split.features).sum() > 0
    assert found.with_missing is not None
    assert found.if_missing.n_same_order == 30
    assert verify(model, model.score, rows(1, missing=0.0), NDCG).with_missing is None


def test_what_differs_is_counted_by_hand(train_model: Trained, rows: Rows) -> None:
    split, model = rows(1), train_model("lightgbm")
    here = model.score(split.features)
    order = np.argsort(-here[20:40], kind="stable")
    there = here + 0.5
    there[20 + order[0]], there[20 + order[1]] = there[20 + order[1]], there[20 + order[0]] + 0.25
    split = replace(split, features=np.nan_to_num(split.features))
    model_scores = {id(here): here}

    class Fixed:
        def score(self, features: Any) -> Any:
            return model_scores[id(here)]

    found = verify(Fixed(), lambda features: there, split, NDCG)  # type: ignore[arg-type]
    gap = here[20 + order[0]] - here[20 + order[1]]
    assert found.agreement.n_same_order == 29
    assert found.agreement.offset == 0.5
    assert found.agreement.largest_difference == pytest.approx(0.75 + gap)
    assert found.agreement.largest_beside_offset == pytest.approx(0.25 + gap)
    assert found.first is not None
    assert found.first.query == str(split.groups.ids[1])
    assert found.first.rows == (order[0], order[1])
    assert found.with_missing is None


def test_a_worse_file_is_not_put_in_place(train_model: Trained, rows: Rows, tmp_path: Path) -> None:
    model, path = train_model("lightgbm", num_leaves=2, rounds=1), tmp_path / "model.json"
    path.write_text("from before")
    with pytest.raises(GateError, match=r"ndcg@10 loses 0\.\d+ in the form altered, and .* is not written"):
        export_model(model, rows(1), NDCG, Altered(), path, max_loss=0.001)
    assert path.read_text() == "from before"
    assert [one.name for one in tmp_path.iterdir()] == ["model.json"]
    found = export_model(model, rows(1), NDCG, Altered(), path)
    assert found.agreement.loss > 0.001
    assert found.agreement.n_same_order < 30
    assert found.first is not None
    assert json.loads(path.read_text())["name"] == "tree"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["companion.txt", "model.json"]


BOOSTERS: list[tuple[str, dict[str, Any]]] = [
    ("lightgbm", {}),
    ("lightgbm", {"boosting": "dart", "drop_rate": 0.5}),
    ("lightgbm", {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1}),
    ("xgboost", {}),
    ("xgboost", {"booster": "dart", "rate_drop": 0.5}),
    ("xgboost", {"num_parallel_tree": 3, "subsample": 0.5, "eta": 1}),
    ("catboost", {}),
]


@pytest.mark.parametrize(
    ("library", "params", "name"),
    [
        (library, params, name)
        for library, params in BOOSTERS
        for name in (
            FORMATS if not params else ["json"]
        )  # a form is written from the forest that others become
    ],
)
def test_every_booster_scores_in_every_form_as_here(
    library: str, params: dict[str, Any], name: str, train_model: Trained, rows: Rows, tmp_path: Path
) -> None:
    if name == "onnx":
        pytest.importorskip("onnxruntime", reason="needs onnxruntime (the extra `onnx`)")
    model, split = train_model(library, **params), rows(1)
    found = export_model(model, split, NDCG, catalog.load(name)(), tmp_path / "model")
    rounding = 2e-6 * max(1, np.abs(model.score(split.features)).max())
    for part in (found.agreement, found.if_missing):
        lifted = abs(part.offset) * 2.0**-23  # Elasticsearch lifts all scores by the least sum
        assert part.largest_beside_offset < rounding + lifted
        assert name == "elasticsearch-native" or abs(part.offset) < 1e-6


@pytest.mark.parametrize(("library", "params"), BOOSTERS)
def test_trees_that_do_not_score_as_the_library_are_no_export(
    library: str, params: dict[str, Any], train_model: Trained, rows: Rows, tmp_path: Path, monkeypatch: Any
) -> None:
    """As of a version that stores the weights of trees where they are not looked for."""
    model, split, path = train_model(library, **params), rows(1), tmp_path / "model.json"
    forest = forest_of(model, split.feature_names)
    first, *others = forest.trees
    misread = replace(forest, trees=(replace(first, value=first.value * 0.9), *others))
    monkeypatch.setattr("ltr_harness.models.trees.verification.forest_of", lambda *_: misread)
    with pytest.raises(
        DataError, match=r"export model: the stored trees score row \d+ .*in a form that is not known"
    ):
        export_model(model, split, NDCG, Dump(), path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(train_model: Trained, rows: Rows, tmp_path: Path) -> None:
    """Not the hidden folder that it is made in: a folder is in its place, and in /proc nothing can be made."""
    taken = tmp_path / "taken.json"
    (taken / "a").mkdir(parents=True)
    for path in (taken, *([Path("/proc/m.json")] if Path("/proc").is_dir() else [])):
        with pytest.raises(OSError, match=r"m.json|taken.json") as caught:
            export_model(train_model("lightgbm"), rows(1), NDCG, Dump(), path)
        assert caught.value.filename == str(path)


def test_a_metric_that_is_better_when_lower_loses_by_rising(train_model: Trained, rows: Rows) -> None:
    split, model = rows(1), train_model("lightgbm")
    tau = parse_metric("kendall_tau_distance")
    found = verify(model, lambda features: -model.score(features), split, tau)
    assert not tau.higher_is_better
    assert found.agreement.loss == found.agreement.difference > 0


def test_query_weights_weigh_the_difference(train_model: Trained, rows: Rows) -> None:
    split, model = rows(1), train_model("lightgbm")
    weights = np.where(np.arange(30) == 3, 1.0, 0.0)
    weighed = replace(split, judgments=replace(split.judgments, query_weights=weights))
    alone = split.take(np.array([3]))

    def reversed_scores(features: Any) -> Any:
        return -model.score(features)

    assert verify(model, reversed_scores, weighed, NDCG).agreement.loss == pytest.approx(
        verify(model, reversed_scores, alone, NDCG).agreement.loss
    )


def test_a_metric_that_no_query_defines_is_no_number_and_passes_no_gate(
    train_model: Trained, rows: Rows, tmp_path: Path
) -> None:
    split, model = rows(1), train_model("lightgbm")
    blank = replace(split, judgments=replace(split.judgments, labels=np.zeros(split.n_rows)))
    found = verify(model, model.score, blank, NDCG)
    assert found.agreement.n_same_order == 30
    assert np.isnan([found.agreement.here, found.agreement.loss, found.agreement.low]).all()
    with pytest.raises(GateError, match=r"ndcg@10 is undefined for every query, and .* is not written"):
        export_model(model, blank, NDCG, Dump(), tmp_path / "model.json", max_loss=0.1)
    one = verify(model, model.score, split.take(np.array([0])), NDCG).agreement
    assert one.loss == 0
    assert np.isnan([one.low, one.high]).all()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_says_its_rules(name: str) -> None:
    form = catalog.load(name)
    assert issubclass(form, ModelFormat)
    assert form.name == name
    assert form.rules


class AsDumped(Dump):
    """The dump that the library itself writes."""

    name: ClassVar[str] = "as dumped"

    def write(self, forest: Any, model: Any, path: Path) -> None:
        if isinstance(model, LightGBMModel):
            content = model.booster.dump_model()
            content["feature_names"] = list(forest.feature_names)
            path.write_text(json.dumps(content))
        else:
            booster = model.booster.copy()
            booster.feature_names = [f"f{at}" for at in range(5)]
            text = "[" + ",".join(booster.get_dump(dump_format="json")) + "]"
            for at, name in enumerate(forest.feature_names):
                text = text.replace(f'"f{at}"', json.dumps(name))
            path.write_text(text)


class TestDump:
    """By the rules of Vespa's importers."""

    @pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
    def test_what_was_learned_from_missing_values_ranks_the_same(
        self, library: str, train_model: Trained, rows: Rows, tmp_path: Path
    ) -> None:
        found = export_model(train_model(library), rows(1), NDCG, Dump(), tmp_path / "model.json", max_loss=0)
        for one in (found.agreement, found.with_missing, found.if_missing):
            assert one is not None
            assert one.largest_beside_offset < 1e-6
        content = json.loads((tmp_path / "model.json").read_text())
        assert isinstance(content, dict if library == "lightgbm" else list)

    def test_nine_digits_are_another_number_in_float64(
        self, train_model: Trained, rows: Rows, tmp_path: Path
    ) -> None:
        """Older versions of Vespa compare float32 features with the dump's decimals."""
        model, split = train_model("xgboost"), rows(1)
        dumped = export_model(model, split, NDCG, AsDumped(), tmp_path / "model.json").agreement
        written = export_model(model, split, NDCG, Dump(), tmp_path / "model.json").agreement
        assert dumped.n_same_order < 30
        assert dumped.largest_difference > 0.01
        assert written.largest_difference < 1e-6

    def test_xgboosts_base_score_is_in_the_first_tree(
        self, train_model: Trained, rows: Rows, tmp_path: Path
    ) -> None:
        model = train_model("xgboost", objective="rank:pairwise", base_score=0.75)
        dumped = export_model(model, rows(1), NDCG, AsDumped(), tmp_path / "model.json").agreement
        assert dumped.offset == pytest.approx(-0.75, abs=0.01)
        written = export_model(model, rows(1), NDCG, Dump(), tmp_path / "model.json").agreement
        assert written.largest_difference < 1e-6

    @pytest.mark.parametrize("params", [{"missing": 0.0}, {"use_missing": False}])
    def test_lightgbms_default_direction_is_where_0_goes_if_nothing_was_missing_in_training(
        self, params: dict[str, Any], train_model: Trained, rows: Rows, tmp_path: Path
    ) -> None:
        model, split = train_model("lightgbm", **params), rows(1)
        dumped = export_model(model, split, NDCG, AsDumped(), tmp_path / "model.json")
        assert dumped.agreement.n_same_order < 30
        written = export_model(model, split, NDCG, Dump(), tmp_path / "model.json", max_loss=0)
        assert written.agreement.largest_difference == written.if_missing.largest_difference == 0

    def test_a_value_on_a_threshold_goes_left_as_in_lightgbm(self, rows: Rows, tmp_path: Path) -> None:
        split = rows(1)
        tree = Tree.grown(InnerNode(4, 1.5, True, 2.0, 1.0), lambda node: node)
        forest = Forest(split.feature_names, (tree,))
        stump = {"split_feature": 4, "threshold": 1.5, "default_left": True, "decision_type": "<="}
        stump |= {"left_child": {"leaf_value": 2.0}, "right_child": {"leaf_value": 1.0}}
        at = np.zeros((3, 5))
        at[:, 4] = np.nextafter(np.float32(1.5), [np.float32(0), np.float32(1.5), np.float32(2)])
        assert forest.scores(at).tolist() == [2, 2, 1]
        for put_right, scores in ((False, [2, 1, 1]), (True, [2, 2, 1])):
            if put_right:
                dump._put_right(stump, forest.in_float32("<").trees[0])
            content = {"feature_names": split.feature_names, "tree_info": [{"tree_structure": stump}]}
            (tmp_path / "model.json").write_text(json.dumps(content))
            assert Dump().read(tmp_path / "model.json", split.feature_names)(at).tolist() == scores

    def test_zeros_that_go_where_missing_values_go_are_refused(
        self, train_model: Trained, rows: Rows, tmp_path: Path
    ) -> None:
        model = train_model("lightgbm", zero_as_missing=True)
        dumped = export_model(model, rows(1), NDCG, AsDumped(), tmp_path / "model.json")
        assert dumped.agreement.n_same_order < 30
        with pytest.raises(DataError, match=r"a split on '\S+' sends 0 where missing values go"):
            export_model(model, rows(1), NDCG, Dump(), tmp_path / "model.json")

    def test_catboost_in_the_form_of_xgboost(self, train_model: Trained, rows: Rows, tmp_path: Path) -> None:
        found = export_model(
            train_model("catboost"), rows(1), NDCG, Dump(), tmp_path / "model.json", max_loss=0
        )
        assert found.agreement.largest_difference < 1e-6
        assert isinstance(json.loads((tmp_path / "model.json").read_text()), list)

    @pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
    def test_fast_forests_round_to_float32_and_go_the_same_ways(
        self, library: str, train_model: Trained, rows: Rows, tmp_path: Path
    ) -> None:
        model, split = train_model(library), rows(1, missing=0.3)
        forest = forest_of(model, split.feature_names)
        Dump().write(forest, model, tmp_path / "model.json")
        there = Dump().read(tmp_path / "model.json", split.feature_names).__self__  # type: ignore[attr-defined]
        for tree in there.trees:
            assert np.array_equal(tree.threshold.astype(np.float32), tree.threshold)
        features = split.features.astype(np.float64)
        assert np.abs(there.scores(features) - forest.scores(features)).max() < 1e-6

    def test_what_vespa_would_not_read_is_an_error(self, tmp_path: Path) -> None:
        for text in ("{", "{}", '[{"split": "unknown"}]'):
            (tmp_path / "model.json").write_text(text)
            with pytest.raises(DataError, match="json would not read it"):
                Dump().read(tmp_path / "model.json", ["a"])


class TestCommand:
    @pytest.fixture
    def run(self) -> Path:
        [path] = FROZEN.glob("lgbm--*")
        return path

    def test_it_writes_the_file_and_says_what_it_is_worth(self, run: Path, ltr: Any, tmp_path: Path) -> None:
        code, out, err = ltr("export", "model", run, "--to", "json", "-o", tmp_path / "model.json")
        assert code == 0, err
        assert "24 of 24" in out
        assert "a tenth missing" in out
        assert "Vespa compares with <" in err
        assert (tmp_path / "model.json").is_file()

    def test_help_names_every_format(self, ltr: Any) -> None:
        code, out, _ = ltr("export", "model", "--help")
        assert code == 0
        assert set(FORMATS) <= set(re.findall(r"[\w-]+", out))

    def test_what_is_undefined_is_a_dash(self, run: Path, ltr: Any, tmp_path: Path) -> None:
        rows = pd.read_csv(FROZEN / "rows.csv").assign(query_id="one", label=0)
        rows.to_csv(tmp_path / "rows.csv", index=False)
        data = ["--data", tmp_path / "rows.csv"]
        code, out, err = ltr("export", "model", run, "--to", "json", "-o", tmp_path / "m", *data)
        assert code == 0, err
        assert out.splitlines()[1].split() == ["all", "1", "of", "1", "0", "–", "–", "–", "–"]

    def test_json(self, run: Path, ltr: Any, tmp_path: Path) -> None:
        path = tmp_path / "model.json"
        code, out, err = ltr("export", "model", run, "--to", "json", "-o", path, "-m", "mrr@5", "--json")
        assert code == 0, err
        content = json.loads(out)
        assert content["metric"] == "mrr@5"
        assert content["agreement"]["n_same_order"] == content["agreement"]["n_queries"] == 24
        assert content["with_missing"] is content["first"] is None
        assert len(content["rules"]) == 2

    def test_other_rows(self, run: Path, ltr: Any, tmp_path: Path) -> None:
        rows = pd.read_csv(FROZEN / "rows.csv").assign(
            query_id=np.repeat([0, 1], 30), label=np.arange(60) % 3
        )
        rows.to_csv(tmp_path / "rows.csv", index=False)
        arguments = ["--to", "json", "-o", tmp_path / "m", "--data", tmp_path / "rows.csv"]
        code, out, err = ltr("export", "model", run, *arguments)
        assert code == 0, err
        assert "2 of 2" in out

    def test_a_loss_is_exit_3(self, run: Path, ltr: Any, tmp_path: Path) -> None:
        own = tmp_path / "own.py"
        own.write_text(
            "from ltr_harness.models.trees.formats.dump import Dump\n\n\n"
            "class Reversed(Dump):\n"
            "    def read(self, path, feature_names):\n"
            "        scores = super().read(path, feature_names)\n"
            "        return lambda features: -scores(features)\n"
        )
        path = tmp_path / "model.json"
        arguments = ["export", "model", run, "--to", f"{own}:Reversed", "-o", path]
        code, out, err = ltr(*arguments, "--max-loss", "0.01")
        assert code == 3
        assert out == ""
        assert "--max-loss 0.01: ndcg@10 loses 0." in err
        assert not path.exists()
        code, out, _ = ltr(*arguments)
        assert code == 0
        assert "for example query" in out

    def test_an_unknown_format_is_met_with_the_nearest(self, run: Path, ltr: Any, tmp_path: Path) -> None:
        code, _, err = ltr("export", "model", run, "--to", "jsno", "-o", tmp_path / "m")
        assert code == 2
        assert "unknown format 'jsno'; did you mean 'json'?" in err
