"""The cost of training and scoring, and the worth of a cheaper model, by hand and as runs stored it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.experiments.runs.record import MetricSummary, Record
from ltr_harness.report import ReportData
from ltr_harness.report.blocks import Badge, Report, Table, walk
from ltr_harness.report.sections import cost as section
from ltr_harness.report.sections.cost import (
    FirstRounds,
    Serving,
    cost,
    first_rounds,
    front,
    pareto_front,
    serving,
)


def test_cost_is_what_the_records_say(stored_report: ReportData) -> None:
    records = stored_report.records_of("lgbm")
    found = cost("lgbm", records)
    seconds = sorted(record.seconds["score"] / record.data["test"].n_rows for record in records)
    assert found.microseconds_per_row == pytest.approx(1e6 * sum(seconds) / 2)
    assert found.leaves in [record.n_leaves for record in records]
    assert found.trees in [record.best_round for record in records]
    assert cost("z-random", stored_report.records_of("z-random")).leaves is None


def timing(
    rounds: int, documents: int, p50: float, mean: float | None, p99: float | None = None
) -> dict[str, Any]:
    return {"rounds": rounds, "documents": documents, "calls": 9, "p50": p50, "p99": p99, "mean": mean}


@pytest.fixture
def folds(make_record: Callable[..., Record]) -> list[Record]:
    """Two folds of seed 1 with 10 and 30 defined queries, and a seed that was not timed."""

    def record_of(fold: str, best: int, queries: int, latency: list[dict[str, Any]], seed: int = 1) -> Record:
        found = MetricSummary(mean=0.5, n_queries=queries + 2, n_undefined=2, higher_is_better=True)
        return make_record(
            "m", fold=fold, seed=seed, best_round=best, latency=latency, metrics={"ndcg@10": found}
        )

    return [
        record_of(
            "a", 40, 10, [timing(40, 10, 8.0, 0.6, 20.0), timing(40, 100, 60.0, 0.6), timing(10, 100, 20.0, 0.4)]
        ),
        record_of(
            "b", 60, 30,
            [
                timing(60, 10, 10.0, 0.8, 50.0), timing(60, 100, 80.0, 0.8),
                timing(15, 100, 30.0, 0.6), timing(3, 100, 9.0, 0.1),
            ],
        ),
        record_of("a", 41, 10, [], seed=2),
        record_of("a", 42, 10, [timing(42, 10, 999.0, 0.9)], seed=3),
    ]  # fmt: skip


def test_folds_are_pooled_by_hand(folds: list[Record]) -> None:
    assert serving("m", folds) == [Serving("m", 10, 9.0, 35.0), Serving("m", 100, 70.0, None)]
    # (0.6 * 10 + 0.8 * 30) / 40 and (0.4 * 10 + 0.6 * 30) / 40; the third cut has one fold alone
    assert first_rounds("m", folds) == [
        FirstRounds("m", 40, pytest.approx(0.75), 70.0, on_front=False),
        FirstRounds("m", 10, pytest.approx(0.55), 25.0, on_front=False),
    ]


def test_runs_of_an_earlier_version_were_not_timed(make_record: Callable[..., Record]) -> None:
    assert serving("m", [make_record("m")]) == first_rounds("m", [make_record("m")]) == []


def test_the_front_by_hand() -> None:
    points = [(1.0, 0.5), (2.0, 0.5), (2.0, 0.7), (3.0, 0.6), (2.0, 0.7), (9.0, 0.8)]
    assert pareto_front(points) == [True, False, True, False, True, True]
    losses = [(cost, -quality) for cost, quality in points]
    assert pareto_front(losses, higher_is_better=False) == pareto_front(points)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_whatever_is_not_on_the_front_is_beaten_by_what_is(points: list[tuple[int, int]]) -> None:
    marks = pareto_front(points)
    on_front = [point for point, mark in zip(points, marks, strict=True) if mark]
    assert on_front
    for point in points:
        beaten = any(c <= point[0] and q >= point[1] and (c, q) != point for c, q in on_front)
        assert beaten != (point in on_front)


def blocks(data: ReportData) -> dict[str, Any]:
    return {block.name: block for block in walk(tuple(section.section(data))) if hasattr(block, "name")}


def test_the_section(data: ReportData) -> None:
    found = blocks(data)
    assert list(found) == ["cost", "serving", "pareto_front"]
    times = found["serving"]
    assert [column.group for column in times.columns][1::2] == [
        "10 documents",
        "100 documents",
        "1,000 documents",
    ]
    by_model = {row[0].name: row[1:] for row in times.rows}
    assert by_model["xgb-ndcg"] == (80.0, 240.0, pytest.approx(530.0), pytest.approx(1590.0), 3000.0, 9000.0)
    marks = {row[4] for row in found["pareto_front"].rows}
    assert marks == {Badge("front", "good"), Badge("dominated", "muted")}
    names = {(row[0].name, row[1]) for row in found["pareto_front"].rows if row[4] == Badge("front", "good")}
    # one cheap cut is worth most; whole models cost the more the better they are
    assert names == {("xgb-ndcg", 25), ("lgbm-lambdarank", 101), ("lgbm-xendcg", 101), ("xgb-ndcg", 101)}


def test_cuts_by_another_metric_than_the_comparisons_are_not_drawn(
    make_data: Callable[..., ReportData],
) -> None:
    data = make_data()
    other = [
        dataclasses.replace(run, record=run.record.model_copy(update={"primary": "mrr@10"}))  # type: ignore[type-var]
        for run in data.runs
    ]
    assert list(blocks(dataclasses.replace(data, runs=other))) == ["cost", "serving"]


def test_a_stored_experiment_has_the_front_of_its_boosters(stored_report: ReportData) -> None:
    points = front(stored_report)
    assert {point.model for point in points} == {"lgbm"}
    first = next(record for record in stored_report.records_of("lgbm") if record.latency)
    assert first.seed == 1
    assert points[0].rounds == first.best_round
    assert points[0].mean == pytest.approx(first.metrics["ndcg@10"].mean)
    assert any(point.on_front for point in points)


@pytest.mark.long
def test_the_table_of_costs_has_every_model(stored_report: ReportData, report_of_runs: Report) -> None:
    tables: dict[str, Table] = {table.name: table for table in report_of_runs.tables}
    assert [row[0].name for row in tables["cost"].rows] == list(stored_report.models)  # type: ignore[union-attr]
