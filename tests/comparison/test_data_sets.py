"""The same models on several data sets: `across_data_sets` and `compare-sets`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click import NoSuchOption

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.data_sets import across_data_sets
from ltr_harness.comparison.stats.cluster_sums import ClusterSums, LinearCombination
from ltr_harness.comparison.stats.families import outcomes
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import NotComparableError, UsageError
from ltr_harness.experiments.compare.saved import FILE, to_parquet
from ltr_harness.report import write_report
from ltr_harness.report.data import ReportData

Cli = Callable[..., tuple[int, str, str]]

SIZES = {"small": 80, "web": 400}
GAINS = {"old": (0.0, 0.0), "new": (0.03, 0.02), "mixed": (0.05, -0.05), "bad": (-0.04, -0.03)}


def comparison_on(
    name: str, models: tuple[str, ...] = tuple(GAINS), metric: str = "mrr", **options: object
) -> Comparison:
    """The gains of each model on a data set, over queries of their own."""
    n, at = SIZES[name], list(SIZES).index(name)
    rng = np.random.default_rng(at)
    hard = rng.normal(0.5, 0.1, n)
    tables = {}
    for model, gains in GAINS.items():
        values = hard + gains[at] + rng.normal(0, 0.04, n)
        columns = {"query_id": [f"{name}{q}" for q in range(n)], metric: values, "user_id": np.arange(n) // 4}
        tables[model] = pd.DataFrame(columns)
    return compare({model: tables[model] for model in models}, draws=500, **options)


@pytest.fixture(scope="module")
def by_data_set() -> dict[str, Comparison]:
    return {name: comparison_on(name) for name in SIZES}


@pytest.mark.long
def test_the_average_is_of_the_data_sets_and_not_of_their_queries(by_data_set: dict[str, Comparison]) -> None:
    found = across_data_sets(by_data_set)
    models = {one.model: one for one in found.models}
    each = {model: [one.summary(model).mean for one in by_data_set.values()] for model in GAINS}
    for model, own in models.items():
        assert own.means == tuple(each[model])
        assert own.mean == pytest.approx(np.mean(each[model]))
    new, mixed = models["new"].average, models["mixed"].average
    assert new is not None
    assert mixed is not None
    assert new.difference == pytest.approx(
        np.mean([one.paired("new").difference for one in by_data_set.values()])
    )
    assert (new.verdict, mixed.verdict) == ("better", "not distinguishable")
    assert [part.verdict for part in models["mixed"].by_data_set] == ["better", "worse"]
    assert (models["new"].same_sign, models["mixed"].same_sign) == (2, 1)
    assert models["old"].average is None
    assert (models["new"].first_rank, models["new"].last_rank) == (1, 1)
    assert (models["bad"].first_rank, models["bad"].last_rank) == (4, 4)
    assert {(models[name].first_rank, models[name].last_rank) for name in ("old", "mixed")} == {(2, 3)}
    assert found.lines()[-1] == "Possibly best on average: new."
    assert found.models[0].model == "new"


def sparse(name: str, d: np.ndarray) -> Comparison:
    """Differences to a baseline that is always .5."""
    base = pd.DataFrame({"query_id": [f"{name}{at}" for at in range(d.size)], "mrr": 0.5})
    return compare({"old": base, "new": base.assign(mrr=0.5 + d)}, draws=500)


def test_a_data_set_on_which_hardly_a_query_differs() -> None:
    """Two of 30 queries differ: half of what one in 10.5, 1 - .05^(1/30), may lose or gain there counts as well."""
    few, many = np.zeros(30), np.where(np.arange(100) % 2, 0.04, 0.03)
    few[:2] = 0.02, 0.03
    found = across_data_sets({"small": sparse("s", few), "large": sparse("l", many)})
    new = found.models[0].average
    assert new is not None
    share = 1 - 0.05 ** (1 / 30)
    assert new.difference == pytest.approx((0.05 / 30 + 0.035) / 2)
    assert new.ci_high - new.ci_low == pytest.approx(share, abs=0.007)  # half of it on each side
    assert (new.verdict, new.p_corrected) == ("not distinguishable", 0.05)
    (caution,) = (one for one in found.cautions if one.kind == "few-queries")
    assert str(caution).startswith(
        "small: new: only 2 of 30 queries differ, so the average's interval allows for"
    )
    few[2] = 0.02
    enough = across_data_sets({"small": sparse("s", few), "large": sparse("l", many)})
    assert enough.models[0].average is not None
    assert enough.models[0].average.verdict == "better"
    assert "few-queries" not in {one.kind for one in enough.cautions}


def test_data_sets_on_which_no_query_differs_take_the_rule_of_three_once() -> None:
    """Absent queries were counted for each set and for both together: 1.5 times the share of the smaller one."""
    found = across_data_sets({"small": sparse("s", np.zeros(30)), "large": sparse("l", np.zeros(100))})
    (new,) = (one.average for one in found.models if one.average is not None)
    share = 1 - 0.05 ** (1 / 30)
    assert (new.ci_low, new.ci_high) == pytest.approx((-share, share))


def test_one_query_that_differs_counts_in_the_rule_of_three() -> None:
    """An absent kind of query takes its share of the small set's mean, .5 / 30, and may add what is left up to 1."""
    few, many = np.zeros(30), np.tile([0.03, 0.031], 50)
    few[0] = 0.5
    found = across_data_sets({"small": sparse("s", few), "large": sparse("l", many)})
    plain = outcomes(
        LinearCombination(tuple(ClusterSums.of(d[:, None]) for d in (few, many)), (0.5, 0.5)),
        Method(draws=500),
        seeds=(),
        widths=1.0,
    )
    new, share, mean = found.models[0].average, 1 - 0.05 ** (1 / 30), 0.5 / 30
    assert new is not None
    assert plain.low[0] - new.ci_low == pytest.approx(0.5 * share * (1 + mean))
    assert new.ci_high - plain.high[0] == pytest.approx(0.5 * share * (1 - mean))


def test_a_large_data_set_without_a_difference_takes_little() -> None:
    many = np.where(np.arange(100) % 2, 0.04, 0.03)
    found = across_data_sets({"none": sparse("s", np.zeros(5000)), "some": sparse("l", many)})
    assert found.models[0].average is not None
    assert found.models[0].average.verdict == "better"


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.2, 0.3])
def test_the_average_of_sparse_sets_that_cancel(gain: float) -> None:
    """Nine of ten queries tie: of 30 none or two differ in four samples of ten, and look as if nothing could."""
    rng, false = np.random.default_rng(3), 0

    def draw_comparison(name: str, n: int, mean: float) -> Comparison:
        return sparse(name, np.clip((rng.random(n) < 0.1) * rng.normal(mean, 0.2, n), -0.5, 0.5))

    for _ in range(300):
        found = across_data_sets({"a": draw_comparison("a", 30, gain), "b": draw_comparison("b", 100, -gain)})
        false += any(one.average and one.average.verdict in ("better", "worse") for one in found.models)
    assert false / 300 <= 0.07


@pytest.mark.long
def test_each_data_set_is_corrected_among_all(by_data_set: dict[str, Comparison]) -> None:
    """Three models on two data sets are six comparisons."""
    for one in across_data_sets(by_data_set).models:
        if one.average is None:
            continue
        for part, comparison in zip(one.by_data_set, by_data_set.values(), strict=True):
            alone = comparison.paired(one.model)
            assert part.p == pytest.approx(alone.p, abs=0.06)  # other draws
            assert part.p_corrected >= part.p
            assert part.difference == pytest.approx(alone.difference)
            assert part.ci_high - part.ci_low > alone.ci_high - alone.ci_low
            outside = part.ci_low > 0 or part.ci_high < 0
            assert outside == (part.p_corrected < 0.05) == (part.verdict in ("better", "worse"))


def test_weights(by_data_set: dict[str, Comparison]) -> None:
    small, web = (one.paired("mixed").difference for one in by_data_set.values())
    found = across_data_sets(by_data_set, {"web": 3.0, "small": 1.0})
    assert found.weights == (0.25, 0.75)
    (mixed,) = (one.average for one in found.models if one.model == "mixed")
    assert mixed is not None
    assert mixed.difference == pytest.approx(0.25 * small + 0.75 * web)
    assert mixed.verdict == "worse"
    for wrong in ({"web": 1.0}, {"web": 1.0, "small": 0.0}, {"web": 1.0, "small": 1.0, "more": 1.0}):
        with pytest.raises(UsageError, match="weights: none above 0 for "):
            across_data_sets(by_data_set, wrong)


@pytest.mark.long
def test_lower_may_be_better() -> None:
    def negated(one: Comparison) -> Comparison:
        return compare(*(SystemResult(e.name, e.query_ids, {"cost": -e.values["mrr"]}, ("1",), {"cost": False})
                         for e in one.systems), draws=500)  # fmt: skip

    plain = across_data_sets({name: comparison_on(name) for name in SIZES})
    other = across_data_sets({name: negated(comparison_on(name)) for name in SIZES})
    assert [one.model for one in other.models] == [one.model for one in plain.models]
    for one, own in zip(plain.models, other.models, strict=True):
        assert (one.first_rank, one.last_rank) == (own.first_rank, own.last_rank)
        assert (one.average and one.average.verdict) == (own.average and own.average.verdict)


@pytest.mark.long
def test_users_and_seeds_count_within_each_data_set(by_data_set: dict[str, Comparison]) -> None:
    by_user = across_data_sets({name: comparison_on(name, unit="user_id") for name in SIZES})
    assert by_user.method.startswith("sign-flip test by user_id within data sets")
    assert by_user.models[0].average is not None
    rng = np.random.default_rng(9)

    def seeded_comparison(n: int, sd: float) -> Comparison:
        hard, noise = rng.normal(0.5, 0.1, n), rng.normal(0, 0.02, n)
        return compare(*(
            SystemResult(name, np.array([f"{n}-{q}" for q in range(n)]),
                    {"mrr": hard + gain + noise * (gain > 0) + rng.normal(0, sd, (3, 1)) + rng.normal(0, 1e-3, (3, n))},
                    ("1", "2", "3"), {"mrr": True}, seeded=True)
            for name, gain in (("old", 0.0), ("new", 0.01))), draws=500)  # fmt: skip

    still, moody = ({"a": seeded_comparison(100, sd), "b": seeded_comparison(200, sd)} for sd in (1e-4, 0.03))
    (calm,) = (one.average for one in across_data_sets(still).models if one.average)
    (loud,) = (one.average for one in across_data_sets(moody).models if one.average)
    assert calm.verdict == "better"
    assert loud.ci_high - loud.ci_low > 5 * (calm.ci_high - calm.ci_low)


@pytest.mark.long
def test_what_is_not_complete_is_refused(by_data_set: dict[str, Comparison]) -> None:
    with pytest.raises(
        NotComparableError, match="web: has no mixed, bad; expected every model on every data set"
    ):
        across_data_sets({"small": by_data_set["small"], "web": comparison_on("web", ("old", "new"))})
    with pytest.raises(
        NotComparableError, match="web: the baseline is new, old on small; expected one baseline"
    ):
        across_data_sets({"small": by_data_set["small"], "web": comparison_on("web", baseline="new")})
    with pytest.raises(NotComparableError, match="web: err decides, mrr on small; expected one metric"):
        across_data_sets({"small": by_data_set["small"], "web": comparison_on("web", metric="err")})
    with pytest.raises(NotComparableError, match="again: is small again: the same queries and values"):
        across_data_sets({"small": by_data_set["small"], "again": by_data_set["small"]})
    with pytest.raises(UsageError, match="1 data set; several are compared"):
        across_data_sets({"small": by_data_set["small"]})
    for options in ({"test": "bootstrap"}, {"test": "bounded"}, {"margin": 0.1}):
        with pytest.raises(UsageError, match="over several data sets"):
            across_data_sets({name: comparison_on(name, **options) for name in SIZES})


@pytest.fixture(scope="module")
def reports(by_data_set: dict[str, Comparison], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report of each data set, to be copied."""
    folder = tmp_path_factory.mktemp("reports")
    for name, one in by_data_set.items():
        write_report(ReportData(one, [], [], None, name), folder / name / "report", ("json",))
        assert (folder / name / "report" / FILE).read_bytes() == to_parquet(one)
    return folder


@pytest.fixture
def ltr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reports: Path
) -> Cli:
    shutil.copytree(reports, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.mark.long
def test_the_command(ltr: Cli) -> None:
    inputs = ("compare-sets", "small/report", "web/report/report.json")
    code, out, _ = ltr(*inputs, "-o", "page")
    assert code == 0
    assert out.startswith("new is better than old by 0.0")
    assert "mrr against old: sign-flip test within data sets, 95 % intervals." in out
    head, first = next(
        (line.split(), below.split()[0])
        for line, below in zip(out.splitlines(), out.splitlines()[1:], strict=False)
        if line.startswith("Model ")
    )
    assert head == [
        "Model",
        "Verdict",
        "Average",
        "mrr",
        "Difference",
        "[joint",
        "interval]",
        "joint",
        "p",
        "Rank",
    ]
    assert "small, difference" in out
    assert first == "new"
    assert "new is better than old at mrr on average over 2 data sets: +0.0" in out
    assert "the sign is the same on 1 of 2: small +0.0" in out
    assert "Possibly best on average: new." in out
    assert "on average over 2 data sets" in Path("page/report.html").read_text()
    weighted = json.loads(ltr(*inputs, "--weights", "small=1,web=3", "--json")[1])
    assert weighted["weights"] == [0.25, 0.75]
    assert [one["model"] for one in weighted["models"]] == ["new", "old", "mixed", "bad"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compare", "small/report", "web/report"), "The same models on several data sets: `compare-sets`"),
        (("compare-sets", "small/report"), "1 data set; several are compared"),
        (
            ("compare-sets", "small/report", "web/report", "--weights", "small"),
            "--weights small; expected NAME=NUMBER",
        ),
        (
            ("compare-sets", "small/report", "web/report", "--fail-if", "mrr < baseline"),
            NoSuchOption("--fail-if").format_message(),
        ),
        (
            ("compare-sets", "small/report", "web/report", "--cheap", "x"),
            NoSuchOption("--cheap").format_message(),
        ),
        (("compare-sets", "small/report", "web/report", "--baseline", "nobody"), "no model 'nobody'"),
    ],
)
def test_what_the_command_refuses(ltr: Cli, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = ltr(*arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_the_average_is_tested_as_a_weighted_sum(by_data_set: dict[str, Comparison]) -> None:
    found = across_data_sets(by_data_set, {"web": 3.0, "small": 1.0})
    rivals = ("new", "mixed", "bad")
    parts = tuple(
        ClusterSums.of(np.column_stack([one.query_differences(model) for model in rivals]))
        for one in by_data_set.values()
    )
    expected = outcomes(
        LinearCombination(parts, (0.25, 0.75)), by_data_set["web"].method, seeds=(), widths=np.inf
    )
    averages = {one.model: one.average for one in found.models if one.average is not None}
    for at, model in enumerate(rivals):
        assert averages[model].p_corrected == expected.p_corrected[at]
        assert averages[model].ci_low == expected.low[at]


@pytest.mark.parametrize("gain", [0.0, 0.05, 0.15])
def test_a_verdict_on_the_average_says_what_the_smallest_set_may_lack(gain: float) -> None:
    """A kind of 11 % would have to gain .15 to .18: a query that gains as much is seen on one of the sets, or none."""
    rng = np.random.default_rng(0)
    comparisons = {}
    for name, n in (("a", 25), ("b", 40)):
        base = rng.uniform(0.3, 0.6, n)
        ids = [f"{name}{at}" for at in range(n)]
        tables = {"old": base, "new": base - 0.02 + rng.normal(0, 0.002, n)}
        if name == "b":
            tables["new"][7] += gain
        comparisons[name] = compare(
            {model: pd.DataFrame({"query_id": ids, "mrr": own}) for model, own in tables.items()}, draws=500
        )
    found = across_data_sets(comparisons)
    assert found.models[-1].average is not None
    assert found.models[-1].average.verdict == "worse"
    rare = [str(one) for one in found.cautions if one.kind == "rare-kind" and ":" not in one.place]
    said = "a query type below 11 % of traffic may be missing here"
    starts = [f"new: {said}", f"average ranks: {said}"] if gain == 0.15 else []
    assert [line.partition("; ")[0] for line in rare] == starts


def test_the_best_are_those_that_may_be_first(by_data_set: dict[str, Comparison]) -> None:
    found = across_data_sets(by_data_set)
    assert [one.model for one in found.models if one.first_rank == 1] == ["new"]
    assert found.lines()[-1] == "Possibly best on average: new."
