"""The table of public sets: consistent in itself, and an experiment may name a set instead of its files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ltr_harness.data.known_sets import SETS
from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.training.folds import FoldReader
from tests.conftest import named_case


def test_entries_are_whole() -> None:
    for name in SETS:
        with named_case(name):
            known = SETS[name]
            assert known.home.startswith("https://")
            assert known.terms
            named = {file for split in known.splits.values() for file in split.values()}
            assert not [file for file in named if Path(file).name not in known.instructions]
            if known.archive is not None:
                assert known.archive.file in known.instructions
                assert re.fullmatch("[0-9a-f]{64}", known.archive.sha256)
            experiment = load_experiment(
                {"name": "x", "data": {"set": name, "root": "."}, "models": {"m": {"ranker": "random"}}},
                check_rankers=False,
            )
            assert experiment.data.max_grade == known.max_grade
            assert len(experiment.data.splits) == len(known.splits)


@pytest.mark.long
def test_a_set_in_its_published_layout_is_read(shared_data: Path, tmp_path: Path) -> None:
    order = [1, 2, 3, 4, 5]
    for fold in range(1, 6):
        folder = tmp_path / f"Fold{fold}"
        folder.mkdir()
        *train, valid, test = [shared_data / "mq2008" / f"S{i}.txt" for i in order]
        (folder / "train.txt").write_bytes(b"".join(path.read_bytes() for path in train))
        shutil.copy(valid, folder / "vali.txt")
        shutil.copy(test, folder / "test.txt")
        order = [*order[1:], order[0]]
    experiment = load_experiment(
        {
            "name": "x",
            "data": {"set": "mq2008", "root": str(tmp_path)},
            "models": {"m": {"ranker": "feature", "feature": 39}},
        }
    )
    reader = FoldReader(experiment.data)
    assert reader.names() == ["fold1", "fold2", "fold3", "fold4", "fold5"]
    fold = reader.read("fold5")
    whole = SETS["mq2008"].counts
    assert whole is not None
    assert sum(facts.n_queries for facts in fold.facts.values()) == whole.queries
    assert sum(facts.n_rows for facts in fold.facts.values()) == whole.rows
    assert fold.train.n_features == 46


def test_what_the_file_says_wins_over_the_set() -> None:
    data = {
        "set": "mslr-web30k",
        "root": ".",
        "max_grade": 5,
        "splits": {"train": "a", "valid": "b", "test": "c"},
    }
    experiment = load_experiment({"name": "x", "data": data, "models": {"m": {"ranker": "random"}}})
    assert experiment.data.max_grade == 5
    assert experiment.data.splits["all"].train == ("a",)
    made = {"set": "mslr-web30k", "root": ".", "folds": 3, "files": ["a"]}
    experiment = load_experiment({"name": "x", "data": made, "models": {"m": {"ranker": "random"}}})
    assert experiment.data.folds == 3


def test_an_unknown_set() -> None:
    with pytest.raises(ConfigError, match=r"data.set is 'mslr-web3k'; did you mean 'mslr-web30k'\?"):
        load_experiment({"name": "x", "data": {"set": "mslr-web3k"}, "models": {"m": {"ranker": "random"}}})
