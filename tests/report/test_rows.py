"""Parts computed from the stored scores: other tools' numbers, ties, and the lists of single queries."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from ltr_harness import evaluate, run_experiment
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import DataError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.cautions import cautions
from ltr_harness.report import ReportData, build_report
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Bullets,
    Choice,
    Details,
    Paragraph,
    Report,
    Table,
    plain_text,
    walk,
)
from ltr_harness.report.data import stored_data
from ltr_harness.report.sections import conventions, queries, ties
from ltr_harness.report.sections.conventions import recompute
from ltr_harness.report.stored_scores import TestRows

from .conftest import SMALL  # type: ignore[import-not-found]


@pytest.fixture(scope="module")
def rows(stored_report: ReportData) -> TestRows:
    found = stored_report.rows
    assert found is not None
    return found


def test_stored_scores_give_the_numbers_of_the_comparison(stored_report: ReportData, rows: TestRows) -> None:
    for model in stored_report.models:
        values = rows.per_query(model, [parse_metric(name) for name in stored_report.metrics])
        for name, found in zip(stored_report.metrics, values, strict=True):
            expected = stored_report.comparison.system(model).per_query(name)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


def test_values_are_in_the_comparisons_order_of_queries(stored_report: ReportData, rows: TestRows) -> None:
    primary = [parse_metric(stored_report.primary)]
    turned = dataclasses.replace(rows, order=rows.order[::-1])
    np.testing.assert_array_equal(turned.per_query("lgbm", primary), rows.per_query("lgbm", primary)[:, ::-1])
    expected = stored_report.comparison.system("lgbm").query_ids.tolist()
    assert [list(rows.positions)[at] for at in rows.order] == expected


@pytest.mark.long
def test_folds_with_ids_that_repeat_are_told_apart(tmp_path: Path) -> None:
    """Each fold numbers its own queries from 1, so the fold's name is part of the id."""
    random = np.random.default_rng(5)
    for name in ("train", "valid", "test1", "test2"):
        lines = [
            f"{random.integers(3)} qid:{query} 1:{random.random():.6f} 2:{random.random():.6f}"
            for query in range(1, 31)
            for _ in range(6)
        ]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    parts = {"train": "train.txt", "valid": "valid.txt"}
    config = SMALL | {
        "name": "folded",
        "seeds": [1],
        "data": {
            "reader": "letor",
            "root": str(tmp_path),
            "splits": {"one": {**parts, "test": "test1.txt"}, "two": {**parts, "test": "test2.txt"}},
        },
        "report": {"formats": ["json"]},
        "models": {**SMALL["models"], "a-feature": {"ranker": "feature", "feature": "1"}},
    }
    run_experiment(config, runs=tmp_path)
    data = stored_data([tmp_path / "folded"])
    found = data.rows
    assert found is not None
    assert len({query.partition("/")[0] for query in data.comparison.system("lgbm").query_ids.tolist()}) == 2
    primary = parse_metric(data.primary)
    np.testing.assert_allclose(
        found.per_query("lgbm", [primary])[0],
        data.comparison.system("lgbm").per_query(data.primary),
        atol=1e-15,
    )


def test_numbers_of_other_tools(stored_report: ReportData, rows: TestRows) -> None:
    first = conventions.other_tools(stored_report)[0]
    assert first.metric == "ndcg@10"
    by_name = {name: at for at, one in enumerate(first.conventions) for name in one.names}
    for model in stored_report.models:
        assert first.means[model][by_name["here"]] == pytest.approx(
            stored_report.comparison.summary(model, "ndcg@10").mean, abs=1e-12
        )
    judgments = rows.judgments
    for tool in ("lightgbm", "xgboost", "catboost", "sklearn"):
        metric = f"ndcg(as={tool})@10"
        means = [
            evaluate(
                judgments.labels,
                rows.scores("lgbm", seed),
                group_sizes=judgments.groups.sizes,
                metrics=[metric],
            )
            for seed in (0, 1)
        ]
        expected = np.mean([next(iter(one.means.values())) for one in means])
        assert first.means["lgbm"][by_name[tool]] == pytest.approx(expected, abs=1e-12)
    assert {"trec_eval", "pytrec_eval", "gdeval", "ntcir"} == {
        reason.partition(":")[0] for reason in first.refused
    }  # no document ids


class Tied(TestRows):
    """Models that give every row the same score."""

    asked: ClassVar[list[tuple[str, int]]] = []

    def scores(self, model: str, replicate: int = 0) -> np.ndarray:  # type: ignore[type-arg]
        self.asked.append((model, replicate))
        return np.zeros(self.judgments.groups.n_rows)


def test_a_convention_that_ties_make_random_is_refused_and_the_others_are_shown(rows: TestRows) -> None:
    """It ended the whole run with an error, after everything had been trained."""
    fields = {field.name: getattr(rows, field.name) for field in dataclasses.fields(rows)}
    model = next(iter(rows.runs))
    (found,) = recompute(["map@2"], [model], Tied(**fields))
    assert any("tie across the cutoff" in reason and "torchmetrics" in reason for reason in found.refused)
    assert "torchmetrics" not in {name for one in found.conventions for name in one.names}
    assert len(found.means[model]) == len(found.conventions) > 1


def test_scores_are_read_as_often_for_many_metrics_as_for_one(rows: TestRows) -> None:
    """Every metric read the files anew to see whether it is refused: a second of CPU time for 75 runs."""
    tied = Tied(**{field.name: getattr(rows, field.name) for field in dataclasses.fields(rows)})
    asked = []
    for names in (["map@2"], ["map@2", "mrr@2", "map@5", "mrr@5"]):
        tied.asked.clear()
        recompute(names, ["lgbm"], tied)
        asked.append(list(tied.asked))
    assert asked[0] == asked[1]


def test_average_precision_of_what_was_retrieved_stands_among_the_other_tools(rows: TestRows) -> None:
    (found,) = recompute(["map@2"], ["z-random"], rows)
    (at,) = (i for i, one in enumerate(found.conventions) if "map_retrieved" in one.names)
    labels, sizes = rows.judgments.labels, rows.judgments.groups.sizes
    means = []
    for seed in (0, 1):
        measured = evaluate(
            labels, rows.scores("z-random", seed), group_sizes=sizes, metrics=["map_retrieved@2"]
        )
        means += measured.means.values()
    assert found.means["z-random"][at] == pytest.approx(np.mean(means), abs=1e-12)


@pytest.mark.long
def test_what_differs_is_said_in_words(report_of_runs: Report) -> None:
    words = next(t for t in report_of_runs.tables if t.name == "tools_words")
    (row,) = (row for row in words.rows if "sklearn" in str(row[0]))
    assert row[1] == "ndcg(empty=zero,gain=linear)@10"
    assert row[2] == "no relevant document counts 0; a label gains its grade, not 2^grade - 1"


def test_the_tie_audit_is_about_the_stored_scores(stored_report: ReportData) -> None:
    audits = ties.audits(stored_report)
    assert set(audits) == set(stored_report.models)
    assert audits["z-random"].share_tied_positions == 0
    assert audits["lgbm"].share_tied_positions > 0  # four trees of four leaves tell few rows apart
    for audit in audits.values():
        assert audit.mean_low <= audit.mean <= audit.mean_high


@pytest.mark.long
def test_what_the_metrics_cannot_be_trusted_with(
    stored_report: ReportData, report_of_runs: Report, rows: TestRows
) -> None:
    expected = [
        str(one) for one in cautions([parse_metric(name) for name in stored_report.metrics], rows.judgments)
    ]
    found = next(section for section in report_of_runs.sections if section.name == "cautions")
    (bullets,) = (block for block in found.blocks if isinstance(block, Bullets))
    assert list(bullets.items) == expected
    assert any(text.startswith("ndcg@30, err(max_grade=4)@30: ") for text in expected)


# ---- queries that changed -------------------------------------------------------------------------------


def open_queries(blocks: list[Block]) -> list[Details]:
    return [
        query
        for block in (blocks[2].options[0][1] if isinstance(blocks[2], Choice) else blocks)
        if isinstance(block, Details) and block.page_only
        for query in block.blocks
        if isinstance(query, Details)
    ]


def test_the_largest_gains_and_losses(stored_report: ReportData) -> None:
    for model in stored_report.rivals:
        won, lost = queries.changes(stored_report, model)
        d = stored_report.comparison.query_differences(model)
        d = d[~np.isnan(d)]
        assert [one.difference for one in won] == pytest.approx(sorted(d[d > 0])[::-1][: queries.N_PER_MODEL])
        assert [one.difference for one in lost] == pytest.approx(sorted(d[d < 0])[: queries.N_PER_MODEL])


def test_a_query_opens_to_both_lists(stored_report: ReportData, rows: TestRows) -> None:
    won, _ = queries.changes(stored_report, stored_report.rivals[0])
    first = open_queries(queries.section(stored_report))[0]
    assert first.summary.startswith(f"({won[0].difference:+.4f}) {won[0].query}, intent ")
    (table,) = first.blocks
    assert isinstance(table, Table)
    at = rows.rows_of(won[0].query)
    for side, model in ((1, stored_report.baseline), (5, won[0].model)):
        scores, labels = rows.scores(model)[at], rows.judgments.labels[at]
        order = np.argsort(-scores, kind="stable")[:10]
        assert [row[side] for row in table.rows] == [f"row {row}" for row in order]
        expected = [f"{labels[row]:g}" for row in order]
        assert [row[side + 1] for row in table.rows] == [
            text if text == "0" else Badge(text, "good") for text in expected
        ]
        assert [row[side + 2] for row in table.rows] == [f"{scores[row]:.4g}" for row in order]
    # every row's place in the other list leads back to it
    for place, row in enumerate(table.rows):
        assert isinstance(row[4], str)
        number, _, arrow = row[4].partition(" ")
        there = int(number)
        assert arrow == ("↑" if place + 1 < there else "↓" if place + 1 > there else "")
        if there <= len(table.rows):
            assert table.rows[there - 1][5] == row[1]
            assert str(table.rows[there - 1][8]).split()[0] == str(place + 1)


def test_lists_stay_on_the_page(report_of_runs: Report) -> None:
    from ltr_harness.report import markdown

    assert not [table.name for table in report_of_runs.tables if table.name.startswith("lists_")]
    assert "changed_queries" in [table.name for table in report_of_runs.tables]
    assert not re.search(r"\| Other rank ", markdown.render(report_of_runs))


def test_the_seed_of_the_lists_is_said(stored_report: ReportData) -> None:
    (intro,) = (
        plain_text(block.text) for block in queries.section(stored_report) if isinstance(block, Paragraph)
    )
    assert "those of seed 1" in intro


# ---- scores that are not there --------------------------------------------------------------------------


def test_runs_without_stored_scores_say_so(data: ReportData) -> None:
    assert data.rows is None
    assert conventions.tools(data) == []
    assert ties.section(data) == []
    text = " ".join(plain_text(block.text) for block in queries.section(data) if isinstance(block, Paragraph))
    assert "cannot be shown" in text


@pytest.mark.long
def test_scores_of_some_folds_alone_are_not_shown(tmp_path: Path) -> None:
    config = SMALL | {
        "name": "folded",
        "seeds": [1],
        "data": {**SMALL["data"], "files": ["train", "test"], "folds": 3},
        "report": {"formats": ["json"]},
    }
    run_experiment(config, runs=tmp_path)
    assert stored_data([tmp_path / "folded"]).rows is not None
    for path in (tmp_path / "folded").glob("lgbm--fold2*/record.json"):
        record = json.loads(path.read_text())
        del record["files"]["test_scores.parquet"]
        path.write_text(json.dumps(record))
    assert stored_data([tmp_path / "folded"]).rows is None


@pytest.mark.long
def test_changed_scores_are_refused(stored_report: ReportData, tmp_path: Path) -> None:
    import shutil

    copies = []
    for run in stored_report.runs:
        shutil.copytree(run.path, tmp_path / run.path.name)
        copies.append(dataclasses.replace(run, path=tmp_path / run.path.name))
    (copies[0].path / "test_scores.parquet").write_bytes(b"something else")
    damaged = dataclasses.replace(stored_report, runs=copies)
    with pytest.raises(DataError, match=r"test_scores\.parquet: not the file its record\.json describes"):
        build_report(damaged)


def test_changed_queries_show_the_difference_first_and_what_the_query_is(
    make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult]
) -> None:
    """Attributes stand beside the id; a text that nearly every query has alone is the query's own."""
    n = 40
    attributes = {
        "query_text": np.array([f"red shoes {number}" for number in range(n)]),
        "market": np.array(["de", "fr"] * (n // 2)),
        "rows": np.full(n, 7),
    }
    systems = [
        dataclasses.replace(
            make_system(name, 0.1 * at, n=n, empty=0, metrics=["ndcg@10"]), query_attributes=attributes
        )
        for at, name in enumerate("AB")
    ]
    (table,) = (
        block
        for block in walk(tuple(queries.section(make_data(systems=systems, with_runs=False))), page=True)
        if isinstance(block, Table)
    )
    assert [column.label for column in table.columns][:4] == ["Difference", "Query", "Attributes", "Model"]
    for row in table.rows:
        number = int(str(row[1])) - 10_000
        assert row[2] == f"“red shoes {number}”, market {'de' if number % 2 == 0 else 'fr'}"


def test_the_page_has_the_contenders_and_files_have_all_changed_queries(stored_report: ReportData) -> None:
    content = tuple(queries.section(stored_report))
    named = {}
    for page in (True, False):
        tables = (block for block in walk(content, page=page) if isinstance(block, Table))
        named[page] = {
            row[3].name for table in tables if table.name == "changed_queries" for row in table.rows
        }  # type: ignore[union-attr]
    assert named[True] == set(stored_report.contenders)
    assert named[False] == set(stored_report.rivals)
