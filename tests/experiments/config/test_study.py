"""A study spelt out: which models it makes, what they are called, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import as_mapping, load_experiment
from ltr_harness.models.selection import FeatureSelection

LGB = {"ranker": "lightgbm", "params": {"num_leaves": 15}}
GROUPS = {"text": ["bm25", "title_match"], "behaviour": ["ctr_*"]}


def experiment(study: Any, **changes: Any) -> dict[str, Any]:
    return {
        "name": "studied",
        "data": {"reader": "synthetic"},
        "stopping": {"metric": "ndcg@10"},
        "models": {"lgb": LGB, "skl": {"ranker": "sklearn", "estimator": "sklearn.linear_model.Ridge"}},
        "study": study,
        **changes,
    }


def problems(study: Any, **changes: Any) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_experiment(experiment(study, **changes), check_rankers=False)
    return [str(problem) for problem in error.value.problems]


def test_groups_and_shares_become_models_after_all_others() -> None:
    study = {"of": "lgb", "features": {"groups": GROUPS, "costs": {"text": 2}}, "queries": [0.25, 0.5, 1]}
    models = load_experiment(experiment(study), check_rankers=False).models
    assert list(models) == [
        *("lgb", "skl", "lgb without text", "lgb only text", "lgb without behaviour", "lgb only behaviour"),
        *(f"lgb queries={share} draw={draw}" for share in (0.25, 0.5) for draw in (1, 2, 3)),
    ]
    without, only = models["lgb without text"], models["lgb only behaviour"]
    assert (without.ranker.features, without.ranker.exclude) == (None, ("bm25", "title_match"))  # type: ignore[attr-defined]
    assert (only.ranker.features, only.ranker.exclude) == (("ctr_*",), ())  # type: ignore[attr-defined]
    assert without.variant is not None
    assert (without.variant.of, without.variant.without, without.variant.cost) == ("lgb", ("text",), 2)
    assert only.variant is not None
    assert (only.variant.only, only.variant.cost) == ("behaviour", None)
    share = models["lgb queries=0.25 draw=2"]
    assert share.training_queries is not None
    assert (share.training_queries.share, share.training_queries.draw) == (0.25, 2)
    assert share.ranker == models["lgb"].ranker
    assert models["lgb"].variant is None


def test_a_study_loads_again_and_is_equal_to_the_models_written_by_hand() -> None:
    study = {"of": ["lgb"], "features": {"groups": GROUPS}, "queries": {"shares": [0.5, 0.25], "draws": 2}}
    studied = load_experiment(experiment(study), check_rankers=False)
    assert load_experiment(as_mapping(studied), check_rankers=False) == studied
    variant = {"of": "lgb", "without": ["text"]}
    by_hand = {**LGB, "exclude": ["bm25", "title_match"], "variant": variant}
    written = load_experiment(experiment(None, models={"lgb": LGB, "x": by_hand}), check_rankers=False)
    assert written.models["x"] == studied.models["lgb without text"]


def test_points_of_a_sweep_and_models_of_any_ranker_can_be_studied() -> None:
    sweep = {"grid": {"models.lgb.params.num_leaves": [7, 15]}}
    study = {"of": ["lgb num_leaves=7", "skl"], "queries": [0.25, 0.5]}
    models = load_experiment(experiment(study, sweep=sweep), check_rankers=False).models
    assert "lgb num_leaves=7 queries=0.25 draw=1" in models
    assert models["lgb num_leaves=7 queries=0.25 draw=1"].point is None
    assert "skl queries=0.5 draw=3" in models


def test_groups_are_taken_from_the_features_that_a_model_has() -> None:
    some = FeatureSelection(features=("bm25", "ctr_1", "price"))
    assert some.drop_group(("ctr_*",)) == FeatureSelection(("bm25", "price"))
    assert some.keep_group(("ctr_*", "age")) == FeatureSelection(("ctr_1",))
    assert some.drop_group(("age",)) is some.keep_group(("age",)) is some.drop_group(("*",)) is None
    but_one = FeatureSelection(exclude=("ctr_1",))
    assert but_one.drop_group(("price",)) == FeatureSelection(exclude=("ctr_1", "price"))
    assert but_one.keep_group(("ctr_1", "ctr_2")) == FeatureSelection(("ctr_2",))
    names = ("bm25", "ctr_1", "ctr_2", "ctr_*")
    assert but_one.keep_group(("ctr_?",)).resolved(names[:3]) == FeatureSelection(("ctr_2",))  # type: ignore[union-attr]
    assert FeatureSelection(exclude=("ctr_*", 7)).resolved(names) == FeatureSelection(
        exclude=("ctr_*", 7)
    )  # a name
    assert FeatureSelection(("c*", "bm25", "ctr_1")).resolved(names[:3]).features == (
        "ctr_1",
        "ctr_2",
        "bm25",
    )


@pytest.mark.parametrize(
    ("study", "found"),
    [
        (
            {"of": "lgb"},
            "nothing to study; expected features: {groups: {…}}, queries: [0.125, 0.25, 0.5], or both",
        ),
        (
            {"of": "lbg", "queries": [0.2, 0.5]},
            "study.of: there is no model 'lbg'; did you mean 'lgb'? (known: lgb, skl)",
        ),
        ({"of": "lgb", "queries": [0.2, 1.5]}, "study.queries.1 is 1.5; expected a number > 0 and <= 1"),
        (
            {"of": "lgb", "queries": [0.5, 1]},
            "study.queries has 1 share below 1; expected at least 2 shares below 1",
        ),
        ({"of": "lgb", "queries": [0.5, 0.5]}, "study.queries"),
        ({"of": "lgb", "features": {"groups": {}}}, "study.features.groups is {}; expected at least one"),
        (
            {"of": "lgb", "features": {"groups": {"text": []}}},
            "study.features.groups.text is []; expected at least one",
        ),
        (
            {"of": "lgb", "features": {"groups": {"text": ["bm25"]}, "costs": {"txt": 1}}},
            "study.features.costs names no group 'txt'; expected one of text",
        ),
        (
            {"of": "skl", "features": {"groups": GROUPS}},
            "study.of: 'skl': ranker 'sklearn' cannot leave features out; expected lightgbm, xgboost or catboost; "
            "study its `queries:` alone",
        ),
    ],
)
def test_wrong_studies_are_refused(study: Any, found: str) -> None:
    listed = problems(study)
    assert len(listed) == 1, listed
    assert found in listed[0]


def test_models_that_do_not_learn_are_refused_with_the_place_of_the_study(tmp_path: Path) -> None:
    file = tmp_path / "studied.yaml"
    file.write_text(
        "name: x\ndata: {reader: synthetic}\nstopping: {metric: ndcg@10}\n"
        "models:\n  chance: {ranker: random}\n  lgb: {ranker: lightgbm, features: [bm25]}\n"
        "  mix: {ranker: blend, of: [lgb, chance], how: ranks}\n"
        "study:\n  of: [chance, mix]\n  queries: [0.25, 0.5]\n"
    )
    with pytest.raises(ConfigError) as error:
        load_experiment(file)
    assert [str(problem) for problem in error.value.problems] == [
        f"{file}:9:7: study.of: 'chance': ranker 'random' learns nothing from training queries; expected a model that "
        "learns, such as lightgbm",
        f"{file}:9:7: study.of: 'mix' is made of others; expected a model that is trained; name one of its parts",
    ]
    text = file.read_text().replace("[chance, mix]", "lgb").replace("queries: [0.25, 0.5]", "")
    file.write_text(f"{text}  features:\n    groups:\n      text: [bm25]\n      age: [days]\n")
    with pytest.raises(ConfigError) as error:
        load_experiment(file)
    assert [str(problem) for problem in error.value.problems] == [
        f"{file}:13:7: study.features.groups.text: without it, models.lgb has no feature left; expected some of the "
        "model's features, and not all",
        f"{file}:14:7: study.features.groups.age: no feature of it is among models.lgb.features; expected some of the "
        "model's features, and not all",
    ]


def test_a_share_of_a_share_is_refused() -> None:
    models = {"lgb": {**LGB, "training_queries": {"share": 0.5}}}
    found = problems({"of": "lgb", "queries": [0.25, 0.5]}, models=models)
    assert found == [
        "configuration: study.queries: models.lgb has training_queries, a share, already; expected a model of all "
        "training queries"
    ]


def test_a_swept_model_is_studied_by_the_names_of_its_points() -> None:
    sweep = {"grid": {"models.lgb.params.num_leaves": [7, 15]}}
    found = problems({"of": "lgb", "queries": [0.25, 0.5]}, sweep=sweep)
    assert found == [
        "configuration: study.of: 'lgb' is swept: it became 2 models; expected one of them, such as 'lgb num_leaves=7'"
    ]


def test_a_variant_is_no_baseline() -> None:
    study = {"of": "lgb", "queries": [0.25, 0.5]}
    found = problems(study, compare={"baseline": "lgb queries=0.5 draw=1"})
    assert len(found) == 1
    assert "there is no model 'lgb queries=0.5 draw=1'" in found[0]
