"""Why: mix and drift, each against a planted truth."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ltr_harness.comparison.stats.cluster_sums import Floats
from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs import Run
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.monitoring.stats.drift import bin_codes, bin_edges, distances, psi, psi_threshold
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.monitoring.verdict import _explains

pytestmark = pytest.mark.long

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]

CONFIG = {
    "columns": {
        "query_id": "request_id", "item_id": "sku", "score": "score", "timestamp": "ts",
        "segments": ["country", "device"], "features": ["f3", "f7", "price"],
    },
    "metrics": ["ndcg@10"],
}  # fmt: skip


def by_segment(
    random: np.random.Generator, shares: list[int], means: list[float], query_table: Table, prefix: str
) -> pd.DataFrame:
    which = np.repeat(np.arange(len(shares)), shares)
    values = np.clip(np.array(means)[which] + 0.1 * random.standard_normal(which.size), 0, 1)
    return query_table(values, segments={"country": np.array(list("AB"))[which]}, prefix=prefix)


def test_a_shift_of_the_mix_alone(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(25)
    before = by_segment(random, [7000, 3000], [0.85, 0.65], query_table, "b")
    found = analyse(by_segment(random, [4000, 6000], [0.85, 0.65], query_table, "n"), before)
    split = found.decompositions[0]
    assert found.changes[0].difference.value == pytest.approx(-0.06, abs=0.005)
    assert split.within.low < 0 < split.within.high
    assert split.mix.value == pytest.approx(-0.06, abs=0.004)
    assert split.adjusted == pytest.approx(0.79, abs=0.005)
    assert split.within.value + split.mix.value == pytest.approx(found.changes[0].difference.value, abs=1e-12)
    assert found.verdict.cause == "mix"
    assert found.slices == ()


def test_both_segments_improved_and_the_whole_fell(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(26)
    before = by_segment(random, [8000, 2000], [0.90, 0.60], query_table, "b")
    found = analyse(by_segment(random, [3000, 7000], [0.92, 0.63], query_table, "n"), before)
    assert found.changes[0].alert
    assert found.decompositions[0].simpsons_paradox
    assert found.verdict.cause == "mix"
    assert "segments improved" in found.verdict.where


def with_features(
    random: np.random.Generator, concept: bool, query_table: Table
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """f3 decides how hard a query is and moves; f7 moves more and does nothing."""
    tables = []
    for side in range(2):
        n = 3000
        features = random.standard_normal((8, n))
        if side == 0 and not concept:
            features[2] += 0.4
        if side == 0:
            features[6] += 1.0
        mean = 0.8 - 0.07 * features[2] - (0.03 if side == 0 and concept else 0)
        values = np.clip(mean + 0.1 * random.standard_normal(n), 0, 1)
        names = {f"f{at + 1}": features[at] for at in range(8)}
        tables.append(query_table(values, features=names, prefix=f"{side}q"))
    return tables[0], tables[1]


@pytest.mark.parametrize("runs", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_the_cause_comes_before_the_larger_drift(runs: int, query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(27)
    first = explained = 0
    for _ in range(runs):
        found = analyse(*with_features(random, False, query_table), slices={"features": False})
        first += found.drift[0].name == "f3"
        explained += found.drift[0].share_of_change >= 0.8
        assert max(found.drift, key=lambda f: f.psi).name == "f7"
        assert found.verdict.cause == "covariate"
    assert first >= 0.95 * runs
    assert explained >= 0.95 * runs


@pytest.mark.parametrize("runs", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_change_of_concept_is_explained_by_no_feature(
    runs: int, query_table: Table, analyse: Analyse
) -> None:
    random = np.random.default_rng(28)
    for _ in range(runs):
        found = analyse(*with_features(random, True, query_table), slices={"features": False})
        assert all(abs(f.share_of_change) <= 0.2 for f in found.drift)
        assert "Not explained by feature drift" in found.verdict.where


def test_psi_of_a_hundred_against_a_hundred_is_no_drift() -> None:
    random = np.random.default_rng(29)
    flagged = customary = 0
    for _ in range(400):
        one, other = random.standard_normal(100), random.standard_normal(100)
        edges = bin_edges(other, 10)
        counts = [np.bincount(bin_codes(x, edges), minlength=10).astype(float) for x in (one, other)]
        value = psi(*counts)
        flagged += value > psi_threshold(100, 100, 10, 0.05)
        customary += value > 0.1
    assert flagged <= 0.1 * 400
    assert customary >= 0.7 * 400


def test_a_feature_of_the_query_is_tested_once_per_query() -> None:
    """Twenty rows repeat the same value: a test on rows would call every one of these runs drift."""
    random = np.random.default_rng(30)
    flagged = by_rows = 0
    for _ in range(200):
        one, other = random.standard_normal(100), random.standard_normal(100)
        flagged += distances(one, other)[1] <= 0.05
        by_rows += distances(np.repeat(one, 20), np.repeat(other, 20))[1] <= 0.05
    assert flagged <= 0.08 * 200
    assert by_rows >= 0.6 * 200


def test_features_of_items_become_features_of_queries() -> None:
    log = SyntheticLog(days=1, queries_per_day=300).table()
    found = monitor(CONFIG, log=log, baseline=SyntheticLog(days=1, queries_per_day=300, seed=1).table())
    assert {f.name for f in found.drift} == {
        "country",
        "device",
        "f3",
        "f7",
        "price:max",
        "price:mean",
        "price:std",
    }
    assert {f.n_now for f in found.drift} == {300}


def test_missing_values_are_a_bin_of_their_own(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(31)
    values = np.clip(0.8 + 0.1 * random.standard_normal(4000), 0, 1)
    feature = random.standard_normal(4000)
    gone = np.where(random.random(4000) < 0.3, np.nan, feature)
    found = analyse(
        query_table(values, features={"f": gone}), query_table(values, features={"f": feature}, prefix="b")
    )
    assert found.drift[0].drifted
    assert found.drift[0].missing_now == pytest.approx(0.3, abs=0.03)


def test_the_frames_hold_what_the_page_shows() -> None:
    log = SyntheticLog(days=2, queries_per_day=250, drop=1.5)
    found = monitor(CONFIG, log=log, baseline=SyntheticLog(days=2, queries_per_day=250, seed=3))
    assert isinstance(pd.DataFrame([vars(w) for w in found.windows]), pd.DataFrame)
    assert found.alerts


def test_how_far_the_values_have_to_be_carried(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(33)
    values = np.clip(0.8 + 0.1 * random.standard_normal(4000), 0, 1)
    feature = 3 * random.standard_normal(4000)
    found = analyse(
        query_table(values, features={"f": feature + 1.5}),
        query_table(values, features={"f": feature}, prefix="b"),
    )
    assert found.drift[0].wasserstein == pytest.approx(0.5, abs=0.02)  # 1.5 of a standard deviation of 3
    assert found.drift[0].shift == pytest.approx(0.5, abs=0.02)
    wider = analyse(
        query_table(values, features={"f": 2 * feature}),
        query_table(values, features={"f": feature}, prefix="b"),
    )
    assert (
        abs(wider.drift[0].shift) < 0.1 < wider.drift[0].wasserstein
    )  # the mean stands still, the values do not


def test_the_models_gain_stands_beside_the_drift(frozen_run: Run, tmp_path: Path) -> None:
    table = frozen_run.importance
    assert table is not None
    top = str(table.sort_values("gain")["feature"].iloc[-1])
    log = SyntheticLog(days=1, queries_per_day=250).table()
    log = log.rename_columns([top if name == "f3" else name for name in log.column_names])
    columns = {"query_id": "request_id", "rank": "position", "features": [top, "f7", "price"]}
    config = {"columns": columns, "metrics": ["ndcg@10"], "drift": {"model": str(frozen_run.path)}}
    found = {f.name: f for f in monitor(config, log=log, baseline=log).drift}
    assert found[top].gain_share == pytest.approx(table["gain"].max() / table["gain"].sum())
    assert np.isnan(found["f7"].gain_share)
    without_trees = Path(shutil.copytree(frozen_run.path, tmp_path / "without-trees"))
    record = json.loads((without_trees / "record.json").read_text())
    del record["files"]["importance.parquet"]
    (without_trees / "record.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="has no trees"):
        monitor({**config, "drift": {"model": str(without_trees)}}, log=log, baseline=log)
    plain = monitor({**config, "drift": {}}, log=log, baseline=log)
    assert plain.config_sha256 == monitor(config, log=log, baseline=log).config_sha256


# ---- false causes -----------------------------------------------------------------------------------------


def quality(random: np.random.Generator, n: int, mean: Any = 0.8) -> Floats:
    return np.clip(mean + 0.15 * random.standard_normal(n), 0, 1)


def dropped_with(
    change: Callable[[np.random.Generator, Floats], Floats], query_table: Table, seed: int, n: int = 3000
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Everything is worse by .04; besides, `change` happens to a feature that has nothing to do with it."""
    random = np.random.default_rng(seed)
    sides = []
    for side in range(2):
        feature = random.standard_normal(n)
        if side == 0:
            feature = change(random, feature)
        values = quality(random, n, 0.76 if side == 0 else 0.8)
        columns = {"f": feature, "g": random.standard_normal(n)}
        country = random.choice(list("ABC"), n)
        sides.append(query_table(values, features=columns, segments={"country": country}, prefix="nb"[side]))
    return sides[0], sides[1]


BROKEN = {
    "missing": lambda random, f: np.where(random.random(f.size) < 0.56, np.nan, f),
    "moved": lambda random, f: f + 0.8,
    "in other units": lambda random, f: 1000 * f + 5000,
    "constant": lambda random, f: np.zeros(f.size),
}


SEEDS = pytest.mark.parametrize("seeds", [2, pytest.param(15, marks=pytest.mark.slow)])


@SEEDS
@pytest.mark.parametrize("kind", BROKEN)
def test_what_happens_beside_a_drop_is_not_its_cause(
    kind: str, seeds: int, query_table: Table, analyse: Analyse
) -> None:
    """A feature without influence turned NaN, and "its mix explains -.0423 of -.0423": 15 of 15 times."""
    for seed in range(seeds):
        found = analyse(*dropped_with(BROKEN[kind], query_table, seed))
        assert found.changes[0].alert
        assert found.verdict.cause in ("everywhere", "slice"), (seed, found.verdict)  # a slice by chance
        assert "explains -" not in found.verdict.where
        alerts = [alert.text for alert in found.alerts if alert.kind == "input"]
        assert bool(alerts) == (kind != "moved")
        assert all(text.startswith("f ") for text in alerts)


@SEEDS
def test_a_missing_value_that_was_seldom_before(seeds: int, query_table: Table, analyse: Analyse) -> None:
    """Ten queries without the feature before: their mean is luck, and was multiplied by 56 %."""
    for seed in range(seeds):
        now, before = dropped_with(BROKEN["missing"], query_table, seed)
        before.loc[:9, ["feature:f:mean", "feature:f:max"]] = np.nan
        found = analyse(now, before)
        assert found.verdict.cause == "everywhere"
        drift = next(f for f in found.drift if f.name == "f")
        assert drift.unmatched_share == pytest.approx(0.56, abs=0.04)
        assert abs(drift.mix.value) < 0.01


@SEEDS
def test_renamed_codes_are_no_mix(seeds: int, query_table: Table, analyse: Analyse) -> None:
    """ "mix, within +.0000": of segments that have no value in common nothing can be said."""
    for seed in range(seeds):
        now, before = dropped_with(lambda random, f: f, query_table, seed)
        now = now.assign(**{"segment:country": now["segment:country"].cat.rename_categories(str.lower)})
        found = analyse(now, before)
        assert found.verdict.cause == "everywhere"
        (split,) = found.decompositions
        assert split.unmatched_share == 1.0
        assert np.isnan(split.mix.value)
        (alert,) = (alert for alert in found.alerts if alert.kind == "input")
        assert alert.text == (
            "country has no value in common with the baseline: now such as 'a', 'b', 'c', before such as 'A', 'B', 'C'"
        )


@pytest.mark.parametrize("seeds", [2, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("share", [0.2, 0.56])
def test_a_broken_input_is_called_that(
    share: float, seeds: int, query_table: Table, analyse: Analyse
) -> None:
    """Queries that lack the feature are ranked worse: "queries changed" would acquit the pipeline."""
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        gone = random.random(3000) < share
        feature, feature_before = random.standard_normal((2, 3000))
        now = query_table(
            quality(random, 3000, 0.8 - 0.1 * gone), features={"f": np.where(gone, np.nan, feature)}
        )
        before = query_table(quality(random, 3000), features={"f": feature_before}, prefix="b")
        found = analyse(now, before)
        assert found.verdict.cause == "input", found.verdict
        (drift,) = found.drift
        assert drift.unmatched.value == pytest.approx(-0.1 * share, abs=0.015)
        assert found.verdict.where == (
            f"An input broke: f is missing in {drift.missing_now:.1%} of its rows, 0.0% before; where the baseline has "
            f"nothing like it, queries are worse than the others, which explains {drift.unmatched.value:+.4f} of "
            f"{found.changes[0].difference.value:+.4f}."
        )


def test_an_input_that_is_gone_altogether_cannot_be_held_against_the_rest(
    query_table: Table, analyse: Analyse
) -> None:
    found = analyse(*dropped_with(lambda random, f: np.full(f.size, np.nan), query_table, 1))
    assert found.verdict.cause == "everywhere"
    assert found.verdict.where.endswith(
        "f is missing in 100.0% of its rows, 0.0% before; whether that is the cause cannot be tested: almost no "
        "query is without."
    )


def test_a_feature_missing_in_some_rows_of_every_query() -> None:
    """56 % of an item feature's rows: each query keeps a mean, and nothing was said."""
    log = SyntheticLog(days=2, queries_per_day=250, seed=1).table()
    baseline = SyntheticLog(days=2, queries_per_day=250, seed=2).table()
    random = np.random.default_rng(3)
    price = log["price"].to_numpy()
    at = log.column_names.index("price")
    for share, alarmed in ((0.56, True), (0.08, True), (0.0, False)):
        holed = np.where(random.random(price.size) < share, np.nan, price)
        found = monitor(CONFIG, log=log.set_column(at, "price", pa.array(holed)), baseline=baseline)
        texts = [alert.text for alert in found.alerts if alert.kind == "input"]
        missing = np.isnan(holed).mean()
        assert texts == ([f"price is missing in {missing:.1%} of its rows, 0.0% before"] if alarmed else [])
        drift = next(f for f in found.drift if f.name == "price:mean")
        assert drift.missing_now == pytest.approx(missing, abs=1e-12)


@pytest.mark.parametrize("runs", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_what_was_always_missing_is_no_news(runs: int, query_table: Table, analyse: Analyse) -> None:
    alarmed = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        tables = []
        for side in range(2):
            features = {name: random.standard_normal(800) for name in "abcde"}
            for column in features.values():
                column[random.random(800) < 0.3] = np.nan
            tables.append(query_table(quality(random, 800), features=features, prefix="nb"[side]))
        alarmed += any(alert.kind == "input" for alert in analyse(*tables).alerts)
    assert alarmed <= 0.05 * runs


@pytest.mark.parametrize("runs", [5, pytest.param(300, marks=pytest.mark.slow)])
def test_a_cause_is_seldom_named_by_chance(runs: int, query_table: Table, analyse: Analyse) -> None:
    """Twelve features and a segment, all of which moved, none of which matters; and everything fell."""
    named = 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        sides = []
        for side in range(2):
            features = {f"f{at}": random.standard_normal(1500) + side * random.normal() for at in range(12)}
            country = random.choice(list("ABCDEFGHIJ"), 1500, p=random.dirichlet(np.full(10, 0.5)))
            values = quality(random, 1500, 0.8 - 0.03 * (side == 0))
            sides.append(
                query_table(values, features=features, segments={"country": country}, prefix="nb"[side])
            )
        named += analyse(*sides, slices={"features": False}).verdict.cause in ("mix", "covariate", "input")
    assert named <= 0.05 * runs + 2 * np.sqrt(0.05 * runs)


def test_a_part_explains_a_change_from_half_of_it_on() -> None:
    def part(value: float) -> Estimate:
        return Estimate(value, value - 0.02, value + 0.02, 0.01, 0.01, 100)

    assert _explains(part(-0.05), 0.05, -0.1, 0.5)
    assert not _explains(part(-0.0499), 0.05, -0.1, 0.5)
    assert not _explains(part(-0.05), 0.0501, -0.1, 0.5)  # shuffled data do as much
    assert not _explains(part(0.05), 0.05, -0.1, 0.5)  # the other way
    assert not _explains(part(-0.019), 0.05, -0.03, 0.5)  # not certain
    assert not _explains(part(0.0), 0.05, 0.0, 0.5)


def two_at_once(
    random: np.random.Generator, ranking: float, query_table: Table
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A has 78 % of the queries and then 48 %, which costs .03; a worse ranking costs every query `ranking`."""
    return (
        by_segment(random, [1900, 2100], [0.80 - ranking, 0.70 - ranking], query_table, "n"),
        by_segment(random, [3100, 900], [0.80, 0.70], query_table, "b"),
    )


def test_two_causes_at_once_are_both_named(query_table: Table, analyse: Analyse) -> None:
    found = analyse(*two_at_once(np.random.default_rng(31), 0.02, query_table))
    total = found.changes[0].difference.value
    parts = found.verdict.parts
    assert list(parts) == ["mix", "everywhere"]
    assert sum(parts.values()) == pytest.approx(total, abs=1e-12)
    assert parts["mix"] == found.decompositions[0].mix.value == pytest.approx(-0.03, abs=0.006)
    shares = ", ".join(f"{name} {part:+.4f} ({part / total:.0%})" for name, part in parts.items())
    assert found.verdict.where.startswith(f"Two causes: {shares}. Mix: the shares of country changed")
    assert found.document["verdict"]["parts"] == parts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranking", "first", "both"), [(0.0, "mix", 0.0), (0.02, "mix", 0.9), (0.05, "everywhere", 0.9)]
)
def test_one_cause_is_one_and_two_are_two(
    ranking: float, first: str, both: float, query_table: Table, analyse: Analyse
) -> None:
    """A mix alone is called a mix; of a mix and a worse ranking only one was named."""
    random, runs = np.random.default_rng(32), 60
    named = alone = right = 0
    for _ in range(runs):
        found = analyse(*two_at_once(random, ranking, query_table))
        parts = found.verdict.parts
        right += found.verdict.cause == first
        named += set(parts) == {"mix", "everywhere"}
        alone += not parts
        assert sum(parts.values()) == pytest.approx(
            found.changes[0].difference.value if parts else 0.0, abs=1e-12
        )
    assert right >= 0.9 * runs
    assert named >= both * runs if both else alone >= 0.95 * runs
