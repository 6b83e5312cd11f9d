"""One comparison says one thing, whatever it has: seeds, missing values, weights, units, margins, several metrics.

A comparison is drawn from its number alone: `check(comparison(NUMBER))` repeats one. The slow test has 100,000 of them
in 20 parts, each of about five minutes: `pytest -m slow tests/comparison/test_one_thing.py -k "part7 or part8"`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.contrasts import Estimated, Paired, SystemResult
from ltr_harness.comparison.gates import parse_gate
from ltr_harness.report import terminal
from ltr_harness.report.data import ReportData
from ltr_harness.report.json_document import document

METRICS = {"ndcg@10": True, "mrr": True, "brier": False, "kendall_tau_distance": False, "dcg@10": True}
NAMES = ("base", "one", "two", "three")
SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "not distinguishable": "·"}
WORDS = {"better": "is better", "worse": "is worse", "equivalent": "equivalent"}
FEWEST_EQUIVALENT = 6
QUICK = (2, 4, 8, 16, 37, 77, 78, 80, 81, 88, 96, 109, 148, 208, 217, 218, 227, 246, 247, 270)
"""As few of the first 300 as enter every branch that these 300 enter."""
OF_PART = 5_000


def differences(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) with ties, constants, one-sided, skewed, tiny ones."""
    d: np.ndarray = [
        lambda: rng.normal(0, 0.1, n),
        lambda: np.round(rng.normal(0, 0.1, n), 1),
        lambda: np.where(rng.random(n) < 0.9, 0.0, rng.normal(0, 0.3, n)),
        lambda: np.full(n, rng.choice([-0.1, 0.0, 0.1, 0.3])),
        lambda: 0.02 * (np.exp(2 * rng.normal(size=n)) - 1),
        lambda: rng.normal(0, 0.1, n) + rng.choice([0.05, -0.2]),
        lambda: 0.05 - np.exp(rng.normal(size=n)) * (rng.random(n) < 0.1),
        lambda: np.full(n, 0.1 * rng.normal()) + 1e-12 * rng.normal(size=n),
        lambda: 1e-5 * rng.normal(size=n),
    ][rng.integers(9)]()
    return d


def values(rng: np.random.Generator, base: np.ndarray, seeds: int, metric: str) -> np.ndarray:
    """(seeds, n) values of a model, of which each seed may be a little better or worse, some undefined."""
    n = base.size
    d = differences(rng, n)
    noise = rng.choice([0.0, 0.0, 0.003, 0.05]) * rng.normal(size=(seeds, 1))
    noise = noise + rng.choice([0.0, 0.01, 0.1]) * rng.normal(size=(seeds, n))
    rows = base + d + (noise if seeds > 1 else np.zeros((1, n)))
    rows = np.clip(rows, 0, 1 if metric != "dcg@10" else None)
    missing = rng.random()
    if missing < 0.25:
        rows[:, rng.random(n) < rng.choice([0.1, 0.5, 0.9])] = np.nan
    elif missing < 0.28:
        rows[:] = np.nan
    elif missing < 0.31:
        rows[rng.random((seeds, n)) < 0.1] = np.nan
    return rows


def weights(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) that are alike, Zipf's, lopsided, or 0 for some; never all 0."""
    w: np.ndarray = [
        lambda: np.exp(rng.normal(size=n)),
        lambda: rng.permutation(1000.0 / np.arange(1, n + 1)),
        lambda: np.where(rng.random(n) < 0.3, 0.0, 1.0 + rng.integers(0, 5, n)),
        lambda: np.where(np.arange(n) == 0, 1000.0, 1.0),
        lambda: np.full(n, 2.0),
    ][rng.integers(5)]()
    w[rng.integers(n)] = 1.0
    return w


def attributes(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Draw the attributes by which queries are cut into slices, periods and units."""
    found = {"market": rng.choice(["de", "fr", "it"], n), "n_relevant": rng.integers(1, 4, n)}
    if rng.random() < 0.5:
        found["query_weight"] = weights(rng, n)
    if rng.random() < 0.3:
        found["user"] = np.array([f"u{at}" for at in rng.integers(0, n // 3 + 2, n)])
    if rng.random() < 0.3:
        first = np.datetime64("2024-01-01")
        found["day"] = np.sort(first + rng.integers(0, 60, n)).astype(str)
    return found


def options(rng: np.random.Generator, shared: dict[str, np.ndarray]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "test": str(rng.choice(["permutation"] * 4 + ["skew-adjusted"] * 2 + ["t", "bootstrap", "bounded"])),
        "draws": int(rng.choice([100, 150, 200])),
        "confidence": float(rng.choice([0.5, 0.8, 0.9, 0.95, 0.95, 0.99])),
        "margin": None if rng.random() < 0.5 else float(rng.choice([0.001, 0.02, 0.1, 0.3])),
    }
    if "query_weight" in shared and rng.random() < 0.15:
        found["weights"] = "none"
    if "user" in shared and len(set(shared["user"])) > 1 and rng.random() < 0.7:
        found["unit"] = "user"
    if "day" in shared and len(set(shared["day"])) > 6 and "unit" not in found and rng.random() < 0.4:
        found["unit"] = str(rng.choice(["day", "3 days"]))
    weighted = "query_weight" in shared and "weights" not in found
    if found["test"] in ("bootstrap", "bounded") and ("unit" in found or weighted):
        found["test"] = "permutation"
    return found


def comparison(number: int) -> Comparison:
    """Two to four models, or one, at one to three metrics, each pair a world of its own."""
    rng = np.random.default_rng(number)
    n = int(rng.integers(1, 40)) if rng.random() < 0.95 else int(rng.integers(100, 400))
    names = NAMES[: int(rng.choice([1, 2, 2, 3, 3, 4]))]
    chosen = options(rng, shared := attributes(rng, n))
    bounded = [metric for metric in METRICS if metric not in ("dcg@10", "kendall_tau_distance")]
    among = bounded if chosen["test"] == "bounded" else list(METRICS)
    metrics = [str(metric) for metric in rng.permutation(among)[: int(rng.integers(1, 4))]]
    folds = {"all": "labels"}
    if "day" in shared and rng.random() < 0.5 and shared["day"][0] < "2024-01-20":
        folds = {str(shared["day"][0]): "a", "2024-01-25": "b"}
    bases = {metric: np.round(rng.uniform(0.2, 0.8, n), int(rng.integers(1, 4))) for metric in metrics}
    systems = []
    for name in names:
        seeds = int(rng.choice([1, 1, 2, 3, 5]))
        systems.append(
            SystemResult(
                name,
                np.array([f"q{at:04d}" for at in range(n)]),
                {metric: values(rng, base, seeds, metric) for metric, base in bases.items()},
                tuple(map(str, range(seeds))),
                {metric: METRICS[metric] for metric in metrics},
                seeded=seeds > 1 or rng.random() < 0.3,
                query_attributes=shared,
                judgments_fingerprint=folds,
            )
        )
    return compare(*systems, metrics=metrics, baseline=str(rng.choice(names)), **chosen)


def weights_of(result: Comparison) -> np.ndarray:
    return np.ones(result.n_queries) if result.weights is None else result.weights


def effective_units(result: Comparison, d: np.ndarray) -> tuple[float, int]:
    """As many units of equal weight as tell as much, and how many there are."""
    w = np.where(np.isnan(d), 0.0, weights_of(result))
    totals = w if result.units is None else np.bincount(result.units, w)
    return (float(totals.sum() ** 2 / (totals**2).sum()) if totals.any() else 0.0), np.count_nonzero(totals)


def mean_of(result: Comparison, column: np.ndarray, where: np.ndarray | None = None) -> float:
    """The weighted mean of a column without what is undefined."""
    w = np.where(np.isnan(column), 0.0, weights_of(result))
    w = w if where is None else np.where(where, w, 0.0)
    return float((w * np.nan_to_num(column)).sum() / w.sum()) if w.any() else math.nan


def column(result: Comparison, model: str, metric: str) -> np.ndarray:
    return np.asarray(result.system(model).values[metric].mean(axis=0))


def is_close(one: float, other: float) -> bool:
    return one == pytest.approx(other, abs=1e-8, nan_ok=True)


def check_difference(result: Comparison, one: Estimated, p: float, verdict: str, metric: str) -> None:
    """One fact: p below the level, 0 outside the interval, the verdict; the estimate lies within."""
    alpha, higher = result.method.alpha, result.higher_is_better[metric]
    outside = one.ci_low > 0 or one.ci_high < 0
    assert outside == (p < alpha)
    if outside:
        assert verdict == ("better" if (one.difference > 0) == higher else "worse")
        assert one.ci_low > 0 if one.difference > 0 else one.ci_high < 0
    else:
        assert verdict in ("equivalent", "not distinguishable")
    assert math.isnan(one.ci_low) == math.isnan(one.ci_high) == math.isnan(p)
    if not math.isnan(p):
        assert 0 < p <= 1
        assert one.ci_low - 1e-9 <= one.difference <= one.ci_high + 1e-9


def check_pair(result: Comparison, pair: Paired) -> None:
    margin, alpha, metric = result.method.margin, result.method.alpha, pair.metric
    check_difference(result, pair, pair.p_corrected, pair.verdict, metric)
    model, other = (column(result, name, metric) for name in (pair.model, pair.other))
    d = model - other
    both = ~np.isnan(d)
    effective, units = effective_units(result, d)
    assert math.isnan(pair.p) == (effective < 2 - 1e-9)
    assert pair.n == np.count_nonzero(both & (weights_of(result) > 0))
    assert is_close(pair.difference, mean_of(result, np.where(np.abs(d) <= 1e-9, 0.0, d)))
    assert is_close(pair.model_mean, mean_of(result, model, both))
    assert is_close(pair.other_mean, mean_of(result, other, both))
    assert pair.wins + pair.ties + pair.losses == pair.n
    assert not pair.p_corrected < pair.p - 1e-12
    # an end that is the margin but for rounding does not lie within it
    least = math.nan if margin is None else margin * (1 - 1e-9)
    inside = -least < pair.ci_low and pair.ci_high < least
    inside = inside and units >= FEWEST_EQUIVALENT
    assert inside == (pair.p_equivalence < alpha) == result.is_within_margin(pair)
    assert (pair.verdict == "equivalent") == (inside and not pair.is_significant)
    assert pair.is_significant == (pair.p_corrected < alpha)
    if pair.includes_seeds:
        assert pair.ci_low <= pair.trained_ci_low <= pair.trained_ci_high <= pair.ci_high
        assert pair.p >= pair.trained_p
        assert pair.p_corrected >= pair.trained_p_corrected
    seeds = [len(result.system(name).replicates) for name in (pair.model, pair.other)]
    assert pair.includes_seeds == (max(seeds) > 1 and effective >= 2 - 1e-9)
    assert math.isnan(pair.detectable) or pair.detectable > 0


def check_detectable(result: Comparison, pair: Paired) -> None:
    """A gain beyond what could have been shown is shown."""
    if pair.verdict == "not distinguishable" and math.isfinite(pair.detectable):
        gain = pair.difference if result.higher_is_better[pair.metric] else -pair.difference
        assert gain <= pair.detectable


def is_joint(result: Comparison, metric: str) -> bool:
    """Return whether a pair at a metric is of a family of several."""
    primary = metric == result.primary
    return sum((pair.metric == result.primary) == primary for pair in result.pairs) > 1


def check_gates(result: Comparison, pair: Paired) -> None:
    """Check that gates fail exactly where the pair's numbers say so."""
    of, nothing = f"{pair.metric} of {pair.model}", pair.n == 0
    equal = pair.ties == pair.n > 1  # nothing differs: what absent queries could have, a caution tells
    low, high = (0.0, 0.0) if equal else (pair.ci_low, pair.ci_high)
    worse = pair.verdict == ("worse" if result.higher_is_better[pair.metric] else "better")
    better = pair.is_significant and not worse
    no_interval = math.isnan(pair.ci_low) and not equal
    expected = {
        "< baseline": nothing or pair.difference < 0,
        "> baseline": nothing or pair.difference > 0,
        "< baseline and significant": nothing or worse,
        "> baseline and significant": nothing or better,
        "< baseline - 0.02": nothing or no_interval or low < -0.02,
        "> baseline + 0.02": nothing or no_interval or high > 0.02,
        "< baseline - 0.02 and significant": nothing or high < -0.02,
        "> baseline + 0.02 and significant": nothing or low > 0.02,
    }
    for condition, fails in expected.items():
        gate = parse_gate(f"{of} {condition}")
        lines = gate.failures(result)
        assert bool(lines) == fails, condition
        for line in lines:
            if "no interval" not in line and "cannot be checked" not in line:
                assert ("joint" in line) == is_joint(result, pair.metric)
        if gate.cautions(result):
            assert not lines


def check_all_pairs(result: Comparison, metric: str) -> None:
    """The letters are the verdicts of all pairs, of which the better model comes first."""
    letters, every = result.letters(metric), result.all_pairs(metric)
    sign = 1 if result.higher_is_better[metric] else -1
    for pair in every:
        check_pair(result, pair)
        one, other = set(letters.groups[pair.model]), set(letters.groups[pair.other])
        if any(pair.n > 1 for pair in every):
            assert (not one & other) == pair.is_significant
        else:
            assert not one | other
        assert not sign * pair.difference < 0
        if result.baseline not in (pair.model, pair.other):
            continue
        direct = result.paired(({pair.model, pair.other} - {result.baseline}).pop(), metric)
        assert is_close(abs(direct.difference), abs(pair.difference))
        if len(result.models) == 2 and metric == result.primary:
            assert is_close(direct.p_corrected, pair.p_corrected)
            assert direct.is_significant == pair.is_significant


def check_means(result: Comparison) -> None:
    for summary in result.summaries:
        own = column(result, summary.model, summary.metric)
        own = np.where(weights_of(result) > 0, own, np.nan)
        assert is_close(summary.mean, mean_of(result, own))
        assert summary.n == np.count_nonzero(~np.isnan(own))
        if not math.isnan(summary.ci_low):
            assert summary.ci_low - 1e-9 <= summary.mean <= summary.ci_high + 1e-9


def sign_of(difference: float) -> int:
    """0 for what counts as a tie."""
    return 0 if abs(difference) <= 1e-9 else int(np.sign(difference))


def check_parts(result: Comparison, data: ReportData) -> None:
    """Slices, periods and folds are of the same weighted means, and their verdicts are their numbers."""
    w = weights_of(result)
    for part in data.slices:
        check_difference(result, part, part.p, part.verdict, result.primary)
        assert math.isnan(part.difference) or is_close(part.difference, part.model_mean - part.baseline_mean)
        values = result.systems[0].query_attributes[part.attribute]
        if part.attribute == "market":
            d = result.query_differences(part.model)
            assert part.n == np.count_nonzero((values == part.label) & (w > 0) & ~np.isnan(d))
            assert is_close(part.difference, mean_of(result, d, values == part.label))
    for signs in result.fold_signs:
        days = result.systems[0].query_attributes["day"]
        start = sorted(result.systems[0].judgments_fingerprint)[1]
        d = result.query_differences(signs.model)
        of_folds = [mean_of(result, d, days < start), mean_of(result, d, days >= start)]
        sign = sign_of(result.paired(signs.model).difference)
        assert signs.agreeing == sum(sign_of(mean) == sign for mean in of_folds if not math.isnan(mean))
    for row in result.over_time:
        days = result.systems[0].query_attributes["day"]
        where = (days >= row.first_day) & (days <= row.last_day)
        own = column(result, row.model, result.primary)
        d = own - column(result, result.baseline, result.primary)
        assert is_close(row.mean, mean_of(result, np.where(np.isnan(d), np.nan, own), where))
        if row.model != result.baseline:
            assert is_close(row.difference, mean_of(result, d, where))


def formatted(value: float) -> str:
    return "0.0000" if abs(value) < 0.00005 else f"{value:+.4f}"


def p_written(p: float) -> str:
    return "p = n/a" if p != p else "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"


def check_sentence(result: Comparison, pair: Paired) -> None:
    """The verdict's sentence has the numbers of the pair that it is about."""
    said = result.verdict
    several = len(result.models) > 2
    word = WORDS.get(pair.verdict, "is not distinguishable")
    assert word in said
    interval = f"{'joint ' * several}{result.method.percent} % interval "
    interval += f"{pair.ci_low:+z.4f} to {pair.ci_high:+z.4f}"
    if not math.isfinite(pair.ci_high - pair.ci_low):
        interval = "no interval"
    numbers = f"{pair.difference:+z.4f} ({interval}"
    assert numbers in said
    assert f"{'joint ' * several}{p_written(pair.p_corrected)}" in said
    assert ("joint" in said) == several
    assert ("weighted by query_weight" in said) == (result.weights is not None)
    assert ("and seeds" in said) == pair.includes_seeds
    shown = f"a gain of {pair.detectable:.4f} in 80 % of cases"
    null = pair.verdict == "not distinguishable" and math.isfinite(pair.detectable)
    assert (shown in said) == null


def check_headline(result: Comparison) -> None:
    outcome, text = result.headline
    verdicts = {pair.verdict for pair in result.pairs if pair.metric == result.primary and pair.n}
    order: tuple[str, ...] = ("better", "not distinguishable", "equivalent", "worse")
    first = next((word for word in order if word in verdicts), "nothing to compare")
    assert outcome == {"not distinguishable": "no clear winner"}.get(first, first)
    assert len(text.split()) <= 20, text
    assert ("(joint " in text) == (len(result.models) > 2 and " CI " in text)
    for pair in result.pairs:
        if pair.metric == result.primary and pair.model in text.split() and pair.verdict == first and pair.n:
            size = abs(pair.difference)
            assert any(shown in text for shown in (f"{size:.4f}", "<0.0001", "equals"))


def check_counts(result: Comparison, pair: Paired) -> None:
    """Check the counts in a verdict: of queries that are undefined, and of queries of weight 0."""
    missing = result.n_queries - np.count_nonzero(~np.isnan(result.query_differences(pair.model)))
    weightless = np.count_nonzero(weights_of(result) == 0)
    for count in re.findall(r"is undefined for ([\d,]+) (?:other )?quer", result.verdict):
        assert int(count) <= missing
    for count in re.findall(r"([\d,]+) quer(?:y has|ies have) weight 0", result.verdict):
        assert int(count) == weightless


def check_lead(result: Comparison) -> None:
    """Only the best mean of all is said to be the best."""
    sign = 1 if result.higher_is_better[result.primary] else -1
    means = {model: sign * result.summary(model).mean for model in result.models}
    best = max(mean for mean in means.values() if not math.isnan(mean))
    leader = result.ranking[0]
    if any(claim in result.verdict for claim in ("has the highest mean", "has the lowest mean")):
        assert means[leader] > best - 1e-8
    if "has the best mean" in result.headline.text:
        assert means[leader] > best - 1e-8


def check_texts(result: Comparison, data: ReportData) -> None:
    """Sentence, headline, terminal and JSON have the same words and numbers."""
    leader = result.ranking[0]
    check_headline(result)
    subject = result.ranking[1] if leader == result.baseline else leader
    if "Nothing to compare" not in result.verdict:
        check_sentence(result, result.paired(subject))
        check_lead(result)
        check_counts(result, result.paired(subject))
    text = terminal.render(data, width=200)
    lines = text.splitlines()
    assert lines[0] == result.headline.text
    top = 3 if result.seeds_caution is None else 4  # the caution stands between headline and table
    table = lines[top : top + 1 + len(result.models)]
    rows = {line.split()[0]: line.split() for line in table if line.split()}
    for model in result.models:
        summary = result.summary(model)
        cells = rows[model]
        assert cells[1] == ("–" if math.isnan(summary.mean) else f"{summary.mean:.4f}")
        if model == result.baseline:
            assert cells[4] == "baseline"
            continue
        pair = result.paired(model)
        ends = ["–" if math.isnan(end) else formatted(end) for end in (pair.ci_low, pair.ci_high)]
        assert cells[5:7] == ends
        assert cells[4] == ("–" if math.isnan(pair.difference) else formatted(pair.difference))
        p = p_written(pair.p_corrected).removeprefix("p = ").replace("p < ", "<")
        assert cells[7] == ("–" if math.isnan(pair.p_corrected) else p)
        assert cells[8] == SIGNS[pair.verdict]
    several = len(result.models) > 2
    head = lines[top - 1]
    assert head.count("joint") == 2 * several
    assert ("weighted" in head) == (result.weights is not None)
    of_means, of_changes = head.index("interval"), max(head.rfind(" CI"), head.rfind("interval"))
    alike = of_changes > of_means and "CI" not in head
    assert alike == (not several and not data.over_seeds)
    page = result._repr_html_()
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)<', page)
    assert sum("joint " in heading for heading in heads) == 2 * several
    assert sum("weighted" in heading for heading in heads) == (result.weights is not None)


def check_json(result: Comparison, data: ReportData) -> None:
    told = document(data)
    assert (told["outcome"], told["headline"]) == tuple(result.headline)
    assert told["verdict"] == result.verdict
    w = weights_of(result)
    assert told["weights"] == (None if result.weights is None else "query_weight")
    assert told["n_effective"] == pytest.approx(w.sum() ** 2 / (w**2).sum())
    pairs = {(pair["model"], pair["metric"]): pair for pair in told["pairs"]}
    assert len(pairs) == len(result.pairs)
    for pair in result.pairs:
        other = pairs[pair.model, pair.metric]
        outside = other["p_corrected"] is not None and other["p_corrected"] < result.method.alpha
        assert outside == (other["verdict"] in ("better", "worse")) == pair.is_significant
        assert other["ci_low"] == (pair.ci_low if math.isfinite(pair.ci_low) else None)
    every = result.all_pairs()
    if any(pair.n > 1 for pair in every):
        for pair in every:
            shared = set(told["letters"][pair.model]) & set(told["letters"][pair.other])
            assert bool(shared) != pair.is_significant
    assert len(told["slices"]) == len(data.slices)


def check_cautions(result: Comparison) -> None:
    """A caution is about the models that it names."""
    rivals = [pair for pair in result.pairs if pair.metric == result.primary]
    for caution in result.cautions:
        named = caution.place.split(", ") if caution.place else [pair.model for pair in rivals]
        about = [pair for pair in rivals if pair.model in named]
        if caution.kind == "few-queries":
            assert not any(pair.is_significant for pair in about)
        if caution.kind in ("lopsided", "signs-differ"):
            assert all(pair.is_significant for pair in about) or not caution.place
        if caution.kind == "rare-kind":
            assert all(pair.verdict != "not distinguishable" for pair in about)


def check(result: Comparison) -> None:
    """Everything that a comparison says, from p to the terminal."""
    data = ReportData(result, (), (), None, "random")
    check_means(result)
    for pair in result.pairs:
        check_pair(result, pair)
        check_gates(result, pair)
        check_detectable(result, pair)
    for metric in result.metrics:
        check_all_pairs(result, metric)
    check_parts(result, data)
    check_cautions(result)
    if len(result.models) > 1:
        check_texts(result, data)
    check_json(result, data)


CONTRADICTED = {
    14335: "the skewness of differences that are all but equal is rounding",
    21702: "means that are equal but for rounding have a better one",
    20411: "a difference that is less than the margin by rounding lies within it",
    34876: "a difference of the margin lies within it",
    44499: "random signs give five queries a smaller p-value than all their signs",
    46263: "values of a unit that cancel have no sign",
    48785: "how alike the values of a unit are is rounding",
    75167: "likewise, with the skew-adjusted test",
}
"""Comparisons whose parts once said different things."""


@pytest.mark.parametrize("number", CONTRADICTED)
def test_what_once_contradicted_itself(number: int) -> None:
    check(comparison(number))


PARTS = [QUICK, *(range(at, at + OF_PART) for at in range(0, 100_000, OF_PART))]


@pytest.mark.long
@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(part, id=f"part{at}", marks=[pytest.mark.slow] if at else [])
        for at, part in enumerate(PARTS)
    ],
)
def test_everything_says_one_thing(numbers: Iterable[int]) -> None:
    for number in numbers:
        try:
            check(comparison(number))
        except AssertionError as problem:
            problem.add_note(f"comparison {number}")
            raise
