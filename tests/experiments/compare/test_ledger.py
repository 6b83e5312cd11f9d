"""The ledger: how often test queries decided, and what the best of so many equal models gains by chance."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness.comparison import compare
from ltr_harness.experiments.compare.ledger import (
    LEDGER,
    Look,
    Looks,
    count_look,
    expected_gain,
    looks_at,
    median_error,
)
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.training.pool import worker_context

Cli = Callable[..., tuple[int, str, str]]


def look(*models: str, test: str = "t", metric: str = "ndcg@10") -> Look:
    return Look(test, metric, tuple(sorted(models)))


def test_distinct_sets_of_models_are_counted_once(tmp_path: Path) -> None:
    assert count_look(tmp_path, look("a", "b")) == Looks(1, 2)
    assert count_look(tmp_path, look("b", "a")) == Looks(1, 2)
    assert count_look(tmp_path, look("a", "c")) == Looks(2, 3)
    assert count_look(tmp_path, look("a", "b", metric="mrr@10")) == Looks(1, 2)
    assert count_look(tmp_path, look("a", "b", test="other")) == Looks(1, 2)
    assert looks_at(tmp_path)["t", "ndcg@10"] == Looks(2, 3)
    assert len((tmp_path / LEDGER).read_text().splitlines()) == 4


@pytest.mark.parametrize("torn", [b'{"test": "t", "me', b"\xff\xfe", b"[1]\n", b'{"test": 1}\n', b"\n\n"])
def test_a_damaged_line_is_passed_over(tmp_path: Path, torn: bytes) -> None:
    count_look(tmp_path, look("a", "b"))
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(torn)
    assert count_look(tmp_path, look("a", "c")) == Looks(2, 3)
    assert looks_at(tmp_path)["t", "ndcg@10"] == Looks(2, 3)


@pytest.mark.parametrize("there", ["folder", "link", "pipe", "read-only"])
def test_what_cannot_be_written_is_counted_and_not_kept(tmp_path: Path, there: str) -> None:
    path = tmp_path / LEDGER
    if there == "folder":
        path.mkdir()
    elif there == "link":
        (tmp_path / "elsewhere").write_text("")
        path.symlink_to(tmp_path / "elsewhere")
    elif there == "pipe":
        os.mkfifo(path)
    else:
        tmp_path = tmp_path / "absent"
    assert count_look(tmp_path, look("a", "b")) == Looks(1, 2)
    if there == "link":
        assert (tmp_path / "elsewhere").read_text() == ""


WRITE_LOOKS = """
from ltr_harness.experiments.compare.ledger import Look, count_look

for at in range(n):
    count_look(folder, Look("t", "ndcg@10", ("base", f"{own}-{at}" + 300 * "x")))
"""


def writer(folder: Path, own: int, n: int) -> BaseProcess:
    """A process that writes so many looks: a copy of a loaded one, which need not import this module either."""
    given = {"folder": folder, "own": own, "n": n}
    process: BaseProcess = worker_context().Process(target=exec, args=(WRITE_LOOKS, given))
    process.start()
    return process


@pytest.mark.long
def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    writers = [writer(tmp_path, own, 25) for own in range(4)]
    for process in writers:
        process.join(120)
    assert [process.exitcode for process in writers] == [0] * 4
    assert looks_at(tmp_path)["t", "ndcg@10"] == Looks(100, 101)


@pytest.mark.long
def test_killed_writers_leave_a_ledger(tmp_path: Path) -> None:
    for at in range(5):
        killed = writer(tmp_path, at, 100_000)
        before = (tmp_path / LEDGER).stat().st_size if (tmp_path / LEDGER).exists() else 0
        for _ in range(6000):
            time.sleep(0.005)
            if (tmp_path / LEDGER).exists() and (tmp_path / LEDGER).stat().st_size > before:
                break
        killed.kill()
        killed.join()
        lines = len((tmp_path / LEDGER).read_bytes().splitlines())
        assert count_look(tmp_path, look("after", str(at))).comparisons >= lines  # one line may be torn


@pytest.mark.parametrize(("n", "worlds"), [(2, 400), (10, 200), (37, 100), (200, 50)])
def test_the_gain_of_the_best_of_equal_models(n: int, worlds: int) -> None:
    rng = np.random.default_rng(n)
    n_queries = 300
    gains, errors = [], []
    for _ in range(worlds):
        query = rng.beta(0.6, 1.1, n_queries)  # hard and easy ones, skewed
        noise = rng.normal(0, 0.2, (n, n_queries)) * (rng.random((n, n_queries)) < 0.4)
        values = np.clip(query + noise, 0, 1)
        means = values.mean(axis=1)
        gains.append(means.max() - means.mean())
        d = values[1] - values[0]
        errors.append(d.std(ddof=1) / np.sqrt(n_queries))
    assert expected_gain(float(np.mean(errors)), n) == pytest.approx(np.mean(gains), rel=0.1)
    assert expected_gain(1.0, 1) == pytest.approx(0, abs=1e-9)


def test_the_error_behind_the_gain_is_that_of_the_weighted_mean() -> None:
    """Four queries of weight 9 and 36 of weight 1: sqrt(sum (w d)^2 / (1 - w / 72)) / 72, where the mean is 0."""
    weights = np.r_[np.full(4, 9.0), np.ones(36)]
    d = 0.1 * np.where(np.arange(40) % 2, 1, -1)
    ids = [str(at) for at in range(40)]
    old = pd.DataFrame({"query_id": ids, "mrr": 0.5, "traffic": weights})
    found = compare({"old": old, "new": old.assign(mrr=0.5 + d)}, weights="traffic")
    by_hand = np.sqrt(((weights * d) ** 2 / (1 - weights / 72)).sum()) / 72
    assert median_error(found) == pytest.approx(by_hand)


SMALL: dict[str, Any] = {
    "name": "small",
    "data": {"reader": "synthetic", "n_queries": {"train": 30, "valid": 20, "test": 20}, "n_features": 12},
    "metrics": {"cutoffs": [5], "report": ["ndcg", "mrr"], "primary": "ndcg@5"},
    "models": {"best": {"ranker": "feature", "feature": "copy_1"}, "random": {"ranker": "random"}},
    "report": {"formats": ["json"]},
}


@pytest.mark.long
def test_run_report_compare_and_python_count_together(
    ltr: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(yaml.safe_dump(SMALL, sort_keys=False))
    runs = Path("runs")
    assert ltr("run", "small.yaml", "--no-ledger", "--workers", "1")[0] == 0
    assert not (runs / LEDGER).exists()
    report = ("report", runs / "small", "--format", "json")
    assert ltr(*report, "--no-ledger")[0] == 0  # and its configuration says so too
    assert ltr("compare", runs / "small", "--no-ledger")[0] == 0
    assert not (runs / LEDGER).exists()

    assert ltr("run", "small.yaml", "--workers", "1")[0] == 0
    ((test, metric), looks), *others = looks_at(runs).items()
    assert (metric, looks, others) == ("ndcg@5", Looks(1, 2), [])
    written = (runs / LEDGER).read_bytes()
    compare(runs / "small")
    assert ltr(*report)[0] == ltr("compare", runs / "small")[0] == 0
    assert (runs / LEDGER).read_bytes() == written  # the same models again
    assert ltr("compare", runs / "small", "-m", "mrr@5")[0] == 0
    assert looks_at(runs)[test, "mrr@5"] == Looks(1, 2)
    compare(*find_runs(runs / "small"), metrics=["mrr@5"], ledger=False)

    for at in range(8):
        count_look(runs, Look(test, "ndcg@5", ("base", f"other{at}")))
    assert "have decided" not in ltr("compare", runs / "small")[1]
    count_look(runs, Look(test, "ndcg@5", ("base", "last")))
    code, out, err = ltr("compare", runs / "small")
    assert code == 0
    assert re.search(
        r"these 20 queries have decided 10 comparisons; the best of 12 equal models would look better by about "
        r"0\.0\d+ at ndcg@5: confirm on queries that decided nothing yet",
        " ".join((out + err).split()),
    )
    [experiment] = json.loads(ltr("show", "runs", runs, "--json")[1])["experiments"]
    assert experiment["looks"] == 10
    assert LEDGER not in ltr("show", "runs", runs)[1]


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_comparison_over_data_sets_counts_on_each(
    ltr: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("small", "web"):
        data = {**SMALL["data"], "seed": len(name)}
        Path("one.yaml").write_text(yaml.safe_dump({**SMALL, "name": name, "data": data}))
        assert ltr("run", "one.yaml", "--no-ledger", "--workers", "1")[0] == 0
    assert ltr("compare-sets", "runs/small", "runs/web", "--no-ledger")[0] == 0
    assert not Path("runs", LEDGER).exists()
    assert ltr("compare-sets", "runs/small", "runs/web")[0] == 0
    assert list(looks_at(Path("runs")).values()) == [Looks(1, 2)] * 2
