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

from ltr_harness.comparison.interleaving import _counted, interleaved
from ltr_harness.errors import DataError

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
    undecided = interleaved(shared.assign(click=0))
    assert (undecided.wins, undecided.ties) == ((0, 0), 1)
    assert (undecided.low, undecided.high, undecided.p) == (0.0, 1.0, 1.0)


@pytest.mark.long
def test_nobody_is_preferred_by_chance() -> None:
    random = np.random.default_rng(1)
    wins, times = np.unique(random.binomial(80, 0.5, 200), return_counts=True)
    found = [interleaved(sessions(won, 80 - won, 0)).p for won in wins.tolist()]
    assert times[np.array(found) <= 0.05].sum() <= 0.07 * 200


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
    code, out, _ = ltr("compare", "interleaved", path)
    assert code == 0
    assert out.splitlines() == [
        "b won 60 sessions, a 40; 10 were tied or without clicks.",
        "b won 60.0% of the decided sessions [49.7%, 69.7%], sign test p = 0.0569",
        "This many sessions detect a share of 64.0% (80 % power); 52% takes 4,906 decided sessions.",
    ]
    assert json.loads(ltr("compare", "interleaved", path, "--json")[1])["wins"] == [40, 60]
    sessions(0, 0, 10).to_csv(path, index=False)
    assert '"share": null' in ltr("compare", "interleaved", path, "--json")[1]  # was NaN, which is no JSON
    code, _, err = ltr("compare", "interleaved", path, path)
    assert code == 2
    assert "Got unexpected extra argument" in err


# ---- users ------------------------------------------------------------------------------------------------


def voted(votes: np.ndarray[Any, Any], users: np.ndarray[Any, Any] | None) -> pd.DataFrame:
    """A log of decided sessions, +1 for b and -1 for a."""
    n = votes.size
    rows = pd.DataFrame(
        {
            "session_id": np.repeat(np.char.add("s", np.arange(n).astype(str)), 2),
            "team": np.tile(["a", "b"], n),
            "click": np.column_stack(((votes < 0), (votes > 0))).astype(int).reshape(-1),
        }
    )
    return rows if users is None else rows.assign(user_id=np.repeat(np.char.add("u", users.astype(str)), 2))


def habits(random: np.random.Generator, share: float = 0.5, n_users: int = 100) -> tuple[Any, Any]:
    """Ten sessions of each user, who prefers one ranker for good: an intra-user correlation of about .3."""
    users = np.repeat(np.arange(n_users), 10)
    size = 1 / 0.3 - 1
    own = random.beta(share * size, (1 - share) * size, n_users)
    return np.where(random.random(users.size) < own[users], 1, -1), users


def test_users_by_hand() -> None:
    """u1: b, b; u2: a; u3: b. Net votes 2, -1, 1: of 8 sign patterns |S| >= 2 in 6."""
    votes, users = np.array([1, 1, -1, 1]), np.array([1, 1, 2, 3])
    found = interleaved(voted(votes, users))
    assert (found.wins, found.users, found.share) == ((1, 3), 3, 0.75)
    assert found.p == 6 / 8
    assert found.design_effect == 6 / 4
    assert (found.low, found.high) == (0.0, 1.0)  # of three users nothing has p < .05
    assert "by 3 users, skewness-adjusted sign-flip test p = 0.75" in str(found)


def test_two_users_are_enough_for_an_interval() -> None:
    """50 of 100 sessions and 51 of 100: half a session more and less than .505 of each."""
    votes, users = np.repeat([1, -1, 1, -1], [50, 50, 51, 49]), np.repeat([1, 2], 100)
    found = interleaved(voted(votes, users))
    error = np.sqrt(2 * (0.5**2 + 0.5**2)) / 200
    assert found.p == 1.0
    assert 12.7 * error < found.high - 0.505 < 18 * error  # t with 1 degree of freedom: 12.7
    assert found.low == pytest.approx(1.01 - found.high)


def test_users_who_all_vote_alike() -> None:
    """Of 20 users a share of 1 - .05**(1/20) = .139 may be absent, and may vote for the other."""
    found = interleaved(voted(np.ones(40), np.repeat(np.arange(20), 2)))
    assert found.p < 0.001
    assert (found.share, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.05 ** (1 / 20))
    four = interleaved(voted(np.ones(8), np.repeat(np.arange(4), 2)))
    assert (four.p, four.high) == (2 / 16, 1.0)
    assert four.low <= 0.5


def test_p_and_interval_say_one_thing_and_a_rare_kind_is_said() -> None:
    """0.2.0 called 70 % [51.6, 88.7] with p = .31; the share here, too, owes to a few users with many sessions."""
    random = np.random.default_rng(6)
    rejected = noted = 0
    for _ in range(100):
        sizes = np.where(random.random(15) < 0.2, 30, 2)
        users = np.repeat(np.arange(15), sizes)
        own = random.beta(1.9, 0.6, 15)
        found = interleaved(voted(np.where(random.random(users.size) < own[users], 1, -1), users))
        assert (found.p < 0.05) == (not found.low <= 0.5 <= found.high)
        assert found.low <= found.share <= found.high
        rejected += found.p < 0.05
        if found.note:
            noted += 1
            assert found.p < 0.05
            assert found.note.startswith("A kind of user_id that makes up less than 1 in 6 of the traffic")
            assert str(found).endswith(found.note)
    assert 10 < rejected < 90
    assert 0 < noted < rejected


def sizes_of(world: str, random: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    if world == "lognormal":
        return np.maximum(random.lognormal(1, 1.2, n).astype(int), 1)
    if world == "heavy":
        return np.where(random.random(n) < 0.05, 100, 3)
    return np.minimum((random.pareto(1.3, n) + 1).astype(int), 300)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["lognormal", "heavy", "pareto"])
@pytest.mark.parametrize("share", [0.5, 0.7])
def test_users_of_unequal_size(world: str, share: float) -> None:
    """60 users, 600 logs: misses of 3 to 6.5 %, and as many false preferences.

    Version 0.2.0 missed 7 to 10 % (lognormal), 18 % (heavy) and 17 % (pareto), and p contradicted the interval in up to
    one log of eight.
    """
    random, missed = np.random.default_rng(7), 0
    size = 1 / 0.3 - 1
    for _ in range(600):
        users = np.repeat(np.arange(60), sizes_of(world, random, 60))
        own = random.beta(share * size, (1 - share) * size, 60)
        votes = np.where(random.random(users.size) < own[users], 1.0, -1.0)
        found = _counted(votes, users, ("a", "b"), 0.95)
        missed += not found.low <= share <= found.high
        assert (found.p < 0.05) == (not found.low <= 0.5 <= found.high)
    assert missed / 600 <= 0.065


def test_each_session_of_another_user_is_the_plain_vote() -> None:
    random = np.random.default_rng(2)
    votes = np.where(random.random(400) < 0.56, 1, -1)
    by_users, plain = interleaved(voted(votes, np.arange(400))), interleaved(voted(votes, None))
    assert by_users.p == pytest.approx(plain.p, abs=0.01)
    assert (by_users.low, by_users.high) == pytest.approx((plain.low, plain.high), abs=0.005)
    assert (by_users.design_effect, by_users.detectable) == (1.0, plain.detectable)


@pytest.mark.long
@pytest.mark.parametrize("runs", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_habits_are_no_preference(runs: int) -> None:
    """By sessions every fourth experiment is won by nobody's ranker; by users as many as promised."""
    random = np.random.default_rng(3)
    by_users = by_sessions = covered = 0
    for _ in range(runs):
        votes, users = habits(random)
        found = interleaved(voted(votes, users))
        by_users += found.p <= 0.05
        covered += found.low <= 0.5 <= found.high
        by_sessions += interleaved(voted(votes, None)).p <= 0.05
    margin = 2.4 * np.sqrt(0.05 * 0.95 * runs)
    assert by_users <= 0.05 * runs + margin
    assert covered >= 0.95 * runs - margin
    assert by_sessions >= 0.15 * runs


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True])
def test_as_many_sessions_as_it_names_find_it_in_four_of_five(clustered: bool) -> None:
    random = np.random.default_rng(4)
    pilot = habits(random, n_users=400) if clustered else (np.where(random.random(4000) < 0.5, 1, -1), None)
    effect = interleaved(voted(*pilot)).design_effect
    share = 0.56
    n = int(effect * (2.801585 / 2 / (share - 0.5)) ** 2)
    found = 0
    for _ in range(400):
        votes, users = (
            habits(random, share, n // 10) if clustered else (np.where(random.random(n) < share, 1, -1), None)
        )
        found += interleaved(voted(votes, users)).p <= 0.05
    assert found / 400 == pytest.approx(0.8, abs=0.06)


def test_a_session_belongs_to_one_user() -> None:
    log = voted(np.array([1, -1]), np.array([1, 2]))
    log.loc[1, "user_id"] = "u9"
    with pytest.raises(
        DataError, match="sessions of several users, or of none, in user_id; expected one each"
    ):
        interleaved(log)
    log.loc[1, "user_id"] = None
    with pytest.raises(DataError, match="several users, or of none"):
        interleaved(log)
