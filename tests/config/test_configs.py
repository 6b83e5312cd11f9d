"""The files in configs/ do what they say, on the data they are about."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ltr_harness.config import Experiment, load_experiment
from ltr_harness.rankers import Facts

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
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
        assert model.ranker.check(Facts.of(train, stopping=True)) == []


def test_the_quickstart_sorts_by_a_feature_that_exists() -> None:
    experiment = load("quickstart")
    train = experiment.data.reader.read(experiment.data.splits["all"].train, experiment.data.root)
    for model in experiment.models.values():
        assert model.ranker.check(Facts.of(train, stopping=True)) == []
    assert train.labels.max() == experiment.data.max_grade
