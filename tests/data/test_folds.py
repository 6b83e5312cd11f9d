"""An experiment's folds come out of the cache, parts of a file as well as whole files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness.data.cache import DataCache
from ltr_harness.data.dataset import fingerprint_dataset, fingerprint_judgments
from ltr_harness.data.readers.letor import Letor
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.training.folds import FoldReader


def config(root: Path, **data: Any) -> dict[str, Any]:
    return {
        "name": "x",
        "data": {"reader": "letor", "root": str(root), **data},
        "metrics": {"report": ["ndcg"], "cutoffs": [5], "primary": "ndcg@5"},
        "stopping": {"metric": "ndcg@5", "patience": 5},
        "report": {"formats": ["json"]},
        "models": {"first": {"ranker": "feature", "feature": 1}},
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, n, width in (("train", 40, 5), ("test", 12, 3)):
        draws = np.random.default_rng(n)
        with open(tmp_path / f"{name}.txt", "w") as stream:
            for row in range(n * 4):
                values = " ".join(f"{i + 1}:{v:.3f}" for i, v in enumerate(draws.random(width)))
                stream.write(f"{row % 3} qid:{name}{row // 4} {values}\n")
    time.sleep(0.06)
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    "data",
    [
        {"splits": {"train": ["train.txt"], "valid": {"holdout": 0.25}, "test": ["test.txt"]}},
        {"folds": 4, "files": ["train.txt"]},
    ],
    ids=["hold-out and a narrow test file", "made folds"],
)
def test_a_warm_start_reads_nothing_and_gives_the_same(
    root: Path, tmp_path: Path, data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load_experiment(config(root, **data))
    plain = FoldReader(experiment.data, DataCache(None))
    expected = [plain.read(name) for name in plain.names()]
    cutting = FoldReader(experiment.data, DataCache(tmp_path / "cache"))
    assert [cutting.read(name).facts for name in cutting.names()] == [fold.facts for fold in expected]
    monkeypatch.setattr("ltr_harness.data.cache._SMALL", 0)  # as of larger data, whose parts are stored
    cold = FoldReader(experiment.data, DataCache(tmp_path / "cache"))
    first = [cold.read(name) for name in cold.names()]

    def refuse_reading(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(Letor, "read", refuse_reading)
    monkeypatch.setattr("ltr_harness.data.cache.fingerprint_dataset", refuse_reading)
    monkeypatch.setattr("ltr_harness.data.cache.file_digest", refuse_reading)
    warm = FoldReader(experiment.data, DataCache(tmp_path / "cache"))
    second = [warm.read(name) for name in warm.names()]
    for a, b, c in zip(expected, first, second, strict=True):
        assert a.facts == b.facts == c.facts
        for split, part in c.splits.items():
            assert fingerprint_dataset(part) == a.facts[split].fingerprint
            assert fingerprint_judgments(part.judgments) == a.facts[split].judgments_fingerprint
            assert part.feature_names == a.train.feature_names
            assert part.cautions == a.splits[split].cautions
            assert part.source == a.splits[split].source
            assert isinstance(part.features.base, np.memmap), "shared with other processes"


def parts(data: dict[str, Any], fold: str = "all") -> dict[str, Any]:
    synthetic = {
        "reader": "synthetic",
        "markets": 4,
        "n_queries": {"train": 40, "valid": 5, "test": 5},
        **data,
    }
    made = {**config(Path()), "data": synthetic, "models": {"first": {"ranker": "random"}}}
    return dict(FoldReader(load_experiment(made).data, DataCache(None)).read(fold).splits)


def splits(**how: Any) -> dict[str, Any]:
    return {"splits": {"train": "train", "valid": {"holdout": 0.25, **how}, "test": "test"}}


def test_validation_queries_by_attribute() -> None:
    found = parts(splits(stratify="market"))
    shares = [
        (found["valid"].query_attributes["market"] == name).sum() / 10
        - (found["train"].query_attributes["market"] == name).sum() / 30
        for name in ("market_1", "market_2")
    ]
    assert np.abs(shares).max() < 0.1
    found = parts(splits(together="market"))
    markets = [set(found[name].query_attributes["market"]) for name in ("train", "valid")]
    assert not markets[0] & markets[1]
    with pytest.raises(DataError, match="column 'market': holds text that is not a time: 'market_1'"):
        parts(splits(by_time="market"))


def test_folds_by_attribute() -> None:
    made = {"folds": 3, "files": ["train"], "fold_together": "market"}
    found = parts(made, "fold2")
    markets = [set(part.query_attributes["market"]) for part in found.values()]
    assert not markets[0] & markets[2]


def test_attributes_that_are_not_there() -> None:
    with pytest.raises(
        DataError, match=r"synthetic train \(seed 1\): has no query attribute 'markt'; did you mean 'market'"
    ):
        parts(splits(stratify="markt"))
    with pytest.raises(ConfigError, match="a holdout with together and stratify; expected at most one"):
        parts(splits(stratify="market", together="market"))
    with pytest.raises(ConfigError, match=r"data.fold_together without data.folds; add folds: 5"):
        parts({**splits(), "fold_together": "market"})
    with pytest.raises(
        ConfigError, match=r"data.fold_stratify with data.fold_together; expected one of them"
    ):
        parts({"folds": 3, "files": ["train"], "fold_together": "market", "fold_stratify": "market"})
