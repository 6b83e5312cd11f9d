"""Which queries belong together, such as those of one user, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.comparison.result import Entrant
from ltr_harness.errors import NotComparableError, Problem, UsageError
from ltr_harness.groups import as_column
from ltr_harness.stats.contributions import Codes, Contributions
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.comparison.compared import Compared

FEW = 10
"""Degrees of freedom below which a comparison says that few units decide it, unless there are few units anyway."""


def unit_codes(entrants: Sequence[Entrant], unit: str) -> Codes:
    """(n_queries,): a code for each unit, by the attribute that the entrants have; all in one order of queries.

    Raises:
        UsageError: no entrant has the attribute, a query lacks it, or all queries are one unit.
        NotComparableError: two entrants disagree.
    """
    having = [entrant for entrant in entrants if unit in entrant.query_attributes]
    place = f"unit {unit!r}"
    if not having:
        known = sorted({name for entrant in entrants for name in entrant.query_attributes})
        cure = (
            did_you_mean(unit, known)
            if known
            else "name it under `attributes:` of the data, or give a table a column of that name"
        )
        raise UsageError(Problem(place, f"no query has an attribute {unit!r}", cure=cure))
    first = having[0]
    own = unit_texts(first.query_attributes[unit])
    for other in having[1:]:
        apart = np.flatnonzero(unit_texts(other.query_attributes[unit]) != own)
        if apart.size:
            at = int(apart[0])
            found = (
                f"query {str(own_id(first, at))!r} is of {other.query_attributes[unit][at]} for {other.name} "
                f"and of {first.query_attributes[unit][at]} for {first.name}"
            )
            raise NotComparableError(Problem(place, found, "one unit for each query"))
    missing = np.flatnonzero(own == "")
    if missing.size:
        found = (
            f"{count_of(missing.size, 'query')} without one, {str(own_id(first, int(missing[0])))!r} first"
        )
        raise UsageError(
            Problem(
                place, found, "one for each query", "where it is unknown, make each query a unit of its own"
            )
        )
    codes: Codes = np.unique(own, return_inverse=True)[1].reshape(-1)
    if codes.max(initial=0) == 0:
        raise UsageError(
            Problem(place, "all queries are of one", "at least two units; many are needed to tell")
        )
    return codes


def own_id(entrant: Entrant, at: int) -> str:
    """The id of a query by its place."""
    return str(entrant.query_ids[at])


def unit_notes(comparison: Compared) -> list[str]:
    """How many units there are, how large, and what belonging together makes of the queries' number."""
    unit, codes = comparison.method.unit, comparison.units
    if unit is None or codes is None:
        return []
    sizes = np.sort(np.bincount(codes))
    said = f"tests and intervals go by {unit}: {sizes.size:,} of {_range(sizes)}"
    rivals = [model for model in comparison.ranking if model != comparison.baseline]
    values = [comparison.query_differences(model) for model in rivals]
    if not values:
        values = [comparison.entrant(comparison.baseline).per_query(comparison.primary)]
    means = Contributions.of(np.column_stack(values), codes)
    known = ~np.isnan(means.design_effect)
    if known.any():
        low, high = means.design_effect[known].min(), means.design_effect[known].max()
        effect = f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"
        said += (
            f"; design effect {effect}: variances are this multiple of what independent queries would have"
        )
    notes = [said]
    freedom = float(np.nanmin(means.freedom)) if not np.isnan(means.freedom).all() else np.inf
    if freedom < FEW and freedom < (sizes.size - 1) / 2:
        notes.append(
            f"{unit}: a few units have so many of the queries (the largest {sizes[-1] / codes.size:.0%}) that "
            f"{sizes.size:,} count as {freedom + 1:.2g}: what they say of other units is little, and p-values are less "
            "sure than they look"
        )
    elif sizes.size < 2 * FEW:
        notes.append(f"{unit}: {sizes.size} units are few; what is promised for many holds roughly")
    return notes


def _range(sizes: NDArray[np.integer]) -> str:
    """Of sorted sizes, such as ``1 to 40 queries, median 3``."""
    largest = count_of(int(sizes[-1]), "query")
    return largest if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {largest}, median {np.median(sizes):g}"


def unit_texts(values: NDArray[Any]) -> NDArray[np.str_]:
    """What the units are called; empty where a query has none.

    Shapes: `values` (n_queries,).

    Raises:
        DataError: a name is too long.
    """
    texts = ["" if value is None or value != value else str(value) for value in values.tolist()]
    return as_column(texts, "unit")
