"""One model at one metric: where its mean lies, how its queries spread, what another seed would change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ltr_harness.comparison.result import Entrant, Summary, value_bounds
from ltr_harness.stats.contributions import Codes, Contributions
from ltr_harness.stats.families import mean_intervals
from ltr_harness.stats.method import Method
from ltr_harness.stats.moments import Floats, moments
from ltr_harness.stats.paired import TIE


def summarise(
    entrants: Sequence[Entrant], metrics: Sequence[str], method: Method, units: Codes | None = None
) -> tuple[Summary, ...]:
    """Summaries of all models at all metrics, metric by metric.

    Shapes: `units` (n_queries,).
    """
    cells = [(entrant, metric) for metric in metrics for entrant in entrants]
    columns = np.column_stack([entrant.per_query(metric) for entrant, metric in cells])
    sample = moments(columns)
    bounds = {metric: value_bounds(entrants, metric) for metric in metrics}
    low, high = mean_intervals(
        Contributions.of(columns, units), method, [bounds[metric] for _, metric in cells]
    )
    return tuple(
        _summary(entrant, metric, columns[:, j], sample.mean[j], sample.sd[j], low[j], high[j])
        for j, (entrant, metric) in enumerate(cells)
    )


def _summary(
    entrant: Entrant, metric: str, column: Floats, mean: float, sd: float, low: float, high: float
) -> Summary:
    defined = ~np.isnan(column)
    values = column[defined]
    nothing = values.size == 0
    p10, median, p90 = [np.nan] * 3 if nothing else np.quantile(values, [0.1, 0.5, 0.9])
    by_seed = np.full(1, np.nan) if nothing else entrant.values[metric][:, defined].mean(axis=1)
    return Summary(
        model=entrant.name,
        metric=metric,
        mean=float(mean),
        ci_low=float(low),
        ci_high=float(high),
        n=values.size,
        n_undefined=column.size - values.size,
        sd=float(sd),
        minimum=np.nan if nothing else float(values.min()),
        p10=float(p10),
        median=float(median),
        p90=float(p90),
        share_zero=np.nan if nothing else float(np.mean(np.abs(values) <= TIE)),
        share_one=np.nan if nothing else float(np.mean(np.abs(values - 1) <= TIE)),
        n_replicates=len(entrant.replicates),
        seed_sd=float(by_seed.std(ddof=1)) if by_seed.size > 1 else np.nan,
        seed_min=float(by_seed.min()),
        seed_max=float(by_seed.max()),
    )
