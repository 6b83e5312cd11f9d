"""Logs and per-query tables with a planted truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.data.logs.contract import LogCheck
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.evidence import Evidence
from ltr_harness.monitoring.labels import WITH_RELEVANT
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.queries import QueryColumns, columns_of
from ltr_harness.monitoring.result import (
    Adjustment,
    Change,
    FeatureDrift,
    LabelTest,
    MonitorResult,
    Presentation,
    SegmentDecomposition,
    Slice,
    Window,
)
from ltr_harness.monitoring.stages import run_stages

DAY = 86_400 * 10**9
START = int(np.datetime64("2026-01-05", "ns").astype(np.int64))  # a Monday

Table = Callable[..., pd.DataFrame]
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
    ) -> pd.DataFrame:
        values = np.asarray(values, dtype=np.float64)
        n = values.size
        digits = pc.utf8_lpad(pa.array(np.arange(n)).cast(pa.string()), 7, "0")
        names = pc.binary_join_element_wise(prefix, digits, "") if ids is None else pa.array(np.asarray(ids))
        watched = {}
        for name, column in (features or {}).items():
            watched |= {f"{name}:mean": column, f"{name}:max": column, f"{name}:std": np.zeros(n)}
            watched[f"{name}:missing"] = np.isnan(column).astype(np.float64)
        return QueryColumns(
            query_id=names.cast(pa.large_string()).to_pandas(),
            metric={"ndcg@10": values},
            n_items=np.full(n, 10, dtype=np.int32),
            has_relevant=~np.isnan(values) if relevant is None else relevant,
            grade=np.zeros((n, 1), dtype=np.float32),
            time=None if days is None else START + np.asarray(days, dtype=np.int64) * DAY,
            cluster=None if cluster is None else pd.Categorical(cluster),
            pair_key=None if pair_key is None else pd.Categorical(pair_key),
            segment={name: pd.Categorical(column) for name, column in (segments or {}).items()},
            feature=watched,
        ).frame()

    return build


@pytest.fixture(scope="session")
def analyse() -> Analyse:
    """Everything after the logs have been read, under a configuration with the given sections."""

    def run(now: pd.DataFrame, before: pd.DataFrame | None, **sections: Any) -> MonitorResult:
        columns = {
            "rank": "rank",
            "segments": list(columns_of(now, "segment")),
            "features": sorted({name.rpartition(":")[0] for name in columns_of(now, "feature")}),
        }
        sections["columns"] = columns | sections.get("columns", {})
        config = load_monitor_config({"metrics": ["ndcg@10"], **sections})
        return run_stages(now, before, config).result

    return run


@pytest.fixture(scope="session")
def quickstart_result() -> MonitorResult:
    """The result of configs/monitor_quickstart.yaml."""
    return monitor(Path(__file__).resolve().parents[2] / "configs" / "monitor_quickstart.yaml")


@pytest.fixture(scope="session")
def frozen_run() -> Run:
    """A stored run of LightGBM, evaluated on 24 queries."""
    frozen = Path(__file__).parents[1] / "experiments" / "runs" / "frozen" / "v1"
    return next(run for run in find_runs(frozen) if run.record.model == "lgbm")


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


NAN = float("nan")
FELL, ROSE, STILL = Estimate(-0.02, -0.03, -0.01), Estimate(0.02, 0.01, 0.03), Estimate(0.01, -0.02, 0.04)


def change(difference: Estimate, *, alert: bool = False, **given: Any) -> Change:
    now = Estimate(0.8 + difference.value)
    given = {"method": "by query", "p_corrected": 0.02} | given
    return Change("ndcg@10", now, Estimate(0.8), difference, NAN, alert=alert, **given)


STOOD = Estimate(
    0.01, -0.005, 0.025
)  # without the page: a fall of .01 of 2.0 is excluded, and STILL does not
AS_BEFORE = change(STILL)


def evidence(
    sections: dict[str, Any] | None = None,
    *,
    change: Change | None = AS_BEFORE,
    warnings: Sequence[LogCheck] = (),
    adjusted_for: tuple[str, ...] = (),
    **given: Any,
) -> Evidence:
    config = load_monitor_config({"metrics": ["ndcg@10"], "columns": {"rank": "rank"}, **(sections or {})})
    return Evidence(
        config=config,
        changes=() if change is None else (change,),
        adjustment=Adjustment(adjusted_for, STILL, NAN) if adjusted_for else None,
        log_checks=tuple(warnings),
        **given,
    )


def window(label: str, **given: Any) -> Window:
    names = "share_zero share_one p10 p50 p90 items_per_query relevant_share immature_share hours"
    counts = "start_ns end_ns number n_queries n_defined n_clusters"
    rest: dict[str, Any] = dict.fromkeys(names.split(), NAN) | dict.fromkeys(counts.split(), 0)
    rest |= {
        "means": {},
        "interval": STILL,
        "bounded_interval": None,
        "event_rates": {},
        "orphan_events": None,
        "online": {},
    }
    return Window(label, **(rest | {"status": "tested"} | given))


def page(
    signature: str = "none",
    *,
    changed: bool = True,
    ips: Estimate | None = None,
    rank_1: Estimate = STILL,
    **given: Any,
) -> Presentation:
    """With IPS-DCG and its self-normalised estimate alike, of 2.0 before and 1.8 now."""
    numbers = {"ips_before": 2.0, "ips_now": 1.8, "ips_normalised_before": 2.0, "ips_normalised_now": 1.8}
    estimates = {"ips": ips, "ips_normalised": ips}
    return Presentation((), NAN, NAN, changed, rank_1, signature, **(numbers | estimates | given))


def labels(what: str = WITH_RELEVANT, where: str = "all", *, alert: bool = True) -> LabelTest:
    return LabelTest(what, where, STILL, alert, before=0.5, now=0.25, p_corrected=0.03)


def segment(excess: Estimate, confirmed: Estimate | None = None) -> Slice:
    return Slice("country=D", 100, 100, 0.1, 0.8, 0.7, 0.0, excess, NAN, NAN, confirmed)


def split(column: str, mix: Estimate, **given: Any) -> SegmentDecomposition:
    given = {"mix_p": 0.05, "simpsons_paradox": False} | given
    still = {"within": STILL, "unmatched": STILL, "unmatched_share": 0.0, "adjusted": NAN}
    return SegmentDecomposition(column=column, mix=mix, cells=(), **(still | given))


def drift(column: str, **given: Any) -> FeatureDrift:
    names = "psi psi_threshold distance p shift wasserstein missing_before missing_now share_of_change"
    rest: dict[str, Any] = dict.fromkeys(names.split(), 0.25) | {"kind": "number", "unmatched_share": 0.0}
    rest |= {"n_now": 9, "n_before": 9, "drifted": True, "mix": STILL, "unmatched": STILL}
    rest |= {"within": Estimate(NAN), "name": column}
    return FeatureDrift(column=column, **(rest | {"mix_p": 0.05, "unmatched_p": 0.05} | given))
