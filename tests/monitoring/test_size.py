"""How much memory a log of four million rows takes; how long is the benchmark's to say, on a machine at rest."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "scripts" / "bench_monitor.py"


def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("bench_monitor", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_four_million_rows_fit_into_four_gibibytes(tmp_path: Path) -> None:
    bench = benchmark()
    (tmp_path / "bench.yaml").write_text(bench.CONFIG)
    bench.write_log(tmp_path / "baseline.parquet", 1_000_000, 1)
    bench.write_log(tmp_path / "log.parquet", 4_000_000, 2)
    _, _, memory = bench.run(tmp_path, tmp_path / "log.parquet", tmp_path / "baseline.parquet")
    assert 0.2 < memory <= 4.0
    assert (tmp_path / "out" / "report.html").is_file()
