"""Arms of an A/B test: what is compared, by whom, and when nothing is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import chisquare, ttest_ind

from ltr_harness.errors import DataError
from ltr_harness.monitoring import MonitorResult, monitor
from ltr_harness.monitoring.page import write_monitor_report
from ltr_harness.monitoring.result import ArmComparison, ArmDifference

Table = Callable[..., pd.DataFrame]
Analyse = Callable[..., MonitorResult]
Cli = Callable[..., tuple[int, str, str]]

ARMS: dict[str, Any] = {"arms": {"column": "variant", "control": "A"}}
USERS = {**ARMS, "columns": {"cluster_id": "user"}}


@pytest.fixture(scope="session")
def experiment(query_table: Table, analyse: Analyse) -> Callable[..., ArmComparison]:
    """Arms of queries, each with a value, compared."""

    def run(arm: Any, values: Any, sections: dict[str, Any] = ARMS, **given: Any) -> ArmComparison:
        more = {name: given.pop(name) for name in list(given) if ":" in name}
        table = query_table(values, **given).assign(arm=pd.Categorical(arm), **more)
        found = analyse(table, None, **sections).arms
        assert found is not None
        return found

    return run


def difference_of(found: ArmComparison, measure: str = "ndcg@10", arm: str = "B") -> ArmDifference:
    return next(d for d in found.differences if (d.measure, d.arm) == (measure, arm))


def two_arms(n: int, m: int | None = None) -> list[str]:
    return ["A"] * n + ["B"] * (n if m is None else m)


# ---- numbers ----------------------------------------------------------------------------------------------


def test_by_query_it_is_near_welchs_t(experiment: Callable[..., ArmComparison]) -> None:
    random = np.random.default_rng(0)
    a, b = random.random(40), 0.1 + 0.8 * random.random(40)
    found = experiment(two_arms(40), [*a, *b])
    oracle = ttest_ind(b, a, equal_var=False)
    low, high = oracle.confidence_interval(0.95)
    d = difference_of(found)
    assert (d.mean, d.control) == pytest.approx((b.mean(), a.mean()))
    assert d.difference.value == pytest.approx(b.mean() - a.mean())
    assert d.relative == pytest.approx(b.mean() / a.mean() - 1)
    # 10,000 draws in place of t's table
    assert (d.difference.p, d.difference.low, d.difference.high) == pytest.approx(
        (oracle.pvalue, low, high), abs=0.01
    )
    assert (found.unit, d.n_queries, d.difference.n) == ("query", 40, 80)


def test_a_user_counts_once_however_often_she_asks(experiment: Callable[..., ArmComparison]) -> None:
    random = np.random.default_rng(1)
    values = random.random(40)
    once = experiment(two_arms(20), values)
    ten = experiment(
        np.repeat(two_arms(20), 10),
        np.repeat(values, 10),
        USERS,
        cluster=np.char.zfill(np.repeat(np.arange(40), 10).astype(str), 2),
    )
    assert difference_of(ten).difference.p == pytest.approx(difference_of(once).difference.p, rel=1e-6)
    assert difference_of(ten).difference.low == pytest.approx(difference_of(once).difference.low)
    assert [arm.n_units for arm in ten.arms] == [20, 20]
    assert [arm.n_queries for arm in ten.arms] == [200, 200]
    by_query = experiment(np.repeat(two_arms(20), 10), np.repeat(values, 10))
    assert difference_of(by_query).difference.error < difference_of(ten).difference.error / 3


CLICKS = {**ARMS, "relevance": {"events": {"click": 1}, "negative": ["hide"]}}
CLICKS["columns"] = {"online": ["dwell"]}


def test_what_users_did_stands_beside_the_metric(experiment: Callable[..., ArmComparison]) -> None:
    """A has no clicks in every second query, B in every fourth; hides the other way round."""
    often, seldom = np.tile([0, 2, 1, 3], 50), np.tile([0, 1, 0, 2], 50)
    columns = {
        "event:click": np.concatenate((seldom, often)),
        "event:hide": np.concatenate((seldom, often)),
        "online:dwell": np.concatenate((seldom, often)) * 10.0,
    }
    found = experiment(two_arms(200), np.tile([0.5, 0.7], 200), CLICKS, **columns)
    assert [d.measure for d in found.differences] == [
        "ndcg@10",
        "queries with click",
        "queries with hide",
        "dwell",
    ]
    assert (
        difference_of(found, "queries with click").control,
        difference_of(found, "queries with click").mean,
    ) == (0.5, 0.75)
    words = [d.verdict for d in found.differences]
    assert words == ["not distinguishable", "better", "worse", "higher"]
    assert found.verdict == (
        "B is not distinguishable from A at ndcg@10: +0.0000 [-0.0229, +0.0229], p = 1.0000 after joint correction "
        "over 4 tests. Better at queries with click (+0.2500); worse at queries with hide (+0.2500); higher "
        "at dwell (+7.5000)."
    )


def test_all_measures_of_all_arms_are_one_family(experiment: Callable[..., ArmComparison]) -> None:
    random = np.random.default_rng(2)
    values = random.random(300)
    values[100:200] += 0.12
    arms = np.repeat(["A", "B", "C"], 100)
    found = experiment(
        arms, values, {**ARMS, "columns": {"online": ["dwell"]}}, **{"online:dwell": random.random(300)}
    )
    raw, p = ([f(d) for d in found.differences] for f in (lambda d: d.difference.p, lambda d: d.p_corrected))
    assert all(one <= together <= min(1, 4 * one + 0.002) for one, together in zip(raw, p, strict=True))
    assert found.family == "joint correction over 4 tests"
    for d in found.differences:
        outside = not d.difference.low <= 0 <= d.difference.high
        assert outside == (d.p_corrected < 0.05) == (d.verdict != "not distinguishable")
    endless = experiment(arms, values, {**ARMS, "compare": {"correct": "sequence"}})
    assert endless.family == "Bonferroni over 2 tests, for all looks (asymptotically)"
    assert difference_of(endless).p_corrected == pytest.approx(
        min(1, difference_of(endless).difference.p * 2)
    )


def test_a_sequence_holds_at_every_look(experiment: Callable[..., ArmComparison]) -> None:
    values = np.random.default_rng(3).random(400) + np.repeat([0.0, 0.1], 200)
    once, always = (
        experiment(two_arms(200), values, {**ARMS, "compare": {"correct": how}})
        for how in ("bonferroni", "sequence")
    )
    assert difference_of(once).verdict == "better"
    assert difference_of(always).difference.value == difference_of(once).difference.value
    assert difference_of(always).difference.low < difference_of(once).difference.low
    assert difference_of(always).p_corrected > difference_of(once).p_corrected
    assert always.family.endswith("for all looks (asymptotically)")


@pytest.mark.parametrize("how", ["bonferroni", "sequence"])
def test_verdict_p_and_interval_say_one_thing(how: str, experiment: Callable[..., ArmComparison]) -> None:
    random = np.random.default_rng(14)
    words = set()
    for shift in (0, 0.15, 0.3, 0.6, 0.9):
        values = random.exponential(size=120) + np.repeat([0, shift], 60)
        sections = {**ARMS, "compare": {"correct": how}, "columns": {"online": ["dwell"]}}
        dwell = 4 * random.random(120) - 2 * np.repeat([0, shift], 60)
        found = experiment(two_arms(60), values, sections, **{"online:dwell": dwell})
        for d in found.differences:
            sign = "" if d.difference.low <= 0 <= d.difference.high else "+" if d.difference.low > 0 else "-"
            word = {"": "not distinguishable", "+": "better", "-": "worse"}[sign]
            if d.measure == "dwell":
                word = {"better": "higher", "worse": "lower"}.get(word, word)
            assert d.verdict == word
            assert (d.p_corrected < 0.05) == bool(sign)
            words.add(word)
    assert len(words) > 1


def test_intervals_end_at_what_a_metric_allows(experiment: Callable[..., ArmComparison]) -> None:
    """Ten zeros against five ones of ten, for which flips know no end; it was 500,000."""
    found = difference_of(experiment(two_arms(10), [*[0.0] * 15, *[1.0] * 5])).difference
    assert (found.value, found.low, found.high) == (0.5, -1, 1)


def test_what_a_rare_kind_of_user_could_change_is_said(experiment: Callable[..., ArmComparison]) -> None:
    """A kind of 4.9 % may be absent from 60 queries, if one of that kind or nearly so was seen in either arm.

    It would have to be .41 off. How long a dwell time can be is not known.
    """
    values = np.tile([0.49, 0.5, 0.51], 40) + np.repeat([0, 0.02], 60)
    assert not caution_texts(experiment(two_arms(60), values), "rare-kind")
    values[[7, 10]] += 0.25, -0.25  # of A, the control, against which B gains
    (caution,) = (c for c in experiment(two_arms(60), values).cautions if c.kind == "rare-kind")
    assert str(caution).startswith("ndcg@10 of B: a query type below 4.9 % of traffic may be missing here")
    online = {**ARMS, "columns": {"online": ["dwell"]}}
    found = experiment(two_arms(60), np.tile(0.5, 120), online, **{"online:dwell": values})
    (caution,) = (c for c in found.cautions if c.kind == "rare-kind")
    assert caution.place == "dwell of B"
    assert "no known bounds" in caution.text


def caution_texts(found: ArmComparison, kind: str) -> list[str]:
    return [caution.text for caution in found.cautions if caution.kind == kind]


# ---- no verdict -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_shares_that_are_off_withhold_the_verdict(experiment: Callable[..., ArmComparison]) -> None:
    """4,850 and 5,150 users: nobody would see it, and chance does so once in 370 cases; 4,800 once in 16,000."""
    values = np.tile([0.1, 0.2], 5000) + np.repeat([0.0, 0.1], [4800, 5200])
    found = experiment(two_arms(4800, 5200), values)
    assert found.sample_ratio_p == pytest.approx(chisquare([4800, 5200]).pvalue)
    assert {d.verdict for d in found.differences} == {"withheld"}
    assert found.verdict == (
        "No verdict on the arms: A has 4,800 of 10,000 queries, 48.00 %, where 50.00 % were expected (p < 0.0001): "
        "the assignment or the log is broken."
    )
    assert experiment(two_arms(4850, 5150), np.tile([0.1, 0.2], 5000)).withheld == ""


def test_shares_may_be_any(experiment: Callable[..., ArmComparison]) -> None:
    arms = {"arms": {**ARMS["arms"], "shares": {"A": 90, "B": 10}}}
    values = np.tile([0.1, 0.2], 500)
    assert experiment(two_arms(900, 100), values, arms).withheld == ""
    assert [arm.expected for arm in experiment(two_arms(900, 100), values, arms).arms] == [0.9, 0.1]
    assert "p < 0.0001" in experiment(two_arms(900, 100), values).withheld
    assert "90.00 % were expected" in experiment(two_arms(500), values, arms).withheld


def test_users_in_several_arms(experiment: Callable[..., ArmComparison]) -> None:
    users = np.repeat(np.arange(400), 2).astype(str)
    arm = np.repeat(np.where(np.arange(400) < 200, "A", "B"), 2)
    values = np.random.default_rng(4).random(800)
    arm[1] = "B"  # the first user has seen both
    found = experiment(arm, values, USERS, cluster=users)
    assert caution_texts(found, "unit-in-several-arms") == [
        "1 of 400 units are in several arms, and left out"
    ]
    assert [a.n_units for a in found.arms] == [199, 200]
    assert difference_of(found).difference.value == pytest.approx(values[400:].mean() - values[2:400].mean())
    arm[1:20:2] = "B"
    assert experiment(arm, values, USERS, cluster=users).withheld == (
        "10 of 400 values of user are in several arms; if every query was given an arm, leave out columns.cluster_id"
    )
    arm[1::2], arm[::2] = "B", "A"  # every user in both
    assert experiment(arm, values, USERS, cluster=users).withheld.startswith("400 of 400 values of user")


def test_queries_of_nobody_known_are_units_of_their_own(experiment: Callable[..., ArmComparison]) -> None:
    users = [*np.repeat(np.arange(20), 2).astype(str), *[None] * 20]
    found = experiment(
        [*two_arms(20), *two_arms(10)], np.random.default_rng(5).random(60), USERS, cluster=users
    )
    assert [arm.n_units for arm in found.arms] == [20, 20]


def test_a_rollout_mixes_arms_with_days(experiment: Callable[..., ArmComparison]) -> None:
    """B is seen by 10 % on Monday and by half on Tuesday, when everything is better anyway."""
    arm = [*two_arms(450, 50), *two_arms(250)]
    days = np.repeat([0, 1], [500, 500])
    values = np.random.default_rng(6).random(1000) + days
    shares = {"arms": {**ARMS["arms"], "shares": {"A": 7, "B": 3}}}
    found = experiment(arm, values, shares, days=days)
    assert found.sample_ratio_p == 1.0
    assert "the arms' shares change from window to window (p < 0.0001)" in found.withheld


def test_arms_of_different_days_are_refused_and_lone_windows_left_out(
    experiment: Callable[..., ArmComparison],
) -> None:
    with pytest.raises(
        DataError, match="no window holds all of A, B; expected arms that run at the same time"
    ):
        experiment(two_arms(20), np.arange(40) / 40, days=np.repeat([0, 1], 20))
    values = np.random.default_rng(7).random(60)
    found = experiment([*two_arms(20), *["A"] * 20], values, days=np.repeat([0, 1], [40, 20]))
    assert caution_texts(found, "window-without-all-arms") == ["1 window without all arms is left out"]
    assert [arm.n_queries for arm in found.arms] == [20, 20]
    (text,) = caution_texts(experiment(two_arms(20), values[:40]), "no-times")
    assert "whether arms ran at the same time is not checked" in text


def test_queries_without_an_arm_and_labels_that_are_too_young(
    experiment: Callable[..., ArmComparison],
) -> None:
    values = np.random.default_rng(8).random(45)
    found = experiment([*two_arms(20), *[None] * 5], values)
    assert caution_texts(found, "no-arm") == ["5 queries without an arm are left out"]
    assert difference_of(found).n_queries == 20
    young = {**ARMS, "columns": {"timestamp": "ts"}, "relevance": {"maturity": "30d"}}
    none = experiment(two_arms(20), values[:40], young, days=np.tile([0, 1], 20))
    assert none.verdict == "No verdict on the arms: no query is old enough for its labels."


@pytest.mark.parametrize(
    ("n", "how"), [(1, "bonferroni"), (2, "bonferroni"), (9, "bonferroni"), (9, "sequence")]
)
def test_a_few_units_are_too_few(n: int, how: str, experiment: Callable[..., ArmComparison]) -> None:
    sections = {**ARMS, "compare": {"correct": how}}
    found = experiment(two_arms(n), np.random.default_rng(9).random(2 * n), sections)
    d = difference_of(found)
    assert d.verdict == "too little to tell"
    assert np.isnan([d.difference.p, d.difference.low, d.difference.high, d.p_corrected]).all()
    assert found.verdict == "B has too little data to tell it from A at ndcg@10."
    assert caution_texts(found, "few-units") == ["too few queries to compare the arms by ndcg@10"]


def test_a_measure_that_an_arm_never_has(experiment: Callable[..., ArmComparison]) -> None:
    values = np.random.default_rng(13).random(60)
    columns = {"online:dwell": np.where(np.arange(60) < 30, values, np.nan), "online:none": np.zeros(60)}
    found = experiment(two_arms(30), values, {**ARMS, "columns": {"online": ["dwell", "none"]}}, **columns)
    for name in ("dwell", "none"):
        d = difference_of(found, name)
        assert (d.verdict, d.n_queries) == ("too little to tell", 0 if name == "dwell" else 30)
        assert np.isnan(d.p_corrected)
    assert found.family == "joint correction over 1 test"


@pytest.mark.long
def test_a_rare_purchase_in_a_small_arm_is_too_few(experiment: Callable[..., ArmComparison]) -> None:
    """90 of 9,000 and 10 of 1,000; with 3 of 300 the arm may well have had none."""
    bought = np.zeros(10_000)
    bought[[*range(27), *range(9000, 9003)]] = 1
    shares = {"arms": {**ARMS["arms"], "shares": {"A": 9, "B": 1}}}
    assert difference_of(experiment(two_arms(9000, 1000), bought, shares)).verdict == "too little to tell"
    often = np.tile([0.0, 0.0, 0.0, 1.0], 2500)
    d = difference_of(experiment(two_arms(9000, 1000), often, shares))
    assert d.verdict == "not distinguishable"
    bought[[*range(90), *range(9000, 9010)]] = 1
    d = difference_of(experiment(two_arms(9000, 1000), bought, shares))
    assert d.verdict == "not distinguishable"


# ---- what the log and the configuration hold ----------------------------------------------------------------


def rows(arm: Sequence[Any], clicks: Any = (1, 0), **columns: Any) -> pd.DataFrame:
    """Two rows for each query."""
    n = len(arm)
    table = {"query_id": np.repeat([f"q{at:04}" for at in range(n)], 2), "rank": [1, 2] * n}
    table |= {"variant": np.repeat(np.array(arm, dtype=object), 2), "click": np.resize(clicks, 2 * n)}
    return pd.DataFrame({**table, **columns})


LOG: dict[str, Any] = {
    "columns": {"rank": "rank"},
    "metrics": ["mrr"],
    "relevance": {"events": {"click": 1}},
    **ARMS,
}


@pytest.mark.parametrize(
    ("arm", "arms", "told"),
    [
        (two_arms(2), {"control": "a"}, "arms.column 'variant': has no arm 'a'; did you mean 'A'? (known: A, B)"),
        (two_arms(2), {"shares": {"A": 1, "B": 1, "C": 1}}, "has no arm 'C'; known: A, B"),
        (
            [*two_arms(2), "C"],
            {"shares": {"A": 1, "B": 1}},
            "has an arm 'C' without a share; expected a share for each of",
        ),
        (["A", "A"], {}, "has one arm, 'A'; expected the control and at least one other"),
        ([None, None], {}, "has no arm 'A'; expected a name in it"),
        ([f"A{at}" for at in range(30)] + ["A"], {}, "has 31 values; expected at most 20 arms"),
        (two_arms(2), {"column": "varient"}, "has no column 'varient'; did you mean 'variant'?"),
    ],
)  # fmt: skip
def test_logs_that_are_refused(arm: Sequence[Any], arms: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError) as caught:
        monitor({**LOG, "arms": {**ARMS["arms"], **arms}}, log=rows(arm))
    assert told in str(caught.value)


def test_a_query_in_two_arms_is_refused() -> None:
    with pytest.raises(DataError, match="1 of 4 queries change arm from row to row, such as query 'q0000'"):
        monitor(LOG, log=rows(two_arms(2)).assign(variant=list("AB") + list("AABBBB")))


def test_numbers_and_truth_values_are_names(tmp_path: Path) -> None:
    for arm, control in (([0, 1], 0), ([False, True], False)):
        config = {**LOG, "arms": {"column": "variant", "control": control}}
        (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
        found = monitor(tmp_path / "m.yaml", log=rows(arm * 12).infer_objects())
        assert found.arms is not None
        assert found.arms.control == str(control).lower()


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_the_baseline_has_no_arms_and_an_earlier_result_may(tmp_path: Path, ltr: Cli) -> None:
    random = np.random.default_rng(10)
    log = rows(two_arms(300), random.integers(0, 2, 1200))
    log.to_parquet(tmp_path / "now.parquet")
    log.drop(columns="variant").to_parquet(tmp_path / "before.parquet")
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(LOG))
    m, now, out = tmp_path / "m.yaml", tmp_path / "now.parquet", tmp_path / "out"
    code, said, _ = ltr("monitor", m, "--log", now, "--baseline", tmp_path / "before.parquet", "-o", out)
    assert code == 0
    assert said.startswith("B is not distinguishable from A at mrr: ")
    code, _, _ = ltr("monitor", m, "--log", now, "--baseline", out)
    assert code == 0


# ---- where it is told -------------------------------------------------------------------------------------


def worse_log(arms: tuple[str, str] = ("A", "B")) -> pd.DataFrame:
    """In the control the first of two is clicked in two of three queries, in the other arm in one of three."""
    first = np.tile([[1, 0], [1, 0], [0, 1]], (100, 1))
    return rows([arms[0]] * 300 + [arms[1]] * 300, np.concatenate([first, 1 - first]).reshape(-1))


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_a_worse_arm_is_an_alert_and_exit_4(ltr: Cli, tmp_path: Path) -> None:
    worse_log().to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(LOG))
    code, out, _ = ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.csv", "-o", tmp_path / "out")
    assert code == 4
    alert, *_, verdict = out.splitlines()
    assert alert.startswith("ALERT arm mrr -0.1667 [")
    assert alert.endswith("p<0.0001 B against A")
    assert verdict.startswith("B is worse than A at mrr: -0.1667 [")
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "**1 alert.** B is worse than A at mrr: -0.1667." in report
    difference = verdict.partition(" [")[0]
    for page, text in (
        ("report.html", difference.replace("-", "−")),  # pages have the minus signs of their tables
        ("report.md", difference),
        ("report.json", difference),
    ):
        assert text in (tmp_path / "out" / page).read_text(encoding="utf-8")


def test_small_losses_and_kinds_that_are_off_are_notices() -> None:
    quiet = monitor({**LOG, "alerts": {"on": ["change"]}}, log=worse_log())
    assert quiet.healthy
    assert any("B against A" in caution.text for caution in quiet.cautions)
    small = monitor({**LOG, "compare": {"min_drop": 0.3}}, log=worse_log())
    assert small.healthy
    assert any(caution.text.endswith("less than min_drop") for caution in small.cautions)


@pytest.mark.usefixtures("empty_pictures")
def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    config = {**LOG, "arms": {"column": "variant", "control": name}}
    found = monitor(config, log=worse_log((name, 'B"&\x1b[2J')))
    write_monitor_report(found, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert name not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page + (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_order_of_rows_shows_nowhere() -> None:
    log = worse_log()
    shuffled = log.sample(frac=1, random_state=1)
    assert monitor(LOG, log=log).document == monitor(LOG, log=shuffled).document


@pytest.mark.long
def test_a_log_read_in_batches_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    log = worse_log().sort_values("query_id", kind="stable")
    whole = monitor(LOG, log=log)
    monkeypatch.setattr("ltr_harness.data.logs.log.IN_MEMORY_ROWS", 500)
    monkeypatch.setattr("ltr_harness.data.logs.log.BATCH_ROWS", 500)
    assert monitor(LOG, log=log).document == whole.document


# ---- production against its baseline ------------------------------------------------------------------------


def test_online_measures_are_tested_against_the_baseline(query_table: Table, analyse: Analyse) -> None:
    random = np.random.default_rng(11)
    ours, theirs = random.random(300) + 0.1, random.random(250)
    now = query_table(random.random(300)).assign(**{"online:dwell": ours, "online:same": 1.0})
    before = query_table(random.random(250), prefix="b").assign(
        **{"online:dwell": theirs, "online:same": 1.0}
    )
    dwell, same = analyse(now, before, columns={"online": ["dwell", "same"]}).online
    oracle = ttest_ind(ours, theirs, equal_var=False)
    assert dwell.difference is not None
    assert dwell.difference.p == pytest.approx(oracle.pvalue)
    assert (dwell.difference.low, dwell.difference.high) == pytest.approx(oracle.confidence_interval(0.95))
    assert dwell.p_corrected == pytest.approx(2 * oracle.pvalue)
    assert same.difference is not None
    assert (same.difference.value, same.p_corrected) == (0.0, 1.0)


def test_a_baseline_without_the_column_has_no_difference(query_table: Table, analyse: Analyse) -> None:
    values = np.random.default_rng(12).random(300)
    now = query_table(values).assign(**{"online:dwell": values})
    (dwell,) = analyse(now, query_table(values, prefix="b"), columns={"online": ["dwell"]}).online
    assert dwell.difference is None
    assert np.isnan(dwell.before)
