"""From a sound file to values, and back to YAML that says the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ltr_harness.comparison.stats.method import TESTS, Method
from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import (
    Experiment,
    Holdout,
    as_mapping,
    load_experiment,
    resolved_yaml,
    settings,
)
from ltr_harness.experiments.config.expand import PRESETS
from ltr_harness.experiments.config.json_schema import json_schema
from ltr_harness.experiments.config.yaml_tree import TRUTHS_MEANT, parse_yaml
from ltr_harness.metrics import ERR, NDCG, parse_metric
from ltr_harness.monitoring.config import MonitorConfig
from tests.conftest import examples

Write = Callable[..., Path]


def base(**changes: Any) -> dict[str, Any]:
    sound = {
        "name": "x",
        "data": {"reader": "letor", "splits": {"train": "a", "valid": "b", "test": "c"}},
        "stopping": {"metric": "ndcg@10"},
        "models": {"trees": {"ranker": "lightgbm"}, "chance": {"ranker": "random"}},
    }
    return {**sound, **changes}


def names(experiment: Experiment) -> list[str]:
    return [str(metric) for metric in experiment.metrics.metrics]


def test_defaults_are_those_of_the_documentation(write: Write, in_folder: Path, small_yaml: str) -> None:
    experiment = load_experiment(write(small_yaml))
    assert experiment.seeds == (1,)
    assert experiment.data.root == in_folder
    split = experiment.data.splits["all"]
    assert (split.train, split.valid, split.test) == (("a.txt",), ("b.txt",), ("c.txt",))
    assert experiment.data.folds is None
    stopping = experiment.stopping
    assert stopping is not None
    assert (stopping.metric, stopping.on, stopping.patience) == (NDCG(k=10), "valid", 50)
    assert (stopping.min_delta, stopping.every, stopping.max_rounds) == (0.0, 1, 2000)
    compare = experiment.compare
    assert (compare.baseline, compare.test, compare.confidence) == ("trees", "permutation", 0.95)
    assert experiment.metrics.primary == NDCG(k=10)
    assert names(experiment)[:5] == ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "mrr@1"]
    assert len(names(experiment)) == 4 * 4
    assert list(experiment.models) == ["trees", "chance"]
    assert experiment.models["trees"].ranker_name == "lightgbm"


def test_an_experiment_cannot_be_changed_behind_its_back(write: Write, small_yaml: str) -> None:
    experiment = load_experiment(write(small_yaml))
    with pytest.raises(ValidationError):
        experiment.name = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        experiment.metrics.cutoffs = (1,)  # type: ignore[misc]


def test_an_experiment_travels_to_other_processes() -> None:
    experiment = load_experiment(base())
    assert pickle.loads(pickle.dumps(experiment)) == experiment


def test_report_times_cutoffs_with_own_cutoffs_kept_and_the_primary_among_them() -> None:
    metrics = {
        "cutoffs": [10, 1],
        "report": ["ndcg", "mrr@20", {"metric": "ndcg", "gain": "linear"}, "rr@20"],
        "primary": "map@7",
    }
    experiment = load_experiment(base(metrics=metrics))
    assert names(experiment) == [
        "ndcg@1",
        "ndcg@10",
        "mrr@20",  # once: `rr` is another name for it
        "ndcg(gain=linear)@1",
        "ndcg(gain=linear)@10",
        "map@7",
    ]


def test_a_primary_that_is_in_the_report_stays_where_it_stands() -> None:
    experiment = load_experiment(
        base(metrics={"cutoffs": [1, 5], "report": ["mrr", "ndcg"], "primary": "mrr@5"})
    )
    assert names(experiment) == ["mrr@1", "mrr@5", "ndcg@1", "ndcg@5"]


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_an_experiment(preset: str) -> None:
    experiment = load_experiment(base(metrics={"preset": preset}))
    assert experiment.metrics.primary in experiment.metrics.metrics
    assert len(experiment.metrics.metrics) == len(PRESETS[preset]["report"]) * len(PRESETS[preset]["cutoffs"])


def test_what_is_said_beside_a_preset_wins() -> None:
    experiment = load_experiment(base(metrics={"preset": "navigational", "cutoffs": [2]}))
    assert names(experiment) == ["mrr@2", "success@2", "ndcg@2", "mrr@10"]


def test_max_grade_reaches_every_err_that_does_not_say_its_own() -> None:
    source = base(
        metrics={"cutoffs": [5], "report": ["err", "err(max_grade=3)", "ndcg"], "primary": "err@10"},
        stopping={"metric": "err@10"},
    )
    source["data"]["max_grade"] = 4
    experiment = load_experiment(source)
    assert experiment.metrics.metrics == (
        ERR(k=5, max_grade=4),
        ERR(k=5, max_grade=3),
        NDCG(k=5),
        ERR(k=10, max_grade=4),
    )
    assert experiment.metrics.primary == ERR(k=10, max_grade=4)
    assert experiment.stopping is not None
    assert experiment.stopping.metric == ERR(k=10, max_grade=4)


def test_max_grade_leaves_alone_what_takes_none() -> None:
    source = base(metrics={"report": ["rbp(p=0.8)", "rbp(graded=true,p=0.8)", "rprec"], "cutoffs": [5]})
    source["data"]["max_grade"] = 4
    assert names(load_experiment(source)) == [
        "rbp(p=0.8)@5",
        "rbp(graded=true,max_grade=4,p=0.8)@5",
        "rprec",
        "ndcg@10",
    ]


def test_without_max_grade_err_is_left_to_the_data() -> None:
    assert load_experiment(base(metrics={"report": ["err"]})).metrics.report == (ERR(),)


def test_without_stopping_each_model_says_its_rounds() -> None:
    experiment = load_experiment(
        base(
            stopping=None,
            models={"trees": {"ranker": "lightgbm", "rounds": 7}, "chance": {"ranker": "random"}},
        )
    )
    assert experiment.stopping is None
    assert experiment.models["trees"].rounds == 7
    assert experiment.models["chance"].rounds is None


def test_a_holdout_and_several_folds() -> None:
    splits = {
        "one": {"train": ["a", "b"], "valid": {"holdout": 0.25, "seed": 3}, "test": "c"},
        "2": {"train": ["b", "c"], "valid": {"holdout": 0.5}, "test": "a"},
    }
    experiment = load_experiment(base(data={"reader": "letor", "splits": splits}))
    assert list(experiment.data.splits) == ["one", "2"]
    assert experiment.data.splits["one"].valid == Holdout(holdout=0.25, seed=3)
    assert experiment.data.splits["2"].valid == Holdout(holdout=0.5, seed=1)


def test_folds_of_files() -> None:
    data = load_experiment(
        base(data={"reader": "letor", "folds": 5, "files": "all.txt", "fold_seed": 3})
    ).data
    assert (data.folds, data.files, data.fold_seed, data.splits) == (5, ("all.txt",), 3, {})


def test_a_reader_that_brings_its_own_splits_needs_none_but_may_be_given_some() -> None:
    data = load_experiment(base(data={"reader": "synthetic", "noise": 1.5})).data
    assert data.splits["all"].model_dump() == {"train": ("train",), "valid": ("valid",), "test": ("test",)}
    assert data.reader.model_dump()["noise"] == 1.5
    held = {"reader": "synthetic", "splits": {"train": "train", "valid": {"holdout": 0.1}, "test": "test"}}
    assert load_experiment(base(data=held)).data.splits["all"].valid == Holdout(holdout=0.1)


def test_rankers_are_made_of_their_options() -> None:
    params = {"learning_rate": 1e-3, "num_leaves": 7}
    models = {
        "trees": {"ranker": "lightgbm", "objective": "rank_xendcg", "params": params},
        "bm25": {"ranker": "feature", "feature": 25, "ascending": True},
    }
    experiment = load_experiment(base(models=models))
    trees = experiment.models["trees"].ranker.model_dump(exclude_defaults=True)
    assert trees == {"objective": "rank_xendcg", "params": params}
    assert experiment.models["bm25"].ranker.model_dump() == {"feature": 25, "ascending": True}


OWN = """
from dataclasses import dataclass
from pathlib import Path
from ltr_harness.metrics import NDCG
from ltr_harness.models.random import RandomRanker

class Mine(RandomRanker):
    weights: Path | None = None

@dataclass(frozen=True, kw_only=True)
class Mild(NDCG):
    name = "mild"
"""


@pytest.mark.long
def test_ones_own_classes_are_found_beside_the_file(write: Write, in_folder: Path) -> None:
    write(OWN, "sub/mine.py")
    path = write(
        """
        name: own
        data: {reader: synthetic}
        metrics: {report: ["./mine.py:Mild", ndcg], primary: "./mine.py:Mild(gain=linear)@10"}
        stopping: {metric: "mine.py:Mild@5"}
        models: {mine: {ranker: ./mine.py:Mine, weights: w.txt}}
        """,
        "sub/own.yaml",
    )
    experiment = load_experiment(path)
    assert experiment.models["mine"].ranker.model_dump() == {"weights": in_folder / "sub" / "w.txt"}
    assert experiment.models["mine"].ranker_name == f"{in_folder}/sub/mine.py:Mine"
    assert [str(metric) for metric in experiment.metrics.report] == ["mild", "ndcg"]
    assert str(experiment.metrics.primary) == "mild(gain=linear)@10"
    assert load_experiment(write(resolved_yaml(experiment), "elsewhere/experiment.yaml")) == experiment


@pytest.mark.long
def test_the_resolved_yaml_is_complete_stable_and_loads_as_the_same_experiment(
    write: Write, small_yaml: str
) -> None:
    experiment = load_experiment(
        write(small_yaml), ["models.trees.params={learning_rate: 1e-05, num_leaves: 9}"]
    )
    text = resolved_yaml(experiment)
    assert resolved_yaml(experiment) == text
    for said in (
        "patience: 50",
        "regroup: false",
        "learning_rate: 1.0e-05",
        "test: permutation",
        "ascending",
    ):
        assert (said in text) == (said != "ascending")
    again = load_experiment(write(text, "other/folder/experiment.yaml"))
    assert again == experiment
    assert resolved_yaml(again) == text


words = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co"), exclude_characters="\ufeff\u2028\u2029\x85"),
    max_size=8,
)
values = (
    st.sampled_from(["no", "1e-3", "12:30", "~", "true", "<<", "=", "0o7", "1_0", ".5", "- a", "#", ""])
    | words
)
params = st.recursive(
    values | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(values, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.long
@examples(60)
@given(st.dictionaries(values, params, max_size=4))
def test_any_parameters_survive_the_way_through_yaml(given_params: dict[str, Any]) -> None:
    source = base(models={"trees": {"ranker": "lightgbm", "params": given_params}})
    experiment = load_experiment(source, check_rankers=False)
    tree = parse_yaml(resolved_yaml(experiment), "experiment.yaml", Path())
    assert tree.as_python()["models"]["trees"]["params"] == given_params
    assert load_experiment(tree.as_python(), check_rankers=False) == experiment


def test_folds_survive_the_way_through_yaml(write: Write) -> None:
    experiment = load_experiment(
        base(data={"reader": "letor", "folds": 3, "files": ["a", "b"], "max_grade": 2.5})
    )
    assert load_experiment(write(resolved_yaml(experiment))) == experiment


def test_settings_are_the_resolved_experiment(write: Write, small_yaml: str) -> None:
    path = write(small_yaml)
    flat = settings(path)
    resolved = as_mapping(load_experiment(path))
    assert ("models.trees.params", {}) in [(path, value) for path, value, _ in flat]
    for name, value, _ in flat:
        node: Any = resolved
        for step in name.split("."):
            node = node[step]
        assert node == value


@pytest.mark.long
def test_comparisons_know_the_tests_that_exist() -> None:
    tests = json_schema()["properties"]["compare"]["properties"]["test"]
    assert tests["enum"] == list(TESTS) == list(get_args(get_type_hints(Method)["test"]))


@pytest.mark.long
def test_a_comparison_has_the_options_of_a_method_and_their_defaults() -> None:
    properties = json_schema()["properties"]["compare"]["properties"]
    own = {"baseline", "ledger"}
    options = {name: one["default"] for name, one in properties.items() if name not in own}
    assert options == asdict(Method())
    compare = load_experiment(base(compare={"margin": 0.5, "seed": 3})).compare
    assert compare.method == Method(margin=0.5, seed=3)
    assert pickle.loads(pickle.dumps(compare)) == compare


def test_a_metric_value_may_be_given_from_python() -> None:
    source = base(metrics={"report": [str(NDCG(gain="linear"))], "primary": str(NDCG(k=5))})
    assert load_experiment(source).metrics.primary == parse_metric("ndcg@5")


def test_a_key_that_yaml_1_1_makes_a_truth_value_is_what_was_written() -> None:
    plain = base(stopping=yaml.safe_load("{on: valid, metric: ndcg@3}"))
    assert plain["stopping"][True] == "valid"
    stopping = load_experiment(plain).stopping
    assert stopping is not None
    assert (stopping.on, str(stopping.metric)) == ("valid", "ndcg@3")
    with pytest.raises(ConfigError, match=r"stopping\.on is 'test'"):
        load_experiment(base(stopping=yaml.safe_load("{on: test, metric: ndcg@3}")))


def test_every_key_that_yaml_1_1_makes_a_truth_value_is_known() -> None:
    found = set()
    for schema in (json_schema(), MonitorConfig.model_json_schema()):
        sections = [schema, *schema.get("$defs", {}).values()]
        found |= {
            key
            for one in sections
            for key in one.get("properties", {})
            if yaml.safe_load(key) in (True, False)
        }
    assert found == {word for words in TRUTHS_MEANT.values() for word in words.values()}
