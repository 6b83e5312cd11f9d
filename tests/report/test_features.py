"""The features that models look at, as their runs stored them."""

from __future__ import annotations

import pytest

from ltr_harness.report import ReportData
from ltr_harness.report.blocks import Report
from ltr_harness.report.sections.features import importance
from ltr_harness.report.sections.features import section as features


@pytest.mark.long
def test_shares_are_the_mean_over_runs_of_the_models_own(stored_report: ReportData) -> None:
    runs = stored_report.runs_of("lgbm")
    found = importance("lgbm", runs)
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


def test_models_without_trees_have_none(stored_report: ReportData) -> None:
    assert importance("z-random", stored_report.runs_of("z-random")) == {}


@pytest.mark.long
def test_the_table(report_of_runs: Report) -> None:
    tables = {table.name: table for table in report_of_runs.tables}
    assert tables["importance"].columns[2].group == "lgbm"
    assert len(tables["importance"].rows) == 12


def test_runs_of_an_earlier_version_have_none(data: ReportData) -> None:
    assert features(data) == []
