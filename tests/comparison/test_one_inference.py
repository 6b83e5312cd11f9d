"""Every output has all parts of the one inference: seeds, units, weights, family; by hand and in simulated worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.gates import parse_gate
from ltr_harness.comparison.slices import slice_results
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import outcomes
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import ConfigError, NotComparableError, UsageError
from ltr_harness.experiments.compare.online_agreement import _difference_of_runs
from ltr_harness.experiments.compare.saved import to_parquet
from ltr_harness.report import ReportData, build_report
from ltr_harness.report.sections.verdict import queries_sentence


def system(name: str, values: np.ndarray, **attributes: np.ndarray) -> SystemResult:
    """A model with (n_queries,) or (seeds, n_queries) values of mrr."""
    rows = np.atleast_2d(values)
    ids = np.array([f"q{at:05d}" for at in range(rows.shape[1])])
    seeds = tuple(str(at) for at in range(len(rows)))
    return SystemResult(
        name, ids, {"mrr": rows}, seeds, {"mrr": True}, seeded=len(rows) > 1, query_attributes=attributes
    )


def weighted_comparison(
    one: list[float], other: list[float], traffic: list[float], **options: Any
) -> Comparison:
    column = np.array(traffic, dtype=np.float64)
    systems = [system(name, np.array(v), query_weight=column) for name, v in (("old", one), ("new", other))]
    return compare(*systems, baseline="old", **options)


# --- weights ---

OLD = [0.5, 0.4, 0.3, 0.6, 0.5, 0.4]
NEW = [0.9, 0.4, 0.2, 0.5, 0.6, 0.3]
WEIGHTS = [1.0, 2.0, 5.0, 3.0, 1.0, 4.0]


def test_a_weighted_difference_by_hand() -> None:
    """The ratio of sums, its CR2 error and Satterthwaite's degrees of freedom, written out."""
    found = weighted_comparison(OLD, NEW, WEIGHTS, test="t")
    pair, w, d = found.paired("new"), np.array(WEIGHTS), np.array(NEW) - np.array(OLD)
    mean = float((w * d).sum() / w.sum())
    assert pair.difference == pytest.approx(mean)
    assert mean < 0 < d.mean(), "the traffic says otherwise than the list of queries"
    share = w / w.sum()
    error = np.sqrt((share**2 * (d - mean) ** 2 / (1 - share)).sum())
    # of independent sums with variances in proportion to w**2: 2 E(V)**2 / Var(V) of the quadratic form
    a, p = 1 / (1 - share), share
    matrix = np.diag(a) - np.outer(a * p, np.ones(6)) - np.outer(np.ones(6), a * p) + (a * p**2).sum()
    core = matrix * np.outer(w, w)
    freedom = np.trace(core) ** 2 / np.trace(core @ core)
    reach = t.ppf(0.975, freedom) * error
    assert (pair.ci_low, pair.ci_high) == pytest.approx((mean - reach, mean + reach), rel=1e-6)
    assert (pair.model_mean, pair.other_mean) == pytest.approx(
        (float(share @ np.array(NEW)), float(share @ np.array(OLD)))
    )
    assert found.summary("new").mean == pytest.approx(pair.model_mean)
    assert found.effective_queries(pair) == pytest.approx(16**2 / 56)
    assert "weighted by query_weight" in found.verdict


def test_weights_none_counts_each_query_once() -> None:
    plain = weighted_comparison(OLD, NEW, WEIGHTS, weights="none").paired("new")
    assert plain.difference == pytest.approx(np.mean(np.array(NEW) - np.array(OLD)))
    assert weighted_comparison(OLD, NEW, [2.0] * 6).method.weights == "none", "equal weights are none"


def test_a_query_of_weight_0_does_not_count() -> None:
    found = weighted_comparison([*OLD, 0.9], [*NEW, 0.0], [*WEIGHTS, 0.0])
    without = weighted_comparison(OLD, NEW, WEIGHTS)
    assert str(found.paired("new")) == str(without.paired("new"))
    assert found.summary("new").n == 6


def test_weights_of_a_column_of_tables() -> None:
    tables = {
        name: pd.DataFrame({"query_id": range(6), "mrr": values, "searches": WEIGHTS})
        for name, values in (("old", OLD), ("new", NEW))
    }
    by_column = compare(tables, weights="searches")
    assert (
        by_column.paired("new").difference == weighted_comparison(OLD, NEW, WEIGHTS).paired("new").difference
    )
    assert not any("ignored" in str(caution) for caution in by_column.cautions)
    assert compare(tables).method.weights == "none", (
        "only named columns, and those called query_weight, weigh"
    )
    renamed = {name: table.rename(columns={"searches": "query_weight"}) for name, table in tables.items()}
    assert compare(renamed).paired("new").difference == by_column.paired("new").difference
    assert not any("ignored" in str(caution) for caution in compare(renamed).cautions)


def test_a_saved_comparison_keeps_its_weights(tmp_path: Path) -> None:
    """Compared again from its file, it was unweighted, without a word."""
    first = weighted_comparison(OLD, NEW, WEIGHTS)
    (tmp_path / "comparison.parquet").write_bytes(to_parquet(first))
    again = compare(tmp_path / "comparison.parquet")
    assert again.paired("new").difference == first.paired("new").difference
    assert again.method == first.method
    plain = compare(tmp_path / "comparison.parquet", weights="none")
    assert (
        plain.paired("new").difference
        == weighted_comparison(OLD, NEW, WEIGHTS, weights="none").paired("new").difference
    )
    assert compare(first).method == first.method


def test_the_units_of_another_metric_change_nothing() -> None:
    """Each user has one query with a value of mrr: p was another one where ndcg@10 has two of a user."""
    rng, users = np.random.default_rng(1), np.arange(24) // 2
    models = []
    for name in ("old", "new"):
        mrr = rng.uniform(0, 1, (3, 24))
        mrr[:, 1::2] = np.nan
        both = {"mrr": mrr, "ndcg@10": rng.uniform(0, 1, (3, 24))}
        one = replace(system(name, mrr, user=users), values=both, higher_is_better=dict.fromkeys(both, True))
        models.append(one)
    found = compare(*models, metrics=["mrr", "ndcg@10"], baseline="old", unit="user")
    alone = compare(*models, metrics=["mrr"], baseline="old", unit="user")
    assert found.paired("new").p == pytest.approx(alone.paired("new").p)
    assert found.paired("new").p == pytest.approx(found.all_pairs()[0].p)


def test_what_was_not_found_could_not_have_been_shown() -> None:
    """A model of two queries takes the level of the whole family: the other's gain of five errors is not found."""
    rng = np.random.default_rng(2465)
    old = np.full(32, 0.4)
    new, few = old + 0.1 + 0.11 * rng.normal(size=32), np.full(32, np.nan)
    few[:2] = 0.45, 0.41
    found = compare(
        *(system(name, v) for name, v in (("old", old), ("new", new), ("few", few))), baseline="old"
    )
    pair = found.paired("new")
    assert pair.verdict == "not distinguishable"
    assert pair.p < 0.001
    assert np.isnan(pair.detectable)
    assert "could have been shown" not in found.headline.text


def test_what_counts_each_query_once_says_so() -> None:
    found, plain = (
        weighted_comparison(OLD, NEW, WEIGHTS),
        weighted_comparison(OLD, NEW, WEIGHTS, weights="none"),
    )
    for once in ("Win / tie / loss (unweighted)", "sd (unweighted)", "weighted mrr"):
        assert once in [column.heading for column in found.main_columns]
        assert once not in [column.heading for column in plain.main_columns]
    assert ">weighted mrr [95 % CI]<" in found._repr_html_()
    assert ">mrr [95 % CI]<" in plain._repr_html_()
    sections = {
        one.name: str(one.blocks) for one in build_report(ReportData(found, (), (), None, "t")).sections
    }
    assert "Win / tie / loss (unweighted)" in sections["paired"]
    assert "10 % of the differences are below -0.1000" in sections["paired"], "not: lose more than -0.1000"


def test_queries_of_weight_0_are_not_undefined() -> None:
    found = weighted_comparison([*OLD, 0.5, np.nan], [*NEW, 0.5, 0.5], [*WEIGHTS, 0.0, 1.0])
    assert "1 query has weight 0, and mrr is undefined for 1 other query" in found.verdict
    assert (found.summary("new").n, found.summary("new").n_undefined) == (7, 0)
    said = queries_sentence(ReportData(found, (), (), None, "t"))
    assert said == "mrr is undefined for 1 of 8 queries, left out of its mean. 1 query has weight 0."


def test_agreement_takes_the_weighted_difference(tmp_path: Path) -> None:
    for name, values in (("old", OLD), ("new", NEW)):
        (tmp_path / name).mkdir()
        saved = compare(system(name, np.array(values), query_weight=np.array(WEIGHTS)))
        (tmp_path / name / "comparison.parquet").write_bytes(to_parquet(saved))
    found = weighted_comparison(OLD, NEW, WEIGHTS)
    sample = found.sampling.contributions(found.query_differences("new")[:, None])
    expected = (found.paired("new").difference, float(sample.error[0]))
    assert _difference_of_runs(tmp_path / "old", tmp_path / "new", [])["mrr"] == pytest.approx(expected)


def test_the_design_effect_is_that_of_units_alone() -> None:
    """Units of one query each change nothing, however unlike the weights are."""
    column, own = np.array(WEIGHTS), np.array([f"u{at}" for at in range(6)])
    systems = [
        system(name, np.array(v), query_weight=column, user=own) for name, v in (("a", OLD), ("b", NEW))
    ]
    (note,) = [str(one) for one in compare(*systems, unit="user").cautions if one.kind == "query-units"]
    assert note.endswith("; design effect 1")


@pytest.mark.parametrize("test", ["bounded", "bootstrap"])
def test_tests_that_take_no_weights_name_the_cure(test: str) -> None:
    with pytest.raises(ConfigError, match=r"weighted by 'query_weight'.*weights none counts each query once"):
        weighted_comparison(OLD, NEW, WEIGHTS, test=test)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1, 1, 1, 1], "query 'q00001' has -1; expected finite weights of at least 0"),
        ([0.0] * 6, "every query has 0; expected weights that are not all 0"),
        ([1.0, np.nan, 1, 1, 1, 1], "query 'q00001' has nan; expected finite weights"),
    ],
)
def test_weights_that_are_none_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        weighted_comparison(OLD, NEW, weights)


def test_one_query_with_all_the_weight_gives_no_verdict() -> None:
    found = weighted_comparison(OLD, NEW, [1000.0, 1, 1, 1, 1, 1])
    pair = found.paired("new")
    assert pair.verdict == "not distinguishable"
    assert np.isnan([pair.p, pair.ci_low, pair.ci_high, pair.detectable]).all()
    assert [caution.kind for caution in found.cautions if caution.severity == "warning"] == ["query-weights"]


def test_weights_that_differ_between_models_are_refused() -> None:
    one, other = (
        system(name, np.array(OLD), query_weight=np.array(w))
        for name, w in (("a", WEIGHTS), ("b", WEIGHTS[::-1]))
    )
    with pytest.raises(NotComparableError, match="expected one weight for each query"):
        compare(one, other)


def test_units_and_weights_together() -> None:
    """Six queries of three users: the users' weighted sums, by hand."""
    users = np.array([0, 0, 1, 1, 2, 2])
    w, d = np.array(WEIGHTS), np.array(NEW) - np.array(OLD)
    sample = ClusterSums.of(d[:, None], users, w)
    mean = float((w * d).sum() / w.sum())
    share = np.bincount(users, w) / w.sum()
    off = np.bincount(users, w * (d - mean)) / w.sum()
    assert float(sample.mean[0]) == pytest.approx(mean)
    assert float(sample.error[0]) == pytest.approx(np.sqrt((off**2 / (1 - share)).sum()))


@pytest.mark.long
def test_the_verdict_has_the_sign_of_the_weighted_metric() -> None:
    """Traffic of 1 / rank over 600 queries: the head falls, the tail rises."""
    rng = np.random.default_rng(1)
    rank = np.arange(1, 601)
    base = rng.uniform(0.3, 0.7, 600)
    new = base + np.where(rank <= 30, -0.03, 0.02) + rng.normal(0, 0.02, 600)
    columns = {"query_weight": 1000.0 / rank}
    both = [system("base", base, **columns), system("new", new, **columns)]
    by_traffic, by_list = compare(*both), compare(*both, weights="none")
    assert by_traffic.paired("new").difference < 0
    assert by_list.paired("new").verdict == "better"
    assert by_traffic.paired("new").verdict != "better"


# --- equal values, margins, notes ---


def test_equal_differences_have_the_width_that_absent_queries_leave() -> None:
    """Twenty queries gain .2: a kind with 1 - .05**(1/20) = 13.9 % of the queries may be absent, and lose all."""
    old = np.linspace(0.1, 0.5, 20)
    pair = compare(system("old", old), system("new", old + 0.2)).paired("new")
    share = 1 - 0.05 ** (1 / 20)
    assert (pair.ci_low, pair.ci_high) == pytest.approx((0.2 - share * 1.2, 0.2 + share * 0.8))
    assert pair.p == pytest.approx((1 / 1.2) ** 20)
    assert pair.verdict == "better"


def test_equal_differences_of_a_metric_without_bounds_have_a_line() -> None:
    """Nothing can widen their interval."""
    old = np.linspace(1, 5, 20)
    tables = {
        name: pd.DataFrame({"query_id": range(20), "dcg@10": values})
        for name, values in (("old", old), ("new", old + 0.2))
    }
    found = compare(tables)
    assert found.paired("new").ci_low == found.paired("new").ci_high
    assert "the metric has no known bounds" in " ".join(map(str, found.cautions))


def test_intervals_end_at_what_is_possible() -> None:
    pair = compare(system("old", np.array([0.0, 1, 0, 1])), system("new", np.array([1.0, 1, 1, 0.1]))).paired(
        "new"
    )
    assert (pair.ci_low, pair.ci_high) == (-1.0, 1.0)


def test_worse_within_the_margin_fails_the_gate_on_a_proven_loss() -> None:
    rng = np.random.default_rng(0)
    old = rng.uniform(0.2, 0.8, 400)
    found = compare(system("old", old), system("new", old - 0.005 + rng.normal(0, 0.01, 400)), margin=0.01)
    assert found.paired("new").verdict == "worse"
    assert "worse, within the margin" in found.verdict
    assert parse_gate("mrr < baseline and significant").failures(found)


def test_two_equal_queries_are_not_equivalent() -> None:
    found = compare(system("old", np.array([0.5, 0.5])), system("new", np.array([0.5, 0.5])), margin=0.01)
    assert found.paired("new").verdict == "not distinguishable"


def test_a_note_is_about_the_pair_that_it_names() -> None:
    rng = np.random.default_rng(0)
    old = rng.uniform(0.2, 0.8, 60)
    few = np.where(np.arange(60) < 3, old + 0.1, np.nan)
    found = compare(
        system("old", old), system("good", old + 0.1 + rng.normal(0, 0.01, 60)), system("few", few)
    )
    assert found.paired("good").verdict == "better"
    (note,) = [str(caution) for caution in found.cautions if caution.kind == "few-queries"]
    assert note.startswith("few: with 3 queries")


def test_no_gain_beyond_the_metric_could_have_been_shown() -> None:
    """Two equal differences: the smallest gain that no absent query could undo is 3.47, and the metric ends at 1."""
    found = compare(
        system("old", np.array([0.5, 0.5])),
        system("new", np.array([1.0, 1.0])),
        metrics=["mrr"],
        baseline="old",
    )
    assert np.isnan(found.paired("new").detectable)
    assert "could have been shown" not in found.headline.text


def test_a_null_result_has_what_could_have_been_shown() -> None:
    rng = np.random.default_rng(0)
    old = rng.uniform(0.2, 0.8, 100)
    found = compare(system("old", old), system("new", old + rng.normal(0, 0.1, 100)))
    pair = found.paired("new")
    assert pair.verdict == "not distinguishable"
    assert found.headline.text.endswith(f"; {pair.detectable:.4f} could have been shown")
    assert f"show a gain of {pair.detectable:.4f} in 80 % of cases" in found.verdict


def test_pairs_where_values_are_missing_have_their_own_direction() -> None:
    """By their means a leads; on the queries that both have, b does."""
    a = np.array([0.9, 0.9, 0.9, 0.2, 0.3, 0.25, 0.2, 0.3])
    b = np.array([np.nan, np.nan, np.nan, 0.4, 0.4, 0.5, 0.45, 0.4])
    (pair,) = compare(system("a", a), system("b", b)).all_pairs()
    assert (pair.model, pair.difference > 0) == ("b", True)


# --- simulated worlds ---


def of_equal_methods(
    rng: np.random.Generator, n: int, seeds: int, luck: float, models: int
) -> list[SystemResult]:
    """Methods that are the same but for training luck, with a part of the queries that can be named."""
    query = rng.normal(0.5, 0.15, n)
    country = rng.choice(list("abcd"), n)
    return [
        system(
            f"m{at}",
            query + luck * rng.normal(size=(seeds, 1)) + 0.03 * rng.normal(size=(seeds, n)),
            country=country,
        )
        for at in range(models)
    ]


@pytest.mark.slow
def test_letters_and_slices_of_equal_methods() -> None:
    """Without seeds letters were apart in 9 to 54 % of the samples, and a slice differed in 15 of 30."""
    rng, runs = np.random.default_rng(5), 120
    letters = slices = verdicts = 0
    for _ in range(runs):
        found = compare(*of_equal_methods(rng, 300, 3, 0.015, 3), draws=1000)
        verdicts += any(pair.is_significant for pair in found.pairs)
        letters += len({*found.letters().groups.values()}) > 1
        slices += any(one.verdict in ("better", "worse") for one in slice_results(found))
    noise = 3 * (0.05 * 0.95 / runs) ** 0.5
    assert max(verdicts, letters, slices) / runs <= 0.05 + noise


@pytest.mark.slow
@pytest.mark.parametrize("models", [1, 9])
@pytest.mark.parametrize("far", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_intervals_cover_truths_far_from_0(models: int, far: float) -> None:
    """Nine joint intervals missed together in 24 % where models lie four standard deviations off."""
    rng, runs = np.random.default_rng(int(10 * far) + models), 600
    missed = 0
    for _ in range(runs):
        d = rng.normal(size=(50, models)) + far
        found = outcomes(ClusterSums.of(d), Method(draws=1000), seeds=(), widths=np.inf)
        missed += bool(((found.low > far) | (found.high < far)).any())
    assert missed / runs <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5


Draw = Callable[[np.random.Generator, int], np.ndarray]


def rare_losses(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < 0.1, -0.3, 0.0) + 0.03 + rng.normal(0, 0.05, n)


WORLDS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(0, 0.1, n),
    "10 % lose": rare_losses,
    "10 % gain": lambda rng, n: -rare_losses(rng, n),
    "90 % ties": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.normal(0, 0.1, n)),
    "t(3)": lambda rng, n: 0.05 * rng.standard_t(3, n),
}


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("world", WORLDS)
def test_the_detectable_difference_is_found_in_four_of_five(world: str, n: int) -> None:
    """A gain of the size that it names was found in 27 to 97 %."""
    rng, runs = np.random.default_rng(n), 400
    base = np.full(n, 0.5)
    sizes = []
    for _ in range(40):
        pair = compare(system("old", base), system("new", base + WORLDS[world](rng, n)), draws=100).paired(
            "new"
        )
        sizes.append(pair.detectable)
    if np.isnan(sizes).mean() > 0.5:
        return  # refused: too few queries differ
    gain, found = float(np.nanmedian(sizes)), 0
    for _ in range(runs):
        d = WORLDS[world](rng, n)
        d = np.where(d == 0, 0.0, d + gain / max(float((d != 0).mean()), 1e-9))
        one = outcomes(ClusterSums.of(d[:, None]), Method(draws=1000), seeds=(), widths=np.inf)
        found += bool(one.p[0] < 0.05 and one.low[0] > 0)
    assert 0.77 - 0.06 <= found / runs <= 0.83 + 0.06  # three standard errors of the simulation


@pytest.mark.slow
def test_a_loss_of_the_margin_rarely_passes() -> None:
    """Twenty queries, a loss of three standard deviations: passed in 4.8 % of samples, where 2.5 are right."""
    rng, runs, passed = np.random.default_rng(0), 1000, 0
    gate, old = parse_gate("mrr < baseline - 0.15"), np.full(20, 0.8)
    for _ in range(runs):
        new = np.clip(old - 0.15 + rng.normal(0, 0.05, 20), 0, 1)
        passed += not gate.failures(compare(system("old", old), system("new", new), draws=1000))
    assert passed / runs <= 0.025 + 3 * (0.025 * 0.975 / runs) ** 0.5


@pytest.mark.slow
def test_the_traffic_decides() -> None:
    """The thirty of 600 queries with most traffic fall and the others rise: each sample was "better"."""
    rng, rank = np.random.default_rng(0), np.arange(1, 601)
    weights = 1000.0 / rank
    change = np.where(rank <= 30, -0.05, 0.02)
    truth = float(weights @ change / weights.sum())
    assert truth < 0 < change.mean()
    missed, runs = 0, 150
    for _ in range(runs):
        base = rng.uniform(0.3, 0.7, 600)
        new = base + change + rng.normal(0, 0.02, 600)
        found = compare(
            system("base", base, query_weight=weights), system("new", new, query_weight=weights), draws=1000
        )
        pair = found.paired("new")
        assert pair.verdict != "better"
        assert pair.difference < 0
        missed += not pair.ci_low <= truth <= pair.ci_high
    assert missed / runs <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5


@pytest.mark.slow
def test_no_margin_hides_a_proven_loss() -> None:
    """A loss of half the margin: "gate passed" beside p < .0001, "equivalent" beside letters that are apart."""
    rng, proven = np.random.default_rng(0), 0
    gate = parse_gate("mrr < baseline and significant")
    for _ in range(200):
        n = int(rng.integers(20, 600))
        old = rng.uniform(0.2, 0.8, n)
        models = system("old", old), system("new", old + rng.normal(-0.005, rng.uniform(0.01, 0.05), n))
        plain, found = compare(*models, draws=200), compare(*models, draws=200, margin=0.01)
        assert bool(gate.failures(found)) == bool(gate.failures(plain))
        pair = found.paired("new")
        assert (pair.verdict in ("better", "worse")) == (pair.p_corrected < 0.05)
        assert (len({*found.letters().groups.values()}) > 1) == (pair.p_corrected < 0.05)
        proven += bool(gate.failures(plain))
    assert 50 < proven < 190


@pytest.mark.slow
def test_no_note_contradicts_a_verdict() -> None:
    """A third model with a few values: "no difference could have been significant" stood beside "better"."""
    rng, noted = np.random.default_rng(0), 0
    for _ in range(200):
        n, few = int(rng.integers(20, 80)), int(rng.integers(2, 6))
        old = rng.uniform(0.3, 0.6, n)
        good = old + rng.uniform(-0.05, 0.2, n)
        third = np.where(np.arange(n) < few, old + rng.choice([0.0, 0.1]), np.nan)
        found = compare(
            system("old", old), system("good", good), system("few", third), draws=1000, margin=0.01
        )
        notes = [caution for caution in found.cautions if caution.kind == "few-queries"]
        assert all(note.place == "few" for note in notes)
        assert "less than 1 in 1 " not in " ".join(map(str, found.cautions))
        assert found.paired("few").verdict == "not distinguishable"
        noted += bool(notes)
    assert noted == 200


@pytest.mark.slow
def test_samples_without_the_kind_that_loses_cover() -> None:
    """A tenth of the queries loses .45 and the others gain .05: without one of them the interval had no width."""
    rng, equal = np.random.default_rng(0), 0
    for _ in range(400):
        old = np.linspace(0.5, 0.9, 20)
        d = np.where(rng.random(20) < 0.1, -0.45, 0.05)
        pair = compare(system("old", old), system("new", old + d), draws=200).paired("new")
        if not (d == 0.05).all():
            continue
        equal += 1
        assert pair.ci_low < 0 < pair.ci_high
        assert pair.detectable > 0.05
    assert 20 < equal < 90  # .9**20 of them


@pytest.mark.slow
def test_pairs_and_ranks_have_one_direction() -> None:
    """Values are missing, models differ by rounding: pairs turned by other queries' means, ranks by 2e-18."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(10, 60))
        a = rng.uniform(0.2, 0.8, n)
        b, c = (np.where(rng.random(n) < 0.3, np.nan, a + rng.normal(0, 0.1, n)) for _ in range(2))
        pairs = compare(system("a", a), system("b", b), system("c", c), draws=100).all_pairs()
        assert all(pair.difference >= 0 for pair in pairs)
        rounded = compare(system("z", a), system("y", a * 3 / 3), system("x", a + 1 - 1), draws=100)
        assert rounded.ranking == ("z", "y", "x")


@pytest.mark.parametrize(
    ("n", "test", "expected"),
    [
        (5, "permutation", []),  # no difference can be significant: that is said instead
        (6, "permutation", ["with 6 queries (fewer than 20)"]),
        (19, "t", ["with 19 queries (fewer than 20)"]),
        (19, "bounded", []),
        (20, "permutation", []),
    ],
)
def test_intervals_of_few_queries_have_a_caution(n: int, test: str, expected: list[str]) -> None:
    rng = np.random.default_rng(n)
    old = rng.uniform(0.2, 0.8, n)
    found = compare(system("old", old), system("new", old + rng.normal(0, 0.05, n)), test=test)
    texts = [caution.text for caution in found.cautions if caution.kind == "short-intervals"]
    assert [text.split(",")[0] for text in texts] == expected


def test_the_caution_of_few_queries_names_the_models_it_is_about() -> None:
    rng = np.random.default_rng(0)
    old = rng.uniform(0.2, 0.8, 60)
    some = np.where(np.arange(60) < 12, old + rng.normal(0, 0.05, 60), np.nan)
    found = compare(system("old", old), system("new", old + rng.normal(0, 0.05, 60)), system("some", some))
    (caution,) = [caution for caution in found.cautions if caution.kind == "short-intervals"]
    assert caution.place == "some"
