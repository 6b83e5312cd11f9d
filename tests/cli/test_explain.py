"""`ltr-harness explain`: one query's arithmetic, from files, TREC runs and run folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

Cli = Callable[..., tuple[int, str, str]]

DATA = "2 qid:7 1:0.5\n0 qid:7 1:0.1\n1 qid:9 1:0.4\n0 qid:9 1:0.2\n0 qid:9 1:0.3\n"


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text(DATA)
    (tmp_path / "scores.txt").write_text("1\n2\n1\n1\n0\n")

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = run_command(cli, [str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


FILES = ("--data", "data.txt", "--scores", "scores.txt")


def test_rows_ideal_result_and_other_tools(ltr: Cli) -> None:
    code, out, err = ltr("explain", "ndcg@2", "--query", "9", *FILES)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "scores, query 9: ndcg@2 = 0.8155"  # two tied: the mean of 1 and 1 / log2(3)
    assert lines[2].split() == [
        "rank",
        "tied",
        "ranks",
        "row",
        "label",
        "score",
        "gain",
        "discount",
        "contribution",
    ]
    assert lines[3].split() == ["1", "1-2", "1", "0", "1", "0", "1", "0.5000"]
    assert lines[4].split() == ["2", "1-2", "0", "1", "1", "1", "0.63093", "0.3155"]
    assert "(1 more document below the cutoff)" in out
    assert "ideal order of labels: 1 0" in out
    assert "lightgbm      1.0000  equal scores keep row order" in out
    assert "sklearn       0.8155  the same" in out


@pytest.mark.long
def test_everything_fits_80_columns(ltr: Cli, tmp_path: Path) -> None:
    names = [f"clueweb09-en{number:04}-{'x' * 40}" for number in range(30)]
    (tmp_path / "q").write_text("".join(f"9 0 {name} {at % 3}\n" for at, name in enumerate(names)))
    (tmp_path / "r").write_text("".join(f"9 Q0 {name} 0 {at // 2}.25 t\n" for at, name in enumerate(names)))
    for metric in (
        "ndcg@10",
        "map",
        "err@5",
        "kendall_tau_distance",
        "bpref",
        "mrr",
        "rbp(p=0.8)@10",
        "q@10",
    ):
        code, out, _ = ltr("explain", metric, "--query", "9", "--qrels", "q", "--run", "r")
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80
        assert not any(line != line.rstrip() for line in out.splitlines())


def test_json(ltr: Cli) -> None:
    code, out, _ = ltr("explain", "mrr", "--query", "7", *FILES, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["ranking"], found["query"], found["metric"], found["value"]) == ("scores", "7", "mrr", 0.5)
    assert [row[found["columns"].index("label")] for row in found["rows"]] == [0.0, 2.0]
    assert {preset["as"]: preset["value"] for preset in found["presets"]}["ranx"] == 0.5


def test_json_has_no_infinite_scores(ltr: Cli, tmp_path: Path) -> None:
    """They are null here as everywhere: they were the text "-inf" in a column of numbers."""
    (tmp_path / "two.txt").write_text("1 qid:1 1:0\n0 qid:1 1:0\n")
    (tmp_path / "scores.txt").write_text("1\n-inf\n")
    code, out, err = ltr(
        "explain", "mrr", "--query", "1", "--data", "two.txt", "--scores", "scores.txt", "--json"
    )
    assert code == 0, err
    found = json.loads(out)
    assert [row[found["columns"].index("score")] for row in found["rows"]] == [1.0, None]


def test_no_zero_has_a_sign(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "zeros.txt").write_text("".join(f"{grade} qid:1 1:0\n" for grade in (2, 0, 0, 2, 0, 1)))
    (tmp_path / "six.txt").write_text("6\n5\n4\n3\n2\n1\n")
    code, out, _ = ltr("explain", "ndcg", "--query", "1", "--data", "zeros.txt", "--scores", "six.txt")
    assert (code, "-0.0000" in out) == (0, False)


def test_several_rankings_one_after_the_other(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("2\n1\n1\n0\n0\n")
    code, out, _ = ltr("explain", "mrr", "--query", "7", *FILES, "--scores", "other.txt")
    assert code == 0
    assert "scores, query 7: mrr = 0.5000" in out
    assert "other, query 7: mrr = 1.0000" in out


def test_long_lists_are_cut_and_say_so(ltr: Cli) -> None:
    _, out, _ = ltr("explain", "map", "--query", "9", *FILES, "--rows", "1")
    assert "(2 more documents; --rows 0 shows all)" in out
    assert "ideal order of labels: 1 … (2 more)" in out
    _, out, _ = ltr("explain", "map", "--query", "9", *FILES, "--rows", "0")
    assert "more" not in out


def test_unlisted_and_unjudged_rows_of_a_trec_run(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "q").write_text("1 0 a 1\n1 0 b 1\n1 0 c 0\n")
    (tmp_path / "r").write_text("1 Q0 x 1 3 t\n1 Q0 a 2 2 t\n")
    _, out, _ = ltr("explain", "map", "--query", "1", "--qrels", "q", "--run", "r")
    assert "t, query 1: map = 0.2500" in out
    lines = [line.split() for line in out.splitlines()]
    assert lines[2][:7] == ["rank", "tied", "ranks", "document", "label", "score", "judged"]
    assert (lines[3][:4], lines[4][:5]) == (["1", "x", "0", "3"], ["2", "a", "1", "2", "yes"])
    assert "trec_eval      0.2500  the same" in out
    assert ["missed", "document", "label", "adds", "to", "min(R,", "K)"] in lines
    assert ["b", "1", "1"] in lines  # it has no rank
    assert "(1 missed document with the label 0)" in out
    _, out, _ = ltr("explain", "map", "--query", "1", "--qrels", "q", "--run", "r", "--json")
    found = json.loads(out)
    assert found["missed_columns"] == ["missed document", "label", "adds to min(R, K)"]
    assert found["missed"] == [["b", 1.0, 1.0], ["c", 0.0, 0.0]]


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_stored_run(ltr: Cli, tmp_path: Path) -> None:
    config = {
        "name": "tiny",
        "seeds": [1],
        "data": {
            "reader": "letor",
            "root": str(tmp_path),
            "max_grade": 4,
            "splits": {"train": "train.txt", "test": "data.txt"},
        },
        "metrics": {"cutoffs": [2], "report": ["err", "mrr"], "primary": "mrr@2"},
        "report": {"formats": ["json"]},
        "models": {"first": {"ranker": "feature", "feature": 1}},
    }
    (tmp_path / "train.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n")
    run_experiment(config, runs=tmp_path / "runs")
    (folder,) = (tmp_path / "runs" / "tiny").glob("first--*")
    code, out, err = ltr("explain", "err@2", "--query", "7", folder)
    assert (code, err) == (0, "")
    assert out.startswith("first, query 7: err(max_grade=4)@2 = 0.1875\n")  # the run's own scale: 3 / 16
    assert "expected document_ids" not in out  # nothing ties in this query
    code, _, err = ltr("explain", "err@2", "--query", "7", folder, *FILES)
    assert (code, "with --data; expected a run folder or files, not both" in err) == (2, True)


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_stored_run_keeps_its_document_ids(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 qid:1 1:0.5 #docid = x\n0 qid:1 1:0.1 #docid = y\n")
    (tmp_path / "test.txt").write_text("0 qid:7 1:0 #docid = a\n1 qid:7 1:0 #docid = b\n")
    config = {
        "name": "tiny",
        "data": {
            "reader": "letor",
            "root": str(tmp_path),
            "splits": {"train": "train.txt", "test": "test.txt"},
        },
        "metrics": {"cutoffs": [2], "report": ["mrr"], "primary": "mrr@2"},
        "report": {"formats": ["json"]},
        "models": {"first": {"ranker": "feature", "feature": 1}},
    }
    run_experiment(config, runs=tmp_path / "runs")
    (folder,) = (tmp_path / "runs" / "tiny").glob("first--*")
    _, out, _ = ltr("explain", "mrr@2", "--query", "7", folder)
    assert out.startswith("first, query 7: mrr@2 = 0.7500\n")
    assert "trec_eval     1.0000  equal scores: by document id, descending" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ndcg@2", "--query", "70", *FILES), "scores.txt: no query '70' among its 2; there is 7"),
        (("ndgc@2", "--query", "7", *FILES), "did you mean 'ndcg'?"),
        (("ndcg@2", "--query", "7"), "neither --data nor --qrels"),
        (("ndcg@2", "--query", "7", "nowhere"), "nowhere: no such run folder"),
        (("ndcg@2", "--query", "7", "."), "has no record.json"),
        (("ndcg@2", "--query", "7", *FILES, "--rows", "-1"), "--rows -1; expected 0 or more"),
    ],
)
def test_misuse_is_one_clear_message(ltr: Cli, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = ltr("explain", *arguments)
    assert (code, out) == (2, "")
    assert said in err


# --- without a query: the whole set


def test_the_whole_set_in_one_table(ltr: Cli) -> None:
    """Query 9 ties a 1 with a 0 at the top; query 7 is 1/log2(3) of its ideal, graded 2 and 0."""
    code, out, _ = ltr("explain", "ndcg@2", "--data", "data.txt", "--scores", "scores.txt")
    assert code == 0
    head, rest = out.split("\n\n")
    columns, *rows = rest.splitlines()
    mean = (1 / np.log2(3) + (1 + 1 / np.log2(3)) / 2) / 2
    over = "over 2 of 2 queries; from 0.6309 to 0.8155 over the orders of equal scores"
    assert " ".join(head.split()) == f"scores: ndcg@2 = {mean:.4f} {over}"
    assert columns.split() == ["as", "mean", "queries", "why"]
    found = {row.split()[0]: row.split(maxsplit=3)[1:] for row in rows if not row.startswith(" ")}
    stable = (1 / np.log2(3) + 1) / 2
    assert found["lightgbm"] == [f"{stable:.4f}", "2", f"equal scores keep row order ({stable - mean:+.4f})"]
    assert found["sklearn"] == [f"{mean:.4f}", "2", "the same"]
    assert found["trec_eval"][:2] == ["-", "-"]
    assert "expected document_ids, one per row" in " ".join(out.split())


def test_what_a_convention_does_to_the_mean_is_said_with_its_size(ltr: Cli) -> None:
    Path("two.txt").write_text("2 qid:1 1:0\n0 qid:1 1:0\n1 qid:1 1:0\n0 qid:2 1:0\n0 qid:2 1:0\n")
    Path("two.scores").write_text("1\n3\n2\n2\n1\n")
    code, out, _ = ltr("explain", "ndcg@3", "--data", "two.txt", "--scores", "two.scores", "--json")
    assert code == 0
    body = json.loads(out)
    d2, d3 = 1 / np.log2(3), 0.5
    exponential, linear = (d2 + 3 * d3) / (3 + d2), (d2 + 2 * d3) / (2 + d2)
    assert (body["mean"], body["n_queries"], body["n_undefined"]) == (
        pytest.approx(exponential, abs=1e-15),
        2,
        1,
    )
    tools = {preset["as"]: preset for preset in body["presets"]}
    assert tools["lightgbm"]["mean"] == pytest.approx((exponential + 1) / 2, abs=1e-15)
    assert tools["lightgbm"]["n_queries"] == 2
    assert tools["gdeval"]["n_queries"] == 1  # nothing ties, so ids are not needed; it drops query 2
    assert tools["sklearn"]["mean"] == pytest.approx(linear / 2, abs=1e-15)
    assert tools["sklearn"]["why"] == (
        f"no relevant document counts 0 ({-exponential / 2:+.4f}); a label gains its grade, not 2^grade - 1 "
        f"({linear - exponential:+.4f})"
    )


def test_the_whole_set_of_runs_and_of_a_metric_without_relatives(ltr: Cli, tmp_path: Path) -> None:
    Path("q").write_text("1 0 a 1\n1 0 b 0\n2 0 a 1\n")
    Path("t.run").write_text("1 Q0 b 1 2 t\n1 Q0 a 2 1 t\n2 Q0 a 1 1 t\n")
    Path("u.run").write_text("1 Q0 a 1 2 u\n2 Q0 a 1 1 u\n")
    code, out, _ = ltr("explain", "mrr", "--qrels", "q", "--run", "t.run", "--run", "u.run")
    assert code == 0
    assert [line for line in out.splitlines() if "mrr" in line] == [
        "t: mrr = 0.7500 over 2 of 2 queries",
        "u: mrr = 1.0000 over 2 of 2 queries",
    ]
    code, out, err = ltr("explain", "P_1", "--query", "1", "--qrels", "q", "--run", "t.run")
    assert "t, query 1: precision(empty=zero,ties=id)@1 = 0.0000" in out
    assert "note: P_1 of trec_eval is precision(empty=zero,ties=id)@1" in err
    code, out, _ = ltr("explain", "tau_ap", "--data", "data.txt", "--scores", "scores.txt")
    assert (code, out.splitlines()[-1:]) == (
        0,
        ["tau_ap is not a metric of any tool with known conventions"],
    )
    code, _, err = ltr("explain", "mrr", "--data", "data.txt", "--scores", "scores.txt", "--rows", "5")
    assert (code, "--rows without --query; the whole set is shown tool by tool" in err) == (2, True)
