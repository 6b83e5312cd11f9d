"""The segments whose change stands out from the rest's, and queries to read.

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
from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.data.columns import codes_of, with_common_categories
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.inputs import query_features
from ltr_harness.monitoring.periods import Periods
from ltr_harness.monitoring.queries import column_of, columns_of, grades_by_rank, mean_of_defined, primary_of
from ltr_harness.monitoring.result import (
    MonitorResult,
    SearchedColumn,
    SegmentOverTime,
    Slice,
    WherePart,
    WorstQuery,
    marked_estimate,
    table_of,
)
from ltr_harness.monitoring.stats.drift import bin_codes, bin_edges
from ltr_harness.monitoring.stats.several_samples import bonferroni
from ltr_harness.report.blocks import Block, Column, Details, Heading, Paragraph, Table, axis_of

_MAX_SLICES = 10
_AND = " & "  # between the two conditions of a predicate
_MAX_QUERIES = 20


@dataclass(frozen=True, eq=False)
class _CodedColumn:
    """A column to cut by: a code per query, now and before, and the predicate of each code."""

    now: Ints
    before: Ints
    predicates: tuple[str, ...]


def find_slices(periods: Periods) -> tuple[list[Slice], int]:
    """Find the segments behind a drop, by impact, each without the queries of those before; and count candidates."""
    config, columns = periods.config, _columns(periods)
    if not columns:
        return [], 0
    # of a replay the common queries, in the same order
    now, before = periods.common or (np.arange(len(periods.now)), np.arange(len(periods.before)))
    effect = _design_effect(periods)
    other_half = None
    if config.slices.confirm_split:
        halves = _half(periods.now)[now], _half(periods.before)[before]
        other_half = _Candidates(periods, columns, effect, now[~halves[0]], before[~halves[1]])
        now, before = now[halves[0]], before[halves[1]]
    candidates = _Candidates(periods, columns, effect, now, before)
    total, n_candidates, chosen = len(now), len(candidates.p), list[Slice]()
    while len(chosen) < _MAX_SLICES and len(candidates.p):
        p_corrected = bonferroni(candidates.p)
        best = int(np.lexsort((candidates.t, candidates.p))[0])
        if p_corrected[best] > periods.spent * config.slices.alpha:
            break
        segment = candidates.to_slice(best, float(p_corrected[best]), total)
        if other_half is not None:
            confirmed = other_half.excess_of(candidates.keys[best], total)
            segment = replace(segment, confirmed=confirmed)
        chosen.append(segment)
        inside_now, inside_before = candidates.members_of(best)
        now, before = now[~inside_now], before[~inside_before]
        candidates = _Candidates(periods, columns, effect, now, before)
    chosen.sort(key=lambda s: periods.sign * s.impact)
    return chosen, n_candidates


class _Candidates:
    """Every cell of columns and their pairs: excess = (slice now - slice before) - (rest now - rest before), its p."""

    def __init__(
        self, periods: Periods, columns: list[_CodedColumn], effect: float, now: Ints, before: Ints
    ) -> None:
        """Compare all cells; `effect` is the design effect of clusters on the variance of a mean."""
        config = periods.config
        self._sign, self._confidence = periods.sign, config.confidence
        self._least = least_queries(len(periods.now), config)
        self._columns, self._now, self._before = columns, now, before
        self._paired, self._with_before = periods.common is not None, len(periods.before) > 0
        self._values, self._centres = self._oriented_values(periods)
        keys, inside = self._cell_sums(pairs=config.slices.max_predicates == 2)
        totals = [_sums(np.zeros(values.size, np.int64), values, 1) for values in self._values]
        rest = np.stack(totals) - inside
        large = np.flatnonzero(self._has_enough_queries(rest))
        self.keys = [keys[i] for i in large]
        self.inside, self.rest = inside[:, :, large], rest[:, :, large]
        self._mean_in, var_in = _moments(self.inside)
        self._mean_rest, var_rest = _moments(self.rest)
        varying = [0, 1] if self._with_before else [0]
        if self._paired:
            varying = [2]
        # 0 of an empty baseline
        self.excess = self._mean_in[0] - self._mean_rest[0] - (self._mean_in[1] - self._mean_rest[1])
        terms = np.concatenate([var_in[varying], var_rest[varying]])
        n_inside = self.inside[varying, 0]
        n = np.concatenate([n_inside, self.rest[varying, 0]])
        self.t, self.p, self.error, self.df = _welch(self.excess, terms, n, effect)
        if self._with_before:
            # Left behind while the rest improved is no drop: the slice itself must have fallen as well.
            change = self._mean_in[0] - self._mean_in[1] + (self._centres[0] - self._centres[1])
            self.p = np.maximum(self.p, _welch(change, var_in[varying], n_inside, effect)[1])

    def _oriented_values(self, periods: Periods) -> tuple[list[Floats], list[float]]:
        """Return values now, before and, of a replay, differences: higher is better, and centred for exact sums."""
        now, before = periods.values[0][self._now], periods.values[1][self._before]
        sides = (now, before, now - before) if self._paired else (now, before)
        centres = [float(values.mean()) * self._sign if values.size else 0.0 for values in sides]
        values = [self._sign * side - centre for side, centre in zip(sides, centres, strict=True)]
        return values, centres

    def _cell_sums(self, *, pairs: bool) -> tuple[list[tuple[int, int, int]], Floats]:
        """Return columns and cell of each candidate, and its sums on every side: (sides, 3, candidates)."""
        sizes = [len(column.predicates) for column in self._columns]
        columns = [(number, -1) for number in range(len(sizes))]
        if pairs:
            columns += itertools.combinations(range(len(sizes)), 2)
        keys: list[tuple[int, int, int]] = []
        parts: list[Floats] = [np.empty((len(self._values), 3, 0))]
        for i, j in columns:
            size = sizes[i] if j < 0 else sizes[i] * sizes[j]
            sides = zip((True, False, True), self._values, strict=False)
            sums = np.stack([_sums(self._cells(i, j, is_now), values, size) for is_now, values in sides])
            cells = np.flatnonzero(self._has_enough_queries(sums))
            keys += [(i, j, int(cell)) for cell in cells]
            parts.append(sums[:, :, cells])
        return keys, np.concatenate(parts, axis=2)

    def excess_of(self, key: tuple[int, int, int], total: int) -> Estimate | None:
        """Return the excess of a slice; None where these queries have too few of it."""
        return self.to_slice(self.keys.index(key), float("nan"), total).excess if key in self.keys else None

    def _has_enough_queries(self, sums: Floats) -> Bools:
        return np.asarray((sums[: 1 + self._with_before, 0] >= self._least).all(axis=0))

    def _cells(self, i: int, j: int, now: bool) -> Ints:
        def codes(index: int) -> Ints:
            column = self._columns[index]
            return column.now[self._now] if now or self._paired else column.before[self._before]

        return codes(i) if j < 0 else codes(i) * len(self._columns[j].predicates) + codes(j)

    def members_of(self, candidate: int) -> tuple[Bools, Bools]:
        i, j, cell = self.keys[candidate]
        return self._cells(i, j, True) == cell, self._cells(i, j, False) == cell

    def _predicate(self, i: int, j: int, cell: int) -> str:
        first = self._columns[i].predicates
        if j < 0:
            return first[cell]
        second = self._columns[j].predicates
        return f"{first[cell // len(second)]}{_AND}{second[cell % len(second)]}"

    def to_slice(self, candidate: int, p_corrected: float, total: int) -> Slice:
        reach = float(
            stdtrit(self.df[candidate], self._confidence) * self.error[candidate]
        )  # of the one-sided test
        sign, n = self._sign, int(self.inside[0, 0, candidate])
        value = float(sign * self.excess[candidate])
        now, before = (sign * (self._mean_in[side, candidate] + self._centres[side]) for side in (0, 1))
        rest, rest_before = (self._mean_rest[side, candidate] + self._centres[side] for side in (0, 1))
        before_mean = rest_change = float("nan")
        if self._with_before:
            before_mean, rest_change = float(before), float(sign * (rest - rest_before))
        return Slice(
            predicate=self._predicate(*self.keys[candidate]),
            n_now=n,
            n_before=int(self.inside[1, 0, candidate]),
            share=n / total,
            before=before_mean,
            now=float(now),
            rest_change=rest_change,
            excess=Estimate(
                value, value - reach, value + reach, float(self.p[candidate]), float(self.error[candidate]), n
            ),
            impact=n / total * value,
            p_corrected=p_corrected,
        )


def _welch(
    change: Floats, variances: Floats, n: Floats, effect: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return t, one-sided p, error and degrees of freedom of changes; `variances` of their terms, (terms, m)."""
    variance = variances.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        df = np.where(variance > 0, variance**2 / (variances**2 / (n - 1)).sum(axis=0), 1.0)
        error = np.sqrt(variance * effect)
        t = np.where(error > 0, change / error, np.where(change < -1e-12, -np.inf, 0.0))
    return t, one_sided(t, df, "drop"), error, df


def _sums(cells: Ints, values: Floats, size: int) -> Floats:
    """Return n, sum and sum of squares of each cell, (3, size)."""
    sums = [np.bincount(cells, weights, minlength=size) for weights in (None, values, values**2)]
    return np.stack(sums).astype(np.float64)


def _moments(sums: Floats) -> tuple[Floats, Floats]:
    """Return means and variances of means; `sums` is (2, 3, cells)."""
    n = np.maximum(sums[:, 0], 1.0)
    mean = sums[:, 1] / n
    spread = np.maximum(sums[:, 2] - n * mean**2, 0.0)
    return mean, spread / np.maximum(n - 1, 1.0) / n


def _half(table: pd.DataFrame) -> Bools:
    """Choose the same half of the queries in every run, by a checksum of the id."""
    checksums = (zlib.crc32(str(name).encode()) & 1 for name in table["query_id"])
    return np.fromiter(checksums, np.bool_, len(table))


def _design_effect(periods: Periods) -> float:
    """Return the factor by which clusters widen the variance of a mean: at least 1."""
    ratios, samples = [1.0], [periods.sample_now(), periods.reference]
    if periods.common is not None:
        samples = [periods.differences()]
    for sample in samples:
        if sample.clusters is not None and sample.values.size > 1:
            unclustered_variance = Influence.of(sample.values - sample.values.mean()).variance
            if unclustered_variance > 0:
                ratios.append(sample.unweighted_mean[1].variance / unclustered_variance)
    return max(ratios)


_MIN_QUERIES = 20  # queries of a segment, whatever the period
_PERIOD_FRACTION = 20  # a segment of one in so many of its queries is searched in a short one
_MIN_MEAN_QUERIES = 10  # queries, to name a mean that was not tested


def least_queries(n_queries: int, config: MonitorConfig) -> int:
    """Return how many queries a segment needs to be tested: `min_queries`, and less in a period of few."""
    short = max(_MIN_QUERIES, n_queries // _PERIOD_FRACTION)
    return min(config.slices.min_queries, short)


@dataclass(frozen=True, eq=False)
class _SegmentCodes:
    """One segment column of both periods: codes per query, the same coding, and the values with queries enough."""

    name: str
    texts: list[str]  # of the codes
    now: Ints
    before: Ints
    n_now: Ints  # queries of each value; the last is missing ones
    is_large: Bools


def _segment_codes(periods: Periods) -> list[_SegmentCodes]:
    """Return the segments that both periods have."""
    least = least_queries(len(periods.now), periods.config)
    columns, of_before = [], columns_of(periods.before, "segment")
    for name, category in columns_of(periods.now, "segment").items():
        if name not in of_before:
            continue
        matched = with_common_categories(category, of_before[name])
        size = matched[0].categories.size
        now, before = (codes_of(side, size) for side in matched)
        counts = [np.bincount(codes, minlength=size + 1) for codes in (now, before)]
        is_large = counts[0] >= least
        if len(periods.before):
            is_large &= counts[1] >= least
        texts = [*map(str, matched[0].categories), "(missing)"]
        columns.append(_SegmentCodes(name, texts, now, before, counts[0], is_large))
    return columns


def searched_columns(periods: Periods) -> tuple[SearchedColumn, ...]:
    """Count the values of each segment that were tested, and name the worst of those with too few queries."""
    least, columns = least_queries(len(periods.now), periods.config), []
    for segment in _segment_codes(periods):
        n, is_large = segment.n_now[:-1], segment.is_large[:-1]
        occurs = n > 0
        column = SearchedColumn(segment.name, int(occurs.sum()), int((is_large & occurs).sum()), least)
        small = np.flatnonzero(occurs & ~is_large)
        if small.size:
            sums = np.bincount(segment.now, periods.values[0], minlength=n.size + 1)
            named = small[n[small] >= min(_MIN_MEAN_QUERIES, n[small].max())]
            means = sums[named] / n[named]
            worst = int(np.argmin(periods.sign * means))
            column = replace(
                column,
                lowest=segment.texts[named[worst]],
                lowest_mean=float(means[worst]),
                lowest_n=int(n[named[worst]]),
            )
        columns.append(column)
    return tuple(columns)


_MAX_SEGMENTS_DRAWN = 6  # segments


def segments_over_time(
    periods: Periods, part: Periods, worst: Sequence[Slice], members: Sequence[Ints]
) -> tuple[SegmentOverTime, ...]:
    """Return the worst segments of a part of production in all windows: its slices, then the largest falls.

    `members` are the (n_queries,) queries of each window.
    """
    cells = {
        name: (column, code) for column in _columns(periods) for code, name in enumerate(column.predicates)
    }
    names = dict.fromkeys([s.predicate for s in worst] + _names_by_fall(part))
    conditions = {name: _cells_of(name, cells) for name in names}
    drawable = [name for name in names if conditions[name]]
    return tuple(
        _segment_over_time(name, conditions[name], periods, members)
        for name in drawable[:_MAX_SEGMENTS_DRAWN]
    )


def _segment_over_time(
    name: str, conditions: Sequence[tuple[_CodedColumn, int]], periods: Periods, members: Sequence[Ints]
) -> SegmentOverTime:
    now, before = periods.values
    inside = np.logical_and.reduce([column.now == code for column, code in conditions])
    inside_before = np.logical_and.reduce([column.before == code for column, code in conditions])
    rows = [queries[inside[queries]] for queries in members]
    means = tuple(mean_of_defined(now[of_window]) for of_window in rows)
    sizes = tuple(int(of_window.size) for of_window in rows)
    return SegmentOverTime(name, mean_of_defined(before[inside_before]), means, sizes)


def _cells_of(
    predicate: str, cells: Mapping[str, tuple[_CodedColumn, int]]
) -> list[tuple[_CodedColumn, int]]:
    """Return the cell of a predicate, or both cells of one of two conditions."""
    if predicate in cells:
        return [cells[predicate]]
    words = predicate.split(_AND)
    for i in range(1, len(words)):
        pair = _AND.join(words[:i]), _AND.join(words[i:])
        if all(condition in cells for condition in pair):
            return [cells[condition] for condition in pair]
    return []


def _names_by_fall(periods: Periods) -> list[str]:
    """Return values of segments with queries enough, the largest fall first; without a baseline the lowest mean."""
    names: list[str] = []
    changes: list[float] = []
    with_before = len(periods.before) > 0
    for column in _segments(periods):
        size, means = len(column.predicates), []
        for codes, values in zip((column.now, column.before), periods.values, strict=True):
            n = np.maximum(np.bincount(codes, minlength=size), 1)
            means.append(np.bincount(codes, values, minlength=size) / n)
        change = periods.sign * (means[0] - means[1] * with_before)
        names += column.predicates[:-1]  # the last is all others
        changes += change[:-1].tolist()
    return [names[i] for i in np.argsort(changes, kind="stable")]


def _columns(periods: Periods) -> list[_CodedColumn]:
    segments = _segments(periods)
    return [*segments, *_features(periods)] if periods.config.slices.features else segments


def _segments(periods: Periods) -> list[_CodedColumn]:
    """Return the segments' columns; values with too few queries are one, the others."""
    columns = []
    for segment in _segment_codes(periods):
        large = np.flatnonzero(segment.is_large)
        recoded = np.full(segment.is_large.size, large.size)
        recoded[large] = np.arange(large.size)
        predicates = [f"{segment.name}={segment.texts[code]}" for code in large]
        predicates.append(f"{segment.name}=(other)")
        columns.append(_CodedColumn(recoded[segment.now], recoded[segment.before], tuple(predicates)))
    return columns


def _features(periods: Periods) -> list[_CodedColumn]:
    columns, with_before = [], len(periods.before) > 0
    for name, (now, before) in query_features(periods).items():
        if name.endswith(":missing"):
            continue
        edges = bin_edges(before if with_before else now, periods.config.slices.numeric_bins)
        ends = [f"{edge:.4g}" for edge in edges]
        if ends:
            middle_bins = [f"{low} <= {name} < {high}" for low, high in itertools.pairwise(ends)]
            bins = [f"{name} < {ends[0]}", *middle_bins, f"{name} >= {ends[-1]}"]
        else:
            bins = [f"{name} present"]
        predicates = (*bins, f"{name} missing")
        columns.append(_CodedColumn(bin_codes(now, edges), bin_codes(before, edges), predicates))
    return columns


def worst_queries(production: pd.DataFrame, counted: Ints, periods: Periods | None) -> list[WorstQuery]:
    """Return the largest losses of queries, (n_counted,): against the same query before if it recurs, or low values."""
    values = primary_of(production)[counted]
    before = np.full(counted.size, np.nan)
    sign = 1.0 if periods is None else periods.sign
    if periods is not None and periods.common is not None:
        recurring, at_before = periods.common
        before[recurring] = periods.values[1][at_before]
    loss = np.where(np.isnan(before), sign * values, sign * (values - before))
    n_items = column_of(production, "n_items")[counted]
    order = _lowest(loss, n_items)
    rows, queries, time = counted[order], production["query_id"], column_of(production, "time")
    days = [""] * rows.size
    if time is not None:
        days = [str(day) for day in time[rows].astype("datetime64[ns]").astype("datetime64[D]")]
    worst = []
    for i, row, day, grades in zip(order, rows, days, grades_by_rank(production, rows), strict=True):
        grades_text = " ".join("-" if np.isnan(g) else f"{g:g}" for g in grades[: n_items[i]])
        worst.append(WorstQuery(str(queries.iloc[row]), day, float(values[i]), float(before[i]), grades_text))
    return worst


def _lowest(loss: Floats, n_items: Ints) -> Ints:
    """Return the places of the lowest values, (n,); of equal ones those with more items come first."""
    near = np.arange(loss.size)
    if loss.size > _MAX_QUERIES:  # a million queries are not sorted for twenty
        near = np.flatnonzero(loss <= np.partition(loss, _MAX_QUERIES)[_MAX_QUERIES])
    return near[np.lexsort((-n_items[near], loss[near]))][:_MAX_QUERIES]


def section(result: MonitorResult) -> list[Block]:
    if not (result.n_slice_candidates or result.searched):
        return []
    alerts = result.n_alerts("slice")
    finding = f"{alerts or 'none'} of {result.n_slice_candidates:,} with an alert"
    blocks: list[Block] = [Heading("Slices", finding=finding, matters=bool(alerts))]
    if result.examined_text:
        blocks.append(Paragraph(result.examined_text, "note"))
    blocks += _slice_blocks(result, result, "slices", alerts=alerts > 0)
    blocks += [Paragraph(text, "note") for text in unsearched_sentences(result.searched)]
    if result.whole is not None:
        blocks.append(
            Details("All of production", tuple(_slice_blocks(result, result.whole, "slices_whole")))
        )
    return blocks


def _slice_blocks(result: MonitorResult, part: WherePart, name: str, *, alerts: bool = False) -> list[Block]:
    if part.slices:
        return [_table(result, part, name, alerts=alerts)]
    beyond = "changed" if result.changes else "is worse"
    n = count_of(part.n_slice_candidates, "segment")
    return [Paragraph(f"None of {n} that were tested {beyond} beyond what the rest did.")]


def _table(result: MonitorResult, part: WherePart, name: str, *, alerts: bool) -> Table:
    scope = ", in all of production" if name == "slices_whole" else ""
    relation, hint = "is below", "Mean against the rest's."
    if result.changes:
        relation, hint = "fell beyond", "Change beyond the rest's."
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
        f"Segments whose {result.primary} {relation} the rest's{scope}.",
        part.slices,
        (Column("Slice", "code"), "predicate"),
        (excess, lambda s: marked_estimate(s.excess, alert=alerts and s.excess.direction != "")),
        (Column("Queries", "count"), "n_now"),
        (Column("Share", "percent"), "share"),
        (Column("Before", "metric"), "before"),
        (Column("Now", "metric"), "now"),
        (Column("Rest", "difference", hint="Change of the other queries."), "rest_change"),
        (Column("Impact", "difference", hint="Share times excess: points of the metric."), "impact"),
        (Column("p corrected", "p", hint="Bonferroni over all candidates of its round."), "p_corrected"),
        (Column("Other half", "difference", hint=other_half), "confirmed"),
        footnotes=(note,),
    )


def unsearched_sentences(columns: Sequence[SearchedColumn]) -> list[str]:
    """Return sentences on the segments that are too small to be tested, and the worst of them."""
    sentences = []
    for c in columns:
        n_left = c.n_values - c.n_searched
        if not n_left:
            continue
        have = f"{n_left:,} of {c.n_values:,} values of {c.column} {plural('has', n_left)}"
        were = "were" if n_left > 1 else "was"
        lowest = f"the lowest is {c.lowest}, {c.lowest_mean:.2f} ({count_of(c.lowest_n, 'query')})"
        sentences.append(f"{have} fewer than {c.least} queries and {were} not tested; {lowest}.")
    return sentences


def worst_section(result: MonitorResult) -> list[Block]:
    """Is there a query that somebody should read?"""
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
