"""`agreement`: does offline predict online? Worlds whose truth is known, refusals, the command and its page."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness import agreement, compare, run_experiment
from ltr_harness.errors import DataError, UsageError
from ltr_harness.experiments.compare import online_agreement
from ltr_harness.experiments.compare.errors_in_variables import TrueEffects, correlation_differences
from ltr_harness.experiments.compare.online_agreement import OnlineAgreement
from ltr_harness.report.online_agreement import agreement_page

pytestmark = pytest.mark.long


def world(n: int = 40, seed: int = 3) -> pd.DataFrame:
    """Purchases follow wants; clicks follow something else as well."""
    rng = np.random.default_rng(seed)
    want, click = rng.normal(0.1, 1, n), rng.normal(0.2, 1, n)
    columns = {
        "online": (0.01 * want, 0.004),
        "ndcg@10": (0.006 * (0.3 * want + 0.95 * click), 0.0015),
        "mrr@3": (0.009 * (0.95 * want + 0.3 * click), 0.003),
    }
    table: dict[str, object] = {"experiment": [f"e{number}" for number in range(n)]}
    for name, (effect, error) in columns.items():
        table[name] = effect + error * rng.normal(size=n)
        table[f"{name}_se"] = error
    return pd.DataFrame(table)


@pytest.fixture(scope="module")
def world_agreement() -> OnlineAgreement:
    """Agreement in the world of forty experiments; to be read."""
    return agreement(world())


def test_the_metric_that_predicts_is_named_and_the_other_is_not(world_agreement: OnlineAgreement) -> None:
    found = world_agreement
    best, other = found.metrics
    assert (best.metric, other.metric) == ("mrr@3", "ndcg@10")
    assert best.correlation is not None
    assert best.correlation.low <= 0.95 <= best.correlation.high
    assert best.naive < best.correlation.value  # errors pull it towards 0
    assert best.needed is not None
    assert best.needed.low < best.needed.value < best.needed.high
    assert found.pairs[0].difference.low > 0
    assert found.verdict.endswith("mrr@3 predicts it better than ndcg@10.")
    assert "ndcg@10 (" not in found.verdict  # its interval holds 0


def test_a_scale_changes_the_slope_and_nothing_else(world_agreement: OnlineAgreement) -> None:
    past = world()
    scaled = past.assign(**{"mrr@3": 1000 * past["mrr@3"], "mrr@3_se": 1000 * past["mrr@3_se"]})
    one, other = world_agreement.metrics[0], agreement(scaled, metrics=["mrr@3"]).metrics[0]
    assert one.correlation is not None
    assert other.correlation is not None
    assert one.slope is not None
    assert other.slope is not None
    assert other.correlation.value == pytest.approx(one.correlation.value)
    assert 1000 * other.slope.value == pytest.approx(one.slope.value)


def test_few_noisy_experiments_leave_it_open() -> None:
    past = world(9)
    noise, other = np.random.default_rng(2).normal(size=(2, 9))
    past = past.assign(online=past.online + 0.05 * noise, online_se=0.05)
    past = past.assign(**{"mrr@3": past["mrr@3"] + 0.05 * other, "mrr@3_se": 0.05})
    found = agreement(past, metrics=["mrr@3"])
    (only,) = found.metrics
    assert (only.correlation, only.slope, only.same_signs, only.needed) == (None, None, None, None)
    assert found.verdict == "No metric is shown to predict the online difference."
    assert "leave the correlation of true effects open" in str(found.cautions[0])


def idle(rng: np.random.Generator, n: int, rho: float, error: float) -> pd.DataFrame:
    """Three in four experiments do nothing; the others' effects have the correlation, and errors like `error`."""
    a, b = rng.normal(size=(2, n)) * 2 * (rng.random(n) >= 0.75)
    s, t = error * np.array([[0.5], [0.7]]) * np.exp(0.6 * rng.normal(size=(2, n)))
    e, f = rng.normal(size=(2, n))
    x, y = a + s * e, rho * a + (1 - rho**2) ** 0.5 * b + t * f
    return pd.DataFrame({"experiment": np.arange(n), "online": y, "online_se": t, "m": x, "m_se": s})


def test_experiments_that_mostly_do_nothing(world_agreement: OnlineAgreement) -> None:
    found = agreement(idle(np.random.default_rng(1), 80, 0.8, 0.5))
    (only,) = found.metrics
    assert only.correlation is not None
    assert only.correlation.low <= 0.8 <= only.correlation.high
    assert only.slope is not None
    assert (only.same_signs, only.positive, only.needed, only.curve) == (None, None, None, ())
    (caution,) = (one for one in found.cautions if one.kind == "mostly-nothing")
    assert caution.text.startswith("as if about 7")
    assert "mostly-nothing" not in {one.kind for one in world_agreement.cautions}


def test_a_single_experiment_that_does_something_has_no_interval() -> None:
    noise = {
        "online": [-0.2, 0.4, 0.2, -0.4, -0.2, 0.4, 0.2, -0.4],
        "m": [0.3, -0.3, 0.5, -0.5, 0.1, 0.3, -0.3, 0.5],
    }
    past = pd.DataFrame({"experiment": list("abcdefgh"), **noise, "online_se": 1.0, "m_se": 1.0})
    past.loc[0, ["m", "online"]] = 30.0
    with pytest.raises(
        DataError, match="m: differs from 0 in so few experiments that no interval can be computed"
    ):
        agreement(past)


def same_users(rng: np.random.Generator, n: int, rho: float) -> pd.DataFrame:
    """Both sides measure the same users: their errors correlate by .5."""
    a, b, e, f = rng.normal(size=(4, n))
    s, t = np.array([[0.5], [0.7]]) * np.exp(0.6 * rng.normal(size=(2, n)))
    x, y = a + s * e, rho * a + (1 - rho**2) ** 0.5 * b + t * (0.5 * e + 0.75**0.5 * f)
    return pd.DataFrame({"experiment": np.arange(n), "online": y, "online_se": t, "m": x, "m_se": s})


def warns_of_correlated_errors(found: Any) -> bool:
    """Return whether a caution says that errors that correlate would undo the result."""
    return "warning" in {one.severity for one in found.cautions if one.kind == "independent-errors"}


def test_errors_that_correlate_are_said(world_agreement: OnlineAgreement) -> None:
    (caution,) = (
        one for one in world_agreement.cautions if (one.kind, one.place) == ("independent-errors", "mrr@3")
    )
    assert (caution.severity, caution.cure) == ("note", "")
    assert (
        "If they correlated by 0.5, as those of the same users may, the correlation of true" in caution.text
    )
    past = pd.DataFrame(
        {"experiment": list("abcdefgh"), "online": [1, 2, 3, 4, 5, 6, 7, 8.0], "online_se": 1.6}
    )
    weak = agreement(past.assign(m=[2, 1, 3.0, 5, 4, 6, 8, 5], m_se=1.6))
    assert weak.leader is not None
    assert warns_of_correlated_errors(weak)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rho"), [(20, 0.0), (60, 0.8)])
def test_effects_that_are_mostly_nothing_are_covered(n: int, rho: float) -> None:
    """Errors small beside effects: heavy tails counted less, and 85 % covered."""
    rng, held = np.random.default_rng(4), []
    for _ in range(100):
        (only,) = agreement(idle(rng, n, rho, 0.3)).metrics
        if only.correlation is not None:
            held.append(only.correlation.low <= rho <= only.correlation.high)
    assert len(held) > 80
    assert np.mean(held) >= 0.9


@pytest.mark.slow
def test_what_errors_of_the_same_users_show_is_said() -> None:
    """No effect follows another; in one sample of nine an interval lies above 0, and mostly a caution beside it."""
    rng, shown = np.random.default_rng(5), []
    for _ in range(100):
        found = agreement(same_users(rng, 60, 0.0))
        if found.leader is not None:
            shown.append(warns_of_correlated_errors(found))
    assert len(shown) > 4
    assert len(shown) - sum(shown) <= 4  # of 100


@pytest.mark.parametrize("rho", [0.0, 0.8, 1.0])
def test_without_errors_the_correlation_is_that_of_the_measured(rho: float) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 60))
    x, y, small = a, rho * a + (1 - rho**2) ** 0.5 * b + 0.1 * rng.normal(size=60), np.full(60, 0.1)
    effects = TrueEffects.of(x, small, y, small)
    found = effects.interval(effects.correlation)
    assert found.value == pytest.approx(np.corrcoef(x, y)[0, 1], abs=0.05)
    signs = effects.same_signs()
    assert signs.low <= 1 - np.arccos(rho) / np.pi <= signs.high  # of means that are 0


def test_pairs_of_one_metric_do_not_differ() -> None:
    past = world()
    columns = [past[name].to_numpy() for name in ("mrr@3", "mrr@3_se", "online", "online_se")]
    effects = TrueEffects.of(*columns)
    assert correlation_differences([effects, effects])[0].high == pytest.approx(0, abs=0.1)


@pytest.mark.usefixtures("few_points")
def test_winners_alone_are_said_and_corrected() -> None:
    past = world(70)
    winners = past[past["mrr@3"] > 0.006]
    plain = agreement(winners, metrics=["mrr@3"])
    assert "--tested-if 'mrr@3 > 0'" in str(plain.cautions[0])
    corrected = agreement(winners, metrics=["mrr@3"], tested_if="mrr@3 > 0.006")
    assert corrected.metrics[0].corrected
    only = plain.metrics[0]
    assert only.correlation is not None  # of winners; what else there is of them has no interval that holds
    assert (only.slope, only.same_signs, only.positive, only.needed, only.curve) == (
        None,
        None,
        None,
        None,
        (),
    )
    after = corrected.metrics[0].same_signs
    assert after is not None
    assert after.low < 0.9 < 1 - np.mean(winners["online"] < 0)  # losers, too, are ideas
    names = [{chart.name for chart in agreement_page(found).charts} for found in (plain, corrected)]
    assert names == [{"offline_online"}, {"offline_online", "offline_online_chance"}]
    with pytest.raises(DataError, match=r"--tested-if 'mrr@3 > 0': 19 experiments; expected at least 20"):
        agreement(winners.head(19), tested_if="mrr@3 > 0")
    with pytest.raises(DataError, match="would not have been tested"):
        agreement(past, tested_if="mrr@3 > 0.006")
    with pytest.raises(UsageError, match=r"expected such as 'ndcg@10 > 0.002'"):
        agreement(past, tested_if="mrr@3 above 0")
    with pytest.raises(UsageError, match=r"--tested-if 'mr@3 > 0': no metric 'mr@3'; did you mean 'mrr@3'"):
        agreement(past, tested_if="mr@3 > 0")
    with pytest.raises(
        UsageError, match=r"confidence 95; expected a number from 0.5 to below 1, such as 0.95"
    ):
        agreement(past, confidence=95)


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda past: past.head(7), "has 7 experiments; expected at least 8; with 20,"),
        (lambda past: past.assign(online_se=0.0), "experiment e0, online_se: 0; expected a standard error above 0"),
        (lambda past: past.assign(online=np.nan), "experiment e0, online: no value; expected a number"),
        (lambda past: past.assign(experiment="a"), "has a twice; expected one row for each experiment"),
        (lambda past: past.assign(online=0.5), "all differences are 0.5; expected differences that vary"),
        (lambda past: past.assign(online="much"), "column 'online': holds text; expected numbers alone"),
        (lambda past: past.drop(columns="online"), "has no column 'online'"),
        (lambda past: past.rename(columns={"mrr@3_se": "mrr@5_se"}), "has no column 'mrr@5'; did you mean 'mrr@3'?"),
        (lambda past: past[["experiment", "online", "online_se"]], "has no metric; expected two columns for each"),
        (lambda past: past.assign(online_se=9.0), "online: its differences vary less than online_se allows"),
        (lambda past: past.assign(online=past["mrr@3"], online_se=1e-5, **{"mrr@3_se": 1e-5}), "close to one line"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(change, message: str) -> None:
    with pytest.raises(DataError) as caught:
        agreement(change(world(20)))
    assert message in str(caught.value)


@pytest.mark.usefixtures("empty_pictures")
def test_the_command_prints_writes_and_gives_json(
    ltr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world_agreement: OnlineAgreement
) -> None:
    file = tmp_path / "experiments.csv"
    world().to_csv(file, index=False)
    out = ltr("agreement", file, "-o", tmp_path / "page")[1]
    assert "mrr@3 predicts the online difference better than ndcg@10." in out
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "Does offline predict online?" in page
    monkeypatch.setattr(online_agreement, "judge_by_experiments", lambda *_, **__: world_agreement)
    found = json.loads(ltr("agreement", file, "--json")[1])
    assert found["metrics"][0]["correlation"]["low"] > 0.5
    assert found["metrics"][1]["needed"]["high"] is None  # no number bounds it
    assert json.loads((tmp_path / "page" / "report.json").read_text(encoding="utf-8")) == found


@pytest.mark.usefixtures("without_report", "few_points")
def test_numbers_of_runs_are_those_of_compare(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "name": "tiny",
        "data": {
            "reader": "synthetic",
            "n_queries": {"train": 30, "valid": 20, "test": 20},
            "n_features": 12,
        },
        "metrics": {"cutoffs": [5], "report": ["ndcg", "kendall_tau_distance"], "primary": "ndcg@5"},
        "models": {"best": {"ranker": "feature", "feature": "copy_1"}, "random": {"ranker": "random"}},
        "report": {"formats": ["json"]},
    }
    run_experiment(config, runs=tmp_path, workers=1)
    (old,) = tmp_path.glob("tiny/random*")
    (new,) = tmp_path.glob("tiny/best*")
    # differences have to vary: every second experiment is the other way round
    online = 0.02 * np.random.default_rng(4).normal(size=9)
    past = pd.DataFrame({"experiment": [f"e{at}" for at in range(9)], "online": online, "online_se": 0.005})
    pairs = [(old, new) if at % 2 else (new, old) for at in range(9)]
    past[["baseline", "candidate"]] = [[str(run.relative_to(tmp_path)) for run in pair] for pair in pairs]
    past.to_csv(tmp_path / "past.csv", index=False)
    found = {one.metric: one for one in agreement(tmp_path / "past.csv").metrics}
    compared = compare(old, new, ledger=False)
    assert set(found) == set(compared.metrics)
    for metric, sign in (("ndcg@5", 1), ("kendall_tau_distance", -1)):
        values = compared.query_differences("best", metric)
        values = values[~np.isnan(values)]
        assert found[metric].offline[1] == pytest.approx(sign * compared.paired("best", metric).difference)
        assert found[metric].offline[0] == pytest.approx(-found[metric].offline[1])
        assert found[metric].offline_se[1] == pytest.approx(values.std(ddof=1) / len(values) ** 0.5)
    assert all(one.offline[1] > 0 for one in found.values())  # a good feature against random: better by both
    run_experiment(
        {**config, "name": "other", "metrics": {"cutoffs": [3], "report": ["mrr"]}}
        | {"models": {"a": {"ranker": "random"}, "b": {"ranker": "feature", "feature": "copy_1"}}},
        runs=tmp_path,
        workers=1,
    )
    others = [str(next(tmp_path.glob(f"other/{name}--*")).relative_to(tmp_path)) for name in "ab"]
    apart = past.copy()
    apart.loc[8, ["baseline", "candidate"]] = others
    apart.to_csv(tmp_path / "past.csv", index=False)
    with pytest.raises(DataError, match="experiments e0 and e8: have no metric at one K in common"):
        agreement(tmp_path / "past.csv")
    past.assign(baseline="tiny").to_csv(tmp_path / "past.csv", index=False)
    with pytest.raises(UsageError, match="tiny: holds 2 models; expected one"):
        agreement(tmp_path / "past.csv")


@pytest.mark.usefixtures("few_points")
def test_online_numbers_are_those_of_monitor(ltr, tmp_path: Path) -> None:
    config = {
        "columns": {"rank": "rank"},
        "metrics": ["mrr"],
        "relevance": {"events": {"click": 1}, "negative": ["bounce"]},
        "arms": {"column": "variant", "control": "A"},
    }
    (tmp_path / "m.yaml").write_text(json.dumps(config))
    rng = np.random.default_rng(6)
    past = world(9).drop(columns=["online", "online_se"])[["experiment", "mrr@3", "mrr@3_se"]]
    clicks = {}
    for at, gain in enumerate(30 * past["mrr@3"].head(4)):  # of four logs, in turn
        first = rng.random((2, 200)) < np.array(
            [[0.4], [np.clip(0.4 + gain, 0, 1)]]
        )  # clicked, else the second is
        clicks[at] = first
        table = {"query_id": np.repeat(np.arange(400), 2).astype(str), "rank": [1, 2] * 400}
        table |= {
            "variant": np.repeat(["A", "B"], 400),
            "click": np.stack((first, ~first), -1).reshape(-1).astype(int),
            "bounce": np.stack((~first, np.zeros_like(first)), -1).reshape(-1).astype(int),
        }
        pd.DataFrame(table).to_csv(tmp_path / "log.csv", index=False)
        code, _, said = ltr(
            "monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.csv", "-o", tmp_path / f"m{at}"
        )
        assert code in (0, 4), said
    past.assign(monitor=[f"m{at % 4}" for at in range(9)], arm="B").to_csv(tmp_path / "past.csv", index=False)
    found = agreement(tmp_path / "past.csv")
    reciprocal_ranks = [0.5 + clicks[at % 4] / 2 for at in range(9)]
    for at, (a, b) in enumerate(reciprocal_ranks):
        assert found.online[at] == pytest.approx(b.mean() - a.mean())
        welch = (a.var(ddof=1) / 200 + b.var(ddof=1) / 200) ** 0.5
        assert found.online_se[at] == pytest.approx(welch, rel=0.02)
    fewer_bounces = agreement(tmp_path / "past.csv", measure="queries with bounce").online
    assert fewer_bounces == pytest.approx(
        [2 * (b.mean() - a.mean()) for a, b in reciprocal_ranks]
    )  # are better
    with pytest.raises(DataError, match=r"has 0 differences of 'clicks'.*its measures are mrr"):
        agreement(tmp_path / "past.csv", measure="clicks")
    for stored, message in (
        ("[]", "is not a stored result of monitor"),
        ("{}", "has no arms; expected a result of"),
    ):
        (tmp_path / "m0" / "report.json").write_text(stored)
        with pytest.raises(DataError, match=rf"experiment e0: \S+m0: {message}"):
            agreement(tmp_path / "past.csv")


@pytest.mark.usefixtures("few_points")
def test_an_open_metric_above_does_not_hide_one_that_predicts() -> None:
    past = world()
    few = past["mrr@3"] + 0.03 * np.random.default_rng(8).normal(size=len(past))
    found = agreement(past.assign(map=few, map_se=0.03))
    assert found.leader is not None
    assert found.leader.metric == "mrr@3"
    assert found.verdict.startswith("mrr@3 (")
    assert "mrr@3 predicts it better than ndcg@10" in found.verdict


def test_a_needed_difference_beyond_the_measured_ones_is_not_given(world_agreement: OnlineAgreement) -> None:
    past = world()
    strong, weak = world_agreement.metrics
    assert weak.needed is not None
    assert strong.needed is not None
    reach = np.quantile(np.abs(past["ndcg@10"]), 0.95)
    assert (weak.needed.value, weak.needed.low, weak.needed.high) == (np.inf, reach, np.inf)
    assert 0 < strong.needed.low < strong.needed.high < np.quantile(np.abs(past["mrr@3"]), 0.95)
    all_win = past.assign(online=0.05 + 0.1 * past["online"], online_se=0.0004)
    needed = agreement(all_win, metrics=["mrr@3"]).metrics[0].needed
    assert needed is not None
    assert needed.low == needed.value == -np.inf  # no measured loss is large enough


def test_the_needed_difference_has_the_probability() -> None:
    past = world()
    effects = TrueEffects.of(
        *(past[name].to_numpy() for name in ("mrr@3", "mrr@3_se", "online", "online_se"))
    )
    needed = effects.needed(0.9, 0.003)
    for at in np.flatnonzero(np.isfinite(needed))[::400]:
        assert effects.positive(float(needed[at]), 0.003)[at] == pytest.approx(0.9)
