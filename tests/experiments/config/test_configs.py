"""The files in configs/ do what they say, on the data they are about."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness.experiments.config import Experiment, load_experiment
from ltr_harness.models.ranker import TrainingFacts

pytestmark = pytest.mark.long

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
DATA = {"mq2008": "mq2008", "lightgbm_example": "lightgbm_lambdarank"}


def load(name: str, overrides: list[str] | None = None) -> Experiment:
    return load_experiment(CONFIGS / f"{name}.yaml", overrides or [])


@pytest.mark.parametrize(
    "path",
    sorted(set(CONFIGS.glob("*.yaml")) - set(CONFIGS.glob("monitor_*.yaml"))),
    ids=lambda path: path.stem,
)
def test_every_config_is_sound_and_tells_editors_its_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=./schema.json\n")
    assert "ltr-harness run configs/" in text  # how to run it stands in it
    experiment = load_experiment(path)
    assert str(experiment.metrics.primary) == "ndcg@10"
    assert experiment.stopping is not None
    assert str(experiment.stopping.metric) == "ndcg@10"


@pytest.mark.parametrize("name", ["quickstart", "mq2008", "lightgbm_example"])
def test_the_seed_matters_in_every_boosted_model(name: str) -> None:
    for model in load(name).models.values():
        assert model.ranker.seed_matters == (model.ranker_name != "feature")


def test_the_folds_of_mq2008_are_the_official_ones(shared_data: Path) -> None:
    with (shared_data / "mq2008" / "folds.tsv").open(encoding="utf-8") as lines:
        official = {
            row["fold"].lower(): tuple(
                tuple(f"{part}.txt" for part in row[side].split("+")) for side in ("train", "vali", "test")
            )
            for row in csv.DictReader(lines, delimiter="\t")
        }
    splits = load("mq2008").data.splits
    assert {fold: (split.train, split.valid, split.test) for fold, split in splits.items()} == official


@pytest.mark.parametrize("name", DATA)
def test_the_models_can_work_on_the_real_data(name: str, shared_data: Path) -> None:
    experiment = load(name, [f"data.root={shared_data / DATA[name]}"])
    data = experiment.data
    split = next(iter(data.splits.values()))
    train = data.reader.read(split.train, data.root)
    assert data.max_grade == max(train.labels)
    assert data.reader.read(split.test, data.root).n_queries > 0
    for model in experiment.models.values():
        assert model.ranker.check(TrainingFacts.of(train, stopping=True)) == []


def test_the_study_finds_that_copies_and_noise_can_go(tmp_path: Path) -> None:
    small = ["report.formats=[json]", "stopping.max_rounds=10"]
    result = run_experiment(CONFIGS / "next-gain.yaml", runs=tmp_path, workers=1, overrides=small)
    assert result.report is not None
    (gain,) = result.report.next_gains
    verdicts = {worth.groups[0]: worth.verdict for worth in gain.groups}
    assert verdicts == {"match": "needed", "copies": "removable", "query": "needed", "noise": "removable"}
    assert gain.together is not None
    assert (gain.together.groups, gain.together.verdict) == (("copies", "noise"), "removable")
    assert gain.queries is not None
    assert gain.queries.outlook == "forecast"


def test_the_quickstart_sorts_by_a_feature_that_exists() -> None:
    experiment = load("quickstart")
    train = experiment.data.reader.read(experiment.data.splits["all"].train, experiment.data.root)
    for model in experiment.models.values():
        assert model.ranker.check(TrainingFacts.of(train, stopping=True)) == []
    assert train.labels.max() == experiment.data.max_grade


@cache
def letor(features: tuple[int, ...], top: int, seed: int, n_queries: int = 8) -> str:
    """A file of eight queries; that of one number is the same in every test."""
    rng = np.random.default_rng(seed)
    row = "%d qid:%d " + " ".join(f"{feature}:%.3f" for feature in features) + "\n"
    lines = []
    for query in range(n_queries):
        for label in rng.permutation(np.arange(15) % (top + 1)):
            lines.append(row % (label, seed * 1000 + query, *rng.normal(label, 2, len(features))))
    return "".join(lines)


def write_layout(experiment: Experiment, folder: Path, features: tuple[int, ...], top: int = 4) -> None:
    """Small files in the places where the experiment's set has large ones."""
    data = experiment.data
    parts = [
        part
        for split in data.splits.values()
        for part in (split.train, split.valid, split.test)
        if isinstance(part, tuple)
    ]
    for seed, file in enumerate(dict.fromkeys(file for part in [*parts, data.files or ()] for file in part)):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(letor(features, top, seed), encoding="utf-8")


LARGE = {"mslr-web30k": 136, "yahoo": 700, "istella": 220}


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize("name", LARGE)
def test_configs_of_sets_that_nobody_may_copy_run_on_small_files_of_the_same_layout(
    name: str, tmp_path: Path
) -> None:
    features = (*range(1, LARGE[name], 45), LARGE[name])  # those that a row lacks are 0
    write_layout(load(name), tmp_path / "set", features)
    small = [f"data.root={tmp_path / 'set'}", "stopping.max_rounds=3", "stopping.every=1", "seeds=[1]"]
    result = run_experiment(CONFIGS / f"{name}.yaml", overrides=small, runs=tmp_path / "runs")
    assert not result.failures
    assert {run.record.model for run in result.runs} == set(load(name).models)


@pytest.mark.usefixtures("without_report")
def test_the_config_of_own_rows_runs_on_rows_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    grade = rng.integers(0, 4, 600)
    rows = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(60), 10),
            "country": np.repeat(["de", "fr", "it"], 200),
            "product_id": np.arange(600),
            "grade": grade,
            "current_score": grade + rng.normal(0, 2, 600),
            "price": rng.normal(size=600),
        }
    )
    rows.to_csv(tmp_path / "rows.csv", index=False)
    small = [f"data.root={tmp_path}", "stopping.max_rounds=3", "seeds=[1]"]
    result = run_experiment(CONFIGS / "own-csv.yaml", overrides=small, runs=tmp_path / "runs")
    assert not result.failures
    assert {run.record.model for run in result.runs} == {"lgbm-lambdarank", "xgb-ndcg", "today", "random"}
