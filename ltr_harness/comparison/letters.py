"""Which of many models differ from each other: letters, shared by models that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.comparison.rare import rare_difference, rare_text
from ltr_harness.stats.families import joint_p
from ltr_harness.stats.method import Method
from ltr_harness.stats.paired import paired_differences
from ltr_harness.stats.two_samples import Codes
from ltr_harness.stats.units import unit_totals


@dataclass(frozen=True)
class Letters:
    """All pairs of models at one metric, tested together.

    Attributes:
        groups: model to its letters, best mean first; ``()`` where nothing could be tested.
        n: queries with a value for every model; a block must be whole.
        n_dropped: the others.
        note: what these queries may lack that would give two models of different letters a common one; "" where
            no query could differ by as much.
    """

    groups: Mapping[str, tuple[str, ...]]
    n: int
    n_dropped: int
    note: str = ""


def letters(
    per_query: Mapping[str, NDArray[np.float64]],
    method: Method,
    *,
    higher_is_better: bool,
    units: Codes | None = None,
) -> Letters:
    """See `Comparison.letters`: paired differences of all pairs over the queries defined for every model.

    Args:
        per_query: model to its float64 (n_queries,) values, one order of queries for all; NaN where undefined.
        method: whose level the groups have.
        higher_is_better: the metric's direction.
        units: (n_queries,) codes of whom each query belongs to; None where every query is its own.
    """
    models = list(per_query)
    values = np.stack(list(per_query.values()), axis=1)
    whole = values[~np.isnan(values).any(axis=1)]
    dropped = len(values) - len(whole)
    if len(whole) < 2:
        return Letters(dict.fromkeys(models, ()), len(whole), dropped)
    order = np.argsort((-1 if higher_is_better else 1) * whole.mean(axis=0), kind="stable")
    ranked = whole[:, order]
    one, other = np.triu_indices(len(models), 1)
    d = paired_differences(ranked[:, one], ranked[:, other])
    room = np.abs(d.mean(axis=0))
    if units is not None:
        d = unit_totals(d, units[~np.isnan(values).any(axis=1)])
    top, bottom = ranked.max(axis=0), ranked.min(axis=0)
    largest = np.maximum(top[one], top[other]) - np.minimum(bottom[one], bottom[other])
    alike = np.ones((len(models), len(models)), dtype=bool)
    apart = joint_p(d, largest, method) < method.alpha
    alike[one, other] = alike[other, one] = ~apart
    names = [models[at] for at in order.tolist()]
    needed = [
        (
            rare_difference(len(d), room[pair], largest[pair], method.alpha),
            f"{names[one[pair]]} and {names[other[pair]]}",
        )
        for pair in np.flatnonzero(apart)
    ]
    possible = [(least, pair) for least, pair in needed if least == least]
    note = ""
    if possible:
        least, pair = min(possible)
        note = f"{pair}: {rare_text(len(d), least, method, method.alpha)}, they would share a letter"
    return Letters(dict(zip(names, _shared(alike.tolist()), strict=True)), len(whole), dropped, note)


def _shared(alike: Sequence[Sequence[bool]]) -> list[tuple[str, ...]]:
    """Letters of models in the order of their means, from which of them do not differ.

    Each pair has its own variance, so a model may differ from its neighbour and not from a model further off. For
    each pair that is alike and has no letter in common yet, a group is made of the two and, in order, of every
    model that is like all in it.

    Example:
        >>> _shared([[True, True, False], [True, True, True], [False, True, True]])
        [('a',), ('a', 'b'), ('b',)]
    """
    groups: list[list[int]] = []
    for first in range(len(alike)):
        for second in range(first, len(alike)):
            if not alike[first][second] or any(first in group and second in group for group in groups):
                continue
            group = [first, second]
            for at in range(len(alike)):
                if all(alike[at][member] for member in group):
                    group.append(at)
            groups.append(group)
    return [
        tuple(_letter(number) for number, group in enumerate(groups) if at in group)
        for at in range(len(alike))
    ]


def _letter(number: int) -> str:
    """``a`` to ``z``, then ``aa``, ``ab`` …

    Example:
        >>> [_letter(number) for number in (0, 25, 26, 27)]
        ['a', 'z', 'aa', 'ab']
    """
    before, own = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + own)
