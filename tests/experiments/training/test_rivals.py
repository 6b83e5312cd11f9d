"""`configs/rivals.yaml` from end to end: nine models of five kinds, one table, one definition of every number."""

from pathlib import Path

import pytest

from ltr_harness import evaluate, run_experiment

RIVALS = Path(__file__).resolve().parents[3] / "configs" / "rivals.yaml"
SMALL = (
    *("data.n_queries={train: 60, valid: 40, test: 60}", "stopping.max_rounds=3"),
    *("models.forest.params.n_estimators=5", "report.formats=[json]"),
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> object:
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install scikit-learn")
    return run_experiment(RIVALS, overrides=SMALL, runs=tmp_path_factory.mktemp("runs"))


def test_all_nine_are_in_the_table(result) -> None:
    records = {run.record.model: run.record for run in result.runs}
    assert len(records) == 9
    assert {record.status for record in records.values()} == {"complete"}
    kinds = {record.ranker for record in records.values()}
    assert kinds == {"lightgbm", "xgboost", "sklearn", "blend", "feature", "random"}
    assert set(result.comparison.models) == set(records)
    assert result.comparison.baseline == "lambdarank"
    weights = records["blend"].learned["weights"]
    assert set(weights) == {"lambdarank", "squared-error", "forest"}
    assert sum(weights.values()) == pytest.approx(1)


def test_their_numbers_are_those_of_evaluate(result) -> None:
    for run in result.runs:
        scores = run.test_scores
        found = evaluate(scores["label"], scores["score"], "ndcg@10", query_ids=scores["query_id"].to_numpy())
        assert run.record.metrics["ndcg@10"].mean == found.means["ndcg@10"]
        assert result.comparison.summary(run.record.model).mean == pytest.approx(
            found.means["ndcg@10"], abs=1e-12
        )
