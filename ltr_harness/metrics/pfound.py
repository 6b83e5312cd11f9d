"""PFound: whether a user who reads from the top finds what they look for."""

from dataclasses import dataclass
from typing import Any

from ltr_harness.metrics.err import ERR


@dataclass(frozen=True, kw_only=True)
class PFound(ERR):
    """Probability that a user who reads from the top, and may tire, finds what they look for, at whatever rank.

    pFound@K = sum over ranks r <= K of R(g_r) prod over i < r of continuation (1 - R(g_i)): `ERR` in which only
    patience discounts a rank. A document of grade g satisfies with probability R(g) = (2^g - 1) / 2^max_grade.

    Attributes:
        max_grade: the scale's highest grade; a property of the experiment, never of a query.
        continuation: chance that an unsatisfied user reads on; Yandex's pBreak is 1 minus it.
        stop: ``exp`` as above, ``linear`` R(g) = g / (max_grade + 1), ``label`` R(g) = g, as CatBoost has it.
        discount: what it is worth to be satisfied at rank r, as `ERR` has it; ``none``, 1 at every rank.

    Source: Gulin, Karpovich, Raskovalov & Segalovich 2009 (Yandex at ROMIP), after Craswell et al. 2008; ties: exact
    mean over their orders.

    When to use: Whether users find anything matters more than at which rank: `err` halves a document's worth from
        rank 1 to 2, PFound takes 15 percent.

    When not: When the top of the scale is not fixed, as with `err`; and to compare with others' numbers, who map
        grades to probabilities in their own way.

    Missed documents: They have no rank: the value stays. It is 0, not undefined, where every relevant document
        was missed.

    Example:
        >>> from ltr_harness import evaluate
        >>> metric = "pfound(max_grade=1)"
        >>> evaluate([1, 1], [2.0, 1.0], group_sizes=[2], metrics=[metric]).means[metric]  # 1/2 + 0.85 1/2 1/2
        0.7125
    """

    continuation: float = 0.85
    discount: Any = "none"

    name = "pfound"
    source = "Gulin et al. 2009"
