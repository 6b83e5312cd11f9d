"""p, interval and estimate say one thing of any differences; so do terminal, JSON and exit code of the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import FEWEST_EQUIVALENT, mean_intervals, outcomes
from ltr_harness.comparison.stats.method import TESTS, Method

METRICS = 8


def differences(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
    """(n, m) with ties, constants, one-sided, skewed, tiny, undefined ones; units of any size, or none."""
    n = int(rng.integers(2, 40)) if rng.random() < 0.9 else int(rng.integers(200, 1500))
    m = int(rng.integers(1, 8))
    d = [
        lambda: rng.normal(size=(n, m)),
        lambda: np.round(rng.normal(size=(n, m))),
        lambda: np.where(rng.random((n, m)) < 0.9, 0.0, rng.normal(size=(n, m))),
        lambda: np.tile(rng.choice([-0.1, 0.0, 0.1, 0.3], size=m), (n, 1)),
        lambda: np.exp(2 * rng.normal(size=(n, m))) - 1,
        lambda: rng.normal(size=(n, m)) + rng.choice([0.5, -2.0]),
        lambda: 0.05 - np.exp(2 * rng.normal(size=(n, m))) * (rng.random((n, m)) < 0.3),
        lambda: rng.normal(size=(1, m)) + 1e-12 * rng.normal(size=(n, m)),
    ][rng.integers(8)]()
    if rng.random() < 0.5:
        d = np.clip(d, -1, 1) * rng.choice([1.0, 1e-3])
    if rng.random() < 0.3:
        d = np.where(rng.random((n, m)) < rng.choice([0.1, 0.5, 0.95]), np.nan, d)
    kind = rng.random()
    units = rng.integers(0, n // 3 + 1, size=n) if kind < 0.2 else np.zeros(n, int) if kind < 0.25 else None
    return d, units


@pytest.mark.long
@pytest.mark.parametrize("runs", [60, pytest.param(25_000, marks=pytest.mark.slow)])
def test_p_interval_and_estimate_over_random_differences(runs: int) -> None:
    """In version 0.2, 54 of 1,000 pairs contradicted themselves."""
    rng = np.random.default_rng(runs)
    seen = 0
    for _ in range(runs):
        d, units = differences(rng)
        test = str(rng.choice(list(TESTS)))
        method = Method(
            test="skew-adjusted" if units is not None and test in ("bootstrap", "bounded") else test,  # type: ignore[arg-type]
            draws=int(rng.choice([100, 200])),
            confidence=float(rng.choice([0.5, 0.8, 0.95, 0.99])),
            margin=None if rng.random() < 0.5 else 0.1,
        )
        sample = ClusterSums.of(d, units)
        width = 2 * float(np.nan_to_num(np.abs(d)).max()) + 0.5
        alone = [slice(at, at + 1) for at in range(d.shape[1])]
        families = None if rng.random() < 0.5 else alone
        found = outcomes(sample, method, families=families, widths=np.full(d.shape[1], width), seeds=())
        known, mean = sample.effective_units >= 2 - 1e-9, sample.mean
        seen += int(known.sum())
        low, high = found.low[known], found.high[known]
        significant = found.p_corrected[known] < method.alpha
        assert ((low > 0) | (high < 0)).tolist() == significant.tolist()
        assert (np.sign(mean[known]) == np.where(low > 0, 1, -1))[significant].all()
        slack = 1e-12 * np.abs(mean[known])
        assert ((low <= mean[known] + slack) & (mean[known] - slack <= high)).all()
        assert ((found.p[known] > 0) & (found.p[known] <= 1) & (found.p_corrected[known] <= 1)).all()
        if method.margin is not None:
            inside = (low > -method.margin) & (high < method.margin)
            inside &= sample.units[known] >= FEWEST_EQUIVALENT
            assert inside.tolist() == (found.p_equivalence[known] < method.alpha).tolist()
        for of_nothing in (found.p, found.low, found.high):
            assert np.isnan(of_nothing[~known]).all()
        if method.test != "bounded":
            low, high = mean_intervals(sample, method)
            assert ((low <= mean + 1e-12) & (mean - 1e-12 <= high))[known].all()
    assert seen >= runs


def tables(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Three models at several metrics, each a world of its own."""
    n = int(rng.integers(2, 40))
    ids = [f"q{at:03d}" for at in range(n)]
    frames = {
        name: {"query_id": ids, "user": (np.arange(n) // 2).astype(str)} for name in ("base", "one", "two")
    }
    for k in range(1, METRICS + 1):
        base = np.round(rng.uniform(0.2, 0.8, n), rng.integers(1, 4))
        frames["base"][f"ndcg@{k}"] = base
        for name in ("one", "two"):
            d, _ = differences(rng)
            drawn = d[rng.integers(0, len(d), n), rng.integers(0, d.shape[1])]
            frames[name][f"ndcg@{k}"] = np.clip(base + np.clip(drawn, -0.5, 0.5), 0, 1)
    return {name: pd.DataFrame(columns) for name, columns in frames.items()}


@pytest.mark.long
@pytest.mark.parametrize("runs", [4, pytest.param(300, marks=pytest.mark.slow)])
def test_terminal_json_and_exit_code_over_random_tables(
    runs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(runs)

    def ltr(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, ["compare", "base.csv", "one.csv", "two.csv", "--draws", "200", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    for _ in range(runs):
        for name, frame in tables(rng).items():
            frame.drop(columns="user").to_csv(f"{name}.csv", index=False)
        gate = ("--fail-if", "ndcg@1 < baseline and significant")
        code, text, _ = ltr("-m", "ndcg@1", *gate)
        json_code, document, _ = ltr("-m", "ndcg@1", "--json", *gate)
        told = json.loads(document)
        pairs = {pair["model"]: pair for pair in told["pairs"]}
        fails = any(pair["verdict"] == "worse" or pair["n"] == 0 for pair in pairs.values())
        assert code == json_code == (3 if fails else 0)
        assert " ".join(text.split()).startswith(" ".join(told["headline"].split()))
        verdicts = {pair["verdict"] for pair in pairs.values() if pair["n"]}
        assert (told["outcome"] == "better") == ("better" in verdicts)
        assert (told["outcome"] == "no clear winner") == (
            "not distinguishable" in verdicts and "better" not in verdicts
        )
        for pair in pairs.values():
            known = pair["ci_low"] is not None
            outside = known and (pair["ci_low"] > 0 or pair["ci_high"] < 0)
            word = ("better" if pair["difference"] > 0 else "worse") if outside else "not distinguishable"
            assert pair["verdict"] == word
            assert (known and pair["p_corrected"] < 0.05) == outside
