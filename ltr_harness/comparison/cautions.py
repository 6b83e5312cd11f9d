"""Rare kinds of queries: the line that stands beside every verdict, gate, rank and letter that they could change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ltr_harness.comparison.result import Paired
from ltr_harness.stats.families import rare_share
from ltr_harness.stats.method import Method

if TYPE_CHECKING:
    from ltr_harness.comparison.compared import Compared


def rare_kind(
    n: int, room: float, width: float, method: Method, then: str = "the verdict changes", family: int = 1
) -> str:
    """The line about a kind of query, or unit, that may be absent from these; "" where none could matter.

    n queries hold none of a kind whose share is below 1 - level**(1/n) with a probability above the level.

    Args:
        n: queries, or units of `method.unit`.
        room: by how much the mean would have to move.
        width: how far apart two values of the metric can be; infinite where it has no bounds.
        method: whose level and unit count; a test that holds in every world needs no such line.
        then: what happens if the mean moves by so much.
        family: comparisons that share the level.

    Example:
        >>> print(rare_kind(50, 0.03, 1.0, Method()).replace(". ", ".\\n"))
        A kind of query that makes up less than 1 in 17 of the traffic can be absent from these 50 queries.
        If there is one and it differs by 0.52 in the other direction, the verdict changes.
        >>> rare_kind(5000, 0.03, 1.0, Method())
        ''
    """
    if method.test == "bounded" or not n or room != room:
        return ""
    kind, these = (
        ("query", f"{n:,} queries") if method.unit is None else (method.unit, f"{n:,} of {method.unit}")
    )
    share = rare_share(n, method.level(family))
    least = room / share
    if least >= width:
        return ""
    part = f"less than 1 in {1 / share:,.0f} of the traffic"
    head = f"A kind of {kind} that makes up {part} can be absent from these {these}"
    if np.isinf(width):
        return f"{head}. The metric has no known bounds, so whether {then} if there is one cannot be told."
    return f"{head}. If there is one and it differs by {least:.2g} in the other direction, {then}."


def cautions(comparison: Compared, pairs: Sequence[Paired]) -> list[str]:
    """One line for the models of a family whose verdicts a rare kind of query, or of training, could change."""
    notes = []
    lines: dict[str, list[str]] = {}
    for pair in pairs:
        if pair.verdict not in ("not distinguishable", "baseline"):
            line = caution_of(comparison, pair, len(pairs))
            lines.setdefault(line, []).append(pair.model)
    for line, models in lines.items():
        if line:
            names = ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
            notes.append(f"{names}: {line}")
    return notes


def caution_of(comparison: Compared, pair: Paired, family: int, margin: float | None = None) -> str:
    """The line beside one verdict, or beside a gate at a margin; "" where nothing absent could change it."""
    method = comparison.method
    if margin is not None:
        room = abs(pair.difference - margin)
        then = "the gate fails"
    elif pair.verdict == "equivalent":
        room, then = (method.margin or 0.0) - abs(pair.difference), "the verdict changes"
    else:
        room, then = abs(pair.difference), "the verdict changes"
    width = comparison.value_range(pair.metric)
    line = rare_kind(comparison.n_independent(pair), room, width, method, then, family)
    if not pair.over_seeds:
        return line
    seeds = min(
        len(comparison.entrant(name).replicates)
        for name in (pair.model, pair.other)
        if comparison.entrant(name).seeded or len(comparison.entrant(name).replicates) > 1
    )
    return " ".join(filter(None, (line, rare_training(seeds, room, width, method))))


def rare_training(seeds: int, room: float, width: float, method: Method) -> str:
    """The line about a kind of training that may be absent from these seeds; "" where none could matter.

    Example:
        >>> rare_training(3, 0.03, 1.0, Method())
        'A kind of training, such as one that collapses, can be absent from 3 seeds if it is rarer than 63%.'
    """
    share = rare_share(seeds, method.alpha)
    if room / share >= width:
        return ""
    head = f"A kind of training, such as one that collapses, can be absent from {seeds} seeds"
    return f"{head} if it is rarer than {share:.0%}."
