"""What would these numbers be in another tool's log?"""

from __future__ import annotations

import math
from typing import NamedTuple

from ltr_harness.errors import HarnessError
from ltr_harness.report.blocks import Block, Cell, Column, Details, Heading, Paragraph, Table, code
from ltr_harness.report.data import ReportData
from ltr_harness.report.metric_names import file_names
from ltr_harness.wording import count_of


class Means(NamedTuple):
    """One mean under the three rules for queries without relevant documents, and their share."""

    skip: float
    one: float
    zero: float
    share: float


def section(data: ReportData) -> list[Block]:
    shown = [metric for metric in data.metrics if means(data, data.models[0], metric) is not None]
    if not shown:
        return []
    blocks: list[Block] = [
        Heading("Other conventions"),
        Paragraph(
            (
                "Tools disagree about queries without relevant documents: ",
                code("one"),
                " counts them as 1 (LightGBM, XGBoost, CatBoost, RankEval), ",
                code("zero"),
                " as 0 (trec_eval, scikit-learn, ranx, RankLib, TF-Ranking), ",
                code("skip"),
                " leaves them out (gdeval, and the default here). With f their share and m the mean over the "
                "others: skip = m, one = (1 - f) m + f, zero = (1 - f) m. The order of models never changes; "
                "the numbers do, often by more than the models differ.",
            )
        ),
    ]
    files = file_names(shown)
    first = data.primary if data.primary in shown else shown[0]
    blocks.append(_table(data, first, "conventions"))
    if rest := [metric for metric in shown if metric != first]:
        tables = (_table(data, metric, f"conventions_{files[metric]}") for metric in rest)
        blocks.append(Details(f"The other {count_of(len(rest), 'metric')}", tuple(tables)))
    return blocks


def _table(data: ReportData, metric: str, name: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model in data.models:
        row = means(data, model, metric)
        if row is not None:
            rows.append((data.model_name(model), *row))
    return Table(
        name=name,
        caption=("Means of ", code(metric), " under the three rules for queries without relevant documents."),
        columns=(
            Column("Model"),
            Column("skip", "metric"),
            Column("one", "metric"),
            Column("zero", "metric"),
            Column("Share f", "percent", hint="Queries without relevant documents among all queries."),
        ),
        rows=tuple(rows),
    )


def means(data: ReportData, model: str, metric: str) -> Means | None:
    """The closed forms; None where the metric has no such rule or the share is unknown.

    A metric that leaves such queries out says their number itself. One that counts them as 0 or 1 does
    not, so the data's own count is used, which holds for relevance from grade 1 on.
    """
    rule = _empty_rule(metric)
    summary = data.summary(model, metric)
    total = summary.n + summary.n_undefined
    if rule is None or total == 0 or not data.higher_is_better(metric):
        return None
    if rule == "skip":
        f, m = summary.n_undefined / total, summary.mean
    else:
        if data.n_empty is None or total != data.n_queries or "relevant=" in metric:
            return None
        f = data.n_empty / total
        rest = summary.mean - (f if rule == "one" else 0.0)
        m = math.nan if f == 1 else rest / (1 - f)
    if f == 1:
        return Means(math.nan, 1.0, 0.0, 1.0)
    return Means(m, (1 - f) * m + f, (1 - f) * m, f)


def _empty_rule(metric: str) -> str | None:
    from ltr_harness.metrics import parse_metric

    try:
        rule: str = parse_metric(metric).empty
    except HarnessError:  # scores may come with numbers of a metric that is not ours
        return None
    return rule
