"""The terminal while an experiment runs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ltr_harness import run_experiment
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.experiments.training.progress import LiveRun
from ltr_harness.metrics import NDCG
from ltr_harness.report.terminal_progress import TerminalProgress

SMALL: dict[str, Any] = {
    "name": "watched",
    "seeds": [1, 2],
    "data": {"reader": "synthetic", "n_queries": {"train": 60, "valid": 30, "test": 20}, "n_features": 12},
    "metrics": {"cutoffs": [5, 10], "report": ["ndcg"], "primary": "ndcg@10"},
    "stopping": {"metric": "ndcg@5", "patience": 20, "max_rounds": 15},
    "models": {
        "lgbm": {
            "ranker": "lightgbm",
            "params": {"num_leaves": 4, "bagging_fraction": 0.5, "bagging_freq": 1},
        },
        "random": {"ranker": "random"},
    },
    "report": {"formats": ["json"]},
}


def test_a_line_says_best_patience_and_what_is_left() -> None:
    rule = StoppingRule(NDCG(k=10), patience=3, max_rounds=10)
    run = LiveRun("[1/1] m", rule, "ndcg@10", now=100.0)
    assert str(run) == "[1/1] m: starting"
    for number, value in ((1, 0.5), (2, 0.7), (3, 0.6)):
        run.round(number, {"ndcg@10": value}, now=100.0 + 2 * number)
    # two rounds of patience at 2 s each, seven rounds to the end
    assert str(run) == (
        "[1/1] m: round 3, ndcg@10 0.6000, best 0.7000 at 2, patience 2 of 3, 6 s, 4 to 14 s left"
    )
    run.round(9, {"ndcg@10": 0.8}, now=118.0)
    assert str(run).endswith("best 0.8000 at 9, patience 3 of 3, 18 s, 2 s left")


def test_lower_is_better() -> None:
    from ltr_harness.metrics import parse_metric

    run = LiveRun(
        "m", StoppingRule(parse_metric("kendall_tau_distance"), patience=5), "kendall_tau_distance", 0.0
    )
    run.round(1, {"kendall_tau_distance": 4.0}, 1.0)
    run.round(2, {"kendall_tau_distance": 5.0}, 2.0)
    assert "best 4.0000 at 1" in str(run)


def test_without_a_rule_nothing_is_promised() -> None:
    run = LiveRun("m", None, "ndcg@10", 0.0)
    run.round(7, {"ndcg@10": 0.5}, 3.0)
    assert str(run) == "m: round 7, ndcg@10 0.5000, 3 s"


SLOW = '''
import time
from dataclasses import replace
from ltr_harness.models.lightgbm import LightGBMRanker

class Slow(LightGBMRanker):
    """Waits in every round: a worker speaks a few times in a second."""

    def fit(self, training):
        def progress(number, values):
            time.sleep(0.04)
            training.progress(number, values)
        return super().fit(replace(training, progress=progress))
'''


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_terminal_has_a_line_per_run(tmp_path: Path, workers: int) -> None:
    screen = io.StringIO()
    with TerminalProgress(quiet=False) as progress:
        progress._console = Console(file=screen, force_terminal=True, width=140, highlight=False)
        seen: list[list[str]] = []
        show = progress._show

        def watch(row: Any, text: str) -> None:
            seen.append([str(run) for run in progress._runs.values()])
            show(row, text)
            if progress._live is not None:
                progress._live.refresh()  # the screen is redrawn eight times a second; these models are faster

        progress._show = watch  # type: ignore[method-assign]
        models = SMALL["models"]
        if workers > 1:
            (tmp_path / "slow.py").write_text(SLOW)
            models = models | {"lgbm": models["lgbm"] | {"ranker": f"{tmp_path}/slow.py:Slow"}}
        run_experiment(SMALL | {"models": models}, runs=tmp_path, workers=workers, progress=progress)
    assert max(len(lines) for lines in seen) == workers
    lines = [line for lines in seen for line in lines]
    assert any("lgbm, seed 1: round " in line and "patience" in line for line in lines)
    assert "best" in screen.getvalue()
    assert "[4/4]" in screen.getvalue()


@pytest.mark.long
def test_elsewhere_there_are_plain_lines(tmp_path: Path) -> None:
    log = io.StringIO()
    with TerminalProgress(quiet=False) as progress:
        progress._console = Console(file=log, highlight=False, soft_wrap=True)
        run_experiment(SMALL | {"seeds": [1]}, runs=tmp_path, progress=progress)
    assert "\x1b" not in log.getvalue()
    assert "patience" not in log.getvalue()
    assert [line.partition(" ")[0] for line in log.getvalue().splitlines() if line.startswith("[")] == [
        "[1/2]",
        "[2/2]",
    ]
