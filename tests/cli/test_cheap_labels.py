"""`compare-labels`: human labels of some queries, labels of another hand for many."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click import NoSuchOption

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison.cheap_labels import agreement_of, rows_among
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups

Cli = Callable[..., tuple[int, str, str]]

FROZEN = Path(__file__).parents[1] / "experiments" / "runs" / "frozen" / "v1"
N, HUMAN, ROWS = 300, 60, 8


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 queries whose cheap labels are right in 7 of 10 rows, the first 60 with human ones too; b is better."""
    folder = tmp_path_factory.mktemp("cheap")
    rng = np.random.default_rng(2)
    true = rng.integers(0, 4, (N, ROWS))
    cheap = np.clip(true + rng.choice([-1, 0, 1], (N, ROWS), p=[0.15, 0.7, 0.15]), 0, 3)
    scores = {name: true + rng.normal(0, sd, (N, ROWS)) for name, sd in (("a", 2.4), ("b", 1.4), ("c", 2.4))}

    def write(name: str, line: Callable[[int, int], str], queries: int) -> None:
        (folder / name).write_text("".join(line(q, i) + "\n" for q in range(queries) for i in range(ROWS)))

    for name, labels, queries in (("human", true, HUMAN), ("llm", cheap, N)):
        write(f"{name}.qrels", lambda q, i, labels=labels: f"{q} 0 d{i} {labels[q, i]}", queries)
        write(f"{name}.txt", lambda q, i, labels=labels: f"{labels[q, i]} qid:{q} 1:{i}", queries)
    for name, own in scores.items():
        write(f"{name}.run", lambda q, i, own=own, name=name: f"{q} Q0 d{i} 0 {own[q, i]:.9f} {name}", N)
        write(f"{name}.txt", lambda q, i, own=own: f"{own[q, i]:.9f}", N)
    return folder


@pytest.fixture
def run_cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, files: Path) -> Cli:
    """Without a metric."""
    monkeypatch.chdir(files)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, files: Path) -> Cli:
    monkeypatch.chdir(files)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, [*arguments, "-m", "ndcg@5"])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


QRELS = ("--qrels", "human.qrels", "--cheap", "llm.qrels")


@pytest.mark.long
def test_both_together_say_more_than_human_labels_alone(ltr: Cli) -> None:
    code, out, _ = ltr("compare-labels", "a.run", "b.run", "c.run", *QRELS, "--json")
    assert code == 0
    found = json.loads(out)["cheap_labels"]
    assert (found["n_human"], found["n_cheap"]) == (60, 240)
    pairs = {pair["model"]: pair for pair in found["pairs"]}
    better = pairs["b"]
    assert better["verdict"] == "better"
    assert better["ci_high"] - better["ci_low"] < 0.8 * (better["human_ci_high"] - better["human_ci_low"])
    assert better["queries_saved"] > 30
    assert pairs["c"]["verdict"] == "not distinguishable"
    words = " ".join(ltr("compare-labels", "a.run", "b.run", "c.run", *QRELS)[1].split())
    assert "b is better than a at ndcg@5 by human and cheap labels together: +0." in words
    assert "over 60 queries with human labels and 240 with cheap ones alone, worth" in words
    assert f"Human labels alone: {better['human_verdict']}, {better['human_difference']:+.4f}" in words
    assert "cheap and human labels agree with kappa 0." in words


@pytest.mark.long
def test_data_and_qrels_say_the_same(ltr: Cli) -> None:
    by_data = ltr("compare-labels", "a.txt", "b.txt", "--data", "human.txt", "--cheap", "llm.txt", "--json")
    by_qrels = ltr("compare-labels", "a.run", "b.run", *QRELS, "--json")
    assert by_data[0] == by_qrels[0] == 0
    assert json.loads(by_data[1])["cheap_labels"] == json.loads(by_qrels[1])["cheap_labels"]


@pytest.mark.long
def test_the_comparison_itself_is_that_of_human_labels(ltr: Cli) -> None:
    with_cheap, alone = (
        json.loads(ltr(*mode, "a.run", "b.run", "--qrels", "human.qrels", "--json")[1])
        for mode in (("compare-labels", "--cheap", "llm.qrels"), ("compare",))
    )
    assert with_cheap["pairs"] == alone["pairs"]
    assert "cheap_labels" not in alone


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.run", "b.run", *QRELS, "--fail-if", "ndcg@5 < baseline"), NoSuchOption("--fail-if").format_message()),
        (("a.run", "b.run", *QRELS, "--test", "bootstrap"), "bootstrap with cheap labels; expected"),
        (("a.run", "b.run", *QRELS, "--strict"), "bounded with cheap labels"),
        (("a.run", "b.run", *QRELS, "--margin", "0.1"), "equivalence with cheap labels"),
        (
            ("a.run", "b.run", "--qrels", "llm.qrels", "--cheap", "human.qrels"),
            "240 queries of 300 with human labels without any",
        ),
        (
            ("few_a.txt", "few_b.txt", "--data", "llm.txt", "--cheap", "human.txt"),
            "human.txt: 240 of 300 queries are missing, or have other rows, such as '60'",
        ),
        (("a.run", str(FROZEN), *QRELS), "v1 with --cheap; stored runs and tables have no values by cheap labels"),
        (("llm.qrels", "--cheap", "llm.qrels"), "--cheap without --data or --qrels"),
        (("some.csv", "--cheap", "llm.qrels"), "--cheap without --data or --qrels"),
    ],
)  # fmt: skip
def test_what_cheap_labels_do_not_go_with_is_refused(ltr: Cli, arguments: tuple[str, ...], said: str) -> None:
    for name in "ab":
        scores = Path(f"{name}.txt").read_text().splitlines(keepends=True)
        Path(f"few_{name}.txt").write_text("".join(scores[: HUMAN * ROWS]))
    Path("some.csv").write_text("query_id,ndcg@5\nq1,0.5\nq2,0.25\n")
    code, out, err = ltr("compare-labels", *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_a_draw_is_the_same_in_both_forms_and_nested(run_cli: Cli) -> None:
    draw = ("compare-labels", "--sample", "60", "--cheap")
    code, out, _ = run_cli(*draw, "llm.qrels")
    assert code == 0
    drawn = out.split()
    assert len(set(drawn)) == 60
    assert set(drawn) < set(map(str, range(N)))
    assert run_cli(*draw, "llm.txt")[1].split() == drawn
    assert run_cli("compare-labels", "--sample", "9", "--cheap", "llm.qrels")[1].split() == drawn[:9]
    assert json.loads(run_cli(*draw, "llm.qrels", "--json")[1]) == {"queries": drawn, "of": N}


@pytest.mark.long
def test_labels_of_drawn_queries_have_no_caution(ltr: Cli, run_cli: Cli) -> None:
    drawn = set(run_cli("compare-labels", "--sample", "60", "--cheap", "llm.qrels")[1].split())
    every = Path("llm.qrels").read_text().splitlines(keepends=True)
    Path("drawn.qrels").write_text("".join(line for line in every if line.split()[0] in drawn))
    said = {
        name: ltr("compare-labels", "a.run", "b.run", "--qrels", name, "--cheap", "llm.qrels")[1]
        for name in ("human.qrels", "drawn.qrels")
    }
    text = "it cannot be checked that these queries were drawn by chance"
    assert [text in " ".join(out.split()) for out in said.values()] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "--cheap llm.qrels --sample 300",
            "--sample 300: llm.qrels has 300 queries; expected fewer than it has",
        ),
        ("a.run --cheap llm.qrels --sample 9", "SCORES with --sample; expected --cheap alone"),
        ("--cheap llm.qrels --sample 9 -m ndcg", "--metrics with --sample"),
        ("--cheap llm.qrels --sample 9 --qrels human.qrels", "--qrels with --sample"),
        ("--cheap llm.qrels --sample 9 -o page", "--output with --sample"),
        ("--cheap llm.qrels --sample 0", "0 is not in the range x>=1"),
        ("--cheap a.txt --sample 9", "a.txt"),
        (
            "--cheap llm.qrels --qrels human.qrels",
            "SCORES: nothing to compare; expected files of scores, or runs",
        ),
    ],
)
def test_a_draw_is_of_cheap_labels_alone(run_cli: Cli, arguments: str, said: str) -> None:
    code, out, err = run_cli("compare-labels", *arguments.split())
    assert (code, out) == (2, "")
    assert said in err


def test_agreement_by_hand() -> None:
    """Three of four the same; by chance .5 * .25 + .25 * .25 + .25 * .5 = .3125: kappa (.75 - .3125) / .6875 = .636."""
    groups = QueryGroups.from_sizes([4])
    human, cheap = Judgments.checked([0, 0, 1, 2], groups), Judgments.checked([0, 2, 1, 2], groups)
    found = agreement_of(human, cheap, rows_among(human, cheap))
    assert found.rows == 4
    assert found.kappa == pytest.approx((0.75 - 0.3125) / 0.6875)
    assert [(one.grade, one.rows, one.same, one.mean) for one in found.grades] == [
        (0.0, 2, 0.5, 1.0),
        (1.0, 1, 1.0, 1.0),
        (2.0, 1, 1.0, 2.0),
    ]
    one = Judgments.checked([1, 1, 1, 1], groups)
    assert np.isnan(agreement_of(one, one, rows_among(one, one)).kappa)
    other = Judgments.checked([1, 0], QueryGroups.from_sizes([2]))
    assert (
        str(agreement_of(human, other, rows_among(human, other)))
        == "no row has both a human and a cheap label"
    )


def test_rows_are_found_by_document_or_by_place() -> None:
    human = Judgments.checked(
        [1, 0, 2], QueryGroups.from_sizes([2, 1], ["y", "z"]), document_ids=["b", "x", "a"]
    )
    cheap = Judgments.checked(
        [0, 1, 2, 2], QueryGroups.from_sizes([1, 3], ["z", "y"]), document_ids=["a", "a", "b", "c"]
    )
    assert rows_among(human, cheap).tolist() == [2, -1, 0]
    bare = Judgments.checked([0, 1, 2], QueryGroups.from_sizes([1, 2], ["z", "y"]))
    assert rows_among(human, bare).tolist() == [1, 2, 0]
