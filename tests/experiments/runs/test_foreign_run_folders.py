"""A run folder that somebody else has made: whatever it holds is read as what it is, or told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from ltr_harness._util.cores import available_cores
from ltr_harness._util.files import file_digest, stored_file
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs import load_run
from ltr_harness.experiments.runs.record import read_study

FROZEN = Path(__file__).parent / "frozen" / "v1"
LGBM = "lgbm--all--s1--22c90ded13dd"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of an experiment; a command that waits for a pipe ends after a while."""

    def stop_waiting(*_: object) -> None:
        raise AssertionError("waits for ever")

    signal.signal(signal.SIGALRM, stop_waiting)
    signal.alarm(60)
    yield Path(shutil.copytree(FROZEN, tmp_path / "v1"))
    signal.alarm(0)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_elsewhere(path: Path) -> None:
    other = path.parents[2] / "other"
    other.write_text("{}")
    path.symlink_to(other)


SAID = {
    pipe: "is a pipe, a device or a folder, not a file",
    link_endless: "is a link to outside of its folder",
    link_elsewhere: "is a link to outside of its folder",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", [pipe, link_endless, link_elsewhere])
@pytest.mark.parametrize(
    ("name", "command"),
    [
        (f"{LGBM}/record.json", ["compare", "v1"]),
        (f"{LGBM}/record.json", ["predict", f"v1/{LGBM}", "v1/rows.csv", "-o", "out.csv"]),
        (f"{LGBM}/per_query.parquet", ["compare", "v1"]),
        (f"{LGBM}/test_scores.parquet", ["report", "v1", "-o", "out", "--format", "json"]),
        (f"{LGBM}/model.txt", ["show", "importance", f"v1/{LGBM}"]),
        ("experiment.yaml", ["compare", "v1"]),
    ],
)
def test_a_pipe_a_device_or_a_link_is_told(
    folder: Path,
    name: str,
    command: list[str],
    kind: Callable[[Path], None],
    ltr: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder.parent)
    (folder / name).unlink()
    kind(folder / name)
    code, _, err = ltr(*command)
    assert code in (1, 2), err
    assert SAID[kind] in err


@pytest.mark.long
def test_what_is_not_needed_is_not_waited_for(folder: Path, ltr: Callable[..., tuple[int, str, str]]) -> None:
    """These data are made from a seed: where they were does not matter."""
    (folder / "experiment.yaml").unlink()
    pipe(folder / "experiment.yaml")
    assert ltr("reproduce", folder / LGBM)[0] == 0


@pytest.mark.parametrize("kind", [pipe, link_endless])
def test_a_list_of_runs_says_which_cannot_be_read(
    folder: Path, kind: Callable[[Path], None], ltr: Callable[..., tuple[int, str, str]]
) -> None:
    for name in (f"{LGBM}/record.json", "plan.json"):
        (folder / name).unlink()
        kind(folder / name)
    code, out, _ = ltr("show", "runs", folder)
    assert code == 0
    assert f"{LGBM}: record.json {SAID[kind]}" in out


@pytest.mark.parametrize("name", ["/dev/zero", "../v1/plan.json", ".", "", "a\0b"])
def test_names_lead_nowhere_else(folder: Path, name: str) -> None:
    with pytest.raises(OSError, match="is not the name of a file in this folder"):
        stored_file(folder, name)


def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    (folder / "same.json").symlink_to("plan.json")
    assert file_digest(stored_file(folder, "same.json")) == file_digest(folder / "plan.json")


def change(folder: Path, **changes: Any) -> Path:
    record = folder / LGBM / "record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | changes))
    return folder / LGBM


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"threads": 1_000_000_000}, "threads: Input should be less than or equal to 4096"),
        ({"point": {"model": "x", "options": {}}}, "point.of: Field required"),
        ({"learned": {"position_bias": [1e308, None]}}, "position_bias is not one or two numbers for each"),
        ({"learned": {"position_bias": {"bias_factor": {"x": [1.0]}}}}, "position_bias is not one or two"),
        ({"reading": {"grades": "bad"}}, "reading: grades: Input should be a valid dictionary"),
        (
            {"reading": {"relevance": {"mode": "most"}}},
            "reading: relevance: Input should be 'label'",
        ),
        ({"features": ["f"] * 1_000_001}, "features: List should have at most 1000000 items"),
        ({"seed": 10**30}, "seed: Input should be less than"),
        ({"seconds": {"fit": -1.0}}, "seconds.fit: Input should be greater than or equal to 0"),
    ],
)
def test_a_number_beyond_all_use_is_told(folder: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        load_run(change(folder, **changes))


def test_a_model_scores_on_no_more_threads_than_there_are_cores(folder: Path) -> None:
    run = load_run(change(folder, threads=4096))
    assert run.model.threads == available_cores()  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", ["[" * 200_000, '{"a":' * 200_000])
def test_json_of_any_depth_is_told(
    folder: Path, content: str, ltr: Callable[..., tuple[int, str, str]]
) -> None:
    (folder / "plan.json").write_text(content)
    (folder / LGBM / "record.json").write_text(content)
    code, _, err = ltr("compare", folder)
    assert code == 2
    assert f"{LGBM}: record.json is not JSON (cut short?)" in err


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "."),
        ({"query_id": ["a"], "label": ["x"], "score": [0.5]}, "its column label holds string, not numbers"),
        ({"query_id": ["a"], "label": [1.0], "score": [[0.5]]}, "its column score holds list"),
        ({"query_id": ["a"], "label": [1.0]}, "it has no column score"),
        (
            {"query_id": ["a", None], "label": [1.0, 0.0], "score": [0.5, 0.1]},
            "its column query_id has an empty place",
        ),
        (
            {"query_id": [1.0, float("nan")], "label": [1.0, 0.0], "score": [0.5, 0.1]},
            "its column query_id has an empty",
        ),
    ],
)
def test_a_table_of_another_form_is_told_though_its_record_knows_it(
    folder: Path, table: dict[str, Any] | None, said: str
) -> None:
    path = folder / LGBM / "test_scores.parquet"
    path.write_bytes(b"PAR1" * 10)
    if table is not None:
        parquet.write_table(pa.table(table), path)
    files = json.loads((folder / LGBM / "record.json").read_text())["files"]
    run = load_run(change(folder, files=files | {path.name: file_digest(path)}))
    for read in (lambda: run.test_scores, lambda: run.score_columns("query_id", "score")):
        with pytest.raises(DataError, match=rf"test_scores\.parquet: cannot be read \({said}"):
            read()


def test_a_ceiling_of_words_is_told(folder: Path, ltr: Callable[..., tuple[int, str, str]]) -> None:
    path = folder / LGBM / "per_query.parquet"
    table = parquet.read_table(path)
    words = pa.array(["x"] * table.num_rows)
    parquet.write_table(table.append_column("ndcg@3: ceiling", words), path)
    files = json.loads((folder / LGBM / "record.json").read_text())["files"]
    change(folder, files=files | {path.name: file_digest(path)})
    code, _, err = ltr("compare", folder)
    assert code == 2
    assert "per_query.parquet: cannot be read (its column ndcg@3: ceiling holds string, not numbers)" in err


@pytest.mark.parametrize("gain", [float("inf"), float("nan"), -1.0])
def test_an_importance_that_none_can_be_is_told(folder: Path, gain: float) -> None:
    """Infinity reached the page's charts, whose JSON has none."""
    path = folder / LGBM / "importance.parquet"
    parquet.write_table(pa.table({"feature": ["f1"], "gain": [gain], "split": [1.0]}), path)
    files = json.loads((folder / LGBM / "record.json").read_text())["files"]
    run = load_run(change(folder, files=files | {path.name: file_digest(path)}))
    with pytest.raises(
        DataError, match=r"importance\.parquet: has a gain or a split that is not a finite number"
    ):
        _ = run.importance


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("name", ["p50", "p99", "mean"])
def test_a_latency_that_none_can_be_is_told(folder: Path, name: str, number: float) -> None:
    """The mean of a timed model reached the page's charts, whose JSON has no infinity."""
    latency = {"documents": 10, "calls": 6, "p50": 30.0, "p99": None, "rounds": 3, "mean": 0.5}
    assert load_run(change(folder, latency=[latency])).record.latency[0].mean == 0.5
    with pytest.raises(DataError, match=rf"latency\.0\.{name}"):
        load_run(change(folder, latency=[latency | {name: number}]))


@pytest.mark.parametrize("changes", [{"inner_folds": -1}, {"seed": 10**30}, {"metric": "./mine.py:Mine"}])
def test_a_search_that_none_can_be_is_no_search(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A negative number of folds was believed, and refused once a run's record should hold it."""
    facts: dict[str, Any] = {
        "model": "m",
        "fold": "all",
        "identity": "i",
        "metric": "ndcg@10",
        "higher_is_better": True,
        "space": {},
        "sampler": "tpe",
        "pruner": "none",
        "inner_folds": None,
        "seed": 1,
        "trials": [],
        "environment": {},
    }
    (tmp_path / "study.json").write_text(json.dumps(facts))
    assert read_study(tmp_path) is not None
    (tmp_path / "study.json").write_text(json.dumps(facts | changes))
    assert read_study(tmp_path) is None
