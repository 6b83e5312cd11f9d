"""The inputs of `compare`, from evaluations in a notebook to folders of runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ltr_harness import compare, evaluate
from ltr_harness.comparison import Comparison
from ltr_harness.errors import DataError, MetricError, NotComparableError, UsageError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.evaluation import Evaluation
from ltr_harness.report import write_report
from ltr_harness.report.data import ReportData

from .conftest import WriteRun, table

METRICS = ["ndcg@10", "err(max_grade=4)@10"]


def evaluation(noise: float, seed: int = 0, n: int = 40, metrics: list[str] = METRICS) -> Evaluation:
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(n), 10)
    labels = rng.integers(0, 5, ids.size) * (ids % 8 > 0)
    scores = labels + np.random.default_rng(seed).normal(0, noise, ids.size)
    return evaluate(labels, scores, query_ids=ids, metrics=metrics)


class TestEvaluations:
    def test_mapping(self) -> None:
        result = compare({"good": evaluation(1), "bad": evaluation(4)}, baseline="bad")
        assert result.models == ("good", "bad")
        assert result.primary == "ndcg@10"
        assert result.metrics == ("ndcg@10", "err(max_grade=4)@10")
        assert (result.n_queries, result.n_without_relevant) == (40, 5)
        assert result.paired("good").verdict == "better"
        assert result.summary("good").mean == pytest.approx(evaluation(1).means["ndcg@10"], abs=1e-15)

    def test_positional(self) -> None:
        assert compare(evaluation(1), evaluation(4)).models == ("scores 1", "scores 2")

    def test_the_short_name_finds_the_bound_one(self) -> None:
        result = compare({"a": evaluation(1), "b": evaluation(2)}, metrics=["err@10"])
        assert result.metrics == ("err(max_grade=4)@10",)

    def test_a_list_is_one_model_with_seeds(self) -> None:
        seeds = [evaluation(1, seed) for seed in range(3)]
        result = compare({"base": evaluation(4), "many": seeds})
        assert result.system("many").replicates == ("1", "2", "3")
        assert result.paired("many").includes_seeds
        assert not compare({"base": evaluation(4), "many": seeds[:1]}).paired("many").includes_seeds

    @pytest.mark.parametrize("other", [{"metrics": METRICS[:1]}, {"n": 30}])
    def test_seeds_are_of_one_test_set_and_have_the_same_metrics(self, other: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match="many: evaluation 2 has other metrics, queries or labels than"):
            compare({"base": evaluation(4), "many": [evaluation(1), evaluation(1, 1, **other)]})

    def test_a_grade_of_one_is_relevant(self) -> None:
        a, b = (
            evaluate([1, 0, 2, 0, 0, 0], scores, query_ids=[1, 1, 2, 2, 3, 3], metrics=["mrr"])
            for scores in ([2, 1, 2, 1, 2, 1], [1, 2, 1, 2, 2, 1])
        )
        assert compare(a, b).n_without_relevant == 1

    def test_identical_evaluations_are_not_several_seeds(self) -> None:
        result = compare({"base": evaluation(4), "many": [evaluation(1, 1)] * 3 + [evaluation(1, 2)]})
        assert result.system("many").replicates == ("1", "4")
        assert "many: seeds 1, 2, 3 gave identical values and count once" in [*map(str, result.cautions)]
        one = compare({"base": evaluation(4), "many": [evaluation(1)] * 5})
        assert one.system("many").replicates == ("1",)
        alone = compare({"base": evaluation(4), "many": evaluation(1)})
        assert (one.paired("many").p, one.paired("many").ci_low) == (
            alone.paired("many").p,
            alone.paired("many").ci_low,
        )

    def test_other_queries_are_refused_or_cut(self) -> None:
        whole, part = evaluation(1), evaluation(2, n=30)
        with pytest.raises(NotComparableError, match="30 queries against 40 of a: 10 missing here"):
            compare({"a": whole, "b": part})
        result = compare({"a": whole, "b": part}, common_queries=True, metrics=["ndcg@10"])
        assert result.n_queries == 30
        assert str(result.cautions[0]) == "a: 10 of 40 queries left out, not common to all"

    def test_other_labels_are_refused(self) -> None:
        ids = np.repeat([1, 2], 2)
        one = evaluate([1, 0, 1, 0], [1, 2, 3, 4], query_ids=ids, metrics=["ndcg@10"])
        other = evaluate([0, 1, 1, 0], [1, 2, 3, 4], query_ids=ids, metrics=["ndcg@10"])
        with pytest.raises(NotComparableError, match="same queries, other labels or rows"):
            compare({"a": one, "b": other})

    def test_weights_are_not_dropped_in_silence(self) -> None:
        ids = np.repeat([1, 2], 2)

        def weighted_comparison(weights: list[float]) -> Comparison:
            one = evaluate([1, 0, 1, 0], [1, 2, 4, 3], query_ids=ids, metrics=["mrr"], query_weights=weights)
            return compare({"a": one})

        found = weighted_comparison([3, 1])
        (note,) = map(str, found.cautions)
        assert note.startswith(
            "means, tests and intervals are weighted by query_weight: 2 queries count as 2"
        )
        assert found.summary("a").mean == 0.625  # (3 * 1/2 + 1 * 1) / 4
        assert np.isnan(found.summary("a").ci_low), "16 / 10 queries of equal weight have no spread"
        assert weighted_comparison([2, 2]).cautions == ()  # the same for all: the mean is the same

    def test_unknown_k_says_what_there_is(self) -> None:
        with pytest.raises(NotComparableError, match="has no ndcg@20, and its ndcg@10 is not comparable"):
            compare({"a": evaluation(1)}, metrics=["ndcg@20"])


class TestTables:
    def test_index_or_column(self) -> None:
        ev = evaluation(1)
        result = compare({"frame": ev.frame(), "evaluation": ev})
        assert result.paired("evaluation").ties == 35

    def test_columns_that_are_no_metric_are_named(self) -> None:
        frame = table("abc", ndcg_10=[1, 0, 0.5]).assign(market=["de", "fr", "de"])
        result = compare({"x": frame})
        assert "x: ignored, not a metric: market" in [*map(str, result.cautions)]
        assert result.system("x").query_attributes["market"].tolist() == ["de", "fr", "de"]

    def test_facts_of_labels_before_the_metrics_are_facts_and_no_metrics(self) -> None:
        frame = pd.DataFrame(
            {"query_id": list("abc"), "rows": [5, 7, 9], "n_relevant": [1, 0, 2], "mrr": [1, 0, 0.5]}
        )
        result = compare({"x": frame})
        assert (result.metrics, result.cautions) == (("mrr",), ())
        assert result.system("x").query_attributes["rows"].tolist() == [5, 7, 9]

    @pytest.mark.parametrize(
        ("frame", "message"),
        [
            (table("ab", ndcg_10=[1, 0]).rename(columns={"query_id": "who"}), "x: no column query_id"),
            (table("aa", ndcg_10=[1, 0]), "x: query 'a' has several rows"),
            (table("ab"), r"x: no column is a metric \(columns: none\)"),
            (table("ab", ndcg_10=["high", "low"]), "x: column ndcg@10 has a value that is not a number"),
        ],
    )
    def test_faults(self, frame: object, message: str) -> None:
        with pytest.raises(DataError, match=message):
            compare({"x": frame})

    @pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
    def test_files(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"mine{suffix}"
        frame = table(["007", "8"], ndcg_10=[1.0, 0.5])
        if suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, sep="," if suffix == ".csv" else "\t", index=False)
        result = compare(path)
        assert result.models == ("mine",)
        assert result.systems[0].query_ids.tolist() == ["007", "8"]

    @pytest.mark.parametrize("name", ["qid", "search_id", "Query-ID"])
    def test_the_query_by_any_of_its_usual_names(self, tmp_path: Path, name: str) -> None:
        frame = table(["007", "8"], ndcg_10=[1.0, 0.5])
        frame.rename(columns={"query_id": name}).to_csv(tmp_path / "theirs.csv", index=False)
        indexed = frame.rename(columns={"query_id": name}).set_index(name)
        result = compare(tmp_path / "theirs.csv", {"ours": frame, "indexed": indexed})
        assert [one.query_ids.tolist() for one in result.systems] == [["007", "8"]] * 3
        assert not any("no metric" in note for note in map(str, result.cautions))

    @pytest.mark.long
    def test_frames_of_other_libraries(self) -> None:
        polars = pytest.importorskip("polars")
        frame = table("abcd", ndcg_10=[1, 0, 0.5, None], n_relevant=[1, 1, 2, 0])
        others = {"polars": polars.from_pandas(frame), "arrow": pa.Table.from_pandas(frame)}
        expected = compare({"pandas": frame, "again": frame})
        for name, other in others.items():
            result = compare({"pandas": frame, "again": other})
            assert result.frame().equals(expected.frame()), name
        assert compare(others["polars"], others["arrow"]).models == ("scores 1", "scores 2")
        with pytest.raises(DataError, match="x: no column query_id \\(columns: who, ndcg@10\\)"):
            compare({"x": polars.DataFrame({"who": ["a"], "ndcg@10": [1.0]})})


class TestNamesOfOtherTools:
    """`nDCG@5` of ir_measures has linear gain, our `ndcg@5` an exponential one: one is never called the other."""

    frame = pd.DataFrame(
        {"query_id": ["1", "2"], "nDCG@5": [0.5, 1.0], "RR@10": [1.0, 0.5], "ndcg_cut_5": [0.5, 1.0]}
    )

    def test_they_are_kept_under_a_name_that_no_definition_claims(self) -> None:
        better = self.frame.assign(**{"nDCG@5": [0.6, 1.0]})
        result = compare({"a": self.frame, "b": better})
        assert result.metrics == ("foreign:nDCG@5", "foreign:RR@10", "foreign:ndcg_cut_5")
        assert result.paired("b", "foreign:nDCG@5").difference == pytest.approx(0.05)
        for metric in result.metrics:
            with pytest.raises(MetricError):
                parse_metric(metric)
        assert (
            "a: nDCG@5 as foreign:nDCG@5, RR@10 as foreign:RR@10, ndcg_cut_5 as foreign:ndcg_cut_5: another tool's "
            "name, compared under that tool's definition; convention='ir_measures' or "
            "convention='pytrec_eval' or convention='trec_eval' defines nDCG@5, ndcg_cut_5"
            in [*map(str, result.cautions)]
        )

    def test_named_by_the_user_they_are_found(self) -> None:
        for name in ("nDCG@5", "foreign:nDCG@5"):
            assert compare({"a": self.frame}, metrics=[name]).metrics == ("foreign:nDCG@5",)
        with pytest.raises(NotComparableError, match="has no ndcg@5"):
            compare({"a": self.frame}, metrics=["ndcg@5"])

    def test_never_beside_ours(self) -> None:
        ours = pd.DataFrame({"query_id": ["1", "2"], "ndcg@5": [0.4, 1.0]})
        for inputs in ({"ours": ours, "theirs": self.frame}, {"theirs": self.frame, "ours": ours}):
            with pytest.raises(
                NotComparableError, match=r"another tool's name, whose definition is not known.*convention="
            ):
                compare(inputs)

    @pytest.mark.parametrize("name", ["NDCG@5", "P@5", "p@5", "AP", "ap@10", "rr", "hit_rate@3", "MAP"])
    def test_neither_capitals_nor_aliases_are_ours(self, name: str) -> None:
        frame = pd.DataFrame({"query_id": ["1", "2"], name: [0.4, 1.0]})
        assert compare(frame).metrics == (f"foreign:{name}",)

    @pytest.mark.parametrize("name", ["ndcg@5", "ndcg(gain=exp)@5", "ndcg(as=lightgbm)@5", "rbp(p=0.8)"])
    def test_what_the_grammar_spells_is_ours(self, name: str) -> None:
        frame = pd.DataFrame({"query_id": ["1", "2"], name: [0.4, 1.0]})
        assert compare(frame).metrics == (str(parse_metric(name)),)

    def test_a_convention_says_what_they_mean(self) -> None:
        result = compare({"a": self.frame}, convention="ir_measures")
        assert result.metrics == (
            str(parse_metric("ndcg(as=ir_measures)@5")),
            "foreign:RR@10",
            "foreign:ndcg_cut_5",
        )
        assert (
            "a: as ir_measures names metrics, nDCG@5 is ndcg(empty=zero,gain=linear,score_precision=float32,ties=id)@5"
            in [*map(str, result.cautions)]
        )
        result = compare({"a": self.frame}, convention="pytrec_eval")
        assert result.metrics == (
            "foreign:nDCG@5",
            "foreign:RR@10",
            str(parse_metric("ndcg(as=pytrec_eval)@5")),
        )

    def test_a_tool_that_writes_our_names_has_its_own_meaning(self) -> None:
        frame = pd.DataFrame({"query_id": ["1", "2"], "ndcg@5": [0.4, 1.0]})
        assert compare(frame, convention="ranx").metrics == ("ndcg(empty=zero,gain=linear)@5",)

    def test_theirs_and_ours_by_one_definition(self) -> None:
        labels, scores, queries = [2, 0, 1, 1], [3, 2, 1, 4], ["1", "1", "1", "2"]
        ev = evaluate(
            labels,
            scores,
            query_ids=queries,
            metrics=["ndcg(as=ir_measures)@5"],
            document_ids=list("abcd"),
        )
        theirs = pd.DataFrame({"query_id": ["1", "2"], "nDCG@5": [2.5 / (2 + 1 / np.log2(3)), 1.0]})
        result = compare({"ours": ev, "theirs": theirs}, convention="ir_measures")
        assert result.paired("theirs").difference == pytest.approx(0, abs=1e-15)

    def test_unknown_or_idle_conventions_are_refused(self) -> None:
        with pytest.raises(UsageError, match="'ir-measures' is not known; did you mean 'ir_measures'"):
            compare(self.frame, convention="ir-measures")
        with pytest.raises(UsageError, match="convention='ranx' is about tables, and none is given"):
            compare(evaluation(1), convention="ranx")

    def test_two_columns_of_one_metric_are_refused(self) -> None:
        frame = pd.DataFrame({"query_id": ["1"], "ndcg@5": [0.4], "ndcg(gain=exp)@5": [0.5]})
        with pytest.raises(
            DataError, match=r"a: columns ndcg@5 and ndcg\(gain=exp\)@5 are one metric, ndcg@5"
        ):
            compare({"a": frame})
        twice = pd.DataFrame([["1", 0.4, 0.5]], columns=["query_id", "mrr", "mrr"])
        with pytest.raises(DataError, match="a: has several columns mrr"):
            compare({"a": twice})

    @pytest.mark.long
    def test_the_report_claims_no_definition(self, tmp_path: Path) -> None:
        result = compare({"a": self.frame, "b": self.frame}, metrics=["nDCG@5"])
        write_report(ReportData(result, [], [], None, "tables"), tmp_path, ["md", "json"])
        text = (tmp_path / "report.md").read_text()
        assert "Computed elsewhere, by an unknown definition. At K = 5." in text
        assert "2^g" not in text
        assert compare(tmp_path / "report.json").metrics == ("foreign:nDCG@5",)


class TestRuns:
    @pytest.mark.long
    def test_end_to_end_over_seeds_and_folds(self, write_run: WriteRun) -> None:
        rng = np.random.default_rng(0)
        runs = []
        for number, fold in enumerate(("fold1", "fold2")):
            ids = range(number * 100, number * 100 + 100)
            base = rng.random(100) * 0.5
            relevant = rng.integers(1, 5, 100)
            for model, shift in (("lgbm", 0.0), ("xgb", 0.1)):
                for seed in (1, 2, 3):
                    values = base + shift + rng.normal(0, 0.05, 100)
                    frame = table(ids, ndcg_10=values, mrr_10=rng.random(100), n_relevant=relevant)
                    runs.append(write_run(model, frame, fold=fold, seed=seed))
        result = compare(*runs)
        assert result.models == ("lgbm", "xgb")
        assert (result.primary, result.baseline, result.n_queries) == ("ndcg@10", "lgbm", 200)
        pair = result.paired("xgb")
        assert pair.verdict == "better"
        assert pair.seed_agreement == 1.0
        assert 0 < pair.ci_low <= pair.trained_ci_low < pair.difference < pair.trained_ci_high <= pair.ci_high
        again = compare(runs[0].path.parent)
        assert again.frame().equals(result.frame())
        assert compare(*(run.path for run in runs)).verdict == result.verdict
        assert compare(runs).verdict == result.verdict

    def test_different_primaries_need_a_decision(self, write_run: WriteRun) -> None:
        frame = table("ab", ndcg_10=[1, 0.5], mrr_10=[1, 0.2])
        one = write_run("a", frame)
        other = write_run("b", frame, primary="mrr@10")
        with pytest.raises(
            NotComparableError, match=r"different primary metrics: ndcg@10, mrr@10.*metrics=\['ndcg@10'\]"
        ):
            compare(one, other)
        assert compare(one, other, metrics=["mrr@10", "ndcg@10"]).primary == "mrr@10"

    def test_two_experiments_at_two_k(self, write_run: WriteRun) -> None:
        one = write_run("a", table("ab", ndcg_10=[1, 0.5]), experiment="x")
        other = write_run("b", table("ab", ndcg_5=[1, 0.5]), experiment="y", primary="ndcg@10")
        with pytest.raises(NotComparableError, match="b: ndcg@5 against ndcg@10 of a: not comparable"):
            compare(one, other)

    def test_runs_beside_evaluations(self, write_run: WriteRun) -> None:
        ev = evaluation(1, metrics=["ndcg@10"])
        frame = ev.frame().reset_index().astype({"query_id": str})
        run = write_run("trained", frame, labels=ev.judgments_fingerprint)
        result = compare({"live": ev}, run, metrics=["ndcg@10"])
        assert result.models == ("live", "trained")

    def test_one_name_twice(self, write_run: WriteRun) -> None:
        run = write_run("a", table("ab", ndcg_10=[1, 0.5]))
        with pytest.raises(NotComparableError, match="a: two results have this name"):
            compare({"a": table("ab", ndcg_10=[1, 0.5])}, run)


class TestFaults:
    def test_paths(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no such file or folder"):
            compare(tmp_path / "nothing")
        with pytest.raises(DataError, match="contains no run"):
            compare(tmp_path)
        (tmp_path / "x.pkl").write_bytes(b"")
        with pytest.raises(DataError, match=r"cannot tell what a \.pkl is"):
            compare(tmp_path / "x.pkl")

    @pytest.mark.parametrize("value", [3, None, [], np.ones(3)])
    def test_things_that_cannot_be_compared(self, value: object) -> None:
        with pytest.raises(UsageError, match="cannot compare"):
            compare({"x": value})


def test_one_long_id_of_a_table_takes_no_memory_for_all() -> None:
    frame = pd.DataFrame({"query_id": ["x" * 100_000, *map(str, range(50_000))], "mrr": 1.0})
    with pytest.raises(DataError, match=r"a: query_id\[0\] has 100,000 characters; expected at most 1,000"):
        compare({"a": frame})


@pytest.mark.parametrize("start", [dict, list])
def test_what_contains_itself_is_refused(start: Any) -> None:
    endless = start()
    if isinstance(endless, dict):
        endless["a"] = endless
    else:
        endless.append(endless)
    with pytest.raises(
        UsageError, match="scores 1 contains itself, or is nested too deep; expected runs, run folders"
    ):
        compare(endless)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "b: holds no query; expected one row per query"),
        (
            [0.5, np.inf, -np.inf],
            "b: ndcg@10 of query '1' is infinite, as of 1 more; expected a finite number",
        ),
        ([0.5, 0.5, -1e200], "b: ndcg@10 of query '2' is -1e+200; expected a finite number up to 1e+60"),
    ],
)
def test_tables_without_queries_and_with_values_beyond_computing(values: list[float], said: str) -> None:
    good = pd.DataFrame({"query_id": ["0", "1", "2"], "ndcg@10": [0.1, 0.2, 0.3]})
    bad = pd.DataFrame({"query_id": [str(at) for at in range(len(values))], "ndcg@10": np.array(values)})
    with pytest.raises(DataError, match=re.escape(said)):
        compare({"a": good, "b": bad})


def test_a_time_that_pandas_cannot_compute_is_no_number() -> None:
    times = pc.run_end_encode(pa.array([0, -(2**62)], pa.timestamp("s", "Asia/Kolkata")))
    odd = pa.table({"query_id": ["q", "r"], "ndcg@10": times})
    good = pd.DataFrame({"query_id": ["q", "r"], "ndcg@10": [0.1, 0.2]})
    with pytest.raises(DataError, match="b: column ndcg@10"):
        compare({"a": good, "b": odd.to_pandas(types_mapper=pd.ArrowDtype)})


def test_a_column_whose_name_is_half_a_character() -> None:
    tables = {name: table(range(9), mrr=np.linspace(0.1, 0.9, 9), part=0) for name in "ab"}
    tables["b"].columns = pd.Index([*tables["b"].columns[:-1], "\ud800"], dtype=object)
    with pytest.raises(DataError, match=r"b: the name of the column '\\ud800' is not Unicode text"):
        compare(tables)
