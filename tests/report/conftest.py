"""Reports about made-up models: real comparisons of made-up numbers, no training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness.comparison import compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.experiments.runs.record import MetricSummary, Record, SplitFacts, StoppingFacts
from ltr_harness.report import ReportData, build_report, write_report
from ltr_harness.report.blocks import Report
from ltr_harness.report.data import stored_data

METRICS = tuple(f"{base}@{k}" for base in ("ndcg", "mrr", "err(max_grade=4)", "map") for k in (1, 3, 5, 10))

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>window.pwned=1</script>",
    "a|b",
    "x\ny",
    "l" * 200,
    "模型 Ω é \u2028 \u202e",
    "\"><img src=x onerror=alert(1)>",
    "{{ 7*7 }} {% raw %}",
    "\\input{/etc/passwd} $x_1^2$ [a] *b* `c`",
    "=1+1",
    "datum.x]['",
    " ",
    "\x00\x0b\x1f\x1b[2J",
    "\x9b31m\ufffe\uffff\ud800",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class MadeRun:
    """A run as the report reads it."""

    path: Path
    record: Record
    history: pd.DataFrame

    def stored_columns(self, name: str) -> dict[str, np.ndarray]:
        """The only table that it has."""
        assert name == "history.parquet"
        return {column: self.history[column].to_numpy() for column in self.history}


def system(
    name: str,
    quality: float,
    *,
    seeds: int = 2,
    n: int = 200,
    empty: int = 40,
    metrics: Sequence[str] = METRICS,
    deterministic: bool = False,
) -> SystemResult:
    """A model whose per-query values rise with `quality`; the first `empty` queries are undefined."""
    hard = np.random.default_rng(7).beta(1.2, 1.0, size=n)
    values = {}
    for at, metric in enumerate(metrics):
        rng = np.random.default_rng([11, at, sum(name.encode("utf-8", "replace")), len(name)])
        noise = rng.normal(0, 0.12, size=(seeds, n))
        found = np.clip(hard + quality + 0.01 * at + noise, 0, 1)
        found[:, :empty] = np.nan
        values[metric] = found
    return SystemResult(
        name=name,
        query_ids=np.array([str(10_000 + q) for q in range(n)]),
        values=values,
        replicates=tuple(str(seed + 1) for seed in range(seeds)),
        higher_is_better=dict.fromkeys(metrics, True),
        deterministic=deterministic,
        query_attributes={
            "rows": np.arange(n) % 40 + 1,
            "n_relevant": np.r_[np.zeros(empty), np.full(n - empty, 3)],
        },
    )


def record(model: str, *, seed: int = 1, fold: str = "all", error: str | None = None, **more: Any) -> Record:
    def facts(split: str, n: int, empty: int) -> SplitFacts:
        return SplitFacts(
            source=f"made/{split}.txt",
            fingerprint=f"{split}-all",
            judgments_fingerprint=f"{split}-labels",
            n_queries=n,
            n_rows=n * 20,
            n_without_relevant=empty,
            n_features=46,
            files={f"{split}.txt": "0" * 64},
        )

    fields: dict[str, Any] = {
        "status": "complete" if error is None else "failed",
        "error": error,
        "experiment": "made",
        "model": model,
        "ranker": "lightgbm",
        "objective": "lambdarank",
        "fold": fold,
        "seed": seed,
        "identity": f"id{seed}",
        "evaluation_identity": f"ev{seed}",
        "params": {"num_leaves": 31},
        "reading": {"reader": "letor"},
        "packages": {},
        "config": {"ranker": "lightgbm"},
        "threads": 1,
        "data": {
            "train": facts("train", 600, 100),
            "valid": facts("valid", 200, 30),
            "test": facts("test", 200, 40),
        },
        "metrics": {"ndcg@10": MetricSummary(mean=0.5, n_queries=200, n_undefined=40, higher_is_better=True)},
        "primary": "ndcg@10",
        "stopping": StoppingFacts(
            metric="ndcg@10", on="valid", patience=50, min_delta=0.0, every=1, max_rounds=2000
        ),
        "best_round": 100 + seed,
        "rounds_trained": 150 + seed,
        "seconds": {"fit": 1.25, "score": 0.01},
        "environment": {"python": "3.11.2", "lightgbm": "4.6.0"},
    }
    return Record(**{**fields, **more})


def run(model: str, quality: float, *, seed: int = 1, rounds: int = 151) -> MadeRun:
    at = np.arange(1, rounds + 1)
    rng = np.random.default_rng([3, seed, sum(model.encode("utf-8", "replace"))])
    curve = 0.3 + quality + 0.35 * (1 - np.exp(-at / 30)) - 0.0004 * np.maximum(0, at - 101)
    history = pd.DataFrame(
        {
            "round": at,
            "split": "valid",
            "metric": "ndcg@10",
            "value": curve + rng.normal(0, 0.004, rounds),
        }
    )
    path = Path("runs/made") / f"model-{abs(hash(quality)) % 10}--all--s{seed}--id{seed}"
    times = [(10, 80.0), (100, max(400.0 + 1000 * quality, 50.0)), (1000, 3000.0)]
    whole = [
        {
            "rounds": 100 + seed,
            "documents": n,
            "calls": 120,
            "p50": p50,
            "p99": 3 * p50,
            "mean": 0.5 + quality,
        }
        for n, p50 in times
    ]
    cut = {"rounds": 25, "documents": 100, "calls": 9, "p50": 150.0, "p99": None, "mean": 0.45 + quality}
    latency = [*whole, cut]
    return MadeRun(path, record(model, seed=seed, latency=latency), history)


MODELS = {
    "lgbm-lambdarank": 0.10,
    "lgbm-xendcg": 0.107,
    "xgb-ndcg": 0.13,
    "random": -0.2,
    "best-feature": -0.05,
}


def make_report_data(
    models: dict[str, float] = MODELS,
    *,
    failures: Sequence[Record] = (),
    with_runs: bool = True,
    title: str = "made: five models on made-up queries",
    systems: Sequence[SystemResult] | None = None,
    **options: Any,
) -> ReportData:
    systems = systems or [
        system(name, quality, seeds=1 if quality == -0.05 else 2, deterministic=quality == -0.05)
        for name, quality in models.items()
    ]
    options.setdefault("baseline", systems[0].name)
    names = list(systems[0].values)
    comparison = compare(*systems, metrics=[names[3] if len(names) > 3 else names[0], *names], **options)
    runs = [
        run(one.name, models.get(one.name, 0.0), seed=int(seed))
        for one in systems
        for seed in one.replicates
        if with_runs and one.name not in ("random", "best-feature")
    ]
    return ReportData(
        comparison=comparison,
        runs=runs,  # type: ignore[arg-type]
        failures=failures,
        experiment_yaml="name: made\nseeds: [1, 2]\n" if with_runs else None,
        title=title,
    )


MARKETS = [f"m{number}" for number in range(6)]
DEVICES = [f"d{number}" for number in range(6)]


def report_on_markets(gains: dict[str, list[float]], **options: Any) -> ReportData:
    """A report on six markets of 60 queries with six devices each; `gains` are of each model in each market."""
    rng = np.random.default_rng(5)
    markets, devices = np.repeat(MARKETS, 60), np.tile(DEVICES, 60)
    base = rng.uniform(0.3, 0.5, markets.size)
    systems = [
        SystemResult(
            name=name,
            query_ids=np.arange(markets.size).astype(str),
            values={"ndcg@10": (base + np.repeat(by_market, 60) + rng.normal(0, 0.01, markets.size))[None]},
            replicates=("1",),
            higher_is_better={"ndcg@10": True},
            query_attributes={"market": markets, "device": devices},
        )
        for name, by_market in {"base": [0.0] * 6, **gains}.items()
    ]
    return ReportData(compare(*systems, baseline="base", draws=500, **options), (), (), None, "t")


@pytest.fixture(scope="session")
def four_models() -> ReportData:
    """One mixed model and two that are worse everywhere, in twelve parts of the queries."""
    return report_on_markets({"mixed": [0.1, -0.1] * 3, "worse": [-0.2] * 6, "random": [-0.25] * 5 + [-0.15]})


@pytest.fixture(scope="session")
def make_data() -> Callable[..., ReportData]:
    return make_report_data


@pytest.fixture(scope="session")
def make_system() -> Callable[..., SystemResult]:
    return system


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Record]:
    return record


@pytest.fixture(scope="session")
def hostile_names() -> list[str]:
    return HOSTILE


@pytest.fixture(scope="session")
def data() -> ReportData:
    """Five models, two seeds, one of them deterministic, 40 of 200 queries without relevant documents."""
    return make_report_data()


@pytest.fixture(scope="session")
def report(data: ReportData) -> Report:
    """Every section of `data`."""
    return build_report(data)


@pytest.fixture(scope="session")
def hostile_report(hostile_data: ReportData) -> Report:
    return build_report(hostile_data)


@pytest.fixture(scope="session")
def report_of_runs(stored_report: ReportData) -> Report:
    """Every section of `stored_report`."""
    return build_report(stored_report)


@pytest.fixture(scope="session")
def written_report(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole report, for tests that only read it."""
    return write_report(report, tmp_path_factory.mktemp("written") / "report").parent


@pytest.fixture(scope="session")
def hostile_data() -> ReportData:
    """Names, titles, errors and configuration as unfriendly as data can be."""
    return make_report_data(
        systems=[system(name, 0.01 * at, metrics=METRICS[:4]) for at, name in enumerate(HOSTILE)],
        title=HOSTILE[1],
        failures=[record(HOSTILE[0], error=HOSTILE[1] + "\n" + HOSTILE[6])],
        draws=200,
    )


SMALL: dict[str, Any] = {
    "name": "small",
    "seeds": [1, 2],
    "data": {
        "reader": "synthetic",
        "n_queries": {"train": 20, "valid": 10, "test": 30},
        "n_features": 12,
        "max_grade": 4,
    },
    "metrics": {"cutoffs": [3, 10, 30], "report": ["ndcg", "err"], "primary": "ndcg@10"},
    "stopping": {"metric": "ndcg@10", "patience": 3, "max_rounds": 4},
    # Not in alphabetical order: folders are found in another order than the models are declared.
    "models": {
        "z-random": {"ranker": "random"},
        "a-feature": {"ranker": "feature", "feature": "match_1"},
        "lgbm": {
            "ranker": "lightgbm",
            "params": {"num_leaves": 4, "min_data_in_leaf": 2, "bagging_fraction": 0.5, "bagging_freq": 1},
        },
    },
}


@pytest.fixture(scope="session")
def experiment_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real experiment, trained in a second."""
    runs = tmp_path_factory.mktemp("runs")
    run_experiment(SMALL, runs=runs)
    return runs / "small"


@pytest.fixture(scope="session")
def stored_report(experiment_folder: Path) -> ReportData:
    """A report about real runs: models, scores and rows are what training left behind."""
    return stored_data([experiment_folder])
