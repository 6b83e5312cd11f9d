"""`ltr-harness power`: from stored differences, a typed standard deviation, votes or arms to a plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison import compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.power import plan_power
from ltr_harness.errors import Caution

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """In a folder with three tables over the same 400 queries of 40 users."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(40), 10)
    old = rng.uniform(0.3, 0.7, 400)
    change = 0.05 * rng.normal(size=40)[user] + 0.05 * rng.normal(size=400)
    for name, values in (("old", old), ("new", old + change), ("near", old + change / 2)):
        columns = {"query_id": [f"q{at}" for at in range(400)], "user_id": user, "mrr": values}
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = run_command(cli, ["power", *(str(argument) for argument in arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


def test_a_typed_standard_deviation(ltr: Cli) -> None:
    code, out, err = ltr("--sd", "0.1", "--difference", "0.005", "--power", "0.8,0.9")
    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "3,142 queries find a difference of +0.005 with 80% probability.",
        "",
        "sign-flip test, level 5 %: to find a difference of +0.005.",
    ]
    assert "differences: with 80% probability it takes 3,142 queries." in out
    assert "differences: with 90% probability it takes 4,205 queries." in out
    assert len(out.splitlines()) < 15  # the curve is on the page alone
    ltr("--sd", "0.1", "--difference", "0.005", "--power", "0.8,0.9", "-o", "plan", "--format", "md")
    assert re.search(r"3,142 \| +0\.0050 \| +0\.0058", Path("plan/report.md").read_text())
    many = json.loads(ltr("--sd", "0.1", "--difference", "0.005", "--models", "9", "--json")[1])
    assert many["level"] == pytest.approx(0.05 / 9)
    assert many["plans"][0]["needs"][0]["draws"] == 5230  # (2.77 + 0.84)**2 * 400, and a little for t


@pytest.mark.long
def test_the_test_is_that_of_compare(ltr: Cli) -> None:
    given = {name: pd.read_csv(f"{name}.csv", dtype={"query_id": str}) for name in ("old", "new", "near")}
    code, out, _ = ltr("old.csv", "new.csv", "near.csv", "--difference", "0.005", "--json", "--test", "t")  # fmt: skip
    assert code == 0
    found = {plan["model"]: plan for plan in json.loads(out)["plans"]}
    comparison = compare(given, test="t")
    for model in ("new", "near"):
        at_hand = found[model]["needs"][0]["detectable"]
        assert at_hand == pytest.approx(comparison.paired(model).detectable, rel=0.02)  # but for skewness
        assert found[model]["n"] == 400
        assert found[model]["sd"] == pytest.approx(comparison.query_differences(model).std(ddof=1))
    half, whole = (next(plan["needs"][0]["draws"] for plan in found.values() if plan["model"] == name)
                   for name in ("near", "new"))  # fmt: skip
    assert whole / half == pytest.approx(4, rel=0.01)


@pytest.mark.long
def test_users_are_counted_where_they_are_the_unit(ltr: Cli) -> None:
    code, out, err = ltr(
        "old.csv",
        "new.csv",
        "--unit",
        "user_id",
        "--difference",
        "0.01",
        "-o",
        "plan",
        "--format",
        "html,json",
        "--verbose",
    )
    assert code == 0
    assert "mrr against old, sign-flip test by user_id, level 5 %" in out
    need = json.loads(Path("plan/report.json").read_text())["plans"][0]["needs"][0]
    assert need["queries"] == 10 * need["draws"]
    assert (
        f"new: with 80% probability it takes {need['draws']:,} of user_id, some {need['queries']:,} queries."
        in out
    )
    by_query = json.loads(ltr("old.csv", "new.csv", "--difference", "0.01", "--json")[1])
    assert need["queries"] > 3 * by_query["plans"][0]["needs"][0]["queries"]
    assert "design effect" in err
    page = Path("plan/report.html").read_text()
    assert "Detectable difference over user_id" in page
    assert "report: plan/report.html" in out


@pytest.mark.long
def test_a_loss_is_another_question_than_a_gain_where_differences_are_lopsided(ltr: Cli) -> None:
    table = pd.read_csv("old.csv")
    table["mrr"] += np.where(np.arange(400) % 40 == 0, 0.5, -0.0125)
    table.to_csv("rare.csv", index=False)
    needs = {
        sign: json.loads(ltr("old.csv", "rare.csv", "--difference", f"{sign}0.02", "--json")[1])["plans"][0][
            "needs"
        ][0]
        for sign in ("", "-")
    }
    assert needs[""]["draws"] < 0.9 * needs["-"]["draws"]
    assert (
        "rare: 400 of 400 queries differ, so the spread is rough, and 80% may take"
        in ltr("old.csv", "rare.csv", "--difference", "0.02")[1]
    )


def seeded_system(name: str, seeds: int, sd: float) -> SystemResult:
    rng = np.random.default_rng(ord(name))
    hard = np.random.default_rng(0).uniform(0.3, 0.7, 500)
    values = (
        hard + rng.normal(0, 0.07, 500) + rng.normal(0, sd, (seeds, 1)) + rng.normal(0, 0.02, (seeds, 500))
    )
    return SystemResult(
        name,
        np.arange(500).astype(str),
        {"mrr": values},
        tuple(map(str, range(seeds))),
        {"mrr": True},
        seeded=True,
    )


@pytest.mark.long
def test_seeds_do_not_shrink_with_queries() -> None:
    comparison = compare(seeded_system("a", 3, 0.005), seeded_system("b", 5, 0.005))
    for difference in (0.012, 0.005, 0.002):
        found = plan_power(comparison, difference, [0.8])
        (need,) = found.plans[0].needs
        assert need.detectable == pytest.approx(comparison.paired("b").detectable, rel=0.02)
        said = found.said(found.plans[0], need)
        if need.draws is None:
            assert said.startswith(
                "b: with 80% probability it cannot be found with 5 and 3 seeds, at any number of queries: "
            )
            assert f"{need.least_seeds} seeds of each model are needed" in said
            assert (need.least_seeds or 0) > 3
            assert need.both is not None
            assert need.both[0] >= (need.least_seeds or 0)
        else:
            assert said == f"b: with 80% probability it takes {need.draws:,} queries, with 5 and 3 seeds."
    assert need.draws is None


def test_one_seed_is_said() -> None:
    found = plan_power(compare(seeded_system("a", 1, 0.005), seeded_system("b", 1, 0.005)), 0.01, [0.8])
    assert "a" not in [plan.model for plan in found.plans]
    text = "trained with one seed, so the plan is for these trained models and not for their methods"
    assert found.cautions == (
        Caution("one-training", "warning", text, "plan from runs with three seeds", place="b"),
    )


def write_quick(name: str, shift: float, noise: float) -> None:
    """Write a table whose differences from old.csv have this mean and spread."""
    table = pd.read_csv("old.csv")
    table["mrr"] += shift + noise * np.random.default_rng(len(name)).normal(size=len(table))
    table.to_csv(f"{name}.csv", index=False)


def test_models_that_already_differ_are_left_out(ltr: Cli) -> None:
    """The answer is about the contenders, however many queries the worst model would take."""
    for name, shift, noise in (("near", 0.0, 0.05), ("nearer", 0.0, 0.04), ("worst", -0.2, 0.3)):
        write_quick(name, shift, noise)
    tables = [f"{name}.csv" for name in ("old", "near", "nearer", "worst")]
    code, out, _ = ltr(*tables, "--difference", "0.004")
    assert code == 0
    plan = json.loads(ltr(*tables, "--difference", "0.004", "--json")[1])
    assert [one["model"] for one in plan["plans"]] in (["near", "nearer"], ["nearer", "near"])
    assert plan["left_out"] == ["worst"]
    least, most = sorted(one["needs"][0]["draws"] for one in plan["plans"])
    first, *rest = out.splitlines()
    assert first == f"{least:,} to {most:,} queries for the two contenders (you have 400)."
    assert "Left out: worst, which already differs." in rest
    assert "level 5 %, corrected for 3 comparisons" in rest[1]
    assert len(rest) < 20
    assert "`" not in out
    assert not any(line.startswith("worst") for line in rest)


def test_where_all_models_differ_all_are_planned(ltr: Cli) -> None:
    write_quick("worst", -0.2, 0.3)
    code, out, _ = ltr("old.csv", "worst.csv", "--difference", "0.01", "--json")
    assert code == 0
    plan = json.loads(out)
    assert ([one["model"] for one in plan["plans"]], plan["left_out"]) == (["worst"], [])


def test_units_of_an_ab_test(ltr: Cli) -> None:
    """2 * 2.8**2 * .8**2 / .01**2 = 100,466 by the normal distribution."""
    code, out, _ = ltr("--ab-test", "--sd", "0.8", "--difference", "0.01")
    assert code == 0
    assert "measure: with 80% probability it takes 100,468 units in each arm." in out
    assert "difference of two arms, skewness-adjusted sign-flip test, level 5 %" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--difference", "0.1"], "nothing to plan from; expected runs, tables or scores, or --sd"),
        (["--sd", "0.1", "--difference", "0"], "--difference 0; expected a difference that is not 0, such as 0.005"),
        (["--sd", "0.1", "--difference", "nan"], "--difference nan; expected"),
        (["--sd", "-1", "--difference", "0.1"], "--sd: --sd -1; expected a number above 0"),
        (["--sd", "0.1", "--difference", "0.1", "--power", "80"], "--power 80; expected probabilities between 0 and 1"),
        (["--sd", "0.1", "--difference", "0.1", "--power", "x"], "--power x; expected probabilities"),
        (["old.csv", "--sd", "0.1", "--difference", "0.1"], "old.csv with --sd; --sd plans from numbers, without runs"),
        (["--sd", "0.1", "--difference", "0.1", "--unit", "u"], "--unit with --sd"),
        (["--ab-test", "--sd", "1", "--difference", "0.1", "--test", "t"], "--test t with --ab-test; arms are"),
        (["--ab-test", "--difference", "0.1"], "--ab-test: --sd is missing; expected a number above 0"),
        (["old.csv", "--difference", "0.1"], "old: is the only model, and a plan is about differences of two"),
        (["old.csv", "new.csv", "--difference", "0.1", "--test", "sign"], "unknown test 'sign'; known: "),
        (["old.csv", "flat.csv", "--difference", "0.1"], "no model differs from old in mrr by more for one query than"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused(ltr: Cli, arguments: list[str], said: str) -> None:
    pd.read_csv("old.csv").assign(mrr=lambda table: table.mrr).to_csv("flat.csv", index=False)
    code, out, err = ltr(*arguments)
    assert (code, out) == (2, "")
    assert said in err
