"""Cautions about the data, the same in `check` and `run`: errors refuse unless they are accepted, warnings stand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import Caution, DataError, UsageError, labelled
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.training.check import data_cautions, each_once
from ltr_harness.experiments.training.folds import FoldReader, largest_label
from ltr_harness.metrics import NDCG
from ltr_harness.report.data import stored_data

MODELS = {"one": {"ranker": "feature", "feature": 1}, "other": {"ranker": "feature", "feature": 2}}
LEAK = "accepted: test: feature 3 alone ranks with NDCG@10 of 1.0000"


def letor(first: int, n_queries: int, leak: bool = False, labels: str = "3102") -> str:
    """Queries of four documents; the features' order has nothing to do with the labels, but for a third that leaks."""
    rows = []
    for query in range(first, first + n_queries):
        for at, label in enumerate(labels):
            mixed = (query * 7 + at * 13) % 31
            third = f" 3:{label}" if leak else f" 3:{(mixed * 5) % 29}"
            rows.append(f"{label} qid:q{query} 1:{mixed} 2:{query}.{mixed % 7}{third}")
    return "\n".join(rows) + "\n"


def experiment(folder: Path, train: str, test: str, **more: Any) -> Path:
    (folder / "train.txt").write_text(train)
    (folder / "test.txt").write_text(test)
    config = {
        "name": "x",
        "data": {"reader": "letor", "splits": {"train": "train.txt", "test": "test.txt"}},
        "metrics": {"report": ["ndcg"], "cutoffs": [3], "primary": "ndcg@3"},
        "models": MODELS,
        "report": {"formats": ["html", "md", "json"]},
    }
    path = folder / "x.yaml"
    path.write_text(yaml.safe_dump(config | more))
    return path


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = run_command(cli, [str(argument) for argument in arguments])
    return code, *capsys.readouterr()


@pytest.fixture
def leaking_experiment(tmp_path: Path) -> Path:
    """Test labels among the features, train queries among the test queries."""
    train = letor(0, 20, leak=True)
    return experiment(tmp_path, train, letor(100, 20, leak=True))


@pytest.fixture
def copied_experiment(tmp_path: Path) -> Path:
    train = letor(0, 20)
    return experiment(tmp_path, train, letor(100, 20) + train)


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_run_refuses_what_check_calls_an_error(
    leaking_experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    runs = tmp_path / "runs"
    assert command(capsys, "check", leaking_experiment)[0] == 2
    code, out, err = command(capsys, "run", leaking_experiment, "--runs", runs, *more)
    assert (code, out) == (2, "")
    assert "train (alike: test): feature 3 alone ranks with NDCG@10 of 1.0000" in err
    assert "add --accept leaking-feature (in Python: accept=['leaking-feature'])" in err
    assert not runs.exists()


def test_queries_of_train_in_test_are_refused_in_python_too(copied_experiment: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"train and test: 20 queries are in both.*--accept query-in-two-splits"
    ):
        run_experiment(copied_experiment, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_what_is_accepted_is_recorded_and_stands_in_the_report(
    leaking_experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    code, out, err = command(
        capsys, "run", leaking_experiment, "--runs", runs, "--accept", "leaking-feature", "--workers", "1"
    )
    assert code == 0
    assert LEAK.replace("test:", "train (alike: test):") in err, "before training"
    assert LEAK.replace("test:", "train (alike: test):") in " ".join(out.split()), "beside the result"
    for run in find_runs(runs / "x"):
        accepted = [one for one in run.record.cautions if one.severity == "accepted"]
        assert {one.kind for one in accepted} == {"leaking-feature"}
        assert {one.place for one in accepted} == {"train", "test"}
    report = runs / "x" / "report"
    merged = LEAK.replace("test:", "train (alike: test):")
    for page in ("report.html", "report.md"):
        assert merged in (report / page).read_text(encoding="utf-8")
    document = json.loads((report / "report.json").read_text(encoding="utf-8"))
    assert any(LEAK in labelled(Caution(**one)) for one in document["cautions"])
    cautions = map(labelled, stored_data([runs / "x"]).comparison.cautions)
    assert any(line.startswith(LEAK) for line in cautions), "from the records alone"
    assert command(capsys, "check", leaking_experiment, "--accept", "leaking-feature")[0] == 0


@pytest.mark.long
def test_python_accepts_by_the_same_names(copied_experiment: Path, tmp_path: Path) -> None:
    result = run_experiment(copied_experiment, runs=tmp_path / "runs", accept=["query-in-two-splits"])
    assert result.comparison is not None
    lines = map(labelled, result.comparison.cautions)
    assert any(line.startswith("accepted: train and test: 20 queries") for line in lines)
    with pytest.raises(UsageError, match="accept leaking: no such lint; did you mean 'leaking-feature'"):
        run_experiment(copied_experiment, runs=tmp_path / "runs", accept=["leaking"])
    with pytest.raises(DataError, match="query-in-two-splits"):  # another error is not meant by it
        run_experiment(copied_experiment, runs=tmp_path / "runs", accept=["leaking-feature"])


@pytest.mark.long
def test_warnings_stand_before_and_beside_the_result_and_notes_in_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = experiment(tmp_path, letor(0, 20, labels="3210"), letor(100, 20, labels="3210"))  # sorted by label
    code, out, err = command(capsys, "run", path, "--runs", tmp_path / "runs", "--workers", "1", "--verbose")
    told = "train (alike: test): in 20 of 20 queries the documents are sorted by label"
    once = f"warning: {told}"
    assert (code, once in err, told in " ".join(out.split())) == (0, True, True)
    events = command(capsys, "run", path, "--runs", tmp_path / "runs", "--dry-run", "--json")[2].splitlines()
    [caution] = [one for one in json.loads(events[-1])["cautions"] if one["kind"] == "sorted-labels"]
    assert once == f"{caution['severity']}: {caution['place']}: {caution['text']}"


def test_folds_are_named(tmp_path: Path) -> None:
    train = letor(0, 20)
    splits = {
        "a": {"train": "train.txt", "test": "test.txt"},
        "b": {"train": "test.txt", "test": "train.txt"},
    }
    data = {"reader": "letor", "splits": splits}
    path = experiment(tmp_path, train, letor(100, 10) + train, data=data)
    reader = FoldReader(load_experiment(path).data)
    found = data_cautions(reader, [NDCG(k=3)])
    errors = [one.place for one in each_once(found) if one.severity == "error"]
    assert errors == ["a train and test", "b train and test"]


def test_large_grades_are_an_error_only_where_a_gain_is_exponential(tmp_path: Path) -> None:
    path = experiment(tmp_path, letor(0, 20), letor(100, 20).replace("3 qid", "100 qid"))
    reader = FoldReader(load_experiment(path).data)
    assert "steep-gain" in {one.kind for one in each_once(data_cautions(reader, [NDCG(k=3)]))}
    linear = data_cautions(reader, [NDCG(k=3, gain="linear")])
    assert "steep-gain" not in {one.kind for one in each_once(linear)}


def test_the_lints_are_made_once_for_the_same_content(
    copied_experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load_experiment(copied_experiment).data
    first = FoldReader(data).cautions("all")

    def refuse_remaking(card: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr("ltr_harness.experiments.training.folds.data_card", refuse_remaking)
    assert FoldReader(data).cautions("all") == first
    copied_experiment.with_name("test.txt").write_text(letor(200, 20))
    with pytest.raises(AssertionError, match="made again"):
        FoldReader(data).cautions("all")


NOTHING = [
    (
        "test.txt",
        {},
        "test.txt: ndcg@3 is undefined for every query; expected at least one query with a relevant",
    ),
    ("valid.txt", {"metric": "ndcg@3", "patience": 2}, "valid.txt: ndcg@3 is undefined for every query"),
]


@pytest.mark.parametrize(("file", "stopping", "message"), NOTHING, ids=["test", "valid"])
def test_a_metric_without_a_value_for_any_query_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, stopping: dict[str, Any], message: str
) -> None:
    """It ended with exit 0 and "not distinguishable", n = 0."""
    splits = {"train": "train.txt", "test": "test.txt", "valid": "valid.txt"}
    data = {"reader": "letor", "splits": splits}
    path = experiment(
        tmp_path, letor(0, 20), letor(100, 20), data=data, **{"stopping": stopping} if stopping else {}
    )
    (tmp_path / "valid.txt").write_text(letor(200, 20))
    (tmp_path / file).write_text(letor(300, 20, labels="0000"))
    arguments = ("run", path, "--runs", tmp_path / "runs", "--accept", "nothing-relevant")
    code, out, err = command(capsys, *arguments)
    assert (code, out, message in err) == (2, "", True)


@pytest.mark.long
def test_test_queries_in_several_folds_are_said_and_count_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.txt").write_text(letor(0, 20))
    (tmp_path / "other.txt").write_text(letor(20, 20))
    (tmp_path / "test.txt").write_text(letor(100, 30))
    (tmp_path / "more.txt").write_text(letor(120, 30))  # 20 of them new
    config = {
        "name": "x",
        "data": {
            "reader": "letor",
            "splits": {
                "a": {"train": "train.txt", "test": "test.txt"},
                "b": {"train": "other.txt", "test": "test.txt"},
                "c": {"train": "other.txt", "test": "more.txt"},
            },
        },
        "metrics": {"report": ["ndcg"], "cutoffs": [3], "primary": "ndcg@3"},
        "models": MODELS,
        "report": {"formats": ["json"]},
    }
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(config))
    code, out, _ = command(capsys, "check", path)
    assert code == 0
    assert (
        "note: b test: 30 of 30 queries are tested in a too (such as q100); a comparison counts each once"
        in out
    )
    assert "note: c test: 10 of 30 queries are tested in a too (such as q120)" in out
    comparison = run_experiment(path, runs=tmp_path / "runs").comparison
    assert comparison is not None
    assert (comparison.n_queries, comparison.paired("other").n) == (50, 50)
    assert any("the folds test 50 queries 90 times" in note for note in map(str, comparison.cautions))
    assert stored_data([tmp_path / "runs" / "x"]).comparison.n_queries == 50


def two_stages(first: int, n: int) -> str:
    """CSV rows: half of the queries miss one of three relevant documents, a tenth misses all, the rest none."""
    rows = ["query,market,document,label,found,f,g"]
    for query in range(first, first + n):
        kind = min(query % 10, 5)  # 0: nothing found, 1 to 4: all found, 5: a grade 1 missed
        market = "us" if kind == 5 else "de"
        labels = {0: [(3, 0)], 5: [(1, 0), (0, 1), (2, 1), (1, 1)]}.get(kind, [(0, 1), (1, 1)])
        for at, (label, found) in enumerate(labels):
            values = f"{(query * 7 + at * 13) % 31},{(query * 5 + at * 11) % 29}" if found else ","
            rows.append(f"q{query},{market},d{query}.{at},{label},{found},{values}")
    return "\n".join(rows) + "\n"


def two_stage_experiment(folder: Path) -> Path:
    columns = {"query": "query", "label": "label", "document_id": "document", "retrieved": "found"}
    data = {
        "reader": "csv",
        "features": ["f", "g"],
        "attributes": ["market"],
        **columns,
        "splits": {"train": "train.csv", "test": "test.csv"},
    }
    models = {"one": {"ranker": "feature", "feature": "f"}, "other": {"ranker": "feature", "feature": "g"}}
    metrics = {"report": ["ndcg", "recall"], "cutoffs": [3], "primary": "recall@3"}
    path = experiment(folder, "", "", data=data, models=models, metrics=metrics)
    (folder / "train.csv").write_text(two_stages(0, 20))
    (folder / "test.csv").write_text(two_stages(100, 20))
    return path


def test_candidate_recall_and_little_to_gain_from_file_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = two_stage_experiment(tmp_path)
    said = command(capsys, "check", path)[1]
    # 10 queries in us: 2 of 3; 8 in de: 1 of 1; 2 in de: 0 of 1
    assert "test: 20 queries, 46 rows, 2 features\n" in said, "no query is without relevant documents"
    assert (
        f"test: candidate recall {(10 * 2 / 3 + 8) / 20:.4f}, the mean over queries; {28 / 40:.4f} of 40 relevant "
        f"documents; 12 of 58 judged documents were missed ({12 / 58:.1%}), 2 queries (10.0%) have no candidate\n"
        "test: candidate recall by market: de 0.8000, us 0.6667\n"
    ) in said
    assert (
        "warning: test: recall@3 of a random order is 0.7333, 100 % of the best that these candidates allow: there is "
        "little to gain; compare shares"
    ) in said
    assert "primary recall@3; no errors, 1 warning" in said
    assert "test: candidate recall 0.7333" in command(capsys, "data", "describe", path)[1]
    assert "little-to-gain" not in command(capsys, "check", path, "--set", "metrics.primary=ndcg@3")[1]

    code, out, _ = command(capsys, "run", path, "--runs", tmp_path / "runs")
    assert code == 0
    assert " ".join(out.split()).count("there is little to gain") == 1, "the comparison's note alone"
    run = find_runs(tmp_path / "runs" / "x")[0]
    facts = run.record.data["test"]
    assert (facts.n_queries, facts.n_without_relevant, facts.candidates[0].n_found) == (20, 0, 28)
    assert [one.kind for one in run.record.cautions if one.severity == "warning"] == ["little-to-gain"]
    assert run.per_query["n_relevant"].value_counts().to_dict() == {3: 10, 1: 10}
    report = (tmp_path / "runs" / "x" / "report" / "report.md").read_text()
    assert report.count("there is little to gain") == 1
    assert "| all test | 20 | 10.0 % | 58 | 20.7 % | 40 | 0.7333 | 0.7000 |" in report
    assert "| all test | market | us | 10 | 0.0 % | 40 | 25.0 % | 30 | 0.6667 | 0.6667 |" in report


def test_what_was_missed_is_on_the_scale_and_tells_queries_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = two_stage_experiment(tmp_path)
    reader = FoldReader(load_experiment(path).data)
    assert (reader.read("all").test.labels.max(), largest_label([reader.read("all")])) == (2, 3)
    err = command(capsys, "check", path, "--set", "data.max_grade=2")[2]
    assert "label 3 in query 'q0' is above data.max_grade" in err

    other = tmp_path / "other.csv"
    other.write_text((tmp_path / "test.csv").read_text().replace("q100,de,d100.0,3", "q100,de,d100.0,2"))
    splits = {
        name: {"train": "train.csv", "test": f"{file}.csv"} for name, file in (("a", "test"), ("b", "other"))
    }
    folds = yaml.safe_load(path.read_text())
    folds["data"]["splits"] = splits
    path.write_text(yaml.safe_dump(folds))
    said = command(capsys, "check", path)[1]
    assert "note: b test: 19 of 20 queries are tested in a too (such as q101)" in said, (
        "of q100 other grades were missed"
    )


def test_agreement_of_several_judgments_from_file_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = two_stage_experiment(tmp_path)
    config = yaml.safe_load(path.read_text())
    for key in ("label", "retrieved"):
        del config["data"][key]
    config["data"]["judgments"] = {"files": "votes.csv", "several": "median"}
    path.write_text(yaml.safe_dump(config))
    votes = ["query,document,label"]
    for first in (0, 100):
        for row in two_stages(first, 20).splitlines()[1:]:
            query, market, document, label, *_ = row.split(",")
            # three judges agree on each document in de; two of three agree in us
            given = [label] * 3 if market == "de" else [label, label, str(3 - int(label))]
            votes += [f"{query},{document},{one}" for one in given]
    (tmp_path / "votes.csv").write_text("\n".join(votes))
    for name in ("train", "test"):
        kept = [r for r in (tmp_path / f"{name}.csv").read_text().splitlines() if not r.endswith(",0,,")]
        (tmp_path / f"{name}.csv").write_text("\n".join(kept))

    said = command(capsys, "check", path)[1]
    # of the 56 documents of queries with rows, 40 in us have 1 equal pair of 3, 16 in de have 3 of 3
    equal = (40 * 1 + 16 * 3) / (56 * 3)
    assert (
        f"test: agreement on 56 documents with 168 judgments: {equal:.1%} of the pairs have equal grades; "
        in said
    )
    assert re.search(r"^test: alpha by market: us -?0\.\d{4}, de 1\.0000$", said, re.MULTILINE)
    assert command(capsys, "run", path, "--runs", tmp_path / "runs")[0] == 0
    (us,) = [
        one
        for one in find_runs(tmp_path / "runs" / "x")[0].record.data["test"].agreement
        if one.label == "us"
    ]
    assert (us.n_documents, us.n_judgments, us.equal) == (40, 120, 1 / 3)
    report = (tmp_path / "runs" / "x" / "report" / "report.md").read_text()
    assert f"| all test | market us | 40 | 120 | 33.3 % | {us.ordinal:.4f} | {us.nominal:.4f} |" in report
    assert "Labels that judges disagree on bound what any metric can tell" in report


def test_describe_has_no_error_of_exponential_gain_where_no_metric_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = experiment(tmp_path, letor(0, 20), letor(100, 20).replace("3 qid", "100 qid"))
    _, exponential, _ = command(capsys, "data", "describe", path, "--set", "metrics.report=[ndcg]")
    assert "with exponential gain" in exponential
    of_linear = ("metrics.report=[ndcg(gain=linear)]", "metrics.primary=ndcg(gain=linear)@3")
    _, linear, _ = command(
        capsys, "data", "describe", path, *(word for one in of_linear for word in ("--set", one))
    )
    assert "with exponential gain" not in linear
