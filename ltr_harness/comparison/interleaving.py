"""Which of two rankers do users prefer where both made one list? Team drafts: each session is one vote."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from ltr_harness.errors import DataError, Problem
from ltr_harness.logs.columns import category_of, numbers_of
from ltr_harness.logs.log import open_log
from ltr_harness.stats.contributions import Codes, Contributions, Floats, sign_test_p, win_tie_loss
from ltr_harness.stats.families import outcomes, rare_kind, rare_share
from ltr_harness.stats.method import TESTS, Method
from ltr_harness.wording import count_of, p_equals, plural

SESSION, TEAM, CLICK, USER = "session_id", "team", "click", "user_id"
"""The columns of an interleaving log: one row per item shown, whose it was, how often it was clicked, by whom."""

_POWER, _LEVEL = 0.8, 0.05
_WORTH_KNOWING = 0.52  # a preference that an experiment should be able to show


@dataclass(frozen=True)
class Preference:
    """What the sessions voted for."""

    teams: tuple[str, str]  # in order of name
    wins: tuple[int, int]  # sessions in which each one's items were clicked more
    ties: int  # sessions with as many clicks for both, or none
    share: float  # of the decided sessions, those the second ranker won
    low: float  # of an interval that holds 1/2 exactly where p is not below 1 - confidence
    high: float
    p: float  # sign test, ties left out; by users the test of `compare`
    confidence: float
    users: int | None = None  # with a decided session; None where the log does not know them
    design_effect: float = 1.0  # by how much users who vote alike widen the variance of the share
    detectable: float = float("nan")  # the share, above one half, that is shown with 80 % power
    needed: int | None = None  # decided sessions that a share of 52 % takes
    note: str = ""  # what so few users cannot show

    def __str__(self) -> str:
        (first, second), (lost, won) = self.teams, self.wins
        tied = f"{self.ties:,} {plural('was', self.ties)} tied or without clicks"
        head = f"{second} won {count_of(won, 'session')}, {first} {lost:,}; {tied}."
        if not won + lost:
            return f"{head} No session is decided."
        by_users = f"by {count_of(self.users or 0, 'user')}, {TESTS[Method.test]}"
        test = "sign test" if self.users is None else by_users
        lines = [
            head,
            f"{second} won {self.share:.1%} of the decided sessions [{self.low:.1%}, {self.high:.1%}], {test} "
            f"{p_equals(self.p)}",
        ]
        if self.needed is not None:
            lines.append(
                f"This many sessions detect a share of {self.detectable:.1%} (80 % power); {_WORTH_KNOWING:.0%} takes "
                f"{self.needed:,} decided sessions."
            )
        return "\n".join([*lines, self.note] if self.note else lines)


def interleaved(log: Any, confidence: float = 0.95) -> Preference:
    """Count the votes of an interleaving log (F. Radlinski, M. Kurup, T. Joachims, CIKM 2008)."""
    opened = open_log(log, str(log) if isinstance(log, str | Path) else "log", [SESSION, TEAM, USER])
    known = USER in opened.columns
    (table,) = opened.batches([SESSION, TEAM, CLICK, *([USER] if known else [])], SESSION, in_memory=1 << 60)
    session, team = category_of(table[SESSION], SESSION), category_of(table[TEAM], TEAM)
    user = category_of(table[USER], USER) if known else None
    clicks = numbers_of(table[CLICK], CLICK)
    bad = (session.codes < 0) | ~(clicks >= 0)
    problems = []
    if bad.any():
        what = f"{bad.sum():,} of {count_of(bad.size, 'row')} without a session, or without a count of clicks >= 0"
        problems.append(Problem(opened.name, what))
    if team.categories.size != 2:
        names = ", ".join(team.categories[:5]) or "none"
        found = f"holds {count_of(team.categories.size, 'team')} ({names})"
        problems.append(Problem(opened.name, found, "two"))
    whose: Codes | None = None
    if user is not None and not bad.any():
        whose = np.full(int(session.codes.max()) + 1, -1, dtype=np.int64)
        whose[session.codes] = user.codes
        if np.any(whose[session.codes] != user.codes) or np.any(whose < 0):
            found = f"has sessions of several users, or of none, in {USER}"
            problems.append(Problem(opened.name, found, "one each"))
    DataError.refuse(problems)
    side = np.where(team.codes == 1, 1.0, np.where(team.codes == 0, -1.0, 0.0))
    votes = np.sign(np.bincount(session.codes, side * clicks))
    return _counted(votes, whose, (str(team.categories[0]), str(team.categories[1])), confidence)


def _counted(votes: Floats, users: Codes | None, teams: tuple[str, str], confidence: float) -> Preference:
    """By the sign test; by users with the test of `compare`, which says how far from 1/2 a share is found, too."""
    won, ties, lost = (int(n) for n in win_tie_loss(votes))
    n = won + lost
    if not n:
        return Preference(teams, (0, 0), ties, float("nan"), 0.0, 1.0, 1.0, confidence)
    share, decided = won / n, votes != 0
    sample = Contributions.of(votes[decided, None] / 2, None if users is None else users[decided])
    units, effect = int(sample.units[0]), max(1.0, 4 * float((sample.sums**2).sum()) / n)
    # of a share near one half, the variance of a vote is 1/4
    z = float(ndtri(1 - _LEVEL / 2) + ndtri(_POWER))
    reach, note = z * (effect / (4 * n)) ** 0.5, ""
    if sample.even:  # exact: the sign test, and Clopper and Pearson's interval
        tail = (1 - confidence) / 2
        low = float(betaincinv(won, lost + 1, tail)) if won else 0.0
        high = float(betaincinv(won + 1, lost, 1 - tail)) if lost else 1.0
        p = float(sign_test_p(votes))
    elif units < 2:
        p, low, high, reach = 1.0, 0.0, 1.0, 0.5
    else:
        method = Method(confidence=confidence, unit=USER)
        found = outcomes(sample, method)
        p, reach = float(found.p[0]), float(found.detectable[0])
        low, high = 0.5 + float(found.low[0]), 0.5 + float(found.high[0])
        if not sample.error[0]:  # all users vote alike: of those who do not, so many may be absent
            alike, absent = 0.5 + float(sample.mean[0]), rare_share(units, method.alpha)
            low, high = min(low, alike - absent * alike), max(high, alike + absent * (1 - alike))
        low, high = max(low, 0.0), min(high, 1.0)
        if p < method.alpha:
            note = rare_kind(units, abs(share - 0.5), 1.0, method)
    needed = math.ceil(effect * (z / 2 / (_WORTH_KNOWING - 0.5)) ** 2)
    knows, detectable = None if users is None else units, min(1.0, 0.5 + reach)
    counts = (teams, (lost, won), ties)
    return Preference(*counts, share, low, high, p, confidence, knows, effect, detectable, needed, note)
