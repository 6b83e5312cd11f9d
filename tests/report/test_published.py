"""Published figures beside ours: by their source's conventions, by ours, and without a word in any run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ltr_harness import run_experiment
from ltr_harness.config import load_experiment, resolved_yaml
from ltr_harness.errors import ConfigError
from ltr_harness.experiment.experiment import final_experiment
from ltr_harness.report import ReportData, build_report, markdown
from ltr_harness.report.blocks import Estimate, Table, walk
from ltr_harness.report.data import stored_data
from ltr_harness.report.sections.published import HEADING, PublishedFigure, published

# Three queries in which something is relevant, the best document first, second, first; in the fourth nothing is.
ROWS = """\
1 qid:1 1:0.9 2:0.5
0 qid:1 1:0.1 2:0.5
1 qid:2 1:0.1 2:0.5
0 qid:2 1:0.9 2:0.5
2 qid:3 1:0.9 2:0.5
0 qid:3 1:0.1 2:0.5
0 qid:4 1:0.9 2:0.5
0 qid:4 1:0.1 2:0.5
"""
LIGHTGBM = {"source": "A page, 2019", "as": "lightgbm", "values": {"sorted": {"ndcg@1": 0.75}}}


def experiment(folder: Path, *references: dict[str, Any]) -> dict[str, Any]:
    (folder / "test.txt").write_text(ROWS, encoding="utf-8")
    (folder / "train.txt").write_text(ROWS.replace("qid:", "qid:1").replace("0.9", "0.8"), encoding="utf-8")
    return {
        "name": "small",
        "data": {
            "reader": "letor",
            "root": str(folder),
            "splits": {"train": "train.txt", "test": "test.txt"},
            "max_grade": 2,
        },
        "metrics": {"cutoffs": [1], "report": ["ndcg"], "primary": "ndcg@1"},
        "stopping": None,
        "models": {"sorted": {"ranker": "feature", "feature": 1}},
        "report": {"formats": ["json"]},
        "references": list(references),
    }


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., ReportData]:
    def made(*references: dict[str, Any]) -> ReportData:
        data = run_experiment(experiment(tmp_path, *references), runs=tmp_path / "runs", workers=1).report
        assert data is not None
        return data

    return made


@pytest.mark.long
def test_a_figure_stands_beside_ours_by_its_source_s_conventions_and_by_ours(
    report: Callable[..., ReportData],
) -> None:
    (row,) = published(report(LIGHTGBM))
    assert row.mean == pytest.approx((1 + 0 + 1 + 1) / 4)  # the query without relevant documents counts 1
    assert row.difference == pytest.approx(0)
    assert row.own_mean == pytest.approx(2 / 3)  # here it is left out
    assert row.share_empty == 1 / 4
    assert row.published_without_empty == pytest.approx(2 / 3)  # (.75 - .25) / .75
    assert row.reason == ""


@pytest.mark.long
def test_only_a_figure_that_differs_in_blank_queries_alone_is_translated(
    report: Callable[..., ReportData],
) -> None:
    cases = [
        ("lightgbm", "ndcg@1", 1 / 3),  # (.5 - .25) / .75
        ("letor", "ndcg@1", None),  # its discount differs too
        ("ranklib", "ndcg@1", 2 / 3),  # .5 / .75
        ("gdeval", "ndcg(ties=stable)@1", None),  # it leaves them out as well
        ("catboost", "ndcg@1", None),  # linear gain
        ("catboost", "ndcg(gain=exp)@1", 1 / 3),
    ]
    tables = [{"source": "a", "as": tool, "values": {"sorted": {metric: 0.5}}} for tool, metric, _ in cases]
    said = [row.published_without_empty for row in published(report(*tables))]
    assert said == [None if wanted is None else pytest.approx(wanted) for _, _, wanted in cases]


@pytest.mark.long
def test_the_interval_is_that_of_our_mean(report: Callable[..., ReportData]) -> None:
    data = report({"source": "a", "values": {"sorted": {"ndcg@1": 0.5}}})
    (row,) = published(data)
    ours = data.comparison.summary("sorted", "ndcg@1")
    assert (row.ci_low, row.ci_high) == (pytest.approx(ours.ci_low - 0.5), pytest.approx(ours.ci_high - 0.5))


@pytest.mark.long
def test_the_section_says_what_differs_and_both_numbers_in_a_sentence(
    report: Callable[..., ReportData],
) -> None:
    data = report({**LIGHTGBM, "data": "made-up, test", "note": "Trained on a Tuesday."})
    (section,) = (one for one in build_report(data).sections if one.name == "published")
    (table,) = (block for block in walk(section.blocks) if isinstance(block, Table))
    assert table.rows[0][1:4] == ("ndcg(empty=one,ties=stable)@1", 0.75, 0.75)
    assert isinstance(table.rows[0][4], Estimate)
    text = markdown.render(build_report(data))
    assert HEADING in text
    assert "A page, 2019: made-up, test." in text
    assert "Trained on a Tuesday." in text
    assert "equal scores keep row order; no relevant document counts 1" in text
    assert "0.7500 with queries that have no relevant document at 1 is about 0.6667 without them" in text
    assert "they are 25.0 % of the test queries here" in text


@pytest.mark.long
def test_what_cannot_be_computed_is_said_with_its_reason(report: Callable[..., ReportData]) -> None:
    data = report(
        {"source": "a", "as": "gdeval", "values": {"sorted": {"ndcg@1": 0.5}}}
    )  # ties by document id
    (row,) = published(data)
    assert row.mean is None
    assert row.own_mean == pytest.approx(2 / 3)
    assert "document_ids" in row.reason
    assert "Not computed: ties=id orders tied documents by document id" in markdown.render(build_report(data))


@pytest.mark.long
def test_a_convention_that_ties_make_random_is_left_out_and_the_others_stand(tmp_path: Path) -> None:
    tables = [{"source": "a", "as": "torchmetrics", "values": {"tied": {"map@1": 0.5}}}, LIGHTGBM]
    mapping = experiment(tmp_path, *tables)
    mapping["models"]["tied"] = {"ranker": "feature", "feature": 2}
    result = run_experiment(mapping, runs=tmp_path / "runs", workers=1)
    assert result.report is not None
    refused, computed = published(result.report)
    assert refused.mean is None
    assert "tie" in refused.reason
    assert computed.mean == pytest.approx(3 / 4)


@pytest.mark.long
def test_another_figure_is_another_report_and_no_other_run(tmp_path: Path) -> None:
    first = run_experiment(experiment(tmp_path), runs=tmp_path / "runs", workers=1)
    record = (first.runs[0].path / "record.json").read_bytes()
    assert first.report is not None
    assert published(first.report) == ()
    again = run_experiment(experiment(tmp_path, LIGHTGBM), runs=tmp_path / "runs", workers=1)
    assert again.reused == 1
    assert (again.runs[0].path / "record.json").read_bytes() == record
    document = json.loads((again.folder / "report" / "report.json").read_text(encoding="utf-8"))
    (figure,) = document["published"]
    assert (figure["source"], figure["published"], figure["mean"]) == ("A page, 2019", 0.75, 0.75)
    assert {field.name for field in dataclasses.fields(PublishedFigure)} == set(figure)


@pytest.mark.long
def test_references_are_kept_with_the_runs_and_reported_again(tmp_path: Path) -> None:
    mapping = experiment(tmp_path, LIGHTGBM)
    loaded = load_experiment(mapping)
    (tmp_path / "resolved.yaml").write_text(resolved_yaml(loaded), encoding="utf-8")
    assert load_experiment(tmp_path / "resolved.yaml") == loaded
    result = run_experiment(mapping, runs=tmp_path / "runs", workers=1)
    assert result.report is not None
    assert published(stored_data([result.folder])) == published(result.report)
    assert "references" not in final_experiment(loaded, result.runs, "sorted")


@pytest.mark.long
def test_a_stored_figure_of_a_file_s_metric_executes_nothing(tmp_path: Path) -> None:
    result = run_experiment(experiment(tmp_path, LIGHTGBM), runs=tmp_path / "runs", workers=1)
    (tmp_path / "mine.py").write_text("raise SystemExit('executed')", encoding="utf-8")
    stored = result.folder / "experiment.yaml"
    tampered = stored.read_text(encoding="utf-8").replace("ndcg@1: 0.75", f"'{tmp_path}/mine.py:Mine': 0.75")
    stored.write_text(tampered, encoding="utf-8")
    with pytest.raises(ConfigError, match="expected a metric's name, such as ndcg@10; not a file"):
        stored_data([result.folder])
