"""Every metric's expectation over ties against the plain mean over all orders, and the other tie rules."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np
import pytest

from ltr_harness import evaluate, parse_metric
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.ranking import Ties
from ltr_harness.metrics.table import METRICS, catalog

# Each plain definition reads labels in rank order, the rows that have no rank, and the cutoff (None: all).
Plain = Callable[[Sequence[float], int | None], float]


def dcg(labels: Sequence[float], k: int | None, gain: Callable[[float], float] = lambda g: 2**g - 1) -> float:
    return sum(gain(g) / math.log2(1 + r) for r, g in enumerate(labels[:k], 1))


def ndcg(labels: Sequence[float], k: int | None) -> float:
    return dcg(labels, k) / dcg(sorted(labels, reverse=True), k)


def ndcg_letor(labels: Sequence[float], k: int | None) -> float:
    def letor(order: Sequence[float]) -> float:
        return sum((2**g - 1) * (1.0 if r <= 2 else 1 / math.log2(r)) for r, g in enumerate(order[:k], 1))

    return letor(labels) / letor(sorted(labels, reverse=True))


def rr(labels: Sequence[float], k: int | None) -> float:
    return next((1 / r for r, g in enumerate(labels[:k], 1) if g >= 1), 0.0)


def ap(labels: Sequence[float], k: int | None, total: bool = False) -> float:
    hits = 0
    out = 0.0
    for r, g in enumerate(labels[:k], 1):
        if g >= 1:
            hits += 1
            out += hits / r
    relevant = sum(g >= 1 for g in labels)
    return out / (relevant if total or k is None else min(relevant, k))


def reciprocal(r: int) -> float:
    return 1 / r


def err(
    labels: Sequence[float],
    k: int | None,
    go_on: float = 1.0,
    linear: bool = False,
    top: int = 4,
    worth: Callable[[int], float] = reciprocal,
) -> float:
    out, reading = 0.0, 1.0
    for r, g in enumerate(labels[:k], 1):
        stop = g / (top + 1) if linear else (2**g - 1) / 2**top
        out += reading * stop * worth(r)
        reading *= (1 - stop) * go_on
    return out


@functools.cache
def subtopics_of(label: float) -> tuple[int, ...]:
    """The subtopics of a row, told by its label: 3 is about the first two, 4 about the third."""
    return tuple(int(label) >> bit & 1 for bit in range(3))


def err_ia(labels: Sequence[float], k: int | None) -> float:
    uses_subtopics = [[g * subtopics_of(g)[bit] for g in labels] for bit in range(3)]
    each = [err(one, k) for one in uses_subtopics if any(one)]
    return sum(each) / len(each)


def alpha_dcg(labels: Sequence[float], k: int | None) -> float:
    gained, seen = 0.0, [0, 0, 0]
    for r, g in enumerate(labels[:k], 1):
        for bit in range(3):
            gained += subtopics_of(g)[bit] * 0.5 ** seen[bit] / math.log2(1 + r)
            seen[bit] += subtopics_of(g)[bit]
    return gained


def alpha_ndcg(labels: Sequence[float], k: int | None) -> float:
    left, ideal, gains = list(labels), list[float](), [1.0, 1.0, 1.0]
    while left:
        best = max(
            left,
            key=lambda g: (
                sum(b * gain for b, gain in zip(subtopics_of(g), gains, strict=True)),
                subtopics_of(g),
            ),
        )
        left.remove(best)
        ideal.append(best)
        gains = [gain * 0.5**b for b, gain in zip(subtopics_of(best), gains, strict=True)]
    return alpha_dcg(labels, k) / alpha_dcg(ideal, k)


def nerr(labels: Sequence[float], k: int | None) -> float:
    return err(labels, k, linear=True) / err(sorted(labels, reverse=True), k, linear=True)


def rbp(labels: Sequence[float], k: int | None) -> float:
    return sum(0.2 * 0.8 ** (r - 1) for r, g in enumerate(labels[:k], 1) if g >= 1)


def rbp_graded(labels: Sequence[float], k: int | None) -> float:
    return sum(0.2 * 0.8 ** (r - 1) * min(g / 3, 1) for r, g in enumerate(labels[:k], 1))


def rbp_residual(labels: Sequence[float], k: int | None) -> float:
    return 0.8 ** len(labels[:k])


def q(labels: Sequence[float], k: int | None, b: float = 1.0) -> float:
    ideal = sorted(labels, reverse=True)
    relevant = sum(g > 0 for g in labels)
    out = 0.0
    for r, g in enumerate(labels[:k], 1):
        if g > 0:
            count = sum(above > 0 for above in labels[:r])
            out += (b * sum(labels[:r]) + count) / (b * sum(ideal[:r]) + r)
    return out / (relevant if k is None else min(relevant, k))


def precision(labels: Sequence[float], k: int | None) -> float:
    return sum(g >= 1 for g in labels[:k]) / (len(labels) if k is None else k)


def precision_short(labels: Sequence[float], k: int | None) -> float:
    return sum(g >= 1 for g in labels[:k]) / len(labels[:k])


def recall(labels: Sequence[float], k: int | None) -> float:
    return sum(g >= 1 for g in labels[:k]) / sum(g >= 1 for g in labels)


def f1(labels: Sequence[float], k: int | None) -> float:
    p, r = precision(labels, k), recall(labels, k)
    return 2 * p * r / (p + r) if p + r else 0.0


def success(labels: Sequence[float], k: int | None) -> float:
    return float(any(g >= 1 for g in labels[:k]))


def rprec(labels: Sequence[float], k: int | None) -> float:
    relevant = sum(g >= 1 for g in labels)
    return sum(g >= 1 for g in labels[:relevant]) / relevant


def bpref(labels: Sequence[float], k: int | None) -> float:
    relevant = sum(g >= 1 for g in labels)
    against = len(labels) - relevant
    out = 0.0
    for r, g in enumerate(labels):
        if g >= 1:
            above = sum(other < 1 for other in labels[:r])
            out += 1 - (min(above, relevant) / min(relevant, against) if above else 0)
    return out / relevant


def kendall(labels: Sequence[float], k: int | None) -> float:
    return sum(upper < lower for upper, lower in itertools.combinations(labels, 2))


def kendall_normalized(labels: Sequence[float], k: int | None) -> float:
    return kendall(labels, k) / sum(a != b for a, b in itertools.combinations(labels, 2))


def tau_ap_scores(labels: Sequence[float], k: int | None) -> float:
    shares = [sum(a > labels[r] for a in labels[:r]) / r for r in range(1, len(labels))]
    return 2 * sum(shares) / len(shares) - 1


def tau_ap_labels(labels: Sequence[float], k: int | None) -> float:
    shares = [
        sum(a > g for a in labels[:r]) / sum(a > g for a in labels)
        for r, g in enumerate(labels)
        if any(a > g for a in labels)
    ]
    return 2 * sum(shares) / len(shares) - 1


def tau_ap(labels: Sequence[float], k: int | None) -> float:
    return (tau_ap_scores(labels, k) + tau_ap_labels(labels, k)) / 2


def spearman(labels: Sequence[float], k: int | None) -> float:
    by_label = [sum(a < g for a in labels) + (labels.count(g) + 1) / 2 for g in labels]
    return float(np.corrcoef(by_label, range(len(labels), 0, -1))[0, 1])


def auc(labels: Sequence[float], k: int | None) -> float:
    pairs = [(a >= 1, b >= 1) for a, b in itertools.combinations(labels, 2) if (a >= 1) != (b >= 1)]
    return sum(upper for upper, _ in pairs) / len(pairs) if pairs else math.nan


PLAIN: dict[str, Plain] = {
    "ndcg": ndcg,
    "ndcg(discount=letor)": ndcg_letor,
    "cg": lambda labels, k: sum(2**g - 1 for g in labels[:k]),
    "cg(gain=linear)": lambda labels, k: sum(labels[:k]),
    "dcg": dcg,
    "dcg(gain=linear)": lambda labels, k: dcg(labels, k, lambda g: g),
    "dcg(gain=0_1_5_5_6)": lambda labels, k: dcg(labels, k, lambda g: [0, 1, 5, 5, 6][int(g)]),
    "mrr": rr,
    "map": ap,
    "map(denominator=total)": lambda labels, k: ap(labels, k, total=True),
    "err(max_grade=4)": err,
    "err(continuation=0.85,max_grade=4)": lambda labels, k: err(labels, k, go_on=0.85),
    "err(max_grade=4,stop=linear)": lambda labels, k: err(labels, k, linear=True),
    "err(discount=log2,max_grade=4)": lambda labels, k: err(labels, k, worth=lambda r: 1 / math.log2(1 + r)),
    "pfound(max_grade=4)": lambda labels, k: err(labels, k, go_on=0.85, worth=lambda r: 1),
    "nerr(max_grade=4,stop=linear)": nerr,
    "err_ia(max_grade=4)": err_ia,
    "alpha_ndcg": alpha_ndcg,
    "rbp(p=0.8)": rbp,
    "rbp(graded=true,max_grade=3,p=0.8)": rbp_graded,
    "rbp_residual(p=0.8)": rbp_residual,
    "q": q,
    "q(b=0.3)": lambda labels, k: q(labels, k, b=0.3),
    "precision": precision,
    "precision(denominator=min_kn)": precision_short,
    "recall": recall,
    "recall(denominator=min_rk)": lambda labels, k: recall(labels, k) / recall(sorted(labels)[::-1], k),
    "f1": f1,
    "success": success,
    "rprec": rprec,
    "bpref": bpref,
    "kendall_tau_distance": kendall,
    "kendall_tau_distance(normalized=true)": kendall_normalized,
    "tau_ap": tau_ap,
    "tau_ap(walk=scores)": tau_ap_scores,
    "tau_ap(walk=labels)": tau_ap_labels,
    "spearman": spearman,
    "gauc": auc,
    "mean_label": lambda labels, k: float(np.mean(labels[:k])),
    "mean_label(minus=bottom)": lambda labels, k: float(np.mean(labels[:k]) - np.mean(labels[::-1][:k])),
    "judged": lambda labels, k: 1.0,
    "n_relevant": lambda labels, k: sum(g >= 1 for g in labels),
}


def test_every_metric_of_the_table_has_a_plain_definition() -> None:
    depends_on_size = {
        name for name in METRICS if catalog.load(name).depends_on_size
    }  # in test_probabilities.py
    assert {parse_metric(name).name for name in PLAIN} | depends_on_size == set(METRICS)


UNORDERED = ("judged", "err_ia(max_grade=4)", "alpha_ndcg")
"""No order by label is the worst or the best."""

ORDERED = [name for name in PLAIN if name not in UNORDERED]


def orders(labels: Sequence[float], scores: Sequence[float]) -> list[list[float]]:
    """Labels in rank order, for every order of equally scored rows that can be told apart.

    Rows of one score and one label may change places in each of them equally often: the mean, the least and the most
    over these are those over all orders.
    """
    groups = [
        [g for g, s in zip(labels, scores, strict=True) if s == score]
        for score in sorted(set(scores), reverse=True)
    ]
    return [
        [g for part in parts for g in part]
        for parts in itertools.product(*(sorted(set(itertools.permutations(group))) for group in groups))
    ]


def small_cases(count: int) -> list[tuple[list[float], list[float]]]:
    """Lists of 2 to 7 rows, at most three distinct scores, at least one relevant and one other row."""
    draw = random.Random(7)
    cases: list[tuple[list[float], list[float]]] = []
    while len(cases) < count:
        n = draw.randint(2, 7)
        labels = [float(draw.choice([0, 0, 0, 1, 1, 2, 3, 4])) for _ in range(n)]
        scores = [float(draw.randint(1, draw.choice([1, 2, 3]))) for _ in range(n)]
        if max(labels) >= 1 and min(labels) < max(labels):
            cases.append((labels, scores))
    return cases


CASES = small_cases(25)


@functools.cache
def orders_of_cases() -> list[list[list[float]]]:
    return [orders(labels, scores) for labels, scores in CASES]


def test_every_order_that_can_be_told_apart_stands_for_as_many() -> None:
    labels, scores = [1.0, 0.0, 1.0, 2.0, 0.0], [5.0, 5.0, 5.0, 3.0, 3.0]
    told = {tuple(order) for order in orders(labels, scores)}
    every = Counter(
        (*(labels[row] for row in upper), *(labels[row] for row in lower))
        for upper in itertools.permutations([0, 1, 2])
        for lower in itertools.permutations([3, 4])
    )
    assert told == set(every)
    assert set(every.values()) == {2}  # the two rows of label 1 and score 5


def metric_at(name: str, k: int | None) -> Metric:
    metric = parse_metric(name)
    return metric.with_cutoff(k) if metric.takes_cutoff else metric


def evaluate_cases(
    metrics: Sequence[Metric], cases: Sequence[tuple[Sequence[float], Sequence[float]]]
) -> list[np.ndarray]:
    evaluation = evaluate(
        np.concatenate([labels for labels, _ in cases]),
        np.concatenate([scores for _, scores in cases]),
        group_sizes=[len(labels) for labels, _ in cases],
        metrics=list(dict.fromkeys(metrics)),
        subtopics=[[g * b for b in subtopics_of(g)] for labels, _ in cases for g in labels],
    )
    return [evaluation[metric].per_query for metric in metrics]


def with_ties(name: str, ties: Ties) -> Metric:
    return replace(metric_at(name, 3), ties=ties)


@pytest.mark.long
def test_expected_ties_are_the_mean_over_all_orders() -> None:
    at_cutoffs = [
        (name, k)
        for name in PLAIN
        for k in ((None, 1, 2, 3, 5, 9) if parse_metric(name).takes_cutoff else (None,))
    ]
    found = evaluate_cases([metric_at(name, k) for name, k in at_cutoffs], CASES)
    for (name, k), values in zip(at_cutoffs, found, strict=True):
        expected = [
            math.fsum(of_orders) / len(of_orders)
            for case in orders_of_cases()
            for of_orders in [[PLAIN[name](order, k) for order in case]]
        ]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12, err_msg=f"{name} at {k}")


def test_worst_and_best_put_low_or_high_labels_first() -> None:
    rules: tuple[tuple[Ties, int], ...] = (("worst", 1), ("best", -1))
    for rule, sign in rules:
        by_rule = [
            [g for _, g in sorted(zip(scores, labels, strict=True), key=lambda row: (-row[0], sign * row[1]))]
            for labels, scores in CASES
        ]
        found = evaluate_cases([with_ties(name, rule) for name in ORDERED], CASES)
        for name, values in zip(ORDERED, found, strict=True):
            expected = [PLAIN[name](order, 3) for order in by_rule]
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12, err_msg=name)


def test_no_order_of_ties_leaves_the_interval_of_worst_and_best() -> None:
    worst, best = (
        evaluate_cases([with_ties(name, rule) for name in ORDERED], CASES) for rule in ("worst", "best")
    )
    for name, *ends in zip(ORDERED, worst, best, strict=True):
        of_orders = [[PLAIN[name](order, 3) for order in case] for case in orders_of_cases()]
        for end, expected in (
            (np.minimum(*ends), map(min, of_orders)),
            (np.maximum(*ends), map(max, of_orders)),
        ):
            np.testing.assert_allclose(end, list(expected), rtol=0, atol=1e-12, err_msg=name)


def test_stable_keeps_row_order() -> None:
    in_order = [
        [labels[row] for row in sorted(range(len(labels)), key=lambda row: -scores[row])]
        for labels, scores in CASES
    ]
    found = evaluate_cases([with_ties(name, "stable") for name in PLAIN], CASES)
    for name, values in zip(PLAIN, found, strict=True):
        expected = [PLAIN[name](order, 3) for order in in_order]
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12, err_msg=name)


def test_all_rules_agree_without_ties() -> None:
    cases = [(labels, [float(-row) for row in range(len(labels))]) for labels, _ in CASES]
    expected = dict(zip(PLAIN, evaluate_cases([metric_at(name, 3) for name in PLAIN], cases), strict=True))
    rules: dict[Ties, Sequence[str]] = {"stable": list(PLAIN), "worst": ORDERED, "best": ORDERED}
    for rule, names in rules.items():
        for name, values in zip(
            names, evaluate_cases([with_ties(name, rule) for name in names], cases), strict=True
        ):
            np.testing.assert_allclose(values, expected[name], rtol=0, atol=1e-14, err_msg=f"{name}, {rule}")


def metrics_of_every_choice(name: str) -> list[Metric]:
    """A metric of the table with its defaults, and with each other choice of one field."""
    kind = catalog.load(name)
    needed = (
        {"p": 0.8}
        if name.startswith("rbp")
        else {"max_grade": 4}
        if name in ("err", "err_ia", "nerr", "pfound")
        else {}
    )
    choices = [
        {field.name: choice}
        for field in dataclasses.fields(kind)
        for choice in get_args(get_type_hints(kind)[field.name])
        if isinstance(choice, str) and choice not in ("id", "retrieved")
    ]
    unordered = kind.uses_subtopics or name == "judged"
    return [
        kind(**needed, **chosen)
        for chosen in ({}, *choices)
        if not (unordered and chosen.get("ties") in ("worst", "best"))
    ]


@pytest.mark.long
def test_the_whole_list_is_a_cutoff_at_its_end() -> None:
    with_cutoff = [name for name in METRICS if catalog.load(name).takes_cutoff]
    metrics = [metric for name in with_cutoff for metric in metrics_of_every_choice(name)]
    of_probabilities = [metric for metric in metrics if getattr(metric, "stop", "") == "label"]
    of_grades = [metric for metric in metrics if metric not in of_probabilities]
    for grades, scores in CASES[:5]:
        assert_whole_is_cut(of_grades, grades, scores)
        assert_whole_is_cut(of_probabilities, [min(grade, 1) for grade in grades], scores)


def assert_whole_is_cut(metrics: Sequence[Metric], labels: Sequence[float], scores: Sequence[float]) -> None:
    cut = [metric.with_cutoff(len(labels)) for metric in metrics]
    at_whole, at_cut = np.split(np.ravel(evaluate_cases([*metrics, *cut], [(labels, scores)])), 2)
    assert dict(zip(metrics, at_whole, strict=True)) == pytest.approx(dict(zip(metrics, at_cut, strict=True)))


def test_id_puts_the_larger_document_id_first_as_text() -> None:
    def first_hit(documents: list[object]) -> float:
        ev = evaluate(
            [1, 0, 0],
            [1.0, 1.0, 1.0],
            group_sizes=[3],
            metrics=["mrr(ties=id)"],
            document_ids=documents,
        )
        return ev.means["mrr(ties=id)"]

    assert first_hit(["d9", "d1", "d2"]) == 1.0
    assert first_hit(["d1", "d9", "d2"]) == 1 / 3
    assert first_hit(["d10", "d9", "d1"]) == 1 / 2  # text, not numbers: "d9" > "d10"
    assert first_hit([10, 9, 1]) == 1 / 2


def test_map_of_retrieved_rows_refuses_an_expectation_it_does_not_have() -> None:
    with pytest.raises(ValueError, match=r"documents of query '0' tie across the cutoff.*choose ties=stable"):
        evaluate([1, 0, 1], [1.0, 1.0, 1.0], group_sizes=[3], metrics=["map(denominator=retrieved)@2"])
    # all of the tie is within the cutoff, or all its rows are alike: nothing random is left
    ev = evaluate(
        [1, 0, 1, 1], [2.0, 2.0, 1.0, 1.0], group_sizes=[4], metrics=["map(denominator=retrieved)@3"]
    )
    # the relevant document of the first pair at rank 1 or 2, then hits 2 at rank 3; two rows retrieved
    assert ev.means["map(denominator=retrieved)@3"] == pytest.approx(((1 + 1 / 2) / 2 + 2 / 3) / 2)


def test_err_without_cutoff_over_a_huge_tie_asks_for_one() -> None:
    labels = np.zeros(10_001)
    labels[0] = 1
    scores = np.zeros(10_001)
    with pytest.raises(ValueError, match=r"10001 documents of query '0' tie.*give a cutoff, such as @100"):
        evaluate(labels, scores, group_sizes=[10_001], metrics=["err(max_grade=4)"])
    # neither a longer list nor a later one is the one that ties
    sizes, between = [2, 10_001, 10_500], np.concatenate([[1.0, 0.0], scores, np.arange(10_500)])
    with pytest.raises(ValueError, match="10001 documents of query '1' tie"):
        evaluate(np.ones(between.size), between, group_sizes=sizes, metrics=["err(max_grade=4)"])
    name = "err(max_grade=4)@10"
    ev = evaluate(labels, scores, group_sizes=[10_001], metrics=[name])
    # the one row of grade 1 is at each rank with the same chance
    assert ev.means[name] == pytest.approx(sum(1 / r for r in range(1, 11)) / 16 / 10_001)


def test_shuffled_rows_change_no_bit() -> None:
    """Ties, fractional gains, several queries: every rule but `stable`, per query and in the mean."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 40, 60)
    query_ids = np.repeat(np.arange(60), sizes)
    labels = rng.choice([0, 0, 0, 1, 2, 3, 4], query_ids.size).astype(float)
    scores = rng.integers(0, 6, query_ids.size) / 7
    documents = np.array([f"d{i}" for i in range(query_ids.size)])
    subtopics = np.array([[g * b for b in subtopics_of(g)] for g in labels])
    rules: dict[Ties, Sequence[str]] = {
        "expected": list(PLAIN),
        "id": list(PLAIN),
        "worst": ORDERED,
        "best": ORDERED,
    }
    metrics = [replace(metric_at(name, 5), ties=rule) for rule, names in rules.items() for name in names]
    before = evaluate(
        labels, scores, query_ids=query_ids, metrics=metrics, document_ids=documents, subtopics=subtopics
    )
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(query_ids.size)
        after = evaluate(
            labels[order],
            scores[order],
            query_ids=query_ids[order],
            metrics=metrics,
            document_ids=documents[order],
            subtopics=subtopics[order],
        )
        place = np.argsort(after.query_ids)
        for metric in metrics:
            assert np.array_equal(before[metric].per_query, after[metric].per_query[place], equal_nan=True), (
                metric
            )
            assert before[metric].mean == after[metric].mean, metric
