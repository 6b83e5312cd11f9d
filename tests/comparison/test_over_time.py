"""Periods, folds in time and the agreement of signs: small worlds whose every number is written out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.over_time import days_of_queries, how_many, signs_sentence
from ltr_harness.report import ReportData, build_report, write_report
from ltr_harness.report.blocks import Paragraph, Table, plain_text
from ltr_harness.report.charts import colour_of, file_spec, svg
from ltr_harness.report.json_document import document, schema
from ltr_harness.report.terminal import render

FOLDS = ("2024-01-01", "2024-02-01", "2024-03-01")


def system(name: str, values: Sequence[float], days: Any, folds: Sequence[str] = FOLDS) -> SystemResult:
    return SystemResult(
        name=name,
        query_ids=np.arange(len(values)).astype(str),
        values={"mrr": np.array([values])},
        replicates=("1",),
        higher_is_better={"mrr": True},
        judgments_fingerprint=dict.fromkeys(folds, "same labels"),
        query_attributes={"day": np.asarray(days)},
    )


def world(gains: Mapping[str, Sequence[float]], per_fold: int = 20, **options: Any) -> Comparison:
    """Each fold is a month with so many queries a model; `gains` are mean differences from a baseline at 0.5.

    Queries of a fold differ by +0.02 and -0.02 from its mean gain, two on each day.
    """
    days = np.concatenate([np.datetime64(fold) + np.arange(per_fold) // 2 for fold in FOLDS]).astype(str)
    noise = np.tile([0.02, -0.02], days.size // 2)
    models = [system("base", np.full(days.size, 0.5).tolist(), days)]
    models += [
        system(name, (0.5 + np.repeat(own, per_fold) + noise).tolist(), days) for name, own in gains.items()
    ]
    return compare(*models, draws=300, **options)


def report_of(comparison: Comparison) -> ReportData:
    return ReportData(comparison, [], [], None, "made in time")


def test_the_sign_agrees_in_two_of_three_folds() -> None:
    one = world({"new": [0.3, 0.2, -0.1]}, test="t")  # of the whole +0.4 / 3
    assert one.paired("new").difference == pytest.approx(0.4 / 3)
    assert [(s.model, s.agreeing, s.folds) for s in one.fold_signs] == [("new", 2, 3)]
    assert one.verdict.endswith("The sign of the difference agrees in 2 of 3 folds.")
    folds = [row for row in one.over_time if row.unit == "fold" and row.model == "new"]
    assert [row.period for row in folds] == list(FOLDS)
    assert [row.difference for row in folds] == pytest.approx([0.3, 0.2, -0.1])
    assert [row.mean for row in folds] == pytest.approx([0.8, 0.7, 0.4])
    assert [row.n for row in folds] == [20, 20, 20]
    assert (folds[1].first_day, folds[1].last_day) == ("2024-02-01", "2024-02-10")
    half = 2.093024 * 0.02 / np.sqrt(19)  # 20 queries at +-0.02, t with 19 degrees of freedom
    for row in folds:
        assert row.difference_ci_low == pytest.approx(row.difference - half, abs=1e-7)
        assert row.difference_ci_high == pytest.approx(row.difference + half, abs=1e-7)


def test_a_fold_without_a_difference_agrees_with_no_sign_and_an_undefined_one_is_no_fold() -> None:
    days = np.repeat(FOLDS, 4)
    base, new = np.full(12, 0.5), np.full(12, 0.5)
    new[4:8] += [0.1, 0.2, 0.1, 0.2]
    new[8:] = np.nan
    one = compare(system("base", base.tolist(), days), system("new", new.tolist(), days))
    assert signs_sentence(one.fold_signs) == "The sign of the difference agrees in 1 of 2 folds."


def test_a_verdict_that_many_folds_do_not_share_has_a_note() -> None:
    note = "new: better over all folds together, but not in 1 of the 3 folds; look at each fold under *Over time*"
    one = world({"new": [0.3, 0.2, -0.1]})
    assert one.paired("new").verdict == "better"
    assert note in [*map(str, one.cautions)]
    steady = world({"new": [0.3, 0.2, 0.1]})
    assert not any("over all folds" in line for line in map(str, steady.cautions))
    assert "agrees in 3 of 3 folds" in steady.verdict
    unsure = world({"new": [0.3, -0.28, -0.01]}, unit="day")  # of the whole +0.01 / 3
    assert unsure.paired("new").verdict == "not distinguishable"
    assert "agrees in 1 of 3 folds" in unsure.verdict
    assert not any("over all folds" in line for line in map(str, unsure.cautions))


def test_without_folds_in_time_nothing_is_said() -> None:
    days = np.repeat(FOLDS, 4)
    values = np.linspace(0.1, 0.6, 12)
    for folds, when in (
        (("fold1", "fold2"), days),
        (("all",), days),
        (FOLDS, np.arange(12)),  # numbers of an unknown unit
        (FOLDS, np.array([None, *days[1:]], dtype=object)),
        (("2024-02-01", "2024-03-01"), days),  # queries before the first fold
        (("2024-01-01",), days),
    ):
        models = [
            system("a", values.tolist(), when, folds),
            system("b", (values + 0.1).tolist(), when, folds),
        ]
        one = compare(*models)
        assert one.fold_signs == ()
        assert "folds" not in one.verdict
        assert not any(row.unit == "fold" for row in one.over_time)
    assert days_of_queries([system("a", values.tolist(), np.arange(12))]) is None


@pytest.mark.parametrize(
    ("n_days", "unit", "first", "at_most"),
    [
        (40, "day", "2023-12-31", 40),
        (41, "week", "2023-W52", 7),
        (280, "week", "2023-W52", 41),
        (281, "month", "2023-12", 11),
        (1180, "month", "2023-12", 40),
        (1300, "quarter", "2023-10", 16),
        (3000, "quarter", "2023-10", 34),
        (4000, "year", "2023-01", 12),
    ],
)
def test_about_forty_periods_at_most(n_days: int, unit: str, first: str, at_most: int) -> None:
    days = (np.datetime64("2023-12-31") + np.arange(n_days)).astype(str)
    values = np.tile([0.2, 0.4], n_days // 2 + 1)[:n_days].tolist()
    rows = compare(system("a", values, days), system("b", values[::-1], days), test="t").over_time
    names = dict.fromkeys(row.period for row in rows if row.unit == unit)
    assert (next(iter(names)), len(names)) == (first, at_most)
    assert {row.unit for row in rows} == {unit}  # the first day is before the first fold


def test_a_band_needs_five_queries_and_a_course_three_periods() -> None:
    days = ["2024-01-01"] * 4 + ["2024-01-02"] * 5 + ["2024-01-03"] * 6
    values = [0.1, 0.3] * 7 + [0.1]
    models = [system("a", values, days, ["all"]), system("b", values[::-1], days, ["all"])]
    rows = [row for row in compare(*models, unit="period").over_time if row.model == "a"]
    assert [(row.n, np.isnan(row.ci_low)) for row in rows] == [(4, True), (5, False), (6, False)]
    assert [row.mean for row in rows] == pytest.approx([0.2, 0.9 / 5, 0.2])
    assert all(np.isnan(row.difference) for row in rows)  # the baseline
    assert compare(*(one.take(np.arange(9)) for one in models)).over_time == ()


def test_units_that_are_no_periods_make_the_bands() -> None:
    days = np.repeat(["2024-01-01", "2024-01-02", "2024-01-03"], 20)
    users = np.tile(np.repeat(np.arange(5), 4), 3)
    values = (
        np.repeat([0.1, 0.5, 0.9, 0.3, 0.7], 4)[None] + np.zeros((3, 1))
    ).ravel()  # all of one user alike

    def rows(unit: str | None) -> list[float]:
        models = [
            system(name, (values + extra).tolist(), days, ["all"]) for name, extra in (("a", 0), ("b", 0.01))
        ]
        for one in models:
            one.query_attributes["user"] = users  # type: ignore[index]
        found = compare(*models, unit=unit).over_time
        return [row.ci_high - row.ci_low for row in found if row.model == "a"]

    assert all(wide > 1.8 * narrow for wide, narrow in zip(rows("user"), rows(None), strict=True))


@pytest.fixture(scope="module")
def changing_report() -> ReportData:
    return report_of(world({"new": [0.3, 0.2, -0.1], "old": [-0.1, -0.2, -0.3]}))


def test_terminal_report_and_json_have_the_same_sentence(changing_report: ReportData) -> None:
    sentence = "The sign of the difference agrees in 2 of 3 folds for new, 3 of 3 for old."
    assert sentence in " ".join(render(changing_report).split())
    assert sentence in changing_report.comparison.verdict
    sections = {one.name: one for one in build_report(changing_report).sections}
    assert Paragraph(sentence) in sections["verdict"].blocks
    written = document(changing_report)
    assert sentence in written["verdict"]
    assert written["fold_signs"] == [
        {"model": "new", "agreeing": 2, "folds": 3},
        {"model": "old", "agreeing": 3, "folds": 3},
    ]
    assert any("not in 1 of the 3 folds" in note for note in (one["text"] for one in written["cautions"]))
    assert len([row for row in written["over_time"] if row["unit"] == "fold"]) == 9
    Draft202012Validator(schema()).validate(written)


def test_the_section_is_open_where_the_note_is(changing_report: ReportData) -> None:
    def heading(data: ReportData) -> tuple[str, bool]:
        (section,) = [one for one in build_report(data).sections if one.name == "over_time"]
        assert section.heading.asked  # folds in time: it is open as loaded
        return section.heading.finding, section.heading.matters

    assert heading(changing_report) == ("the sign agrees in 2 of 3 folds for new", True)
    steady = report_of(world({"new": [0.3, 0.2, 0.1], "old": [-0.1, -0.2, -0.3]}))
    assert heading(steady) == ("the sign agrees in 3 of 3 folds for all", False)
    assert heading(report_of(world({"new": [0.3, 0.2, 0.1]}))) == ("the sign agrees in 3 of 3 folds", False)


@pytest.mark.parametrize("seeds", [1, 3])
def test_bands_of_several_seeds_are_said_to_be_of_these_models(seeds: int) -> None:
    days, rng = np.repeat(FOLDS, 10), np.random.default_rng(1)
    models = [
        dataclasses.replace(
            system(name, [0.5] * 30, days),
            values={"mrr": rng.uniform(0, 1, (seeds, 30))},
            replicates=tuple("123"[:seeds]),
            seeded=True,
        )
        for name in ("a", "b")
    ]
    (section,) = [
        one for one in build_report(report_of(compare(*models))).sections if one.name == "over_time"
    ]
    said = [plain_text(block.text) for block in section.blocks if isinstance(block, Paragraph)]
    assert ("of these trained models" in said[0]) == (seeds > 1)


def test_table_and_charts_hold_the_numbers_of_the_json(changing_report: ReportData) -> None:
    (section,) = [one for one in build_report(changing_report).sections if one.name == "over_time"]
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    signs = [(row[0].name, row[1], row[3], row[-1]) for row in table.rows]  # type: ignore[union-attr]
    assert signs == [
        ("new", "2024-01-01", 20, "agrees"),
        ("new", "2024-02-01", 20, "agrees"),
        ("new", "2024-03-01", 20, "other"),
        ("old", "2024-01-01", 20, "agrees"),
        ("old", "2024-02-01", 20, "agrees"),
        ("old", "2024-03-01", 20, "agrees"),
    ]
    known = {(row.model, row.period): row for row in changing_report.comparison.over_time}
    means, differences = section.charts
    for chart, names in ((means, ("mean", "ci_low", "ci_high")), (differences, _DIFFERENCE)):
        rows = chart.spec["data"]["values"]
        for row in rows:
            one = known[row["model"], row["period"]]
            drawn = tuple(np.nan if row[key] is None else row[key] for key in ("value", "low", "high"))
            assert drawn == pytest.approx(tuple(getattr(one, name) for name in names), abs=1e-6, nan_ok=True)
        begins = {row["fold"] for row in rows if "fold" in row}
        assert begins == {int(np.datetime64(fold, "ms").astype(np.int64)) for fold in FOLDS}
        assert all(name in chart.text for name in {row["model"] for row in rows})
    assert "new: above 0 in 4 of 6, from -0.1000 in 2024-W09 to +0.3000 in 2024-W01." in differences.text


@pytest.mark.long
@pytest.mark.parametrize(
    "gains", [{"new": [0.3, 0.2, -0.1]}, {"new": [0.3, 0.2, 0.1], "old": [-0.1, 0.1, 0.2]}]
)
def test_charts_of_one_and_of_several_models_can_be_drawn(
    gains: dict[str, list[float]], chart_schema: Any
) -> None:
    (section,) = [one for one in build_report(report_of(world(gains))).sections if one.name == "over_time"]
    for chart in section.charts:
        chart_schema.validate(file_spec(chart.spec))
        drawn = svg(chart)
        assert drawn.count("mark-rule") >= 1
        assert all(colour_of(at) in drawn for at in range(1, len(gains) + 1))


_DIFFERENCE = ("difference", "difference_ci_low", "difference_ci_high")


def test_a_saved_comparison_has_the_same_folds(changing_report: ReportData, tmp_path: Path) -> None:
    write_report(changing_report, tmp_path, ["json"])
    again = compare(str(tmp_path / "report.json"), draws=300)
    assert again.fold_signs == changing_report.comparison.fold_signs
    assert again.verdict == changing_report.comparison.verdict


def test_days_are_no_slices(changing_report: ReportData) -> None:
    assert not any(part.attribute == "day" for part in changing_report.slices)
    weekdays = np.tile(["Mon", "Tue"], 10)
    models = [
        system(name, np.linspace(low, 0.9, 20).tolist(), weekdays) for name, low in (("a", 0.1), ("b", 0.2))
    ]
    assert {part.label for part in report_of(compare(*models)).slices} == {"Mon", "Tue"}


def test_periods_folds_and_the_signs_are_weighted() -> None:
    """The mean of a weighted comparison is -0.06; its folds stood beside it as if each query counted once."""
    gains, traffic = np.repeat([0.3, 0.2, -0.1], 20), np.repeat([1.0, 1.0, 10.0], 20)
    days = np.concatenate([np.datetime64(fold) + np.arange(20) // 2 for fold in FOLDS]).astype(str)
    traffic[::2] = 0.0
    gains[::2] = -0.9  # of queries that do not count
    models = [system(name, v.tolist(), days) for name, v in (("base", gains * 0 + 0.5), ("new", gains + 0.5))]
    weighted = [
        dataclasses.replace(one, query_attributes={**one.query_attributes, "query_weight": traffic})
        for one in models
    ]
    found = compare(*weighted, draws=300)
    assert found.paired("new").difference == pytest.approx((0.3 + 0.2 - 10 * 0.1) / 12)
    assert str(found.fold_signs[0]) == "1 of 3", "as the weighted whole, which is below 0"
    rows = {row.period: row for row in found.over_time if row.model == "new" and row.unit == "fold"}
    assert [row.difference for row in rows.values()] == pytest.approx([0.3, 0.2, -0.1])
    assert [row.n for row in rows.values()] == [10, 10, 10]
    (section,) = [one for one in build_report(report_of(found)).sections if one.name == "over_time"]
    said = [plain_text(block.text) for block in section.blocks if isinstance(block, Paragraph)]
    assert said[0].startswith("A point is the weighted mean of a week")


def test_neighbours_are_joined_by_what_they_add_to_the_weighted_mean() -> None:
    """Half of the days alternate and have all the weight; the others rise, and are not alike for nothing."""
    rng = np.random.default_rng(0)
    rise = np.repeat(np.sin(np.arange(64) / 8), 2)
    values = np.where(np.arange(128) % 2 == 0, rise, rng.choice([-1.0, 1.0], 128) * 0.1)
    weights = np.where(np.arange(128) % 2 == 0, 0.0, 1.0)
    assert how_many(values[:, None], np.arange(128) // 2) > 1
    assert how_many(values[:, None], np.arange(128) // 2, weights) == 1
