"""What production is compared with: another log, a run of this harness, or an earlier result of monitor.

Numbers under different definitions are never set side by side: metrics, cutoffs, gains, the rule of relevance
and the rule for empty queries must agree, or the baseline is refused with every difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from ltr_harness.errors import DataError, NotComparableError, Problem
from ltr_harness.files import stored_file
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import QueryColumns, from_arrow
from ltr_harness.monitoring.rule_source import rule_of_run
from ltr_harness.stored import read_stored
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.runs import Run

RESULT = "report.json"
PER_QUERY = "per_query.parquet"


class _Definition(BaseModel, extra="allow"):
    metrics: list[str]
    relevance: dict[str, Any] = {}


class _Result(BaseModel):
    definition: _Definition


def is_result(path: Path) -> bool:
    """A folder that `ltr-harness monitor -o` wrote."""
    return (path / RESULT).is_file() and (path / PER_QUERY).is_file() and not (path / "record.json").is_file()


def is_run(path: Path) -> bool:
    """A run folder of `ltr-harness run`, or an experiment's folder of them."""
    return path.is_dir() and ((path / "record.json").is_file() or any(path.glob("*/record.json")))


def stored_result(path: Path, config: MonitorConfig) -> pd.DataFrame:
    """The per-query table of an earlier result.

    Raises:
        DataError: it cannot be read.
        NotComparableError: its definitions differ from the configured ones.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        theirs = read_stored(_Result, path, RESULT).definition.model_dump()
        table = parquet.ParquetFile(stored_file(path, PER_QUERY).absolute()).read()
        table = from_arrow(table, theirs["metrics"])
    except (OSError, ValueError, TypeError, AttributeError, KeyError, pa.ArrowException) as problem:
        raise DataError(Problem(str(path), f"is not a stored result of monitor: {problem}")) from None
    _refuse_differences(str(path), theirs, config.definition())
    return table


def stored_run(path: Path, config: MonitorConfig) -> pd.DataFrame:
    """The test queries of a run: its metrics, without segments, features and time.

    Raises:
        DataError: no run, several, or a failed one.
        NotComparableError: it lacks a metric, or production's relevance comes from events.
    """
    from ltr_harness.runs import find_runs

    runs = [run for run in find_runs(path) if run.record.status == "complete"]
    if len(runs) != 1:
        names = ", ".join(run.path.name for run in runs[:3])
        raise DataError(
            Problem(
                str(path),
                f"holds {count_of(len(runs), 'finished run')}",
                "one to compare with",
                f"name one of them: {names}" if runs else "",
            )
        )
    run = runs[0]
    _refuse_other_measures(run, config)
    return _queries_of(run, config)


def _refuse_other_measures(run: Run, config: MonitorConfig) -> None:
    """A run knows its labels and its own metrics, nothing else."""
    problems = []
    rule = rule_of_run(run)
    if rule is not None:
        problems += _rule_differences(str(run.path), rule.definition, config.relevance.definition)
    elif config.relevance.chosen != "label":
        problems.append(
            Problem(
                str(run.path),
                f"was measured on labels, and production's relevance is {config.relevance.chosen} of events",
                "the same rule of relevance on both sides",
                "give a log of events as the baseline, or train with relevance: under data:",
            )
        )
    metrics = [str(metric) for metric in config.resolved_metrics]
    problems += [
        Problem(
            str(run.path),
            f"has no {name}",
            f"the metrics {', '.join(metrics)}",
            f"it has {', '.join(run.record.metrics)}",
        )
        for name in metrics
        if name not in run.per_query
    ]
    if problems:
        raise NotComparableError(problems)


def _queries_of(run: Run, config: MonitorConfig) -> pd.DataFrame:
    frame, n = run.per_query, len(run.per_query)
    metrics = [str(metric) for metric in config.resolved_metrics]
    relevant = (
        frame["n_relevant"].to_numpy() > 0
        if "n_relevant" in frame
        else ~np.isnan(frame[metrics[0]].to_numpy())
    )
    ids = frame["query_id"].astype(str).to_numpy(dtype=object)
    table = QueryColumns(
        query_id=ids,
        metric={name: frame[name].to_numpy(np.float64) for name in metrics},
        n_items=(frame["rows"] if "rows" in frame else frame["n_relevant"] * 0 + 1).to_numpy(np.int32),
        has_relevant=relevant,
        grade=np.full((n, config.depth), np.nan, dtype=np.float32),
    ).frame()
    return table.take(np.argsort(ids, kind="stable"))


def _refuse_differences(place: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    problems = []
    if theirs.get("metrics") != ours["metrics"]:
        problems.append(
            Problem(
                place,
                (
                    f"was measured by {', '.join(theirs.get('metrics', []))}, production is by "
                    f"{', '.join(ours['metrics'])}"
                ),
                "the same metrics: another K, gain or rule for empty queries is another question",
            )
        )
    problems += _rule_differences(place, theirs.get("relevance", {}), ours["relevance"])
    if theirs.get("ips") != ours["ips"]:
        problems.append(
            Problem(place, f"has propensity clip {theirs.get('ips')}, production {ours['ips']}", "the same")
        )
    if problems:
        raise NotComparableError(problems)


def _rule_differences(place: str, before: dict[str, Any], now: dict[str, Any]) -> list[Problem]:
    return [
        Problem(
            place,
            f"has relevance.{key} = {before.get(key)!r}, production {now.get(key)!r}",
            "the same rule of relevance",
            f"relevance: {{from: {Path(place).name}}} takes the rule of a run" if is_run(Path(place)) else "",
        )
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]
