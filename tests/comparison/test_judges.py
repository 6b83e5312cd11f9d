"""Agreement of judges: other tools' numbers, values by hand, and intervals that hold in simulated worlds."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from ltr_harness.comparison.judges import (
    GradePairs,
    JudgeEstimate,
    confusion,
    order_tau,
    rank_parts,
    worth_of_judge,
)
from ltr_harness.comparison.stats.method import Method
from ltr_harness.experiments.inspection.agreement import alphas

METHOD = Method()


def pairs(human: list[float], judge: list[float], queries: list[int] | None = None) -> GradePairs:
    codes = np.arange(len(human)) if queries is None else np.array(queries)
    return GradePairs(codes, np.array(human, dtype=float), np.array(judge, dtype=float))


def random_pairs(seed: int, n_queries: int = 40) -> GradePairs:
    rng = np.random.default_rng(seed)
    queries = np.repeat(np.arange(n_queries), rng.integers(1, 12, n_queries))
    human = rng.choice(4, queries.size, p=[0.5, 0.2, 0.2, 0.1]).astype(float)
    judge = np.clip(human + rng.choice([-1, 0, 0, 1, 2], queries.size), 0, 3)
    return GradePairs(queries, human, judge)


def test_kappa_and_alpha_by_hand() -> None:
    """The squared differences of documents are 0, 1, 0 and 1; those of any two documents are all 16 pairs."""
    few = pairs([0, 0, 2, 3], [0, 1, 2, 2])
    expected = np.mean([(h - j) ** 2 for h, j in itertools.product(few.human, few.judge)])
    kappa = few.kappa(METHOD)
    assert kappa is not None
    assert kappa.value == pytest.approx(1 - (2 / 4) / expected)
    bias = pairs([0, 0, 2, 3], [0, 1, 2, 3]).bias(METHOD)
    assert bias is not None
    assert bias.value == 1 / 4


def ends(estimate: JudgeEstimate | None) -> tuple[float, float]:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


@pytest.mark.parametrize("seed", range(5))
def test_kappa_and_alpha_are_those_of_other_tools(seed: int) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    metrics = pytest.importorskip("sklearn.metrics")
    drawn = random_pairs(seed)
    kappa, alpha = drawn.kappa(METHOD), drawn.alpha(METHOD)
    assert kappa is not None
    assert alpha is not None
    assert kappa.value == pytest.approx(
        metrics.cohen_kappa_score(drawn.human, drawn.judge, weights="quadratic", labels=[0, 1, 2, 3])
    )
    both = np.array([drawn.human, drawn.judge])
    assert alpha.value == pytest.approx(krippendorff.alpha(both, level_of_measurement="ordinal"))
    documents = np.tile(np.arange(drawn.human.size), 2)
    assert alpha.value == pytest.approx(alphas(documents, both.ravel())[1])


@pytest.mark.parametrize("name", ["kappa", "alpha", "bias"])
def test_an_interval_has_the_error_of_the_jackknife_over_queries(name: str) -> None:
    drawn, method = random_pairs(8, 100), Method(test="t")
    low, high = ends(getattr(drawn, name)(method))
    without = [getattr(drawn.take(drawn.queries != query), name)(method).value for query in range(100)]
    error = np.sqrt(99 / 100 * np.square(np.array(without) - np.mean(without)).sum())
    assert (high - low) / 2 / 1.984 == pytest.approx(error, rel=0.03)


def test_favour_for_a_system_at_equal_human_grades_by_hand() -> None:
    """On documents of grade 0, the judge gives 1 of 1 listed and 0 of 1 other; on those of grade 2, 2 and 2."""
    few = pairs([0, 0, 2, 2], [1, 0, 2, 2])
    milder = few.milder(np.array([True, False, True, False]), METHOD)
    assert milder is not None
    assert milder.value == pytest.approx((1 + 0) / 2)
    assert few.milder(np.array([True, True, False, False]), METHOD) is None  # no grade has both kinds


def test_what_is_undefined() -> None:
    equal = pairs([1, 1, 1], [1, 1, 1])
    assert equal.kappa(METHOD) is None
    assert equal.alpha(METHOD) is None
    assert equal.bias(METHOD) is not None
    one_query = pairs([0, 1, 2], [0, 1, 1], [0, 0, 0])
    kappa = one_query.kappa(METHOD)
    assert kappa is not None
    assert (kappa.low, kappa.high) == (None, None)
    assert str(kappa) == "0.67"  # 1 - (1 / 3) / (2 / 3 + 2 / 9 + 1 / 9)


def test_full_agreement_on_few_queries_is_not_certain() -> None:
    """The rule of three: a kind of query of less than 1 - .05**(1/10) of all can be absent, of kappa -1."""
    same = pairs([0, 1] * 5, [0, 1] * 5)
    low, high = ends(same.kappa(METHOD))
    assert (low, high) == (pytest.approx(1 - 2 * (1 - 0.05 ** (1 / 10))), 1.0)


def test_confusion_and_ranks() -> None:
    grades, rows = confusion(pairs([0, 0, 0, 2], [0, 1, 1, 2]))
    assert grades == (0.0, 1.0, 2.0)
    assert [(row.grade, row.n_documents, row.counts) for row in rows] == [
        (0.0, 3, (1, 2, 0)),
        (2.0, 1, (0, 0, 1)),
    ]
    parts = rank_parts(np.array([1, 3, 4, 10, 200, 0]))
    assert {label: chosen.sum() for label, chosen in parts} == {
        "1 to 3": 2, "4 to 10": 2, "from 101": 1, "in no ranking": 1,
    }  # fmt: skip


def test_tau_of_systems_by_hand() -> None:
    """Means 1, 2, 3 and 1, 3, 2: two pairs of three in the same order, one in the other."""
    human = np.tile([1.0, 2.0, 3.0], (20, 1))
    judge = np.tile([1.0, 3.0, 2.0], (20, 1))
    assert order_tau(human, judge, METHOD) == JudgeEstimate(
        pytest.approx(1 / 3), pytest.approx(1 / 3), pytest.approx(1 / 3)
    )
    judge[:, 2] = 3.0  # a tie is neither
    assert order_tau(human, judge, METHOD).value == pytest.approx(2 / 3)


def test_worth_of_a_judge() -> None:
    d = np.array([0.1, 0.4, -0.2, 0.3])
    assert worth_of_judge(d, 2 * d + 1) == pytest.approx(0)
    assert worth_of_judge(d, np.zeros(4)) == 1.0


World = Callable[[np.random.Generator, int], tuple[GradePairs, np.ndarray]]


def base(rng: np.random.Generator, n_queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Queries, and quality that queries share in part."""
    queries = np.repeat(np.arange(n_queries), rng.poisson(8, n_queries) + 2)
    return queries, 0.7 * rng.normal(size=n_queries)[queries] + rng.normal(size=queries.size)


def plain(rng: np.random.Generator, n_queries: int) -> tuple[GradePairs, np.ndarray]:
    """Two judges with errors that the documents of a query share in part."""
    queries, quality = base(rng, n_queries)
    noise = 0.4 * rng.normal(size=n_queries)[queries] + 0.6 * rng.normal(size=queries.size)
    grades = [np.digitize(each, [0.5, 1.2, 2.0]).astype(float) for each in (quality, quality + noise)]
    return GradePairs(queries, *grades), rng.random(queries.size) < 0.4


def mild_on_one_system(rng: np.random.Generator, n_queries: int) -> tuple[GradePairs, np.ndarray]:
    queries, quality = base(rng, n_queries)
    listed = rng.random(queries.size) < 1 / (1 + np.exp(-quality))  # by the system, which finds good ones
    judged = quality + 0.6 * listed + 0.5 * rng.normal(size=queries.size)
    grades = [np.digitize(each, [0.5, 1.2, 2.0]).astype(float) for each in (quality, judged)]
    return GradePairs(queries, *grades), listed


def blind_to_relevant(rng: np.random.Generator, n_queries: int) -> tuple[GradePairs, np.ndarray]:
    """A judge right on 95 % of irrelevant and on 40 % of relevant documents."""
    queries, quality = base(rng, n_queries)
    human = (quality > 0.5).astype(float)
    is_right = rng.random(queries.size) < np.where(human > 0, 0.4, 0.95)
    return GradePairs(queries, human, np.where(is_right, human, 1 - human)), rng.random(queries.size) < 0.4


@pytest.mark.long
@pytest.mark.parametrize("world", [plain, mild_on_one_system, blind_to_relevant])
@pytest.mark.parametrize("samples", [20, pytest.param(1500, marks=pytest.mark.slow)])
def test_intervals_hold_in_simulated_worlds(world: World, samples: int) -> None:
    """Coverage of 93 to 97 % with 100 queries, answered always."""
    n_of_truth, draws = (100_000, 1000) if samples > 20 else (5_000, 300)
    method = Method(draws=draws)
    truth_pairs, listed = world(np.random.default_rng(1), n_of_truth)
    statistics: dict[str, Callable[[GradePairs, np.ndarray], JudgeEstimate | None]] = {
        "kappa": lambda drawn, listed: drawn.kappa(method),
        "alpha": lambda drawn, listed: drawn.alpha(method),
        "bias": lambda drawn, listed: drawn.bias(method),
        "milder": lambda drawn, listed: drawn.milder(listed, method),
    }
    truth = {name: of(truth_pairs, listed) for name, of in statistics.items()}
    held = dict.fromkeys(statistics, 0)
    for sample in range(samples):
        drawn, listed = world(np.random.default_rng([2, sample]), 100)
        for name, of in statistics.items():
            low, high = ends(of(drawn, listed))  # answered
            true = truth[name]
            assert true is not None
            held[name] += low <= true.value <= high
    allowed = (0.93, 0.97) if samples > 20 else (0.85, 1.0)
    coverage = {name: count / samples for name, count in held.items()}
    print(world.__name__, coverage)
    assert all(allowed[0] <= share <= allowed[1] for share in coverage.values()), coverage


@pytest.mark.long
@pytest.mark.parametrize("samples", [20, pytest.param(600, marks=pytest.mark.slow)])
def test_the_interval_of_tau_holds(samples: int) -> None:
    """Five systems, of which the judge swaps two; tau has few values, so the interval may hold more often."""
    human_means, judge_means = np.array([0.3, 0.36, 0.42, 0.45, 0.5]), np.array([0.3, 0.4, 0.36, 0.45, 0.52])
    true = 0.8  # nine pairs of ten less one
    held = 0
    for sample in range(samples):
        rng = np.random.default_rng([3, sample])
        query = 0.2 * rng.normal(size=(150, 1))
        human = human_means + query + 0.15 * rng.normal(size=(150, 5))
        judge = judge_means + (human - human_means) * 0.7 + 0.1 * rng.normal(size=(150, 5))
        low, high = ends(order_tau(human, judge, Method(draws=500)))
        held += low <= true <= high
    print("tau", held / samples)
    assert held / samples >= (0.93 if samples > 20 else 0.85)
