"""Defects found in other tools, each with a test that ours has none of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as parquet
import pytest
import yaml

import ltr_harness
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.result import MonitorResult

pytestmark = pytest.mark.long

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]
Cli = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[2]


def means(config: dict[str, Any], rows: pd.DataFrame) -> dict[str, float]:
    return dict(monitor(config, log=rows).windows[0].means)


def quality(random: np.random.Generator, n: int, mean: float = 0.75, spread: float = 0.15) -> Any:
    return np.clip(mean + spread * random.standard_normal(n), 0, 1)


# ---- Evidently --------------------------------------------------------------------------------------------


def test_tied_scores_do_not_share_rank_one() -> None:
    rows = pd.DataFrame({"query_id": "q", "s": [0.5, 0.5, 0.1], "relevance": [1, 1, 0]})
    config = {"columns": {"score": "s"}, "metrics": ["ndcg@1", "ndcg@3", "map"]}
    found = means(config, rows)
    assert found == {"ndcg@1": 1.0, "ndcg@3": 1.0, "map": 1.0}  # not 2.0, 1.226 and 1.5
    mixed = means(config, rows.assign(relevance=[1, 0, 1]))  # one of the tied is relevant, and the last row
    second = 1 / np.log2(3)
    expected = {"ndcg@1": 1 / 2, "ndcg@3": ((1 + second) / 2 + 1 / 2) / (1 + second)}
    assert {name: mixed[name] for name in expected} == pytest.approx(expected)


def test_the_value_at_one_is_labelled_one() -> None:
    rows = pd.DataFrame({"query_id": "q", "rank": [1, 2], "relevance": [0, 1]})
    found = means({"columns": {"rank": "rank"}, "metrics": ["ndcg@1", "ndcg@2"]}, rows)
    assert found == {"ndcg@1": 0.0, "ndcg@2": pytest.approx(1 / np.log2(3))}


def test_new_types_of_pandas_are_read() -> None:
    rows = pd.DataFrame(
        {
            "query_id": pd.array(["q"], dtype="string"),
            "rank": pd.array([1], dtype="Int64"),
            "relevance": [True],
        }
    )
    assert means({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, rows) == {"mrr": 1.0}


def test_nothing_is_imported_from_the_inside_of_pandas() -> None:
    """Such imports broke with pandas 3."""
    inside = re.compile(r"^\s*(from|import)\s+pandas\.(core|_|compat|util\._)", re.MULTILINE)
    assert inside.search("    from pandas.core.dtypes.common import infer_dtype_from_object")
    sources = list(Path(ltr_harness.__file__).parent.rglob("*.py"))
    assert [path for path in sources if inside.search(path.read_text(encoding="utf-8"))] == []


def test_the_labels_of_a_frames_index_mean_nothing() -> None:
    rows = pd.DataFrame({"query_id": list("aab"), "rank": [1, 2, 1], "relevance": [0, 1, 1]})
    config = {"columns": {"rank": "rank"}, "metrics": ["mrr"]}
    strange = rows.set_index(pd.Index([7, 7, -1])).iloc[::-1]
    assert means(config, strange) == means(config, rows) == {"mrr": 0.75}


# ---- NannyML ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "most", "three_sigmas"), [(5, 1, 1), pytest.param(60, 5, 7, marks=pytest.mark.slow)]
)
def test_ten_windows_of_reference_raise_no_alarm_of_their_own(
    runs: int, most: int, three_sigmas: int, query_table: Table, analyse: Analyse
) -> None:
    """Thirty healthy windows against ten: mean +- 3 sd of the ten would bark in every fifth run."""
    random = np.random.default_rng(14)
    ours = three_sigma = 0
    for _ in range(runs):
        now, before = (quality(random, days * 300).reshape(days, 300) for days in (30, 10))
        found = analyse(
            query_table(now.reshape(-1), days=np.repeat(np.arange(30), 300)),
            query_table(before.reshape(-1), days=np.repeat(np.arange(10), 300), prefix="b"),
            compare={"min_drop": 0.0},
        )
        ours += bool(found.alerts)
        chunks = before.mean(axis=1)
        three_sigma += bool((now.mean(axis=1) < chunks.mean() - 3 * chunks.std(ddof=1)).any())
    assert ours <= most  # nominally a twentieth
    assert three_sigma >= three_sigmas


def test_improvement_never_counts_as_harm(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(4)
    day = np.repeat(np.arange(10), 300)
    before = np.clip(0.6 + 0.1 * random.standard_normal(day.size), 0, 1)
    found = analyse(query_table(before + 0.1, days=day), query_table(before, days=day, prefix="b"))
    assert found.healthy


def test_what_explains_an_improvement_has_its_sign(query_table: Table, analyse: Analyse) -> None:
    """A feature moves and queries get easier: its link is positive, and nobody is called harmful."""
    random = np.random.default_rng(15)
    sides = []
    for moved in (0.5, 0.0):
        ease = random.standard_normal(4000) + moved
        sides.append(
            query_table(
                quality(random, 4000, 0.7, 0.05) + 0.05 * ease, features={"f": ease}, prefix=f"{moved}"
            )
        )
    found = analyse(*sides)
    assert found.drift[0].drifted
    assert found.drift[0].mix.low > 0
    assert found.verdict.cause == "improved"
    assert found.healthy


def test_no_version_of_a_library_is_forbidden() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [of for name, of in project["optional-dependencies"].items() if name not in ("docs", "lint")]
    required = [*project["dependencies"], *(requirement for extra in extras for requirement in extra)]
    assert {"lightgbm", "xgboost", "pandas"} <= {re.split(r"[><=~ \[;]", r)[0] for r in required}
    assert [r for r in required if re.search(r"<|==|~=", r.partition(";")[0])] == []
    assert "<" not in project["requires-python"]


WATCHED = """
import os, sys

def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname") or (
        event == "socket.connect" and isinstance(arguments[1], tuple)
    ):
        os.write(2, f"NETWORK {event} {arguments}".encode())
        os._exit(97)

sys.addaudithook(watch)
from ltr_harness.report import charts
charts.svg = lambda chart: ""  # drawn by a process of their own, which nobody watches here
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
sys.exit(run_command(cli, sys.argv[1:]))
"""


def test_nobody_is_told_that_it_was_used(tmp_path: Path) -> None:
    """A whole run, reports included, in a process that dies at the first look into the network."""
    small = {"days": 2, "queries_per_day": 250, "items": 5}
    config = {
        "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts", "features": ["f3"]},
        "metrics": ["ndcg@5"], "log": {**small, "seed": 2}, "baseline": {**small, "seed": 1},
    }  # fmt: skip
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
    command = ["monitor", "m.yaml", "-o", "out", "--history", "history"]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 4), done.stderr
    assert (tmp_path / "out" / "report.html").is_file()
    curious = WATCHED.replace("from ltr", "import socket; socket.getaddrinfo('localhost', 80)\nfrom ltr", 1)
    caught = subprocess.run([sys.executable, "-c", curious], capture_output=True, check=False)
    assert caught.returncode == 97  # the guard bites


# ---- whylogs, OpenSearch, Metarank, allRank ---------------------------------------------------------------


def test_k_is_not_lowered_to_the_longest_list() -> None:
    rows = pd.DataFrame({"query_id": "q", "rank": [1, 2], "relevance": [0, 1]})
    assert means({"columns": {"rank": "rank"}, "metrics": ["precision@10"]}, rows) == {"precision@10": 0.1}


def test_average_precision_divides_by_what_is_relevant() -> None:
    rows = pd.DataFrame({"query_id": "q", "rank": range(1, 6), "relevance": [1, 0, 1, 1, 1]})
    found = means({"columns": {"rank": "rank"}, "metrics": ["map@3"]}, rows)
    assert found["map@3"] == pytest.approx((1 + 2 / 3) / 3)  # min(R, 3), not the two found


def test_per_query_values_are_never_rounded(ltr: Cli, tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {
            "query_id": np.repeat(["a", "b", "c"], 3),
            "rank": [1, 2, 3] * 3,
            "relevance": [0, 1, 0, 0, 0, 1, 1, 0, 1],
        }
    )
    config = {"columns": {"rank": "rank"}, "metrics": ["mrr"]}
    assert means(config, rows)["mrr"] == (1 / 2 + 1 / 3 + 1) / 3
    rows.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
    assert ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.csv", "-o", tmp_path / "out")[0] == 0
    stored = parquet.read_table(tmp_path / "out" / "per_query.parquet")["mrr"].to_pylist()
    assert stored == [1 / 2, 1 / 3, 1.0]  # to the last bit, in the file as well


def test_ndcg_of_graded_events_stays_at_most_one() -> None:
    random = np.random.default_rng(5)
    rows = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(200), 8),
            "rank": np.tile(np.arange(1, 9), 200),
            "click": random.poisson(2, 1600),
            "buy": random.poisson(0.2, 1600),
        }
    )
    found = monitor(
        {"columns": {"rank": "rank"}, "relevance": {"events": {"click": 1, "buy": 4}}, "metrics": ["ndcg@5"]},
        log=rows,
    )
    assert found.windows[0].interval.high <= 1.0
    assert found.windows[0].p90 <= 1.0


@pytest.mark.parametrize("order", [["click", "buy"], ["buy", "click"]])
def test_a_click_and_then_a_purchase_is_a_purchase(order: list[str], tmp_path: Path) -> None:
    log = pd.DataFrame({"query_id": "q", "item_id": ["a", "b"], "rank": [1, 2]})
    events = pd.DataFrame({"query_id": "q", "item_id": "b", "event": order})
    events.to_parquet(tmp_path / "events.parquet")
    rule = {"events": {"click": 1, "buy": 4}, "event_log": {"path": str(tmp_path / "events.parquet")}}
    config = {"columns": {"rank": "rank", "item_id": "item_id"}, "relevance": rule, "metrics": ["dcg@2"]}
    assert means(config, log) == {"dcg@2": pytest.approx((2**4 - 1) / np.log2(3))}


def test_reciprocal_rank_takes_the_first_relevant_row_not_the_best() -> None:
    rows = pd.DataFrame(
        {"query_id": ["q"] * 3 + ["e"] * 2, "rank": [1, 2, 3, 1, 2], "relevance": [1, 0, 4, 0, 0]}
    )
    found = monitor({"columns": {"rank": "rank"}, "metrics": ["mrr"]}, log=rows)
    assert found.windows[0].means["mrr"] == 1.0
    assert found.windows[0].n_defined == 1  # the query without a relevant document is no 1, and no 0 either


# ---- LightGBM, XGBoost ------------------------------------------------------------------------------------


def test_a_query_without_relevant_rows_is_never_perfect_by_default() -> None:
    rows = pd.DataFrame({"query_id": ["q", "q", "e", "e"], "rank": [1, 2, 1, 2], "relevance": [0, 1, 0, 0]})
    found = monitor({"columns": {"rank": "rank"}, "metrics": ["ndcg@2"]}, log=rows)
    c = found.empty_rules[0]
    value = 1 / np.log2(3)
    assert dict(found.windows[0].means) == {"ndcg@2": pytest.approx(value)}  # not the mean of it and 1
    assert (c.skip, c.zero, c.one) == (
        pytest.approx(value),
        pytest.approx(value / 2),
        pytest.approx(value / 2 + 0.5),
    )


def test_row_order_decides_nothing_among_tied_items() -> None:
    rows = pd.DataFrame({"query_id": "q", "s": 1.0, "relevance": [3, 0, 0, 1]})
    config = {"columns": {"score": "s"}, "metrics": ["ndcg@2"]}
    assert (
        len(
            {
                means(config, rows.iloc[list(order)])["ndcg@2"]
                for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2])
            }
        )
        == 1
    )
