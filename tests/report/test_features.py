"""What models look at and what they cost, as their runs stored it."""

from __future__ import annotations

import pytest

from ltr_harness.report import ReportData, build_report
from ltr_harness.report.sections.features import cost, importance
from ltr_harness.report.sections.features import section as features


@pytest.mark.long
def test_shares_are_the_mean_over_runs_of_the_models_own(stored: ReportData) -> None:
    runs = stored.runs_of("lgbm")
    found = importance(runs)
    assert sum(share.gain for share in found.values()) == pytest.approx(1)
    assert sum(share.split for share in found.values()) == pytest.approx(1)
    first = next(iter(found))
    expected = 0.0
    for run in runs:
        model = run.model
        gains = model.importance("gain")  # type: ignore[attr-defined]  # a model of trees
        frame = run.importance
        assert frame is not None
        expected += gains[frame["feature"].tolist().index(first)] / gains.sum() / len(runs)
    assert found[first].gain == pytest.approx(expected)
    assert list(found.values()) == sorted(found.values(), key=lambda share: -share.gain)


def test_models_without_trees_have_none(stored: ReportData) -> None:
    assert importance(stored.runs_of("z-random")) == {}


def test_cost_is_what_the_records_say(stored: ReportData) -> None:
    records = stored.records_of("lgbm")
    found = cost(records)
    seconds = sorted(record.seconds["score"] / record.data["test"].n_rows for record in records)
    assert found.microseconds_per_row == pytest.approx(1e6 * sum(seconds) / 2)
    assert found.leaves in [record.n_leaves for record in records]
    assert found.trees in [record.best_round for record in records]
    assert cost(stored.records_of("z-random")).leaves is None


@pytest.mark.long
def test_the_tables(stored: ReportData) -> None:
    tables = {table.name: table for table in build_report(stored).tables}
    assert [row[0].name for row in tables["cost"].rows] == list(stored.models)  # type: ignore[union-attr]
    assert tables["importance"].columns[2].group == "lgbm"
    assert len(tables["importance"].rows) == 12


def test_runs_of_an_earlier_version_have_cost_alone(data: ReportData) -> None:
    names = [getattr(block, "name", "") for block in features(data)]
    assert "cost" in names
    assert "importance" not in names
