"""The distribution of models to workers: those that share data stay together, and one that dies is tried once more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Future
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest

from ltr_harness import run_experiment
from ltr_harness.errors import TrainingError
from ltr_harness.experiments.training.job import Task
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.experiments.training.workers import Rounds, WorkerPool, dispatch


def task(model: str, fold: str, seed: int) -> Task:
    name = f"{model}-{fold}-{seed}"
    return Task(model, fold, seed, True, name, name, Path(name), "train")


class Pool(WorkerPool):
    """Workers that are done as soon as they begin; the tasks named in `deadly` kill theirs."""

    lost = (EOFError,)

    def __init__(self, n_workers: int, deadly: dict[str, int] | None = None) -> None:
        self.names = [f"w{number}" for number in range(n_workers)]
        self.trained: dict[str, list[Task]] = {name: [] for name in self.names}
        self.deadly = deadly or {}
        self.replaced = 0

    def workers(self) -> Collection[str]:
        return self.names

    def submit(self, worker: str, task: Task) -> Future[Any]:
        future: Future[Any] = Future()
        self.trained[worker].append(task)
        if self.deadly.get(task.model, 0):
            self.deadly[task.model] -= 1
            future.set_exception(EOFError("gone"))
        else:
            future.set_result(f"run of {task}")
        return future

    def replace(self, worker: str) -> None:
        self.replaced += 1

    def messages(self) -> Iterable[Rounds]:
        return ()

    def fail(self, task: Task, problem: TrainingError) -> Any:
        return str(problem)


def dispatched(tasks: list[Task], pool: Pool) -> dict[str, Any]:
    return {str(task): run for task, run in dispatch(tasks, pool, Progress())}


@pytest.mark.parametrize("n_workers", [1, 2, 3, 7])
def test_what_shares_binned_data_is_trained_by_one_worker_in_a_row(n_workers: int) -> None:
    tasks = [task(*one) for one in product(["a", "b", "c"], ["f1", "f2", "f3", "f4"], [1, 2])]
    pool = Pool(n_workers)
    assert set(dispatched(tasks, pool)) == {str(one) for one in tasks}
    for trained in pool.trained.values():
        binned = [key for key, _ in groupby((one.fold, one.model) for one in trained)]
        assert len(binned) == len(set(binned))  # never back to what it had dropped
    if n_workers == 2:
        folds = [{one.fold for one in trained} for trained in pool.trained.values()]
        assert folds[0].isdisjoint(folds[1])


def test_with_a_single_fold_each_worker_takes_models_of_its_own() -> None:
    tasks = [task(*one) for one in product(["a", "b"], ["all"], [1, 2, 3])]
    pool = Pool(2)
    dispatched(tasks, pool)
    assert [{one.model for one in trained} for trained in pool.trained.values()] == [{"a"}, {"b"}]


def test_a_death_is_forgiven_once() -> None:
    tasks = [task("a", "all", 1), task("once", "all", 1), task("always", "all", 1), task("b", "all", 1)]
    pool = Pool(2, {"once": 1, "always": 9})
    ended = dispatched(tasks, pool)
    assert ended["once, seed 1"] == "run of once, seed 1"
    assert "died, and so did the next one" in ended["always, seed 1"]
    assert pool.replaced == 3
    assert len(ended) == 4


MAPPED = '''
from pathlib import Path
import numpy as np
from ltr_harness.models.random import RandomRanker

class Mapped(RandomRanker):
    """Says where its features are."""

    said: Path

    def fit(self, training):
        array = training.train.features
        while array is not None and not isinstance(array, np.memmap):
            array = getattr(array, "base", None)
        with self.said.open("a") as file:
            file.write(f"{type(array).__name__}\\n")
        return super().fit(training)
'''


@pytest.mark.long
def test_workers_map_the_data_instead_of_copying_them(small_config: dict[str, Any], tmp_path: Path) -> None:
    rows = "\n".join(f"{i % 3} qid:{i // 6} 1:{i % 7} 2:{i % 5}" for i in range(240))
    split = {name: f"{name}.txt" for name in ("train", "valid", "test")}
    for file in split.values():
        (tmp_path / file).write_text(rows + "\n")
    (tmp_path / "mapped.py").write_text(MAPPED)
    small_config["data"] = {"reader": "letor", "root": str(tmp_path), "splits": split, "max_grade": 4}
    small_config["models"] = {"m": {"ranker": f"{tmp_path}/mapped.py:Mapped", "said": str(tmp_path / "said")}}
    run_experiment(small_config, runs=tmp_path / "runs", workers=2)
    assert (tmp_path / "said").read_text().split() == ["memmap", "memmap"]
