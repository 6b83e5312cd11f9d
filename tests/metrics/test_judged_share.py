"""The share of judged documents beside every mean, and one caution where it is near 0 or unlike between two sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ltr_harness import compare, evaluate, evaluate_runs
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison.gates import parse_gate
from ltr_harness.metrics.core.judged_share import FEW_JUDGED, few_judged
from ltr_harness.testing import assert_not_worse

QUERIES = range(12)
QRELS = {f"q{query}": {f"d{at}": int(at < 3) for at in range(100)} for query in QUERIES}


def ranking(*documents: str) -> dict[str, dict[str, float]]:
    """The same documents for every query, the first of them first."""
    return {query: {name: -float(at) for at, name in enumerate(documents)} for query in QRELS}


OLD = ranking("d0", "d4", "d1", "d5")
NEW_IDS = ranking("x0", "x4", "x1", "x5")  # the corpus was cut again: nobody judged these
HALF = ranking("d0", "x4", "d1", "x5")


def kinds(cautions: object) -> list[str]:
    return [one.kind for one in cautions if one.kind == FEW_JUDGED]  # type: ignore[attr-defined]


def test_beside_the_mean() -> None:
    found = evaluate([1, 0, 0], [3, 2, 1], ["ndcg@2", "mrr"], group_sizes=[3], judged=[True, False, True])
    assert found["ndcg@2"].judged == 1 / 2
    assert found["mrr"].judged == 2 / 3
    assert str(found["ndcg@2"]) == "ndcg@2 1.0000 over 1 of 1 query; judged of the first 2: 50 %"
    assert str(found["mrr"]).endswith("; judged of the ranked documents: 67 %")
    assert evaluate([1, 0, 0], [3, 2, 1], ["ndcg@2"], group_sizes=[3])["ndcg@2"].judged is None


def test_a_ranking_of_which_nothing_is_judged() -> None:
    found = evaluate_runs(QRELS, {"old": OLD, "new": NEW_IDS}, ["ndcg@10", "ndcg@3"])
    assert "judged of the first 10: old 100 %, new 0 %\njudged of the first 3: old 100 %, new 0 %" in repr(
        found
    )
    assert kinds(found.cautions) == [FEW_JUDGED]
    comparison = compare(found, metrics=["ndcg@10"])
    [caution] = [one for one in comparison.cautions if one.kind == FEW_JUDGED]
    assert str(caution) == (
        "ndcg@10: judged of the first 10: old 100 %, new 0 %; unjudged documents count as not relevant, so "
        "ndcg@10 tells next to nothing where none is judged; judge the documents that are not; bpref looks at judged "
        "ones alone"
    )
    assert comparison.headline.text.endswith("; few documents are judged")
    assert comparison.headline.outcome == "worse"
    gate = parse_gate("ndcg@10 < baseline and significant")
    assert gate.failures(comparison)
    assert kinds(gate.cautions(comparison)) == [FEW_JUDGED]


@pytest.mark.parametrize(
    ("shares", "n"),
    [
        ({"a": 1.0, "b": 1.0}, 0),
        ({"a": 0.95, "b": 0.76}, 0),  # as a pool of TREC has it
        ({"a": 0.08, "b": 0.06}, 0),  # one known answer a query
        ({"a": 0.95, "b": 0.7}, 1),
        ({"a": 0.019, "b": 0.019}, 1),
        ({}, 0),
    ],
)
def test_near_none_or_unlike(shares: Mapping[str, float], n: int) -> None:
    assert len(list(few_judged("ndcg@10", 10, shares))) == n


def test_half_of_one_side() -> None:
    comparison = compare({"old": OLD, "half": HALF}, qrels=QRELS, metrics=["ndcg@4"])
    assert comparison.judged == {"old": 1.0, "half": 0.5}
    [caution] = [one for one in comparison.cautions if one.kind == FEW_JUDGED]
    assert "judged of the first 4: old 100 %, half 50 %" in caution.text
    assert "a difference at ndcg@4 is one of judgments too" in caution.text


def test_nothing_is_said_where_all_are_judged() -> None:
    comparison = compare({"old": OLD, "other": ranking("d5", "d0")}, qrels=QRELS, metrics=["ndcg@4"])
    assert comparison.judged == {}
    assert not kinds(comparison.cautions)
    assert "judged" not in comparison.headline.text


def test_a_test_that_fails_says_it() -> None:
    labels, judged = np.tile([1, 1, 0, 0], 40), np.tile([True, True, False, False], 40)
    up = np.tile(np.arange(4), 40)
    given = {"group_sizes": [4] * 40, "judged": judged, "metrics": ["ndcg@2"]}
    old, new = evaluate(labels, -up, **given), evaluate(labels, up, **given)
    with pytest.raises(AssertionError, match=r"judged of the first 2: baseline 100 %, candidate 0 %"):
        assert_not_worse(new, old, "ndcg@2")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    judged = (f"{query} 0 {name} {grade}\n" for query, its in QRELS.items() for name, grade in its.items())
    Path("qrels").write_text("".join(judged))
    for tag, its in (("old", OLD), ("new", NEW_IDS), ("half", HALF)):
        lines = (
            f"{query} Q0 {name} 1 {score} {tag}\n"
            for query, run in its.items()
            for name, score in run.items()
        )
        Path(f"{tag}.run").write_text("".join(lines))


@pytest.mark.usefixtures("files")
def test_rows_are_those_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A run of 48 lines beside 1,200 judgments."""
    assert run_command(cli, ["evaluate", "--qrels", "qrels", "--run", "half.run", "-m", "ndcg@4"]) == 0
    shown = capsys.readouterr()
    assert "half: 12 queries, 48 rows\n" in shown.out
    assert "over 12 of 12 queries; judged of the first 4: 50 %" in shown.out
    assert "24 of 48 ranked documents are unjudged" in " ".join(shown.err.split())


@pytest.mark.usefixtures("files", "empty_pictures")
def test_command_line_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--qrels", "qrels", "-m", "ndcg@10"]
    assert run_command(cli, ["evaluate", "--run", "new.run", *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rankings"][0]["metrics"]["ndcg@10"]["judged"] == 0.0
    assert [one["kind"] for one in document["cautions"]].count(FEW_JUDGED) == 1
    arguments = ["compare", "old.run", "new.run", *options, "-o", "out", "--fail-if", "ndcg@10 < baseline"]
    assert run_command(cli, arguments) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "few documents are judged" in shown
    assert shown.count("judged of the first 10: old 100 %, new 0 %") == 1
    report = json.loads(Path("out/report.json").read_text())
    assert report["headline"].endswith("few documents are judged")
    assert [one["kind"] for one in report["cautions"]].count(FEW_JUDGED) == 1


def test_weights_count() -> None:
    judged = [True, True, False, False]
    found = evaluate([1, 0, 0, 0], np.arange(4), ["mrr@2"], group_sizes=[2, 2], judged=judged)
    assert found["mrr@2"].judged == 1 / 2
    weighted = evaluate(
        [1, 0, 0, 0], np.arange(4), ["mrr@2"], group_sizes=[2, 2], judged=judged, query_weights=[3, 1]
    )
    assert weighted["mrr@2"].judged == 3 / 4
