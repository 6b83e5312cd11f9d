"""The table of docs/ci-gate.md: what a test that holds in every world costs in queries."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit

from ltr_harness.comparison.stats.betting import bounded_means
from ltr_harness.comparison.stats.cluster_sums import ClusterSums

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ci-gate.md"
ROWS = [
    [float(cell.replace(",", "")) for cell in row.split("|")[1:-1]]
    for row in re.findall(r"^\| [\d,]+ \| \..*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
]
ONE = np.ones(1)


def strict_half_width(n: int, sd: float) -> float:
    """Half the width of the bounded interval, on average over four samples."""
    rng = np.random.default_rng(n)
    widths = []
    for _ in range(4):
        d = np.clip(rng.normal(0, sd, (n, 1)), -1, 1)
        _, _, low, high = bounded_means(ClusterSums.of(d), -ONE, ONE, 0.05, seed=0)
        widths.append(high[0] - low[0])
    return float(np.mean(widths)) / 2


@pytest.mark.long
def test_the_table_is_what_is_measured() -> None:
    assert [row[0] for row in ROWS] == [50, 200, 1000, 5000]
    for queries, *cells in ROWS:
        n = int(queries)
        for sd, (by_t, by_bets, needed) in ((0.05, cells[:3]), (0.15, cells[3:])):
            t = float(stdtrit(n - 1, 0.975)) * sd / np.sqrt(n)
            assert by_t == pytest.approx(t, abs=0.00006)
            assert by_bets == pytest.approx(strict_half_width(n, sd), rel=0.05)
            assert strict_half_width(int(needed), sd) == pytest.approx(t, rel=0.05)
