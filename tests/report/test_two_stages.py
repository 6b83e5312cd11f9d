"""Two retrievers on one page, and one set of models on several data sets, in the design of the report."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from ltr_harness.comparison import compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.data_sets import across_data_sets
from ltr_harness.report import ReportData
from ltr_harness.report.blocks import Badge, Banner, Chart, Estimate, ModelName, Paragraph, Table, plain_text
from ltr_harness.report.data import title_of
from ltr_harness.report.pages import data_sets_page
from ltr_harness.report.sections import verdict

PARTS = ["random order", "reached", "up to the ceiling", "out of reach"]


def ranker(name: str, mean: float, random: float, ceiling: float) -> SystemResult:
    """A ranker of a retriever's candidates, whose best order lacks what is missing to 1."""
    n = 40
    spread = np.linspace(-0.05, 0.05, n)
    columns = {
        "random order": random + 0 * spread,
        "ceiling": ceiling + 0 * spread,
        "all retrieved": np.ones(n),
    }
    return SystemResult(
        name=name,
        query_ids=np.arange(n).astype(str),
        values={"ndcg@10": (mean + spread)[None]},
        replicates=("1",),
        higher_is_better={"ndcg@10": True},
        query_attributes={f"ndcg@10: {end}": values for end, values in columns.items()},
        source=name.partition("/")[0],
    )


def report(*systems: SystemResult) -> ReportData:
    return ReportData(compare(*systems, baseline=systems[0].name, draws=200), (), (), None, "t")


def test_a_bar_a_model_where_ceilings_differ() -> None:
    data = report(ranker("words/r", 0.37, 0.17, 0.41), ranker("meaning/r", 0.57, 0.24, 0.84))
    content = verdict.section(data)
    (chart,) = (block for block in content if isinstance(block, Chart))
    rows = chart.spec["data"]["values"]
    ends = {"meaning/r": [0, 0.24, 0.57, 0.84, 1], "words/r": [0, 0.17, 0.37, 0.41, 1]}
    for model, steps in ends.items():
        bar = [row for row in rows if row["model"] == model]
        assert [row["part"] for row in bar] == PARTS
        assert [(row["from"], row["to"]) for row in bar] == [
            (pytest.approx(start), pytest.approx(end)) for start, end in itertools.pairwise(steps)
        ]
        assert model in chart.text
    (table,) = (block for block in content if isinstance(block, Table))
    gained = [column.label for column in table.columns].index("Gained")
    assert not [place for place in table.best_cells if place[1] == gained]


def test_no_bars_and_a_best_share_where_candidates_are_the_same() -> None:
    data = report(ranker("a", 0.37, 0.17, 0.84), ranker("b", 0.57, 0.17, 0.84))
    content = verdict.section(data)
    assert not [block for block in content if isinstance(block, Chart)]
    (table,) = (block for block in content if isinstance(block, Table))
    gained = [column.label for column in table.columns].index("Gained")
    assert (0, gained) in table.best_cells


def test_the_title_begins_with_the_experiment_of_the_best_model(make_record: Callable[..., object]) -> None:
    @dataclasses.dataclass
    class MadeRun:
        record: object

    comparison = report(ranker("words/r", 0.37, 0.17, 0.41), ranker("meaning/r", 0.57, 0.24, 0.84)).comparison
    runs = [MadeRun(make_record("r", experiment=name)) for name in ("words", "meaning")]
    assert title_of(comparison, runs) == "meaning, words"  # type: ignore[arg-type]


@pytest.mark.parametrize("seeds", [2, 3])
def test_data_sets_have_a_pill_whiskers_and_the_caution_of_two_seeds(
    make_system: Callable[..., SystemResult], seeds: int
) -> None:
    def comparison_on(data_set: str):  # type: ignore[no-untyped-def]
        systems = []
        for name, quality in (("old", 0.0), ("new", 0.2), ("bad", -0.3)):
            system = make_system(name, quality, n=100, empty=0, metrics=["ndcg@10"], seeds=seeds)
            ids = np.array([f"{data_set}-{query}" for query in system.query_ids])
            values = {"ndcg@10": system.values["ndcg@10"] + (0.01 if data_set == "web" else 0.0)}
            systems.append(dataclasses.replace(system, query_ids=ids, values=values, seeded=True))
        return compare(*systems, baseline="old", draws=300)

    summary = across_data_sets({name: comparison_on(name) for name in ("web", "shop")})
    page = data_sets_page(summary)
    assert page.title == "web, shop"
    banner, *content = page.sections[0].blocks
    assert isinstance(banner, Banner)
    best = {row.model: row for row in summary.models}["new"]
    assert best.average is not None
    if best.average.verdict == "better":
        assert banner.status == Badge("better", "good")
        assert banner.text.startswith(f"new is better than old by {best.average.difference:.4f} (")
    else:
        assert banner.status == Badge("undecided", "neutral")
        assert banner.text.startswith(f"No clear winner: new leads old by {best.average.difference:.4f} (")
    notes = [
        plain_text(block.text) for block in content if isinstance(block, Paragraph) and block.tone == "note"
    ]
    assert [note.partition(":")[0] for note in notes if "trained with 2 seeds" in note] == (
        ["web", "shop"] if seeds == 2 else []
    )
    (table,) = (block for block in content if isinstance(block, Table))
    assert [column.label for column in table.columns][:3] == ["Model", "Verdict", "Average ndcg@10"]
    assert table.columns[3].axis is not None
    colours = {row[0].name: row[0].colour for row in table.rows if isinstance(row[0], ModelName)}
    assert colours["old"] == 0
    assert isinstance(table.rows[0][3], Estimate)
    (each,) = (block for block in page.sections[1].blocks if isinstance(block, Table))
    assert [column.label for column in each.columns] == [
        "Model",
        "web",
        "web, difference",
        "shop",
        "shop, difference",
    ]
