"""Identities of version 1, by 0de6e7fe: who renames what they are made of would have every stored run trained again.

Versions of libraries, which are part of identities, are 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ltr_harness.experiments.runs import identity
from ltr_harness.experiments.training.job import Job, list_tasks
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.workflow import read, run_experiment

EXPERIMENT: dict[str, Any] = {
    "name": "x",
    "seeds": [1],
    "data": {
        "reader": "synthetic",
        "splits": {"train": "train", "valid": "valid", "test": "test"},
        "n_queries": {"train": 40, "valid": 20, "test": 24},
        "n_features": 12,
        "seed": 3,
    },
    "metrics": {"report": ["ndcg"], "cutoffs": [10], "primary": "ndcg@10"},
    "models": {
        "lin": {"ranker": "linear", "weights": {"match_1": 1}},
        "feat": {"ranker": "feature", "feature": "match_1"},
        # its weights are chosen on validation data, by a metric that is part of the identity
        "mix": {"ranker": "blend", "of": ["lin", "feat"], "how": "ranks"},
    },
}


def test_identities_stay_from_version_to_version(tmp_path: Path) -> None:
    tasks = list_tasks(read(EXPERIMENT, runs=tmp_path)).tasks
    assert [task.folder.name for task in tasks] == [
        "lin--all--s1--8c0c59810df2",
        "feat--all--s1--fbe05998fe6c",
        "mix--all--s1--998b9a126edd",
    ]


BINARY: dict[str, Any] = {"ranker": "lightgbm", "objective": "binary", "relevant": 2}
OTHERS: dict[str, dict[str, Any]] = {
    "binary": BINARY,
    "rate": {"ranker": "lightgbm", "objective": "poisson"},
    "forest": {
        "ranker": "lightgbm",
        "params": {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
    },
    "root": {"ranker": "lightgbm", "objective": "regression", "params": {"reg_sqrt": True}},
    "order": {"ranker": "lightgbm"},
    "square": {"ranker": "lightgbm", "objective": "regression"},
    "grades": {"ranker": "lightgbm", "objective": "multiclass"},
    "spread": {**BINARY, "data_parallel": 2},
    "logistic": {"ranker": "xgboost", "objective": "binary:logistic", "relevant": 2},
    "given": {"ranker": "blend", "of": ["lin", "feat"], "how": "ranks", "weights": {"lin": 1, "feat": 2}},
    "z": {"ranker": "blend", "of": ["lin", "feat"], "how": "z-scores"},
}
BY_0DE6E7FE = {
    "ndcg@10": """
        lin-63ad91310694 feat-3a340d46ac1c binary-674fdf4b2ea3 rate-1292bc9a013c forest-4ff142e953c6 root-63412f579777
        order-c1f0b731bfff square-959062ae3729 grades-faa694e99eac spread-fd92b635b778 logistic-e4d9bd472f34
        mix-700afaf4d9d4 given-fc57360965b9 z-34a2346ec095""",
    "log_loss": """
        lin-b8e60d3f7952 feat-9e37a90b164e binary-36ad200d3c84 rate-476e029b08af forest-22f3fd74bc2d root-f9f81839b21f
        order-e91b1d9896a5 square-84a253b762ff grades-54b55b4bb3c2 spread-3655417c628c logistic-4dd3d58b21af
        mix-c2a0c7784bf7 given-83c8764aa91a z-cd542374e361""",
    "log_loss(temperature=1)": """
        lin-d84f8ec62f6c feat-9b26655ea39e binary-8d0870aa5dc2 rate-99be6ba16e2f forest-edb82b957d4b root-099a19755bc6
        order-90458b926bfe square-a330248eeaea grades-9c67762cde96 spread-6dfa45ad5df7 logistic-2c90d06bac16
        mix-9a6566efc5f6 given-5fae24f9a1ee z-e89c4708c629""",
    None: """
        lin-8c0c59810df2 feat-fbe05998fe6c binary-d5388cf98dbe rate-f1785eca2149 forest-6b77fac38124 root-65e5009c8f04
        order-4472652b3a47 square-612efbe7aa51 grades-8642bada8b32 spread-00d78a19f6b6 logistic-1b4c131fb33a
        mix-998b9a126edd given-2bd302baade0 z-cb9d1498e9df""",
}
LINKED = {"binary", "rate", "forest", "root"}


@pytest.mark.parametrize(
    ("metric", "revised"),
    [
        ("ndcg@10", LINKED),
        ("log_loss", LINKED | {"mix", "z"}),
        ("log_loss(temperature=1)", LINKED | {"mix"}),
        (None, set()),
    ],
)
def test_a_revision_enters_the_identities_of_the_models_that_it_concerns_alone(
    metric: str | None, revised: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "package_versions", lambda names: dict.fromkeys(names, "1"))
    config = {**EXPERIMENT, "models": {**EXPERIMENT["models"], **OTHERS}}
    if metric is None:
        boosted = {name: {**model, "rounds": 5} for name, model in OTHERS.items() if "of" not in model}
        config["models"] |= boosted
    else:
        config["stopping"] = {"metric": metric, "patience": 3, "max_rounds": 9}
    before = dict(text.split("-") for text in BY_0DE6E7FE[metric].split())
    for model, digits in before.items():
        (tmp_path / "x" / f"{model}--all--s1--{digits}").mkdir(parents=True)
    tasks = list_tasks(read(config, runs=tmp_path)).tasks
    now = {task.model: task.identity[:12] for task in tasks}
    assert now.keys() == before.keys()
    assert {name for name in now if now[name] != before[name]} == revised


STOPPED = {"metric": "ndcg@10", "patience": 3, "max_rounds": 9}
BOOSTED = {"binary", "rate", "forest", "root", "order", "square", "grades", "spread", "logistic"}


def identities(stopping: dict[str, Any], runs: Path) -> dict[str, str]:
    config = {**EXPERIMENT, "models": {**EXPERIMENT["models"], **OTHERS}, "stopping": stopping}
    return {task.model: task.identity for task in list_tasks(read(config, runs=runs)).tasks}


def test_another_stopping_rule_trains_boosted_models_again_and_no_others(tmp_path: Path) -> None:
    before, now = (identities(rule, tmp_path) for rule in (STOPPED, {**STOPPED, "patience": 4}))
    assert {name for name in now if now[name] != before[name]} == BOOSTED


def test_another_stopping_metric_concerns_also_the_blends_that_choose_weights_by_it(tmp_path: Path) -> None:
    before, now = (identities(rule, tmp_path) for rule in (STOPPED, {**STOPPED, "metric": "mrr@10"}))
    assert {name for name in now if now[name] != before[name]} == {*BOOSTED, "mix", "z"}


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_run_is_still_found_by_the_identity_that_had_the_stopping_rule_of_all_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**EXPERIMENT, "stopping": STOPPED}
    with monkeypatch.context() as earlier:
        earlier.setattr(Job, "stopping_of", lambda job, config: job.stopping)
        first = run_experiment(config, runs=tmp_path, workers=1, progress=Progress())
    again = run_experiment(config, runs=tmp_path, workers=1, progress=Progress())
    assert (first.reused, again.reused) == (0, 3)
    assert [run.path for run in again.runs] == [run.path for run in first.runs]
    # not under another rule, of which those runs say nothing; from now on no rule matters
    assert [
        run_experiment(
            {**config, "stopping": {**STOPPED, "patience": patience}}, runs=tmp_path, workers=1
        ).reused
        for patience in (4, 5)
    ] == [0, 3]
