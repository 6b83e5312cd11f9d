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
from ltr_harness.cli.output import say, say_cautions
from ltr_harness.cli.rankings import RankingSource, Scored, load_rankings
from ltr_harness.errors import Caution, MetricError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.presets import TREC_EVAL
from ltr_harness.metrics.core.ranking import RowRanker

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
class Measure:
    """One line of the output."""

    name: str  # as printed
    values: NDArray[np.float64]  # (n_queries,)
    total: Total = "mean"  # how the queries become one number
    # (n_queries,), what becomes that number, where it is not the values
    summed: NDArray[np.float64] | None = None

    def text(self, value: float) -> str:
        return str(int(value)) if self.total == "sum" else f"{value:6.4f}"

    def overall(self, order: NDArray[np.int64]) -> float:
        """Summed query after query, as trec_eval does it: another order could print another last digit."""
        each = self.values if self.summed is None else self.summed
        values = [value for value in each[order].tolist() if not math.isnan(value)]
        if self.total == "sum":
            return float(sum(values))
        if self.total == "geometric mean":
            logs = [math.log(max(value, _SMALLEST)) for value in values]
            return math.exp(sum(logs) / len(logs))
        return sum(values) / len(values) if values else math.nan


def asked(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The measures named, trec_eval's or ours, each with its cutoffs; trec_eval's official ones where none is named."""
    measures: dict[str, tuple[str, ...]] = {}
    for text in texts or ("official",):
        if text in SETS:
            measures |= dict.fromkeys(SETS[text], ())
            continue
        form = re.fullmatch(r"(?P<name>\w+?)(?:[._](?P<cutoffs>[0-9]+(?:,[0-9]+)*))?", text)
        name = form["name"] if form else ""
        if form is not None and "{k}" in METRICS.get(name, ""):
            cutoffs = {*measures.get(name, ()), *(form["cutoffs"].split(",") if form["cutoffs"] else ())}
            measures[name] = tuple(sorted(cutoffs, key=int))
        elif text in _ORDER:
            measures[text] = ()
        else:
            try:
                measures[str(parse_metric(text))] = ()
            except MetricError as error:
                stem = next((name for name in OTHERS if re.fullmatch(rf"{name}([._].*)?", text)), None)
                if stem is not None:
                    instead = f"use {OTHERS[stem] or 'trec_eval itself'}"
                    raise MetricError(f"{text}: trec_eval's {stem} is not computed here; {instead}") from None
                known = did_you_mean(text, [name for name in (*SETS, *_ORDER) if name != "runid"])
                found = f"{text!r} is neither a known measure of trec_eval nor a metric"
                raise MetricError(f"{found}: {known}; {error}") from None
    ordered = [*(name for name in _ORDER if name in measures), *measures]
    return {name: measures[name] for name in ordered}


def say_measures(texts: Sequence[str], source: RankingSource, relevant: float, per_query: bool) -> None:
    """Print the measures named of all rankings of a source, then what is to be said of them."""
    measures, cautions = asked(texts), list[Caution]()
    loaded = load_rankings(source)
    complete: dict[str, tuple[str, ...]] = {}  # our metrics with every grade they depend on in their names
    for name, cutoffs in measures.items():
        if name in _ORDER:
            complete[name] = cutoffs
            continue
        (metric,), more = loaded.with_max_grade([with_relevant(parse_metric(name), relevant)])
        complete[str(metric)] = ()
        cautions += more
    for scored in loaded.all:
        for line in lines(scored, complete, relevant, source.all_queries, per_query):
            say(line)
    say_cautions([*loaded.cautions, *dict.fromkeys(cautions)])


def lines(
    scored: Scored, measures: Mapping[str, tuple[str, ...]], relevant: float, complete: bool, per_query: bool
) -> Iterator[str]:
    """The lines that trec_eval would print for this ranking."""
    metrics = {
        name: {text: with_relevant(metric, relevant) for text, metric in _metrics(name, cutoffs).items()}
        for name, cutoffs in measures.items()
    }
    distinct = dict.fromkeys(metric for printed in metrics.values() for metric in printed.values())
    evaluation = scored.evaluate(list(distinct)) if distinct else None
    is_relevant, levels = scored.judgments.labels >= relevant, None
    if {"iprec_at_recall", "11pt_avg"} & measures.keys():
        levels = interpolated_precision(scored, is_relevant)
    computed: list[Measure] = []  # all that has a value per query, in the order of `measures`
    for name, printed in metrics.items():
        if name in COUNTS:
            # with -c, trec_eval counts all that is relevant, whatever -l says
            all_relevant = complete and name == "num_rel"
            summed = _count(name, scored, scored.judgments.labels > 0) if all_relevant else None
            computed.append(Measure(name, _count(name, scored, is_relevant), "sum", summed))
        elif name == "11pt_avg" and levels is not None:
            means = np.array([sum(column) for column in levels.T.tolist()]) / len(levels)
            computed.append(Measure(name, means))
        elif name == "iprec_at_recall" and levels is not None:
            at_each = zip(RECALL_LEVELS, levels, strict=True)
            computed += [Measure(f"{name}_{level:.2f}", values) for level, values in at_each]
        elif evaluation is not None:
            total: Total = "geometric mean" if name.startswith("gm_") else "mean"
            computed += [Measure(text, evaluation[one].per_query, total) for text, one in printed.items()]
    queries = [str(query) for query in scored.judgments.groups.ids.tolist()]
    order = np.array(sorted(range(len(queries)), key=lambda at: queries[at].encode()))
    for at in order.tolist() if per_query else ():
        for measure in computed:
            undefined = math.isnan(measure.values[at])  # ours may be, trec_eval's count 0
            if measure.total != "geometric mean" and not undefined:
                yield _line(measure.name, queries[at], measure.text(float(measure.values[at])))
    if "runid" in measures:
        yield _line("runid", "all", scored.tag or scored.name)
    if "num_q" in measures:
        yield _line("num_q", "all", str(len(queries)))
    for measure in computed:
        yield _line(measure.name, "all", measure.text(measure.overall(order)))


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<22}\t{query}\t{value}"


def _metrics(name: str, cutoffs: Sequence[str]) -> dict[str, Metric]:
    """The metrics behind a measure, by the names they are printed with; none for counts and the like."""
    pattern = METRICS.get(name, "" if name in _ORDER else name)
    if "{k}" not in pattern:
        return {name: parse_metric(pattern)} if pattern else {}
    standard = (1, 5, 10) if name == "success" else _CUTOFFS
    return {f"{name}_{k}": parse_metric(pattern.format(k=k)) for k in cutoffs or standard}


def _count(name: str, scored: Scored, is_relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    judgments = scored.judgments
    listed = _listed(scored)
    judged = np.ones(listed.size, dtype=bool) if judgments.judged is None else judgments.judged
    counted = {
        "num_ret": listed,
        "num_rel": is_relevant,
        "num_rel_ret": listed & is_relevant,
        "num_nonrel_judged_ret": listed & judged & ~is_relevant,
    }[name]
    return judgments.groups.sum(counted, np.float64)


def interpolated_precision(scored: Scored, is_relevant: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The best precision at or after the rank where recall is 0.0, 0.1, … 1.0, or 0: float64 (11, n_queries)."""
    judgments = scored.judgments
    listed = _listed(scored)
    rows = RowRanker(judgments, "id", None).rank(np.where(listed, scored.scores, -np.inf)).rows
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


def _listed(scored: Scored) -> NDArray[np.bool_]:
    n_rows = scored.judgments.groups.n_rows
    return np.ones(n_rows, dtype=bool) if scored.retrieved is None else scored.retrieved
