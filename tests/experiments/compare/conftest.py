"""Run folders as an experiment leaves them, written by the code that writes them, from tables of values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness._util.files import unfinished
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.folder import finish, folder_name
from ltr_harness.experiments.runs.record import MetricSummary, Record, SplitFacts

WriteRun = Callable[..., Run]


def table(ids: Any, **columns: Any) -> pd.DataFrame:
    """Per-query values; ``ndcg_10=...`` becomes column ``ndcg@10``."""
    renamed = {
        name.replace("_", "@") if name not in ("n_relevant",) else name: values
        for name, values in columns.items()
    }
    return pd.DataFrame({"query_id": [str(query) for query in ids], **renamed})


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    def write(
        model: str,
        values: pd.DataFrame | None,
        *,
        fold: str = "all",
        seed: int = 1,
        experiment: str = "exp",
        identity: str | None = None,
        labels: str = "labels",
        error: str = "ran out of memory",
        **changes: Any,
    ) -> Run:
        metrics = [] if values is None else [name for name in values if "@" in name]
        summaries = {
            name: MetricSummary(
                mean=float(np.nanmean(values[name])),
                n_queries=len(values),
                n_undefined=int(values[name].isna().sum()),
                higher_is_better=not name.startswith("kendall"),
            )
            for name in metrics
            if values is not None
        }
        identity = identity or f"{hash((experiment, model, fold, seed)) & 0xFFFFFFFFFFFF:012x}"
        test = SplitFacts(
            source="test",
            fingerprint=labels,
            judgments_fingerprint=labels if fold == "all" else f"{labels}-{fold}",
            n_queries=10,
            n_rows=100,
            n_without_relevant=0,
            n_features=3,
        )
        facts: dict[str, Any] = {
            "status": "failed" if values is None else "complete",
            "error": error if values is None else None,
            "experiment": experiment,
            "model": model,
            "ranker": "lightgbm",
            "objective": "lambdarank",
            "fold": fold,
            "seed": seed,
            "identity": identity,
            "evaluation_identity": f"e{identity}",
            "params": {},
            "reading": {},
            "packages": {},
            "config": {"ranker": "lightgbm"},
            "threads": 1,
            "data": {"test": test},
            "metrics": summaries,
            "primary": next(iter(metrics), "ndcg@10"),
            "stopping": None,
            "best_round": None,
            "rounds_trained": None,
            "seconds": {},
            "environment": {},
        }
        record = Record(**{**facts, **changes})
        parent = tmp_path / "runs" / experiment
        target = parent / folder_name(model, fold, seed, identity)
        with unfinished(parent) as folder:
            if values is not None:
                values.to_parquet(folder / "per_query.parquet")
            finish(folder, target, record)
        return load_run(target)

    return write
