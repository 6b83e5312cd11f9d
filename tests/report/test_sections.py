"""The content of each section, checked against numbers that a reader can recompute."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from ltr_harness.comparison import compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import Caution
from ltr_harness.experiments.config.report_parts import SECTIONS
from ltr_harness.report import ReportData, build_report, markdown
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Chart,
    Choice,
    Column,
    Definitions,
    Estimate,
    ModelName,
    Paragraph,
    Report,
    Table,
    plain_text,
    walk,
)
from ltr_harness.report.data import stored_data
from ltr_harness.report.sections.provenance import config_digest
from ltr_harness.report.writing import catalog


def section(data: ReportData, name: str) -> list[Block]:
    return list(walk(tuple(catalog.load(name)(data))))


def table(data: ReportData, section_name: str, name: str) -> Table:
    (found,) = (b for b in section(data, section_name) if isinstance(b, Table) and b.name == name)
    return found


def words(blocks: list[Block]) -> str:
    return " ".join(plain_text(block.text) for block in blocks if isinstance(block, Paragraph))


def small_report(values: dict[str, list[float]], metric: str = "mrr", **options: object) -> ReportData:
    """A report over a handful of queries given by hand."""
    systems = [
        SystemResult(
            name=name,
            query_ids=np.array([str(q) for q in range(len(column))]),
            values={metric: np.array([column])},
            replicates=("1",),
            higher_is_better={metric: metric != "kendall_tau_distance"},
        )
        for name, column in values.items()
    ]
    comparison = compare(*systems, metrics=[metric], **options)  # type: ignore[arg-type]
    return ReportData(comparison, (), (), None, "small")


# ---- verdict --------------------------------------------------------------------------------------------


def test_two_rankers_whose_means_hide_their_spread() -> None:
    data = small_report({"A": [1 / 2, 1 / 3, 1 / 2, 1 / 3], "B": [1, 1 / 10, 1, 1 / 15]})
    assert "not distinguishable from A (n = 4)" in words(section(data, "verdict"))
    best, base = table(data, "verdict", "fixed_k").rows
    assert best[0] == ModelName("B", 1)
    difference = best[3]
    assert isinstance(difference, Estimate)
    assert difference.value == pytest.approx((1 + 1 / 10 + 1 + 1 / 15) / 4 - (1 / 2 + 1 / 3) / 2)
    assert best[4] == 0.75  # 12 of the 16 sign patterns reach the sum
    assert best[1] == Badge("not distinguishable", "neutral")
    assert base[:2] == (ModelName("A", 0), Badge("baseline", "muted"))
    spread = {row[0].name: row[2] for row in table(data, "distribution", "distribution").rows}  # type: ignore[union-attr]
    assert spread["A"] == pytest.approx(0.0962250449)
    assert spread["B"] == pytest.approx(0.5294126725)


def test_counts_travel_with_means(data: ReportData, report: Report) -> None:
    text = words(section(data, "verdict"))
    assert "Queries without relevant documents: 40 of 200." in text
    fixed = table(data, "verdict", "fixed_k")
    assert "160 of 200 queries (40 without relevant documents)" in map(plain_text, report.facts)
    assert "Queries" not in [column.label for column in fixed.columns]


def test_each_model_has_its_own_count_where_they_differ() -> None:
    fixed = table(small_report({"A": [0.5, 0.25, 1.0], "B": [0.5, math.nan, 1.0]}), "verdict", "fixed_k")
    at = [column.label for column in fixed.columns].index("Queries")
    assert {row[0].name: row[at] for row in fixed.rows} == {"A": 3, "B": 2}  # type: ignore[union-attr]


def test_the_best_model_is_first_and_bold_also_where_lower_is_better() -> None:
    values = {"A": [3.0, 5.0, 4.0], "B": [1.0, 2.0, 1.0], "C": [9.0, 9.0, 8.0]}
    fixed = table(small_report(values, "kendall_tau_distance"), "verdict", "fixed_k")
    assert [row[0].name for row in fixed.rows] == ["B", "A", "C"]  # type: ignore[union-attr]
    assert [(row, 2) in fixed.best_cells for row in range(3)] == [True, False, False]


def test_families_are_named(data: ReportData) -> None:
    assert "4 comparisons: 4 models against lgbm-lambdarank at ndcg@10" in words(section(data, "verdict"))
    (note,) = table(data, "metrics", "metrics").footnotes
    assert "60 comparisons: 4 models against lgbm-lambdarank at 15 other metrics" in plain_text(note)


@pytest.mark.long
def test_failures_are_on_the_first_screen(
    make_data: Callable[..., ReportData], make_record: Callable[..., object]
) -> None:
    data = make_data(failures=[make_record("xgb", seed=2, error="label 31 is too large\nline two")])
    assert "1 run failed (xgb); see Failures" in words(section(data, "verdict"))
    assert table(data, "failures", "failures").rows == (("xgb", "all", 2, "label 31 is too large"),)


# ---- the other sections ---------------------------------------------------------------------------------


def test_every_column_of_the_metric_table_has_one_k(data: ReportData) -> None:
    found = table(data, "metrics", "metrics")
    assert found.groups == [("", 1), ("ndcg", 4), ("mrr", 4), ("err(max_grade=4)", 4), ("map", 4)]
    assert [column.label for column in found.columns[1:5]] == ["@1", "@3", "@5", "@10"]
    assert found.footer == ()  # 160 in all columns
    assert plain_text(found.caption).startswith("Means over 160 queries; ")
    assert "compare down a column, never across K" in words(section(data, "metrics"))


def test_marks_say_what_the_verdicts_say(data: ReportData) -> None:
    found = table(data, "metrics", "metrics")
    for row in found.rows:
        for column, cell in zip(found.columns[1:], row[1:], strict=True):
            pair = data.paired(row[0].name, column.hint)  # type: ignore[union-attr]
            expected = pair.verdict if pair is not None and pair.verdict in ("better", "worse") else ""
            assert cell.mark == expected  # type: ignore[union-attr]
    assert {cell.mark for row in found.rows for cell in row[1:]} >= {"", "worse"}  # type: ignore[union-attr]


def test_ties_for_the_best_are_all_best() -> None:
    found = Table("t", "", (Column("a", "metric", best="max"),), ((0.5,), (0.7,), (math.nan,), (0.7,)))
    assert [(row, 0) in found.best_cells for row in range(4)] == [False, True, False, True]


def test_one_row_is_not_the_best_of_anything() -> None:
    assert not Table("t", "", (Column("a", "metric", best="max"),), ((0.5,),)).best_cells


def test_conventions_are_the_closed_forms(data: ReportData) -> None:
    (row, *_) = table(data, "conventions", "conventions").rows
    mean = data.comparison.summary(data.models[0]).mean
    f = 40 / 200
    assert row[1:] == pytest.approx((mean, (1 - f) * mean + f, (1 - f) * mean, f))


@pytest.mark.parametrize(("rule", "filled"), [("zero", 0.0), ("one", 1.0)])
def test_conventions_of_a_metric_that_counts_empty_queries(rule: str, filled: float) -> None:
    metric = f"ndcg(empty={rule})@10"
    system = SystemResult(
        name="A",
        query_ids=np.array(["1", "2", "3", "4"]),
        values={metric: np.array([[0.2, 0.6, 0.4, filled]])},
        replicates=("1",),
        higher_is_better={metric: True},
        query_attributes={"rows": np.full(4, 9), "n_relevant": np.array([1, 2, 1, 0])},
    )
    data = ReportData(compare(system), (), (), None, "t")
    ((_, skip, one, zero, share),) = table(data, "conventions", "conventions").rows
    assert (skip, one, zero, share) == pytest.approx((0.4, (1.2 + 1) / 4, 1.2 / 4, 1 / 4))
    assert "Queries without relevant documents: 1 of 4. " in words(section(data, "verdict"))
    assert "they are counted" in words(section(data, "verdict"))


def test_conventions_take_the_share_of_the_weight() -> None:
    """The query without relevant documents is half of the traffic, and a quarter of the queries."""
    system = SystemResult(
        name="A",
        query_ids=np.array(["1", "2", "3", "4"]),
        values={"ndcg@10": np.array([[0.2, 0.6, 0.4, np.nan]])},
        replicates=("1",),
        higher_is_better={"ndcg@10": True},
        query_attributes={
            "rows": np.full(4, 9),
            "n_relevant": np.array([1, 2, 1, 0]),
            "query_weight": np.array([1, 1, 1, 3]),
        },
    )
    data = ReportData(compare(system), (), (), None, "t")
    ((_, skip, one, zero, share),) = table(data, "conventions", "conventions").rows
    assert (skip, one, zero, share) == pytest.approx((0.4, (1.2 + 3) / 6, 1.2 / 6, 3 / 6))


def test_conventions_are_silent_where_the_share_is_unknown() -> None:
    assert section(small_report({"A": [0.5, 0.25]}, "ndcg(empty=zero)@10"), "conventions") == []
    assert section(small_report({"A": [0.5, 0.25]}, "my own number"), "conventions") == []


def test_seeds_say_deterministic_instead_of_a_spread_of_zero(data: ReportData) -> None:
    rows = {row[0].name: row for row in table(data, "seeds", "seeds").rows}  # type: ignore[union-attr]
    assert rows["best-feature"][3:6] == (None, None, None)
    assert rows["best-feature"][-1] == Badge("deterministic", "muted")
    name = "xgb-ndcg"
    by_seed = np.nanmean(data.comparison.system(name).values[data.primary], axis=1)
    assert rows[name][3:6] == pytest.approx((by_seed.std(ddof=1), by_seed.min(), by_seed.max()))


@pytest.mark.long
def test_what_the_trained_models_did_appears_from_two_seeds_on(
    make_system: Callable[..., SystemResult], make_data: Callable[..., ReportData]
) -> None:
    fixed = make_system("F", 0.3, seeds=1, deterministic=True)
    few = table(make_data(systems=[make_system("A", 0.1, seeds=1), fixed]), "seeds", "seeds")
    data = make_data(systems=[make_system("A", 0.1, seeds=2), make_system("B", 0.2, seeds=2)])
    more = table(data, "seeds", "seeds")
    trained = "Difference [these trained models]"
    assert trained not in [column.label for column in few.columns]
    at = [column.label for column in more.columns].index(trained)
    (pair,) = data.comparison.pairs[:1]
    shown = next(row[at] for row in more.rows if row[at] is not None)
    assert shown == Estimate(pair.difference, pair.trained_ci_low, pair.trained_ci_high)
    said = "With several seeds, differences are judged over queries and seeds together."
    assert said in words(section(data, "verdict"))


@pytest.mark.long
def test_learning_curves_keep_the_chosen_round_however_long_they_are(
    make_data: Callable[..., ReportData],
) -> None:
    from ltr_harness.report.sections.training import thin

    points = [(at, 0.1) for at in range(1, 2001)]
    kept = thin(points, 50, chosen_round=777)
    assert len(kept) == 51
    assert {1, 777, 2000} <= {at for at, _ in kept}
    (chart,) = (b for b in section(make_data(), "training") if isinstance(b, Chart))
    rows = chart.spec["data"]["values"]
    assert [row["chosen"] for row in rows] == [101, 102] * 3
    assert all(row["chosen"] in row["round"] and len(row["round"]) == len(row["value"]) for row in rows)


@pytest.mark.long
def test_distributions_are_of_every_metric_at_the_fixed_k(data: ReportData, report: Report) -> None:
    (choice,) = (block for block in section(data, "distribution") if isinstance(block, Choice))
    metrics = [name for name, _ in choice.options]
    assert metrics == ["ndcg@10", "mrr@10", "err(max_grade=4)@10", "map@10"]
    for metric, (shown, chart) in choice.options:
        assert isinstance(shown, Table)
        assert isinstance(chart, Chart)
        assert [row[1] for row in shown.rows] == [
            data.comparison.summary(model, metric).mean for model in data.models
        ]
        for row in chart.spec["data"]["values"]:
            values = data.comparison.system(row["model"]).per_query(metric)
            zero_bin = int((values < row["from"][0] + 0.05).sum())  # the first that holds any
            assert row["count"][0] == zero_bin
            assert sum(row["count"]) == row["n"] == data.comparison.summary(row["model"], metric).n
    assert [name for name in (chart.name for chart in report.charts) if "value" in name] == [
        "value_distribution"
    ]
    text = markdown.render(report)
    assert "Per-query ndcg@10." in text
    assert "Per-query mrr@10." not in text
    assert "report.html has the same for mrr@10, err(max\\_grade=4)@10, map@10." in text


def test_a_single_metric_is_no_choice(
    make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult]
) -> None:
    systems = [make_system(name, 0.1 * at, metrics=["ndcg@10", "mrr@5"]) for at, name in enumerate("ab")]
    blocks = section(make_data(systems=systems), "distribution")
    assert [type(block).__name__ for block in blocks] == ["Heading", "Paragraph", "Table", "Chart"]


def test_data_facts_name_empty_queries_per_split(data: ReportData) -> None:
    rows = table(data, "data", "data").rows
    assert [(row[1], row[2], row[5], row[6]) for row in rows] == [
        ("train", 600, 100, 100 / 600),
        ("valid", 200, 30, 30 / 200),
        ("test", 200, 40, 40 / 200),
    ]


def test_data_names_the_features_and_the_ignored_columns(data: ReportData) -> None:
    cautions = [Caution("ignored-columns", "note", "ignored ids: ts"), Caution("other", "note", "other")]
    cautions.append(Caution("text-in-numbers", "warning", "1 of 2 cells of price"))
    known = {"features": ["bm25", "price"], "cautions": cautions}
    runs = [dataclasses.replace(run, record=run.record.model_copy(update=known)) for run in data.runs]
    said = words(section(dataclasses.replace(data, runs=runs), "data"))
    assert "2 features: bm25, price." in said
    assert "ignored ids: ts." in said
    assert "1 of 2 cells of price." in said
    assert "other." not in said


def test_definitions_say_defaults_and_choices(data: ReportData) -> None:
    (metrics, _) = (b for b in section(data, "definitions") if isinstance(b, Definitions))
    by_name = {term: " ".join(plain_text(text) for text in texts) for term, texts in metrics.items}
    assert list(by_name) == ["ndcg", "mrr", "err(max_grade=4)", "map"]
    for said in ("K = 1, 3, 5, 10", "gain = exp", "discount = log2", "ties = expected", "empty = skip"):
        assert said in by_name["ndcg"]
    assert "max_grade = 4" in by_name["err(max_grade=4)"]
    assert "``" not in " ".join(by_name.values())


def test_a_number_from_elsewhere_has_no_definition_here() -> None:
    (metrics, _) = (
        b
        for b in section(small_report({"A": [0.5], "B": [1.0]}, "clicks"), "definitions")
        if isinstance(b, Definitions)
    )
    assert "by an unknown definition" in plain_text(metrics.items[0][1][0])


def test_provenance_holds_the_digest_of_the_configuration(data: ReportData) -> None:
    import hashlib

    digest = hashlib.sha256(b"name: made\nseeds: [1, 2]\n").hexdigest()
    assert digest in words(section(data, "provenance"))
    changed = dataclasses.replace(data, experiment_yaml="name: made\nseeds: [1]\n")
    assert digest not in words(section(changed, "provenance"))


def test_the_digest_of_the_configuration_is_that_of_a_copy_in_another_folder(data: ReportData) -> None:
    text = "name: made\ndata:\n  reader: letor\n  root: {}\n  files: a\nmodels:\n  root: {{ranker: {}}}\n"
    first, moved, other = (
        config_digest(dataclasses.replace(data, experiment_yaml=text.format(folder, ranker)))
        for folder, ranker in (("/a/b", "random"), ("/c\n    d", "random"), ("/a/b", "feature"))
    )
    assert first == moved != other


# ---- shapes ---------------------------------------------------------------------------------------------


def test_one_model_has_no_differences() -> None:
    report = build_report(small_report({"A": [0.5, 0.25, 1.0]}))
    names = [section.name for section in report.sections]
    assert "paired" not in names
    assert names[0] == "verdict"


def test_scores_from_elsewhere_make_a_report_without_training() -> None:
    names = [s.name for s in build_report(small_report({"A": [0.5, 0.2], "B": [0.1, 0.2]})).sections]
    assert "training" not in names
    assert "data" not in names
    assert "failures" not in names


def test_a_metric_undefined_everywhere_stays_a_dash() -> None:
    report = build_report(small_report({"A": [math.nan] * 3, "B": [math.nan] * 3}, "ndcg@10"))
    fixed = next(t for t in report.tables if t.name == "fixed_k")
    assert all(math.isnan(row[2].value) for row in fixed.rows)  # type: ignore[union-attr]
    assert (0, 2) not in fixed.best_cells


def test_names_of_tables_and_charts_are_unique(report: Report) -> None:
    names = [table.name for table in report.tables]
    assert len(set(names)) == len(names)
    names = [chart.name for chart in report.charts]
    assert len(set(names)) == len(names)


def test_every_section_file_is_in_the_table(repository: object) -> None:
    from ltr_harness.report import sections

    files = {path.stem for path in Path(sections.__file__).parent.glob("*.py")} - {"__init__"}
    named = {target.partition(":")[0].rpartition(".")[2] for target in SECTIONS.values()}
    missing = [f'"{name}": "ltr_harness.report.sections.{name}:section",' for name in files - named]
    assert not missing, "add to SECTIONS: " + " ".join(missing)


@pytest.mark.long
def test_every_title_has_a_finding(report: Report, report_of_runs: Report) -> None:
    for built in (report, report_of_runs):
        grouped = [one for one in built.sections if one.group is not None]
        assert len(grouped) >= 14
        assert [one.name for one in grouped if not one.heading.finding] == []


def test_equal_scores_matter_where_their_order_could_undo_a_verdict(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ltr_harness.metrics import TieAudit, parse_metric
    from ltr_harness.report.sections import ties

    pairs = [data.comparison.paired(name) for name in data.rivals]
    smallest = min(abs(pair.difference) for pair in pairs if pair.verdict in ("better", "worse"))
    for width, matters in ((smallest / 2, False), (smallest * 2, True)):
        none = np.zeros(0)
        audit = TieAudit(parse_metric("ndcg@10"), none, none, 0.5, 0.5, 0.5 + width, 0.1, 0.1)
        monkeypatch.setattr(ties, "audits", lambda data, audit=audit: dict.fromkeys(data.models, audit))
        heading = ties.section(data)[0]
        assert heading.matters is matters  # type: ignore[union-attr]


@pytest.mark.long
def test_chosen_sections_stand_in_the_order_of_the_choice(data: ReportData, report: Report) -> None:
    chosen = dataclasses.replace(data, sections=("pairs", "failures", "verdict"))
    found = build_report(chosen)
    assert [section.name for section in found.sections] == ["pairs", "verdict"]  # nothing failed
    assert found.document() == report.document()


def test_a_report_without_anything_to_say_is_told(data: ReportData, caplog: pytest.LogCaptureFixture) -> None:
    assert build_report(dataclasses.replace(data, sections=("failures", "sweep"))).sections == ()
    assert "none of its sections has content: failures, sweep" in caplog.text


@pytest.mark.long
def test_a_stored_experiment_shows_the_sections_that_it_chose(
    experiment_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(experiment_folder, tmp_path / "small")
    configuration = folder / "experiment.yaml"
    stored = yaml.safe_load(configuration.read_text())
    assert "sections" not in stored["report"]
    stored["report"]["sections"] = "metrics"
    configuration.write_text(yaml.safe_dump(stored))
    assert [section.name for section in build_report(stored_data([folder])).sections] == ["metrics"]
    assert stored_data([experiment_folder]).sections is None


@pytest.mark.long
def test_a_stored_experiment_is_shown_without_what_is_retired(
    experiment_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(experiment_folder, tmp_path / "small")
    configuration = folder / "experiment.yaml"
    stored = yaml.safe_load(configuration.read_text())
    stored["references"] = [{"source": "A page", "values": {"a-feature": {"ndcg@10": 0.5}}}]
    for chosen, shown in ((["published", "metrics"], ("metrics",)), ("published", None)):
        stored["report"]["sections"] = chosen
        configuration.write_text(yaml.safe_dump(stored))
        told = "experiment.yaml has parts that no longer exist and are left out: references, report section published"
        data = stored_data([folder])
        assert data.sections == shown
        assert [note for note in map(str, data.comparison.cautions) if "no longer exist" in note] == [told]
    assert not [
        note
        for note in map(str, stored_data([experiment_folder]).comparison.cautions)
        if "no longer exist" in note
    ]


@pytest.mark.long
def test_a_notebook_shows_the_verdict_and_what_failed(
    make_data: Callable[..., ReportData], make_record: Callable[..., object]
) -> None:
    shown = make_data(failures=[make_record("xgb", seed=2, error="label <31> is too large")])._repr_html_()
    assert '<h2 class="banner' in shown
    assert "failed: xgb, fold all, seed 2: label &lt;31&gt; is too large" in shown


def test_the_list_of_sections_has_a_line_about_each(capsys: pytest.CaptureFixture[str]) -> None:
    from ltr_harness.cli import cli
    from ltr_harness.cli.exit_codes import run_command

    assert run_command(cli, ["list", "sections"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert set(SECTIONS) <= set(lines)
    assert lines["slices"] == "Gains and losses on each part of the query set."
    assert [name for name in SECTIONS if not lines[name].endswith(".")] == []
