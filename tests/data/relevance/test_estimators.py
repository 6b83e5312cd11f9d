"""Labels that estimate relevance: right on average by enumeration of everything that can happen, and by simulation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltr_harness import run_experiment
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.data.relevance.propensities import cross_fitted, doubly_robust, inverse_propensity
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import find_runs
from ltr_harness.metrics import bind, parse_metric
from ltr_harness.monitoring import monitor

Cli = Callable[..., tuple[int, str, str]]
Floats = NDArray[np.float64]
LOOKS = [1.0, 0.5, 0.25, 0.1]
RULE: dict[str, Any] = {"mode": "ips", "events": {"click": 1}, "propensity": {"table": LOOKS, "clip": 0.2}}

# ---- arithmetic -------------------------------------------------------------------------------------------


@pytest.mark.long
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.05, 1), st.floats(0, 1)), min_size=1, max_size=4),
    st.floats(0.05, 1),
)
def test_labels_are_relevance_on_average_over_all_that_can_happen(
    rows: list[tuple[float, float, float]], clip: float
) -> None:
    relevance, looked, predicted = (np.array(column) for column in zip(*rows, strict=True))
    by_ips, by_dr = np.zeros(len(rows)), np.zeros(len(rows))
    for clicks in itertools.product([0.0, 1.0], repeat=len(rows)):
        clicked = np.array(clicks)
        chance = np.where(clicked == 1, looked * relevance, 1 - looked * relevance).prod()
        by_ips += chance * inverse_propensity(clicked, looked, clip)
        labels = doubly_robust(clicked, looked, predicted, clip)
        assert labels.min() >= 0
        by_dr += chance * labels
    kept = looked / np.maximum(looked, clip)  # 1 where nothing is clipped
    np.testing.assert_allclose(by_ips, kept * relevance, atol=1e-12)
    np.testing.assert_allclose(by_dr, relevance + (1 - kept) * (predicted - relevance), atol=1e-12)
    np.testing.assert_allclose(doubly_robust(clicked, looked, relevance, clip).shape, relevance.shape)


def test_relevance_is_predicted_by_the_other_queries_alone() -> None:
    random = np.random.default_rng(1)
    n_queries, n = 400, 4
    features = random.normal(size=(n_queries * n, 2)).astype(np.float32)
    features[::9, 1] = np.nan
    relevance = np.clip(0.5 + 0.2 * features[:, 0], 0, 1)
    looked = np.tile(LOOKS, n_queries)
    gains = (random.random(looked.size) < looked * relevance).astype(float)
    queries = np.repeat(np.arange(n_queries), n)
    predicted = cross_fitted(gains, looked, queries, features)
    assert np.corrcoef(predicted, relevance)[0, 1] > 0.95
    assert abs(predicted.mean() - relevance.mean()) < 0.03
    mine = queries % 5 == 2
    other = cross_fitted(np.where(mine, 1 - gains, gains), looked, queries, features)
    np.testing.assert_array_equal(other[mine], predicted[mine])  # whatever happened in the fold itself
    assert not np.array_equal(other[~mine], predicted[~mine])


# ---- from a table -----------------------------------------------------------------------------------------


def lists(clicks: list[list[int]], **columns: Any) -> pd.DataFrame:
    n = len(clicks)
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"q{at}" for at in range(n)], 4),
            "rank": np.tile([1, 2, 3, 4], n),
            "click": np.ravel(clicks),
            "f": np.arange(4.0 * n),
            **columns,
        }
    )


def read_labelled(rows: pd.DataFrame, **rule: Any) -> RankingDataset:
    return from_frame(rows, position="rank", features=["f"], relevance={**RULE, **rule})


def test_clicks_over_propensities_by_hand() -> None:
    data = read_labelled(lists([[1, 0, 1, 0], [0, 1, 0, 1]]))
    assert data.labels.tolist() == [1, 0, 4, 0, 0, 2, 0, 5]  # the last one is clipped: 1 / .2
    assert tuple(map(str, data.cautions[-2:])) == (
        "labels by `relevance`: the highest weight among the events that happened (click 1) over the probability that "
        "users examined its rank (by a given table; at least 0.2)",
        "relevance: 4 documents with events weigh as much as 3.1 seen equally often; 42% of the weight is at "
        "the clip of 0.2",  # 12² / (1 + 16 + 4 + 25), 5 / 12
    )


def test_the_same_clicks_without_a_rank_or_by_a_column_of_propensities() -> None:
    rows = lists([[1, 0, 1, 0]])
    by_column = {"propensity": {"column": "seen", "clip": 0.2}}
    assert read_labelled(rows.assign(seen=LOOKS), **by_column).labels.tolist() == [1, 0, 4, 0]
    with pytest.raises(DataError, match="1 of 4 propensities are missing or outside 0 … 1"):
        read_labelled(rows.assign(seen=[1, 0.5, 0.2, 0]), **by_column)
    with pytest.raises(DataError) as error:
        read_labelled(rows.assign(rank=[1, 2, 3, 0]))
    assert str(error.value) == (
        "frame: 1 of 4 rows have no rank: there are no events for items that were never shown, such "
        "as frame: row 4; leave them out: candidates can be compared on what was shown"
    )


def test_ranks_below_the_table_are_noted_wherever_data_are_read(tmp_path: Path, ltr: Cli) -> None:
    """`monitor` notes them by the same check (tests/monitoring/test_propensities.py)."""
    rows = lists([[1, 0, 1, 0], [0, 1, 0, 1]])
    rule = {**RULE, "propensity": {"table": LOOKS[:2], "clip": 0.2}}
    noted = (
        "4 of 8 rows lie below the last rank of the table of propensities; they count as if examined as often as that "
        "rank, such as {0}: row 3, {0}: row 4, {0}: row 7; give the propensities of all ranks that were shown"
    )
    (caution,) = (each for each in read_labelled(rows, **rule).cautions if each.kind == "propensity-unknown")
    assert (caution.severity, str(caution)) == ("note", f"relevance: {noted.format('frame')}")
    assert "propensity-unknown" not in {each.kind for each in read_labelled(rows).cautions}
    for split in ("train", "test"):
        rows.to_parquet(tmp_path / f"{split}.parquet")
    document = experiment(tmp_path, rule, "dcg(gain=linear,empty=zero)")
    document["data"] = {
        **document["data"],
        "features": ["f"],
        "splits": {each: f"{each}.parquet" for each in ("train", "test")},
    }
    del document["stopping"]
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(document))
    code, out, err = ltr("data", "describe", tmp_path / "e.yaml")
    assert code == 0, out + err
    for split in ("train", "test"):
        assert out.count(f"note: {split}: 4 of 8 rows lie below the last rank") == 1


def test_monitor_makes_the_same_labels(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    rows = lists((random.random((50, 4)) < np.array(LOOKS) * 0.7).astype(int).tolist())
    metric = parse_metric("dcg(gain=linear,empty=zero)@4")
    data = read_labelled(rows)
    config = {
        "columns": {"rank": "rank"},
        "relevance": RULE,
        "metrics": ["dcg(gain=linear)@4"],
        "empty": "zero",
    }
    (watched,) = monitor(config, log=rows).windows[0].means.values()
    assert watched == pytest.approx(
        bind([metric], data.judgments).means(-rows["rank"].to_numpy())[0], abs=1e-12
    )


def test_propensities_are_measured_below_the_folder_of_the_data(tmp_path: Path) -> None:
    n = 400
    swaps = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(n), 2),
            "rank": np.tile([1, 2], n),
            "original_rank": np.concatenate((np.tile([1, 2], n // 2), np.tile([2, 1], n // 2))),
        }
    )
    swaps["click"] = [int(r == 1 or at % 2) for at, r in zip(swaps.query_id, swaps["rank"], strict=True)]
    swaps.to_csv(tmp_path / "swaps.csv", index=False)
    lists([[0, 1, 0, 0]] * 4).iloc[:, :].loc[lambda rows: rows["rank"] <= 2].to_csv(
        tmp_path / "rows.csv", index=False
    )
    from ltr_harness.data.readers.csv import Csv

    estimate = {"path": "swaps.csv", "design": "swaps"}
    reader = Csv.model_validate(
        {"position": "rank", "relevance": {**RULE, "propensity": {"estimate": estimate, "clip": 0.1}}}
    )
    data = reader.read(["rows.csv"], tmp_path)
    assert data.labels.tolist() == [0, 2] * 4
    assert [path.name for path in reader.inputs(["rows.csv"], tmp_path)] == ["rows.csv", "swaps.csv"]
    assert any("random swaps in 400 lists" in note for note in map(str, data.cautions))


# ---- what is refused --------------------------------------------------------------------------------------


def experiment(folder: Path, rule: dict[str, Any], metric: str, **models: Any) -> dict[str, Any]:
    return {
        "name": "e",
        "data": {
            "reader": "parquet",
            "root": str(folder),
            "position": "rank",
            "features": ["f", "g"],
            "relevance": rule,
            "splits": {"train": "train.parquet", "valid": {"holdout": 0.2}, "test": "test.parquet"},
        },
        "metrics": {"report": [metric], "cutoffs": [4], "primary": f"{metric}@4"},
        "stopping": {"metric": f"{metric}@4", "patience": 2, "max_rounds": 5},
        "models": models or {"f": {"ranker": "feature", "feature": "f"}},
        "report": {"formats": ["md"]},
    }


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            "dcg(gain=linear)",
            "dcg(gain=linear)@4 leaves out queries without an event, so its mean is not an estimate of relevance; use "
            "dcg(gain=linear,empty=zero)@4",
        ),
        (
            "mrr",
            "mrr@4 asks only whether a label is above 0: it counts events whatever their rank; expected a metric "
            "of graded labels; use dcg(gain=linear,empty=zero)@4",
        ),
    ],
)
def test_metrics_that_labels_are_no_estimates_for(tmp_path: Path, metric: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_experiment(experiment(tmp_path, RULE, metric), check_rankers=False)
    assert message in str(error.value)
    config = {"columns": {"rank": "rank"}, "relevance": RULE, "metrics": ["mrr@4"]}
    with pytest.raises(ConfigError) as error:
        monitor(config, log=lists([[1, 0, 0, 0]]))
    assert "mrr@4 with relevance.mode ips: it counts events whatever their rank" in str(error.value)
    assert "empty: skip with relevance.mode ips: the mean is not an estimate of relevance" in str(error.value)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"propensity": None}, "mode ips lacks a part; expected events, and propensity"),
        ({"mode": "max"}, "propensity with mode max; expected mode ips or doubly_robust"),
        (
            {"unseen": "ignore_below_last_click"},
            "unseen with mode ips; expected none: propensities model examination",
        ),
    ],
)
def test_rules_that_do_not_go_together(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Relevance.model_validate({**RULE, **rule})


def test_a_log_has_no_features_to_be_doubly_robust_with() -> None:
    config = {
        "columns": {"rank": "rank"},
        "relevance": {**RULE, "mode": "doubly_robust"},
        "metrics": ["dcg(gain=linear)@4"],
        "empty": "zero",
        "propensity": {"table": LOOKS},
    }
    with pytest.raises(ConfigError) as error:
        monitor(config, log=lists([[1, 0, 0, 0]]))
    assert "relevance.mode doubly_robust: a log has no features to predict relevance from" in str(error.value)
    assert "propensity beside relevance.mode doubly_robust, which divides by propensities itself" in str(
        error.value
    )


# ---- a world with known truth -------------------------------------------------------------------------------


def world(n_queries: int, seed: int) -> tuple[pd.DataFrame, Floats]:
    """Lists as an old ranker showed them, clicks, and how often each row is clicked by those who look."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(n_queries, 6, 2)).astype(np.float32)
    old = 0.3 * features[..., 0] + random.normal(size=(n_queries, 6))
    order = np.argsort(-old, axis=1)
    features = np.take_along_axis(features, order[..., None], axis=1)
    relevance = 1 / (1 + np.exp(0.5 - 1.5 * features[..., 0]))
    clicks = random.random((n_queries, 6)) < relevance / np.arange(1, 7)
    rows = pd.DataFrame(
        {
            "query_id": np.repeat([f"{seed}-{at}" for at in range(n_queries)], 6),
            "rank": np.tile(np.arange(1, 7), n_queries),
            "click": clicks.ravel().astype(int),
            "f": features[..., 0].ravel(),
            "g": features[..., 1].ravel(),
        }
    )
    return rows, relevance.ravel()


PAGE = (1 / np.arange(1, 7)).tolist()


@pytest.mark.long
@pytest.mark.parametrize("mode", ["ips", "doubly_robust"])
def test_both_boosters_learn_from_estimates_and_the_report_says_what_they_are(
    tmp_path: Path, mode: str, ltr: Callable[..., tuple[int, str, str]]
) -> None:
    world(150, 1)[0].to_parquet(tmp_path / "train.parquet")
    world(60, 2)[0].to_parquet(tmp_path / "test.parquet")
    boosters = {
        "ips": {
            "lgb": {"ranker": "lightgbm", "objective": {"metric": "dcg(gain=linear,empty=zero)@4"}},
            "xgb": {"ranker": "xgboost", "objective": "rank:ndcg", "params": {"ndcg_exp_gain": False}},
        },
        "doubly_robust": {
            "lgb": {"ranker": "lightgbm", "objective": "regression", "params": {"num_leaves": 7}},
            "xgb": {"ranker": "xgboost", "objective": "reg:squarederror", "params": {"max_depth": 3}},
        },
    }
    models: dict[str, Any] = {**boosters[mode], "old": {"ranker": "feature", "feature": "f"}}
    rule = {**RULE, "mode": mode, "propensity": {"table": PAGE, "clip": 0.3}}
    run_experiment(
        experiment(tmp_path, rule, "dcg(gain=linear,empty=zero)", **models), runs=tmp_path / "runs"
    )
    runs = find_runs(tmp_path / "runs" / "e")
    assert {run.record.status for run in runs} == {"complete"}
    assert len(runs) == 3
    page = (tmp_path / "runs" / "e" / "report" / "report.md").read_text()
    assert "## Partial feedback" in page
    assert ("of one weight;" in page) == (mode == "ips")
    run = next(run for run in runs if run.record.model == "old")
    mean = run.per_query["dcg(empty=zero,gain=linear)@4"].mean()
    labels = run.test_scores["label"]
    assert f"{mean / (labels.sum() / 60):.4f}" in page  # self-normalised
    said = ltr("reproduce", run.path)
    assert "identical: " in said[1], said


@pytest.mark.slow
def test_estimates_are_unbiased_where_they_should_be_and_naive_clicks_are_not() -> None:
    """80 logs of 200 lists; a candidate that was not shown is judged by its DCG@3 on true relevance."""
    metric = parse_metric("dcg(gain=linear,empty=zero)@3")
    rules: dict[str, dict[str, Any]] = {"clicks": {"events": {"click": 1}}}
    for clip in (0.01, 0.3):
        for mode in ("ips", "doubly_robust"):
            propensity = {"table": PAGE, "clip": clip}
            rules[f"{mode} {clip}"] = {"mode": mode, "events": {"click": 1}, "propensity": propensity}
    off: dict[str, list[float]] = {name: [] for name in rules}
    for seed in range(80):
        rows, relevance = world(200, seed)
        candidate = rows.f.to_numpy(np.float64)
        for name, rule in rules.items():
            data = from_frame(rows, position="rank", relevance=rule)
            truth = Judgments.checked(relevance, data.groups)
            estimate, true = (bind([metric], one).means(candidate)[0] for one in (data.judgments, truth))
            off[name].append(estimate - true)
    bias = {name: float(np.mean(values)) for name, values in off.items()}
    error = {name: float(np.std(values, ddof=1)) / np.sqrt(80) for name, values in off.items()}
    for name in ("ips 0.01", "doubly_robust 0.01", "doubly_robust 0.3"):
        assert abs(bias[name]) < 2 * error[name], name
    assert bias["clicks"] < -0.5  # of 1.37: what stood low was not looked at
    assert bias["ips 0.3"] < -5 * error["ips 0.3"]  # clipped
    assert error["ips 0.3"] < error["ips 0.01"]  # and steadier
    assert error["doubly_robust 0.3"] < error["ips 0.01"]  # steadier, and not biased
