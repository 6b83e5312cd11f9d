"""The result of a comparison: every number, one sentence, tables, letters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.display import Displayed, DisplayedRecords
from ltr_harness._util.number_text import interval_text, p_equals
from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison import contrasts as pairs
from ltr_harness.comparison import main_table
from ltr_harness.comparison.caution_choice import (
    CHEAP_LABELS,
    ONE_TRAINING,
    TWO_SEEDS,
    ChosenCautions,
    choose_cautions,
)
from ltr_harness.comparison.contrasts import (
    Contrast,
    Letters,
    Paired,
    Sampling,
    Summary,
    SystemResult,
    value_bounds,
)
from ltr_harness.comparison.headroom import ModelHeadroom, beside_random_order, model_headroom
from ltr_harness.comparison.main_table import FRAME_NAMES, joint_word
from ltr_harness.comparison.over_time import (
    FoldSigns,
    PeriodResult,
    days_of_queries,
    fold_signs,
    period_results,
    signs_sentence,
)
from ltr_harness.comparison.query_slices import QuerySlice, query_slices
from ltr_harness.comparison.stats.cluster_sums import TIE, UnitCodes, effective_number, paired_differences
from ltr_harness.comparison.stats.method import Method, Test
from ltr_harness.data.arrays import KeepsArrays
from ltr_harness.data.time_folds import DAY
from ltr_harness.errors import Caution, UsageError, labelled
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.metrics.core.headroom import is_computed_column

if TYPE_CHECKING:
    import pandas as pd


_COUNTS = ("wins", "ties", "losses")

Outcome = Literal["better", "worse", "equivalent", "no clear winner", "one model", "nothing to compare"]


class Headline(NamedTuple):
    """The outcome of the comparison with the baseline, as a word and as a line without a full stop."""

    outcome: Outcome
    text: str


@dataclass(frozen=True, eq=False)
class Comparison(Displayed, KeepsArrays):
    """Models over the same queries, by the same metrics, each against one baseline.

    Attributes:
        systems: the models' per-query values, all in one order of queries.
        metrics: canonical names; the primary metric is one of them.
        primary: the metric, and so the K, that carries the verdict.
        baseline: the model the others are compared with.
        summaries: one per metric and model.
        pairs: one per metric and model except the baseline.
        method: test, confidence, and how they were computed.
        families: which hypotheses were corrected together, in words, primary first.
        n_queries: size of the query set.
        n_without_relevant: queries without a relevant document, where the inputs tell; else undefined ones.
        n_undefined: metric to the number of queries undefined for at least one model.
        units: (n_queries,) codes of the units that queries belong to; None where every query is its own.
        weights: (n_queries,) how much each query counts; None where all count once.
        cautions: replicates left out, small or lopsided samples, trainings that were not repeated …
    """

    systems: tuple[SystemResult, ...]
    metrics: tuple[str, ...]
    primary: str
    baseline: str
    summaries: DisplayedRecords[Summary]
    pairs: DisplayedRecords[Paired]
    method: Method
    families: tuple[str, ...]
    n_queries: int
    n_without_relevant: int
    n_undefined: Mapping[str, int]
    cautions: tuple[Caution, ...] = ()
    units: UnitCodes | None = None
    weights: NDArray[np.float64] | None = None

    @property
    def sampling(self) -> Sampling:
        """The units and weights of the queries."""
        return Sampling(self.units, self.weights)

    def effective_queries(self, pair: Paired) -> float:
        """As many queries of equal weight would tell as much as those that both models of a pair have."""
        if self.weights is None:
            return float(pair.n)
        defined = ~np.isnan(self.query_differences(pair.model, pair.metric))
        return effective_number(self.weights[defined])

    @property
    def models(self) -> tuple[str, ...]:
        """Names, in the order given."""
        return tuple(system.name for system in self.systems)

    @property
    def test(self) -> Test:
        return self.method.test

    @property
    def confidence(self) -> float:
        return self.method.confidence

    @property
    def family(self) -> str:
        """The families of hypotheses, such as ``"joint over 3 comparisons: 3 models against lgbm at ndcg@10"``."""
        return "; ".join(self.families)

    @property
    def higher_is_better(self) -> Mapping[str, bool]:
        """Metric to direction."""
        return {metric: self.systems[0].higher_is_better[metric] for metric in self.metrics}

    def system(self, model: str) -> SystemResult:
        """One model's per-query values."""
        for system in self.systems:
            if system.name == model:
                return system
        raise UsageError(f"no model {model!r} in this comparison; {did_you_mean(model, self.models)}")

    def summary(self, model: str, metric: str | None = None) -> Summary:
        """One model at one metric, the primary one if none is named.

        Raises:
            UsageError: no such model or metric.
        """
        name = self._metric(metric)
        self.system(model)
        return self._summaries[model, name]

    def paired(self, model: str, metric: str | None = None) -> Paired:
        """One model against the baseline at one metric, the primary one if none is named.

        Raises:
            UsageError: no such model or metric, or the model is the baseline.
        """
        name = self._metric(metric)
        self.system(model)
        if model == self.baseline:
            raise UsageError(f"{model} is the baseline: there is nothing to compare it with")
        return self._pairs[model, name]

    def query_differences(self, model: str, metric: str | None = None) -> NDArray[np.float64]:
        """(n_queries,): model minus baseline, query by query in the systems' order; NaN where undefined."""
        name = self._metric(metric)
        values = self.system(model).per_query(name)
        return paired_differences(values, self.system(self.baseline).per_query(name))

    def n_independent_units(self, pair: Paired) -> int:
        """Return how many draws of chance a pair has: its units, or its queries where each is its own."""
        if self.units is None:
            return pair.n
        defined = ~np.isnan(self.query_differences(pair.model, pair.metric))
        if self.weights is not None:
            defined &= self.weights > 0
        return int(np.unique(self.units[defined]).size)

    def is_within_margin(self, pair: Paired) -> bool:
        """Return whether the difference of a pair, whatever its verdict, is proven smaller than the margin."""
        return pair.p_equivalence < self.method.alpha

    def value_range(self, metric: str | None = None) -> float:
        """Return the largest difference that two values of a metric can have; infinite if unknown."""
        low, high = value_bounds(self.systems, self._metric(metric))
        return high - low

    def all_pairs(self, metric: str | None = None) -> tuple[Paired, ...]:
        """Every model against every other at one metric, as one family: n (n - 1) / 2 comparisons.

        The better one of each pair's queries comes first, so differences have one sign.
        """
        name = self._metric(metric)
        if name not in self._all_pairs:
            sign = -1 if self.higher_is_better[name] else 1
            # by the queries that both have; undefined means last
            means = [sign * self._summaries[system.name, name].mean for system in self.systems]
            ordered = [self.systems[place] for place in np.argsort(means, kind="stable")]
            family = [Contrast(first, second, name) for first, second in combinations(ordered, 2)]
            family = [self._better_first(pair, sign) for pair in family]
            self._all_pairs[name] = pairs.contrast(
                [family], self.higher_is_better, self.method, self.sampling
            )
        return self._all_pairs[name]

    def _better_first(self, pair: Contrast, sign: int) -> Contrast:
        """Return the pair with the model first that is better on the queries of both; `sign` is -1 where higher is."""
        (difference,) = self.sampling.means(pair.differences()[:, None])
        return Contrast(pair.other, pair.model, pair.metric) if sign * difference > 0 else pair

    @cached_property
    def _all_pairs(self) -> dict[str, tuple[Paired, ...]]:
        """Metric to its pairs: letters and tables show the same ones."""
        return {}

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """Models by their mean at the primary metric, best first; equal means in the order given.

        Where models are undefined on different queries, by their difference from the baseline, which is of the same
        queries for both, as the verdict is.
        """
        sign = -1 if self.higher_is_better[self.primary] else 1
        if self.pairs_on_other_queries(self.primary):
            differences = {pair.model: pair.difference for pair in self.pairs if pair.metric == self.primary}
            values = {self.baseline: 0.0} | differences
        else:
            values = {model: self.summary(model).mean for model in self.models}

        def order(model: str) -> tuple[bool, float]:
            value = values[model]
            return (True, 0.0) if np.isnan(value) else (False, sign * round(value / TIE))

        return tuple(sorted(self.models, key=order))

    def pairs_on_other_queries(self, metric: str) -> tuple[Paired, ...]:
        """The pairs at a metric of which one model has values for queries where the other has none."""
        return tuple(
            pair
            for pair in self.pairs
            if pair.metric == metric
            and not pair.n == self.summary(pair.model, metric).n == self.summary(pair.other, metric).n
        )

    def letters(self, metric: str | None = None) -> Letters:
        """Return compact letters: models that share one are not shown to differ.

        They are the verdicts of `all_pairs`, and stand beside the verdict, which is about the baseline alone.

        Example:
            >>> import pandas as pd
            >>> from ltr_harness import compare
            >>> first = pd.DataFrame({"query_id": list("abcdef"), "mrr": [0.5, 0.4, 0.3, 0.5, 0.6, 0.4]})
            >>> noise = pd.Series([0.01, -0.01, 0.02, -0.02, 0.0, 0.0])
            >>> others = {"alike": first.assign(mrr=first.mrr + noise), "far": first.assign(mrr=0.7 * first.mrr - 0.2)}
            >>> compare({"first": first, **others}).letters().groups
            {'first': ('a',), 'alike': ('a',), 'far': ('b',)}
        """
        pairs_of_all = self.all_pairs(metric)
        name = self._metric(metric)
        sign = -1 if self.higher_is_better[name] else 1
        means = {model: sign * self._summaries[model, name].mean for model in self.models}
        return pairs.letters(sorted(self.models, key=lambda model: means[model]), pairs_of_all)

    @cached_property
    def verdict(self) -> str:
        """One sentence: which model, by how much, how sure, at which metric and K, over how many queries."""
        return f"{_verdict_sentence(self)} {signs_sentence(self.fold_signs)}".rstrip()

    @cached_property
    def headline(self) -> Headline:
        """The answer in at most twenty words, with its outcome: better, worse, equivalent, no clear winner.

        The first of: a model is better; one is not distinguishable; one is equivalent; all are worse. Where few
        documents are judged, or random order beats the models, it says so.
        """
        outcome, text = _headline(self)
        if self.few_judged:
            text += "; few documents are judged"
        sides = beside_random_order(self.systems, self.primary).values()
        if min(sides, default=0) < 0 and max(sides) <= 0:
            text += "; worse than random order"
        return Headline(outcome, text)

    @property
    def seeds_caution(self) -> Caution | None:
        """The caution that two seeds make the intervals wide, which stands before the numbers."""
        return next((caution for caution in self.cautions if caution.kind == TWO_SEEDS), None)

    @property
    def losers(self) -> tuple[str, ...]:
        """The models that are worse than the baseline, but for the closest one where all others are."""
        pairs = [self.paired(model) for model in self.ranking if model != self.baseline]
        losers = [pair.model for pair in pairs if pair.verdict == "worse"]
        return tuple(losers if len(losers) < len(pairs) else losers[1:])

    @property
    def cheap_label_lines(self) -> tuple[str, ...]:
        """The result with cheap labels, which `compare-labels` adds; it stands below the numbers."""
        return tuple(caution.text for caution in self.cautions if caution.kind == CHEAP_LABELS)

    @property
    def chosen_cautions(self) -> ChosenCautions:
        """The one caution that stands below the numbers, and the others."""
        return choose_cautions(self.cautions, self.losers)

    def is_of_one_training(self, pair: Paired) -> bool:
        """Return whether a side was trained once, so that its other possible seeds are ignored."""
        return not pair.includes_seeds and any(self.system(name).seeded for name in (pair.model, pair.other))

    @cached_property
    def headroom(self) -> Mapping[str, ModelHeadroom]:
        """Model to what it has gained of what order can gain at the primary metric; of those for whom it is known.

        Example:
            >>> from ltr_harness import compare, evaluate
            >>> labels, sizes = [2, 1, 0, 1, 0], [3, 2]
            >>> a = evaluate(labels, [3, 1, 2, 2, 1], ["ndcg(gain=linear)@10"], group_sizes=sizes)
            >>> one = compare({"a": a}).headroom["a"]
            >>> round(one.random, 4), one.ceiling, round(one.share, 4)
            (0.8127, 1.0, 0.8671)
        """
        ordered = [self.system(model) for model in self.ranking]
        return model_headroom(ordered, self.primary, self.method, self.sampling)

    @cached_property
    def judged(self) -> Mapping[str, float]:
        """Model to the mean share of judged documents among those that the primary metric looks at, best model first.

        Of models for which it is known, and empty where all these documents are judged.
        """
        found = {}
        for model in self.ranking:
            shares = judged_share.of_columns(self.primary, self.system(model).query_attributes)
            if shares is not None:
                found[model] = judged_share.mean_share(shares, self.weights)
        return found if min(found.values(), default=1) < 1 else {}

    @cached_property
    def few_judged(self) -> tuple[Caution, ...]:
        """The caution that little is judged, or much more of one model's documents than of another's, if so."""
        k = MetricName.of(self.primary).k if self.judged else None
        return tuple(judged_share.few_judged(self.primary, k, self.judged))

    @cached_property
    def fold_signs(self) -> tuple[FoldSigns, ...]:
        """In how many folds in time each model's difference has the sign of the whole, best model first."""
        ordered = [*map(self.system, self.ranking)]
        return fold_signs(ordered, self.system(self.baseline), self.primary, self.sampling)

    @cached_property
    def over_time(self) -> tuple[PeriodResult, ...]:
        """The primary metric and the difference by period and by fold in time, where the queries have a `day`."""
        ordered = [*map(self.system, self.ranking)]
        return period_results(ordered, self.system(self.baseline), self.primary, self.method, self.sampling)

    @cached_property
    def parts(self) -> tuple[QuerySlice, ...]:
        """The parts of the query set by the attributes of the baseline's queries, but for units and time."""
        baseline = self.system(self.baseline)
        day = DAY if days_of_queries([baseline]) is not None else None  # the course over time has them
        excluded = {self.method.unit, day}
        rows = baseline.query_attributes.get("rows", ())
        for system in self.systems:
            if system.truth_declared and not np.array_equal(system.query_attributes.get("rows", ()), rows):
                excluded.add("rows")  # candidates differ, so they are no fact of the query
        attributes = {
            name: values
            for name, values in baseline.query_attributes.items()
            if name not in excluded and not is_computed_column(name)
        }
        return tuple(query_slices(attributes))

    @cached_property
    def main_columns(self) -> tuple[main_table.MainColumn, ...]:
        """The columns of the table at the primary metric, which all its forms show."""
        return main_table.main_columns(self)

    @property
    def table(self) -> "pd.DataFrame":
        """One row per model at the primary metric, best mean first."""
        frame = self.frame()
        frame = frame[frame["primary"]].set_index("model").loc[[*self.ranking]].reset_index()
        columns = main_table.columns_of(self, "frame")
        columns.sort(key=lambda column: column.format == "verdict")  # code may take columns by their position
        names = [name for column in columns for name in main_table.frame_names(column)]
        return frame[["model", *names]].rename(columns={"mean": self.primary})

    def frame(self) -> "pd.DataFrame":
        """Everything, tidy: one row per metric and model, columns as in `Summary` and `Paired`."""
        import pandas as pd

        rows = []
        names = [field.name for field in fields(Paired) if field.name not in ("model", "metric")]
        for summary in self.summaries:
            pair = self._pairs.get((summary.model, summary.metric))
            row: dict[str, Any] = asdict(summary)
            row["primary"] = summary.metric == self.primary
            row["higher_is_better"] = self.higher_is_better[summary.metric]
            row |= {FRAME_NAMES.get(name, name): getattr(pair, name, None) for name in names}
            row["baseline"] = self.baseline
            row["verdict"] = pair.verdict if pair else "baseline"
            rows.append(row)
        # counts stay integers and everything else a float, also where the baseline has none
        kinds = dict.fromkeys((*_COUNTS, "n_paired"), "Int64")
        kinds |= {
            FRAME_NAMES.get(column.name, column.name): "float64"
            for column in fields(Paired)
            if column.type is float
        }
        return pd.DataFrame(rows).astype(kinds)

    def __repr__(self) -> str:
        # the verdict's sentence says itself that models were trained once
        chosen = choose_cautions(
            (caution for caution in self.cautions if caution.kind != ONE_TRAINING), self.losers
        )
        notes = [labelled(caution) for caution in (self.seeds_caution, chosen.below) if caution is not None]
        notes = [*notes, *self.cheap_label_lines]
        if chosen.folded_text:
            notes.append(f"{chosen.folded_text} in `cautions`")
        return "\n".join([self.verdict, *(f"note: {note}" for note in notes)])

    def _metric(self, metric: str | None) -> str:
        name = self.primary if metric is None else str(metric)
        if name not in self.metrics:
            raise UsageError(f"{name} was not compared; {did_you_mean(name, self.metrics)}")
        return name

    @cached_property
    def _summaries(self) -> dict[tuple[str, str], Summary]:
        return {(summary.model, summary.metric): summary for summary in self.summaries}

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], Paired]:
        return {(pair.model, pair.metric): pair for pair in self.pairs}


def family_text(n_models: int, baseline: str, metrics: Sequence[str], primary: str) -> str:
    """A family of hypotheses by name, and that its intervals and p-values are joint where there are several."""
    total = n_models * len(metrics)
    if list(metrics) == [primary]:
        scope = primary
    else:
        scope = f"other metric {metrics[0]}" if len(metrics) == 1 else count_of(len(metrics), "other metric")
    joint = "joint over " if total > 1 else ""
    return (
        f"{joint}{count_of(total, 'comparison')}: {count_of(n_models, 'model')} against {baseline} at {scope}"
    )


def _headline(comparison: Comparison) -> Headline:
    metric, baseline, leader = comparison.primary, comparison.baseline, comparison.ranking[0]
    top = comparison.summary(leader)
    if not top.n:
        text = f"Nothing to compare: {metric} is undefined for all {count_of(comparison.n_queries, 'query')}"
        return Headline("nothing to compare", text)
    if len(comparison.systems) == 1:
        interval = _interval(comparison, top.ci_low, top.ci_high, "")
        return Headline("one model", f"{leader}: {metric} {top.mean:.4f}{interval}")
    rivals = [comparison.paired(model) for model in comparison.ranking if model != baseline]
    best = {pair.verdict: pair for pair in reversed(rivals) if pair.n}  # of each verdict
    if not best:
        return Headline("nothing to compare", f"Nothing to compare: no query has {metric} for two models")
    if "better" in best:
        return Headline("better", _better_headline(comparison, best["better"]))
    if "not distinguishable" in best:
        return Headline("no clear winner", _undecided_headline(comparison, best["not distinguishable"]))
    if "equivalent" in best:
        pair = best["equivalent"]
        interval = _interval(comparison, pair.ci_low, pair.ci_high, "+")
        text = f"{pair.model} is equivalent to {baseline}: {pair.difference:+z.4f}{interval}"
        return Headline("equivalent", text)
    closest, lead = best["worse"].model, _signed_lead(comparison, best["worse"])
    text = f"All others are worse than {baseline}; the closest, {closest}, by {lead}"
    if sum(pair.n > 0 for pair in rivals) == 1:
        text = f"{closest} is worse than {baseline} by {lead}"
    return Headline("worse", text)


def _better_headline(comparison: Comparison, pair: Paired) -> str:
    leader = comparison.ranking[0]
    text = f"{pair.model} is better than {comparison.baseline} by {_signed_lead(comparison, pair)}"
    if leader in (pair.model, comparison.baseline):
        return text
    if comparison.pairs_on_other_queries(comparison.primary):
        return f"{text}; {leader} leads"
    return f"{text}; {leader} has the best mean"


def _undecided_headline(comparison: Comparison, pair: Paired) -> str:
    first, second = pair.model, pair.other
    if (pair.difference > 0) != comparison.higher_is_better[pair.metric]:
        first, second = second, first
    text = f"No clear winner: {first} leads {second} by {_signed_lead(comparison, pair)}"
    if pair.difference == 0:
        interval = _interval(comparison, pair.ci_low, pair.ci_high, "+")
        text = f"No clear winner: {pair.model} equals {pair.other} on average{interval}"
    if math.isfinite(pair.detectable):
        text += f"; {pair.detectable:.4f} could have been shown"
    return text


def _signed_lead(comparison: Comparison, pair: Paired) -> str:
    """Return the size of a difference, with its interval in the direction of the difference."""
    low, high = pair.ci_low, pair.ci_high
    if not pair.difference > 0:
        low, high = -high, -low
    size = abs(pair.difference)
    lead = f"{size:.4f}" if size >= 0.00005 else "<0.0001"
    return lead + _interval(comparison, low, high, "+")


def _interval(comparison: Comparison, low: float, high: float, sign: str) -> str:
    """Return an interval in brackets; "" where it is unknown or has no end."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    level = f"{joint_word(comparison)}{comparison.method.percent} %"
    return f" ({level} CI {interval_text(low, high, sign)})"


def _verdict_sentence(comparison: Comparison) -> str:
    metric, baseline = comparison.primary, comparison.baseline
    leader = comparison.ranking[0]
    top = comparison.summary(leader)
    if not any(comparison.summary(model).n for model in comparison.models):
        return f"Nothing to compare: {metric} is undefined for all {count_of(comparison.n_queries, 'query')}."
    if len(comparison.systems) == 1:
        interval = f"{comparison.method.percent} % interval {interval_text(top.ci_low, top.ci_high, '')}"
        return f"{leader}: {metric} {top.mean:.4f} ({interval}){_over(comparison, top.n)} There is no other model."
    if not any(comparison.paired(model).n for model in comparison.models if model != baseline):
        return f"Nothing to compare: no query has a value of {metric} for both {baseline} and another model."
    if leader == baseline:
        return _verdict_for_baseline(comparison)
    return _verdict_for_leader(comparison, comparison.paired(leader))


def _verdict_for_baseline(comparison: Comparison) -> str:
    """Return the verdict's sentence where the baseline has the best mean."""
    closest = comparison.ranking[1]
    pair = comparison.paired(closest)
    words = {"worse": "is worse", "better": "is better", "equivalent": "is equivalent"}
    word = words.get(pair.verdict, "is not distinguishable from it") + _practical_note(comparison, pair)
    return (
        f"The baseline {comparison.baseline} {_lead(comparison)}, {pair.other_mean:.4f}; the closest, {closest}, "
        f"{word}: {_size(comparison, pair)}"
    )


def _verdict_for_leader(comparison: Comparison, pair: Paired) -> str:
    """Return the verdict's sentence about the model with the best mean, against the baseline."""
    leader, baseline = pair.model, pair.other
    means = f"{pair.model_mean:.4f} against {pair.other_mean:.4f}"  # of the same queries as the difference
    rivals = (comparison.paired(model) for model in comparison.ranking[1:] if model != baseline)
    others_better = [rival.model for rival in rivals if rival.verdict == "better"]
    if pair.verdict == "better":
        text = (
            f"{leader} is better than {baseline} at {pair.metric}{_practical_note(comparison, pair)}, {means}"
        )
    elif pair.verdict == "equivalent":
        text = f"{leader} {_lead(comparison)}, {means}, but is equivalent to {baseline}"
    else:
        text = f"{leader} {_lead(comparison)}, {means}, but is not distinguishable from {baseline}"
        if pair.verdict == "not distinguishable":
            text += f" (n = {pair.n:,})"
    text += f": {_size(comparison, pair)}"
    if others_better and pair.verdict == "better":
        text += f" {_listed(others_better)} {plural('is', len(others_better))} better as well."
    elif others_better:
        text += f" Better than {baseline}: {_listed(others_better)}."
    return text


def _lead(comparison: Comparison) -> str:
    """State that the first model has the best mean; not where means and differences are of other queries."""
    metric = comparison.primary
    if comparison.pairs_on_other_queries(metric):
        return f"leads at {metric}"
    best = "highest" if comparison.higher_is_better[metric] else "lowest"
    return f"has the {best} mean {metric}"


def _size(comparison: Comparison, pair: Paired) -> str:
    """The difference, its interval and p-value, over how many queries, and what one training says nothing about."""
    method, joint = comparison.method, joint_word(comparison)
    interval = f"{joint}{method.percent} % interval {interval_text(pair.ci_low, pair.ci_high)}"
    if not (math.isfinite(pair.ci_low) and math.isfinite(pair.ci_high)):
        interval = "no interval"
    text = f"{pair.difference:+z.4f} ({interval}"
    over = f" over {method.unit or 'queries'} and seeds{method.weights_text}, "
    text += over if pair.includes_seeds else f"{method.weights_text}, {method.test_text} "
    text += joint + p_equals(pair.p_corrected)
    text += f"){_over(comparison, pair.n)}{_detectable(comparison, pair)}"
    return f"{text} {ONE_SEED[:1].upper()}{ONE_SEED[1:]}." if comparison.is_of_one_training(pair) else text


def _detectable(comparison: Comparison, pair: Paired) -> str:
    """The gain that a null result does not exclude; "" where there is a verdict, or where it is not known."""
    if pair.verdict != "not distinguishable" or not math.isfinite(pair.detectable):
        return ""
    drawn = f"numbers of {comparison.method.unit}" if comparison.method.unit is not None else "queries"
    seeds = " and seeds" if pair.includes_seeds else ""
    return f" So many {drawn}{seeds} show a gain of {pair.detectable:.4f} in 80 % of cases."


def _practical_note(comparison: Comparison, pair: Paired) -> str:
    """State that a significant difference is too small to matter, where there is a margin."""
    return ", within the margin" if pair.is_significant and comparison.is_within_margin(pair) else ""


ONE_SEED = "trained with one seed, so this is about these trained models and not about their methods"


def n_effective(comparison: Comparison) -> float:
    """As many queries of equal weight tell as much."""
    return effective_number(comparison.sampling.of_queries(comparison.n_queries))


def n_weightless(comparison: Comparison) -> int:
    """State how many queries do not count."""
    return 0 if comparison.weights is None else int(np.count_nonzero(comparison.weights == 0))


def _over(comparison: Comparison, n: int) -> str:
    """Over how many queries, and why not over all."""
    if n == comparison.n_queries:
        return f", over {count_of(n, 'query')}."
    left_out = comparison.n_queries - n
    weightless = n_weightless(comparison)
    counts_relevant = any("n_relevant" in system.query_attributes for system in comparison.systems)
    if counts_relevant and left_out == comparison.n_without_relevant:
        reason = f"{count_of(left_out, 'query')} {plural('has', left_out)} no relevant document"
    elif weightless == left_out:
        reason = f"{count_of(left_out, 'query')} {plural('has', left_out)} weight 0"
    elif weightless:
        reason = f"{count_of(weightless, 'query')} {plural('has', weightless)} weight 0, and {comparison.primary} is "
        reason += f"undefined for {count_of(left_out - weightless, 'other query')}"
    else:
        reason = f"{comparison.primary} is undefined for {count_of(left_out, 'query')}"
    return f", over {n:,} of {count_of(comparison.n_queries, 'query')}. {reason}."


def _listed(models: Sequence[str]) -> str:
    """Names, with no more than three of them spelled out."""
    if len(models) == 1:
        return models[0]
    if len(models) > 3:
        return f"{', '.join(models[:3])} and {len(models) - 3} more"
    return f"{', '.join(models[:-1])} and {models[-1]}"
