"""A run's folder: tables for other programs, where they came from; and an earlier result, or a run, as the baseline.

Numbers under different definitions are never set side by side: the baseline is refused with every difference. Of a
history each run leaves one file of its windows' numbers, named by its content and written whole; nothing is ever
rewritten, so runs at the same time cannot hurt each other.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from ltr_harness._util.escapes import addressed
from ltr_harness._util.files import file_digest, stored_file, whole_files, write_stored, write_whole
from ltr_harness._util.stored import (
    SCHEMA_VERSION,
    NewerVersionError,
    StoredForm,
    Versioned,
    harness_version,
    read_stored,
)
from ltr_harness._util.tables import csv_text
from ltr_harness._util.text import count_of
from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.data.addresses import local_path
from ltr_harness.data.logs.log import files_of
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.errors import DataError, NotComparableError, Problem
from ltr_harness.experiments.runs.run import MISSED, Run, find_runs
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import QueryColumns, from_arrow, to_arrow
from ltr_harness.monitoring.result import MonitorResult, Slice, Watched, Window

RESULT = "report.json"
PER_QUERY = "per_query.parquet"


class _Definition(BaseModel, extra="allow"):
    metrics: list[str]
    relevance: dict[str, Any] = {}


class _StoredResult(Versioned, extra="ignore"):
    form: ClassVar[StoredForm] = "monitor"
    definition: _Definition


def is_result(path: Path) -> bool:
    """Return whether a folder was written by `ltr-harness monitor -o`."""
    return (path / RESULT).is_file() and (path / PER_QUERY).is_file() and not (path / "record.json").is_file()


def is_run(path: Path) -> bool:
    """Return whether a folder is a run of `ltr-harness run`, or an experiment's folder of runs."""
    return path.is_dir() and ((path / "record.json").is_file() or any(path.glob("*/record.json")))


def stored_result(path: Path, config: MonitorConfig) -> pd.DataFrame:
    """Read the per-query table of an earlier result; refuse one of another definition, with every difference."""
    try:
        stored_definition = read_stored(_StoredResult, path, RESULT).definition.model_dump()
        table = parquet.ParquetFile(stored_file(path, PER_QUERY).absolute()).read()
        table = from_arrow(table, stored_definition["metrics"])
    except NewerVersionError as problem:
        raise DataError.at(path / RESULT, str(problem)) from None
    except (OSError, ValueError, TypeError, AttributeError, KeyError, pa.ArrowException) as problem:
        raise DataError(Problem(str(path), f"is not a stored result of monitor: {problem}")) from None
    problems, own_definition, place = [], config.definition(), str(path)
    if stored_definition.get("metrics") != own_definition["metrics"]:
        before, now = (", ".join(side.get("metrics", [])) for side in (stored_definition, own_definition))
        expected = "the same metrics: another K, gain or rule for empty queries is another metric"
        problems.append(Problem(place, f"was measured by {before}, production by {now}", expected))
    problems += _rule_differences(place, stored_definition.get("relevance", {}), own_definition["relevance"])
    if stored_definition.get("ips") != own_definition["ips"]:
        found = f"has propensity clip {stored_definition.get('ips')}, production {own_definition['ips']}"
        problems.append(Problem(place, found, "the same"))
    NotComparableError.refuse(problems)
    return table


def stored_run(path: Path, config: MonitorConfig) -> pd.DataFrame:
    """Return the test queries of a run: its metrics, without segments, features and time."""
    run = _only_finished_run(path)
    frame, metrics = run.per_query, [str(metric) for metric in config.resolved_metrics]
    NotComparableError.refuse(
        [*_rule_problems(run, config), *_denominator_problems(run, config), *_metric_problems(run, metrics)]
    )
    if "n_relevant" in frame:
        has_relevant = frame["n_relevant"].to_numpy() > 0
    else:
        has_relevant = ~np.isnan(frame[metrics[0]].to_numpy())
    n_items = frame["rows"] if "rows" in frame else frame["n_relevant"] * 0 + 1
    ids = frame["query_id"].astype(str).to_numpy(dtype=object)
    table = QueryColumns(
        query_id=ids,
        metric={name: frame[name].to_numpy(np.float64) for name in metrics},
        n_items=n_items.to_numpy(np.int32),
        has_relevant=has_relevant,
        grade=np.full((len(frame), config.depth), np.nan, dtype=np.float32),
    )
    return table.frame().take(np.argsort(ids, kind="stable"))


def _only_finished_run(path: Path) -> Run:
    runs = [run for run in find_runs(path) if run.record.status == "complete"]
    if len(runs) != 1:
        cure = f"name one of them: {', '.join(run.path.name for run in runs[:3])}" if runs else ""
        found = f"holds {count_of(len(runs), 'finished run')}"
        raise DataError(Problem(str(path), found, "one to compare with", cure))
    return runs[0]


def _rule_problems(run: Run, config: MonitorConfig) -> list[Problem]:
    """Check that the run's labels were made by production's rule; without a rule, its data had ready labels."""
    rule, place = run.record.reading.get("relevance"), str(run.path)
    if rule is not None:
        definition = Relevance.model_validate(rule).definition
        return _rule_differences(place, definition, config.relevance.definition)
    if config.relevance.chosen == "label":
        return []
    found = f"was measured on labels, and production's relevance is {config.relevance.chosen} of events"
    cure = "give a log of events as the baseline, or train with relevance: under data:"
    return [Problem(place, found, "the same rule of relevance on both sides", cure)]


def _denominator_problems(run: Run, config: MonitorConfig) -> list[Problem]:
    """Check that both sides count documents that were missed, or neither does."""
    run_counts, production_counts = MISSED in run.record.files, bool(config.columns.retrieved)
    if run_counts == production_counts:
        return []
    found = "does not count missed documents, and production does"
    if run_counts:
        found = "counts missed documents, and production does not"
    cure = "columns.retrieved names those of a log"
    return [Problem(str(run.path), found, "the same denominators", cure)]


def _metric_problems(run: Run, metrics: Sequence[str]) -> list[Problem]:
    expected, cure = f"the metrics {', '.join(metrics)}", f"it has {', '.join(run.record.metrics)}"
    lacking = [name for name in metrics if name not in run.per_query]
    return [Problem(str(run.path), f"has no {name}", expected, cure) for name in lacking]


def _rule_differences(place: str, before: dict[str, Any], now: dict[str, Any]) -> list[Problem]:
    cure = f"relevance: {{from: {Path(place).name}}} takes the rule of a run" if is_run(Path(place)) else ""
    other = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    differences = (f"has relevance.{key} = {before.get(key)!r}, production {now.get(key)!r}" for key in other)
    return [Problem(place, difference, "the same rule of relevance", cure) for difference in differences]


_PACKAGES = ("ltr-harness", "numpy", "pandas", "pyarrow", "scipy", "numba")


def write_tables(watched: Watched, folder: Path) -> None:
    """Write ``per_query.parquet`` (a later run's baseline), ``windows.csv``, ``slices.csv`` and ``config.yaml``."""
    windows = [
        {
            "window": w.label,
            **_attributes(w, "hours", "status", "n_queries", "n_defined", "n_clusters"),
            **w.means,
            **_interval("mean", w.interval, False),
            "bounded_low": w.bounded_interval and w.bounded_interval[0],
            "bounded_high": w.bounded_interval and w.bounded_interval[1],
            **_attributes(
                w, "p10", "p50", "p90", "share_zero", "share_one", "relevant_share", "items_per_query"
            ),
            **{f"{name}_per_query": rate for name, rate in w.event_rates.items()},
            "orphan_events": w.orphan_events,
            "immature_share": w.immature_share,
            **{f"online_{name}": mean for name, mean in w.online.items()},
            **_interval("adjusted", w.adjusted, False),
            **_interval("difference", w.change),
            "p_corrected": w.p_corrected,
            "alert": int(w.alert),
            **_interval("trailing", w.trailing),
            "trailing_p_corrected": w.trailing_p_corrected,
            "trailing_alert": int(w.trailing_alert),
            **_interval("running", w.running),
            "running_p_corrected": w.running_p_corrected,
            "running_alert": int(w.running_alert),
        }
        for w in watched.result.windows
    ]
    slices = [
        {
            "slice": s.predicate,
            **_attributes(s, "n_now", "n_before", "share", "before", "now", "rest_change"),
            **_interval("excess", s.excess),
            **_attributes(s, "impact", "p_corrected"),
            **_interval("confirmed", s.confirmed),
        }
        for s in watched.result.slices
    ]
    settings = watched.config.model_dump(mode="json")
    with whole_files(folder / PER_QUERY) as temporary:
        parquet.write_table(to_arrow(watched.production), temporary(folder / PER_QUERY), compression="zstd")
    write_whole(folder / "windows.csv", _csv(windows))
    write_whole(folder / "slices.csv", _csv(slices))
    write_whole(folder / "config.yaml", yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))


def write_provenance(
    watched: Watched, settings: MonitorConfig, log: Any, baseline: Any, folder: Path
) -> None:
    """Write ``provenance.json``: digests of all input files and versions of everything that computes."""
    events = settings.relevance.event_log
    experiment = None if settings.propensity is None else settings.propensity.estimate
    sources = {
        "log": log,
        "baseline": baseline,
        "events": events and events.path,
        "events of the baseline": events and events.baseline_path,
        "propensities": experiment and experiment.path,
        "propensities of the baseline": experiment and experiment.baseline_path,
        "model": settings.drift.model,
        "served model": settings.parity and settings.parity.model,
    }
    files = {
        role: {addressed(str(file)): file_digest(file) for file in _input_files(local_path(source))}
        for role, source in sources.items()
        if isinstance(source, str | Path)
    }
    document = {
        **_attributes(watched.result, "config_sha256", "production_sha256", "baseline_sha256"),
        "files": files,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
    }
    write_whole(folder / "provenance.json", json.dumps(document, indent=1, sort_keys=True) + "\n")


def _input_files(path: Path) -> Sequence[Path]:
    """Return the files that were read; of a run its record, which holds the digests of all its files."""
    if is_result(path):
        return [path / PER_QUERY]
    if is_run(path):
        return sorted(filter(Path.is_file, path.rglob("record.json")))
    return files_of(path)


def _attributes(record: Window | Slice | MonitorResult, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _interval(name: str, interval: Estimate | None, with_p: bool = True) -> dict[str, Any]:
    columns = {"": "value", "_low": "low", "_high": "high"}
    if with_p:
        columns["_p"] = "p"
    return {f"{name}{end}": interval and getattr(interval, attribute) for end, attribute in columns.items()}


def _csv(rows: list[dict[str, Any]]) -> str:
    return csv_text([list(rows[0]), *(list(row.values()) for row in rows)] if rows else [])


@dataclass(frozen=True)
class PastWindow:
    """One window of an earlier run: its mean with what is behind it."""

    number: int
    n: int
    mean: float
    error: float
    relevant_share: float
    seen_until: int  # time of that run's last query: of two about one window, the later one saw more labels
    hours: dict[str, int]  # of the week, to queries; empty where a log has no times


class _StoredHistory(Versioned):
    form: ClassVar[StoredForm] = "history"
    key: str | None = None
    windows: Any = None


def read_history(folder: Path, key: str) -> list[PastWindow]:
    """Read the windows that earlier runs left under the same definition, each once, in order of time."""
    best: dict[int, PastWindow] = {}
    problems = []
    for path in sorted(folder.glob("windows-*.json")):  # none where there is no folder
        try:
            stored_history = read_stored(_StoredHistory, folder, path.name)
            if stored_history.key is None:
                raise ValueError("it has no key")
            if stored_history.key != key:
                continue
            windows = TypeAdapter(list[PastWindow]).validate_python(stored_history.windows)
        except NewerVersionError as problem:
            problems.append(Problem(str(path), str(problem)))
            continue
        except (OSError, ValueError) as problem:
            reason = str(problem)
            if isinstance(problem, ValidationError):
                first = problem.errors()[0]
                reason = f"windows.{'.'.join(map(str, first['loc']))} is {first['input']!r:.60}"
            problems.append(Problem(str(path), f"is not a history of monitor: {reason}", cure="move it away"))
            continue
        for window in windows:
            best_window = best.setdefault(window.number, window)
            best[window.number] = max(
                best_window, window, key=lambda candidate: (candidate.seen_until, candidate.n)
            )
    DataError.refuse(problems)
    return [best[number] for number in sorted(best)]


def append_history(folder: Path, key: str, windows: Iterable[Window], seen_until: int) -> Path | None:
    """Write this run's mature windows; None where there are none."""
    counted = [w for w in windows if w.status in ("tested", "untested") and w.n_defined >= 2]
    rows = [
        {"mean": mean.value, "error": mean.error, "n": w.n_defined, "hours": w.hours_of_week}
        | {"seen_until": seen_until, **_attributes(w, "label", "number", "relevant_share")}
        for w, mean in ((w, w.adjusted or w.interval) for w in counted)
    ]
    if not rows:
        return None
    document = {
        "schema_version": SCHEMA_VERSION,
        "written_by": harness_version(),
        "key": key,
        "windows": rows,
    }
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    target = folder / f"windows-{hashlib.sha256(text.encode()).hexdigest()[:20]}.json"
    if not target.exists():
        write_stored(target, text.encode())
    return target


def history_key(config: MonitorConfig) -> str:
    """Return a digest of the definitions that windows must share to stand in one row."""
    definition, windows = config.definition(), config.windows
    key_fields: dict[str, Any] = {
        "primary": definition["metrics"][0],
        "relevance": definition["relevance"],
        "size": windows.size,
        "zone": windows.timezone,
    }
    if windows.timezone != "UTC" and windows.size[-1] in "smh":
        key_fields["begins"] = "midnight"  # windows of hours were once cut from UTC's
    if config.compare.adjust:
        key_fields["adjust"] = sorted(config.compare.adjust)
    return hashlib.sha256(json.dumps(key_fields, sort_keys=True).encode()).hexdigest()
