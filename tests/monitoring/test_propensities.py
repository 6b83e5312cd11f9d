"""Propensities measured where ranks were given at random, and refused where they were not."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness.data.relevance.propensities import estimated, from_random_order
from ltr_harness.data.relevance.rule import Propensity
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import load_monitor_config

pytestmark = pytest.mark.long

Cli = Callable[..., tuple[int, str, str]]
RANKS = 10


def experiment(seed: int, n: int, design: str, coin: float = 0.5, power: float = 1.0) -> pd.DataFrame:
    """Ten items in order of appeal, then chance; rank r is looked at with r**-power.

    The appeal falls from .6 to .29, so that clicks by rank say .048 at rank 10 where the truth is .1.
    """
    random = np.random.default_rng(seed)
    original = np.tile(np.arange(1, RANKS + 1), (n, 1))
    shown = original.copy()
    if design == "swaps":
        k = random.integers(2, RANKS + 1, n)
        hit = np.flatnonzero(random.random(n) < coin)
        shown[hit, 0], shown[hit, k[hit] - 1] = k[hit], 1
    elif design == "random_order":
        shown = random.permuted(original, axis=1)
    appeal = 0.6 * original**-0.318
    clicked = random.random((n, RANKS)) < appeal * shown.astype(float) ** -power
    columns = {
        "query_id": np.repeat(np.arange(n), RANKS),
        "rank": shown,
        "original_rank": original,
        "click": clicked,
    }
    order = random.permutation(n * RANKS)
    return pd.DataFrame(
        {name: column.reshape(-1)[order].astype(np.int32) for name, column in columns.items()}
    )


def measure_propensities(rows: pd.DataFrame, folder: Path, design: str, **more: Any) -> Propensity:
    rows.to_parquet(folder / "experiment.parquet")
    return estimated(
        Propensity.model_validate(
            {"estimate": {"path": str(folder / "experiment.parquet"), "design": design, **more}}
        )
    )


@pytest.mark.parametrize("lists", [20_000, pytest.param(60_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("design", "coin"), [("swaps", 0.5), ("swaps", 0.8), ("random_order", 0.5)])
def test_the_truth_is_recovered(design: str, coin: float, lists: int, tmp_path: Path) -> None:
    rule = measure_propensities(experiment(1, lists, design, coin), tmp_path, design)
    off = 0.04 if design == "random_order" else 0.13  # three standard errors at rank 10
    off *= np.sqrt(60_000 / lists)
    assert np.allclose(rule.table, 1 / np.arange(1, RANKS + 1), rtol=off, atol=0)
    assert rule.source is not None
    assert f"in {lists:,} lists" in rule.source


def test_clicks_by_rank_miss_the_truth() -> None:
    by_rank = experiment(2, 60_000, "none").groupby("rank")["click"].mean()
    assert by_rank[10] / by_rank[1] == pytest.approx(0.048, abs=0.003)


def test_swaps_by_hand(tmp_path: Path) -> None:
    """Untouched: rank 1 clicked in 60 of 100, rank 3 in 10; exchanged: 20 of 50 and 15 of 50."""

    def lists(first: int, n: int, order: list[int], at_one: int, at_three: int) -> pd.DataFrame:
        query = np.arange(first, first + n)
        clicks = np.zeros((n, 3), dtype=int)
        clicks[:at_one, 0], clicks[:at_three, 2] = 1, 1
        return pd.DataFrame(
            {"query_id": np.repeat(query, 3), "rank": np.tile([1, 2, 3], n), "original_rank": np.tile(order, n),
             "click": clicks.reshape(-1)}
        )  # fmt: skip

    rows = pd.concat([lists(0, 100, [1, 2, 3], 60, 10), lists(100, 50, [3, 2, 1], 20, 15)])
    rule = measure_propensities(rows, tmp_path, "swaps")
    p3 = (0.10 + 0.30) / (0.60 + 0.40)
    assert rule.table == pytest.approx((1.0, p3 ** (np.log(2) / np.log(3)), p3))  # rank 2 lies between
    assert rule.source == "random swaps in 150 lists (rank 2 from its neighbours)"


def ordinary(n: int = 300) -> pd.DataFrame:
    return experiment(3, n, "none")


@pytest.mark.parametrize(
    ("design", "rows", "told"),
    [
        (
            "swaps",
            ordinary(),
            "rank 1 was exchanged in 0 of 300 lists; expected some lists exchanged and some not",
        ),
        ("swaps", ordinary(), "clicks by rank of an ordinary log are not propensities"),
        ("swaps", experiment(3, 300, "swaps", coin=1.0), "rank 1 was exchanged in 300 of 300 lists"),
        ("swaps", experiment(3, 300, "random_order"), "for a shuffled top, design: random_order"),
        ("random_order", ordinary(), "every item stands where it was ranked"),
        ("random_order", experiment(3, 2000, "swaps"), "are not in random order; expected 5.5"),
        ("swaps", experiment(3, 40, "swaps"), "too few clicks, 45; expected 25 at rank 1 and another rank"),
        ("swaps", ordinary().drop(columns="original_rank"), "has no column 'original_rank'"),
        ("swaps", ordinary().assign(rank=0), "3,000 of 3,000 rows whose rank is not an integer from 1 on"),
        ("swaps", ordinary().assign(original_rank=1.5), "rows whose original_rank is not an integer"),
        ("swaps", ordinary().assign(click=-1), "rows whose click is not a count"),
        ("swaps", ordinary().assign(query_id=None), "rows without a query id"),
        ("swaps", ordinary().query("rank > 1"), "neither as ranked nor with rank 1 exchanged"),
    ],
)
def test_what_carries_no_randomisation_is_refused(
    design: str, rows: pd.DataFrame, told: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        measure_propensities(rows, tmp_path, design)
    assert told in str(caught.value)
    assert str(tmp_path / "experiment.parquet") in str(caught.value)


def test_both_logs_problems_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        measure_propensities(ordinary(), tmp_path, "swaps", baseline_path=str(tmp_path / "nowhere.parquet"))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({}, "nothing given; expected one of column, table, estimate"),
        ({"column": "p", "table": [1.0]}, "column and table given"),
        ({"column": "p", "baseline_table": [1.0]}, "baseline_table without table"),
        ({"estimate": {"path": "x", "design": "swap"}}, "did you mean 'swaps'?"),
        ({"estimate": {"path": "x"}}, "design"),
    ],
)
def test_the_configuration_names_one_source(rule: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace("?", r"\?")):
        load_monitor_config({"columns": {"rank": "rank"}, "propensity": rule})


UNFIT_TABLES = [
    (
        {"table": [1.0, 0.5, 0.0]},
        "propensity: table has 0 at rank 3; expected probabilities above 0; leave out ranks at the end that nobody "
        "measured",
    ),
    (
        {"table": [1.0, -0.1]},
        "propensity: table has -0.1 at rank 2; expected probabilities above 0; leave out",
    ),
    (
        {"table": [100.0, 50.0]},
        "propensity: table has 100 at rank 1; expected probabilities, at most 1; divide all by the largest",
    ),
    (
        {"table": [1.0], "baseline_table": [1.0, 1.5]},
        "propensity: baseline_table has 1.5 at rank 2; expected prob",
    ),
    ({"table": [1.0, float("nan")]}, "propensity.table.1 is NaN; expected a number"),
    ({"table": [float("inf")]}, "propensity.table.0 is Infinity; expected a number"),
    ({"table": []}, "propensity: nothing given; expected one of column, table, estimate"),
]


@pytest.mark.parametrize(("propensity", "message"), UNFIT_TABLES)
def test_tables_that_hold_no_probabilities_are_refused_by_every_door(
    propensity: dict[str, Any], message: str, ltr: Cli, tmp_path: Path
) -> None:
    config = {"columns": {"rank": "rank"}, "propensity": propensity}
    with pytest.raises(ConfigError) as caught:
        monitor(config, log=shown_lists(3), baseline=shown_lists(3))
    assert message in str(caught.value)
    of_labels = {**RULE, "propensity": propensity}
    with pytest.raises(ConfigError) as caught:
        monitor({**config, "propensity": None, "relevance": of_labels}, log=shown_lists(3))
    assert f"relevance.{message}" in str(caught.value)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    code, out, err = ltr("monitor", tmp_path / "m.yaml", "--log", "x")
    assert (code, out) == (2, "")
    assert message in err
    assert re.match(r"error: .*m\.yaml:\d+:\d+: ", err)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump({"columns": {"rank": "rank"}}))
    sets = [part for key, value in propensity.items() for part in ("--set", f"propensity.{key}={value}")]
    code, _, err = ltr("monitor", tmp_path / "m.yaml", "--log", "x", *sets)
    assert code == 2
    assert message in err or "nan" in err or "inf" in err


RULE = {"mode": "ips", "events": {"click": 1}}


def shown_lists(n_ranks: int, **columns: Any) -> pd.DataFrame:
    """Fifty queries of so many ranks, each with a click at a rank of its own."""
    rank = np.arange(1, n_ranks + 1)
    clicked = np.arange(50)[:, None] % n_ranks + 1 == rank
    rows = {"query_id": np.repeat([f"q{at:02d}" for at in range(50)], n_ranks), "rank": np.tile(rank, 50)}
    return pd.DataFrame({**rows, "click": clicked.astype(int).reshape(-1), **columns})


@pytest.mark.parametrize("value", [0.0, -0.5, 1.5, 100.0, np.nan, np.inf])
@pytest.mark.parametrize("which", ["production", "baseline"])
def test_columns_that_hold_no_probabilities_are_refused(value: float, which: str) -> None:
    probabilities = np.full(150, 0.5)
    right = shown_lists(3, p=probabilities)
    probabilities[4] = value
    logs = {"production": right, "baseline": right, which: shown_lists(3, p=probabilities)}
    for config in (
        {"relevance": {"events": {"click": 1}}, "propensity": {"column": "p"}},
        {
            "relevance": {**RULE, "propensity": {"column": "p"}},
            "metrics": ["dcg(gain=linear)@10"],
            "empty": "zero",
        },
    ):
        with pytest.raises(DataError) as caught:
            monitor(
                {"columns": {"rank": "rank"}, **config}, log=logs["production"], baseline=logs["baseline"]
            )
        assert str(caught.value) == (
            f"{which} log: 1 of 150 propensities are missing or outside 0 … 1, such as query 'q01' (p); a probability "
            "above 0 and at most 1 in each row"
        )


def with_table(*propensities: float, divides_labels: bool) -> dict[str, Any]:
    """Return a configuration with the table, for IPS-DCG or for the labels themselves."""
    config = {"columns": {"rank": "rank"}, "windows": {"min_queries": 50}, "metrics": ["dcg(gain=linear)@10"]}
    if divides_labels:
        return {**config, "relevance": {**RULE, "propensity": {"table": propensities}}, "empty": "zero"}
    return {**config, "relevance": {"events": {"click": 1}}, "propensity": {"table": propensities}}


@pytest.mark.parametrize("divides_labels", [False, True])
def test_ranks_below_the_last_propensity_count_as_it_and_are_noted(divides_labels: bool) -> None:
    """Five propensities for lists of ten: as if five more like the last had been given."""
    rows = shown_lists(RANKS)
    found, of_all_ranks = (
        monitor(with_table(*table, divides_labels=divides_labels), log=rows, baseline=rows)
        for table in ((1.0, 0.5, 0.4, 0.3, 0.2), (1.0, 0.5, 0.4, 0.3, *[0.2] * 6))
    )
    for key in ("changes", "presentation", "healthy"):
        assert found.document[key] == of_all_ranks.document[key]
    now, before = (check for check in found.log_checks if check.check == "propensity-unknown")
    assert (now.log, before.log, now.severity) == ("production", "baseline", "note")
    assert str(now) == (
        "250 of 500 rows lie below the last rank of the table of propensities; they count as if examined as often as "
        "that rank, such as query 'q00', query 'q01', query 'q02'"
    )
    assert "propensity-unknown" not in {check.check for check in of_all_ranks.log_checks}


@pytest.mark.usefixtures("empty_pictures")
def test_the_page_tells_of_ranks_below_the_last_propensity(ltr: Cli, tmp_path: Path) -> None:
    shown_lists(RANKS).to_csv(tmp_path / "log.csv", index=False)
    config = {**with_table(divides_labels=False), "propensity": {"table": [1.0, 0.5, 0.4, 0.3, 0.2]}}
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
    logs = ["--log", tmp_path / "log.csv", "--baseline", tmp_path / "log.csv"]
    code, out, err = ltr("monitor", tmp_path / "m.yaml", *logs, "-o", tmp_path / "out")
    assert code == 0, out + err
    assert "they count as if examined as often as that rank" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.usefixtures("empty_pictures")
def test_from_the_command_line_a_changed_page_is_no_worse_ranking(ltr: Cli, tmp_path: Path) -> None:
    """Two experiments, one on each page; the ranking stays, the page shows more: IPS-DCG stands still."""
    experiment(1, 20_000, "swaps").to_parquet(tmp_path / "before.parquet")
    experiment(2, 20_000, "swaps", power=0.5).to_parquet(tmp_path / "now.parquet")
    plain = {"days": 3, "queries_per_day": 1000, "items": 10}
    config = {
        "log": {"seed": 2, "start": "2026-01-19", "examination": 0.5, **plain},
        "baseline": {"seed": 1, **plain},
        "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts"},
        "relevance": {"events": {"click": 1}},
        "metrics": ["ndcg@10"],
        "propensity": {
            "estimate": {"design": "swaps", "path": "now.parquet", "baseline_path": "before.parquet"}
        },
        "compare": {"min_drop": 0.1},  # clicks and experiments tell the ratio of both pages to within a tenth
    }
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
    code, out, _ = ltr("monitor", tmp_path / "m.yaml", "-o", tmp_path / "out")
    assert code == 0, out
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert found["verdict"]["cause"] == "presentation"
    ips = found["presentation"]["ips"]
    assert abs(ips["value"]) < 0.1 * found["presentation"]["ips_before"]
    page = (tmp_path / "out" / "report.md").read_text()
    assert "Examined before" in page
    assert "from random swaps in 20,000 lists; the baseline's from random swaps in 20,000 lists" in page
    resolved = load_monitor_config(tmp_path / "out" / "config.yaml")  # needs no experiment any more
    assert resolved.propensity is not None
    assert resolved.propensity.estimate is None
    assert monitor(resolved).to_json() == (tmp_path / "out" / "report.json").read_text()
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert list(provenance["files"]) == ["propensities", "propensities of the baseline"]
    for name, file in zip(provenance["files"], ("now", "before"), strict=True):
        digest = hashlib.sha256((tmp_path / f"{file}.parquet").read_bytes()).hexdigest()
        assert provenance["files"][name] == {str(tmp_path / f"{file}.parquet"): digest}


def clicked_lists(
    random: np.random.Generator, n: int, order: np.ndarray[Any, Any], prefix: str
) -> pd.DataFrame:
    """Items of the experiment's appeal in the given order, looked at with 1 / rank."""
    rank = np.arange(1, RANKS + 1)
    looked = 0.6 * order**-0.318 / rank
    return pd.DataFrame(
        {
            "query_id": np.repeat([f"{prefix}{at}" for at in range(n)], RANKS),
            "item_id": np.tile([f"i{item}" for item in order], n),
            "rank": np.tile(rank, n),
            "click": (random.random((n, RANKS)) < looked).astype(int).reshape(-1),
        }
    )


def ips_change(folder: Path, random: np.random.Generator, design: str, lists: int) -> Any:
    """Return the change of IPS-DCG between two pages of the same ranking, each with an experiment of its own."""
    for name in "nb":
        rows = experiment(int(random.integers(1 << 30)), lists, design)
        rows.to_parquet(folder / f"{name}.parquet")
    places = {"path": str(folder / "n.parquet"), "baseline_path": str(folder / "b.parquet")}
    config = {
        "columns": {"query_id": "query_id", "item_id": "item_id", "rank": "rank"},
        "relevance": {"events": {"click": 1}},
        "metrics": ["dcg@10"],
        "propensity": {"estimate": {"design": design, **places}},
        # 2.5 % beyond each end: the test is one-sided
        "compare": {"alpha": 0.025, "confidence": 0.975},
        "slices": {"alpha": 0.025},
    }
    now, before = (clicked_lists(random, 1500, np.arange(1.0, RANKS + 1), side) for side in "nb")
    seen = monitor(config, log=now, baseline=before).presentation
    assert seen is not None
    return seen.ips


def test_errors_of_propensities_by_hand(tmp_path: Path) -> None:
    """100 clicks in 400 lists at rank 1, 25 in 400 at rank 2: .75 / 100 and .9375 / 25 are the squared errors."""
    shown = np.repeat([1, 2], 400)
    clicked = np.concatenate([np.arange(400) < 100, np.arange(400) < 25]).astype(float)
    assert from_random_order(shown, clicked) == {
        1: (1.0, pytest.approx(np.sqrt(0.0075))),
        2: (0.25, pytest.approx(np.sqrt(0.0375))),
    }
    with pytest.raises(ConfigError, match="a number from 0 for each rank of its table"):
        load_monitor_config(
            {"columns": {"rank": "rank"}, "propensity": {"table": [1.0, 0.5], "errors": [0.1]}}
        )


@pytest.mark.slow
@pytest.mark.parametrize(("design", "lists"), [("swaps", 5000), ("swaps", 20_000), ("random_order", 700)])
def test_the_interval_of_ips_dcg_holds_what_propensities_are_off_by(
    design: str, lists: int, tmp_path: Path
) -> None:
    """About 25 or 100 clicks at rank 10 in either page's experiment: the interval covered 59 and 82 %."""
    random, runs, covered = np.random.default_rng(14), 100, 0
    for _ in range(runs):
        ips = ips_change(tmp_path, random, design, lists)
        covered += ips.low < 0 < ips.high
    assert covered >= 0.89 * runs
