"""Precision over recall at eleven points: by hand, beside trec_eval, under ties, and as a section of the report."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.comparison import compare
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.ranking import RowRanker
from ltr_harness.report import ReportData
from ltr_harness.report.blocks import Chart, Table
from ltr_harness.report.charts import file_spec
from ltr_harness.report.sections.precision_recall import LEVELS, interpolated_precision, section
from tests.conftest import examples


def curve(
    relevant: list[list[int]], scores: list[list[int]] | None = None, retrieved: list[list[int]] | None = None
) -> list[float]:
    groups = QueryGroups.from_sizes([len(query) for query in relevant])
    labels = np.concatenate(relevant).astype(float)
    ranked = [range(len(query), 0, -1) for query in relevant] if scores is None else scores
    listed = None if retrieved is None else np.concatenate(retrieved).astype(bool)
    judgments = Judgments.checked(labels, groups, retrieved=listed)
    scores_of_rows = np.concatenate([np.array(one, float) for one in ranked])
    whole = RowRanker(judgments, "expected", None).rank(
        scores_of_rows if listed is None else scores_of_rows[listed]
    )
    ranking = whole if listed is None else whole.pool_rows(judgments)
    found = interpolated_precision(ranking, judgments.pool.labels > 0)
    return [float(value) for value in found]


def test_by_hand() -> None:
    # hits at ranks 1 and 3: precision 1 up to a recall of 1/2, then 2/3
    assert curve([[1, 0, 1, 0]]) == [1.0] * 6 + [2 / 3] * 5
    # hits at ranks 2 and 3 of 3: the second hit's precision, 2/3, is better than the first one's
    assert curve([[0, 1, 1]]) == [2 / 3] * 11
    # the mean over two queries; one without relevant documents is left out
    expected = [(1 + 2 / 3) / 2] * 6 + [2 / 3] * 5
    assert curve([[1, 0, 1, 0], [0, 0], [0, 1, 1]]) == pytest.approx(expected, abs=1e-15)


def test_what_was_missed_puts_recall_out_of_reach() -> None:
    # one of two relevant documents was missed, so that recall ends at 1/2; of the second query both were
    lists, retrieved = [[0, 1, 1], [1, 1]], [[1, 1, 0], [0, 0]]
    assert curve(lists[:1], retrieved=retrieved[:1]) == [0.5] * 6 + [0.0] * 5
    assert curve(lists, retrieved=retrieved) == [0.25] * 6 + [0.0] * 5
    assert curve([[0, 1, 1], [1, 0]], retrieved=[[1, 1, 0], [1, 1]]) == [0.75] * 6 + [0.5] * 5


def test_a_constant_model_has_the_precision_of_chance_everywhere() -> None:
    assert curve([[0, 0, 1, 0]], [[5, 5, 5, 5]]) == [0.25] * 11
    assert (
        curve([[1, 0, 0, 1]], [[5, 5, 5, 1]])[0] == 0.5
    )  # a third of a hit at each of three ranks; then the other


def exact_precisions(relevant: list[int], scores: list[int]) -> list[Fraction]:
    order = sorted(range(len(scores)), key=lambda row: -scores[row])
    hits = []
    for rank, row in enumerate(order):
        tied = [other for other in order if scores[other] == scores[row]]
        above = sum(relevant[other] for other in order if scores[other] > scores[row])
        within = rank + 1 - sum(scores[other] > scores[row] for other in order)
        hits.append(above + Fraction(within * sum(relevant[other] for other in tied), len(tied)))
    total = sum(relevant)
    return [
        max(hit / (rank + 1) for rank, hit in enumerate(hits) if hit / total >= Fraction(level, 10))
        for level in range(11)
    ]


@pytest.mark.long
@examples(60)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=12),
        min_size=1,
        max_size=4,
    )
)
def test_any_lists_with_ties(queries: list[list[tuple[int, int]]]) -> None:
    relevant = [[hit for hit, _ in query] for query in queries]
    scores = [[score for _, score in query] for query in queries]
    wanted = [exact_precisions(*pair) for pair in zip(relevant, scores, strict=True) if any(pair[0])]
    if wanted:
        expected = [float(sum(column) / len(wanted)) for column in zip(*wanted, strict=True)]
        assert curve(relevant, scores) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_trec_eval(share: float) -> None:
    """For numbers of relevant documents that divide 10: for others it rounds, so that 2 of 3 are a recall of 0.7."""
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs pytrec-eval-terrier (the extra `oracles`)")
    rng = np.random.default_rng(0)
    relevant = [
        rng.permutation(np.arange(size) < count).astype(int).tolist()
        for size, count in zip(rng.integers(10, 40, 40).tolist(), rng.choice([1, 2, 5, 10], 40), strict=True)
    ]
    scores = [rng.permutation(len(query)).tolist() for query in relevant]
    qrels = {str(at): {str(row): hit for row, hit in enumerate(query)} for at, query in enumerate(relevant)}
    retrieved = [(rng.random(len(query)) < share).astype(int).tolist() for query in relevant]
    run = {
        str(at): {str(row): float(one) for row, one in enumerate(query) if retrieved[at][row]}
        for at, query in enumerate(scores)
    }
    assert all(run.values())
    found = pytrec_eval.RelevanceEvaluator(qrels, {"iprec_at_recall"}).evaluate(run)
    expected = [
        np.mean([found[query][f"iprec_at_recall_{level:.2f}"] for query in qrels]) for level in LEVELS
    ]
    assert curve(relevant, scores, retrieved) == pytest.approx(expected, abs=1e-12)


def with_metrics(data: ReportData, *more: str) -> ReportData:
    """The report of the same models, with metrics that were not among those of the experiment."""
    rows = data.rows
    assert rows is not None
    metrics = [parse_metric(name) for name in more]
    systems = [
        replace(
            one,
            values=one.values
            | {
                name: np.tile(values, (len(one.replicates), 1))
                for name, values in zip(more, rows.per_query(one.name, metrics), strict=True)
            },
            higher_is_better={**one.higher_is_better, **dict.fromkeys(more, True)},
        )
        for one in data.comparison.systems
    ]
    return replace(data, comparison=compare(*systems, metrics=[data.primary, *more], baseline=data.baseline))


@pytest.mark.long
def test_the_section(stored_report: ReportData) -> None:
    assert section(stored_report) == []  # NDCG and ERR ask for neither
    asked = with_metrics(stored_report, "precision(relevant=2)@5", "map@10")
    blocks = section(asked)
    (table,) = (block for block in blocks if isinstance(block, Table))
    (chart,) = (block for block in blocks if isinstance(block, Chart))
    assert [len(row) for row in table.rows] == [len(table.columns)] * len(stored_report.models)
    rows = stored_report.rows
    assert rows is not None
    metric = parse_metric("map(relevant=2)")
    for row, model in zip(table.rows, stored_report.models, strict=True):
        assert row[1] == pytest.approx(np.nanmean(rows.per_query(model, (metric,))), abs=1e-15)
    drawn = chart.spec["data"]["values"]
    shown = [model for model in stored_report.rivals if any(row["model"] == model for row in drawn)]
    assert len(drawn) == 11 * len(shown) > 0
    base = next(row for row in table.rows if row[0].name == stored_report.baseline)  # type: ignore[union-attr]
    for row in drawn:
        if row["recall"] in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
            its = base[2 + round(5 * row["recall"])]
            assert row["shown"] == pytest.approx(row["precision"] - its, abs=2e-5)  # type: ignore[operator]
    for model in stored_report.models:
        assert f"{model}: AP " in chart.text
    for model in shown:
        heights = [row["precision"] for row in drawn if row["model"] == model]
        assert heights == sorted(heights, reverse=True)  # interpolation never rises with recall


@pytest.mark.long
def test_the_chart_follows_the_schema(stored_report: ReportData, chart_schema: Any) -> None:
    (chart,) = (
        block for block in section(with_metrics(stored_report, "recall@5")) if isinstance(block, Chart)
    )
    chart_schema.validate(file_spec(chart.spec))


@pytest.mark.long
def test_the_title_has_the_baseline_s_name_as_it_is_written(stored_report: ReportData) -> None:
    asked = with_metrics(stored_report, "map@10")
    systems = [replace(one, name=one.name.upper()) for one in asked.comparison.systems]
    base = asked.baseline.upper()
    comparison = compare(*systems, metrics=[*asked.comparison.metrics], baseline=base)
    records = [run.record.model_copy(update={"model": run.record.model.upper()}) for run in asked.runs]
    runs = [replace(run, record=record) for run, record in zip(asked.runs, records, strict=True)]
    blocks = section(replace(asked, comparison=comparison, runs=runs))
    (chart,) = (block for block in blocks if isinstance(block, Chart))
    assert str(chart.title).startswith(f"Precision minus {base}'s over recall")
