"""`predict` and `show importance|why|trees`: a stored model at work, as the user sees it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import load_run, run_experiment
from ltr_harness._util.number_text import plain_number
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import DataError

pytestmark = pytest.mark.long


Cli = Callable[..., tuple[int, str, str]]


def rows_of(seed: int, n_queries: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 12, n_queries)
    n = int(sizes.sum())
    frame = pd.DataFrame({"query_id": np.repeat([f"q{i}" for i in range(n_queries)], sizes)})
    frame["bm25"], frame["visits"], frame["noise"] = rng.normal(size=(3, n))
    frame["label"] = np.clip(np.round(frame.bm25 + 0.5 * frame.visits + 0.5 * rng.normal(size=n)), 0, 3)
    frame["doc"] = [f"d{i}" for i in range(n)]
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, module_without_report: None) -> Path:
    """Two boosted models, a baseline and scores from elsewhere, trained on tables."""
    root = tmp_path_factory.mktemp("model")
    for name, seed, n in (("train", 1, 80), ("valid", 2, 30), ("test", 3, 40)):
        rows_of(seed, n).to_csv(root / f"{name}.csv", index=False)
    test = rows_of(3, 40)
    neural = test[["query_id", "doc"]].rename(columns={"doc": "document_id"}).assign(score=test.bm25)
    others = pd.DataFrame({"query_id": ["zz"], "document_id": ["d0"], "score": [1.0]})
    pd.concat([others, neural.sample(frac=1, random_state=0)]).to_parquet(root / "neural.parquet")
    lgbm = {"num_leaves": 7, "min_data_in_leaf": 5, "bagging_fraction": 0.8, "bagging_freq": 1}
    result = run_experiment(
        {
            "name": "model",
            "data": {
                "reader": "csv",
                "root": str(root),
                "document_id": "doc",
                "splits": {"train": "train.csv", "valid": "valid.csv", "test": "test.csv"},
            },
            "metrics": {"cutoffs": [3], "report": ["ndcg", "mrr"], "primary": "ndcg@3"},
            "stopping": {"metric": "ndcg@3", "patience": 5, "max_rounds": 30},
            "report": {"formats": ["json"]},
            "models": {
                "lgbm": {"ranker": "lightgbm", "params": lgbm, "exclude": ["noise"]},
                "xgb": {"ranker": "xgboost", "objective": "rank_xendcg", "params": {"max_depth": 3}},
                "bm25": {"ranker": "feature", "feature": "bm25"},
                "neural": {"ranker": "scores", "file": str(root / "neural.parquet")},
            },
        },
        runs=root / "runs",
    )
    assert not result.failures, [run.record.error for run in result.failures]
    return root


@pytest.fixture(scope="module", autouse=True)
def _few_calls() -> Iterator[None]:
    """No more calls are timed than one in a hundred needs; who reads the times would want more.

    Of several models half of the calls are timed however slow the machine is: so many have to be enough.
    """
    from ltr_harness.cli.commands import show_trees as trees
    from ltr_harness.experiments.runs.serving_cost import ENOUGH

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "_CALLS", ENOUGH)
        patch.setattr(trees, "_CALLS_OF_EACH", 9 * ENOUGH // 4)  # a twentieth warms up
        yield


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = run_command(cli, [str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def run_of(folder: Path, model: str) -> Path:
    [path] = (folder / "runs" / "model").glob(f"{model}--*")
    return path


class TestPredict:
    @pytest.mark.parametrize("model", ["lgbm", "xgb", "bm25"])
    def test_the_test_rows_get_the_stored_scores_whatever_the_columns_order(
        self, folder: Path, ltr: Cli, tmp_path: Path, model: str
    ) -> None:
        shuffled = rows_of(3, 40)[["noise", "visits", "doc", "label", "bm25", "query_id"]].assign(more=1.5)
        shuffled.to_csv(tmp_path / "new.csv", index=False)
        out = tmp_path / "scores.csv"
        run = run_of(folder, model)
        code, said, err = ltr("predict", run, tmp_path / "new.csv", "--column", "document_id=doc", "-o", out)
        assert (code, said) == (0, "")
        assert err == (
            f"note: {tmp_path / 'new.csv'}: ignored 1 column that {model} was not trained on: more\n"
            f"{len(shuffled):,} scores of 40 queries: {out}\n"
        )
        head, *rows = csv.reader(out.read_text().splitlines())
        assert head == ["query_id", "row", "document_id", "score"]
        assert [float(row[3]) for row in rows] == load_run(run).test_scores["score"].tolist()
        code, said, _ = ltr(
            "evaluate", "--data", tmp_path / "new.csv", "--scores", out, "-m", "ndcg@3", "--json"
        )
        assert code == 0
        assert f"{load_run(run).record.metrics['ndcg@3'].mean:.6f}"[:6] in said

    @pytest.mark.parametrize("suffix", [".npy", ".txt", ".parquet", ".tsv", ".run"])
    def test_every_kind_of_file_reads_back(self, folder: Path, ltr: Cli, tmp_path: Path, suffix: str) -> None:
        from ltr_harness.data.dataset import RankingDataset
        from ltr_harness.data.readers.csv import Csv
        from ltr_harness.models.scores import ScoresModel

        run, out = run_of(folder, "xgb"), tmp_path / f"scores{suffix}"
        assert ltr("predict", run, folder / "test.csv", "--column", "document_id=doc", "-o", out)[0] == 0
        split: RankingDataset = Csv(document_id="doc").read(["test.csv"], folder)
        np.testing.assert_array_equal(
            ScoresModel(file=out).score_split(split), load_run(run).test_scores["score"].to_numpy()
        )
        assert sorted(path.name for path in tmp_path.iterdir()) == [out.name]

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_rows_to_be_scored_need_no_labels(
        self, folder: Path, ltr: Cli, tmp_path: Path, suffix: str
    ) -> None:
        new = rows_of(3, 40).drop(columns="label")
        data = tmp_path / f"new.{suffix}"
        new.to_csv(data, index=False) if suffix == "csv" else new.to_parquet(data)
        run, out = run_of(folder, "lgbm"), tmp_path / "scores.npy"
        assert ltr("predict", run, data, "-o", out)[0] == 0
        assert np.load(out).tolist() == load_run(run).test_scores["score"].tolist()
        code, _, err = ltr("evaluate", "--data", data, "--scores", out, "-m", "ndcg@3")
        assert code == 2
        assert "has no column 'label'" in err

    def test_what_does_not_fit_is_said(self, folder: Path, ltr: Cli, tmp_path: Path) -> None:
        rows_of(3, 4).drop(columns="visits").to_csv(tmp_path / "less.csv", index=False)
        code, _, err = ltr("predict", run_of(folder, "lgbm"), tmp_path / "less.csv", "-o", tmp_path / "s.csv")
        assert code == 2
        assert "lacks the feature visits" in err
        assert not (tmp_path / "s.csv").exists()
        code, _, err = ltr("predict", run_of(folder, "lgbm"), folder / "test.csv", "-o", tmp_path / "s.xml")
        assert code == 2
        assert "unknown file type; expected one of .parquet, .csv" in err
        code, _, err = ltr("predict", run_of(folder, "lgbm"), folder / "test.csv", "-o", tmp_path / "s.run")
        assert code == 2
        assert "a TREC run names documents" in err


class TestRun:
    def test_a_run_is_shown_in_one_line_in_a_notebook_and_as_json(self, folder: Path, ltr: Cli) -> None:
        run = load_run(run_of(folder, "lgbm"))
        assert repr(run) == f"Run('lgbm', fold='all', seed={run.record.seed}, {run.path})"
        (name, summary), *_ = run.record.metrics.items()
        page = run._repr_html_()
        assert f"lgbm, fold all, seed {run.record.seed}: complete" in page
        cells = re.findall(r"<t[hd][^>]*>(?:<code>)?([^<\n]+)", page.split("<tbody>")[1])
        assert cells[:3] == [name, summary.mean_text, "36 of 40 queries"]
        assert f"folder: {run.path}" in page
        assert repr(run.record).startswith(f"Record('lgbm', fold='all', seed={run.record.seed}, complete, ")
        assert "parse_obj" not in dir(run.record)
        code, out, _ = ltr("show", "run", run.path, "--json")
        assert (code, json.loads(out)["identity"]) == (0, run.record.identity)

    def test_features_of_another_width_are_refused(self, folder: Path) -> None:
        found = r"features of shape \(2, 5\); lgbm was trained on 3 columns: expected shape \(n_rows, 3\)"
        with pytest.raises(DataError, match=found):
            load_run(run_of(folder, "lgbm")).score(np.ones((2, 5)))


class TestImportance:
    @pytest.mark.parametrize("model", ["lgbm", "xgb"])
    def test_what_counts_comes_first_and_what_is_not_used_counts_nothing(
        self, folder: Path, ltr: Cli, model: str
    ) -> None:
        code, out, _ = ltr("show", "importance", run_of(folder, model), "--json")
        assert code == 0
        effects = {one["feature"]: one for one in json.loads(out)["features"]}
        assert next(iter(effects)) == "bm25"
        assert effects["bm25"]["low"] > 0
        assert effects["bm25"]["low"] < effects["bm25"]["loss"] < effects["bm25"]["high"]
        if model == "lgbm":
            assert (effects["noise"]["loss"], effects["noise"]["split"]) == (0, 0)
        assert sum(one["gain"] for one in effects.values()) == pytest.approx(1)

    def test_the_table(self, folder: Path, ltr: Cli) -> None:
        code, out, err = ltr("show", "importance", run_of(folder, "lgbm"), "--top", 2, "-m", "mrr@3")
        assert code == 0
        assert out.splitlines()[0].split() == [
            "feature",
            "loss",
            "of",
            "mrr@3",
            "95",
            "%",
            "interval",
            "gain",
            "split",
        ]
        assert out.splitlines()[1].startswith("bm25 ")
        assert err == "1 more feature; --top shows more\n"


class TestWhy:
    @pytest.mark.parametrize("model", ["lgbm", "xgb"])
    def test_reasons_sum_to_the_difference_of_the_scores(self, folder: Path, ltr: Cli, model: str) -> None:
        run = run_of(folder, model)
        scores = load_run(run).test_scores
        code, out, _ = ltr("show", "why", run, "--query", "q5", "--rows", 0, 1, "--json")
        assert code == 0
        found = json.loads(out)
        assert found["scores"] == scores[scores.query_id == "q5"].score.tolist()[:2]
        total = sum(reason["difference"] for reason in found["reasons"])
        assert total == pytest.approx(found["scores"][0] - found["scores"][1], abs=1e-5)

    def test_without_rows_it_is_the_first_two_of_the_ranking(self, folder: Path, ltr: Cli) -> None:
        code, out, _ = ltr("show", "why", run_of(folder, "xgb"), "--query", "q5")
        assert code == 0
        assert out.startswith("query q5: row ")
        assert " stands above row " in out or " stands level with row " in out
        short = ltr("show", "why", run_of(folder, "xgb"), "--query", "q5", "--top", 1)[1]
        (last,) = [line for line in short.splitlines() if "more features together" in line]
        listed = [float(line.split()[-1]) for line in out.splitlines()[2:]]
        assert float(last.split()[-1]) == pytest.approx(sum(listed[1:]), abs=2e-4)

    def test_misuse_is_said(self, folder: Path, ltr: Cli) -> None:
        for model, arguments, text in (
            ("xgb", ("--query", "q999"), "there is no query 'q999' among the 40"),
            ("xgb", ("--query", "q5", "--rows", 0, 99), "query 'q5' has no row 99; expected 0 to "),
            ("bm25", ("--query", "q5"), "only models of trees divide their scores among features"),
        ):
            code, _, err = ltr("show", "why", run_of(folder, model), *arguments)
            assert (code, text in err) == (2, True), err


@pytest.fixture(scope="module")
def trees(folder: Path) -> dict[str, Any]:
    """Return the output of `show trees` by boosted model: one with named metrics, one with short lists."""
    found = {}
    for model, more in (("lgbm", ("-m", "ndcg@3", "-m", "mrr@3")), ("xgb", ("--documents", "20"))):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert run_command(cli, ["show", "trees", str(run_of(folder, model)), "--json", *more]) == 0
        found[model] = json.loads(said.getvalue())
    return found


class TestTrees:
    @pytest.mark.parametrize("model", ["lgbm", "xgb"])
    def test_all_trees_give_the_runs_own_numbers(
        self, folder: Path, trees: dict[str, Any], model: str
    ) -> None:
        record, found = load_run(run_of(folder, model)).record, trees[model]
        assert [cut["rounds"] for cut in found["cuts"]] == list(range(1, (record.best_round or 0) + 1))
        assert found["cuts"][-1]["ndcg@3"] == pytest.approx(record.metrics["ndcg@3"].mean, abs=1e-12)
        assert found["leaves"] == record.n_leaves
        assert found["microseconds_per_row"] > 0

    def test_the_metrics_are_those_that_were_named(self, trees: dict[str, Any]) -> None:
        assert set(trees["lgbm"]["cuts"][0]) == {"rounds", "ndcg@3", "mrr@3", "p50"}
        assert set(trees["xgb"]["cuts"][0]) == {"rounds", "ndcg@3", "p50"}

    def test_what_a_list_takes(self, trees: dict[str, Any]) -> None:
        found = trees["xgb"]
        assert found["documents"] == 20
        assert all(cut["p50"] > 0 for cut in found["cuts"])
        assert [(one["runtime"], one["documents"]) for one in found["latency"]] == [
            ("xgboost", documents) for documents in (10, 100, 1000)
        ]
        assert all(0 < one["p50"] <= one["p99"] for one in found["latency"] if one["p99"] is not None)

    def test_the_tables(self, folder: Path, ltr: Cli) -> None:
        code, out, err = ltr("show", "trees", run_of(folder, "lgbm"), "-m", "ndcg@3")
        cuts, times = (part.splitlines() for part in out.split("\n\n"))
        assert code == 0
        assert cuts[0].split("  ")[-1] == "p50 of 100 documents, µs"
        assert times[0].split() == ["runtime", "documents", "p50,", "µs", "p99,", "µs"]
        assert [line.split()[:2] for line in times[1:4]] == [["lightgbm", n] for n in ("10", "100", "1,000")]
        assert " µs per row with " in err

    def test_several_runs_need_a_budget(self, folder: Path, ltr: Cli) -> None:
        code, _, err = ltr("show", "trees", run_of(folder, "lgbm"), run_of(folder, "xgb"))
        assert code == 2
        assert "2 runs without --budget; expected one, or the time that a query may take" in err

    def test_a_baseline_has_none(self, folder: Path, ltr: Cli) -> None:
        code, _, err = ltr("show", "trees", run_of(folder, "bm25"))
        assert code == 2
        assert "only models of trees can be cut" in err


class TestBudget:
    def test_with_time_enough_it_is_the_best_cut_of_all(
        self, folder: Path, ltr: Cli, trees: dict[str, Any]
    ) -> None:
        code, out, err = ltr("show", "trees", folder / "runs" / "model", "--budget", "60s", "--json")
        found = json.loads(out)
        assert code == 0
        assert found["within"] == found["best"]
        assert found["paired"] is None
        assert (found["metric"], found["budget"], found["documents"]) == ("ndcg@3", "60s", 100)
        assert "note: neural, seed 1 is left out: scores from a file belong to its own rows" in err
        model = Path(found["best"]["run"]).name.partition("--")[0]
        assert max(cut["ndcg@3"] for cut in trees[model]["cuts"]) == found["best"]["mean"]
        assert found["best"]["p99"] >= found["best"]["p50"] > 0

    def test_what_is_lost_is_a_paired_difference_with_its_interval(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The worse of two models is chosen, whatever this machine's times are."""
        from ltr_harness.cli.commands import show_trees as trees
        from ltr_harness.experiments.runs.record import Latency
        from ltr_harness.experiments.runs.serving_cost import BudgetCandidate
        from ltr_harness.metrics import parse_metric

        ndcg = parse_metric("ndcg@3")
        models = trees.scored_models([run_of(folder, "xgb"), run_of(folder, "bm25")], [ndcg], None, False)
        best, worse = (
            BudgetCandidate(0, load_run(run_of(folder, "xgb")).record.best_round, 0.0),
            BudgetCandidate(1, None, 0.0),
        )
        pair = trees.compare_with_best(models, worse, best)
        assert pair is not None
        means = [
            load_run(run_of(folder, name)).record.metrics["ndcg@3"].mean or 0.0 for name in ("xgb", "bm25")
        ]
        assert pair.difference == pytest.approx(means[1] - means[0], abs=1e-12)
        assert pair.ci_low < pair.difference < pair.ci_high
        took = (
            Latency(documents=1, calls=400, p50=4.0, p99=5.0),
            Latency(documents=1, calls=90, p50=200.0, p99=None),
        )
        chosen = trees.TimedModel(models[1].run, BudgetCandidate(1, None, means[1]), took[0])
        slow = trees.TimedModel(models[0].run, BudgetCandidate(0, 12, means[0]), took[1])
        trees.print_choice(trees.BudgetChoice("9us", 1, chosen, slow, pair), ndcg)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == ["model", "rounds", "ndcg@3", "p50,", "µs", "p99,", "µs"]
        assert lines[1].split() == ["within", "9us", "bm25,", "seed", "1", "–", f"{means[1]:.4f}", "4", "5"]
        assert lines[2].split() == [
            "best",
            "of",
            "all",
            "xgb,",
            "seed",
            "1",
            "12",
            f"{means[0]:.4f}",
            "200",
            "–",
        ]
        assert lines[3] == (
            f"bm25, seed 1 is the best within 9us for 1 document: ndcg@3 {pair.difference:+.4f} (95 % interval "
            f"{pair.ci_low:+.4f} to {pair.ci_high:+.4f} over {pair.n} queries) against the best of all"
        )

    def test_nothing_within_is_exit_3(self, folder: Path, ltr: Cli) -> None:
        code, out, err = ltr(
            "show", "trees", run_of(folder, "lgbm"), "--budget", "0.001us", "--documents", 1000, "--json"
        )
        assert (code, out) == (3, "")
        assert (
            "--budget 0.001us: no model's p99 is within it for 1,000 documents; that of the fastest, lgbm, "
            in err
        )

    def test_misuse_is_said(self, folder: Path, ltr: Cli) -> None:
        code, _, err = ltr("show", "trees", run_of(folder, "lgbm"), "--budget", "5")
        assert (code, "--budget 5: has no unit; expected a time above 0 in us, ms or s" in err) == (2, True)
        code, _, err = ltr("show", "trees", run_of(folder, "neural"), "--budget", "5ms")
        assert code == 2
        assert "no run has a model that scores features; expected a trained one" in err

    def test_runs_of_other_test_queries_are_refused_unless_rows_are_given(
        self, folder: Path, ltr: Cli, tmp_path: Path
    ) -> None:
        other, record = tmp_path / "other", run_of(folder, "xgb") / "record.json"
        shutil.copytree(run_of(folder, "xgb"), other)
        content = json.loads(record.read_text())
        content["data"]["test"]["judgments_fingerprint"] = "0"
        (other / "record.json").write_text(json.dumps({**content, "primary": "mrr@3", "fold": "b"}))
        both = (run_of(folder, "xgb"), other)
        code, _, err = ltr("show", "trees", *both, "--budget", "60s")
        assert code == 2
        assert "the runs were tested on different queries (xgb, seed 1; xgb, fold b, seed 1)" in err
        given = (*both, "--budget", "60s", "--data", folder / "test.csv", "--column", "document_id=doc")
        code, _, err = ltr("show", "trees", *given)
        assert code == 2
        assert "the runs have different primary metrics (ndcg@3, mrr@3); name one with -m" in err
        code, out, _ = ltr("show", "trees", *given, "-m", "mrr@3")
        assert code == 0
        assert "is the best of all and within 60s for 100 documents" in out


@pytest.mark.parametrize(
    "command",
    [
        ["show", "importance"],
        ["show", "trees"],
        ["show", "trees", "--budget", "60s"],
        ["export", "model", "--to", "opensearch", "-o", "model.json"],
    ],
    ids=" ".join,
)
def test_a_metric_that_needs_a_scale_takes_the_largest_label_and_shows_it(
    folder: Path, ltr: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the notice of the library shows lines of its code
        code, out, _ = ltr(*command, run_of(folder, "lgbm"), "-m", "err@3")
    grade = plain_number(max(rows_of(3, 40).label))
    assert (code, f"err(max_grade={grade})@3" in out) == (0, True)


def test_scores_from_elsewhere_are_in_the_table_and_stay_in_the_run(folder: Path) -> None:
    run = load_run(run_of(folder, "neural"))
    bm25 = load_run(run_of(folder, "bm25"))
    assert run.record.metrics["ndcg@3"].mean == pytest.approx(bm25.record.metrics["ndcg@3"].mean, abs=1e-12)
    assert "model.scores.parquet" in run.record.files


def test_scores_that_do_not_cover_the_test_rows_stop_the_experiment_before_training(
    folder: Path, tmp_path: Path
) -> None:
    from ltr_harness.errors import UsageError

    table = pd.read_parquet(folder / "neural.parquet")
    table[table.document_id != "d7"].to_parquet(tmp_path / "less.parquet")
    with pytest.raises(UsageError, match=r"models.neural.file: .*less.parquet: 1 of \d+ rows have no score"):
        run_experiment(
            folder / "runs" / "model" / "experiment.yaml",
            overrides=[f"models.neural.file={tmp_path / 'less.parquet'}"],
            runs=tmp_path / "runs",
        )
    assert not (tmp_path / "runs").exists()


def test_show_worst_lists_the_lowest_defined_queries_and_any_metric(folder: Path, ltr: Cli) -> None:
    path = run_of(folder, "lgbm")
    run = load_run(path)
    code, said, _ = ltr("show", "worst", path, "-n", "3", "-m", "mrr@3", "--json")
    assert code == 0
    lowest = run.per_query.dropna(subset=["mrr@3"]).sort_values(["mrr@3", "query_id"]).head(3)
    assert [row["query_id"] for row in json.loads(said)] == list(lowest.query_id)
    code, said, _ = ltr("show", "worst", path)
    assert code == 0
    assert said.splitlines()[0].split() == ["query", "ndcg@3", "rows", "relevant"]
    assert len(said.splitlines()) == 11
    code, _, wrong = ltr("show", "worst", path, "-m", "ndcg@4")
    assert code == 2
    assert "the run has no metric 'ndcg@4'; did you mean 'ndcg@3'?" in wrong
