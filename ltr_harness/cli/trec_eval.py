"""trec_eval's measures in trec_eval's layout: ``name <tab> query <tab> value``, values to four decimals.

The metrics are ours under trec_eval's conventions (`metrics/core/presets.py`) and names (`tool_names.py` beside it);
what is here is its sums and means, and the two things that are no metric of ours: counts, and interpolated precision.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.cli.metric_names import with_relevant
from ltr_harness.cli.output import echo, echo_cautions
from ltr_harness.cli.rankings import RankingSource, ScoredRanking, load_rankings
from ltr_harness.data.arrays import Floats
from ltr_harness.errors import Caution, MetricError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.presets import TREC_EVAL
from ltr_harness.metrics.core.ranking import RowRanker
from ltr_harness.metrics.evaluation import Evaluation

_CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
RECALL_LEVELS = tuple(level / 10 for level in range(11))
_SMALLEST = 0.00001  # what 0 counts in a geometric mean

# In the order in which it prints them: what our metrics give; "" for what is computed here. {k} where it takes cutoffs.
METRICS = {
    name: TREC_EVAL.get(f"{name}_{{k}}", TREC_EVAL.get(name.removeprefix("gm_"), ""))
    for name in (
        *("map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P", "recall", "gm_bpref"),
        *("11pt_avg", "ndcg", "ndcg_cut", "map_cut", "relative_P", "success", "set_P", "set_recall", "set_F"),
    )
}
COUNTS = ("num_ret", "num_rel", "num_rel_ret", "num_nonrel_judged_ret")
_FIRST = ("runid", "num_q", "num_ret", "num_rel", "num_rel_ret")
SETS = {
    "official": (*_FIRST, "map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P"),
    "set": (*_FIRST, "set_P", "set_recall", "set_F"),
    "all_trec": ("runid", "num_q", *COUNTS, *METRICS),
}
# Measures of trec_eval 10 that nothing here computes, or not under that name.
OTHERS = {
    **dict.fromkeys(("infAP", "G", "binG", "Rndcg", "ndcg_rel", "Rprec_mult", "set_map"), ""),
    **dict.fromkeys(("set_relative_P", "utility", "relstring", "yaap", "prefs"), ""),
    "unj": "judged(as=trec_eval)@K, which is 1 - unj_K",
}
_ORDER = (*_FIRST, *METRICS, "num_nonrel_judged_ret")

Total = Literal["sum", "mean", "geometric mean"]


@dataclass(frozen=True, eq=False)
class PrintedMeasure:
    """One line of the output."""

    name: str  # as printed
    values: NDArray[np.float64]  # (n_queries,)
    total: Total = "mean"  # how the queries become one number
    # (n_queries,), what becomes that number, where it is not the values
    summed: NDArray[np.float64] | None = None

    def text(self, value: float) -> str:
        return str(int(value)) if self.total == "sum" else f"{value:6.4f}"

    def overall(self, order: NDArray[np.int64]) -> float:
        """Return the total over queries, in trec_eval's order of summation: another could change the last digit."""
        summed = self.values if self.summed is None else self.summed
        values = [value for value in summed[order].tolist() if not math.isnan(value)]
        if self.total == "sum":
            return float(sum(values))
        if self.total == "geometric mean":
            logs = [math.log(max(value, _SMALLEST)) for value in values]
            return math.exp(sum(logs) / len(logs))
        return sum(values) / len(values) if values else math.nan


def parse_measures(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the measures named, trec_eval's or ours, each with its cutoffs, in trec_eval's order.

    Without names these are the official measures of trec_eval.
    """
    measures: dict[str, tuple[str, ...]] = {}
    for text in texts or ("official",):
        if text in SETS:
            measures |= dict.fromkeys(SETS[text], ())
            continue
        form = re.fullmatch(r"(?P<name>\w+?)(?:[._](?P<cutoffs>[0-9]+(?:,[0-9]+)*))?", text)
        if form is not None and "{k}" in METRICS.get(form["name"], ""):
            name = form["name"]
            cutoffs = form["cutoffs"].split(",") if form["cutoffs"] else []
            measures[name] = tuple(sorted({*measures.get(name, ()), *cutoffs}, key=int))
        elif text in _ORDER:
            measures[text] = ()
        else:
            measures[_our_metric(text)] = ()
    ordered = [*(name for name in _ORDER if name in measures), *measures]
    return {name: measures[name] for name in ordered}


def _our_metric(text: str) -> str:
    """Return the full name of a metric of ours. Raises MetricError, with what to use in place of an unknown one."""
    try:
        return str(parse_metric(text))
    except MetricError as error:
        for name, replacement in OTHERS.items():
            if re.fullmatch(rf"{name}([._].*)?", text):
                cure = f"use {replacement or 'trec_eval itself'}"
                raise MetricError(f"{text}: trec_eval's {name} is not computed here; {cure}") from None
        hint = did_you_mean(text, [name for name in (*SETS, *_ORDER) if name != "runid"])
        message = f"{text!r} is neither a known measure of trec_eval nor a metric"
        raise MetricError(f"{message}: {hint}; {error}") from None


def print_measures(texts: Sequence[str], source: RankingSource, relevant: float, per_query: bool) -> None:
    """Print the measures named of all rankings of a source, then the cautions."""
    measures, cautions = parse_measures(texts), list[Caution]()
    loaded = load_rankings(source)
    complete: dict[str, tuple[str, ...]] = {}  # our metrics with every grade they depend on in their names
    for name, cutoffs in measures.items():
        if name in _ORDER:
            complete[name] = cutoffs
            continue
        (metric,), scale_cautions = loaded.with_max_grade([with_relevant(parse_metric(name), relevant)])
        complete[str(metric)] = ()
        cautions += scale_cautions
    for ranking in loaded.all:
        for line in layout_lines(ranking, complete, relevant, source.all_queries, per_query):
            echo(line)
    echo_cautions([*loaded.cautions, *dict.fromkeys(cautions)])


def layout_lines(
    ranking: ScoredRanking,
    measures: Mapping[str, tuple[str, ...]],
    relevant: float,
    all_queries: bool,
    per_query: bool,
) -> Iterator[str]:
    """Yield the lines that trec_eval would print for this ranking."""
    computed = _compute_measures(ranking, measures, relevant, all_queries)
    queries = [str(query) for query in ranking.judgments.groups.ids.tolist()]
    order = np.array(sorted(range(len(queries)), key=lambda row: queries[row].encode()))
    if per_query:
        yield from _query_lines(computed, queries, order)
    if "runid" in measures:
        yield _line("runid", "all", ranking.tag or ranking.name)
    if "num_q" in measures:
        yield _line("num_q", "all", str(len(queries)))
    for measure in computed:
        yield _line(measure.name, "all", measure.text(measure.overall(order)))


def _query_lines(
    computed: Sequence[PrintedMeasure], queries: Sequence[str], order: NDArray[np.int64]
) -> Iterator[str]:
    for row in order.tolist():
        for measure in computed:
            value = float(measure.values[row])  # NaN where ours is undefined, which trec_eval's counts as 0
            if measure.total != "geometric mean" and not math.isnan(value):
                yield _line(measure.name, queries[row], measure.text(value))


def _compute_measures(
    ranking: ScoredRanking, measures: Mapping[str, tuple[str, ...]], relevant: float, all_queries: bool
) -> list[PrintedMeasure]:
    """Return everything that has a value per query, in the order of `measures`."""
    is_relevant = ranking.judgments.labels >= relevant
    metrics = {name: _metrics(name, cutoffs, relevant) for name, cutoffs in measures.items()}
    distinct = dict.fromkeys(metric for printed in metrics.values() for metric in printed.values())
    evaluation = ranking.evaluate(list(distinct)) if distinct else None
    needs_levels = not measures.keys().isdisjoint({"11pt_avg", "iprec_at_recall"})
    levels = interpolated_precision(ranking, is_relevant) if needs_levels else np.empty((0, 0))
    computed: list[PrintedMeasure] = []
    for name, printed in metrics.items():
        if name in COUNTS:
            computed.append(_count(name, ranking, is_relevant, all_queries))
        elif name == "11pt_avg":
            means = np.array([sum(column) for column in levels.T.tolist()]) / len(levels)
            computed.append(PrintedMeasure(name, means))
        elif name == "iprec_at_recall":
            computed += _precisions_at_recall(levels)
        elif evaluation is not None:
            total: Total = "geometric mean" if name.startswith("gm_") else "mean"
            computed += _measures_of(evaluation, printed, total)
    return computed


def _precisions_at_recall(levels: Floats) -> Iterator[PrintedMeasure]:
    for level, values in zip(RECALL_LEVELS, levels, strict=True):
        yield PrintedMeasure(f"iprec_at_recall_{level:.2f}", values)


def _measures_of(
    evaluation: Evaluation, printed: Mapping[str, Metric], total: Total
) -> Iterator[PrintedMeasure]:
    for text, metric in printed.items():
        yield PrintedMeasure(text, evaluation[metric].per_query, total)


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<22}\t{query}\t{value}"


def _metrics(name: str, cutoffs: Sequence[str], relevant: float) -> dict[str, Metric]:
    """Return the metrics behind a measure, by the names they are printed with; none for counts and the like."""
    pattern = METRICS.get(name, "" if name in _ORDER else name)
    if "{k}" not in pattern:
        return {name: with_relevant(parse_metric(pattern), relevant)} if pattern else {}
    standard = (1, 5, 10) if name == "success" else _CUTOFFS
    return {
        f"{name}_{k}": with_relevant(parse_metric(pattern.format(k=k)), relevant) for k in cutoffs or standard
    }


def _count(
    name: str, ranking: ScoredRanking, is_relevant: NDArray[np.bool_], all_queries: bool
) -> PrintedMeasure:
    """Return the number of documents of one kind in each query."""
    judgments = ranking.judgments
    listed = _listed(ranking)
    summed = None
    if name == "num_ret":
        counted = listed
    elif name == "num_rel":
        counted = is_relevant
        if all_queries:  # with -c, trec_eval counts all that is relevant, whatever -l says
            summed = judgments.groups.sum(judgments.labels > 0, np.float64)
    elif name == "num_rel_ret":
        counted = listed & is_relevant
    else:
        judged = np.ones(listed.size, dtype=bool) if judgments.judged is None else judgments.judged
        counted = listed & judged & ~is_relevant
    return PrintedMeasure(name, judgments.groups.sum(counted, np.float64), "sum", summed)


def interpolated_precision(ranking: ScoredRanking, is_relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the best precision at or after the rank where recall is 0.0, 0.1, … 1.0, or 0.

    Shape (11, n_queries), float64.
    """
    judgments = ranking.judgments
    listed = _listed(ranking)
    rows = RowRanker(judgments, "id", None).rank(np.where(listed, ranking.scores, -np.inf)).rows
    out = np.zeros((len(RECALL_LEVELS), judgments.groups.n_queries))
    for query, (start, end) in enumerate(pairwise(judgments.groups.boundaries.tolist())):
        ranked = rows[start:end]
        hits = np.flatnonzero(is_relevant[ranked] & listed[ranked])
        precision = np.arange(1, hits.size + 1) / (hits + 1)
        best = np.maximum.accumulate(precision[::-1])[::-1]
        n_relevant = int(is_relevant[start:end].sum())
        # how many relevant documents a recall level stands for, rounded as trec_eval 10 does it
        needed = np.maximum(np.floor(np.array(RECALL_LEVELS) * n_relevant + 0.5), 1).astype(int)
        reached = needed <= hits.size
        out[reached, query] = best[needed[reached] - 1]
    return out


def _listed(ranking: ScoredRanking) -> NDArray[np.bool_]:
    n_rows = ranking.judgments.groups.n_rows
    return np.ones(n_rows, dtype=bool) if ranking.retrieved is None else ranking.retrieved
