"""Propensities: how likely users look at each rank, measured where ranks were random.

Clicks by rank of an ordinary log are *not* it: good items stand high, so rank 10 would get half its due. Where
chance decided which of two items stood at rank 1 and which at rank k, or shuffled the top of the list, what makes
items attractive cancels, and what is left is the page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.logs.batch import LogRows
from ltr_harness.logs.columns import category_of, numbers_of
from ltr_harness.logs.contract import Contract
from ltr_harness.logs.log import open_log
from ltr_harness.relevance.rule import Propensity, PropensityLog
from ltr_harness.wording import count_of

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_CLICKS = 25  # fewer at a rank, and its propensity is off by a fifth or more
_SIGMAS = 5  # a shuffle this far from uniform is none
_ORDINARY = "clicks by rank of an ordinary log are not propensities: run the experiment, or give a table"


@dataclass(frozen=True)
class MeasuredPropensities:
    """Propensities by rank relative to rank 1, and what they come from."""

    table: tuple[float, ...]  # by rank from 1
    source: str  # in words


def estimated(rule: Propensity) -> Propensity:
    """The rule with its experiment replaced by the table that it measured; without an experiment, the rule itself.

    Raises DataError: no such log, or one that does not carry the randomisation; every problem of both logs at once.
    """
    experiment = rule.estimate
    if experiment is None:
        return rule
    pages: list[MeasuredPropensities] = []
    problems: list[Problem] = []
    for path in (experiment.path, experiment.baseline_path):
        if path is None:
            continue
        try:
            pages.append(_measured(path, experiment))
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    source = "; the baseline's from ".join(measured.source for measured in pages)
    tables = [measured.table for measured in pages]
    return rule.model_copy(
        update={
            "estimate": None,
            "table": tables[0],
            "baseline_table": tables[1] if len(tables) > 1 else (),
            "source": rule.source or source,
        }
    )


def from_swaps(lists: Codes, shown: Codes, original: Codes, clicked: Floats) -> dict[int, float]:
    """Propensities from lists in which rank 1 was exchanged with another rank at random, beside untouched lists.

    For every rank k, both items of the pair were shown in both orders. With r clicks per list,
    propensity(k) = (r_k untouched + r_k exchanged) / (r_1 untouched + r_1 exchanged): attractiveness cancels,
    whatever share of the lists was exchanged.

    Source: T. Joachims, A. Swaminathan, T. Schnabel, WSDM 2017. {rank: propensity}; rank 1 has 1, ranks with fewer than
    25 clicks are left out. Shapes: `lists` (n_rows,), `shown, original` (n_rows,), `clicked` (n_rows,).

    Example:
        Two items: the first is clicked always when looked at, and rank 2 is looked at half of the time.

        >>> lists = np.repeat(np.arange(200), 2)
        >>> shown = np.tile([1, 2], 200)
        >>> original = np.concatenate((np.tile([1, 2], 100), np.tile([2, 1], 100)))
        >>> clicked = np.where(original == 1, np.where(shown == 1, 1.0, lists % 2), 0.0)
        >>> from_swaps(lists, shown, original, clicked)
        {1: 1.0, 2: 0.5}
    """
    partner = np.zeros(int(lists.max(initial=-1)) + 1, dtype=np.int64)
    partner[lists[shown == 1]] = original[shown == 1]
    at_one = np.zeros(partner.size)
    at_one[lists[shown == 1]] = clicked[shown == 1]
    ratios = {1: 1.0}
    for k in np.unique(partner[partner > 1]).tolist():
        here = shown == k
        arms = [here & (partner[lists] == other) for other in (1, k)]
        if not all(arm.any() for arm in arms) or sum(clicked[arm].sum() for arm in arms) < _CLICKS:
            continue
        below = sum(clicked[arm].mean() for arm in arms)
        above = sum(at_one[lists[arm]].mean() for arm in arms)
        if above > 0:
            ratios[k] = float(below / above)
    return ratios


def from_random_order(shown: Codes, clicked: Floats) -> dict[int, float]:
    """Propensities from lists whose top was shuffled: clicks by rank relative to rank 1.

    Shapes: `shown, clicked` (n_rows,).

    Example:
        >>> from_random_order(np.repeat([1, 2], 100), np.repeat([1.0, 0.0, 1.0, 0.0], [100, 0, 40, 60]))
        {1: 1.0, 2: 0.4}
    """
    first = clicked[shown == 1]
    return {
        int(k): float(clicked[shown == k].mean() / first.mean())
        for k in np.unique(shown)
        if first.any() and clicked[shown == k].sum() >= _CLICKS
    }


def row_propensities(
    rows: LogRows, ranks: Codes, rule: Propensity | None, contract: Contract
) -> Floats | None:
    """How likely users looked at each row, by its rank or as the log says; None where nobody said.

    Shapes: `ranks` (n_rows,).
    """
    looked = None if rule is None else examination(rows, ranks, rule, contract)
    return None if looked is None or rule is None else np.maximum(looked, rule.clip)


def examination(rows: LogRows, ranks: Codes, rule: Propensity, contract: Contract) -> Floats | None:
    """How likely users looked at each row, as measured or given; None where values are none.

    Shapes: `ranks` (n_rows,).
    """
    if rule.column:
        values = rows.numbers(rule.column)
        good = (values > 0) & (values <= 1)
        if not contract.check("propensity_invalid", ~good, rows.name):
            return None
        return values
    table = np.array(
        rule.baseline_table if contract.log == "baseline" and rule.baseline_table else rule.table
    )
    return np.asarray(table[np.minimum(ranks, table.size) - 1])


def _measured(path: str, experiment: PropensityLog) -> MeasuredPropensities:
    columns = [experiment.query_id, experiment.rank, experiment.original, experiment.click]
    log = open_log(path, text_columns=[experiment.query_id])
    (table,) = log.batches(columns, experiment.query_id, in_memory=1 << 60)
    lists = category_of(table[experiment.query_id], experiment.query_id).codes.astype(np.int64)
    shown, original, clicks = (numbers_of(table[name], name) for name in columns[1:])
    ranks_good = [(r >= 1) & (r == np.floor(r)) & np.isfinite(r) for r in (shown, original)]
    bad = {
        "rows without a query id": lists < 0,
        f"rows whose {experiment.rank} is not an integer from 1 on": ~ranks_good[0],
        f"rows whose {experiment.original} is not an integer from 1 on": ~ranks_good[1],
        f"rows whose {experiment.click} is not a count": ~(clicks >= 0),
    }
    problems = [
        Problem(path, f"{np.count_nonzero(where):,} of {where.size:,} {what}")
        for what, where in bad.items()
        if where.any()
    ]
    if problems:
        raise DataError(problems)
    rows = lists, shown.astype(np.int64), original.astype(np.int64), (clicks > 0).astype(np.float64)
    by_rank, n, how = (_swapped if experiment.design == "swaps" else _shuffled)(path, *rows)
    if len(by_rank) < 2:
        raise DataError(
            Problem(
                path,
                f"too few clicks, {int((clicks > 0).sum()):,}",
                f"{_CLICKS} at rank 1 and another rank",
                "a longer experiment",
            )
        )
    ranks = np.array(sorted(by_rank))
    every = np.arange(1, ranks[-1] + 1)
    # between measured ranks, a power of the rank
    curve = np.exp(np.interp(np.log(every), np.log(ranks), np.log([by_rank[k] for k in ranks.tolist()])))
    between = sorted({*every.tolist()} - {*by_rank})
    source = f"{how} in {count_of(n, 'list')}"
    if between:
        source += f" (rank {', '.join(map(str, between))} from its neighbours)"
    return MeasuredPropensities(tuple(np.minimum(curve, 1.0).tolist()), source)


def _swapped(
    path: str, lists: Codes, shown: Codes, original: Codes, clicked: Floats
) -> tuple[dict[int, float], int, str]:
    """`from_swaps`, after a look at whether these are swaps."""
    size = int(lists.max()) + 1
    first = np.zeros(size, dtype=np.int64)
    first[lists[shown == 1]] = original[shown == 1]
    k = first[lists]
    # an untouched list's rows stand where they stood; of an exchanged one, all but 1 and k do
    as_planned = np.where(shown == 1, original == k, np.where(shown == k, original == 1, original == shown))
    odd = np.zeros(size, dtype=bool)
    odd[lists[~as_planned]] = True
    odd |= first == 0
    partner_seen = np.zeros(size, dtype=bool)
    partner_seen[lists[(shown == k) & as_planned]] = True
    odd |= ~partner_seen
    if odd.any():
        raise DataError(
            Problem(
                path,
                f"{int(odd.sum()):,} of {count_of(size, 'list')} neither as ranked nor with rank 1 "
                "exchanged with "
                "one other rank",
                "two items exchanged, or none",
                "for a shuffled top, design: random_order",
            )
        )
    exchanged = int((first > 1).sum())
    if exchanged in (0, size):
        raise DataError(
            Problem(
                path,
                f"rank 1 was exchanged in {exchanged:,} of {count_of(size, 'list')}",
                "some lists exchanged and some not, at random",
                _ORDINARY,
            )
        )
    return from_swaps(lists, shown, original, clicked), size, "random swaps"


def _shuffled(
    path: str, lists: Codes, shown: Codes, original: Codes, clicked: Floats
) -> tuple[dict[int, float], int, str]:
    """`from_random_order`, after a look at whether the order was random."""
    n = int(np.max(shown, initial=0, where=shown != original))
    top = (shown <= n) & (np.bincount(lists[shown <= n], minlength=lists.max() + 1)[lists] == n)
    shown, original, clicked = shown[top], original[top], clicked[top]
    if n < 2 or not shown.size:
        raise DataError(
            Problem(path, "every item stands where it was ranked", "lists with a shuffled top", _ORDINARY)
        )
    size = shown.size // n
    stood = np.bincount(shown, original, minlength=n + 1)[1:] / np.bincount(shown, minlength=n + 1)[1:]
    expected, error = (n + 1) / 2, np.sqrt((n**2 - 1) / 12 / size)
    worst = int(np.argmax(np.abs(stood - expected)))
    if abs(stood[worst] - expected) > _SIGMAS * error:
        raise DataError(
            Problem(
                path,
                f"items shown at rank {worst + 1} were ranked {stood[worst]:.2f} on average: the top {n} "
                "are not in random order",
                f"{expected:g}, as in a uniform shuffle",
                _ORDINARY,
            )
        )
    return from_random_order(shown, clicked), size, f"random order of the top {n}"
