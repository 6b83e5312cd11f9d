"""A search that is killed, interrupted, wanted twice or spread over processes finds what an undisturbed one finds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness.errors import TrainingError
from ltr_harness.experiments.runs.record import STUDIES, STUDY, StudyRecord, Trial, read_study
from ltr_harness.experiments.training.job import Job
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.experiments.training.search import FILES, LOCK, Search, _storages, _trials, opened, tune
from ltr_harness.workflow import prepare, read

from .commands import Command, stay_on_one_core  # type: ignore[import-not-found]
from .conftest import studies, trial_outcomes  # type: ignore[import-not-found]

pytest.importorskip("optuna", reason="needs the extra `tune`")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_core")]


def search(
    config: dict[str, Any],
    runs: Path,
    progress: Progress | None = None,
    workers: int = 1,
    force: bool = False,
) -> None:
    """The searches alone, without the runs and the report that follow."""
    prepared = prepare(read(config, runs=runs, force=force))
    job = replace(prepared, threads=1, workers=workers)
    tune(job, progress or Progress())


class Log(Progress):
    """Remembers which trials were made."""

    def __init__(self) -> None:
        self.trials: list[tuple[str, int]] = []

    def trial_ended(self, study: StudyRecord, trial: Trial) -> None:
        self.trials.append((str(study), trial.number))


def test_the_connections_of_a_search_in_a_database_are_closed(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["tune"] |= {"storage": "sqlite"}
    job = prepare(read(tuned_config, runs=tmp_path))
    [study] = job.open_studies
    with opened(job, study):
        [storage] = _storages.values()
        assert storage.engine.pool.checkedin() + storage.engine.pool.checkedout() > 0
    assert storage.engine.pool.checkedin() == storage.engine.pool.checkedout() == 0


# --- killed, interrupted, at once ---


SLOW = """
import os, time
from ltr_harness.models.lightgbm import LightGBMRanker

class Slow(LightGBMRanker):
    def fit(self, training):
        time.sleep(float(os.environ.get("SECONDS_BEFORE_FIT", 0)))  # not on the processor
        return super().fit(training)
"""


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize("storage", ["journal", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_killed_while_tuning_it_ends_in_what_an_undisturbed_search_finds(
    storage: str, tuned_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    tuned_config["models"]["lgb"]["ranker"] = f"{tmp_path}/slow.py:Slow"
    del tuned_config["models"]["xgb"]
    tuned_config["tune"] |= {"trials": 6, "storage": storage}
    undisturbed = run_experiment(tuned_config, runs=tmp_path / "undisturbed")
    config = tmp_path / "tuned.yaml"
    config.write_text(yaml.safe_dump(tuned_config, sort_keys=False))
    disturbed = tmp_path / "disturbed"
    with monkeypatch.context() as slowly:
        slowly.setenv("SECONDS_BEFORE_FIT", "0.3")
        command = Command(
            tmp_path, "run", config, "--runs", disturbed, "--workers", "1", prepare=stay_on_one_core
        )

    def two_are_over() -> bool:
        found = list((disturbed / "tuned" / STUDIES).glob(f"*/{STUDY}"))
        study = read_study(found[0].parent) if found else None
        return study is not None and len(study.trials) >= 2

    command.wait_until(two_are_over)
    time.sleep(0.05)  # and one is under way
    command.send(signal.SIGKILL, to_all=True)
    assert command.wait()[0] == -signal.SIGKILL
    kept = studies(disturbed)["lgb, all"].trials
    assert 2 <= len(kept) < 6
    log = Log()
    result = run_experiment(tuned_config, runs=disturbed, progress=log)
    assert [number for _, number in log.trials] == list(
        range(len(kept), 6)
    )  # no finished trial was made again
    assert trial_outcomes(disturbed) == trial_outcomes(tmp_path / "undisturbed")
    assert {run.path.name: run.record.metrics for run in result.runs} == {
        run.path.name: run.record.metrics for run in undisturbed.runs
    }


def job_study_folder(tuned_config: dict[str, Any], runs: Path) -> tuple[Job, StudyRecord, Path]:
    job = prepare(read(tuned_config, runs=runs))
    return job, job.studies[0], job.folder_of(job.studies[0])


OVER = Trial(number=0, status="complete", point={}, value=0.5, seconds=1.0, best_round=3, rounds_trained=5)


def test_half_a_line_and_a_lock_that_nobody_holds_are_mended(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    job, study, folder = job_study_folder(tuned_config, tmp_path)
    with opened(job, study) as open_search:
        open_search.tell(open_search.ask(), OVER)
    journal = folder / FILES["journal"]
    with journal.open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    journal.with_name("journal.log.lock").symlink_to(journal)
    with opened(job, study) as open_search:
        open_search.tell(open_search.ask(), OVER)
        assert [trial.number for trial in open_search.write().trials] == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")
def test_a_link_or_a_pipe_among_a_searchs_files_is_replaced(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    """The target of a stranger's link would have been cut to the whole lines of a journal: none."""
    job, study, folder = job_study_folder(tuned_config, tmp_path)
    folder.mkdir(parents=True)
    other = tmp_path / "other.txt"
    other.write_text("not a journal")
    (folder / FILES["journal"]).symlink_to(other)
    (folder / "lock").symlink_to(other)
    os.mkfifo(folder / "study.json")
    with opened(job, study) as open_search:
        open_search.tell(open_search.ask(), OVER)
    assert other.read_text() == "not a journal"
    assert read_study(folder) is not None


@pytest.mark.parametrize(
    "garbage",
    [b"[" * 200_000 + b"\n", b"\x00\xff\x1b\n", b"{}\n[]\n", b'{"op_code": "x", "worker_id": 1}\n', b"\n"],
)
def test_what_stands_behind_a_damaged_line_is_made_again(
    tuned_config: dict[str, Any], tmp_path: Path, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    job, study, folder = job_study_folder(tuned_config, tmp_path)
    with opened(job, study) as open_search:
        first = open_search.ask()
        open_search.tell(first, OVER)
        whole = (folder / FILES["journal"]).read_bytes()
        second = open_search.ask()
        open_search.tell(second, OVER)
    journal = folder / FILES["journal"]
    journal.write_bytes(whole + garbage + journal.read_bytes()[len(whole) :])
    with opened(job, study) as open_search:
        assert [trial.point for trial in open_search.write().trials] == [first.point]
        assert open_search.ask().point == second.point
    assert caplog.messages == [f"{folder}: 1 trial lost from journal.log and repeated"]


@pytest.mark.parametrize(
    ("storage", "content"),
    [
        ("journal", b""),
        ("journal", b'{"op_code": 4, "worker_id": "x", "study_id": 7}\n'),
        ("journal", b'{"op_code": 99, "worker_id": "x"}\n'),
        ("sqlite", b"SQLite format 3\0 no more"),
    ],
)
def test_trials_that_are_lost_are_made_again(
    tuned_config: dict[str, Any],
    tmp_path: Path,
    storage: str,
    content: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tuned_config["tune"]["storage"] = storage
    job, study, folder = job_study_folder(tuned_config, tmp_path)
    with opened(job, study) as open_search:
        first = open_search.ask()
        open_search.tell(first, OVER)
    path = folder / FILES[storage]
    path.write_bytes(content)
    with opened(job, study) as open_search:
        again = open_search.ask()
        assert again.point == first.point
        open_search.tell(again, OVER)
    assert caplog.messages[-1] == f"{folder}: 1 trial lost from {FILES[storage]} and repeated"
    with opened(job, study) as open_search:
        assert [trial.point for trial in open_search.write().trials] == [first.point]


def test_what_was_interrupted_is_tried_again_and_counts_once(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    job, study, _ = job_study_folder(tuned_config, tmp_path)
    with opened(job, study) as open_search:  # as Ctrl-C leaves it: asked and never told
        first = open_search.ask()
    with opened(job, study) as open_search:
        again = open_search.ask()
        assert again.point == first.point
        open_search.tell(again, OVER)
        assert [trial.point for trial in open_search.write().trials] == [first.point]


def test_what_was_not_written_down_any_more_is_written_the_next_time(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["tune"]["trials"] = 2
    search(tuned_config, tmp_path)
    before, log = trial_outcomes(tmp_path), Log()
    (file,) = (tmp_path / "tuned" / STUDIES).glob(f"*/{STUDY}")
    file.unlink()  # killed between the end of the last trial and its record
    assert prepare(read(tuned_config, runs=tmp_path)).open_studies
    search(tuned_config, tmp_path, log)
    assert log.trials == []
    assert trial_outcomes(tmp_path) == before
    assert not prepare(read(tuned_config, runs=tmp_path)).open_studies


def test_a_trial_that_was_cut_off_while_it_was_written_down_is_tried_again(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    job, study, _ = job_study_folder(tuned_config, tmp_path)
    with opened(job, study) as open_search:
        first = open_search.ask()
        for name in ("value", "seconds"):  # told in part when the power went
            open_search._running[first.number].set_user_attr(name, 0.5)
        open_search._running.clear()
    with opened(job, study) as open_search:
        assert open_search.write().trials == []
        assert open_search.ask().point == first.point


def test_a_point_that_kills_its_process_three_times_has_failed(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    job, study, _ = job_study_folder(tuned_config, tmp_path)
    points = []
    for _ in range(3):
        with opened(job, study) as open_search:
            points.append(open_search.ask().point)
            open_search._running.clear()  # as a kill leaves it: begun, and nobody there to end it
    assert points[0] == points[1] == points[2]
    with opened(job, study) as open_search:
        (trial,) = open_search.write().trials
        assert trial.status == "failed"
        assert trial.error == "its process was killed 3 times in training, perhaps for lack of memory"
        assert open_search.ask().point != points[0]


def test_two_at_once_are_refused_in_words(tuned_config: dict[str, Any], tmp_path: Path) -> None:
    tuned_config["tune"]["trials"] = 2
    _, _, folder = job_study_folder(tuned_config, tmp_path)
    holder = (
        "import fcntl, pathlib, sys; p = pathlib.Path(sys.argv[1]); p.mkdir(parents=True, exist_ok=True); "
        f"f = (p / {LOCK!r}).open('w'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holder, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(
            TrainingError, match=r"lgb is being tuned by another process in .*run the same command"
        ):
            run_experiment(tuned_config, runs=tmp_path)
        process.kill()  # the lock ends with its process, however that ends
    search(tuned_config, tmp_path)
    assert len(trial_outcomes(tmp_path)["lgb, all"]) == 2


def test_force_searches_anew(tuned_config: dict[str, Any], tmp_path: Path) -> None:
    tuned_config["tune"]["trials"] = 2
    search(tuned_config, tmp_path)
    before, log = trial_outcomes(tmp_path), Log()
    search(tuned_config, tmp_path, log, force=True)
    assert log.trials == [("lgb", 0), ("lgb", 1)]
    assert trial_outcomes(tmp_path) == before


# --- several processes ---

POISON = """
import os, signal
from ltr_harness.models.random import RandomRanker

class Poison(RandomRanker):
    size: int = 1

    def fit(self, training):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_points_that_kill_worker_after_worker_end_as_failed_trials(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "poison.py").write_text(POISON)
    tuned_config["models"] = {"p": {"ranker": f"{tmp_path}/poison.py:Poison"}}
    space = {"p": {"size": {"low": 1, "high": 9}}}
    tuned_config["tune"] = {"trials": 2, "parallel": 2, "models": space}
    for _ in range(3):
        with pytest.raises(TrainingError, match="a worker process died while tuning p"):
            search(tuned_config, tmp_path, workers=2)
    search(tuned_config, tmp_path, workers=2)
    (trials,) = trial_outcomes(tmp_path).values()
    assert [(number, status) for number, status, *_ in trials] == [(0, "failed"), (1, "failed")]


def test_searches_side_by_side_find_what_they_find_alone(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["tune"]["models"]["xgb"] = {"params.max_depth": {"low": 2, "high": 6}}
    tuned_config["tune"]["trials"] = 2
    search(tuned_config, tmp_path / "one")
    search(tuned_config, tmp_path / "two", workers=2)
    assert trial_outcomes(tmp_path / "one") == trial_outcomes(tmp_path / "two")
    assert len(trial_outcomes(tmp_path / "two")) == 2


class Counting(Executor):
    """Ends every trial at once, and remembers how many were under way when it began."""

    def __init__(self, open_search: Search) -> None:
        self.search = open_search
        self.running: list[int] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.running.append(self.search.n_running)
        future: Future[Any] = Future()
        future.set_result(OVER)
        return future


@pytest.mark.parametrize(("parallel", "workers", "at_once"), [(1, 4, 1), (3, 4, 3), (3, 2, 2)])
def test_one_search_has_no_more_trials_under_way_than_it_may(
    parallel: int, workers: int, at_once: int, tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["tune"] |= {"trials": 6, "parallel": parallel}
    job, study, _ = job_study_folder(tuned_config, tmp_path)
    with opened(job, study) as open_search:
        pool = Counting(open_search)
        for one, asked, outcome in _trials(job, [open_search], pool, workers):
            one.tell(asked, outcome)
    assert max(pool.running) == at_once
    assert len(pool.running) == 6


def test_parallel_trials_of_one_search_keep_to_the_budget(
    tuned_config: dict[str, Any], tmp_path: Path
) -> None:
    tuned_config["tune"] |= {"trials": 5, "parallel": 2}
    search(tuned_config, tmp_path, workers=2)
    (record,) = studies(tmp_path).values()
    assert [trial.number for trial in record.trials] == list(range(5))
    assert len({json.dumps(trial.point) for trial in record.trials}) == 5
