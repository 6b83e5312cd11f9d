"""Served-score parity: logged features, the stored model, and the score that was logged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost
import yaml
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ltr_harness import evaluate, run_experiment
from ltr_harness.data.logs.contract import Contract
from ltr_harness.errors import ConfigError, DataError, HarnessError, UsageError
from ltr_harness.experiments.runs import find_runs
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.calendar import cut
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.parity import compare_served_scores, served_model
from ltr_harness.monitoring.queries import columns_of
from ltr_harness.monitoring.reading import query_table
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.monitoring.result import json_schema as result_schema
from tests.conftest import examples

Cli = Callable[..., tuple[int, str, str]]

FROZEN = Path(__file__).parents[1] / "experiments" / "runs" / "frozen" / "v1"
OLD, OTHER = (next(run for run in find_runs(FROZEN) if run.record.model == name) for name in ("lgbm", "xgb"))
FEATURES = OLD.record.features
SETTINGS: dict[str, Any] = {
    "columns": {"score": "score", "timestamp": "ts"},
    "metrics": ["ndcg@5"],
    "windows": {"min_queries": 20},
    "parity": {"model": str(OLD.path)},
}
DAYS, QUERIES, ROWS = 5, 40, 8
DAY = 86_400 * 10**9


def log_of(serve: Callable[[pd.DataFrame], Any] = OLD.score, missing: float = 0.0) -> pd.DataFrame:
    """A row per item: the features as they were logged, the score that was served, and a grade."""
    random = np.random.default_rng(7)
    n = DAYS * QUERIES * ROWS
    values = random.normal(size=(n, len(FEATURES)))
    features = pd.DataFrame(values, columns=FEATURES)
    features["match_1"] = np.where(random.random(n) < missing, np.nan, features["match_1"])
    query = np.arange(n) // ROWS
    return features.assign(
        query_id=np.char.add("q", np.char.zfill(query.astype(str), 4)),
        ts=np.datetime64("2026-01-05T08:00", "s") + 86_400 * (query // QUERIES),
        relevance=(random.random(n) < 0.3).astype(int),
        score=serve(features[FEATURES]),
    )


def monitor_parity(log: pd.DataFrame, **sections: Any) -> MonitorResult:
    return monitor({**SETTINGS, **sections}, log=log)


def shares(result: MonitorResult) -> list[float]:
    assert result.parity is not None
    return [window.share.value for window in result.parity.windows]


# --- worlds ---


def test_the_scores_of_the_model_itself_agree_to_the_bit() -> None:
    result = monitor_parity(log_of(), parity={**SETTINGS["parity"], "tolerance": 0, "max_share": 0})
    parity = result.parity
    assert parity is not None
    assert shares(result) == [0.0] * DAYS
    assert (parity.whole.n_rows, parity.whole.n_queries) == (1600, 200)
    assert (parity.whole.share.low, parity.whole.share.high) == (0, 0)
    assert (parity.whole.largest_difference, parity.whole.reordered, parity.whole.effect) == (0, 0, 0)
    assert not parity.examples
    assert parity.verdict == f"The logged score is that of {OLD.path.name} in all of 1,600 rows."
    assert result.healthy


def test_features_of_either_width_give_the_same_scores() -> None:
    """Training rounds values to float32, so a server may get either, and log either."""
    served_from_32 = log_of(lambda features: OLD.score(features.astype(np.float32)))
    logged_as_32 = log_of().astype(dict.fromkeys(FEATURES, np.float32))
    assert (logged_as_32["match_1"] != log_of()["match_1"]).any()
    for log in (served_from_32, logged_as_32):
        assert shares(monitor_parity(log, parity={**SETTINGS["parity"], "tolerance": 0})) == [0.0] * DAYS


def test_scores_in_32_bits_agree_and_not_without_a_tolerance() -> None:
    log = log_of(lambda features: OLD.score(features).astype(np.float32))
    assert monitor_parity(log).healthy
    assert shares(monitor_parity(log)) == [0.0] * DAYS
    assert min(shares(monitor_parity(log, parity={**SETTINGS["parity"], "tolerance": 0}))) > 0.9


@pytest.mark.skipif(
    Version(xgboost.__version__) < Version("3.1"), reason="the stored model is of XGBoost 3.1 or newer"
)
def test_a_server_that_fills_what_is_missing_with_0() -> None:
    """XGBoost learns where missing values go; LightGBM takes them for 0 where training had none."""
    log = log_of(lambda features: OTHER.score(features.fillna(0)), missing=0.3)
    truth = log["score"] != OTHER.score(log[FEATURES])
    watched = {**SETTINGS["columns"], "features": ["match_1", "match_2"]}
    result = monitor_parity(log, columns=watched, parity={"model": str(OTHER.path)})
    parity = result.parity
    assert parity is not None
    assert 0.05 < truth.mean() < 0.3
    assert parity.whole.share.value == truth.mean()
    assert parity.whole.incomplete == 1.0
    assert parity.whole.incomplete_others == log["match_1"].isna()[~truth].mean() < 0.3
    [feature] = parity.features
    assert feature.name == "match_1"
    in_queries = log.groupby("query_id")["match_1"].agg(lambda column: column.isna().mean())
    some = truth.groupby(log["query_id"]).any()
    assert feature.missing == pytest.approx(in_queries[some].mean(), abs=1e-12)
    assert feature.missing_others == pytest.approx(in_queries[~some].mean(), abs=1e-12)
    assert [alert.kind for alert in result.alerts] == ["parity"]
    first = log[truth].iloc[0]
    assert parity.examples[0].query == first["query_id"]
    assert parity.examples[0].window == "2026-01-05"


@pytest.mark.long
def test_another_version_from_the_third_window_on() -> None:
    def serve(features: pd.DataFrame) -> Any:
        since = np.arange(len(features)) >= 2 * QUERIES * ROWS
        return np.where(since, OTHER.score(features), OLD.score(features))

    log = log_of(serve)
    result = monitor_parity(log)
    parity = result.parity
    assert parity is not None
    assert shares(result)[:2] == [0.0, 0.0]
    assert min(shares(result)[2:]) > 0.95
    assert [window.alert for window in parity.windows] == [False, False, True, True, True]
    [alert] = result.alerts
    assert f"of rows differ from the score of {OLD.path.name}, " in alert.text
    assert alert.text.endswith(" in 3 windows, first 2026-01-07")
    assert result.verdict.cause == "serving"
    assert result.verdict.where.startswith(parity.verdict)
    # what it cost: ndcg by what was served, less ndcg by the model, query by query
    last = parity.windows[4]
    rows = log[log["ts"] >= "2026-01-09"]
    served, own = (
        evaluate(rows["relevance"], scores, query_ids=rows["query_id"], metrics=["ndcg@5"])[
            "ndcg@5"
        ].per_query
        for scores in (rows["score"], OLD.score(rows[FEATURES]))
    )
    assert last.effect == pytest.approx(np.nanmean(served - own), abs=1e-12)
    assert last.effect != 0


def test_features_that_were_logged_after_rounding() -> None:
    log = log_of()
    log[FEATURES] = log[FEATURES].round(1)
    again = OLD.score(log[FEATURES])
    parity = monitor_parity(log, metrics=["mrr"]).parity
    assert parity is not None
    truth = log["score"] != again  # leaves are far apart: the tolerance moves nothing here
    assert 0 < truth.mean() < 0.3
    assert parity.whole.share.value == truth.mean()
    apart = np.abs(log["score"] - again)
    assert parity.whole.largest_difference == apart.max()
    largest = apart.groupby(log["query_id"]).max()
    assert parity.whole.median_difference == largest[largest > 0].median()
    turned = 0
    for _, rows in log.assign(again=again).groupby("query_id"):
        one, two = (np.subtract.outer(rows[c].to_numpy(), rows[c].to_numpy()) for c in ("score", "again"))
        turned += bool(((one > 0) & (two < 0)).any())
    assert parity.whole.reordered == turned / 200 > 0


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_a_category_goes_by_its_text(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    colour = random.choice(["red", "green", "blue"], 400)
    rows = pd.DataFrame({"query_id": np.arange(400) // 8, "colour": colour, "price": random.random(400)})
    rows["label"] = (colour == "red") + random.integers(0, 2, 400)
    for name in ("train", "test"):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    trained = run_experiment(
        {
            "name": "colours",
            "data": {
                "reader": "csv",
                "root": str(tmp_path),
                "categorical": ["colour"],
                "splits": {"all": {"train": ["train.csv"], "test": ["test.csv"]}},
            },
            "metrics": {"report": ["ndcg"], "primary": "ndcg@5"},
            "models": {"lgbm": {"ranker": "lightgbm", "objective": "lambdarank", "rounds": 3, "preset": "small"}},
        },
        runs=tmp_path / "runs",
        accept=["identical-rows"],  # the same rows twice, on purpose
    )  # fmt: skip
    [run] = trained.runs
    log = rows.rename(columns={"colour": "tint"}).assign(
        score=run.test_scores["score"], query_id=rows["query_id"].astype(str)
    )
    config = {
        "columns": {"score": "score"},
        "relevance": {"label": "label"},
        "metrics": ["ndcg@5"],
        "parity": {"model": str(run.path), "features": {"colour": "tint"}, "tolerance": 0},
    }  # fmt: skip
    for logged in (log, log.astype({"tint": "category"}), log.sample(frac=1, random_state=1)):
        result = monitor(config, log=logged)
        assert result.parity is not None
        assert (result.parity.whole.n_rows, result.parity.whole.share.value) == (400, 0)
    log.loc[log["tint"] == "red", "tint"] = "crimson"  # a name that the model never saw
    result = monitor(config, log=log)
    assert result.parity is not None
    assert result.parity.whole.share.value > 0.2
    assert result.parity.whole.incomplete == 1.0
    with pytest.raises(
        DataError, match=r"column 'tint': has the type double; expected texts: colour is a cat"
    ):
        monitor(config, log=log.assign(tint=0.5))


# --- what is counted ---


def test_rows_without_a_logged_score_are_not_compared() -> None:
    log = log_of().assign(served=lambda rows: rows["score"], rank=np.tile(np.arange(1, ROWS + 1), 200))
    log.loc[::4, "served"] = np.nan
    log.loc[1, "served"] += 1
    parity = monitor_parity(
        log,
        columns={"rank": "rank", "timestamp": "ts"},
        parity={**SETTINGS["parity"], "score": "served"},
    ).parity
    assert parity is not None
    assert (parity.n_unscored, parity.whole.n_rows) == (400, 1200)
    assert parity.whole.share.value == 1 / 1200
    assert np.isnan(parity.whole.effect)  # no query has all of its scores
    log["served"] = np.nan
    nothing = monitor_parity(
        log,
        columns={"rank": "rank", "timestamp": "ts"},
        parity={**SETTINGS["parity"], "score": "served"},
    ).parity
    assert nothing is not None
    assert nothing.verdict == "No row has a logged score."


@pytest.mark.long
def test_the_order_of_rows_and_batches_shows_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(lambda features: OTHER.score(features.fillna(0)), missing=0.3)[: 60 * ROWS]
    model = {"model": str(OTHER.path)}
    one, other = (
        monitor_parity(rows, parity=model).document["parity"]
        for rows in (log, log.sample(frac=1, random_state=3))
    )
    for name in ("BATCH_ROWS", "IN_MEMORY_ROWS"):
        monkeypatch.setattr(f"ltr_harness.data.logs.log.{name}", 100)
    monkeypatch.setattr("ltr_harness.monitoring.parity._PIECE_ROWS", 33)
    assert one == other == monitor_parity(log, parity=model).document["parity"]


@st.composite
def scored_rows(draw: st.DrawFn) -> tuple[list[int], list[float], list[float]]:
    """Lists' lengths; of each row the model's score as a step from 0, and how far the logged one is from it."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    n = sum(sizes)
    scores = draw(
        st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 0.5 + 2.0**-18, 1.0]), min_size=n, max_size=n)
    )
    steps = st.sampled_from([0.0, 0.0, 0.0, 1e-9, -1e-9, 0.4, -0.4, 3.0, np.inf, -np.inf, np.nan])
    return sizes, scores, draw(st.lists(steps, min_size=n, max_size=n))


@pytest.mark.long
@given(scored_rows())
@examples(30)
def test_counts_are_those_of_a_loop(case: tuple[list[int], list[float], list[float]]) -> None:
    sizes, scores, steps = case
    query = np.repeat([f"q{i}" for i in range(len(sizes))], sizes)
    feature, logged = np.array(scores), np.array(scores) + np.array(steps)
    rank = np.concatenate([np.arange(1, size + 1) for size in sizes])
    table = pa.table(
        {"query_id": query, "rank": rank, "relevance": np.ones(query.size), "f": feature, "served": logged}
    )
    config = load_monitor_config(
        {
            "columns": {"rank": "rank"},
            "metrics": ["ndcg(gain=linear)@3"],
            "parity": {"model": str(linear_run()), "score": "served"},
        }
    )
    frame = query_table(table, config, Contract("production", "log"))
    assert frame is not None
    counted = columns_of(frame, "parity")
    reach = 1e-5 * np.maximum(np.abs(feature), served_model(str(linear_run()), False).spread)
    for at, name in enumerate(frame["query_id"]):
        rows = [i for i in range(query.size) if query[i] == name and not np.isnan(logged[i])]
        off = [i for i in rows if not abs(logged[i] - feature[i]) <= reach[i]]
        assert counted["rows"][at] == len(rows)
        assert counted["differ"][at] == len(off)
        assert counted["incomplete"][at] == 0
        largest = max((abs(logged[i] - feature[i]) for i in off), default=np.nan)
        np.testing.assert_equal(abs(counted["logged"][at] - counted["model"][at]), largest)
        turned = any(logged[i] > logged[j] and feature[j] > feature[i] + reach[j] for i in rows for j in rows)
        assert counted["reordered"][at] == turned


@pytest.mark.parametrize(("logged", "differ"), [(np.inf, 0.0), (-np.inf, 0.5), (1e300, 0.5)])
def test_an_infinite_score_is_only_itself(logged: float, differ: float) -> None:
    log = pd.DataFrame({"query_id": "a", "relevance": [0, 1], "f": [np.inf, 0.25], "score": [logged, 0.25]})
    config = {"columns": {"score": "score"}, "metrics": ["mrr"], "parity": {"model": str(linear_run())}}
    parity = monitor(config, log=log).parity
    assert parity is not None
    assert parity.whole.share.value == differ


_made: dict[str, Path] = {}


def linear_run() -> Path:
    """A run whose model's score is its only feature."""
    if not _made:
        import atexit
        import tempfile

        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        run = Path(shutil.copytree(OLD.path, Path(folder) / "linear"))
        stored = json.dumps(
            {"ranker": "linear", "columns": [0], "weights": [1.0], "centre": [0.0], "n_features": 1}
        )
        (run / "model.json").write_text(stored)
        from ltr_harness._util.files import file_digest

        record = json.loads((run / "record.json").read_text())
        record |= {"ranker": "linear", "features": ["f"]}
        record["data"]["train"]["n_features"] = 1
        record["files"]["model.json"] = file_digest(run / "model.json")
        (run / "record.json").write_text(json.dumps(record))
        _made["linear"] = run
    return _made["linear"]


# --- when it alerts ---


@pytest.mark.parametrize(("n", "alert"), [(0, False), (8, False), (64, False), (400, True)])
def test_an_alert_needs_more_than_chance(n: int, alert: bool) -> None:
    """1 % of 1,600 rows are 16; 64 rows of 8 queries may be chance, as all rows of a query differ together."""
    log = log_of()
    log.loc[log.index[:n], "score"] += 1.0
    result = monitor_parity(
        log, windows={"min_queries": 1000}, parity={**SETTINGS["parity"], "max_share": 0.02}
    )
    assert result.parity is not None
    assert result.parity.whole.share.value == n / 1600
    assert result.parity.whole.alert == alert
    assert result.exit_code == (4 if alert else 0)
    assert np.isnan([window.p_corrected for window in result.parity.windows]).all()


@pytest.mark.skipif(
    Version(xgboost.__version__) < Version("3.1"), reason="the stored model is of XGBoost 3.1 or newer"
)
def test_without_its_kind_it_is_a_notice() -> None:
    result = monitor_parity(log_of(OTHER.score), alerts={"on": ["change"]})
    assert result.healthy
    assert any(f"differ from the score of {OLD.path.name}" in caution.text for caution in result.cautions)


def test_users_count_together() -> None:
    """10 of 100 users have a stale client: by queries that is certain to be more than 5 %, by users it is not."""
    log = log_of().assign(user=lambda rows: (rows.index // (2 * ROWS)).astype(str))
    stale = log["user"].astype(int) < 10
    log.loc[stale, "score"] += 1.0
    options: dict[str, Any] = {"parity": {**SETTINGS["parity"], "max_share": 0.05}, "windows": {"size": "7d"}}
    queries = monitor_parity(log, **options).parity
    users = monitor_parity(log, columns={**SETTINGS["columns"], "cluster_id": "user"}, **options).parity
    assert queries is not None
    assert users is not None
    assert queries.whole.share.value == users.whole.share.value == 0.1
    assert users.whole.share.error > 1.3 * queries.whole.share.error


TAILS = {"compare": {"alpha": 0.025, "confidence": 0.975}, "slices": {"alpha": 0.025}}
"""2.5 % beyond each end of an interval: the test is one-sided."""


@pytest.mark.slow
def test_shares_at_the_bound_alert_no_more_often_than_alpha(query_table: Any) -> None:
    """5 % of the rows differ, by whole queries of unequal length, in 5 windows of 200 queries: 400 such logs."""
    random = np.random.default_rng(5)
    parity = {**SETTINGS["parity"], "score": "s", "max_share": 0.05}
    config = load_monitor_config({"columns": {"rank": "rank"}, "metrics": ["ndcg@10"], "parity": parity})
    two_sided = load_monitor_config(
        {"columns": {"rank": "rank"}, "metrics": ["ndcg@10"], "parity": parity, **TAILS}
    )
    windows = cut(DAY * (np.arange(1000) // 200), 1000, config)
    alerts, covered = 0, 0
    for _ in range(400):
        n = 1000
        rows = random.poisson(8, n) + 1
        differ = np.where(random.random(n) < 0.1, random.binomial(rows, 0.5), 0)
        table = query_table(np.full(n, 0.5))
        nothing = np.zeros(n)
        for name, values in {
            "rows": rows, "differ": differ, "incomplete": nothing, "differ_incomplete": nothing,
            "logged": nothing, "model": nothing, "reordered": nothing, "effect": nothing,
        }.items():  # fmt: skip
            table[f"parity:{name}"] = values
        table["n_items"] = rows
        found = compare_served_scores(table, windows, config.parity, config, 1.0)
        assert found is not None
        alerts += bool(found.alerts)
        found = compare_served_scores(table, windows, config.parity, two_sided, 1.0)
        assert found is not None
        covered += found.whole.share.low <= 0.05 <= found.whole.share.high
    assert alerts / 400 <= 0.08
    assert 0.92 <= covered / 400 <= 0.98


# --- the command ---


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_the_command_ends_in_4_with_a_page(ltr: Cli, tmp_path: Path) -> None:
    log_of(lambda features: OTHER.score(features.fillna(0)), missing=0.3).to_parquet(tmp_path / "log.parquet")
    model = Path(shutil.copytree(OTHER.path, tmp_path / "runs" / OTHER.path.name))
    config = {**SETTINGS, "parity": {"model": f"runs/{model.name}"}}  # relative to the file
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
    arguments = ["monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.parquet"]
    code, out, _ = ltr(*arguments, "-o", tmp_path / "report")
    assert code == 4
    lines = out.splitlines()
    assert lines[0].startswith("ALERT parity ")
    assert f" %] of rows differ from the score of {OTHER.path.name}, " in lines[0]
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    jsonschema.Draft202012Validator(result_schema()).validate(document)
    assert lines[-1] == document["parity"]["verdict"]
    assert document["parity"]["whole"]["alert"] is True
    assert document["config"]["parity"] == {
        "score": None, "features": {}, "tolerance": 1e-05, "max_share": 0.01, "trust": False,
    }  # fmt: skip
    page = (tmp_path / "report" / "report.html").read_text()
    for said in (
        "Served scores",
        "Reordered",
        "Incomplete",
        document["verdict"]["where"],
    ):
        assert said in page
    stored = pd.read_parquet(tmp_path / "report" / "per_query.parquet")
    assert (
        stored["parity:differ"].sum() / stored["parity:rows"].sum()
        == (document["parity"]["whole"]["share"]["value"])
    )
    provenance = json.loads((tmp_path / "report" / "provenance.json").read_text())
    assert [Path(file).name for file in provenance["files"]["served model"]] == ["record.json"]
    # the folder is a baseline, and what it says of the scores is production's
    code, out, _ = ltr(*arguments, "--baseline", tmp_path / "report", "--json")
    assert code == 4
    assert json.loads(out)["verdict"]["cause"] == "serving"


# --- what is refused ---


def edited_run(tmp_path: Path, **changes: Any) -> str:
    run = Path(shutil.copytree(OLD.path, tmp_path / "run"))
    record = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(record | changes))
    return str(run)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": "failed", "error": "out of memory"}, "failed (out of memory) and has no model; expected a run of"),
        ({"ranker": "random"}, "has no model of features: its ranker is random; expected a run of a model that"),
        (
            {"ranker": "./mine.py:Mine"},
            "needs code from ./mine.py, which is executed only if you trust it; read that file, then add "
            "parity: {trust: true}",
        ),
    ],
)  # fmt: skip
def test_a_run_without_a_model_to_score_with(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError) as error:
        monitor_parity(log_of(), parity={"model": edited_run(tmp_path, **changes)})
    assert told in str(error.value)


def test_a_ranker_of_ones_own_is_executed_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from ltr_harness.models.linear import LinearRanker as Mine\n")
    run = Path(shutil.copytree(linear_run(), tmp_path / "run"))
    record = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(record | {"ranker": f"{tmp_path}/mine.py:Mine"}))
    log = pd.DataFrame({"query_id": ["a", "a"], "relevance": [0, 1], "f": [0.5, 0.25], "score": [0.5, 0.75]})
    parity: dict[str, Any] = {"model": str(run)}
    with pytest.raises(UsageError, match=r"mine\.py, which is executed only if you trust it"):
        monitor({"columns": {"score": "score"}, "metrics": ["mrr"], "parity": parity}, log=log)
    parity["trust"] = True
    result = monitor({"columns": {"score": "score"}, "metrics": ["mrr"], "parity": parity}, log=log)
    assert result.parity is not None
    assert (result.parity.whole.share.value, result.parity.whole.effect) == (0.5, 0.5)
    assert not result.parity.alerts  # of a single query nobody can tell


def test_what_the_log_lacks_is_named(tmp_path: Path) -> None:
    log = log_of()
    with pytest.raises(DataError) as error:
        monitor_parity(log.rename(columns={"match_1": "bm25"}).drop(columns="match_2"))
    assert str(error.value).startswith(
        f"production log: lacks 2 of the 12 features of {OLD.path.name}: 'match_1', 'match_2'; expected the features "
        "as the model was given them; name columns under parity.features; "
    )
    renamed = monitor_parity(
        log.rename(columns={"match_1": "bm25"}),
        parity={**SETTINGS["parity"], "features": {"match_1": "bm25"}},
    ).parity
    assert renamed is not None
    assert renamed.whole.share.value == 0
    with pytest.raises(DataError, match=r"column 'match_1': has the type .*string; expected numbers"):
        monitor_parity(log.assign(match_1="high"))
    with pytest.raises(DataError, match="has no column 'served'"):
        monitor_parity(log, parity={**SETTINGS["parity"], "score": "served"})
    with pytest.raises(
        UsageError, match=r"parity.features: matsch_1: no feature of .*; did you mean 'match_1'"
    ):
        monitor_parity(log, parity={**SETTINGS["parity"], "features": {"matsch_1": "bm25"}})
    with pytest.raises(DataError, match="no such run folder"):
        monitor_parity(log, parity={"model": str(tmp_path / "none")})
    with pytest.raises(ConfigError, match=r"parity without a score; expected columns.score, or parity.score"):
        monitor_parity(log, columns={"rank": "rank"})


def test_a_changed_model_is_not_believed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(OLD.path, tmp_path / "run"))
    (run / "model.txt").write_text((run / "model.txt").read_text().replace("leaf_value=", "leaf_value=1", 1))
    with pytest.raises(DataError, match="not the file its record"):
        monitor_parity(log_of(), parity={"model": str(run)})


def test_a_result_without_it_says_nothing_of_it() -> None:
    plain = {key: value for key, value in SETTINGS.items() if key != "parity"}
    result = monitor(plain, log=log_of())
    assert result.parity is None
    assert result.document["parity"] is None
