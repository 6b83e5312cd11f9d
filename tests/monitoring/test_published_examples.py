"""The numbers themselves: published examples, ties, and nothing that depends on how a log is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml

from ltr_harness import evaluate
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.page import write_monitor_report
from ltr_harness.monitoring.reading import read_log
from ltr_harness.monitoring.stages import watch
from ltr_harness.monitoring.synthetic import SyntheticLog

Cli = Callable[..., tuple[int, str, str]]

XYZ = {
    "columns": {"query_id": "search_group_id", "item_id": "item_id", "rank": "rank"},
    "metrics": ["ndcg(gain=linear)@5", "ndcg(gain=linear)@3", "mrr", "map"],
}
SYNTHETIC = {
    "columns": {
        "query_id": "request_id", "item_id": "sku", "score": "score", "timestamp": "ts", "cluster_id": "user_id",
        "segments": ["country", "device"], "features": ["f3", "f7", "price"],
    },
    "metrics": ["ndcg@10", "mrr@10"],
    "windows": {"min_queries": 20},
}  # fmt: skip


def test_the_published_three_groups(xyz: pd.DataFrame, ltr: Cli, tmp_path: Path) -> None:
    xyz.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(XYZ))
    code, out, _ = ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.csv", "--per-query")
    assert code == 0
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[1:4] == [
        ["x", "0.6183", "0.2346", "0.3333", "0.4778"],
        ["y", "0.8855", "0.7039", "1.0000", "0.7556"],
        ["z", "1.0000", "1.0000", "1.0000", "1.0000"],
    ]
    assert [line[1] for line in lines[4:]] == ["0.8346", "0.6462", "0.7778", "0.7444"]


def test_exactly_what_evaluate_says(xyz: pd.DataFrame) -> None:
    found = monitor(XYZ, log=xyz)
    ours = evaluate(xyz["relevance"], -xyz["rank"], query_ids=xyz["search_group_id"], metrics=XYZ["metrics"])
    assert found.windows[0].means == pytest.approx(dict(ours.means), abs=1e-15)
    assert found.windows[0].means["ndcg(gain=linear)@5"] == pytest.approx(0.8345827945, abs=1e-9)
    dcg_at_3 = 1 / log2(4)  # of x: 0.5, not the 1.88685 that was printed for it
    ideal = 1 + 1 / log2(3) + 1 / log2(4)
    table, *_ = read_log(xyz, load_monitor_config(XYZ), "production")
    assert table.filter(like="metric:").iloc[0, 1] == pytest.approx(dcg_at_3 / ideal, abs=1e-12)


@pytest.mark.long
def test_ties_never_exceed_one_and_do_not_depend_on_the_order_of_rows() -> None:
    rows = pd.DataFrame({"query_id": "q", "item": list("abc"), "s": [0.5, 0.5, 0.1], "relevance": [1, 1, 0]})
    config = {"columns": {"score": "s", "item_id": "item"}, "metrics": ["ndcg@1", "ndcg@3", "map", "mrr"]}
    seen = set()
    for seed in range(6):
        found = monitor(config, log=rows.sample(frac=1, random_state=seed))
        seen.add(tuple(found.windows[0].means.values()))
        tied = next(f for f in found.log_checks if f.check == "score-tied")
        assert tied.share == 1.0
    assert seen == {(1.0, 1.0, 1.0, 1.0)}


def test_an_interior_tie_counts_as_the_mean_over_its_orders() -> None:
    rows = pd.DataFrame({"query_id": "q", "s": [0.5, 0.5, 0.1], "relevance": [1, 0, 0]})
    found = monitor({"columns": {"score": "s"}, "metrics": ["mrr"]}, log=rows)
    assert found.windows[0].means["mrr"] == (1 + 1 / 2) / 2


@pytest.mark.long
def test_rank_and_score_give_the_same_numbers() -> None:
    table = SyntheticLog(days=2, queries_per_day=60).table()
    by_score = monitor(SYNTHETIC, log=table)
    columns = {**SYNTHETIC["columns"], "score": None, "rank": "position"}
    by_rank = monitor({**SYNTHETIC, "columns": columns}, log=table)
    assert [w.means for w in by_score.windows] == [w.means for w in by_rank.windows]
    both = monitor({**SYNTHETIC, "columns": {**columns, "score": "score"}}, log=table)
    assert not [f for f in both.log_checks if f.severity == "warning"]


def test_rank_and_score_that_disagree_are_told_with_examples() -> None:
    table = SyntheticLog(days=1, queries_per_day=60).table().to_pandas()
    first = sorted(table["request_id"].unique())[:5]
    table.loc[table["request_id"].isin(first), "score"] *= -1
    columns = {**SYNTHETIC["columns"], "rank": "position"}
    found = monitor({**SYNTHETIC, "columns": columns}, log=table)
    check = next(f for f in found.log_checks if f.check == "rank-and-score")
    assert (check.severity, check.count, check.total) == ("warning", 5, 60)
    assert check.examples == tuple(f"query '{name}'" for name in first[:3])


def report_bytes(log: Any, baseline: Any, folder: Path) -> dict[str, bytes]:
    found = watch(load_monitor_config({**SYNTHETIC, "name": "bytes"}), log=log, baseline=baseline)
    write_monitor_report(found.result, folder)
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.*")) if path.is_file()}


@pytest.mark.long
def test_rows_columns_and_batches_leave_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a picture is drawn of its specification alone, by another process
    monkeypatch.setattr("ltr_harness.report.charts.svg", lambda chart: json.dumps(chart.spec))
    log = SyntheticLog(days=3, queries_per_day=40, seed=1, drop=0.8).table()
    baseline = SyntheticLog(days=3, queries_per_day=40, seed=2).table()
    usual = report_bytes(log, baseline, tmp_path / "usual")
    over_time = {f"{name}_over_time.svg" for name in ("metrics", "segments", "labels")}
    assert set(usual) == {"report.html", "report.json", "report.md", "windows.svg", *over_time}
    random = np.random.default_rng(0)
    columns = list(random.permutation(log.column_names))
    mixed = log.take(pa.array(random.permutation(log.num_rows))).select(columns)
    config = load_monitor_config({**SYNTHETIC, "name": "bytes"})
    assert monitor(config, log=mixed, baseline=baseline).to_json().encode() == usual["report.json"]
    parquet.write_table(log.select(columns), tmp_path / "log.parquet", row_group_size=100)
    monkeypatch.setattr("ltr_harness.data.logs.log.IN_MEMORY_ROWS", 100)
    monkeypatch.setattr("ltr_harness.data.logs.log.BATCH_ROWS", 70)
    assert report_bytes(tmp_path / "log.parquet", baseline, tmp_path / "batches") == usual


def test_the_signature_of_the_metric_is_in_the_document(xyz: pd.DataFrame) -> None:
    found = json.loads(monitor(XYZ, log=xyz).to_json())
    assert found["definition"]["metrics"][0] == "ndcg(gain=linear)@5"
    assert found["definition"]["relevance"]["mode"] == "label"
