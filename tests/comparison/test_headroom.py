"""Random order, ceiling, what retrieval costs, the share gained; and retrievers whose candidates differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from ltr_harness import Evaluation, compare, evaluate
from ltr_harness.comparison.headroom import headroom_lines
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import mean_intervals
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.dataset import fingerprint_truth
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import Caution, NotComparableError
from ltr_harness.experiments.compare.saved import FILE, read_saved, to_parquet
from ltr_harness.metrics.core.headroom import Headroom
from ltr_harness.report.data import ReportData
from ltr_harness.report.json_document import document
from ltr_harness.report.terminal import render

N = 60
SIZES = np.full(N, 4)
LABELS = np.tile([1.0, 0.0, 0.0, 1.0], N)
DOCUMENTS = np.tile(list("wxyz"), N)


def random_evaluation(
    metric: str = "mrr", *, retrieved: NDArray[np.bool_] | None = None, seed: int = 1
) -> Evaluation:
    """60 queries with documents w to z, of which w and z are relevant, in a random order that prefers these."""
    scores = LABELS + np.random.default_rng(seed).normal(0, 0.7, 4 * N)
    return evaluate(LABELS, scores, [metric], group_sizes=SIZES, document_ids=DOCUMENTS, retrieved=retrieved)


def all_but(document: str) -> NDArray[np.bool_]:
    """All but one document, of every other query."""
    return ~((document == DOCUMENTS) & (np.repeat(np.arange(N), 4) % 2 == 0))


def test_by_hand() -> None:
    labels, scores = [1, 0, 0, 1, 0, 0, 1], [1, 2, 3, 3, 2, 1, 1]
    one = compare({"a": evaluate(labels, scores, ["mrr"], group_sizes=[3, 3, 1])}).headroom["a"]
    random = (11 / 18 + 11 / 18 + 1) / 3  # (1 + 1/2 + 1/3) / 3 for three documents
    assert one.random == pytest.approx(random)
    assert one.ceiling == 1.0
    assert one.share == pytest.approx(((1 / 3 + 1 + 1) / 3 - random) / (1 - random))
    assert np.isnan(one.ci_low)  # two queries decide
    assert np.isnan(one.out_of_reach)


def test_ratio_of_means_is_a_weighted_mean() -> None:
    above, below = np.array([[0.1], [0.3], [np.nan], [0.0]]), np.array([[0.2], [0.8], [0.5], [0.0]])
    one = ClusterSums.of_ratios(above, below)
    assert one.mean[0] == pytest.approx(0.4)
    assert one.units.tolist() == [2]
    by_user = ClusterSums.of_ratios(above, below, np.array([0, 0, 1, 1]))
    assert (by_user.mean[0], by_user.units.tolist()) == (pytest.approx(0.4), [1])
    scaled = ClusterSums.of_ratios(7 * above, 7 * below)
    assert scaled.error[0] == pytest.approx(one.error[0])
    equal = np.array([[0.1], [0.4], [0.3]])
    plain = ClusterSums.of(2 * equal)
    same = ClusterSums.of_ratios(equal, np.full((3, 1), 0.5))
    assert same.error[0] == pytest.approx(plain.error[0])
    assert same.df[0] == pytest.approx(plain.df[0])


def test_equal_room_has_the_interval_of_the_mean() -> None:
    """If the order can change every query by the same amount, the share is the mean on another scale."""
    evaluation = random_evaluation()
    comparison = compare({"a": evaluation})
    one, mean = comparison.headroom["a"], comparison.summary("a")
    scaled = [
        (end - one.random) / (one.ceiling - one.random) for end in (mean.mean, mean.ci_low, mean.ci_high)
    ]
    assert [one.share, one.ci_low, one.ci_high] == pytest.approx(scaled, abs=2e-3)


def test_nothing_where_no_order_is_best_or_none_changes_anything() -> None:
    assert compare({"a": random_evaluation("spearman")}).headroom == {}
    flat = evaluate([1, 1, 0, 0], [1, 2, 3, 4], ["ndcg@2"], group_sizes=[2, 2])
    one = compare({"a": flat}).headroom["a"]
    assert one.random == one.ceiling == pytest.approx(1.0)
    assert np.isnan(one.share)
    assert "Of what can be gained" not in render(ReportData(compare({"a": flat}), (), (), None, "t"))


def query_frame(values: NDArray[np.float64], random: NDArray[np.float64]) -> pd.DataFrame:
    """Queries with a value of mrr between that of a random order and the best one, 1."""
    room = Headroom(random, np.ones_like(random), np.zeros_like(random))
    return pd.DataFrame({"query_id": np.arange(values.size), "mrr": values, **room.columns("mrr")})


def test_a_query_that_is_absent_may_fall() -> None:
    """Shares of 1 and .96: 1 - .05^(1/20), one query in 7.2, may have a share of -1 and none be among these twenty."""
    values = np.tile([1.0, 0.98], 10)
    one = compare({"a": query_frame(values, np.full(20, 0.5))}).headroom["a"]
    absent = 1 - 0.05 ** (1 / 20)
    assert one.share == pytest.approx(0.98)
    assert one.share < one.ci_high < 1
    assert one.ci_low == pytest.approx(0.98 - absent * (0.98 + 1))


def test_the_interval_of_the_share_does_not_depend_on_the_test() -> None:
    evaluation = random_evaluation()
    default, by_t = (compare({"a": evaluation}, test=test).headroom["a"] for test in ("skew-adjusted", "t"))
    assert (by_t.ci_low, by_t.ci_high) == (default.ci_low, default.ci_high)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.05, 0.02])
def test_shares_near_1_cover(share: float) -> None:
    """Few queries fall far below their best order: of 20 queries none may be among them."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(300):
        random, falls = rng.uniform(0.2, 0.9, 20), rng.random(20) < share
        gained = np.where(falls, rng.random(20), 1 - 0.02 * rng.random(20))
        one = compare({"a": query_frame(random + gained * (1 - random), random)}, draws=1000).headroom["a"]
        missed += not one.ci_low <= share * 0.5 + (1 - share) * 0.99 <= one.ci_high
    assert missed / 300 <= 0.07


def test_bets_have_no_interval_of_the_share() -> None:
    bets = compare({"a": random_evaluation()}, test="bounded").headroom["a"]
    assert np.isfinite(bets.share)
    assert np.isnan([bets.ci_low, bets.ci_high]).all()


def test_units_widen_the_interval() -> None:
    evaluation = random_evaluation("ndcg")
    users = np.repeat(np.arange(15), 4)
    own = evaluation["ndcg"].per_query
    ids = np.array([str(query) for query in evaluation.query_ids])
    found = evaluation.headroom()
    assert found is not None
    sorted_by_value = np.argsort(own)  # the queries of a user are alike
    frame = pd.DataFrame({"query_id": ids, "ndcg": own, **found.columns("ndcg")}).iloc[sorted_by_value]
    alone = compare({"a": frame.assign(user=users)}).headroom["a"]
    together = compare({"a": frame.assign(user=users)}, unit="user").headroom["a"]
    assert together.share == pytest.approx(alone.share)
    assert together.ci_high - together.ci_low > 1.5 * (alone.ci_high - alone.ci_low)


def test_retrievers_with_one_truth_are_compared() -> None:
    comparison = compare(
        {
            "first": random_evaluation("ndcg", retrieved=all_but("y")),
            "second": random_evaluation("ndcg", retrieved=all_but("w"), seed=2),
        }
    )
    first, second = comparison.headroom.values()
    assert (first.model, first.ceiling, first.out_of_reach) == ("first", 1.0, 0.0)
    best = 1 / (1 + 1 / np.log2(3))  # one of two relevant documents
    assert second.ceiling == pytest.approx((1 + best) / 2)
    assert second.out_of_reach == pytest.approx((1 - best) / 2)
    assert second.random < first.random
    text = " ".join(render(ReportData(comparison, (), (), None, "t")).split())
    assert (
        f"second: random order {second.random:.4f}, ceiling {second.ceiling:.4f}, retrieval leaves "
        f"{second.out_of_reach:.4f} out of reach." in text
    )
    assert not any(part.attribute == "rows" for part in ReportData(comparison, (), (), None, "t").slices)


def test_undeclared_candidates_are_refused_with_the_cure() -> None:
    kept = all_but("y")
    sizes = kept.reshape(N, 4).sum(axis=1)
    scores = np.arange(4.0 * N)
    short = evaluate(LABELS[kept], scores[kept], ["mrr"], group_sizes=sizes, document_ids=DOCUMENTS[kept])
    for other in (random_evaluation(), random_evaluation(retrieved=np.ones(4 * N, dtype=bool))):
        with pytest.raises(
            NotComparableError, match=r"(?s)other labels or rows.*`data.judgments` and document ids"
        ):
            compare({"a": short, "b": other})


def test_another_truth_is_refused() -> None:
    other = evaluate(
        2 * LABELS, LABELS, ["mrr"], group_sizes=SIZES, document_ids=DOCUMENTS, retrieved=all_but("w")
    )
    with pytest.raises(NotComparableError, match="same queries, other labels or relevant documents"):
        compare({"a": random_evaluation(retrieved=all_but("y")), "b": other})


def test_truth_is_of_relevant_documents_in_any_order() -> None:
    def digest(
        labels: list[int], documents: str, retrieved: list[int], ids: str = "ab", weights: object = None
    ) -> str:
        groups = QueryGroups(np.array([0, 3, 5]), np.array(list(ids)))
        return fingerprint_truth(
            Judgments.checked(
                labels,
                groups,
                document_ids=list(documents),
                retrieved=np.array(retrieved, dtype=bool),
                query_weights=weights,  # type: ignore[arg-type]
            )
        )

    truth = digest([2, 0, 1, 0, 1], "xyzxy", [1, 1, 0, 1, 1])
    assert truth == digest(
        [1, 2, 0, 1, 0], "zxqyw", [1, 0, 1, 0, 1]
    )  # other order, candidates, irrelevant documents
    assert truth != digest([2, 0, 2, 0, 1], "xyzxy", [1, 1, 0, 1, 1])
    assert truth != digest([2, 0, 1, 0, 1], "xyqxy", [1, 1, 0, 1, 1])
    assert truth != digest([2, 0, 1, 0, 1], "xyzxy", [1, 1, 0, 1, 1], ids="ac")
    assert truth != digest([2, 0, 1, 0, 1], "xyzxy", [1, 1, 0, 1, 1], weights=[1, 2])
    groups = QueryGroups.from_sizes([2])
    assert fingerprint_truth(Judgments.checked([1, 0], groups, document_ids=["a", "b"])) == ""
    assert fingerprint_truth(Judgments.checked([1, 0], groups, retrieved=np.ones(2, dtype=bool))) == ""


def test_a_saved_comparison_keeps_them(tmp_path: Path) -> None:
    comparison = compare(
        {"a": random_evaluation(retrieved=all_but("y")), "b": random_evaluation(retrieved=all_but("w"))}
    )
    (tmp_path / FILE).write_bytes(to_parquet(comparison))
    again = compare(tmp_path / FILE)
    assert again.headroom == comparison.headroom
    joined = compare(tmp_path / FILE, {"c": random_evaluation(retrieved=all_but("x"))})
    assert set(joined.headroom) == {"a", "b", "c"}
    assert read_saved(tmp_path / FILE).systems[0].truth_declared


def test_little_to_gain_is_a_caution() -> None:
    sizes = np.full(40, 3)
    easy = evaluate(np.tile([2, 2, 1], 40), -np.arange(120), ["ndcg(gain=linear)@3"], group_sizes=sizes)
    comparison = compare({"a": easy})
    text = (
        "ndcg(gain=linear)@3 of a random order is 0.9441, 94 % of the best that these candidates allow: there is "
        "little to gain"
    )
    assert comparison.cautions == (Caution("little-to-gain", "warning", text),)
    assert not any(one.kind == "little-to-gain" for one in compare({"a": random_evaluation()}).cautions)


def test_json_has_them_and_slices_do_not() -> None:
    comparison = compare({"a": random_evaluation(), "b": random_evaluation(seed=2)})
    body = document(ReportData(comparison, (), (), None, "t"))
    assert [one["model"] for one in body["headroom"]] == list(comparison.ranking)
    assert body["headroom"][0]["share"] == comparison.headroom[body["headroom"][0]["model"]].share
    assert body["headroom"][0]["out_of_reach"] is None
    assert not any(Headroom.is_column(part["attribute"]) for part in body["slices"])
    assert headroom_lines(comparison.headroom.values(), "mrr") == [
        f"mrr: random order {comparison.headroom['a'].random:.4f}, ceiling 1.0000."
    ]


World = tuple[NDArray[np.float64], NDArray[np.float64]]


def unlike_room(n: int, rng: np.random.Generator) -> World:
    """Room to gain that differs by a hundred between queries."""
    room = np.minimum(np.exp(rng.normal(-2.5, 1.2, n)), 1)
    return room * rng.beta(4, 2, n), room


def lopsided_gains(n: int, rng: np.random.Generator) -> World:
    """Most queries gain everything, some lose a lot."""
    random = rng.uniform(0.2, 0.6, n)
    share = np.where(rng.random(n) < 0.8, 1.0, -rng.exponential(0.3, n))
    return np.maximum(share * (1 - random), -random), 1 - random


def sparse_gains(n: int, rng: np.random.Generator) -> World:
    """Order can change a tenth of the queries."""
    room = np.where(rng.random(n) < 0.1, rng.uniform(0.1, 0.9, n), 0)
    return room * rng.beta(3, 2, n), room


def related_gains(n: int, rng: np.random.Generator) -> World:
    """Draw gains and headroom of n queries, of which a smaller share is gained where there is more to gain."""
    room = rng.beta(1, 3, n)
    return room * np.clip(1 - 0.8 * room + rng.normal(0, 0.2, n), -2, 1), room


@pytest.mark.slow
@pytest.mark.parametrize("world", [unlike_room, lopsided_gains, sparse_gains, related_gains])
@pytest.mark.parametrize("n", [30, 100, 400])
def test_coverage(world: object, n: int) -> None:
    """93 to 97 % of the intervals hold the truth, within what 1,000 of them can tell; too few queries have none."""
    assert callable(world)
    above, below = world(2_000_000, np.random.default_rng(5))
    truth = above.mean() / below.mean()
    rng = np.random.default_rng(n)
    worlds = [world(n, rng) for _ in range(1000)]
    sample = ClusterSums.of_ratios(*(np.stack(columns, axis=1) for columns in zip(*worlds, strict=True)))
    shown = sample.df >= 10
    if shown.mean() < 0.2:
        return
    low, high = mean_intervals(sample, Method())
    held = ((low <= truth) & (truth <= high))[shown]
    assert 0.915 <= held.mean() <= 0.985
