"""The history of earlier runs: read by later ones, safe under many writers and under one that never finishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.errors import DataError
from ltr_harness.experiments.training.pool import worker_context
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.change import _season_p
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.result import Window
from ltr_harness.monitoring.stages import watch
from ltr_harness.monitoring.stored import PastWindow, append_history, read_history, write_tables
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.monitoring.windows import _spend_alpha, last_look, share_to_spend

CONFIG: dict[str, Any] = {
    "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts"},
    "metrics": ["ndcg@10"],
    "windows": {"trailing": 7},
}


def window(number: int, mean: float = 0.8, n: int = 300) -> Window:
    nan = float("nan")
    return Window(
        f"day {number}", number, 0, 1, 24.0, n, n, n, {}, Estimate(mean, mean - 0.01, mean + 0.01, nan, 0.005, n), None,
        0.0, 0.0, nan, nan, nan, 10.0, 1.0, {}, None, 0.0, {}, "tested",
    )  # fmt: skip


def test_windows_are_read_back_in_order_and_once(tmp_path: Path) -> None:
    append_history(tmp_path, "key", [window(3), window(2)], seen_until=10)
    append_history(tmp_path, "key", [window(3, 0.9), window(4)], seen_until=20)
    append_history(tmp_path, "other", [window(1)], seen_until=99)
    found = read_history(tmp_path, "key")
    assert [(w.number, w.mean) for w in found] == [
        (2, 0.8),
        (3, 0.9),
        (4, 0.8),
    ]  # the later run saw more labels
    assert read_history(tmp_path / "nothing", "key") == []


def test_the_same_run_twice_leaves_one_file(tmp_path: Path) -> None:
    one = append_history(tmp_path, "key", [window(1)], seen_until=10)
    assert append_history(tmp_path, "key", [window(1)], seen_until=10) == one
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.long
def test_many_writers_at_once(tmp_path: Path) -> None:
    with worker_context().Pool(2) as pool:
        ours = [(tmp_path, "key", [window(number), window(1000)], number) for number in range(12)]
        pool.starmap(append_history, ours)
    assert [w.number for w in read_history(tmp_path, "key")] == [*range(12), 1000]


def test_what_a_killed_writer_leaves_is_ignored(tmp_path: Path) -> None:
    append_history(tmp_path, "key", [window(1)], seen_until=10)
    (tmp_path / ".windows-abc").write_text('{"version": 1, "ke')
    assert len(read_history(tmp_path, "key")) == 1


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "windows-0.json").write_text('{"version": 1, "ke')
    with pytest.raises(DataError, match="move it away"):
        read_history(tmp_path, "key")
    row = {
        "label": "a",
        "n": 3,
        "mean": 0.5,
        "error": 0.1,
        "relevant_share": 1.0,
        "seen_until": 1,
        "hours": {},
    }
    for number, told in (
        (1, None),
        ("monday", r"windows\.1\.number is 'monday'"),
        (None, r"windows\.1\.number is None"),
    ):
        windows = [{**row, "number": 0}, {**row, "number": number}]
        (tmp_path / "windows-0.json").write_text(json.dumps({"version": 1, "key": "key", "windows": windows}))
        if told is None:
            assert [window.number for window in read_history(tmp_path, "key")] == [0, 1]
            continue
        with pytest.raises(DataError, match=told):
            read_history(tmp_path, "key")


@pytest.mark.long
def test_trailing_windows_reach_into_earlier_runs(tmp_path: Path) -> None:
    """Day by day the drop is too small to be seen; the runs together see it."""
    size: dict[str, Any] = {"queries_per_day": 250, "items": 6}
    baseline = SyntheticLog(seed=1, days=7, **size).table()
    log = SyntheticLog(seed=2, start="2026-01-19", days=5, drop=0.3, **size).table()
    days = [log.slice(at * 250 * 6, 250 * 6) for at in range(5)]
    remembered = [monitor(CONFIG, log=today, baseline=baseline, history=tmp_path) for today in days]
    assert monitor(CONFIG, log=days[-1], baseline=baseline).windows[0].trailing is None
    last = remembered[-1].windows[0].trailing
    together = monitor(CONFIG, log=log, baseline=baseline).windows[-1].trailing
    assert last is not None
    assert together is not None
    assert last.value == pytest.approx(together.value, abs=1e-3)
    assert last.error == pytest.approx(together.error, rel=0.05)
    assert last.p < min(r.windows[0].change.p for r in remembered if r.windows[0].change)


@pytest.mark.long
def test_a_sequence_goes_on_where_the_last_run_ended(tmp_path: Path) -> None:
    baseline = SyntheticLog(seed=1, days=3, queries_per_day=300).table()
    config = {**CONFIG, "compare": {"correct": "sequence"}}
    looks = []
    for day in range(3):
        log = SyntheticLog(seed=5 + day, start=f"2026-01-{19 + day}", days=1, queries_per_day=300).table()
        found = monitor(config, log=log, baseline=baseline, history=tmp_path)
        looks.append(found.family.partition("window ")[2][:1])
        p = found.changes[0].difference.p
        assert found.changes[0].p_corrected == pytest.approx(
            min(1.0, p * 3 * (np.pi * (day + 1)) ** 2 / 6 / 0.5)
        )
    assert looks == ["1", "2", "3"]


@pytest.mark.long
def test_a_result_with_its_configuration_and_history_is_read(tmp_path: Path) -> None:
    """Also where the configuration has the seed that earlier ones had, without an effect."""
    made = {"seed": 1, "days": 2, "queries_per_day": 300}
    config = {**CONFIG, "log": made, "compare": {"correct": "sequence"}, "name": "old"}
    result, history = tmp_path / "result", tmp_path / "history"
    watched = watch(load_monitor_config(config), history=history)
    write_tables(watched, result)
    (result / "report.json").write_text(json.dumps(watched.result.document))
    with (result / "config.yaml").open("a") as settings:
        settings.write("seed: 0\n")
    log = SyntheticLog(seed=2, start="2026-01-07", days=1, queries_per_day=300)
    found = monitor(result / "config.yaml", log=log, baseline=result, history=history)
    assert found.baseline_kind == "an earlier result of monitor"
    assert "window 3 on record" in found.family


def test_past_windows_are_plain_values() -> None:
    assert PastWindow(1, 2, 0.5, 0.1, 1.0, 3, {}).mean == 0.5


def test_what_each_window_on_record_may_spend() -> None:
    """Window d has alpha * 6 / (pi d)**2, a third for each of its tests: p-values are multiplied by the inverse."""
    windows, past = [window(4), window(5)], [PastWindow(3, 300, 0.8, 0.005, 1.0, 0, {})]
    assert last_look(windows, []) == 2
    assert last_look(windows, past) == 3
    looks = [
        3,
        2,
        3,
        2,
        3,
    ]  # the period ends with the last window; each window's own test; each trailing mean
    spent = _spend_alpha(np.full(5, 0.001), windows, past, 1.0)
    assert spent == pytest.approx([0.001 * 3 * (np.pi * look) ** 2 / 6 for look in looks])
    assert _spend_alpha(np.full(5, 0.5), windows, past, 1.0).tolist() == [1.0] * 5
    assert _spend_alpha(np.full(5, 0.001), windows, past, 0.5) == pytest.approx(2 * spent)
    shares = {}
    for rule in ("bonferroni", "sequence"):
        config = load_monitor_config(CONFIG | {"log": "log.parquet", "compare": {"correct": rule}})
        shares[rule] = share_to_spend(windows, past, config)
    assert shares == {"bonferroni": 1.0, "sequence": pytest.approx(6 / (3 * np.pi) ** 2)}


def test_a_season_is_an_f_test_of_days() -> None:
    """Six days of 1, 5, 2, 6, 3, 7 on average, even and odd ones; a seventh of nine queries says nothing."""
    means, sizes = [1.0, 5, 2, 6, 3, 7, 900], [10, 11, 12, 13, 14, 15, 9]
    days = np.repeat(np.arange(7), sizes)
    expected = scipy.stats.f_oneway([1, 2, 3], [5, 6, 7]).pvalue
    assert _season_p(np.repeat(means, sizes), days % 2, days) == pytest.approx(expected)
    assert np.isnan(_season_p(np.repeat(means, sizes), np.zeros_like(days), days))  # one part is no season


def test_a_history_brings_one_alpha_for_all_runs() -> None:
    """Unless the file says which correction it wants."""
    asked = {"log": "log.parquet"}
    assert load_monitor_config(CONFIG | asked).over_all_runs().compare.correct == "sequence"
    for rule in ("bonferroni", "sequence"):
        config = load_monitor_config(CONFIG | asked | {"compare": {"correct": rule}})
        assert config.over_all_runs().compare.correct == rule
