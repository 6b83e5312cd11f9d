"""The comparison itself: golden example, verdicts, families, tables, determinism."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.comparing import compare_systems
from ltr_harness.comparison.contrasts import SystemResult, contrast, differences_of
from ltr_harness.comparison.gates import parse_gate
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import FamilyResults, mean_intervals, outcomes
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stats.seeds import method_difference
from ltr_harness.errors import Caution, ConfigError, NotComparableError, UsageError
from tests.experiments.compare.conftest import table


def verdict_of(difference: float, p: float, p_equivalence: float, higher: bool, method: Method) -> str:
    untested = FamilyResults.assembled(1, ())
    found = untested._replace(p_corrected=np.array([p]), p_equivalence=np.array([p_equivalence]))
    return differences_of(np.array([difference]), found, [higher], method)[0].verdict


def reciprocal(ranks: list[int]) -> pd.DataFrame:
    return pd.DataFrame({"query_id": list("abcd"), "mrr": 1 / np.array(ranks)})


@pytest.fixture
def golden_comparison() -> Comparison:
    pair = {"A": reciprocal([2, 3, 2, 3]), "B": reciprocal([1, 10, 1, 15])}
    return compare(pair, test="permutation")


def models(
    n: int = 300, shifts: tuple[float, ...] = (0.0, 0.05, 0.0, -0.05), seed: int = 0
) -> dict[str, pd.DataFrame]:
    """Models m0, m1, … whose ndcg@10 differs by the shifts; 30 queries undefined; mrr@10 and err@10 alike."""
    rng = np.random.default_rng(seed)
    base = rng.beta(2, 2, size=(n, 3)) * 0.5 + 0.2
    frames = {}
    for number, shift in enumerate(shifts):
        values = base + rng.normal([shift, 0, 0], 0.1, size=(n, 3))
        values[:30] = np.nan
        frames[f"m{number}"] = table(
            range(n),
            ndcg_10=values[:, 0],
            mrr_10=values[:, 1],
            err_10=values[:, 2],
            n_relevant=[0] * 30 + [2] * (n - 30),
        )
    return frames


@pytest.fixture(scope="module")
def result() -> Comparison:
    """The models m0 to m3."""
    return compare(models())


class TestGolden:
    def test_numbers(self, golden_comparison: Comparison) -> None:
        a, b, pair = (
            golden_comparison.summary("A"),
            golden_comparison.summary("B"),
            golden_comparison.paired("B"),
        )
        assert a.mean == pytest.approx(0.4166666667)
        assert b.mean == pytest.approx(0.5416666667)
        assert a.sd == pytest.approx(0.0962250449, abs=1e-9)
        assert b.sd == pytest.approx(0.5294126725, abs=1e-9)
        assert (a.minimum, b.minimum) == pytest.approx((1 / 3, 1 / 15))
        assert pair.difference == pytest.approx(0.125)
        assert pair.p == pair.p_corrected == 0.75
        assert (pair.wins, pair.ties, pair.losses) == (2, 0, 2)
        assert pair.verdict == "not distinguishable"

    def test_words(self, golden_comparison: Comparison) -> None:
        assert golden_comparison.verdict == (
            "B has the highest mean mrr, 0.5417 against 0.4167, but is not distinguishable from A (n = 4): "
            "+0.1250 (95 % interval -1.0000 to +1.0000, sign-flip test p = 0.7500), over 4 queries."
        )
        text = "with 4 queries no p-value can be below 0.125, so no difference can be significant"
        assert golden_comparison.cautions == (
            Caution("few-queries", "warning", text, "evaluate more queries"),
        )
        assert golden_comparison.family == "1 comparison: 1 model against A at mrr"

    def test_the_table_shows_the_wider_spread(self, golden_comparison: Comparison) -> None:
        sd = golden_comparison.table.set_index("model")["sd"]
        assert sd["B"] > 5 * sd["A"]


class TestVerdict:
    def test_better(self) -> None:
        result = compare(models(shifts=(0.0, 0.05)))
        assert result.paired("m1").verdict == "better"
        assert result.verdict.startswith("m1 is better than m0 at ndcg@10, 0.")
        assert result.verdict.endswith(
            "sign-flip test p < 0.0001), over 270 of 300 queries. 30 queries have no relevant document."
        )

    def test_only_a_verdict_has_a_line_about_what_may_be_absent(self) -> None:
        noise = 0.01 * np.sin(np.arange(60))
        losing = np.where(np.arange(60) == 7, -0.4, 0.0)  # one query is of the kind that could be more common
        values = {"m0": 0.5 + 0 * noise, "m1": 0.5 + noise, "m2": 0.54 + noise + losing}
        frames = {name: table(range(60), ndcg_10=own) for name, own in values.items()}
        for test in ("t", "permutation"):
            result = compare(frames, test=test)
            assert result.paired("m1").verdict == "not distinguishable"
            (note,) = [note for note in map(str, result.cautions) if "may be missing here" in note]
            assert note.startswith(
                "m2: a query type below 6 % of traffic may be missing here; it could flip the verdict"
            )
        del frames["m2"]
        sound = compare(frames | {"m3": table(range(60), ndcg_10=0.54 + noise)})
        assert sound.paired("m3").verdict == "better"
        assert not any("missing" in note for note in map(str, sound.cautions)), (
            "nothing seen comes near such a kind"
        )
        rng = np.random.default_rng(0)
        many = {f"m{at}": table(range(3000), ndcg_10=rng.uniform(0, 0.5, 3000) + at / 8) for at in range(3)}
        strict = compare(many, test="bounded")
        assert strict.paired("m2").verdict == "better"
        assert not any("missing" in note for note in map(str, strict.cautions))

    def test_why_queries_have_no_value_is_not_guessed(self) -> None:
        x, y = (table("abc", ndcg_10=[first, 0.5, np.nan]) for first in (1.0, 0.9))
        assert compare({"x": x, "y": y}).verdict.endswith(
            ", over 2 of 3 queries. ndcg@10 is undefined for 1 query."
        )

    @pytest.mark.long
    def test_several(self) -> None:
        result = compare(models(shifts=(0.0, 0.05, 0.1, 0.0, -0.1)))
        assert [result.paired(f"m{n}").verdict for n in range(1, 5)] == [
            "better",
            "better",
            "not distinguishable",
            "worse",
        ]
        assert result.ranking[0] == "m2"
        assert result.verdict.startswith("m2 is better than m0")
        assert ", sign-flip test joint p " in result.verdict
        assert result.verdict.endswith(" m1 is better as well.")

    def test_baseline_leads(self) -> None:
        result = compare(models(shifts=(0.0, 0.05, 0.0)), baseline="m1")
        assert result.verdict.startswith("The baseline m1 has the highest mean ndcg@10, 0.")
        assert "is worse: -0.0" in result.verdict
        assert "(joint 95 % interval -0.0" in result.verdict
        assert result.verdict.count(" joint p ") == 1

    def test_lower_is_better(self) -> None:
        frames = models(shifts=(0.0, -0.05, 0.05))
        systems = [
            SystemResult(
                name,
                frame["query_id"].to_numpy().astype(str),
                {"distance@10": frame["ndcg@10"].to_numpy()[None, :]},
                ("1",),
                {"distance@10": False},
            )
            for name, frame in frames.items()
        ]
        result = compare_systems(systems, ["distance@10"])
        down, up = result.paired("m1"), result.paired("m2")
        assert down.difference < 0 < up.difference
        assert (down.verdict, up.verdict) == ("better", "worse")
        assert down.wins > down.losses
        assert up.wins < up.losses
        assert result.ranking == ("m1", "m0", "m2")
        assert result.verdict.startswith("m1 is better than m0 at distance@10")
        swapped = compare_systems(systems, ["distance@10"], baseline="m1")
        assert "has the lowest mean distance@10" in swapped.verdict

    @pytest.mark.long
    def test_equivalent_within_the_margin(self) -> None:
        result = compare(models(n=2000, shifts=(0.0, 0.001)), margin=0.02)
        pair = result.paired("m1")
        assert pair.verdict == "equivalent"
        assert pair.p_equivalence < 0.025
        assert "equivalent" in result.verdict
        assert (
            compare(models(n=60, shifts=(0.0, 0.001), seed=1), margin=0.005).paired("m1").verdict
            == "not distinguishable"
        )

    def test_one_model(self) -> None:
        result = compare(models(shifts=(0.0,)))
        assert result.verdict.startswith("m0: ndcg@10 0.")
        assert result.verdict.endswith("There is no other model.")
        assert (result.pairs, result.families) == ((), ())

    def test_undefined_everywhere(self) -> None:
        nothing = table("ab", ndcg_10=[np.nan, np.nan])
        result = compare({"x": nothing, "y": nothing})
        assert result.verdict == "Nothing to compare: ndcg@10 is undefined for all 2 queries."
        assert np.isnan(result.paired("y").p)
        assert result.paired("y").verdict == "not distinguishable"

    def test_identical_models(self) -> None:
        frame = models(shifts=(0.0,))["m0"]
        result = compare({"x": frame, "y": frame})
        assert (result.paired("y").p, result.paired("y").ties) == (1.0, 270)
        assert result.ranking == ("x", "y")

    def test_a_metric_without_bounds_cannot_tell_what_may_be_absent(self) -> None:
        rng = np.random.default_rng(0)
        base = rng.random(50)
        gain = np.where(rng.random(50) < 0.6, 0.0, rng.exponential(1, 50) ** 2)
        gain[0] = -6.0
        frames = {"x": table(range(50), ndcg_10=base), "y": table(range(50), ndcg_10=base + gain)}
        result = compare(frames)  # NDCG above 1 is some other metric
        assert result.paired("y").verdict == "better"
        assert any(
            "the metric has no known bounds, so it could flip the verdict" in note
            for note in map(str, result.cautions)
        )
        assert not any("missing" in note for note in map(str, compare(models(shifts=(0.0, 0.05))).cautions))

    def test_every_query_alike_still_has_an_interval(self) -> None:
        """Twenty ones printed 1.0000 [1.0000, 1.0000]."""
        result = compare({"x": table(range(20), ndcg_10=np.ones(20))})
        assert "(95 % interval 0.8609 to 1.0000)" in result.verdict


class TestByHand:
    def test_how_the_queries_spread(self) -> None:
        one = table("abcdef", ndcg_10=[0, 0.2, 0.5, 1, 1, np.nan])
        found = compare({"one": one}).summary("one")
        assert (found.n, found.n_undefined, found.mean) == (5, 1, pytest.approx(2.7 / 5))
        assert (found.minimum, found.median) == (0.0, 0.5)
        assert (found.p10, found.p90) == pytest.approx((0.4 * 0.2, 1.0))  # ranks 0.4 and 3.6 of 0 to 4
        assert (found.share_zero, found.share_one) == (1 / 5, 2 / 5)
        assert (found.n_replicates, found.seed_min, found.seed_max) == (1, found.mean, found.mean)

    def test_how_the_seeds_spread(self) -> None:
        values = np.array([[0.2, 0.6, np.nan], [0.4, 0.8, np.nan]])
        one = SystemResult("one", np.array(list("abc")), {"ndcg@10": values}, ("1", "2"), {"ndcg@10": True})
        found = compare_systems([one], ["ndcg@10"]).summary("one")
        assert (found.seed_min, found.seed_max) == pytest.approx((0.4, 0.6))
        assert found.seed_sd == pytest.approx(0.2 / np.sqrt(2))
        assert found.mean == pytest.approx(0.5)

    def test_a_difference_as_a_share_of_the_other_mean_over_the_queries_of_both(self) -> None:
        old = table("abcde", ndcg_10=[0, 0.2, 0.5, 1, 0.9])
        new = table("abcde", ndcg_10=[0.34, 0.2, 0.5, 1, np.nan])
        assert compare({"old": old, "new": new}).paired("new").relative == pytest.approx(0.34 / 1.7)
        nothing = table("abcde", ndcg_10=[0.0] * 5)
        assert np.isnan(compare({"nothing": nothing, "old": old}).paired("old").relative)

    def test_a_query_that_one_model_lacks_is_counted_once(self) -> None:
        values = ([0.1, np.nan, np.nan, 0.4, 0.5], [np.nan, np.nan, 0.3, 0.4, 0.6], [0.2, 0.2, 0.3, 0.4, 0.5])
        found = compare({name: table("abcde", ndcg_10=own) for name, own in zip("xyz", values, strict=True)})
        assert found.n_undefined == {"ndcg@10": 3}

    @pytest.mark.parametrize(
        ("p", "p_equivalence", "word"),
        [
            (0.01, 0.01, "better"),  # different from 0, also where it does not matter
            (0.01, 0.9, "better"),
            (0.90, 0.9, "not distinguishable"),
            (0.05, np.nan, "not distinguishable"),
            (0.01, np.nan, "better"),
            (np.nan, np.nan, "not distinguishable"),
        ],
    )
    def test_words(self, p: float, p_equivalence: float, word: str) -> None:
        method = Method(margin=0.02)
        turned = {"better": "worse", "worse": "better"}.get(word, word)
        assert verdict_of(0.01, p, p_equivalence, True, method) == word
        assert verdict_of(0.01, p, p_equivalence, False, method) == turned
        assert verdict_of(-0.01, p, p_equivalence, True, method) == turned
        assert verdict_of(-0.01, p, p_equivalence, False, method) == word

    @pytest.mark.parametrize(("p", "word"), [(0.0499, "equivalent"), (None, "not distinguishable")])
    def test_equivalence_is_proven_below_the_level_alone(self, p: float | None, word: str) -> None:
        method = Method(margin=0.02)
        p_equivalence = method.alpha if p is None else p
        assert verdict_of(0.001, 0.5, p_equivalence, True, method) == word


class TestMethodIsFollowed:
    """Every number is that of the function which computes it, called with the choices made."""

    CHOICES: ClassVar = {"confidence": 0.8, "draws": 500, "seed": 3}

    @pytest.fixture
    def frames(self) -> dict[str, pd.DataFrame]:
        return models(n=100, shifts=(0.0, 0.015, 0.005))

    def direct(self, result: Comparison, columns: np.ndarray) -> FamilyResults:
        return outcomes(ClusterSums.of(columns), result.method, widths=np.ones(columns.shape[1]), seeds=())

    @pytest.mark.parametrize("test", ["skew-adjusted", "permutation", "bootstrap", "t", "bounded"])
    def test_differences(self, frames: dict[str, pd.DataFrame], test: str) -> None:
        result = compare(frames, metrics=["ndcg@10"], test=test, **self.CHOICES)
        d = np.column_stack([result.query_differences(name) for name in ("m1", "m2")])
        expected = self.direct(result, d)
        for at, pair in enumerate(result.pairs):
            for field, own in (
                ("p", pair.p),
                ("p_corrected", pair.p_corrected),
                ("low", pair.ci_low),
                ("high", pair.ci_high),
            ):
                assert own == getattr(expected, field)[at], field

    @pytest.mark.parametrize("test", ["skew-adjusted", "permutation", "bootstrap", "t", "bounded"])
    def test_means(self, frames: dict[str, pd.DataFrame], test: str) -> None:
        result = compare(frames, metrics=["ndcg@10"], test=test, **self.CHOICES)
        values = result.system("m1").per_query("ndcg@10")[:, None]
        low, high = mean_intervals(ClusterSums.of(values), result.method, [(0.0, 1.0)])
        summary = result.summary("m1")
        assert (summary.ci_low, summary.ci_high) == (low[0], high[0])
        assert summary.ci_low < summary.mean < summary.ci_high


class TestFamilies:
    def test_primary_and_the_others(self, result: Comparison) -> None:
        assert result.families == (
            "joint over 3 comparisons: 3 models against m0 at ndcg@10",
            "joint over 6 comparisons: 3 models against m0 at 2 other metrics",
        )
        primary = [pair for pair in result.pairs if pair.metric == "ndcg@10"]
        others = [pair for pair in result.pairs if pair.metric != "ndcg@10"]
        for family in (primary, others):
            d = np.column_stack([result.query_differences(pair.model, pair.metric) for pair in family])
            found = outcomes(ClusterSums.of(d), result.method, seeds=(), widths=np.inf)
            assert [pair.p_corrected for pair in family] == found.p_corrected.tolist()

    @pytest.mark.long
    def test_other_metrics_do_not_weaken_the_verdict(self) -> None:
        alone, together = compare(models(), metrics=["ndcg@10"]), compare(models())
        assert alone.verdict == together.verdict

    @pytest.mark.parametrize("test", ["t", "bootstrap", "permutation", "skew-adjusted"])
    def test_every_test(self, test: str) -> None:
        result = compare(models(), test=test, draws=2000)
        assert result.paired("m1").verdict == "better"
        assert all(pair.p <= pair.p_corrected + 1e-12 <= 1 + 1e-12 for pair in result.pairs)
        assert result.test == test

    @pytest.mark.long
    def test_bootstrap_intervals_are_near_t(self) -> None:
        frames = models()
        for name in ("m1", "m3"):  # a family of one
            two = {"m0": frames["m0"], name: frames[name]}
            plain, resampled = (compare(two, metrics=["ndcg@10"], test=test) for test in ("t", "bootstrap"))
            assert plain.paired(name).ci_low == pytest.approx(resampled.paired(name).ci_low, abs=0.002)
        assert resampled.summary("m0").ci_low == pytest.approx(plain.summary("m0").ci_low, abs=0.002)

    @pytest.mark.long
    def test_joint_intervals_are_wider(self) -> None:
        frames = models()
        alone = compare({name: frames[name] for name in ("m0", "m1")}).paired("m1")
        joint = compare(frames).paired("m1")
        assert joint.ci_high - joint.ci_low > alone.ci_high - alone.ci_low

    def test_a_baseline_of_nan_is_in_no_family(self) -> None:
        frames = models(shifts=(0.0, 0.05))
        frames["broken"] = frames["m1"].assign(**{"ndcg@10": np.nan})
        result = compare(frames, metrics=["ndcg@10"])
        assert result.paired("m1").p_corrected == result.paired("m1").p
        assert np.isnan(result.paired("broken").p_corrected)


class TestStability:
    @pytest.mark.long
    def test_adding_a_model_changes_no_raw_number_of_the_others(self) -> None:
        frames = models(shifts=(0.0, 0.02, 0.01))
        corrected = ("p_corrected", "verdict", "detectable", "ci_low", "ci_high")
        before = compare({name: frames[name] for name in ("m0", "m1")}).paired("m1")
        after = compare(frames).paired("m1")
        kept = {name: getattr(before, name) for name in corrected}
        assert str(dataclasses.replace(after, **kept)) == str(before)

    @pytest.mark.long
    def test_order_of_rows_and_models_changes_nothing(self, result: Comparison) -> None:
        frames = models()
        shuffled = {
            name: frame.sample(frac=1, random_state=number)
            for number, (name, frame) in enumerate(frames.items())
        }
        assert compare(shuffled).frame().equals(result.frame())
        backwards = compare(dict(reversed(frames.items())), baseline="m0")
        one, other = (dataclasses.asdict(found.paired("m2")) for found in (backwards, result))
        assert str(one) == str(other)

    @pytest.mark.long
    def test_same_call_same_bytes(self, result: Comparison) -> None:
        again = compare(models())
        assert again.frame().to_csv() == result.frame().to_csv()
        assert again._repr_html_() == result._repr_html_()

    @pytest.mark.long
    def test_forty_models(self) -> None:
        result = compare(models(n=120, shifts=tuple(np.linspace(0, 0.1, 40))), draws=500)
        assert len(result.pairs) == 39 * 3
        assert result.table.shape[0] == 40
        assert result.paired("m39").verdict == "better"
        assert result.verdict.endswith(" more are better as well.")
        assert result.families[0] == "joint over 39 comparisons: 39 models against m0 at ndcg@10"

    @pytest.mark.long
    def test_survives_pickling(self, result: Comparison) -> None:
        assert pickle.loads(pickle.dumps(result)).frame().equals(result.frame())


class TestTables:
    @pytest.mark.long
    def test_the_primary_metric_is_marked(self) -> None:
        frame = compare(models(), metrics=["mrr@10", "ndcg@10", "err@10"]).frame()
        assert frame.groupby("metric")["primary"].all().to_dict() == {
            "ndcg@10": False,
            "mrr@10": True,
            "err@10": False,
        }

    def test_numbers_that_one_model_lacks_are_floats(self) -> None:
        alone = compare({"A": pd.DataFrame({"query_id": ["1", "2"], "mrr": [0.5, 1.0]})})
        for found in (alone.table, alone.frame()):
            numbers = ["difference", "difference_ci_low", "difference_ci_high", "p", "p_corrected"]
            assert set(found[numbers].dtypes.astype(str)) == {"float64"}
            assert set(found[["wins", "ties", "losses"]].dtypes.astype(str)) == {"Int64"}

    @pytest.mark.long
    def test_primary_table(self, result: Comparison) -> None:
        found = result.table
        assert found.columns.tolist() == [
            "model",
            "ndcg@10",
            "ci_low",
            "ci_high",
            "sd",
            "n",
            "difference",
            "difference_ci_low",
            "difference_ci_high",
            "p",
            "p_corrected",
            "wins",
            "ties",
            "losses",
            "verdict",
        ]
        assert found["model"].tolist() == list(result.ranking)
        assert found["ndcg@10"].is_monotonic_decreasing
        assert found.loc[found["model"] == "m0", "verdict"].tolist() == ["baseline"]

    @pytest.mark.long
    def test_tidy_frame_is_complete(self, result: Comparison) -> None:
        found = result.frame()
        assert len(found) == 4 * 3
        names = {
            field.name
            for kind in (result.summaries[0], result.pairs[0])
            for field in dataclasses.fields(kind)
        }
        renamed = names - {"other", "other_mean"} | {"baseline", "baseline_mean", "n_paired"}
        renamed |= {"difference_ci_low", "difference_ci_high"}
        assert set(found.columns) == renamed | {"primary", "higher_is_better"}
        row = found[(found["model"] == "m1") & (found["metric"] == "mrr@10")].iloc[0]
        assert row["difference"] == result.paired("m1", "mrr@10").difference
        assert row["mean"] == result.summary("m1", "mrr@10").mean

    def test_the_baseline_has_no_pair_in_the_tidy_frame(self, golden_comparison: Comparison) -> None:
        found = golden_comparison.frame()
        assert found[["model", "primary", "verdict"]].values.tolist() == [
            ["A", True, "baseline"],
            ["B", True, golden_comparison.paired("B").verdict],
        ]
        assert found["difference"].isna().tolist() == [True, False]

    @pytest.mark.long
    def test_counts(self, result: Comparison) -> None:
        assert (result.n_queries, result.n_without_relevant) == (300, 30)
        assert result.n_undefined == {"ndcg@10": 30, "mrr@10": 30, "err@10": 30}
        assert result.summary("m0").n_undefined == 30
        assert result.query_differences("m1").shape == (300,)

    def test_html_is_escaped(self) -> None:
        frames = models(shifts=(0.0, 0.05))
        hostile = "<script>alert(1)</script>"
        page = compare({"a & b": frames["m0"], hostile: frames["m1"]})._repr_html_()
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert "a &amp; b" in page

    def test_pairwise_undefined(self) -> None:
        frames = models(shifts=(0.0, 0.05, 0.05))
        frames["m2"].loc[30:39, "ndcg@10"] = np.nan
        result = compare(frames)
        assert (result.paired("m1").n, result.paired("m2").n) == (270, 260)
        assert result.n_undefined["ndcg@10"] == 40
        assert any("undefined for 30 to 40 queries" in note for note in map(str, result.cautions))


UP = {"ndcg@10": True}


class TestSeeds:
    @staticmethod
    def system(name: str, shifts: list[float], seed: int = 0) -> SystemResult:
        rng = np.random.default_rng(seed)
        base = np.random.default_rng(99).random(200)
        values = np.stack([base + shift + rng.normal(0, 0.05, 200) for shift in shifts])
        replicates = tuple(str(number) for number in range(len(shifts)))
        return SystemResult(
            name, np.arange(200).astype(str), {"ndcg@10": values}, replicates, {"ndcg@10": True}
        )

    def test_spread_and_agreement(self) -> None:
        base = self.system("base", [0.0, 0.0, 0.0])
        moody = self.system("moody", [-0.05, 0.05, 0.1], seed=1)
        result = compare_systems([base, moody], ["ndcg@10"])
        summary, pair = result.summary("moody"), result.paired("moody")
        assert summary.n_replicates == 3
        assert summary.seed_min < summary.mean < summary.seed_max
        assert pair.seed_agreement == pytest.approx(6 / 9)
        assert (
            pair.trained_p_corrected < 1e-4 < 0.1 < pair.p_corrected
        )  # these three trained models, not the method
        assert 0 < pair.trained_ci_low < pair.trained_ci_high
        assert pair.ci_low < 0 < pair.ci_high
        assert pair.verdict == "not distinguishable"
        assert " over queries and seeds, p = " in result.verdict
        assert parse_gate("ndcg@10 > baseline and significant").failures(result) == []

    def test_a_difference_of_methods_is_that_of_the_module(self) -> None:
        base, other = self.system("base", [0.0, 0.01]), self.system("other", [0.05, 0.06, 0.07], seed=1)
        method = Method(test="t", margin=0.2)
        pair = compare_systems([base, other], ["ndcg@10"], method=method).paired("other")
        known = method_difference(other.values["ndcg@10"], base.values["ndcg@10"])
        assert known is not None
        low, high = known.interval()
        assert (pair.p, pair.ci_low, pair.ci_high) == pytest.approx((known.p(), low, high))
        assert pair.detectable == pytest.approx(known.detectable())
        assert pair.p_equivalence == pytest.approx(2 * known.p_equivalence(0.2))
        assert pair.trained_p < pair.p

    def test_methods_are_no_surer_than_their_models(self) -> None:
        systems = [self.system(f"m{at}", [0.0, 0.02 * at, 0.01 * at], seed=at) for at in range(4)]
        result = compare_systems(systems, ["ndcg@10"], method=Method(draws=500))
        for pair in result.pairs:
            assert pair.trained_p <= pair.p <= pair.p_corrected
            assert pair.trained_p_corrected <= pair.p_corrected
            assert pair.ci_low <= pair.trained_ci_low <= pair.trained_ci_high <= pair.ci_high
            significant = pair.p_corrected < 0.05
            assert significant == (pair.verdict in ("better", "worse"))

    def test_one_seed_is_about_trained_models(self) -> None:
        base, other = (
            dataclasses.replace(self.system(name, [shift], seed), seeded=True)
            for name, shift, seed in (("base", 0.0, 0), ("other", 0.1, 1))
        )
        result = compare_systems([base, other], ["ndcg@10"])
        said = " Trained with one seed, so this is about these trained models and not about their methods."
        assert said in result.verdict
        assert said in compare_systems([other, base], ["ndcg@10"]).verdict
        fixed = [dataclasses.replace(one, seeded=False, deterministic=True) for one in (base, other)]
        assert "seed" not in compare_systems(fixed, ["ndcg@10"]).verdict
        assert np.isnan(result.paired("other").trained_p)

    def test_one_seed_beside_several_is_said(self) -> None:
        one = dataclasses.replace(self.system("one", [0.0]), seeded=True)
        result = compare_systems([one, self.system("many", [0.0, 0.01, 0.02], 1)], ["ndcg@10"])
        assert (
            "one: trained with one seed; its spread over seeds is assumed to be that of the models with several; "
            "train it with as many seeds as they have"
        ) in [*map(str, result.cautions)]

    def test_seed_values_are_averaged_within_the_query_first(self) -> None:
        one = self.system("one", [0.0])
        many = self.system("many", [0.0, 0.01, 0.02], seed=1)
        result = compare_systems([one, many], ["ndcg@10"], method=Method(test="permutation"))
        d = many.values["ndcg@10"].mean(axis=0) - one.values["ndcg@10"][0]
        order = np.argsort(one.query_ids)
        assert result.paired("many").trained_p == float(
            outcomes(
                ClusterSums.of(d[order][:, None]), Method(test="permutation"), seeds=(), widths=np.inf
            ).p[0]
        )
        assert np.isnan(result.summary("one").seed_sd)

    def test_undefined_for_one_side_only(self) -> None:
        base, other = self.system("base", [0.0] * 3), self.system("other", [0.0] * 3, seed=1)
        values = np.array(other.values["ndcg@10"])
        values[:, :20] = np.nan
        other = replace(other, values={"ndcg@10": values})
        result = compare_systems([base, other], ["ndcg@10"], method=Method(test="t"))
        pair = result.paired("other")
        assert pair.n == 180
        known = method_difference(*(one.values["ndcg@10"][:, 20:] for one in (other, base)))
        assert known is not None
        assert pair.p == pytest.approx(max(known.p(), pair.trained_p))
        assert pair.p >= known.p() - 1e-12


class TestAllPairs:
    @pytest.mark.long
    def test_every_pair_once_better_first(self) -> None:
        result = compare(models(shifts=(0.0, 0.05, 0.1)))
        pairs = result.all_pairs()
        assert [(pair.model, pair.other) for pair in pairs] == [("m2", "m1"), ("m2", "m0"), ("m1", "m0")]
        assert all(pair.difference > 0 for pair in pairs)
        values = {name: result.system(name).per_query("ndcg@10") for name in result.models}
        d = np.column_stack([values[pair.model] - values[pair.other] for pair in pairs])
        assert [pair.p_corrected for pair in pairs] == outcomes(
            ClusterSums.of(d), result.method, seeds=(), widths=np.inf
        ).p_corrected.tolist()
        assert pairs[2].p == result.paired("m1").p

    def test_the_better_mean_first_also_where_less_is_better(self) -> None:
        steps = np.arange(4) / 16
        tables = {
            name: table(range(4), mrr_10=mean + steps).assign(kendall_tau_distance=mean + steps[::-1])
            for name, mean in (("a", 0.5), ("b", 0.125), ("c", 0.25))
        }
        result = compare(tables, metrics=["mrr@10", "kendall_tau_distance"], test="t")
        for metric, order in (("mrr@10", "acb"), ("kendall_tau_distance", "bca")):
            found = [pair.model + pair.other for pair in result.all_pairs(metric)]
            assert found == [order[:2], order[::2], order[1:]]

    @pytest.mark.long
    def test_many_models_at_another_metric(self) -> None:
        result = compare(models(n=100, shifts=(0.0,) * 12), metrics=["ndcg@10", "mrr@10"], draws=1000)
        pairs = result.all_pairs("mrr@10")
        assert len(pairs) == 12 * 11 // 2
        assert {pair.verdict for pair in pairs} == {"not distinguishable"}


class TestErrors:
    def test_options_all_at_once(self) -> None:
        with pytest.raises(ConfigError) as caught:
            compare(models(), test="permutaton", confidence=95, margin=-1, draws=0)
        text = str(caught.value)
        assert "unknown test 'permutaton'; did you mean 'permutation'?" in text
        assert len(caught.value.problems) == 4

    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [
            ("confidence", "95", "a number in [0.5, 1), such as 0.95"),
            ("confidence", float("nan"), "a number in [0.5, 1), such as 0.95"),
            ("margin", 0, "a difference above 0, in the metric's unit"),
            ("draws", 1e4, "an integer from 100 to 10,000,000; 10,000 is usual"),
            ("draws", True, "an integer from 100 to 10,000,000; 10,000 is usual"),
            ("seed", -1, "an integer from 0 to 2,147,483,647"),
        ],
    )
    def test_an_option_out_of_bounds(self, option: str, value: object, expected: str) -> None:
        with pytest.raises(ConfigError) as caught:
            compare(models(), **{option: value})
        assert str(caught.value) == f"{option}: {value!r}; expected {expected}"

    def test_an_option_that_does_not_exist(self) -> None:
        with pytest.raises(TypeError, match=r"compare\(\) got an unexpected keyword argument 'tests'"):
            compare(models(), tests="t")  # type: ignore[call-arg]

    def test_names(self) -> None:
        with pytest.raises(UsageError, match=r"no model 'm9' to serve as the baseline; known: m0, m1"):
            compare(models(), baseline="m9")
        result = compare(models())
        with pytest.raises(UsageError, match=r"ndcg@5 was not compared; did you mean 'ndcg@10'"):
            result.summary("m0", "ndcg@5")
        with pytest.raises(UsageError, match=r"no model 'n0'"):
            result.paired("n0")
        with pytest.raises(UsageError, match="m0 is the baseline"):
            result.paired("m0")

    def test_nothing(self) -> None:
        with pytest.raises(UsageError, match="nothing to compare"):
            compare()

    def test_another_k(self) -> None:
        with pytest.raises(NotComparableError, match="a different K is a different question") as caught:
            compare({"x": table("ab", ndcg_10=[1, 0]), "y": table("ab", ndcg_5=[1, 0])})
        assert caught.value.exit_code == 2

    def test_no_contrast(self) -> None:
        assert contrast([[]], {"ndcg@10": True}, Method()) == ()


class TestUndefinedOnDifferentQueries:
    """A model that has no values for the hard queries has the best mean of its own, and is worse on all it has."""

    @pytest.fixture
    def frames(self) -> dict[str, pd.DataFrame]:
        rng = np.random.default_rng(3)
        base = np.concatenate([rng.uniform(0.7, 0.9, 60), rng.uniform(0.1, 0.3, 40)])
        picky = base - 0.05 + rng.normal(0, 0.01, 100)
        picky[60:] = np.nan
        good = base + 0.05 + rng.normal(0, 0.01, 100)  # more than a rare kind of query could make up for
        ids = list(range(100))
        return {
            "base": table(ids, ndcg_10=base),
            "picky": table(ids, ndcg_10=picky),
            "good": table(ids, ndcg_10=good),
        }

    def test_sentence_table_and_gates_agree(self, frames: dict[str, pd.DataFrame]) -> None:
        two = compare({name: frames[name] for name in ("base", "picky")})
        pair = two.paired("picky")
        assert two.summary("picky").mean > two.summary("base").mean + 0.1
        assert pair.verdict == "worse"
        assert pair.model_mean - pair.other_mean == pytest.approx(pair.difference, abs=1e-12)
        assert pair.other_mean == pytest.approx(frames["base"]["ndcg@10"][:60].mean(), abs=1e-12)
        assert two.verdict.startswith(
            f"The baseline base leads at ndcg@10, {pair.other_mean:.4f}; the closest, picky, is worse: "
            f"{pair.difference:+.4f}"
        )
        assert two.ranking == ("base", "picky")
        assert two.table["verdict"].tolist() == ["baseline", "worse"]
        (line,) = parse_gate("ndcg@10 < baseline and significant").failures(two)
        assert line.startswith(
            f"picky: ndcg@10 {pair.model_mean:.4f} < baseline base {pair.other_mean:.4f} (diff"
        )
        assert parse_gate("ndcg@10 > baseline").failures(two) == []

    def test_the_means_that_are_not_the_tables_are_said(self, frames: dict[str, pd.DataFrame]) -> None:
        result = compare(frames, test="t")
        pair = result.paired("picky")
        assert result.ranking == ("good", "base", "picky")
        assert result.verdict.startswith("good is better than base at ndcg@10")
        assert (
            "ndcg@10 is undefined for 0 to 40 queries depending on the model, so each pair is compared over the "
            f"queries that are defined for both: picky {pair.model_mean:.4f} against {pair.other_mean:.4f} over 60"
        ) in [*map(str, result.cautions)]

    @pytest.mark.parametrize(("rivals", "rest"), [("bcdef", ""), ("bcdefg", " and 1 more")])
    def test_the_means_of_five_models_are_said_and_the_others_counted(self, rivals: str, rest: str) -> None:
        values = np.arange(4) / 4
        frames = {name: table(range(4), ndcg_10=values) for name in "a" + rivals}
        for name in rivals:
            frames[name].loc[0, "ndcg@10"] = np.nan
        (note, *_) = map(str, compare(frames, test="t").cautions)
        said = ", ".join(f"{name} 0.5000 against 0.5000 over 3" for name in "bcdef")
        assert note.endswith(f"queries that are defined for both: {said}{rest}")

    def test_as_many_but_other_queries_are_seen_too(self) -> None:
        first, last = np.arange(10) / 10, np.arange(10) / 10
        first, last = np.where(np.arange(10) < 2, np.nan, first), np.where(np.arange(10) > 7, np.nan, last)
        result = compare({"a": table(range(10), ndcg_10=first), "b": table(range(10), ndcg_10=last)})
        assert result.paired("b").difference == 0
        assert "ndcg@10 is undefined for 2 queries, not the same ones, depending on the model" in str(
            result.cautions[0]
        )
        assert "b 0.4500 against 0.4500 over 6" in str(result.cautions[0])

    def test_no_query_in_common(self) -> None:
        none = {"a": table("xy", ndcg_10=[1.0, np.nan]), "b": table("xy", ndcg_10=[np.nan, 0.5])}
        result = compare(none)
        assert (
            result.verdict
            == "Nothing to compare: no query has a value of ndcg@10 for both a and another model."
        )
        assert parse_gate("ndcg@10 < baseline").failures(result) == [
            "b: no query has a value of ndcg@10 for both, so < baseline a cannot be checked"
        ]

    @pytest.mark.long
    def test_the_headline_never_contradicts_the_table(self) -> None:
        """15 comparisons of three models with holes wherever they fall."""
        rng = np.random.default_rng(0)
        for _ in range(15):
            values = rng.normal(0.5, 0.1, (3, 30)) + rng.normal(0, 0.05, (3, 1))
            values[rng.random(values.shape) < rng.choice([0.0, 0.3, 0.6])] = np.nan
            names = ("base", "one", "two")
            frames = {n: table(range(30), ndcg_10=v) for n, v in zip(names, values, strict=True)}
            result = compare(frames, test="t")
            differences = [0.0 if n == "base" else result.paired(n).difference for n in result.ranking]
            assert differences == sorted(differences, reverse=True)
            words = {n: result.paired(n).verdict for n in names[1:]}
            if "is better than base" in result.verdict:
                assert words[result.ranking[0]] == "better"
            if "but is not distinguishable" in result.verdict:
                assert words[result.ranking[0]] == "not distinguishable"
            for gate, word in (("<", "worse"), (">", "better")):
                lines = parse_gate(f"ndcg@10 {gate} baseline and significant").failures(result)
                assert [line.partition(":")[0] for line in lines] == [
                    n for n, w in words.items() if w == word
                ]
