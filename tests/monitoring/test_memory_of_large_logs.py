"""The memory that a log of four million rows takes; its time is for the benchmark, on a machine at rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.mark.slow
def test_four_million_rows_fit_into_four_gibibytes(
    script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    bench = script("bench_monitor")
    (tmp_path / "bench.yaml").write_text(bench.CONFIG)
    bench.write_log(tmp_path / "baseline.parquet", 1_000_000, 1)
    bench.write_log(tmp_path / "log.parquet", 4_000_000, 2)
    _, _, memory = bench.run(tmp_path, tmp_path / "log.parquet", tmp_path / "baseline.parquet")
    assert 0.2 < memory <= 4.0
    assert (tmp_path / "out" / "report.html").is_file()
