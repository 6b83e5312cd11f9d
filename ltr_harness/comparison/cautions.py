"""Cautions about a comparison's numbers: rare kinds of queries, units, weights, seeds."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from ltr_harness._util.text import count_of
from ltr_harness.comparison.caution_choice import ONE_TRAINING, TWO_SEEDS
from ltr_harness.comparison.comparison import ONE_SEED, Comparison, n_effective
from ltr_harness.comparison.contrasts import (
    Contrast,
    Paired,
    Sampling,
    narrower_with_seeds,
    rare_kind_of,
)
from ltr_harness.comparison.headroom import little_to_gain, worse_than_random_order
from ltr_harness.comparison.over_time import differences_or_values, neighbours
from ltr_harness.comparison.stats.families import rare_kind
from ltr_harness.comparison.stats.method import FLIPS
from ltr_harness.errors import Caution, Severity

FEW = 10  # degrees of freedom below which a comparison says that few units decide it, unless there are few anyway

ENOUGH_SEEDS = 3  # from which on intervals are of a usual width
WORTH_A_SEED = 1.5  # times that an interval would be narrower with them, below which nothing is said

FEWEST_FOR_INTERVALS = 20
"""Queries from which on intervals hold whatever the tails (docs/maintainers/promises.md has the rates below)."""


def absence_text(comparison: Comparison, pair: Paired, family: int, margin: float | None = None) -> str:
    """Describe the rare queries that could change a verdict, or the pass of a gate at a margin; "" for none.

    A passed gate is a decision, and has the line wherever such a kind is possible; a verdict where it is plausible.
    """
    method = comparison.method
    width, n = comparison.value_range(pair.metric), comparison.n_independent_units(pair)
    if margin is not None:
        return rare_kind(n, abs(pair.difference - margin), width, method, "fail the gate", family)
    d = comparison.query_differences(pair.model, pair.metric)
    return rare_kind_of(pair, d, n, width, method, family)


def unit_cautions(comparison: Comparison) -> list[Caution]:
    """State how many units there are, how large they are, and their design effect."""
    unit, codes = comparison.method.unit, comparison.units
    if unit is None or codes is None:
        return []
    sizes = np.sort(np.bincount(codes))
    largest = count_of(int(sizes[-1]), "query")
    if sizes[0] != sizes[-1]:
        largest = f"{sizes[0]:,} to {largest}, median {np.median(sizes):g}"
    values = differences_or_values(comparison.systems, comparison.baseline, comparison.primary)
    autocorrelation_text, left_open = neighbours(comparison.systems, unit, values, comparison.sampling)
    note = f"{autocorrelation_text}tests and intervals go by {unit}: {sizes.size:,} of {largest}"
    means = comparison.sampling.contributions(values)
    by_query = Sampling(None, comparison.weights).contributions(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        effects = (means.error / by_query.error) ** 2
    defined = ~np.isnan(effects)
    if defined.any():
        low, high = effects[defined].min(), effects[defined].max()
        effect = " to ".join(dict.fromkeys((f"{low:.2g}", f"{high:.2g}")))
        note += f"; design effect {effect}"
    cautions = [Caution("query-units", "note", note)]
    df = float(np.nanmin(means.df)) if not np.isnan(means.df).all() else np.inf
    if df < FEW and df < (sizes.size - 1) / 2:
        text = (
            f"the largest unit has {sizes[-1] / codes.size:.0%} of the queries, so the {sizes.size:,} units count as "
            f"{df + 1:.2g}, and p-values are likely too small"
        )
        cautions.append(Caution("uneven-units", "warning", text, MORE_UNITS, place=unit))
    elif sizes.size < 2 * FEW:
        text = f"with only {sizes.size} units, intervals and p-values are approximate"
        cautions.append(Caution("few-units", "warning", text, MORE_UNITS, place=unit))
    return [*cautions, left_open] if left_open else cautions


MORE_QUERIES, MORE_UNITS = "evaluate more queries", "evaluate queries of more units"

FEW_EFFECTIVE = 20  # effective queries below which a weighted comparison has a caution


def weight_cautions(comparison: Comparison) -> list[Caution]:
    """Return how unlike the queries' weights are, in how many of equal weight would tell as much."""
    weights = comparison.weights
    if weights is None:
        return []
    n = n_effective(comparison)
    text = (
        f"means, tests and intervals are weighted by {comparison.method.weights}: "
        f"{count_of(comparison.n_queries, 'query')} count as {n:,.0f} of equal weight"
    )
    severity: Severity = "warning" if n < FEW_EFFECTIVE else "note"
    return [Caution("query-weights", severity, text, "`weights: none` counts each query once")]


def one_training(comparison: Comparison) -> list[Caution]:
    """Return the caution that a trained model of the comparison was trained once, and other seeds are ignored."""
    rivals = [comparison.paired(model) for model in comparison.models if model != comparison.baseline]
    if not any(map(comparison.is_of_one_training, rivals)):
        return []
    return [Caution(ONE_TRAINING, "warning", ONE_SEED, "train with three seeds: `seeds: [1, 2, 3]`")]


def two_seeds(comparison: Comparison) -> list[Caution]:
    """Return the caution that the intervals are wide because two seeds leave one degree of freedom."""
    pairs = [pair for pair in comparison.pairs if pair.metric == comparison.primary]
    reference = comparison.system(comparison.baseline)
    ratios = []
    for pair in pairs:
        cell = Contrast(comparison.system(pair.model), reference, pair.metric)
        ratio = narrower_with_seeds(
            pair, cell, ENOUGH_SEEDS, len(pairs), comparison.method, comparison.sampling
        )
        if ratio >= WORTH_A_SEED:
            ratios.append(ratio)
    if not ratios:
        return []
    times = " to ".join(dict.fromkeys(f"{ratio:.0f}" for ratio in (min(ratios), max(ratios))))
    text = f"trained with 2 seeds; with {ENOUGH_SEEDS} the interval would be about {times} times narrower"
    seeded = [system for system in comparison.systems if system.seeded]
    of_two = [system.name for system in seeded if len(system.replicates) == 2]
    place = ", ".join(of_two) if len(of_two) < len(seeded) else ""
    return [Caution(TWO_SEEDS, "warning", text, place=place)]


def cautions(comparison: Comparison) -> list[Caution]:
    """Return what makes the numbers less sure than they look, at the primary metric."""
    pairs = [pair for pair in comparison.pairs if pair.metric == comparison.primary]
    return [
        *comparison.few_judged,
        *little_to_gain(comparison.systems, comparison.primary),
        *worse_than_random_order(comparison.systems, comparison.primary),
        *weight_cautions(comparison),
        *unit_cautions(comparison),
        *_assumed_spread(comparison, pairs),
        *_other_queries(comparison),
        *_too_few(comparison, pairs),
        *_short_intervals(comparison, pairs),
        *lopsided_cautions(comparison, pairs),
        *_rare_kinds(comparison, pairs),
    ]


def _assumed_spread(comparison: Comparison, pairs: Sequence[Paired]) -> list[Caution]:
    """Return a caution for models whose spread over seeds had to be taken from another model."""
    with_seeds = {name for pair in pairs if pair.includes_seeds for name in (pair.model, pair.other)}
    trained_once = []
    for name in comparison.models:
        system = comparison.system(name)
        if system.seeded and len(system.replicates) == 1 and name in with_seeds:
            trained_once.append(name)
    if not trained_once:
        return []
    text = "trained with one seed; its spread over seeds is assumed to be that of the models with several"
    cure = "train it with as many seeds as they have"
    return [Caution("assumed-spread", "warning", text, cure, ", ".join(trained_once))]


def _other_queries(comparison: Comparison) -> list[Caution]:
    """Return a caution for each metric that is undefined for other queries of one model than of the next."""
    cautions = []
    for metric in comparison.metrics:
        pairs = comparison.pairs_on_other_queries(metric)
        if not pairs:
            continue
        counts = sorted(summary.n_undefined for summary in comparison.summaries if summary.metric == metric)
        low, high = counts[0], count_of(counts[-1], "query")
        undefined = f"{high}, not the same ones," if low == counts[-1] else f"{low:,} to {high}"
        means = []
        for pair in pairs[:5]:
            text = f"{pair.model} none"
            if pair.n:
                text = f"{pair.model} {pair.model_mean:.4f} against {pair.other_mean:.4f} over {pair.n:,}"
            means.append(text)
        text = (
            f"{metric} is undefined for {undefined} depending on the model, so each pair is compared over the queries "
            f"that are defined for both: {', '.join(means)}"
        )
        if len(pairs) > 5:
            text += f" and {len(pairs) - 5} more"
        cautions.append(Caution("other-queries", "warning", text))
    return cautions


def _rare_kinds(comparison: Comparison, pairs: Sequence[Paired]) -> list[Caution]:
    """Return a caution for models whose verdict a rare kind of query could change."""
    models_of: dict[str, list[str]] = {}
    for pair in pairs:
        models_of.setdefault(absence_text(comparison, pair, len(pairs)), []).append(pair.model)
    cautions = []
    for text, models in models_of.items():
        if text:
            cautions.append(Caution("rare-kind", "warning", text, MORE_QUERIES, place=", ".join(models)))
    return cautions


def _too_few(comparison: Comparison, pairs: Sequence[Paired]) -> list[Caution]:
    """Return a caution for pairs of so few queries that no difference could have been significant."""
    method = comparison.method
    if method.test not in FLIPS:
        return []
    models: dict[int, list[str]] = {}
    for pair in pairs:
        n = comparison.n_independent_units(pair)
        if pair.n and 2.0 ** (1 - n) >= method.alpha:
            models.setdefault(n, []).append(pair.model)
    cautions = []
    for n, names in models.items():
        units = count_of(n, "query") if method.unit is None else f"{n} of {method.unit}"
        text = f"with {units} no p-value can be below {2.0 ** (1 - n):g}, so no difference can be significant"
        place = "" if len(names) == len(pairs) else ", ".join(names)
        cautions.append(Caution("few-queries", "warning", text, MORE_QUERIES, place))
    return cautions


def _short_intervals(comparison: Comparison, pairs: Sequence[Paired]) -> list[Caution]:
    """Return a caution for pairs whose intervals are of so few queries that long tails make them too short."""
    method = comparison.method
    if method.test == "bounded" or method.unit is not None:
        return []
    short = [pair for pair in pairs if pair.n < FEWEST_FOR_INTERVALS and not np.isnan(pair.ci_low)]
    if method.test in FLIPS:
        short = [pair for pair in short if 2.0 ** (1 - pair.n) < method.alpha]  # others have `few-queries`
    if not short:
        return []
    sizes = sorted({pair.n for pair in short})
    n = count_of(sizes[-1], "query") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} queries"
    text = (
        f"with {n} (fewer than {FEWEST_FOR_INTERVALS}), intervals miss the true difference twice as often as they "
        "should if a few queries differ far more than the others"
    )
    place = "" if len(short) == len(pairs) else ", ".join(pair.model for pair in short)
    return [Caution("short-intervals", "warning", text, MORE_QUERIES, place)]


def lopsided_cautions(comparison: Comparison, pairs: Sequence[Paired]) -> list[Caution]:
    """Return a caution for verdicts that chance gives at least twice as often as the test's level has it.

    By Edgeworth's first term the share of samples of equal models beyond c standard errors, on the side that a skewness
    a of the mean makes heavier, is 1 - Phi(c) + |a| (2 c**2 + 1) phi(c) / 6. A gain with rare losses lies on that side.
    """
    method = comparison.method
    if method.test not in ("permutation", "t"):
        return []
    level = method.level(len(pairs)) / 2
    c = -float(ndtri(level))
    heaviest = level / ((2 * c**2 + 1) * float(np.exp(-(c**2) / 2)) / np.sqrt(2 * np.pi) / 6)
    models = []
    for pair in pairs:
        if not pair.is_significant:
            continue
        d = comparison.query_differences(pair.model, pair.metric)
        skewness = float(comparison.sampling.contributions(d[:, None]).skewness[0])
        if -np.sign(pair.difference) * skewness > heaviest:
            models.append(pair.model)
    if not models:
        return []
    text = (
        "a few queries differ far more than the others, and in the other direction; chance gives such a verdict more "
        "than twice as often as its p-value"
    )
    return [Caution("lopsided", "warning", text, "`test: skew-adjusted` allows for it", ", ".join(models))]
