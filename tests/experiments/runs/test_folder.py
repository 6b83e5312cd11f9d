"""A run folder is there whole or not at all, and nothing damaged is believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ltr_harness._util.files import unfinished
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs import Record, load_run
from ltr_harness.experiments.runs.folder import (
    damaged_files,
    encoded,
    finish,
    folder_name,
    read_record,
    replace_files,
)
from ltr_harness.experiments.runs.identity import evaluation_identity, training_identity


def record(**changes: object) -> Record:
    facts = {
        "status": "complete",
        "experiment": "e",
        "model": "m",
        "ranker": "random",
        "objective": None,
        "fold": "all",
        "seed": 1,
        "identity": "a" * 64,
        "evaluation_identity": "b" * 64,
        "params": {},
        "reading": {},
        "packages": {},
        "config": {},
        "threads": 1,
        "data": {},
        "metrics": {},
        "primary": "ndcg@10",
        "stopping": None,
        "best_round": None,
        "rounds_trained": None,
        "seconds": {},
        "environment": {},
    }
    return Record(**(facts | changes))  # type: ignore[arg-type]


def make(parent: Path, name: str = "run", text: str = "trees", **changes: object) -> Path:
    with unfinished(parent) as folder:
        (folder / "model.txt").write_text(text)
        return finish(folder, parent / name, record(**changes))


def test_a_finished_folder_holds_its_files_and_nothing_is_left_over(tmp_path: Path) -> None:
    target = make(tmp_path)
    assert sorted(path.name for path in target.iterdir()) == ["model.txt", "record.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    found = load_run(target).record
    assert damaged_files(target, found) == []


def test_an_error_while_filling_leaves_nothing(tmp_path: Path) -> None:
    def interrupt() -> None:
        with unfinished(tmp_path) as folder:
            (folder / "model.txt").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert list(tmp_path.iterdir()) == []


def test_the_second_of_two_processes_that_finish_the_same_run_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path, text="first")
    make(tmp_path, text="second")
    assert (tmp_path / "run" / "model.txt").read_text() == "first"


def test_a_failed_run_is_replaced_by_a_finished_one_and_never_the_other_way(tmp_path: Path) -> None:
    make(tmp_path, text="", status="failed", error="no")
    make(tmp_path, text="good")
    assert (tmp_path / "run" / "model.txt").read_text() == "good"
    make(tmp_path, text="", status="failed", error="no")
    found = read_record(tmp_path / "run")
    assert found is not None
    assert found.status == "complete"


@pytest.mark.parametrize("damage", ["change", "truncate", "remove"])
def test_damage_is_noticed_and_the_run_is_replaced(tmp_path: Path, damage: str) -> None:
    target = make(tmp_path)
    model = target / "model.txt"
    if damage == "remove":
        model.unlink()
    else:
        model.write_text("tr" if damage == "truncate" else "weeds")
    found = read_record(target)
    assert found is not None
    assert damaged_files(target, found) == ["model.txt"]
    make(tmp_path)
    assert model.read_text() == "trees"


def test_a_table_that_was_cut_short_is_refused_with_its_cure(tmp_path: Path) -> None:
    with unfinished(tmp_path) as folder:
        (folder / "per_query.parquet").write_bytes(b"PAR1" * 10)
        target = finish(folder, tmp_path / "run", record())
    (target / "per_query.parquet").write_bytes(b"PAR1")
    with pytest.raises(
        DataError, match=r"per_query.parquet: not the file its record.json describes .* again"
    ):
        _ = load_run(target).per_query


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no record.json"),
        ("{", "is not JSON"),
        (
            '{"schema_version": 99}',
            "has schema version 99, written by ltr-harness of a later version; this version reads 1 to 3",
        ),
        ('{"schema_version": 1}', "does not hold what a record must"),
    ],
)
def test_what_is_no_run_says_why(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "record.json").write_text(content)
    with pytest.raises(DataError, match=message):
        load_run(tmp_path)


def test_a_replacement_that_is_killed_half_way_is_seen(tmp_path: Path) -> None:
    target = make(tmp_path)
    found = load_run(target).record
    replace_files(target, lambda folder: _write(folder / "per_query.parquet", "new"), found)
    again = load_run(target).record
    assert set(again.files) == {"model.txt", "per_query.parquet"}
    assert damaged_files(target, again) == []
    # killed between the new table and the new record: the table does not fit the record
    (target / "per_query.parquet").write_text("newer")
    assert damaged_files(target, again) == ["per_query.parquet"]


@pytest.mark.long
@given(st.text(min_size=1, max_size=300))
@example("000:::~" + "\x80" * 7 + "𐀀")  # 79 characters before the tilde is written as three
def test_any_name_becomes_one_part_of_a_path(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    text = encoded(name)
    assert text not in ("", ".", "..")
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-%")
    assert len(text) <= 80
    assert os.path.basename(text) == text


def test_different_names_have_different_folders() -> None:
    assert folder_name("a/b", "all", 1, "0" * 64) != folder_name("a%2Fb", "all", 1, "0" * 64)
    assert folder_name("x" * 200, "all", 1, "0" * 64) != folder_name("x" * 201, "all", 1, "0" * 64)


def test_identity_changes_with_whatever_can_move_a_tree_and_with_nothing_else() -> None:
    facts: dict[str, object] = {
        "ranker": {"ranker": "lightgbm", "params": {"num_leaves": 31}},
        "seed": 1,
        "rounds": None,
        "stopping": {"metric": "ndcg@10", "patience": 50},
        "train": "t",
        "valid": "v",
        "packages": {"lightgbm": "4.7.0"},
        "threads": None,
    }
    first = training_identity(**facts)  # type: ignore[arg-type]
    assert training_identity(**dict(reversed(facts.items()))) == first  # type: ignore[arg-type]
    changes: dict[str, object] = {
        "ranker": {"ranker": "lightgbm", "params": {"num_leaves": 32}},
        "seed": 2,
        "rounds": 7,
        "stopping": {"metric": "ndcg@5", "patience": 50},
        "train": "u",
        "valid": "w",
        "packages": {"lightgbm": "4.7.1"},
        "threads": 2,
    }
    others = {training_identity(**(facts | {key: value})) for key, value in changes.items()}  # type: ignore[arg-type]
    assert len(others | {first}) == len(changes) + 1
    assert evaluation_identity(first, ["ndcg@10"], "x") != evaluation_identity(first, ["ndcg@5"], "x")


def test_everything_is_on_the_disk_before_the_name_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[int | str] = []
    fsync, rename = os.fsync, Path.rename

    def sync_and_log(handle: int) -> None:
        fsync(handle)
        happened.append(os.fstat(handle).st_ino)

    def rename_and_log(self: Path, target: Path) -> Path:
        happened.append("renamed")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", sync_and_log)
    monkeypatch.setattr(Path, "rename", rename_and_log)
    run = make(tmp_path)
    before = set(happened[: happened.index("renamed")])
    assert before == {path.stat().st_ino for path in (run, run / "model.txt", run / "record.json")}
    assert happened[-1] == tmp_path.stat().st_ino  # and the name itself after


def _write(path: Path, text: str) -> None:
    path.write_text(text)
