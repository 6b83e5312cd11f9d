"""Results in notebooks: the report's own blocks, with as much of its style as they need."""

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch

from ltr_harness._util.display import DisplayedRecords
from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import Difference, Paired, Summary
from ltr_harness.comparison.data_sets import AcrossDataSets
from ltr_harness.comparison.paired_moments import PairedMoments
from ltr_harness.comparison.power import PowerPlan
from ltr_harness.comparison.slices import SliceResult
from ltr_harness.comparison.stream import StreamEvaluation
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import Caution, labelled
from ltr_harness.experiments.compare.judge_agreement import JudgeAgreement
from ltr_harness.experiments.compare.online_agreement import OnlineAgreement
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.runs.run import Run
from ltr_harness.metrics.core.explanation import LEFT, PRESET_COLUMNS, Explanation
from ltr_harness.metrics.evaluate_runs import EvaluatedRuns
from ltr_harness.metrics.evaluation import Evaluation, MetricValues
from ltr_harness.report import blocks
from ltr_harness.report.blocks import Block, Bullets, Cell, Column, Estimate, Paragraph, Table
from ltr_harness.report.data import ReportData
from ltr_harness.report.html import render_blocks
from ltr_harness.report.judge_agreement import judge_page
from ltr_harness.report.online_agreement import agreement_page
from ltr_harness.report.pages import data_sets_page, power_page
from ltr_harness.report.sections.verdict import section, verdict_badge, verdict_mark


def html(result: object) -> str:
    """Return a result as HTML for a notebook's cell."""
    return render_blocks(blocks_of(result))


@singledispatch
def blocks_of(result: object) -> Sequence[Block]:
    """Return the blocks that show a result."""
    return [Paragraph(repr(result))]


@blocks_of.register
def _(comparison: Comparison) -> Sequence[Block]:
    return section(ReportData(comparison, (), (), None, "comparison"))


@blocks_of.register
def _(data: ReportData) -> Sequence[Block]:
    failures = [
        f"failed: {record.model}, fold {record.fold}, seed {record.seed}: {record.error}"
        for record in data.failures
    ]
    content = section(data)
    return [*content, Bullets(tuple(failures))] if failures else content


@blocks_of.register
def _(plan: PowerPlan) -> Sequence[Block]:
    return power_page(plan).sections[0].blocks


@blocks_of.register
def _(comparison: AcrossDataSets) -> Sequence[Block]:
    return data_sets_page(comparison).sections[0].blocks


@blocks_of.register
def _(agreement: OnlineAgreement) -> Sequence[Block]:
    return agreement_page(agreement).sections[0].blocks


@blocks_of.register
def _(agreement: JudgeAgreement) -> Sequence[Block]:
    return [block for section in judge_page(agreement).sections for block in section.blocks]


@blocks_of.register
def _(records: DisplayedRecords) -> Sequence[Block]:  # type: ignore[type-arg]
    return [_table_of(list(records))] if records else [Paragraph("none")]


@blocks_of.register(Summary)
@blocks_of.register(Paired)
@blocks_of.register(Difference)
@blocks_of.register(SliceResult)
def _(record: object) -> Sequence[Block]:
    return [_table_of([record])]


def _table_of(records: Sequence[object]) -> Table:
    """Return the table of records of one kind."""
    match records[0]:
        case Summary():
            return _summaries(records)  # type: ignore[arg-type]
        case SliceResult():
            return _slices(records)  # type: ignore[arg-type]
        case _:
            return _differences(records)  # type: ignore[arg-type]


def _summaries(summaries: Sequence[Summary]) -> Table:
    return Table.of(
        "summaries",
        "Means over queries, with their intervals.",
        summaries,
        {
            Column("Model"): lambda summary: summary.model,
            Column("Metric", "code"): lambda summary: summary.metric,
            Column("Mean", "metric"): lambda summary: Estimate(summary.mean, summary.ci_low, summary.ci_high),
            Column("Queries", "count"): lambda summary: summary.n,
            Column("Undefined", "count"): lambda summary: summary.n_undefined,
        },
    )


def _differences(pairs: Sequence[Paired | Difference]) -> Table:
    columns = {
        Column("Verdict"): lambda pair: verdict_badge(pair.verdict),
        _difference_column(pairs): _estimate,
        Column("p", "p"): lambda pair: pair.p_corrected,
    }
    if isinstance(pairs[0], Paired):
        columns = {
            Column("Model"): lambda pair: pair.model,
            Column("Against"): lambda pair: pair.other,
            Column("Metric", "code"): lambda pair: pair.metric,
            **columns,
            Column("Queries", "count"): lambda pair: pair.n,
        }
    return Table.of("pairs", "Mean differences, with their intervals.", pairs, columns)


def _slices(slices: Sequence[SliceResult]) -> Table:
    return Table.of(
        "slices",
        "Mean differences from the baseline on parts of the queries, with their intervals.",
        slices,
        {
            Column("Part"): lambda part: f"{part.attribute}: {part.label}",
            Column("Model"): lambda part: part.model,
            Column("Verdict"): lambda part: verdict_badge(part.verdict),
            _difference_column(slices): _estimate,
            Column("p", "p"): lambda part: part.p,
            Column("Queries", "count"): lambda part: part.n,
        },
    )


def _difference_column(pairs: Iterable[Paired | Difference | SliceResult]) -> Column:
    axis = blocks.axis_of(end for pair in pairs for end in (pair.ci_low, pair.ci_high))
    return Column("Difference", "difference", axis=axis)


def _estimate(pair: Paired | Difference | SliceResult) -> Estimate:
    return Estimate(pair.difference, pair.ci_low, pair.ci_high, verdict_mark(pair.verdict))


@blocks_of.register
def _(values: MetricValues) -> Sequence[Block]:
    return [_means([values])]


@blocks_of.register
def _(evaluation: Evaluation) -> Sequence[Block]:
    return [_means([evaluation[name] for name in evaluation.metrics]), *_bullets(evaluation.cautions)]


def _means(values: Sequence[MetricValues]) -> Table:
    return Table.of(
        "means",
        "Means over queries.",
        values,
        {
            Column("Metric", "code"): lambda result: str(result.metric),
            Column("Mean", "metric"): lambda result: result.mean,
            Column("Queries", "count"): lambda result: result.n_queries - result.n_undefined,
            Column("Without relevant documents", "count"): lambda result: result.n_undefined,
        },
    )


def _bullets(cautions: Sequence[Caution]) -> list[Block]:
    return [Bullets(tuple(map(labelled, cautions)))] if cautions else []


@blocks_of.register
def _(runs: EvaluatedRuns) -> Sequence[Block]:
    headings, texts = runs.table()
    columns = (Column(headings[0]), *(Column(heading, "tally") for heading in headings[1:]))
    rows: list[tuple[Cell, ...]] = []
    for row in texts:
        rows.append(tuple(row))
    return [Table("runs", "Means over queries.", columns, tuple(rows)), Bullets(tuple(runs.lines_below))]


@blocks_of.register
def _(explanation: Explanation) -> Sequence[Block]:
    missed, missed_note = explanation.missed_texts()
    notes = [explanation.hidden_text, *missed_note, explanation.ideal_text(), *explanation.lines_below]
    content: list[Block] = [_texts("ranks", explanation.heading, explanation.columns, explanation.texts)]
    if missed:
        content.append(
            _texts("missed", "Judged documents without a rank.", explanation.missed_columns, missed)
        )
    content.append(Bullets(tuple(note for note in notes if note)))
    if explanation.presets:
        content.append(_texts("tools", "In other tools.", PRESET_COLUMNS, explanation.preset_texts))
    return content


def _texts(name: str, title: str, headings: Sequence[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table of texts, of which those under `LEFT` are words."""
    columns = tuple(Column(heading, "text" if heading in LEFT else "tally") for heading in headings)
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        cells.append(tuple(row))
    return Table(name, title, columns, tuple(cells))


@blocks_of.register
def _(moments: PairedMoments) -> Sequence[Block]:
    baseline, *models = moments.models
    columns = (
        Column("Metric", "code"),
        Column(baseline, "metric"),
        *(Column(f"{model} - {baseline}", "difference") for model in models),
        Column("Queries", "count"),
    )
    rows: list[tuple[Cell, ...]] = []
    for metric, means, n in zip(moments.metrics, moments.mean.tolist(), moments.n.tolist(), strict=True):
        rows.append((metric, *means, n))
    return [Table("moments", "Mean, and mean differences from it.", columns, tuple(rows))]


@blocks_of.register
def _(stream: StreamEvaluation) -> Sequence[Block]:
    means: Mapping[str, Mapping[str, float]] = stream.means
    columns = (Column("Scores"), *(Column(metric, "metric") for metric in stream.metrics))
    rows: list[tuple[Cell, ...]] = []
    for score, of_score in means.items():
        rows.append((score, *(of_score[metric] for metric in stream.metrics)))
    return [Table("means", f"Means over {count_of(stream.n_queries, 'query')}.", columns, tuple(rows))]


@blocks_of.register
def _(run: Run) -> Sequence[Block]:
    return [*blocks_of(run.record), Paragraph(f"folder: {run.path}")]


@blocks_of.register
def _(record: Record) -> Sequence[Block]:
    title = f"{record.model}, fold {record.fold}, seed {record.seed}: {record.status}"
    table = Table.of(
        "metrics",
        title,
        list(record.metrics.items()),
        {
            Column("Metric", "code"): lambda item: item[0],
            Column("Mean", "metric"): lambda item: item[1].mean,
            Column("Queries", "tally"): lambda item: item[1].counted,
        },
    )
    return [table, Paragraph(record.error, "warning")] if record.error else [table]


@blocks_of.register
def _(dataset: RankingDataset) -> Sequence[Block]:
    first_line = repr(dataset).splitlines()[0]
    return [Paragraph(first_line), *_bullets(dataset.cautions)]
