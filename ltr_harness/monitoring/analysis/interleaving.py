"""Which of two rankers do users prefer where both made one list? Team drafts: each session is one vote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from ltr_harness.errors import DataError, Problem
from ltr_harness.monitoring.log.batch import numbers_of
from ltr_harness.monitoring.log.log import open_log
from ltr_harness.monitoring.queries import category_of
from ltr_harness.stats.paired import sign_test_p, win_tie_loss
from ltr_harness.wording import count_of, plural

SESSION, TEAM, CLICK = "session_id", "team", "click"
"""The columns of an interleaving log: one row per item shown, whose it was, and how often it was clicked."""


@dataclass(frozen=True)
class Preference:
    """What the sessions voted for.

    Attributes:
        teams: the two rankers, in order of name.
        wins: sessions in which each one's items were clicked more.
        ties: sessions with as many clicks for both, or none.
        share, low, high: of the decided sessions, those the second ranker won; exact interval.
        p: sign test, ties left out.
        confidence: of the interval.
    """

    teams: tuple[str, str]
    wins: tuple[int, int]
    ties: int
    share: float
    low: float
    high: float
    p: float
    confidence: float

    def __str__(self) -> str:
        (first, second), (lost, won) = self.teams, self.wins
        head = (
            f"{second} won {count_of(won, 'session')}, {first} {lost:,}; {self.ties:,} "
            f"{plural('was', self.ties)} tied or without clicks."
        )
        if not won + lost:
            return f"{head} Nothing can be said."
        return (
            f"{head}\n{second} won {self.share:.1%} of the decided sessions "
            f"[{self.low:.1%}, {self.high:.1%}], sign test p = {self.p:.4f}"
        )


def interleaved(log: Any, confidence: float = 0.95) -> Preference:
    """Count the votes of an interleaving log.

    Interleaving errs in ways of its own (H. Oosterhuis, M. de Rijke, SIGIR 2020): it stands beside a metric, not in
    its place.

    Args:
        log: a path or a table with the columns `session_id`, `team` and `click`; rows without a team count for
            nobody, such as items that both rankers put on top.
        confidence: of the interval.

    Raises:
        DataError: missing columns, sessions or counts, or not exactly two teams.

    Example:
        >>> import pandas as pd
        >>> sessions = [("s1", "old", 0), ("s1", "new", 1), ("s2", "new", 2), ("s2", "old", 1), ("s3", "old", 0)]
        >>> print(interleaved(pd.DataFrame(sessions, columns=["session_id", "team", "click"])))
        old won 0 sessions, new 2; 1 was tied or without clicks.
        old won 0.0% of the decided sessions [0.0%, 84.2%], sign test p = 0.5000

    Source: F. Radlinski, M. Kurup, T. Joachims, CIKM 2008.
    """
    opened = open_log(log, str(log) if isinstance(log, str | Path) else "log", [SESSION, TEAM])
    (table,) = opened.batches([SESSION, TEAM, CLICK], SESSION, in_memory=1 << 60)
    session, team = category_of(table[SESSION], SESSION), category_of(table[TEAM], TEAM)
    clicks = numbers_of(table[CLICK], CLICK)
    bad = (session.codes < 0) | ~(clicks >= 0)
    problems = []
    if bad.any():
        what = f"{bad.sum():,} of {count_of(bad.size, 'row')} without a session, or without a count of clicks >= 0"
        problems.append(Problem(opened.name, what))
    if team.names.size != 2:
        found = ", ".join(team.names[:5]) or "none"
        problems.append(Problem(opened.name, f"holds {count_of(team.names.size, 'team')} ({found})", "two"))
    if problems:
        raise DataError(problems)
    return _counted(session.codes, team.codes, clicks, (str(team.names[0]), str(team.names[1])), confidence)


def _counted(
    session: NDArray[np.int32],
    team: NDArray[np.int32],
    clicks: NDArray[np.float64],
    teams: tuple[str, str],
    confidence: float,
) -> Preference:
    side = np.where(team == 1, 1.0, np.where(team == 0, -1.0, 0.0))
    votes = np.bincount(session, side * clicks).astype(np.float64)
    won, ties, lost = (int(n) for n in win_tie_loss(votes))
    n, tail = won + lost, (1 - confidence) / 2
    return Preference(
        teams,
        (lost, won),
        ties,
        won / n if n else float("nan"),
        float(betaincinv(won, lost + 1, tail)) if won else 0.0,
        float(betaincinv(won + 1, lost, 1 - tail)) if lost else 1.0,
        float(sign_test_p(votes)),
        confidence,
    )
