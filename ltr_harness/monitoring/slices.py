"""Where is it worse? The segments whose change stands out from everybody else's, and queries to read.

A drop that hits all is found in every segment; so a segment's *excess* counts: its change minus the change of the rest.
"""

import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.stats.two_samples import Estimate, Influence, one_sided
from ltr_harness.data.columns import codes_of, together
from ltr_harness.data.queries import Bools, Floats, Ints
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.inputs import query_features
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import column_of, columns_of, grades_by_rank, mean_of_known, primary_of
from ltr_harness.monitoring.result import (
    MonitorResult,
    SearchedColumn,
    SegmentOverTime,
    Slice,
    WherePart,
    WorstQuery,
    drawn,
    table_of,
)
from ltr_harness.monitoring.stats.drift import bin_edges, binned
from ltr_harness.monitoring.stats.several_samples import bonferroni
from ltr_harness.report.blocks import Block, Column, Details, Heading, Paragraph, Table, axis_of

_AT_MOST = 10
_AND = " & "  # between the two conditions of a predicate
_WORST = 20


@dataclass(frozen=True, eq=False)
class _Column:
    """A column to cut by: a code per query, now and before, and what the codes say."""

    now: Ints
    before: Ints
    predicates: tuple[str, ...]


def slices(periods: Periods) -> tuple[list[Slice], int]:
    """The segments behind a drop by impact, each found without the queries of those before; and how many candidates."""
    config, columns = periods.config, _columns(periods)
    if not columns:
        return [], 0
    # of a replay the common queries, in the same order
    now, before = periods.common or (np.arange(len(periods.now)), np.arange(len(periods.before)))
    effect, rest, others = _design_effect(periods), None, None
    if config.slices.confirm_split:
        halves = _half(periods.now)[now], _half(periods.before)[before]
        rest = now[~halves[0]], before[~halves[1]]
        now, before = now[halves[0]], before[halves[1]]
    total, n_candidates, chosen = len(now), 0, []
    for turn in range(_AT_MOST):
        candidates = _Candidates(periods, columns, effect, now, before)
        if turn == 0:
            n_candidates = len(candidates.p)
        if not len(candidates.p):
            break
        q = bonferroni(candidates.p)
        best = int(np.lexsort((candidates.t, candidates.p))[0])
        if q[best] > periods.spent * config.slices.alpha:
            break
        worst, key = candidates.slice(best, float(q[best]), total), candidates.keys[best]
        if rest is not None and others is None:  # the queries that did not choose it
            others = _Candidates(periods, columns, effect, *rest)
        if others is not None and key in others.keys:
            worst = replace(
                worst, confirmed=others.slice(others.keys.index(key), worst.p_corrected, total).excess
            )
        chosen.append(worst)
        inside_now, inside_before = candidates.members(best)
        now, before = now[~inside_now], before[~inside_before]
    chosen.sort(key=lambda s: periods.sign * s.impact)
    return chosen, n_candidates


class _Candidates:
    """Every cell of columns and their pairs: excess = (slice now - slice before) - (rest now - rest before), its p."""

    def __init__(
        self, periods: Periods, columns: list[_Column], effect: float, now: Ints, before: Ints
    ) -> None:
        """`effect` is how much wider clusters make the variance of a mean."""
        sign, config = periods.sign, periods.config
        self._sign, self._least, self._confidence = (
            sign,
            least_queries(len(periods.now), config),
            config.confidence,
        )
        self._columns, self._now, self._before = columns, now, before
        self._paired, self._with_before = periods.common is not None, len(periods.before) > 0
        ours, theirs = periods.values[0][now], periods.values[1][before]
        sides = (ours, theirs, ours - theirs) if self._paired else (ours, theirs)
        # oriented, so that higher is better, and centred for exact sums
        self._centres = [float(values.mean()) * sign if values.size else 0.0 for values in sides]
        self._values = [sign * values - centre for values, centre in zip(sides, self._centres, strict=True)]
        places, sizes = range(len(columns)), [len(column.predicates) for column in columns]
        pairs = itertools.combinations(places, 2) if config.slices.max_predicates == 2 else ()
        # columns and cell of each candidate, and its sums on every side
        keys: list[tuple[int, int, int]] = []
        parts: list[Floats] = [np.empty((len(self._values), 3, 0))]
        for i, j in (*((i, -1) for i in places), *pairs):
            size = sizes[i] * (1 if j < 0 else sizes[j])
            of_now = zip((True, False, True), self._values, strict=False)
            sums = np.stack([_sums(self._cells(i, j, is_now), values, size) for is_now, values in of_now])
            cells = np.flatnonzero(self._enough(sums))
            keys += [(i, j, int(cell)) for cell in cells]
            parts.append(sums[:, :, cells])
        inside = np.concatenate(parts, axis=2)
        totals = [_sums(np.zeros(values.size, np.int64), values, 1) for values in self._values]
        rest = np.stack(totals) - inside
        keep = np.flatnonzero(self._enough(rest))
        self.keys = [keys[at] for at in keep]
        self.inside, self.rest = inside[:, :, keep], rest[:, :, keep]
        mean_in, var_in = _moments(self.inside)
        mean_rest, var_rest = _moments(self.rest)
        varying = [2] if self._paired else [0, 1] if self._with_before else [0]
        self.excess = mean_in[0] - mean_rest[0] - (mean_in[1] - mean_rest[1])  # 0 of an empty baseline
        own, terms = var_in[varying], np.concatenate([var_in[varying], var_rest[varying]])
        own_n, n = self.inside[varying, 0], np.concatenate([self.inside[varying, 0], self.rest[varying, 0]])
        self.t, self.p, self.error, self.freedom = _welch(self.excess, terms, n, effect)
        if self._with_before:
            # Left behind while the rest improved is no drop: the slice itself must have fallen as well.
            change = mean_in[0] - mean_in[1] + (self._centres[0] - self._centres[1])
            self.p = np.maximum(self.p, _welch(change, own, own_n, effect)[1])
        self._mean_in, self._mean_rest = mean_in, mean_rest

    def _enough(self, sums: Floats) -> Bools:
        return np.asarray((sums[: 1 + self._with_before, 0] >= self._least).all(axis=0))

    def _cells(self, i: int, j: int, now: bool) -> Ints:
        def codes(at: int) -> Ints:
            column = self._columns[at]
            return column.now[self._now] if now or self._paired else column.before[self._before]

        return codes(i) if j < 0 else codes(i) * len(self._columns[j].predicates) + codes(j)

    def members(self, at: int) -> tuple[Bools, Bools]:
        i, j, cell = self.keys[at]
        return self._cells(i, j, True) == cell, self._cells(i, j, False) == cell

    def slice(self, at: int, q: float, total: int) -> Slice:
        i, j, cell = self.keys[at]
        first, second = (self._columns[of].predicates for of in (i, j))
        predicate = (
            first[cell] if j < 0 else f"{first[cell // len(second)]}{_AND}{second[cell % len(second)]}"
        )
        reach = float(stdtrit(self.freedom[at], self._confidence) * self.error[at])  # of the one-sided test
        sign, n = self._sign, int(self.inside[0, 0, at])
        value, known = float(sign * self.excess[at]), 1.0 if self._with_before else float("nan")
        now, before = (sign * (self._mean_in[side, at] + self._centres[side]) for side in (0, 1))
        rest, rest_before = (self._mean_rest[side, at] + self._centres[side] for side in (0, 1))
        return Slice(
            predicate=predicate,
            n_now=n,
            n_before=int(self.inside[1, 0, at]),
            share=n / total,
            before=float(before) * known,
            now=float(now),
            rest_change=float(sign * (rest - rest_before)) * known,
            excess=Estimate(value, value - reach, value + reach, float(self.p[at]), float(self.error[at]), n),
            impact=n / total * value,
            p_corrected=q,
        )


def _welch(
    change: Floats, variances: Floats, n: Floats, effect: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """t, one-sided p, error and degrees of freedom of changes whose terms have these variances, (terms, m)."""
    variance = variances.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = np.where(variance > 0, variance**2 / (variances**2 / (n - 1)).sum(axis=0), 1.0)
        error = np.sqrt(variance * effect)
        t = np.where(error > 0, change / error, np.where(change < -1e-12, -np.inf, 0.0))
    return t, one_sided(t, freedom, "drop"), error, freedom


def _sums(cells: Ints, values: Floats, size: int) -> Floats:
    """(3, size): n, sum and sum of squares of each cell."""
    sums = [np.bincount(cells, of, minlength=size) for of in (None, values, values**2)]
    return np.stack(sums).astype(np.float64)


def _moments(sums: Floats) -> tuple[Floats, Floats]:
    """Means and variances of means; sums is (2, 3, cells)."""
    n = np.maximum(sums[:, 0], 1.0)
    mean = sums[:, 1] / n
    spread = np.maximum(sums[:, 2] - n * mean**2, 0.0)
    return mean, spread / np.maximum(n - 1, 1.0) / n


def _half(table: pd.DataFrame) -> Bools:
    """The same half of the queries in every run: by a checksum of the id."""
    checksums = (zlib.crc32(str(name).encode()) & 1 for name in table["query_id"])
    return np.fromiter(checksums, np.bool_, len(table))


def _design_effect(periods: Periods) -> float:
    """How much wider the clusters make the variance of a mean: at least 1."""
    ratios, paired = [1.0], periods.common is not None
    for sample in [periods.differences()] if paired else [periods.sample_now(), periods.reference]:
        if sample.clusters is not None and sample.values.size > 1:
            plain = Influence.of(sample.values - sample.values.mean()).variance
            if plain > 0:
                ratios.append(sample.plain[1].variance / plain)
    return max(ratios)


_LEAST = 20  # queries of a segment, whatever the period
_OF_THE_PERIOD = 20  # a segment of one in so many of its queries is searched in a short one
_OF_A_MEAN = 10  # queries, to name a mean that was not tested


def least_queries(n_queries: int, config: MonitorConfig) -> int:
    """How many queries a segment needs to be tested: `min_queries`, and less in a period of few."""
    short = max(_LEAST, n_queries // _OF_THE_PERIOD)
    return min(config.slices.min_queries, short)


def searched(periods: Periods) -> tuple[SearchedColumn, ...]:
    """Of each segment how many values were tested, and the worst of those with too few queries."""
    least, before = least_queries(len(periods.now), periods.config), columns_of(periods.before, "segment")
    with_before = len(periods.before) > 0
    found = []
    for name, now in columns_of(periods.now, "segment").items():
        if name not in before:
            continue
        both = together(now, before[name])
        size = both[0].categories.size
        codes = [codes_of(side, size) for side in both]
        counts = [np.bincount(of, minlength=size + 1)[:size] for of in codes]
        enough = counts[0] >= least
        if with_before:
            enough &= counts[1] >= least
        there = counts[0] > 0
        column = SearchedColumn(name, int(there.sum()), int((enough & there).sum()), least)
        left = np.flatnonzero(there & ~enough)
        if left.size:
            sums = np.bincount(codes[0], periods.values[0], minlength=size + 1)[:size]
            named = left[counts[0][left] >= min(_OF_A_MEAN, counts[0][left].max())]
            means = sums[named] / counts[0][named]
            worst = int(np.argmin(periods.sign * means))
            lowest = str(both[0].categories[named[worst]])
            numbers = float(means[worst]), int(counts[0][named[worst]])
            column = replace(column, lowest=lowest, lowest_mean=numbers[0], lowest_n=numbers[1])
        found.append(column)
    return tuple(found)


_DRAWN = 6  # segments


def over_time(
    periods: Periods, part: Periods, found: Sequence[Slice], members: Sequence[Ints]
) -> tuple[SegmentOverTime, ...]:
    """The worst segments of a part of production in all windows: the slices found, then the largest falls.

    `members` are the (n_queries,) queries of each window.
    """
    cells = {name: (column, at) for column in _columns(periods) for at, name in enumerate(column.predicates)}
    names = dict.fromkeys([s.predicate for s in found] + _fallen(part))
    chosen = {name: own for name in names if (own := _cells_of(name, cells))}
    values, before = periods.values
    series = []
    for name, own in [*chosen.items()][:_DRAWN]:
        inside = np.logical_and.reduce([column.now == at for column, at in own])
        inside_before = np.logical_and.reduce([column.before == at for column, at in own])
        rows = [of_window[inside[of_window]] for of_window in members]
        means = tuple(mean_of_known(values[of_window]) for of_window in rows)
        sizes = tuple(int(of_window.size) for of_window in rows)
        series.append(SegmentOverTime(name, mean_of_known(before[inside_before]), means, sizes))
    return tuple(series)


def _cells_of(predicate: str, cells: Mapping[str, tuple[_Column, int]]) -> list[tuple[_Column, int]]:
    """The cell of a predicate, or both cells of one of two conditions."""
    if predicate in cells:
        return [cells[predicate]]
    words = predicate.split(_AND)
    for at in range(1, len(words)):
        both = _AND.join(words[:at]), _AND.join(words[at:])
        if all(condition in cells for condition in both):
            return [cells[condition] for condition in both]
    return []


def _fallen(periods: Periods) -> list[str]:
    """Values of segments that have queries enough: the largest fall first; without a baseline the lowest mean."""
    names: list[str] = []
    moved: list[float] = []
    with_before = len(periods.before) > 0
    for column in _segments(periods):
        size, means = len(column.predicates), []
        for codes, values in zip((column.now, column.before), periods.values, strict=True):
            n = np.maximum(np.bincount(codes, minlength=size), 1)
            means.append(np.bincount(codes, values, minlength=size) / n)
        change = periods.sign * (means[0] - means[1] * with_before)
        names += column.predicates[:-1]  # the last is all others
        moved += change[:-1].tolist()
    return [names[at] for at in np.argsort(moved, kind="stable")]


def _columns(periods: Periods) -> list[_Column]:
    segments = _segments(periods)
    return [*segments, *_features(periods)] if periods.config.slices.features else segments


def _segments(periods: Periods) -> list[_Column]:
    columns, with_before = [], len(periods.before) > 0
    least = least_queries(len(periods.now), periods.config)
    before = columns_of(periods.before, "segment")
    for name, now in columns_of(periods.now, "segment").items():
        if name not in before:
            continue
        both = together(now, before[name])
        size = both[0].categories.size
        codes = [codes_of(side, size) for side in both]
        counts = [np.bincount(c, minlength=size + 1) for c in codes]
        frequent = counts[0] >= least
        if with_before:
            frequent &= counts[1] >= least
        kept = np.flatnonzero(frequent)
        to = np.full(size + 1, kept.size)
        to[kept] = np.arange(kept.size)
        texts = [*both[0].categories, "(missing)"]
        predicates = (*(f"{name}={texts[at]}" for at in kept), f"{name}=(other)")
        columns.append(_Column(to[codes[0]], to[codes[1]], predicates))
    return columns


def _features(periods: Periods) -> list[_Column]:
    columns, with_before = [], len(periods.before) > 0
    for name, (ours, theirs) in query_features(periods).items():
        if name.endswith(":missing"):
            continue
        edges = bin_edges(theirs if with_before else ours, periods.config.slices.numeric_bins)
        shown = [f"{edge:.4g}" for edge in edges]
        names = [f"{low} <= {name} < {high}" for low, high in itertools.pairwise(shown)]
        if shown:
            names = [f"{name} < {shown[0]}", *names, f"{name} >= {shown[-1]}"]
        predicates = (*(names or [f"{name} present"]), f"{name} missing")
        columns.append(_Column(binned(ours, edges), binned(theirs, edges), predicates))
    return columns


def worst_queries(production: pd.DataFrame, counted: Ints, periods: Periods | None) -> list[WorstQuery]:
    """The largest losses of (n_counted,) queries: against the same query before where it recurs, else low values."""
    values = primary_of(production)[counted]
    before = np.full(counted.size, np.nan)
    if periods is not None and periods.common is not None:
        ours, theirs = periods.common
        before[ours] = periods.values[1][theirs]
    sign = 1.0 if periods is None else periods.sign
    loss = np.where(np.isnan(before), sign * values, sign * (values - before))
    n_items, days = column_of(production, "n_items")[counted], column_of(production, "time")
    near = np.arange(loss.size)
    if loss.size > _WORST:  # a million queries are not sorted for twenty
        near = np.flatnonzero(loss <= np.partition(loss, _WORST)[_WORST])
    order = near[np.lexsort((-n_items[near], loss[near]))][:_WORST]
    rows, queries = counted[order], production["query_id"]
    moments = None if days is None else days.astype("datetime64[ns]")
    found = []
    for at, row, grades in zip(order, rows, grades_by_rank(production, rows), strict=True):
        day = "" if moments is None else str(moments[row].astype("datetime64[D]"))
        shown = " ".join("-" if np.isnan(g) else f"{g:g}" for g in grades[: n_items[at]])
        found.append(WorstQuery(str(queries.iloc[row]), day, float(values[at]), float(before[at]), shown))
    return found


def section(result: MonitorResult) -> list[Block]:
    if not (result.n_slice_candidates or result.searched):
        return []
    alerts = result.n_alerts("slice")
    finding = f"{alerts or 'none'} of {result.n_slice_candidates:,} with an alert"
    blocks: list[Block] = [Heading("Slices", finding=finding, matters=bool(alerts))]
    if result.examined_text:
        blocks.append(Paragraph(result.examined_text, "note"))
    blocks += _where(result, result, "slices", alerts=alerts > 0)
    blocks += [Paragraph(text, "note") for text in not_searched(result.searched)]
    if result.whole is not None:
        blocks.append(Details("All of production", tuple(_where(result, result.whole, "slices_whole"))))
    return blocks


def _where(result: MonitorResult, part: WherePart, name: str, *, alerts: bool = False) -> list[Block]:
    against = bool(result.changes)
    if part.slices:
        return [_table(result, part, name, alerts=alerts)]
    beyond = "changed" if against else "is worse"
    n = count_of(part.n_slice_candidates, "segment")
    return [Paragraph(f"None of {n} that were tested {beyond} beyond what the rest did.")]


def _table(result: MonitorResult, part: WherePart, name: str, *, alerts: bool) -> Table:
    against = bool(result.changes)
    whole = ", in all of production" if name == "slices_whole" else ""
    hint = "Change beyond the rest's." if against else "Mean against the rest's."
    axis = axis_of(end for s in part.slices for end in (s.excess.low, s.excess.high))
    excess = Column(f"Excess [{result.one_sided_name}]", "difference", hint=hint, axis=axis)
    other_half = "The excess on the queries that did not choose it."
    note = (
        f"Chosen by evidence among {count_of(part.n_slice_candidates, 'candidate')}, each found after setting "
        "the queries of those before it aside; ordered by impact. The intervals are optimistic: slices are here "
        "because they look bad."
    )
    return table_of(
        name,
        f"Segments whose {result.primary} {'fell beyond' if against else 'is below'} the rest's{whole}.",
        part.slices,
        (Column("Slice", "code"), "predicate"),
        (excess, lambda s: drawn(s.excess, alert=alerts and s.excess.direction != "")),
        (Column("Queries", "count"), "n_now"),
        (Column("Share", "percent"), "share"),
        (Column("Before", "metric"), "before"),
        (Column("Now", "metric"), "now"),
        (Column("Rest", "difference", hint="How the other queries changed."), "rest_change"),
        (Column("Impact", "difference", hint="Share times excess: points of the metric."), "impact"),
        (Column("p corrected", "p", hint="Bonferroni over all candidates of its round."), "p_corrected"),
        (Column("Other half", "difference", hint=other_half), "confirmed"),
        footnotes=(note,),
    )


def not_searched(columns: Sequence[SearchedColumn]) -> list[str]:
    """The segments that are too small to be tested, and the worst of them."""
    sentences = []
    for c in columns:
        left = c.n_values - c.n_searched
        if not left:
            continue
        have = f"{left:,} of {c.n_values:,} values of {c.column} {plural('has', left)}"
        were = "were" if left > 1 else "was"
        lowest = f"the lowest is {c.lowest}, {c.lowest_mean:.2f} ({count_of(c.lowest_n, 'query')})"
        sentences.append(f"{have} fewer than {c.least} queries and {were} not tested; {lowest}.")
    return sentences


def worst_section(result: MonitorResult) -> list[Block]:
    """Which queries should somebody read?"""
    if not result.worst_queries:
        return []
    paired = any(w.before == w.before for w in result.worst_queries)
    worst = table_of(
        "worst",
        "The largest losses against the same query before."
        if paired
        else "The lowest values among mature queries.",
        result.worst_queries,
        (Column("Query", "code"), "query"),
        (Column("Day"), "window"),
        (Column(result.primary, "metric"), "value"),
        (Column("Before", "metric"), "before"),
        (Column("Grades in the order shown", "code"), "grades"),
    )
    return [Heading("Worst queries", finding=f"{len(result.worst_queries)} to read"), worst]
