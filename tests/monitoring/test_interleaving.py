"""Team drafts: sessions vote, and a fair coin is what they are held against."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from ltr_harness.errors import DataError
from ltr_harness.monitoring.analysis.interleaving import interleaved

Cli = Callable[..., tuple[int, str, str]]


def sessions(won: int, lost: int, tied: int) -> pd.DataFrame:
    """Two rows per session, one of each ranker, in random order."""
    clicks = [(0, 1)] * won + [(2, 1)] * lost + [(1, 1)] * (tied // 2) + [(0, 0)] * (tied - tied // 2)
    rows = [
        (f"s{at}", team, n)
        for at, pair in enumerate(clicks)
        for team, n in zip(("a", "b"), pair, strict=True)
    ]
    return pd.DataFrame(rows, columns=["session_id", "team", "click"]).sample(frac=1, random_state=0)


@pytest.mark.parametrize(("won", "lost", "tied"), [(60, 40, 10), (0, 7, 0), (9, 0, 3), (5, 5, 5)])
def test_the_votes_and_their_test_are_the_binomials(won: int, lost: int, tied: int) -> None:
    found = interleaved(sessions(won, lost, tied))
    assert (found.teams, found.wins, found.ties) == (("a", "b"), (lost, won), tied)
    oracle = binomtest(won, won + lost)
    assert found.p == pytest.approx(oracle.pvalue)
    interval = oracle.proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_a_session_has_one_vote_however_often_it_clicks() -> None:
    eager = pd.DataFrame(
        {"session_id": ["s", "s", "t", "t", "u", "u"], "team": list("ababab"), "click": [99, 0, 0, 1, 0, 1]}
    )
    assert interleaved(eager).wins == (1, 2)


def test_rows_of_nobody_count_for_nobody() -> None:
    shared = pd.DataFrame({"session_id": ["s"] * 3, "team": ["a", "b", None], "click": [0, 1, 5]})
    assert interleaved(shared).wins == (0, 1)
    assert np.isnan(interleaved(shared.assign(click=0)).share)


@pytest.mark.long
def test_nobody_is_preferred_by_chance() -> None:
    random = np.random.default_rng(1)
    called = 0
    for _ in range(200):
        won = int(random.binomial(80, 0.5))
        called += interleaved(sessions(won, 80 - won, 0)).p <= 0.05
    assert called <= 0.07 * 200


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"session_id": ["s"], "team": ["a"], "click": [1]}, r"holds 1 team \(a\); expected two"),
        ({"session_id": ["s", "s"], "team": ["a", "b"], "click": [1, -1]}, "1 of 2 rows without a session"),
        ({"session_id": ["s", None], "team": ["a", "b"], "click": [1, 1]}, "1 of 2 rows without a session"),
        ({"session": ["s"], "team": ["a"], "click": [1]}, "no column 'session_id'; did you mean 'session'"),
    ],
)
def test_what_is_no_vote_is_refused(rows: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        interleaved(pd.DataFrame(rows))


def test_from_the_command_line(ltr: Cli, tmp_path: Path) -> None:
    path = tmp_path / "sessions.csv"
    sessions(60, 40, 10).to_csv(path, index=False)
    code, out, _ = ltr("compare", path, "--interleaving")
    assert code == 0
    assert out.splitlines() == [
        "b won 60 sessions, a 40; 10 were tied or without clicks.",
        "b won 60.0% of the decided sessions [49.7%, 69.7%], sign test p = 0.0569",
    ]
    assert json.loads(ltr("compare", path, "--interleaving", "--json")[1])["wins"] == [40, 60]
    code, _, err = ltr("compare", path, path, "--interleaving")
    assert code == 2
    assert "expected one log" in err
