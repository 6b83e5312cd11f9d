"""Splits of queries: hold-out, folds, shares by chance, by time, by user, by stratum. A query is never split.

The same seed gives the same split on every machine: queries are ordered by raw numbers of PCG64, a guaranteed stream.
"""

from collections.abc import Mapping

import numpy as np

from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Array, Ints
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError

_NOT_BOTH = (
    "queries can be kept together or stratified, but not both, because a user may belong to several strata"
)


def holdout(groups: QueryGroups, fraction: float, seed: int) -> tuple[Ints, Ints]:
    """Kept and held-out queries, int64, each sorted: a share, rounded to the nearest query, is set aside by chance."""
    if not 0 < fraction < 1:
        expected = "expected a share above 0 and below 1, such as 0.2"
        raise DataError(f"holdout fraction is {fraction:g}; {expected}")
    n = groups.n_queries
    n_held = int(np.floor(fraction * n + 0.5))
    if n_held in (0, n):
        lacking = "kept" if n_held else "held out"
        found = f"a holdout of {fraction:g} of {n} queries leaves none {lacking}"
        raise DataError(f"{found}; expected at least one on each side")
    order = shuffled(n, seed)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def share_of_queries(groups: QueryGroups, share: float, seed: int) -> Ints:
    """Queries of a share drawn by chance, int64, sorted: the smaller share of a seed is a part of the larger one."""
    n = groups.n_queries
    n_drawn = int(np.floor(share * n + 0.5))
    if not n_drawn:
        raise DataError(
            f"a share of {share:g} of {count_of(n, 'training query')} is none; expected at least one"
        )
    return np.sort(shuffled(n, seed)[:n_drawn])


def folds(
    groups: QueryGroups,
    n: int,
    seed: int,
    *,
    unit_values: Array | None = None,  # (n_queries,): queries of one value stay in one part
    strata: Array | None = None,  # (n_queries,): queries of each value are spread evenly
) -> list[tuple[Ints, Ints, Ints]]:
    """Train, valid and test queries of each fold, int64, each sorted: in fold i, part i is test, part i + 1 valid.

    Every query is tested exactly once. Parts differ in size by at most one query, except with `together`.
    """
    if n < 3:
        raise DataError(f"{n} folds; expected at least 3: each fold needs a train, a valid and a test part")
    if groups.n_queries < n:
        found = f"{n} folds of {count_of(groups.n_queries, 'query')}"
        raise DataError(f"{found}; expected at least one query per fold")
    parts = fold_parts(groups.n_queries, n, seed, unit_values, strata)
    divided = []
    for i in range(n):
        j = (i + 1) % n
        train = np.concatenate([part for k, part in enumerate(parts) if k not in (i, j)])
        divided.append((np.sort(train), np.sort(parts[j]), np.sort(parts[i])))
    return divided


def fold_parts(
    n_queries: int,
    n: int,
    seed: int,
    unit_values: Array | None = None,  # (n_queries,)
    strata: Array | None = None,  # (n_queries,)
) -> list[Ints]:
    """Test queries of each fold, as `folds` has them."""
    order = shuffled(n_queries, seed)
    if unit_values is None and strata is None:
        return np.array_split(order, n)
    if unit_values is not None and strata is not None:
        raise DataError(_NOT_BOTH)
    if strata is not None:
        dealt = order[np.argsort(_numbered(strata)[order], kind="stable")]  # stratum by stratum, like cards
        return [dealt[i::n] for i in range(n)]
    unit = _numbered(unit_values)  # type: ignore[arg-type]
    if unit.max() + 1 < n:
        found = f"{n} folds of {unit.max() + 1} values to keep together"
        raise DataError(f"{found}; expected at least one per fold")
    sizes = np.bincount(unit)
    part_of_unit = np.full(len(sizes), -1, dtype=np.int64)
    filled = np.zeros(n, dtype=np.int64)
    # Large ones first, the drawn order among equals: then the parts come out as even as they can.
    drawn = unit[order][np.sort(np.unique(unit[order], return_index=True)[1])]
    for number in drawn[np.argsort(-sizes[drawn], kind="stable")].tolist():
        part_of_unit[number] = int(np.argmin(filled))
        filled[part_of_unit[number]] += sizes[number]
    return [np.flatnonzero(part_of_unit[unit] == i).astype(np.int64) for i in range(n)]


def divided(
    groups: QueryGroups,
    shares: Mapping[str, float],
    seed: int,
    *,
    unit_values: Array | None = None,  # (n_queries,): queries of one value stay in one part
    strata: Array | None = None,  # (n_queries,): each value gets its share of every part
) -> dict[str, Ints]:
    """Queries, int64, sorted, of parts by chance with shares such as ``{"valid": 0.1}``; what remains is ``train``."""
    _check_shares(shares)
    if unit_values is not None and strata is not None:
        raise DataError(_NOT_BOTH)
    n = groups.n_queries
    order = shuffled(n, seed)
    unit = np.arange(n) if unit_values is None else _numbered(unit_values)
    if strata is not None:
        order = order[np.argsort(_numbered(strata)[order], kind="stable")]
    elif unit_values is not None:
        _, first = np.unique(unit[order], return_index=True)
        # a unit stands where the first of its queries was drawn
        order = order[np.argsort(first[unit[order]], kind="stable")]
    part_of = np.empty(n, dtype=np.int64)
    if strata is None:
        part_of[order] = _cut_at(_targets(shares, n), unit[order])
    else:
        # Stratum after stratum, each cut so that the parts' sizes so far are what their shares ask for.
        _, sizes = np.unique(strata, return_counts=True)
        begin = 0
        sizes_so_far = np.zeros(len(shares) + 1, dtype=np.int64)
        for end in np.cumsum(sizes).tolist():
            goal = np.diff(np.concatenate([[0], _targets(shares, end), [end]]))
            sizes_of_parts = np.maximum(goal - sizes_so_far, 0)
            while sizes_of_parts.sum() > end - begin:
                sizes_of_parts[np.argmax(sizes_of_parts)] -= 1
            sizes_of_parts[-1] += end - begin - sizes_of_parts.sum()
            part_of[order[begin:end]] = np.repeat(np.arange(len(sizes_of_parts)), sizes_of_parts)
            sizes_so_far += sizes_of_parts
            begin = end
    return _parts(part_of, shares)


def divided_by_time(
    groups: QueryGroups, shares: Mapping[str, float], times: Array, name: str = "time", source: str = ""
) -> dict[str, Ints]:
    """Queries, int64, sorted, of parts by time: the oldest are ``train``, and the parts of `shares` follow.

    Times are (n_queries,), numbers, times or ISO 8601 text, which messages call `name`, with the `source` of the data.
    Queries of one time are never on two sides.
    """
    _check_shares(shares)
    if times.dtype.kind not in "biuf":
        from ltr_harness.data.times import moments_of

        times = moments_of(times, name, "UTC", groups.name, source)
    elif (absent := ~np.isfinite(times)).any():
        found = f"query {groups.name(int(np.argmax(absent)))!r} has no {name} ({int(absent.sum()):,} such)"
        place = f"{source}: attribute {name!r}" if source else f"attribute {name!r}"
        raise DataError.at(place, found, "a time for each query")
    order = np.argsort(times, kind="stable")
    n = groups.n_queries
    # Targets count from the oldest here: train comes first.
    reversed_shares = dict(reversed(list(shares.items())))
    newest_first = order[::-1]
    part_of = np.empty(n, dtype=np.int64)
    part_of[newest_first] = _cut_at(_targets(reversed_shares, n), _numbered(times)[newest_first])
    parts = _parts(part_of, reversed_shares)
    return {name: parts[name] for name in ("train", *shares)}


def _check_shares(shares: Mapping[str, float]) -> None:
    bad_shares = {name: share for name, share in shares.items() if not 0 < share < 1}
    total = sum(shares.values())
    if bad_shares or not shares or total >= 1 or "train" in shares:
        listed = ", ".join(f"{name} {share:g}" for name, share in shares.items()) or "none"
        expected = "expected shares above 0 that add up to less than 1: the rest is train"
        raise DataError(f"shares are {listed}; {expected}")


def _targets(shares: Mapping[str, float], n: int) -> Ints:
    """Return the ends of the parts of `shares`, the last of them followed by train."""
    return np.asarray(np.floor(np.cumsum(list(shares.values())) * n + 0.5).astype(np.int64))


def _cut_at(targets: Ints, units: Ints) -> Ints:
    """The part of each position when the row of units is cut as near to the targets as no unit is divided."""
    borders = np.concatenate([[0], np.flatnonzero(np.diff(units)) + 1, [len(units)]])
    cuts = [int(borders[np.argmin(np.abs(borders - target))]) for target in targets.tolist()]
    return np.searchsorted(np.array(cuts), np.arange(len(units)), side="right").astype(np.int64)


def _numbered(values: Array) -> Ints:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _parts(part_of: Ints, shares: Mapping[str, float]) -> dict[str, Ints]:
    names = [*shares, "train"]
    queries = {name: np.flatnonzero(part_of == number).astype(np.int64) for number, name in enumerate(names)}
    if empty := [name for name in names if len(queries[name]) == 0]:
        found = f"{' and '.join(empty)} would have no query out of {len(part_of)}"
        raise DataError(f"{found}; expected at least one in each part")
    return {name: queries[name] for name in ("train", *shares)}


def shuffled(n: int, seed: int) -> Ints:
    """0..n-1 in the order the seed gives, int64, stable for ever (see the top of this file)."""
    if seed < 0:
        raise DataError(f"seed is {seed}; expected an integer >= 0")
    draws = np.random.PCG64(seed).random_raw(n)
    return np.argsort(draws, kind="stable").astype(np.int64)
