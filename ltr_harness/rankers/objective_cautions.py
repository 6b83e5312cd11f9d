"""Cautions about an objective or a stopping metric that looks at other ranks or gains than the metric that decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import MetricError
from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.gains import gains_of
from ltr_harness.numbers import plain_number
from ltr_harness.wording import count_of


@dataclass(frozen=True)
class Optimised:
    """Depth and gains of an objective."""

    option: str  # where `depth` is set
    depth: int | None  # pairs count that have a row within this many ranks; None: all
    gain: str | None = None  # of a grade, in the spelling of metrics
    k: int | None = None  # cutoff of the metric that is optimised


def objective_cautions(optimised: Optimised, primary: Metric, max_grade: float) -> list[str]:
    """Cautions where training is for one thing and another decides.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> looks = Optimised("params.lambdarank_truncation_level", 30, "exp")
        >>> print(*objective_cautions(looks, NDCG(k=10, gain="linear"), 2))
        the objective's gains of grades 0 to 2 are 0, 1, 3, those of ndcg(gain=linear)@10 0, 1, 2: another metric
    """
    cautions = []
    wanted = max(primary.k or 0, optimised.k or 0)
    if optimised.depth is not None and optimised.depth < wanted:
        whose = primary if wanted == primary.k else f"the metric it optimises, @{wanted},"
        cautions.append(
            f"{optimised.option} is {optimised.depth}: of pairs of rows below rank {optimised.depth} nothing "
            "is learned, and "
            f"{whose} looks at {wanted} ranks"
        )
    if optimised.k is not None and primary.k is not None and optimised.k < primary.k:
        cautions.append(f"the objective ends at rank {optimised.k}, and {primary} decides")
    theirs, ours = (_gains(gain, max_grade) for gain in (optimised.gain, getattr(primary, "gain", None)))
    if theirs is not None and ours is not None and not np.allclose(theirs * ours[-1], ours * theirs[-1]):
        listed = [", ".join(plain_number(float(gain)) for gain in gains) for gains in (theirs, ours)]
        cautions.append(
            f"the objective's gains of grades 0 to {max_grade:g} are {listed[0]}, those of {primary} {listed[1]}: "
            "another metric"
        )
    return cautions


def stopping_cautions(stopping: Metric, primary: Metric, longest: int) -> list[str]:
    """Cautions where training stops on another depth than the metric that decides.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> print(*stopping_cautions(NDCG(), NDCG(k=10), 40))
        ndcg looks at whole lists, up to 40 documents, and ndcg@10 decides by 10: its best round may be another
    """
    whole = stopping.takes_cutoff and (stopping.k is None or stopping.k >= longest)
    if not whole or primary.k is None or primary.k >= longest:
        return []
    return [
        f"{stopping} looks at whole lists, up to {count_of(longest, 'document')}, and {primary} decides by "
        f"{primary.k}: its best round may be another"
    ]


def _gains(gain: Any, max_grade: float) -> NDArray[np.float64] | None:
    """Gains of grades 0, 1, … to the largest; None where there are none, or too many."""
    if not isinstance(gain, str) or not 1 <= max_grade <= 30 or max_grade != int(max_grade):
        return None
    grades = np.arange(max_grade + 1.0)
    try:
        return gains_of(Judgments.checked(grades, QueryGroups.from_sizes([grades.size])), gain, "gain")
    except MetricError:  # a table that ends before the largest label is refused elsewhere
        return None
