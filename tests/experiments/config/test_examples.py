"""Small examples of internals, which a reader can check by hand."""

from pathlib import Path

import pytest
import yaml

from ltr_harness.experiments.config.load import load_experiment
from ltr_harness.experiments.config.problems import schema_in_words
from ltr_harness.experiments.config.rules import probes
from ltr_harness.experiments.config.schema import ModelConfig, model_at
from ltr_harness.experiments.config.tune import Range, shown_value
from ltr_harness.experiments.config.yaml_tree import Place, from_python, parse_yaml, plain_scalar
from ltr_harness.experiments.config.yaml_tree import describe_syntax_error as yaml_in_words
from ltr_harness.models.xgboost import XGBoostRanker


def test_model_at() -> None:
    model = ModelConfig(ranker_name="xgboost", ranker=XGBoostRanker(params={"learning_rate": 0.3}))
    assert model_at(model, {"params.eta": 0.1}).ranker.params == {"eta": 0.1}


def test_in_words() -> None:
    assert (
        schema_in_words({"type": "array", "items": {"type": "integer", "minimum": 1}}, {})
        == "a list of integers >= 1"
    )


def test_shown_value() -> None:
    values = (True, None, 0.05, 1.0, "rank:ndcg", [0, 1, 3])
    assert [shown_value(value) for value in values] == ["true", "null", "0.05", "1", "rank:ndcg", "[0, 1, 3]"]


def test_range() -> None:
    ends = probes({"x": Range(low=4, high=64, log=True)})
    assert list(ends) == [{"x": 4}, {"x": 64}]


def test_range_drawn() -> None:
    assert [Range(low=1, high=4).value_at(u) for u in (0.0, 0.25, 0.99)] == [1, 2, 4]
    assert Range(low=0.01, high=1.0, log=True).value_at(0.5) == 0.1


def test_from_plain() -> None:
    assert from_python({"seeds": (1, 2)}, Place("configuration")).as_python() == {"seeds": [1, 2]}


def test_in_words_of_yaml() -> None:
    text = "data:\n  reader: letor\n    root: a"
    with pytest.raises(yaml.MarkedYAMLError) as problem:
        yaml.compose(text)
    expected = ("'root' is indented by 4 spaces", "2 spaces, as in line 2", "")
    assert yaml_in_words(problem.value, text) == expected


def test_parse_yaml() -> None:
    tree = parse_yaml("{eta: 1e-3, on: no}", "example", Path())
    assert tree.as_python() == {"eta": 0.001, "on": "no"}
    assert str(tree.mapping["on"].place) == "example:1:17"


def test_plain_scalar() -> None:
    words = ("1e-3", "007", "no", "12:30:00", "1_000", "~")
    assert [plain_scalar(word) for word in words] == [0.001, 7, "no", "12:30:00", "1_000", None]


def test_load_experiment() -> None:
    experiment = load_experiment(
        {
            "name": "first",
            "data": {"reader": "synthetic"},
            "stopping": {"metric": "ndcg@10"},
            "models": {"chance": {"ranker": "random"}},
        }
    )
    assert (str(experiment.metrics.primary), experiment.compare.baseline) == ("ndcg@10", "chance")
