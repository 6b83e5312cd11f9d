"""A sweep spelt out: which models it makes, what they are called, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import as_mapping, load_experiment, settings
from ltr_harness.experiments.config.tune import Range

LGB = {"ranker": "lightgbm", "params": {"num_leaves": 31, "bagging_fraction": 0.7, "bagging_freq": 1}}


def experiment(sweep: Any, **changes: Any) -> dict[str, Any]:
    return {
        "name": "swept",
        "data": {"reader": "synthetic"},
        "stopping": {"metric": "ndcg@10"},
        "models": {"lgb": LGB, "xgb": {"ranker": "xgboost"}, "chance": {"ranker": "random"}},
        "sweep": sweep,
        **changes,
    }


def problems(source: Any, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_experiment(source, overrides)
    return [str(problem) for problem in error.value.problems]


def test_a_grid_is_every_combination_in_the_place_of_the_model() -> None:
    grid = {"models.lgb.params.num_leaves": [7, 15], "models.lgb.objective": ["lambdarank", "rank_xendcg"]}
    models = load_experiment(experiment({"grid": grid})).models
    assert list(models) == [
        "lgb num_leaves=7 objective=lambdarank",
        "lgb num_leaves=7 objective=rank_xendcg",
        "lgb num_leaves=15 objective=lambdarank",
        "lgb num_leaves=15 objective=rank_xendcg",
        "xgb",
        "chance",
    ]
    second = models["lgb num_leaves=7 objective=rank_xendcg"]
    assert second.ranker.objective == "rank_xendcg"  # type: ignore[attr-defined]
    assert second.ranker.params == {**LGB["params"], "num_leaves": 7}  # type: ignore[attr-defined, dict-item]
    assert second.point is not None
    assert second.point.of == "lgb"
    assert second.point.at == {"params.num_leaves": 7, "objective": "rank_xendcg"}


def test_random_points_are_as_many_as_asked_distinct_and_decided_by_the_seed() -> None:
    random = {
        "models.xgb.params.eta": {"low": 0.01, "high": 0.3, "log": True},
        "models.xgb.params.max_depth": {"low": 3, "high": 8},
        "models.xgb.params.grow_policy": ["depthwise", "lossguide"],
    }
    sweep = {"random": random, "points": 20, "seed": 3}

    def drawn_points(sweep: dict[str, Any]) -> list[dict[str, Any]]:
        models = load_experiment(experiment(sweep), check_rankers=False).models
        return [model.point.at for model in models.values() if model.point]

    points = drawn_points(sweep)
    assert len(points) == len({str(point) for point in points}) == 20
    assert all(0.01 <= point["params.eta"] <= 0.3 for point in points)
    assert {point["params.max_depth"] for point in points} <= set(range(3, 9))
    assert {point["params.grow_policy"] for point in points} == {"depthwise", "lossguide"}
    assert points == drawn_points(sweep)
    assert points != drawn_points({**sweep, "seed": 4})
    # what another model is swept over, and how many points there are, moves none of them
    more = {**random, "models.lgb.params.num_leaves": {"low": 2, "high": 1000}}
    assert points == [point for point in drawn_points({**sweep, "random": more}) if "params.eta" in point]
    assert drawn_points({**sweep, "points": 5}) == points[:5]


def test_grid_and_random_of_one_model_multiply() -> None:
    sweep = {
        "grid": {"models.lgb.objective": ["lambdarank", "rank_xendcg"]},
        "random": {"models.lgb.params.num_leaves": {"low": 2, "high": 100}},
        "points": 3,
    }
    points = [model.point.at for model in load_experiment(experiment(sweep)).models.values() if model.point]
    assert len(points) == 6
    leaves = [point["params.num_leaves"] for point in points]
    assert leaves[:3] == leaves[3:]  # both objectives are tried with the same draws


def test_names_say_the_values_and_are_numbered_where_they_cannot() -> None:
    gains = [[0, 1, 3, 7, 15, *range(31, 31 + n)] for n in (60, 61)]
    models = load_experiment(experiment({"grid": {"models.lgb.params.label_gain": gains}})).models
    assert list(models)[:2] == ["lgb #1", "lgb #2"]
    both = {"models.lgb.params.num_leaves": [7], "models.lgb.monotone.num_leaves": [1, -1]}
    names = list(load_experiment(experiment({"grid": both}), check_rankers=False).models)
    assert names[0] == "lgb params.num_leaves=7 monotone.num_leaves=1"


def test_names_of_models_may_hold_dots() -> None:
    models = {"a": {"ranker": "random"}, "a.b": LGB}
    grid = {"models.a.b.params.num_leaves": [7, 15]}
    found = load_experiment(experiment({"grid": grid}, models=models)).models
    assert list(found) == ["a", "a.b num_leaves=7", "a.b num_leaves=15"]


@pytest.mark.long
def test_the_resolved_experiment_loads_again_and_is_equal() -> None:
    swept = load_experiment(experiment({"grid": {"models.lgb.params.num_leaves": [7, 15]}}))
    assert load_experiment(as_mapping(swept)) == swept


@pytest.mark.long
def test_values_come_from_the_sweep(tmp_path: Path) -> None:
    file = tmp_path / "swept.yaml"
    file.write_text(
        "name: x\ndata: {reader: synthetic}\nstopping: {metric: ndcg@10}\n"
        "models:\n  lgb: {ranker: lightgbm}\n"
        "sweep:\n  grid:\n    models.lgb.params.num_leaves: [7, 15]\n",
        encoding="utf-8",
    )
    origins = {path: origin for path, _, origin in settings(file)}
    assert origins["models.lgb num_leaves=15.params.num_leaves"].endswith("swept.yaml:8:39")
    assert origins["models.lgb num_leaves=15.ranker"].endswith("swept.yaml:5:17")
    twice = "models.lgb.params={num_leaves: 31}"  # what the sweep replaces is not blamed
    file.write_text(file.read_text(encoding="utf-8").replace("[7, 15]", "[7, -1]"), encoding="utf-8")
    (problem,) = problems(file, twice)
    assert "swept.yaml:8:5: models.lgb.params.num_leaves: -1 is refused" in problem
    override = "sweep.grid={models.lgb.params.num_leavs: [7, 15]}"
    assert problems(file, override) == [
        f"--set {override}: models.lgb.params.num_leavs: LightGBM has no "
        "parameter 'num_leavs' and would ignore it; did you mean 'num_leaves'?"
    ]


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({}, "sweep: nothing to sweep; expected grid: {…} or random: {…}"),
        ([1], "sweep is [1]; expected a mapping such as {grid: {models.lgb.params.num_leaves: [15, 31]}}"),
        (
            {"gird": {}, "grid": {"models.lgb.objective": ["lambdarank"]}},
            "unknown key 'gird' in sweep; did you mean 'grid'?",
        ),
        ({"grid": {"models.lgb.params.num_leaves": 7}}, "is 7; expected a list"),
        ({"grid": {"models.lgb.params.num_leaves": []}}, "is []; expected at least one value"),
        (
            {"grid": {"models.lgb.params.num_leaves": [7, 7]}},
            "expected each value once; 7 was given more than once",
        ),
        (
            {"grid": {"stopping.patience": [7, 9]}},
            "sweep.grid: 'stopping.patience'; expected an option of a model, such as models.NAME.params.PARAMETER",
        ),
        (
            {"grid": {"models.lgbm.params.num_leaves": [7]}},
            "names no model and option of it; did you mean 'lgb'?",
        ),
        ({"grid": {"models.lgb": [7]}}, "names no model and option of it"),
        (
            {"grid": {"models.lgb.parms.num_leaves": [7]}},
            "unknown key 'parms' in models.lgb; did you mean 'params'?",
        ),
        (
            {"grid": {"models.lgb.params.num_leaves": [7, -1]}},
            "models.lgb.params.num_leaves: -1 is refused: it requires num_leaves > 1",
        ),
        (
            {"random": {"models.lgb.params.num_leaves": [7, 9]}},
            "sweep.random without sweep.points; expected how many points to draw: points: 20",
        ),
        (
            {"points": 3, "grid": {"models.lgb.objective": ["lambdarank"]}},
            "configuration: sweep: sweep.points without sweep.random; expected none: a grid has as many points",
        ),
        (
            {"random": {"models.lgb.params.num_leaves": {"low": 9, "high": 9}}, "points": 3},
            "expected low < high",
        ),
        (
            {"random": {"models.lgb.params.num_leaves": {"low": 9, "hi": 9}}, "points": 3},
            "unknown key 'hi' in sweep.random.models.lgb.params.num_leaves; did you mean 'high'?",
        ),
        (
            {"random": {"models.lgb.params.lambda_l2": {"low": 0, "high": 9.5, "log": True}}, "points": 3},
            "expected low > 0 with log: true",
        ),
        (
            {
                "random": {"models.lgb.params.lambda_l2": {"low": 1, "high": 9, "log": True, "step": 2}},
                "points": 3,
            },
            "expected step or log: true, not both",
        ),
        (
            {"random": {"models.lgb.params.num_leaves": {"low": 3, "high": 9, "step": 0.5}}, "points": 3},
            "expected an integer step between integers",
        ),
        (
            {
                "grid": {"models.lgb.params.num_leaves": [7, 9]},
                "random": {"models.lgb.params.num_leaves": {"low": 3, "high": 9}},
                "points": 3,
            },
            "models.lgb.params.num_leaves in sweep.grid and in sweep.random; expected one of them",
        ),
        (
            {"random": {"models.lgb.params.num_leaves": [7, 9]}, "points": 3},
            "sweep.points is 3, and the values of models.lgb allow 2; expected points: 2, or sweep.grid",
        ),
    ],
)
def test_what_is_wrong_is_said_once(sweep: Any, said: str) -> None:
    found = problems(experiment(sweep))
    assert [text for text in found if said in text], found
    assert len(found) == len({text.partition("; ")[0] for text in found})


@pytest.mark.long
def test_a_mistake_in_all_points_is_told_with_others_at_once() -> None:
    grid = {"models.lgb.params.num_leavs": [7, 15], "models.lgb.objective": ["lambdarank", "rank_xendgc"]}
    found = problems(experiment({"grid": grid}, sedes=[1]))
    assert len(found) == 3
    assert sum("unknown objective 'rank_xendgc'; did you mean 'rank_xendcg'?" in text for text in found) == 1
    assert sum("no parameter 'num_leavs'" in text for text in found) == 1
    assert sum("unknown key 'sedes'" in text for text in found) == 1


@pytest.mark.long
def test_a_swept_model_is_no_baseline_but_its_points_are() -> None:
    sweep = {"grid": {"models.lgb.params.num_leaves": [7, 15]}}
    assert load_experiment(experiment(sweep)).compare.baseline == "lgb num_leaves=7"
    named = experiment(sweep, compare={"baseline": "lgb num_leaves=15"})
    assert load_experiment(named).compare.baseline == "lgb num_leaves=15"
    (said,) = problems(experiment(sweep, compare={"baseline": "lgb"}))
    assert "'lgb' is swept: it became 2 models; expected one of them, such as 'lgb num_leaves=7'" in said


@pytest.mark.long
@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40)).filter(lambda ends: ends[0] < ends[1]),
    st.booleans(),
    st.floats(0, 1, exclude_max=True),
)
def test_whole_ranges_draw_whole_numbers_within(ends: tuple[int, int], log: bool, share: float) -> None:
    value = Range(low=ends[0], high=ends[1], log=log).value_at(share)
    assert isinstance(value, int)
    assert ends[0] <= value <= ends[1]


def test_every_whole_number_is_as_likely_as_another() -> None:
    drawn = [Range(low=3, high=7).value_at(at / 1000) for at in range(1000)]
    assert all(
        190 <= drawn.count(value) <= 210 for value in range(3, 8)
    )  # round(…) itself is even-handed to 0.5
    stepped = [Range(low=0.5, high=1.0, step=0.25).value_at(at / 999) for at in range(999)]
    assert {value: stepped.count(value) for value in set(stepped)} == {0.5: 333, 0.75: 333, 1.0: 333}
