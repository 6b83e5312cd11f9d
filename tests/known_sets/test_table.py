"""The table of public sets: consistent in itself, and an experiment may name a set instead of its files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ltr_harness.config import load_experiment
from ltr_harness.errors import ConfigError
from ltr_harness.experiment.folds import FoldReader
from ltr_harness.known_sets import SETS


@pytest.mark.parametrize("name", SETS)
def test_entries_are_whole(name: str) -> None:
    known = SETS[name]
    assert known.home.startswith("https://")
    assert known.terms
    assert known.sources
    assert bool(known.downloads) != bool(known.by_hand), "either a program fetches it or a person is told how"
    for counted in known.counts:
        assert set(counted) <= set(known.files)
    assert set(known.digests) <= set(known.files)
    archives = [known.archive] if known.archive else []
    digests = [one.sha256 for one in known.downloads] + [one.sha256 for one in archives]
    digests += known.digests.values()
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    experiment = load_experiment(
        {"name": "x", "data": {"set": name, "root": "."}, "models": {"m": {"ranker": "random"}}},
        check_rankers=False,
    )
    assert experiment.data.max_grade == known.max_grade
    assert len(experiment.data.splits) == len(known.splits)


def test_folds_of_mslr_add_up() -> None:
    """Fold 1's parts, counted one by one in the set's description, are the whole set."""
    for name in ("mslr-web10k", "mslr-web30k"):
        counts = SETS[name].counts
        parts = [found for files, found in counts.items() if len(files) == 1]
        (whole,) = {found for files, found in counts.items() if len(files) == 3}
        assert sum(part.rows for part in parts) == whole.rows
        assert sum(part.queries for part in parts) == whole.queries


def test_parts_of_istella_add_up() -> None:
    """The parts are the 33,018 queries and the rows that the sets' own README counts."""
    for name, rows in (("istella", 10_454_629), ("istella-s", 3_408_630)):
        counts = SETS[name].counts.values()
        assert sum(part.queries for part in counts) == 33_018
        assert sum(part.rows for part in counts) == rows


@pytest.mark.parametrize("name", ["mslr-web10k", "mslr-web30k"])
def test_each_part_of_mslr_tests_once_and_validates_once(name: str) -> None:
    digests = SETS[name].digests
    test = [digests[f"Fold{i}/test.txt"] for i in range(1, 6)]
    assert [digests[f"Fold{i}/vali.txt"] for i in range(1, 6)] == [test[-1], *test[:-1]]
    assert len({*test, *(digests[f"Fold{i}/train.txt"] for i in range(1, 6))}) == 10


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
    whole = SETS["mq2008"].counts[tuple(SETS["mq2008"].splits["fold5"].values())]
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
