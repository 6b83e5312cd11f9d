"""Gradients of LambdaMART for any metric that knows how it changes when two rows change places.

A query's rows in the order of their scores s, equal scores in row order. For every pair of rows at ranks a < b of which
at least one stands within the first `truncation_level`, i being the one that is worth more:

    p = 1 / (1 + exp(sigma (s_i - s_j)))        w = |change of the metric if the two changed places|
    gradient_i -= sigma p w,  gradient_j += sigma p w,  hessian_i and hessian_j += sigma^2 p (1 - p) w

Burges 2010, "From RankNet to LambdaRank to LambdaMART". Both results are multiplied by the query's weight. With
`norm`, as in LightGBM, w is divided by 0.01 + |s_i - s_j| unless all scores of the query are equal, and the query's
gradients and hessians are multiplied by log2(1 + L) / L, where L is twice the sum of sigma p w.

With E = exp(sigma (s - highest)), p is E_j / (E_i + E_j): one exponential for each row instead of one for each pair.
"""

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.compiled import compiled, compiled_vectorized
from ltr_harness._util.cores import available_cores
from ltr_harness._util.text import count_of
from ltr_harness.boosting.watching import JudgmentsArg, OncePerSet, judgments_of_sets, match_judgments
from ltr_harness.data.arrays import Floats, read_only
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import check_scores
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core import RowRanker, SwapChange
from ltr_harness.metrics.core.binding import refuse_values
from ltr_harness.metrics.core.gains import NAMED_DISCOUNTS

Weighting = Literal["swap", "ndcg_loss2++"]
Both = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Gradient and hessian of every row, (n_rows,) each, float32 as both libraries keep them."""


@dataclass(frozen=True)
class MetricObjective:
    """A metric with `Metric.swap_change` as LambdaMART's objective; `swap_gradients` has the formulas.

    The weighting ``swap`` is by how much the metric changes; ``ndcg_loss2++`` of Wang et al. 2018 (LambdaLoss) adds ten
    times what two rows that far apart would lose at the top: DCG and NDCG alone have it.
    """

    metric: Metric
    truncation_level: int = field(
        default=30,
        metadata={
            "ge": 1,
            "description": "Pairs with a row within this many ranks count; the metric's K bounds it.",
        },
    )
    sigma: float = field(
        default=1.0,
        metadata={"gt": 0, "allow_inf_nan": False, "description": "Steepness of the logistic function."},
    )
    norm: bool = field(
        default=True, metadata={"description": "As LightGBM's lambdarank_norm, in either library."}
    )
    weighting: Weighting = field(
        default="swap",
        metadata={
            "description": "By how much the metric changes; ndcg_loss2++ (LambdaLoss) for ndcg and dcg alone."
        },
    )

    def __post_init__(self) -> None:
        if not self.metric.has_swap_change:
            raise MetricError(
                f"{self.metric} cannot be an objective: it does not define its change when two rows change "
                "places; expected a metric with `swap_change`, such as ndcg@10, mrr, map or err@10"
            )
        level = self.truncation_level
        if isinstance(level, bool) or not isinstance(level, int) or level < 1:
            raise MetricError(f"truncation_level={level!r}; expected an integer >= 1")
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise MetricError(f"sigma={self.sigma}; expected a number above 0, such as 1")
        if self.weighting not in get_args(Weighting):
            expected = " or ".join(get_args(Weighting))
            raise MetricError(f"weighting={self.weighting!r}; expected {expected}")
        if self.weighting == "ndcg_loss2++" and getattr(self.metric, "discount", None) not in NAMED_DISCOUNTS:
            raise MetricError(
                f"weighting=ndcg_loss2++ with {self.metric}; expected dcg or ndcg with discount "
                f"{' or '.join(NAMED_DISCOUNTS)}"
            )

    def resolved(self, judgments: Judgments) -> Self:
        """The same, with everything fixed that the metric takes from the data."""
        metric = self.metric.resolved(judgments.pool)
        if metric.k is None:  # with one, other parts of the data may have longer queries
            require_order(metric, judgments)
        return replace(self, metric=metric)


def change_of(metric: Metric, judgments: Judgments) -> SwapChange:
    """Return the change of a metric when two candidates change places; missed documents count in its divisor."""
    refuse_values([metric], judgments)
    change = metric.swap_change(judgments.pool)
    return change if judgments.missed is None else change.with_rows(judgments.pool_rows)


def require_order(metric: Metric, judgments: Judgments) -> None:
    """Refuse a resolved metric that no change of order changes in the training queries: nothing could be learned."""
    longest = int(judgments.groups.sizes.max())
    if change_of(metric, judgments).changes_nothing(longest):
        raise MetricError(
            f"{metric} counts every rank of the longest query ({count_of(longest, 'row')}) alike, so no order is "
            f"better than another; expected a cutoff below {longest}, such as {replace(metric, k=min(10, longest - 1))}"
        )


_LARGEST_SCORE = 1e100  # differences of larger ones overflow
_LOSS2_SHARE = 10.0  # mu of NDCG-Loss2++, as in its paper
_ROWS_PER_THREAD = 20_000  # below, starting a thread costs more than it saves


class Gradients:
    """Gradients of an objective, whose metric is resolved, on one set of queries, divided among threads."""

    def __init__(self, objective: MetricObjective, judgments: Judgments, threads: int = 1) -> None:
        self._judgments = judgments
        boundaries = judgments.groups.boundaries
        n_parts = max(1, min(threads, int(boundaries[-1]) // _ROWS_PER_THREAD))
        ends = np.searchsorted(boundaries, np.arange(1, n_parts + 1) * boundaries[-1] // n_parts)
        cuts = np.unique(np.concatenate(([0], ends))).tolist()
        change_of(objective.metric, judgments)  # a refusal counts the rows of all queries
        self._parts = [
            _QueryBlock(objective, judgments.take(np.arange(first, last)), int(boundaries[first]))
            for first, last in itertools.pairwise(cuts)
        ]

    def at_scores(self, scores: ArrayLike) -> Both:
        """From raw scores (n_rows,)."""
        checked = _finite(scores, self._judgments)
        gradient, hessian = np.zeros((2, checked.size), dtype=np.float32)

        def fill(part: _QueryBlock) -> None:
            part.fill(checked[part.rows], gradient[part.rows], hessian[part.rows])

        if len(self._parts) == 1:
            fill(self._parts[0])
        else:
            with ThreadPoolExecutor(len(self._parts)) as pool:
                list(pool.map(fill, self._parts))
        return gradient, hessian


class GradientsPerSet:
    """Base of both libraries' `objective`: a metric's gradients, prepared once for each set; as `MetricsPerSet`."""

    at_most: int | None = None

    def __init__(self, objective: MetricObjective, threads: int | None, judgments: JudgmentsArg) -> None:
        super().__init__()
        self._objective = objective
        self._threads = threads
        self._judgments = judgments_of_sets(judgments)
        self._prepared: OncePerSet[Gradients] = OncePerSet(self.at_most)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._objective, self._threads, self._judgments)

    def _gradients(self, data: Any, judged: Callable[[], Judgments], *fields: Any) -> Gradients:
        def prepare() -> Gradients:
            judgments = match_judgments(self._judgments, judged())
            self._objective = self._objective.resolved(judgments)
            return Gradients(self._objective, judgments, self._threads or available_cores())

        return self._prepared.get(data, prepare, *fields)


def swap_changes(change: SwapChange, judgments: Judgments, scores: ArrayLike) -> list[Floats]:
    """Sizes of the changes when ranks a + 1 and b + 1 change places: at [a, b], a < b, float64 (n, n) per query."""
    ranked = RowRanker(judgments, "stable", None).rank(_finite(scores, judgments)).rows
    boundaries = judgments.groups.boundaries
    tables = []
    for query, (start, end) in enumerate(itertools.pairwise(boundaries.tolist())):
        table = np.zeros((end - start, end - start))
        own_changes = _changes_by_function(change, query, ranked[start:end], end - start)
        fill_changes(_form(change, boundaries), ranked, own_changes, query, table)
        tables.append(table)
    return tables


def _finite(scores: ArrayLike, judgments: Judgments) -> Floats:
    checked = check_scores(scores, judgments.groups)
    if not max(checked.max(), -checked.min()) <= _LARGEST_SCORE:
        row = int(np.argmax(np.abs(checked)))
        query = judgments.groups.name(judgments.groups.query_of(row))
        found = f"score is {checked[row]:g} in query {query!r}"
        raise DataError(f"{found}; expected finite scores: a row whose score is infinite has no gradient")
    return checked


def _form(change: SwapChange, boundaries: NDArray[np.int64]) -> "KernelForm":
    sizes = np.diff(boundaries)
    depth = sizes if change.depth is None else np.minimum(change.depth, sizes)
    if change.form in ("sum", "first hit", "precision", "cascade") and not change.per_query:
        depth = np.minimum(depth, change.rank_worth.size)
    table_at = boundaries[:-1] if change.per_query else np.zeros(sizes.size, dtype=np.int64)
    parameter = float(change.continuation if change.form == "cascade" else change.blend)
    by_distance = np.zeros(0) if change.distance_worth is None else change.distance_worth
    columns = (change.worth, change.scale, change.rank_worth)
    worth_of_rows, scale, rank_worth = (np.ascontiguousarray(column, dtype=np.float64) for column in columns)
    return KernelForm(
        FORMS[change.form],
        read_only(worth_of_rows),
        read_only(scale),
        read_only(rank_worth),
        read_only(table_at),
        read_only(depth),
        parameter,
        read_only(by_distance),
        read_only(boundaries),
    )


def _changes_by_function(change: SwapChange, query: int, rows: NDArray[np.int64], n_top: int) -> Floats:
    """Changes of one query by the metric's own function, if it gives one."""
    if change.function is None:
        return np.zeros((0, 0))
    return np.abs(np.asarray(change.function(query, rows, n_top), dtype=np.float64))


class _QueryBlock:
    """Neighbouring queries, whose gradients one thread computes."""

    def __init__(self, objective: MetricObjective, judgments: Judgments, first_row: int) -> None:
        weights = judgments.query_weights
        self.rows = slice(first_row, first_row + judgments.groups.n_rows)
        self._groups = judgments.groups
        self._change = change_of(objective.metric, judgments)
        self._form = _form(self._change, judgments.groups.boundaries)
        self._ranker = RowRanker(judgments, "stable", None)
        self._pairs = PairWeights(
            read_only(np.ones(judgments.groups.n_queries) if weights is None else weights),
            objective.truncation_level,
            float(objective.sigma),
            objective.norm,
            _LOSS2_SHARE if objective.weighting == "ndcg_loss2++" else 0.0,
        )

    def fill(self, scores: Floats, *written: NDArray[np.float32]) -> None:
        """Writes gradient and hessian."""
        ranked = self._ranker.rank(scores).rows
        form, pairs, groups = self._form, self._pairs, self._groups
        if self._change.function is None:
            nothing = np.zeros((0, 0))
            add_gradients(form, pairs, scores, ranked, nothing, 0, groups.n_queries, *written)
            return
        for query, (start, end) in enumerate(itertools.pairwise(groups.boundaries.tolist())):
            own_changes = _changes_by_function(
                self._change, query, ranked[start:end], min(pairs.top, end - start)
            )
            add_gradients(form, pairs, scores, ranked, own_changes, query, query + 1, *written)


FORMS = {"sum": 0, "first hit": 1, "precision": 2, "cascade": 3, "pairs": 4, "own": 5}
_SUM, _FIRST, _PRECISION, _CASCADE, _PAIRS, _OWN = range(6)
_NEARLY_SURE = 1.0 - 1e-6  # whoever satisfies more leaves too few readers to divide by
_WIDEST = 300.0  # of sigma (s_i - s_j): beyond, E underflows, and pairs get an exponential each


class KernelForm(NamedTuple):
    """A metric's `SwapChange` as the kernels take it."""

    form: int
    worth: Floats
    scale: Floats
    rank_worth: Floats
    table_at: NDArray[np.int64]  # where each query's begins in it
    depth: NDArray[np.int64]
    parameter: float
    apart: Floats
    boundaries: NDArray[np.int64]


class PairWeights(NamedTuple):
    """Weights of queries and pairs; see `MetricObjective`."""

    weights: Floats
    top: int
    sigma: float
    norm: bool
    apart_share: float


@compiled
def add_gradients(
    metric: KernelForm,
    pairs: PairWeights,
    scores: Floats,  # float64 (n_rows,), finite
    ranked: NDArray[np.int64],  # int64 (n_rows,), row numbers of each query in rank order
    own_changes: Floats,  # float64 (m, n), changes of the one query, where the metric gives a function
    first: int,
    last: int,
    gradient: NDArray[np.float32],  # float32 (n_rows,), written
    hessian: NDArray[np.float32],  # float32 (n_rows,), written
) -> None:
    """Gradients and hessians of the queries from `first` to before `last`."""
    form, parameter, sigma = metric.form, metric.parameter, pairs.sigma
    longest = 0
    for query in range(first, last):
        longest = max(longest, metric.boundaries[query + 1] - metric.boundaries[query])
    s, mass, near = np.empty(longest), np.empty(longest), np.empty(longest)
    x, d, before, inner = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    w, g, h = np.empty(longest), np.empty(longest), np.empty(longest)
    for query in range(first, last):
        start = metric.boundaries[query]
        n = metric.boundaries[query + 1] - start
        scale = metric.scale[query]
        if n < 2 or scale == 0.0:
            continue
        highest = scores[ranked[start]]
        for i in range(n):
            row = ranked[start + i]
            s[i] = scores[row]
            x[i] = metric.worth[row]
            g[i] = 0.0
            h[i] = 0.0
            mass[i] = np.exp(max(sigma * (s[i] - highest), -2.0 * _WIDEST))
        reach, hit, next_hit = _state(metric, query, n, x, d, before, inner)
        wide = sigma * (highest - s[n - 1]) > _WIDEST
        base = 1.0
        slope = 0.0
        if pairs.norm and highest != s[n - 1]:
            base = 0.01
            slope = 1.0
        total = 0.0
        for i in range(min(pairs.top, reach, n - 1)):
            _fill(form, i, n, x, d, before, inner, hit, next_hit, parameter, scale, own_changes, w)
            if pairs.apart_share > 0.0:
                _add_distance_weights(i, n, x, metric.apart, pairs.apart_share * scale, w)
            if wide:
                for j in range(i + 1, n):
                    near[j] = np.exp(sigma * (s[j] - s[i]))
                total += _add_pairs(i, n, s, 1.0, near, x, w, sigma, base, slope, g, h)
            else:
                total += _add_pairs(i, n, s, mass[i], mass, x, w, sigma, base, slope, g, h)
        factor = pairs.weights[query]
        if pairs.norm and total > 0.0:
            factor *= np.log2(1.0 + 2.0 * total) / (2.0 * total)
        for i in range(n):
            row = ranked[start + i]
            gradient[row] = g[i] * factor
            hessian[row] = h[i] * factor


@compiled
def fill_changes(
    metric: KernelForm,
    ranked: NDArray[np.int64],  # int64 (n_rows,), row numbers of each query in rank order
    own_changes: Floats,  # float64 (n, n), changes where the metric gives a function
    query: int,
    table: Floats,  # float64 (n, n), written above the diagonal
) -> None:
    """The size of each change of one query."""
    start = metric.boundaries[query]
    n = metric.boundaries[query + 1] - start
    x, d, before, inner = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        x[i] = metric.worth[ranked[start + i]]
    reach, hit, next_hit = _state(metric, query, n, x, d, before, inner)
    scale = metric.scale[query]
    for i in range(min(reach, n - 1)):
        _fill(
            metric.form,
            i,
            n,
            x,
            d,
            before,
            inner,
            hit,
            next_hit,
            metric.parameter,
            scale,
            own_changes,
            table[i],
        )


@compiled
def _state(
    metric: KernelForm, query: int, n: int, x: Floats, d: Floats, before: Floats, inner: Floats
) -> tuple[int, int, int]:
    """D of each rank and what the form keeps; how many ranks from the top bear changes; the first two hits."""
    form, parameter = metric.form, metric.parameter
    depth = metric.depth[query]
    d[:n] = 0.0
    if form not in (_PAIRS, _OWN):
        for i in range(depth):
            d[i] = metric.rank_worth[metric.table_at[query] + i]
    hit = next_hit = n
    if form == _FIRST:
        for i in range(n - 1, -1, -1):
            if x[i] > 0.0:
                hit, next_hit = i, hit
        return min(depth, hit + 1), hit, next_hit
    if form == _PRECISION:
        count = 0.0
        inside = 0.0
        for i in range(n):
            if x[i] > 0.0:
                count += 1.0 + parameter * x[i]
                inside += d[i]
            before[i] = count
            inner[i] = inside
    if form == _CASCADE:
        reading = 1.0
        inside = 0.0
        for i in range(n):
            before[i] = reading
            inside += reading * x[i] * d[i]
            inner[i] = inside
            reading *= (1.0 - x[i]) * parameter
    n_ranks = n if form in (_PAIRS, _OWN) else depth
    return n_ranks, hit, next_hit


@compiled_vectorized
def _fill(
    form: int,
    i: int,
    n: int,
    x: Floats,
    d: Floats,
    before: Floats,
    inner: Floats,
    hit: int,
    next_hit: int,
    parameter: float,
    scale: float,
    own_changes: Floats,
    w: Floats,
) -> None:
    """|change| when the row at place i and each one below it change places."""
    xs, ds, out = x[i + 1 : n], d[i + 1 : n], w[i + 1 : n]  # indices from 0 save a sign check at every access
    x_i, d_i = x[i], d[i]
    if form == _SUM:
        for j in range(out.size):
            out[j] = abs(x_i - xs[j]) * abs(d_i - ds[j]) * scale
    elif form == _FIRST:
        now = d[hit] if hit < n else 0.0
        rest = d[next_hit] if next_hit < n else 0.0
        for j in range(out.size):
            afterwards = now
            if x_i > 0.0 and not xs[j] > 0.0 and i == hit:
                afterwards = ds[j] if i + 1 + j < next_hit else rest
            elif xs[j] > 0.0 and not x_i > 0.0 and i < hit:
                afterwards = d_i
            out[j] = abs(afterwards - now) * scale
    elif form == _PRECISION:
        counts, inside = before[i + 1 : n], inner[i:n]
        y_i = 1.0 if x_i > 0.0 else 0.0
        for j in range(out.size):
            y_j = 1.0 if xs[j] > 0.0 else 0.0
            more = (y_j - y_i) + parameter * (y_j * xs[j] - y_i * x_i)
            change = d_i * (y_j * (before[i] + more) - y_i * before[i])
            change += more * (inside[j] - inside[0]) + counts[j] * ds[j] * (y_i - y_j)
            out[j] = abs(change) * scale
    elif form == _CASCADE and x_i > _NEARLY_SURE:
        reads, gained = parameter, 0.0  # between the two, of users who read on at place i
        for j in range(out.size):
            out[j] = abs(before[i] * (xs[j] - x_i) * (d_i - gained - reads * ds[j])) * scale
            gained += reads * xs[j] * ds[j]
            reads *= (1.0 - xs[j]) * parameter
    elif form == _CASCADE:
        reading, inside = before[i + 1 : n], inner[i:n]
        rest_i = 1.0 / (1.0 - x_i)
        for j in range(out.size):
            ratio = (1.0 - xs[j]) * rest_i
            change = before[i] * (xs[j] - x_i) * d_i + (ratio - 1.0) * (inside[j] - inside[0])
            change += reading[j] * (ratio * x_i - xs[j]) * ds[j]
            out[j] = abs(change) * scale
    elif form == _PAIRS:
        for j in range(out.size):
            out[j] = scale if x_i != xs[j] else 0.0
    elif form == _OWN:
        for j in range(out.size):
            out[j] = own_changes[i, i + 1 + j] * scale


@compiled_vectorized
def _add_distance_weights(i: int, n: int, x: Floats, distance_worth: Floats, share: float, w: Floats) -> None:
    """Add the weights of NDCG-Loss2: of two rows d ranks apart the loss as if they stood at ranks 1 and 1 + d."""
    xs, out = x[i + 1 : n], w[i + 1 : n]
    for j in range(out.size):
        out[j] += abs(x[i] - xs[j]) * abs(distance_worth[j] - distance_worth[j + 1]) * share


@compiled_vectorized
def _add_pairs(
    i: int,
    n: int,
    s: Floats,
    mass_i: float,
    mass: Floats,
    x: Floats,
    w: Floats,
    sigma: float,
    base: float,
    slope: float,
    g: Floats,
    h: Floats,
) -> float:
    """Add the pairs of the row at place i with those below it; the sum of their sigma p w."""
    ss, masses, xs = s[i + 1 : n], mass[i + 1 : n], x[i + 1 : n]
    ws, gs, hs = w[i + 1 : n], g[i + 1 : n], h[i + 1 : n]
    s_i, x_i = s[i], x[i]
    own_gradient = 0.0
    own_hessian = 0.0
    total = 0.0
    for j in range(ws.size):
        mass_of_both = mass_i + masses[j]
        distance = base + slope * (s_i - ss[j])
        inverse = 1.0 / (mass_of_both * distance)
        per_both = inverse * distance
        above = mass_i * per_both
        below = masses[j] * per_both
        weight = ws[j] * (inverse * mass_of_both) * sigma
        better = x_i > xs[j]
        chance = below if better else above
        force = weight * chance
        curve = sigma * weight * above * below
        total += force
        signed = force if better else -force
        own_gradient -= signed
        gs[j] += signed
        own_hessian += curve
        hs[j] += curve
    g[i] += own_gradient
    h[i] += own_hessian
    return total
