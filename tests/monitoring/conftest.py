"""Logs and per-query tables with a planted truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.ending import run_command
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.queries import Category, QueryTable
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.monitoring.stages import analysed

DAY = 86_400 * 10**9
START = int(np.datetime64("2026-01-05", "ns").astype(np.int64))  # a Monday

Table = Callable[..., QueryTable]
Analyse = Callable[..., MonitorResult]


@pytest.fixture(scope="session")
def query_table() -> Table:
    """A table from per-query values; days count from a Monday."""

    def build(
        values: Any,
        *,
        days: Any = None,
        cluster: Any = None,
        segments: Mapping[str, Any] | None = None,
        features: Mapping[str, Any] | None = None,
        relevant: Any = None,
        pair_key: Any = None,
        ids: Any = None,
        prefix: str = "q",
    ) -> QueryTable:
        values = np.asarray(values, dtype=np.float64)
        n = values.size
        names = (
            np.char.add(prefix, np.char.zfill(np.arange(n).astype(str), 7))
            if ids is None
            else np.asarray(ids)
        )
        watched = {}
        for name, column in (features or {}).items():
            watched |= {f"{name}:mean": column, f"{name}:max": column, f"{name}:std": np.zeros(n)}
        return QueryTable(
            ids=names.astype(object),
            metrics=("ndcg@10",),
            values=values[None, :],
            n_items=np.full(n, 10, dtype=np.int32),
            relevant=~np.isnan(values) if relevant is None else relevant,
            events={},
            by_rank=np.zeros((n, 10), dtype=np.float32),
            time=None if days is None else START + np.asarray(days, dtype=np.int64) * DAY,
            cluster=None if cluster is None else Category.of(cluster),
            pair_key=None if pair_key is None else Category.of(pair_key),
            segments={name: Category.of(column) for name, column in (segments or {}).items()},
            features=watched,
        )

    return build


@pytest.fixture(scope="session")
def analyse() -> Analyse:
    """Everything after the logs have been read, under a configuration with the given sections."""

    def run(now: QueryTable, before: QueryTable | None, **sections: Any) -> MonitorResult:
        columns = {
            "rank": "rank",
            "segments": list(now.segments or {}),
            "features": sorted({name.rpartition(":")[0] for name in now.features or {}}),
        }
        sections["columns"] = columns | sections.get("columns", {})
        config = load_monitor_config({"metrics": ["ndcg@10"], **sections})
        return analysed(now, before, config).result

    return run


@pytest.fixture(scope="session")
def xyz() -> pd.DataFrame:
    """The table of three search groups, with ranks and binary relevance."""
    lists = {"x": [0, 0, 1, 1, 1], "y": [1, 0, 1, 0, 1], "z": [1, 0, 0, 0, 0]}
    return pd.DataFrame(
        [
            {"search_group_id": group, "item_id": f"{group}{rank}", "rank": rank, "relevance": grade}
            for group, grades in lists.items()
            for rank, grade in enumerate(grades, start=1)
        ]
    )


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line; no traceback may reach the user."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        code = run_command(cli, [str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run
