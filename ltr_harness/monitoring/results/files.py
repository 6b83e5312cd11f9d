"""What a run leaves in its folder for other programs: tables, the resolved configuration, where it came from."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ltr_harness.files import file_digest, whole_files, write_whole
from ltr_harness.logs.log import files_of
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.queries import to_arrow
from ltr_harness.monitoring.results.answers import Interval
from ltr_harness.monitoring.results.baselines import PER_QUERY, is_result, is_run
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.monitoring.stages import Watched
from ltr_harness.wording import csv_text

_PACKAGES = ("ltr-harness", "numpy", "pandas", "pyarrow", "scipy", "numba")


def write_tables(watched: Watched, folder: Path) -> None:
    """``per_query.parquet`` (a later run's baseline), ``windows.csv``, ``slices.csv``, ``config.yaml``.

    Raises:
        OSError: the folder cannot be written.
    """
    import pyarrow.parquet as parquet
    import yaml

    result = watched.result
    with whole_files(folder / PER_QUERY) as temporary:
        parquet.write_table(to_arrow(watched.production), temporary(folder / PER_QUERY), compression="zstd")
    write_whole(folder / "windows.csv", _csv(windows_table(result)))
    write_whole(folder / "slices.csv", _csv(slices_table(result)))
    write_whole(
        folder / "config.yaml",
        yaml.safe_dump(watched.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
    )


def write_provenance(
    watched: Watched, settings: MonitorConfig, log: Any, baseline: Any, folder: Path
) -> None:
    """``provenance.json``: digests of all input files and versions of everything that computes."""
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
        role: {str(file): file_digest(file) for file in _input_files(Path(source))}
        for role, source in sources.items()
        if isinstance(source, str | Path)
    }
    document = {
        "config_sha256": watched.result.config_sha256,
        "production_sha256": watched.result.production_sha256,
        "baseline_sha256": watched.result.baseline_sha256,
        "files": files,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
    }
    write_whole(folder / "provenance.json", json.dumps(document, indent=1, sort_keys=True) + "\n")


def _input_files(path: Path) -> list[Path]:
    """The files behind a log, an earlier result, or a run, whose record holds the digests of all its files."""
    if is_result(path):
        return [path / PER_QUERY]
    return sorted(filter(Path.is_file, path.rglob("record.json"))) if is_run(path) else files_of(path)


def windows_table(result: MonitorResult) -> list[dict[str, Any]]:
    """One line per window."""
    return [
        {
            "window": w.label,
            "hours": w.hours,
            "status": w.status,
            "n_queries": w.n_queries,
            "n_defined": w.n_defined,
            "n_clusters": w.n_clusters,
            **w.means,
            **_interval("mean", w.interval, False),
            "bounded_low": w.bounded and w.bounded[0],
            "bounded_high": w.bounded and w.bounded[1],
            "p10": w.p10,
            "p50": w.p50,
            "p90": w.p90,
            "share_zero": w.share_zero,
            "share_one": w.share_one,
            "relevant_share": w.relevant_share,
            "items_per_query": w.items_per_query,
            **{f"{name}_per_query": rate for name, rate in w.event_rates.items()},
            "orphan_events": w.orphans,
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
            "cusum": w.cusum,
        }
        for w in result.windows
    ]


def slices_table(result: MonitorResult) -> list[dict[str, Any]]:
    """One line per slice found."""
    return [
        {
            "slice": s.predicate,
            "n_now": s.n_now,
            "n_before": s.n_before,
            "share": s.share,
            "before": s.before,
            "now": s.now,
            "rest_change": s.rest_change,
            **_interval("excess", s.excess),
            "impact": s.impact,
            "q": s.q,
            **_interval("confirmed", s.confirmed),
        }
        for s in result.slices
    ]


def _interval(name: str, interval: Interval | None, with_p: bool = True) -> dict[str, Any]:
    values = {
        name: interval and interval.value,
        f"{name}_low": interval and interval.low,
        f"{name}_high": interval and interval.high,
    }
    return {**values, f"{name}_p": interval and interval.p} if with_p else values


def _csv(rows: list[dict[str, Any]]) -> str:
    return csv_text([list(rows[0]), *(list(row.values()) for row in rows)] if rows else [])
