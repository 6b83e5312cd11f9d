"""Windows adjusted for what is known of the queries: no more false alarms, and smaller drops are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness.comparison.stats.cluster_sums import Floats
from ltr_harness.errors import Caution, ConfigError, DataError
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.monitoring.stages import run_stages

pytestmark = pytest.mark.long

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]

COUNTRIES = ["country", "price"]
EVERY = {"compare": {"min_drop": 0.0, "adjust": COUNTRIES}}
PLAIN = {"compare": {"min_drop": 0.0}}


def most_false_alarms(runs: int, rate: float = 0.05) -> float:
    """More than this happens in one run of a hundred where the rate is kept."""
    return rate * runs + 2.4 * np.sqrt(rate * (1 - rate) * runs)


def days_of(
    random: np.random.Generator,
    query_table: Table,
    prefix: str,
    days: int = 14,
    n: int = 300,
    drop: float = 0.0,
    moved: float = 0.0,
    mixed: float = 0.0,
) -> pd.DataFrame:
    """Queries whose difficulty hangs on country and, as a U, on price, with noise that is wider in one country.

    Args:
        drop: of every value.
        moved: how far another mix has come for good.
        mixed: how much the mix differs from day to day.
    """
    day = np.repeat(np.arange(days), n)
    shares = np.exp(mixed * random.standard_normal((days, 3)) + moved * np.array([0.0, 0.0, 1.0]))
    shares /= shares.sum(axis=1, keepdims=True)
    country = (random.random(day.size)[:, None] > shares.cumsum(axis=1)[day]).sum(axis=1)
    price = random.standard_normal(day.size) + 0.5 * moved + 0.5 * mixed * random.standard_normal(days)[day]
    mean = 0.75 - 0.12 * (country == 2) - 0.06 * np.minimum(price**2, 4)
    noise = np.where(country == 1, 0.15, 0.07) * random.standard_normal(day.size)
    return query_table(
        mean + noise - drop,
        days=day,
        segments={"country": np.array(list("ABC"))[country]},
        features={"price": price},
        prefix=prefix,
    )


def by_text(
    random: np.random.Generator,
    query_table: Table,
    prefix: str,
    hard: Floats,
    drop: float = 0.0,
    n: int = 3000,
) -> pd.DataFrame:
    """Query texts that recur: the frequent ones are the easy ones, half of the rest is seen once."""
    frequency = 1 / np.arange(1, hard.size + 1) ** 0.9
    text = random.choice(hard.size, n, p=frequency / frequency.sum())
    values = 0.7 + hard[text] + 0.06 * random.standard_normal(n) - drop
    return query_table(values, pair_key=np.char.add("t", text.astype(str)), prefix=prefix)


def has_change_alert(result: MonitorResult) -> bool:
    return any(alert.kind == "change" for alert in result.alerts)


def difficulties(random: np.random.Generator) -> Floats:
    return 0.12 * random.standard_normal(2000) - 0.1 * np.log10(np.arange(1, 2001))


MIXES = [(0.0, 0.0, (14, 14)), (0.0, 0.4, (14, 14)), (1.0, 0.0, (14, 14)), (1.0, 0.0, (28, 4))]


@pytest.mark.parametrize(
    ("moved", "mixed", "days", "runs"),
    [
        *((*mix, 2) for mix in (MIXES[1], MIXES[3])),
        *(pytest.param(*mix, 300, marks=pytest.mark.slow) for mix in MIXES),
    ],
)
def test_healthy_runs_stay_quiet(
    moved: float, mixed: float, days: tuple[int, int], runs: int, query_table: Table, analyse: Analyse
) -> None:
    """A mix that moved for good is a drop of the plain mean in every run, and in none once it is adjusted for.

    Of four days of baseline, what is known of the mix is the larger part of the error.
    """
    random = np.random.default_rng(1)
    adjusted, plain, few_runs = 0, 0, min(runs, 20)
    for run in range(runs):
        sides = [
            days_of(random, query_table, "n", days[0], moved=moved, mixed=mixed),
            days_of(random, query_table, "b", days[1], mixed=mixed),
        ]
        adjusted += bool(analyse(*sides, **EVERY).alerts)
        if moved and run < few_runs:
            plain += has_change_alert(analyse(*sides, **PLAIN))
    assert adjusted <= most_false_alarms(runs)
    if moved:
        assert plain >= (few_runs if days[1] > 4 else few_runs / 4)


@pytest.mark.parametrize("runs", [3, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("mixed", "drop", "gained"), [(0.0, 0.009, 0.0), (0.4, 0.011, 0.5)])
def test_smaller_drops_are_found(
    mixed: float, drop: float, gained: float, runs: int, query_table: Table, analyse: Analyse
) -> None:
    random = np.random.default_rng(2)
    adjusted = plain = 0
    removed = []
    for _ in range(runs):
        sides = [
            days_of(random, query_table, "n", drop=drop, mixed=mixed),
            days_of(random, query_table, "b", mixed=mixed),
        ]
        found = analyse(*sides, **EVERY)
        assert found.adjustment is not None
        removed.append(found.adjustment.variance_removed)
        adjusted += has_change_alert(found)
        plain += has_change_alert(analyse(*sides, **PLAIN))
    assert adjusted >= plain + gained * runs
    assert adjusted >= 0.6 * runs
    assert np.median(removed) >= 0.3


@pytest.mark.parametrize("runs", [5, pytest.param(400, marks=pytest.mark.slow)])
def test_texts_that_recur(runs: int, query_table: Table, analyse: Analyse) -> None:
    """Frequent texts are easier, and rare ones have no mean in the baseline: no drop all the same."""
    random = np.random.default_rng(3)
    options: dict[str, Any] = {"columns": {"pair_key": "text"}, "slices": {"features": False}}
    adjusted = {"compare": {"min_drop": 0.0, "adjust": ["text"]}, **options}
    quiet = found = plain = 0
    n, drop = (1000, 0.012) if runs < 100 else (3000, 0.006)
    for _ in range(runs):
        hard = difficulties(random)
        before = by_text(random, query_table, "b", hard, n=n)
        quiet += not analyse(by_text(random, query_table, "n", hard, n=n), before, **adjusted).alerts
        worse = by_text(random, query_table, "n", hard, drop=drop, n=n)
        found += bool(analyse(worse, before, **adjusted).alerts)
        plain += bool(analyse(worse, before, **PLAIN, **options).alerts)
    assert runs - quiet <= most_false_alarms(runs)
    assert found >= plain + 0.15 * runs


def test_the_arithmetic_of_one_segment(query_table: Table, analyse: Analyse) -> None:
    """Half easy queries (.8), half hard ones (.6); production has three hard ones in four, and lost .03 everywhere."""
    noise = 0.01 * np.tile([-1.0, 1.0], 200)
    before = np.repeat([0.8, 0.6], 200) + noise
    now = np.repeat([0.77, 0.57], [100, 300]) + noise
    kinds = [np.repeat(["easy", "hard"], 200), np.repeat(["easy", "hard"], [100, 300])]
    sides = [
        query_table(values, segments={"kind": kind}, prefix=prefix)
        for values, kind, prefix in ((now, kinds[1], "n"), (before, kinds[0], "b"))
    ]
    found = analyse(*sides, compare={"adjust": ["kind"]})
    (change,) = found.changes
    assert (change.baseline.value, change.production.value) == (pytest.approx(0.7), pytest.approx(0.62))
    assert change.difference.value == pytest.approx(-0.03)
    assert found.adjustment is not None
    assert found.adjustment.unadjusted.value == pytest.approx(-0.08)
    assert found.windows[0].adjusted is not None
    assert found.windows[0].adjusted.value == pytest.approx(0.67)
    # of the hard ones, half as many again as the baseline's share: its prediction is less sure by 1 + .25**2 / .25
    spread = 0.01 * np.sqrt(400 / 398)
    expected = np.sqrt(spread**2 / 399 * (1 + 0.25) + 0.01**2 / 399)
    assert change.difference.error == pytest.approx(expected, rel=1e-6)
    assert found.adjustment.variance_removed == pytest.approx(
        1 - (change.difference.error / found.adjustment.unadjusted.error) ** 2
    )
    assert "adjusted for kind" in change.method
    assert "-0.0300 [" in found.verdict.what
    assert found.verdict.what.endswith("adjusted for kind.")
    assert (
        found.verdict.cause == "everywhere"
    )  # the mix, which explains -.05 of the plain difference, is not in it
    (adjusted,) = [caution.text for caution in found.cautions if caution.kind == "adjusted"]
    assert adjusted.startswith(
        "differences are adjusted for kind (99% less variance): none holds what another mix"
    )
    assert adjusted.endswith(f"the plain difference of ndcg@10 is {found.adjustment.unadjusted}")


@pytest.mark.parametrize("broken", ["missing", "in other units", "new names"])
def test_what_the_baseline_never_had_moves_no_value(
    broken: str, query_table: Table, analyse: Analyse
) -> None:
    random = np.random.default_rng(4)
    now, before = (days_of(random, query_table, prefix) for prefix in "nb")
    columns = {"missing": lambda x: x * np.nan, "in other units": lambda x: 1000 * x + 5000}
    if broken == "new names":
        country = now["segment:country"].cat.rename_categories(str.lower)
        now = now.assign(**{"segment:country": country})
        columns_used = ["country"]
    else:
        features = [name for name in now if name.startswith("feature:")]
        now = now.assign(**{name: columns[broken](now[name]) for name in features})
        columns_used = ["price"]
    found = analyse(now, before, compare={"adjust": columns_used})
    assert found.adjustment is not None
    assert found.changes[0].difference.value == pytest.approx(found.adjustment.unadjusted.value, abs=1e-12)


def test_a_replay_needs_no_adjusting(query_table: Table, analyse: Analyse) -> None:
    table = days_of(np.random.default_rng(5), query_table, "q")
    worse = table.assign(**{"metric:ndcg@10": table["metric:ndcg@10"] - 0.02})
    adjusted, plain = analyse(worse, table, **EVERY), analyse(worse, table, **PLAIN)
    assert adjusted.changes[0].difference == plain.changes[0].difference
    assert adjusted.adjustment is None
    paired = "compare.adjust has no effect, because the same queries are compared in pairs"
    assert Caution("adjust-without-effect", "note", paired) in adjusted.cautions
    alone = analyse(worse, None, **EVERY)
    text = "compare.adjust has no effect, because there is no baseline"
    assert Caution("adjust-without-effect", "note", text) in alone.cautions


@pytest.mark.parametrize("options", [EVERY, PLAIN])
@pytest.mark.parametrize("side", [0, 1])
def test_a_metric_that_one_side_has_for_no_query(
    side: int, options: dict[str, Any], query_table: Table
) -> None:
    random = np.random.default_rng(8)
    sides = []
    for at, prefix in enumerate("nb"):
        table = days_of(random, query_table, prefix)
        second = np.nan if at == side else table["metric:ndcg@10"]
        sides.append(table.assign(**{"metric:mrr": second}))
    columns = {"rank": "rank", "segments": ["country"], "features": ["price"]}
    config = load_monitor_config({"columns": columns, "metrics": ["ndcg@10", "mrr"], **options})
    first, second_change = run_stages(*sides, config).result.changes
    assert abs(first.difference.value) < 0.01
    assert np.isnan(second_change.difference.value)


@pytest.mark.usefixtures("empty_pictures")
def test_from_a_log_to_the_page_and_on_to_the_next_baseline(
    ltr: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """One country is hard, and there is more of it now: the plain mean falls, and the adjusted one does not."""
    hard: dict[str, Any] = {"days": 3, "queries_per_day": 200, "hard_country": "B"}
    config = {
        "columns": {
            "query_id": "request_id", "item_id": "sku", "score": "score", "timestamp": "ts",
            "segments": ["country"], "features": ["f3"],
        },
        "metrics": ["ndcg@10"],
        "windows": {"trailing": 0},
        "log": hard | {"seed": 1, "country_shares": [0.05, 0.8, 0.05, 0.05, 0.05]},
        "baseline": hard | {"seed": 2},
    }  # fmt: skip
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
    adjust = ["--set", "compare.adjust=[country, f3]"]
    code, out, _ = ltr("monitor", tmp_path / "m.yaml")
    assert code == 4
    assert "ALERT change ndcg@10 -0." in out
    code, out, err = ltr("monitor", tmp_path / "m.yaml", *adjust, "-o", tmp_path / "out")
    assert (code, out) == (0, ""), out
    page = (tmp_path / "out" / "report.md").read_text()
    assert "differences are adjusted for country, f3 (" in page
    assert "Welch's t over different queries, adjusted for country, f3" in page
    windows = (tmp_path / "out" / "windows.csv").read_text().splitlines()
    assert "adjusted,adjusted_low,adjusted_high,difference" in windows[0]
    # what was written is a baseline like any other
    log = ["--set", "log.seed=4", "--baseline", tmp_path / "out"]
    code, out, err = ltr("monitor", tmp_path / "m.yaml", *adjust, *log)
    assert (code, out) == (0, ""), err


def test_nights_remember_what_they_were_adjusted_for(query_table: Table, tmp_path: Path) -> None:
    """A week of nights is their adjusted means' mean, and a history of other means is left alone."""
    random = np.random.default_rng(6)
    before = days_of(random, query_table, "b", mixed=0.4)
    settings: dict[str, Any] = {
        "columns": {"rank": "rank", "timestamp": "ts", "segments": ["country"], "features": ["price"]},
        "metrics": ["ndcg@10"],
    }

    def night(day: int, adjust: list[str]) -> MonitorResult:
        config = load_monitor_config({**settings, "compare": {"adjust": adjust}})
        table = days_of(np.random.default_rng(day), query_table, f"n{day}-", days=1, mixed=0.4)
        table = table.assign(time=table["time"] + (20 + day) * 86_400 * 10**9)
        return run_stages(table, before, config, history=tmp_path).result

    nights = [night(day, COUNTRIES).windows[0] for day in range(4)]
    own = [w.change.value for w in nights if w.change]
    assert nights[-1].trailing is not None
    assert nights[-1].trailing.value == pytest.approx(np.mean(own))
    assert night(4, ["country"]).windows[0].trailing is None
    assert night(5, []).windows[0].trailing is None


def test_what_cannot_be_adjusted_for_is_refused(query_table: Table, analyse: Analyse) -> None:
    columns = {"rank": "rank", "segments": ["country"], "pair_key": "text"}
    with pytest.raises(
        ConfigError,
        match=r"compare.adjust: 'contry' is not a segment, a feature or the pair_key.*'country'",
    ):
        load_monitor_config({"columns": columns, "compare": {"adjust": ["contry"]}})
    with pytest.raises(ConfigError, match=r"'text' beside columns.cluster_id: queries of one key are alike"):
        load_monitor_config({"columns": {**columns, "cluster_id": "user"}, "compare": {"adjust": ["text"]}})
    random = np.random.default_rng(7)
    now, before = (days_of(random, query_table, prefix) for prefix in "nb")
    for lacking, column in (("segment:country", "country"), ("feature:price:mean", "price")):
        with pytest.raises(DataError, match=f"the baseline: has no column '{column}'.*compare.adjust"):
            analyse(now, before.drop(columns=lacking), compare={"adjust": [column]})
