"""`ltr-harness compare`: run folders, tables, score files and TREC runs; gates and exit codes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ltr_harness import compare, evaluate, load_run, run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.commands.compare import command
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import UsageError

Cli = Callable[..., tuple[int, str, str]]

N = 30
ROWS = "".join(f"{grade} qid:{q} 1:{grade + q / 100:g} 2:0.5\n" for q in range(N) for grade in (2, 1, 0))
CONFIG = {
    "name": "tiny",
    "seeds": [1, 2],
    "data": {"reader": "letor", "splits": {"train": "train.txt", "test": "data.txt"}},
    "metrics": {"cutoffs": [1, 3], "report": ["ndcg", "mrr"], "primary": "ndcg@3"},
    "models": {"good": {"ranker": "feature", "feature": 1}, "chance": {"ranker": "random"}},
    "report": {"formats": ["json"]},
}


@pytest.fixture(scope="module")
def stored_experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment's folder of runs, and files of scores beside its test data."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "train.txt").write_text(ROWS)
    (folder / "data.txt").write_text(ROWS)
    rng = np.random.default_rng(0)
    grades = np.tile([2.0, 1.0, 0.0], N)
    np.savetxt(folder / "fine.txt", grades)
    np.savetxt(folder / "poor.txt", -grades)
    np.savetxt(folder / "noisy.txt", grades + rng.normal(0, 0.8, grades.size))
    (folder / "qrels").write_text("".join(f"{q} 0 d{g} {g}\n" for q in range(N) for g in (2, 1, 0)))
    for name, sign in (("up", 1), ("down", -1)):
        lines = [f"{q} Q0 d{g} 0 {sign * g} {name}\n" for q in range(N) for g in (2, 1, 0)]
        (folder / f"{name}.run").write_text("".join(lines))
    config = CONFIG | {"data": {**CONFIG["data"], "root": str(folder)}}  # type: ignore[dict-item]
    run_experiment(
        config, runs=folder / "runs", accept=["leaking-feature", "identical-rows"]
    )  # always right, on what it saw
    return folder


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stored_experiment: Path) -> Cli:
    monkeypatch.chdir(stored_experiment)

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = run_command(cli, ["compare", *(str(argument) for argument in arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


SCORES = ("poor.txt", "noisy.txt", "fine.txt", "--data", "data.txt")


@pytest.mark.long
def test_an_experiments_runs(ltr: Cli) -> None:
    code, out, err = ltr("runs/tiny")
    assert (code, err) == (0, "")
    assert out.startswith("chance is worse than good by 0.2314 (95 % CI +")
    assert "(against good; n = 30)" in out
    assert [line.split()[0] for line in out.splitlines()[-4:]] == ["ndcg@1", "ndcg@3", "mrr@1", "mrr@3"]
    _, one, _ = ltr("runs/tiny", "-m", "mrr@1", "--baseline", "chance")
    words = " ".join(one.split())
    assert words.startswith("No clear winner: good leads chance by 0.3833 (95 % CI -")
    assert "p-values cover queries and seeds (`--verbose`" in words, (
        "two seeds of chance say little about chance"
    )
    assert "\nmean " not in one


@pytest.mark.long
def test_patterns_and_what_lies_beside_runs(ltr: Cli, stored_experiment: Path) -> None:
    expected = ltr("runs/tiny")[1]
    code, out, err = ltr("runs/tiny/*", "--baseline", "good")
    assert (code, out) == (0, expected)
    assert "runs/tiny/report is not a run and is skipped" in err
    shell = sorted(
        path.relative_to(stored_experiment) for path in (stored_experiment / "runs" / "tiny").iterdir()
    )
    assert ltr(*shell, "--baseline", "good") == (code, out, err)
    code, out, err = ltr("runs/tiny/good--*", "runs/tiny/chance--*")
    assert (code, out, err) == (0, expected, "")
    code, _, err = ltr("runs/tiny/experiment.yaml")
    assert (code, "no run among runs/tiny/experiment.yaml" in err) == (2, True)


@pytest.mark.long
def test_the_baseline_an_experiment_declares(ltr: Cli, stored_experiment: Path) -> None:
    text = (stored_experiment / "runs" / "tiny" / "experiment.yaml").read_text()
    assert "baseline: good" in text
    assert ltr("runs/tiny")[1].startswith("chance is worse than good by ")
    (stored_experiment / "runs" / "tiny" / "experiment.yaml").write_text(
        text.replace("baseline: good", "baseline: chance")
    )
    try:
        assert ltr("runs/tiny")[1].startswith("good is better than chance by ")
    finally:
        (stored_experiment / "runs" / "tiny" / "experiment.yaml").write_text(text)


@pytest.mark.long
def test_metrics_the_runs_were_not_evaluated_by_come_from_their_scores(
    ltr: Cli, stored_experiment: Path
) -> None:
    code, out, err = ltr("runs/tiny", "-m", "ndcg@2,err@3,mrr@1", "--json")
    assert code == 0
    assert err == (
        "note: ndcg@2, err(max_grade=2)@3: not among the runs' metrics, so it was computed from their stored scores\n"
    )
    found = json.loads(out)
    grades, ids = np.loadtxt(stored_experiment / "fine.txt"), np.repeat(np.arange(N), 3)
    asked = ["ndcg@2", "err(max_grade=2)@3", "mrr@1"]
    runs = [load_run(folder) for folder in sorted((stored_experiment / "runs/tiny").glob("chance--*"))]
    means = [
        evaluate(grades, run.test_scores["score"].to_numpy(), query_ids=ids, metrics=asked).means
        for run in runs
    ]
    stored_means = {(one["model"], one["metric"]): one["mean"] for one in found["summaries"]}
    for name in asked:
        mean = np.mean([own[name] for own in means])
        assert stored_means["chance", name] == pytest.approx(mean, abs=1e-12)
    code, out, _ = ltr("runs/tiny", "fine.txt", "--data", "data.txt", "-m", "map@2")
    assert (code, "fine" in out) == (0, True)


def test_score_files_beside_data(ltr: Cli) -> None:
    code, out, _ = ltr(*SCORES, "-m", "ndcg@3,err@1")
    assert code == 0
    assert out.startswith("fine is better than poor by 0.4131 (")
    assert "mean                  fine   noisy    poor\n" in out
    _, document, _ = ltr(*SCORES, "-m", "ndcg@3", "--baseline", "noisy.txt", "--json")
    found = json.loads(document)
    assert (found["baseline"], found["primary"], found["models"][0]) == ("noisy", "ndcg@3", "fine")


def test_trec_runs(ltr: Cli) -> None:
    code, out, _ = ltr(
        "--verbose",
        "down.run",
        "up.run",
        "--qrels",
        "qrels",
        "-m",
        "map",
        "--test",
        "t",
        "--confidence",
        "0.9",
    )
    assert code == 0
    assert "90 % interval" in out
    assert "paired t test" in out


def test_runs_and_score_files_over_the_same_test_data(ltr: Cli) -> None:
    code, out, _ = ltr("--verbose", "runs/tiny", "poor.txt", "--data", "data.txt")
    assert code == 0
    assert "poor" in out
    assert "at ndcg@3" in out  # what the runs declare
    (Path("other.txt")).write_text(ROWS.replace("2 qid:0 ", "1 qid:0 "))
    code, _, err = ltr("runs/tiny", "poor.txt", "--data", "other.txt", "-m", "ndcg@3")
    assert (code, "poor: the test data differ from those of good" in err) == (2, True)


def test_tables_written_by_evaluate(ltr: Cli, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("poor", "fine"):
        arguments = [
            "evaluate",
            "--data",
            "data.txt",
            "--scores",
            f"{name}.txt",
            "-m",
            "ndcg@3",
            "--per-query",
        ]
        assert run_command(cli, [*arguments, "--format", "csv"]) == 0
        (tmp_path / f"{name}.csv").write_text(capsys.readouterr().out)
    code, direct, _ = ltr("poor.txt", "fine.txt", "--data", "data.txt", "-m", "ndcg@3")
    of_tables = ltr(tmp_path / "poor.csv", tmp_path / "fine.csv")
    assert of_tables[0] == code == 0
    assert direct.startswith(of_tables[1])
    assert direct.removeprefix(of_tables[1]).startswith("ndcg@3: random order")  # which tables do not know


@pytest.mark.long
def test_a_report(ltr: Cli, tmp_path: Path) -> None:
    code, out, _ = ltr(*SCORES, "-m", "ndcg@3", "-o", tmp_path / "out")
    assert code == 0
    assert out.endswith(f"report: {tmp_path}/out/report.html\n")
    assert "noisy" in (tmp_path / "out" / "report.md").read_text()


# --- gates ---


def test_gates_pass_and_say_so(ltr: Cli) -> None:
    code, out, err = ltr(
        *SCORES, "-m", "ndcg@3", "--fail-if", "ndcg@3 < baseline", "--fail-if", "mrr of fine < 1"
    )
    assert code == 0
    assert "gate passed: ndcg@3 < baseline\ngate passed: mrr of fine < 1\n" in err
    assert "mrr " in out  # compared because a gate asks for it


def test_failed_gates_are_exit_3_with_a_line_each_after_the_table(ltr: Cli) -> None:
    gates = ("--fail-if", "ndcg@3 < baseline and significant", "--fail-if", "ndcg@3 > 2")
    code, out, err = ltr(*SCORES, "-m", "ndcg@3", "--baseline", "fine", *gates)
    assert code == 3
    assert out.startswith("All others are worse than fine; the closest, noisy, by 0.0503 (")
    lines = err.splitlines()
    assert lines[-4] == "gate passed: ndcg@3 > 2"
    assert lines[-3] == "2 problems:"
    for name, line in zip(("poor", "noisy"), lines[-2:], strict=True):
        assert line.startswith(f"  gate 'ndcg@3 < baseline and significant': {name}: ndcg@3 0.")
    code, out, _ = ltr(*SCORES, "-m", "ndcg@3", "--baseline", "fine", *gates, "--json")
    assert (code, [len(gate["failures"]) for gate in json.loads(out)["gates"]]) == (3, [2, 0])


def test_a_gate_with_a_margin_is_passed_only_by_proof(ltr: Cli) -> None:
    gates = (
        "--fail-if",
        "ndcg@3 of noisy < baseline - 0.05",
        "--fail-if",
        "ndcg@3 of noisy < baseline - 0.9",
    )
    code, _, err = ltr(*SCORES, "-m", "ndcg@3", "--baseline", "fine", *gates)
    assert code == 3
    assert "gate passed: ndcg@3 of noisy < baseline - 0.9\n" in err
    assert ": noisy: ndcg@3 < baseline fine - 0.05 cannot be excluded: 0." in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        (["ndgc@3 < baseline"], "gate 'ndgc@3 < baseline': unknown metric 'ndgc'; did you mean 'ndcg'?"),
        (["ndcg@3 of nobody < 1"], "no model 'nobody' in this comparison"),
        (["ndcg@3 < better"], "'better' is neither 'baseline' nor a number"),
        (["ndcg@3 !"], "cannot be read; expected METRIC"),
        (["x < 1", "ndcg@3 <", "y of z > baseline"], "3 problems:"),
        (["ndcg@3 of a < 1", "ndcg@3 of b < 1"], "2 problems:"),
    ],
)
def test_gates_that_mean_nothing_are_exit_2_and_print_nothing(ltr: Cli, gates: list[str], said: str) -> None:
    options = [part for gate in gates for part in ("--fail-if", gate)]
    code, out, err = ltr(*SCORES, "-m", "ndcg@3", *options)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.long
def test_a_gate_may_be_about_a_metric_that_was_not_stored(ltr: Cli) -> None:
    code, out, err = ltr("runs/tiny", "--fail-if", "map@3 > baseline")
    assert code == 0
    assert "map@3: not among the runs' metrics, so it was computed from their stored scores" in err
    assert out.startswith("chance is worse than good by 0.2314 (")  # what decides stays
    means = [line.split()[0] for line in out.splitlines()[-5:]]
    assert sorted(means) == ["map@3", "mrr@1", "mrr@3", "ndcg@1", "ndcg@3"]
    code, _, err = ltr("runs/tiny", "--fail-if", "map@3 < 0.99")
    assert code == 3
    assert "chance: map@3 " in err
    code, _, err = ltr("runs/tiny", "--fail-if", "mrr@1 > baseline")
    assert (code, "computed now" in err) == (0, False)
    code, _, err = ltr("runs/tiny/report", "--fail-if", "map@3 < baseline")  # no scores to compute it from
    assert (code, "map@3 was not compared; did you mean 'mrr@3'?" in err) == (2, True)


# --- misuse ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b""),
        ("t.csv", b"query_id,mrr\n1,2\n4,5,6,7,8\n"),
        ("t.csv", b"query_id,mrr\n1,2,3\n4,5,6\n"),
        ("t.csv", b"query_id,mrr\n\xff\xfe,1\n"),
        ("t.tsv", b""),
        ("t.parquet", b"PAR1 and nothing more"),
    ],
)
def test_tables_that_cannot_be_read_are_named(ltr: Cli, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    code, _, err = ltr(tmp_path / name)
    assert code == 2
    assert f"{name}: cannot be read as a table: " in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing",), "nothing: no such file or folder; expected run folders, saved comparisons, files of"),
        (("runs/none/*",), "runs/none/*: matches nothing"),
        (("runs",), "runs: contains no run"),
        (
            ("fine.txt", "up.run"),
            "fine.txt: is neither a run folder nor a table; expected --data FILE for scores",
        ),
        (("fine.txt", "--max-grade", "3"), "--max-grade without --data or --qrels"),
        (("runs/tiny", "--column", "label=x"), "--column without --data or --qrels"),
        (("runs/tiny", "--data", "data.txt"), "--data or --qrels without a file of scores"),
        (("runs/tiny", "--baseline", "god"), "no model 'god' to serve as the baseline; did you mean 'good'?"),
        (("runs/tiny", "-m", "ndcg(ties=id)@2"), "ties=id orders tied documents by document id"),
        (
            ("runs/tiny", "--test", "tt"),
            "unknown test 'tt'; did you mean 't'? (known: bootstrap, bounded, permutation, skew-adjusted, t)",
        ),
        (("runs/tiny", "--strict", "--test", "t"), "--strict with --test t; --strict is --test bounded"),
        (
            ("runs/tiny", "--strict", "-m", "dcg@2"),
            "dcg@2: test bounded, and the bounds of its values are not known; expected a metric of the harness whose "
            "values lie within bounds, such as ndcg@10; leave the metric out, or use test skew-adjusted",
        ),
        (
            ("runs/tiny", "--strict", "--unit", "user_id"),
            "test: bounded with unit 'user_id'; expected test permutation, skew-adjusted or t",
        ),
        (
            ("fine.txt", "data.txt", "--data", "data.txt"),
            "data.txt:1: the line has 4 fields, like all",
        ),
        (("up.run", "fine.txt", "--qrels", "qrels"), "fine.txt:1: the line has 1 field, like all"),
    ],
)
def test_misuse_is_one_clear_message(ltr: Cli, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = ltr(*arguments)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_saved_comparisons(ltr: Cli, stored_experiment: Path, tmp_path: Path) -> None:
    _, first, _ = ltr("runs/tiny", "-o", tmp_path / "week1")
    code, again, err = ltr(tmp_path / "week1" / "report.json")
    assert (code, err) == (0, "")
    assert again == first.partition("report: ")[0]
    assert ltr(tmp_path / "week1")[1] == ltr("runs/tiny/report")[1] == again  # an experiment keeps its own
    code, out, _ = ltr(
        tmp_path / "week1", "fine.txt", "--data", "data.txt", "-m", "ndcg@3", "-o", tmp_path / "2"
    )
    assert code == 0
    assert "(against good; n = 30)" in out
    assert "\nfine " in out
    assert "fine" in (tmp_path / "2" / "report.html").read_text(encoding="utf-8")
    _, both, _ = ltr(tmp_path / "week1", "runs/tiny", "-m", "ndcg@3", "--baseline", "week1/chance")
    assert "good, week1/good" not in both  # the same model twice: no difference to tell
    assert {"good", "chance", "week1/good", "week1/chance"} <= {
        line.split(" ")[0] for line in both.splitlines()
    }
    code, _, err = ltr(tmp_path / "week1", "fine.txt", "--data", "data.txt", "-m", "ndcg@2")
    assert code == 2
    assert "not comparable with that, because" in err


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_a_kept_model_is_not_taken_for_a_run_of_its_name(ltr: Cli, tmp_path: Path) -> None:
    """The experiment's own report beside its runs: only the runs have scores, configurations, costs."""
    code, _, _ = ltr("runs/tiny/report", "runs/tiny", "-m", "ndcg@3", "-o", tmp_path)
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert code == 0
    assert set(document["models"]) == {"good", "chance", "tiny/good", "tiny/chance"}
    assert {one["model"] for one in document["cost"]} == {"good", "chance"}
    assert document["other_tools"] == []  # some models' scores are not at hand


@pytest.mark.long
def test_a_json_file_without_values_is_refused(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text(ltr("runs/tiny", "--json")[1])
    code, out, err = ltr(tmp_path / "saved.json")
    assert (code, out) == (2, "")
    assert "there is no comparison.parquet beside it" in err


@pytest.mark.long
def test_tables_of_another_tool(ltr: Cli, tmp_path: Path) -> None:
    """nDCG@5 of ir_measures has linear gain; it went by our name, ndcg@5, without a word."""
    for name, value in (("a", 0.5), ("b", 0.7)):
        (tmp_path / f"{name}.csv").write_text(f"query_id,nDCG@5\n1,{value}\n2,1\n")
    tables = (tmp_path / "a.csv", tmp_path / "b.csv")
    code, out, _ = ltr(*tables, "--verbose")
    assert code == 0
    assert "foreign:nDCG@5" in out
    assert " ndcg@5" not in out
    assert "convention='ir_measures' defines nDCG@5" in " ".join(out.split())
    code, out, _ = ltr(*tables, "--convention", "ir_measures", "-m", "nDCG@5")
    assert (code, "ndcg(empty=zero,gain=linear,score_precision=float32,ties=id)@5" in out) == (0, True)
    code, _, err = ltr(*tables, "--fail-if", "nDCG@5 < 0.2")
    assert (code, "foreign:nDCG@5 has none here: --convention TOOL gives it one" in err) == (2, True)
    gate = "ndcg(as=ir_measures)@5 < 0.2"
    assert ltr(*tables, "--convention", "ir_measures", "--fail-if", gate)[0] == 0
    code, _, err = ltr("fine.txt", "--data", "data.txt", "-m", "ndcg@3", "--convention", "ranx")
    assert (code, "convention='ranx' is about tables, and none is given" in err) == (2, True)


def test_python_refuses_what_is_no_test() -> None:
    with pytest.raises(UsageError, match="test: unknown test 'wilcoxon'"):
        compare({"a": {}, "b": {}}, test="wilcoxon")  # type: ignore[arg-type]


def test_every_option_of_a_method_is_an_option_of_the_command() -> None:
    offered = {option.name: option for option in command.params}
    for field in dataclasses.fields(Method):
        assert offered[field.name].default == field.default
        assert offered[field.name].opts == [f"--{field.name}"]


def test_a_unit_is_an_attribute_of_the_data_or_a_column_of_tables(ltr: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    user = np.repeat([f"u{at}" for at in range(12)], 5)
    old = rng.uniform(0.3, 0.7, user.size)
    for name, values in (("old", old), ("new", old + 0.01 * rng.normal(size=user.size))):
        rows = "".join(f"{at},{user[at]},{value}\n" for at, value in enumerate(values))
        (tmp_path / f"{name}.csv").write_text(f"query_id,user_id,mrr\n{rows}")
    files = [str(tmp_path / f"{name}.csv") for name in ("old", "new")]
    code, out, _ = ltr(*files, "--unit", "user_id", "--json")
    body = json.loads(out)
    assert (code, body["unit"]) == (0, "user_id")
    assert any(
        note.startswith("tests and intervals go by user_id: 12 of 5 queries")
        for note in (one["text"] for one in body["cautions"])
    )
    code, _, err = ltr(*files, "--unit", "user")
    assert (code, "unit 'user': no query has an attribute 'user'" in err) == (2, True)
