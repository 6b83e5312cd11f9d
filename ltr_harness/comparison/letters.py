"""Which of many models differ from each other: letters, shared by models that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.stats.blocked_tukey import blocked_tukey
from ltr_harness.stats.method import Method


@dataclass(frozen=True)
class Letters:
    """All pairs of models at one metric, tested together.

    Attributes:
        groups: model to its letters, best mean first; ``()`` where nothing could be tested.
        n: queries with a value for every model; a block must be whole.
        n_dropped: the others.
    """

    groups: Mapping[str, tuple[str, ...]]
    n: int
    n_dropped: int


def letters(
    per_query: Mapping[str, NDArray[np.float64]], method: Method, *, higher_is_better: bool
) -> Letters:
    """See `Comparison.letters`.

    Args:
        per_query: model to its float64 (n_queries,) values, one order of queries for all; NaN where undefined.
        method: whose level the groups have.
        higher_is_better: the metric's direction.
    """
    models = list(per_query)
    values = np.stack(list(per_query.values()), axis=1)
    tested = blocked_tukey(values, method.confidence)
    means = values[~np.isnan(values).any(axis=1)].mean(axis=0) if tested.n_queries else np.zeros(len(models))
    order = np.argsort((-1 if higher_is_better else 1) * means, kind="stable").tolist()
    alike = ~(tested.p < method.alpha)[np.ix_(order, order)]
    named = _shared(alike.tolist()) if tested.n_queries > 1 else [()] * len(order)
    return Letters(
        dict(zip([models[at] for at in order], named, strict=True)), tested.n_queries, tested.n_dropped
    )


def _shared(alike: Sequence[Sequence[bool]]) -> list[tuple[str, ...]]:
    """Letters of models in the order of their means, from which of them do not differ.

    All differences have one standard error, so a model is like every one between it and the furthest it is like:
    the groups are runs of neighbours, and only those that no other contains get a letter.

    Example:
        >>> _shared([[True, True, False], [True, True, True], [False, True, True]])
        [('a',), ('a', 'b'), ('b',)]
    """
    groups: list[range] = []
    for first, row in enumerate(alike):
        last = max(at for at, same in enumerate(row) if same)
        if not groups or last >= groups[-1].stop:
            groups.append(range(first, last + 1))
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
