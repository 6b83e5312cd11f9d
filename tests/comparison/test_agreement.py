"""One comparison says one thing: p, interval, letters, verdict, sentence, terminal, JSON and exit code agree."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.gates import parse_gate
from ltr_harness.comparison.slices import slice_results
from ltr_harness.stats.contributions import Contributions
from ltr_harness.stats.families import FEWEST_EQUIVALENT, mean_intervals, outcomes
from ltr_harness.stats.method import TESTS, Method

METRICS = 8
WORDS = {"better": "is better than", "worse": "is worse", "equivalent": "equivalent"}


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
@pytest.mark.parametrize("runs", [300, pytest.param(25_000, marks=pytest.mark.slow)])
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
        sample = Contributions.of(d, units)
        width = 2 * float(np.nan_to_num(np.abs(d)).max()) + 0.5
        alone = [slice(at, at + 1) for at in range(d.shape[1])]
        families = None if rng.random() < 0.5 else alone
        found = outcomes(sample, method, families=families, widths=np.full(d.shape[1], width), seeds=())
        known, mean = sample.effective >= 2 - 1e-9, sample.mean
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


def check(result: Comparison) -> int:
    """Everything that a comparison says of its pairs, from p to the sentence."""
    alpha, margin = result.method.alpha, result.method.margin
    for pair in result.pairs:
        outside = pair.ci_low > 0 or pair.ci_high < 0
        assert outside == (pair.p_corrected < alpha), pair
        inside = margin is not None and -margin < pair.ci_low and pair.ci_high < margin
        word = "not distinguishable"
        if outside:
            word = "better" if pair.difference > 0 else "worse"
        elif inside and result.n_independent_units(pair) >= FEWEST_EQUIVALENT:
            word = "equivalent"
        assert pair.verdict == word, pair
        if pair.n > 1 and not (result.method.unit and np.isnan(pair.p)):  # queries of a single user
            assert pair.ci_low <= pair.difference + 1e-12
            assert pair.difference - 1e-12 <= pair.ci_high
        for sign, bad in (("<", "worse"), (">", "better")):
            gate = parse_gate(f"{pair.metric} of {pair.model} {sign} baseline and significant")
            assert bool(gate.failures(result)) == (pair.verdict == bad or pair.n == 0), pair
    leader = result.ranking[0]
    if leader != result.baseline and result.paired(leader).n:
        word = WORDS.get(result.paired(leader).verdict, "is not distinguishable")
        assert word in result.verdict or "Nothing to compare" in result.verdict, result.verdict
    assert "p = <" not in result.verdict
    outcome, headline = result.headline
    verdicts = {pair.verdict for pair in result.pairs if pair.metric == result.primary and pair.n}
    order: tuple[str, ...] = ("better", "not distinguishable", "equivalent", "worse")
    first = next((word for word in order if word in verdicts), "nothing to compare")
    assert outcome == {"not distinguishable": "no clear winner"}.get(first, first)
    assert len(headline.split()) <= 20, headline
    for metric in result.metrics[:2]:
        letters = result.letters(metric)
        for pair in result.all_pairs(metric):
            one, other = set(letters.groups[pair.model]), set(letters.groups[pair.other])
            if one and other and letters.n == result.n_queries:
                significant = pair.p_corrected < alpha
                assert (not one & other) == significant, (pair, letters)
    for part in slice_results(result):
        outside = part.ci_low > 0 or part.ci_high < 0
        assert outside == (part.verdict in ("better", "worse")) == (part.p < alpha), part
    return len(result.pairs)


@pytest.mark.long
@pytest.mark.parametrize("runs", [12, pytest.param(5_000, marks=pytest.mark.slow)])
def test_words_letters_gates_and_slices_over_random_tables(runs: int) -> None:
    """Of 5,000 tables, 80,000 pairs."""
    rng = np.random.default_rng(runs)
    seen = 0
    for _ in range(runs):
        frames = tables(rng)
        test = str(rng.choice(["skew-adjusted", "skew-adjusted", "permutation", "t", "bounded"]))
        options = {
            "test": test,
            "draws": 200,
            "margin": None if rng.random() < 0.7 else 0.05,
        }
        if test != "bounded" and rng.random() < 0.3 and len(frames["base"]) > 2:
            options["unit"] = "user"
        seen += check(compare(frames, **options))
    assert seen == runs * 2 * METRICS


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
