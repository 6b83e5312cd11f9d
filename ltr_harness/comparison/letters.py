"""Which of many models differ from each other: letters, shared by models that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ltr_harness.comparison.cautions import rare_kind
from ltr_harness.stats.contributions import Codes, Contributions
from ltr_harness.stats.families import outcomes
from ltr_harness.stats.method import Method
from ltr_harness.stats.paired import paired_differences


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
    bounds: tuple[float, float],
    units: Codes | None = None,
) -> Letters:
    """See `Comparison.letters`: paired differences of all pairs over the queries defined for every model.

    Shapes: `per_query` (n_queries,), `units` (n_queries,).
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
    kept = None if units is None else units[~np.isnan(values).any(axis=1)]
    sample = Contributions.of(d, kept)
    ranges = np.full(len(one), bounds[1] - bounds[0])
    alike = np.ones((len(models), len(models)), dtype=bool)
    family = replace(method, correction="joint", margin=None)
    apart = outcomes(sample, family, ranges=ranges).p_corrected < method.alpha
    alike[one, other] = alike[other, one] = ~apart
    names = [models[at] for at in order.tolist()]
    closest = min(np.flatnonzero(apart).tolist(), key=lambda pair: abs(sample.mean[pair]), default=None)
    note = ""
    if closest is not None:
        said = rare_kind(
            int(sample.units[closest]), abs(float(sample.mean[closest])), float(ranges[closest]), family,
            "they share a letter", len(one),
        )  # fmt: skip
        note = said and f"{names[one[closest]]} and {names[other[closest]]}: {said}"
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
