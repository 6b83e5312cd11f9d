"""Items that users bought and were not shown count in denominators; nothing else of the log sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness import evaluate
from ltr_harness.data.logs.contract import Contract
from ltr_harness.errors import ConfigError, DataError, NotComparableError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.queries import columns_of
from ltr_harness.monitoring.reading import query_table

pa = pytest.importorskip("pyarrow")

METRICS = ["ndcg@10", "recall@3", "map(denominator=total)", "mrr@10", "n_relevant"]
SETTINGS: dict[str, Any] = {
    "columns": {
        "query_id": "query",
        "item_id": "item",
        "rank": "rank",
        "timestamp": "time",
        "retrieved": "shown",
        "features": ["price"],
    },
    "relevance": {"events": {"click": 1, "buy": 2}, "mode": "max"},
    "metrics": METRICS,
}


def log(seed: int = 1, n: int = 300, missed: float = 0.6) -> pd.DataFrame:
    """Lists of 2 to 9 items, and in a share of the queries one or two items that were bought elsewhere."""
    rng = np.random.default_rng(seed)
    rows = []
    for query in range(n):
        size = int(rng.integers(2, 10))
        for rank in range(1, size + 1):
            click = int(rng.random() < 0.6 / rank)
            buy = int(click and rng.random() < 0.3)
            rows.append((f"q{seed}-{query:04}", f"i{rank}", rank, 1, click, buy, rng.normal()))
        for other in range(int(rng.random() < missed) * int(rng.integers(1, 3))):
            rows.append((f"q{seed}-{query:04}", f"o{other}", np.nan, 0, 0, 1, np.nan))
    frame = pd.DataFrame(rows, columns=["query", "item", "rank", "shown", "click", "buy", "price"])
    frame["time"] = pd.Timestamp("2026-01-05") + pd.to_timedelta(np.arange(len(frame)) % 7, unit="D")
    frame["time"] = frame.groupby("query")["time"].transform("min")
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def table_of(frame: pd.DataFrame, **changes: Any) -> tuple[Any, Contract]:
    contract = Contract("production", "log")
    found = query_table(pa.table(frame), load_monitor_config({**SETTINGS, **changes}), contract)
    return found, contract


def grades(frame: pd.DataFrame) -> Any:
    return np.maximum(frame.click, 2 * frame.buy)


def without_column() -> dict[str, Any]:
    return {name: column for name, column in SETTINGS["columns"].items() if name != "retrieved"}


def test_values_are_those_of_the_pool() -> None:
    week = log()
    found, contract = table_of(week)
    in_order = week.sort_values(["query", "rank"])
    expected = evaluate(
        grades(in_order),
        -in_order["rank"].fillna(99),
        query_ids=in_order["query"],
        retrieved=(in_order["shown"] == 1).to_numpy(),
        metrics=METRICS,
    )
    for metric in METRICS:
        np.testing.assert_array_equal(columns_of(found, "metric")[metric], expected[metric].per_query)
    missed = int((week.shown == 0).sum())
    [said] = [check for check in contract.log_checks if check.check == "not-shown"]
    assert (said.count, said.total, said.severity) == (missed, len(week), "note")
    assert f"{missed} of {len(week):,} rows were not shown; they have no rank and count in what" in str(said)


def test_the_rest_of_the_log_is_what_was_shown() -> None:
    week = log()
    shown = week[week.shown == 1]
    with_them, _ = table_of(week)
    alone, _ = table_of(shown, columns=without_column())
    for name in with_them.columns:
        if name.startswith("metric:") or name == "has_relevant":
            continue
        pd.testing.assert_series_equal(with_them[name], alone[name], obj=name)
    bought = week.assign(grade=grades(week)).groupby("query", sort=True)["grade"].max() > 0
    assert with_them["has_relevant"].tolist() == bought.tolist()
    assert with_them["has_relevant"].sum() > alone["has_relevant"].sum()


@pytest.mark.parametrize("unseen", ["zero", "ignore_below_last_click"])
def test_what_nobody_examined_is_left_out_and_what_was_not_shown_is_not(unseen: str) -> None:
    week = log(n=60)
    rule = {**SETTINGS["relevance"], "unseen": unseen}
    found, _ = table_of(week, relevance=rule)
    metric = columns_of(found, "metric")["recall@3"]
    for at, (_, rows) in enumerate(week.groupby("query", sort=True)):
        relevant = rows[grades(rows) > 0]
        first = relevant[relevant["rank"] <= 3]
        if len(relevant):
            assert metric[at] == pytest.approx(len(first) / len(relevant))
        else:
            assert np.isnan(metric[at])


@pytest.mark.long
def test_more_purchases_elsewhere_are_a_fall() -> None:
    before, now = log(n=600, missed=0.1), log(seed=2, n=600, missed=0.9)
    result = monitor(SETTINGS, log=now, baseline=before)
    assert result.verdict.what.startswith("ndcg@10 fell: ")
    assert {check.log for check in result.log_checks if check.check == "not-shown"} == {
        "production",
        "baseline",
    }
    blind = {**SETTINGS, "columns": without_column()}
    quiet = monitor(blind, log=now[now.shown == 1], baseline=before[before.shown == 1])
    assert not quiet.verdict.what.startswith("ndcg@10 fell")


def test_queries_that_were_shown_nothing_are_left_out_and_counted() -> None:
    week = log(n=40)
    lost = sorted(week.loc[week.shown == 0, "query"].unique())[:3]
    week = week[~(week["query"].isin(lost) & (week.shown == 1))]
    found, contract = table_of(week)
    assert len(found) == 37
    assert not set(lost) & set(found["query_id"])
    [said] = [check for check in contract.log_checks if check.check == "nothing-shown"]
    assert (said.count, said.total, said.severity) == (3, 40, "warning")
    nothing, _ = table_of(week[week["query"].isin(lost)])
    assert nothing is None


def test_flags_that_are_none_and_ranks_that_lack() -> None:
    week = log(n=40)
    with pytest.raises(DataError, match=r"1 of .* flags of what was shown are neither 0 nor 1"):
        monitor(SETTINGS, log=week.assign(shown=week.shown.where(np.arange(len(week)) > 0, 2)))
    with pytest.raises(DataError, match="ranks are missing or not an integer"):
        monitor({**SETTINGS, "columns": without_column()}, log=week)
    with pytest.raises(DataError, match="has no column 'shown'"):
        monitor(SETTINGS, log=week.drop(columns="shown"))


def test_an_estimator_has_no_propensity_for_what_was_not_shown() -> None:
    rule = {"events": {"click": 1}, "mode": "ips", "propensity": {"table": [1.0, 0.5]}}
    settings = {**SETTINGS, "relevance": rule, "metrics": ["dcg(gain=linear)@10"], "empty": "zero"}
    with pytest.raises(ConfigError, match=r"columns\.retrieved with relevance\.mode ips"):
        load_monitor_config(settings)


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_other_denominators_are_not_compared(ltr: Any, tmp_path: Path) -> None:
    week, blind = log(), {**SETTINGS, "columns": without_column()}
    week[week.shown == 1].to_parquet(tmp_path / "log.parquet")
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(blind))
    run = ("monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.parquet", "-o", tmp_path / "before")
    assert ltr(*run)[0] == 0
    with pytest.raises(NotComparableError, match=r"has relevance\.missed = None, production 'count'"):
        monitor(SETTINGS, log=week, baseline=tmp_path / "before")
    assert monitor(blind, log=week[week.shown == 1], baseline=tmp_path / "before").verdict
