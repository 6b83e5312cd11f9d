"""`ltr-harness explain`: the arithmetic of one query, or every tool's mean over all of them."""

import difflib
import io
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np

import ltr_harness
from ltr_harness._util.escapes import printable
from ltr_harness._util.text import count_of
from ltr_harness.cli import metric_names, options, rankings
from ltr_harness.cli.output import echo, echo_cautions, echo_json
from ltr_harness.errors import UsageError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core import explanation
from ltr_harness.metrics.core.explanation import Explanation, MeanExplanation
from ltr_harness.metrics.explain import explain_mean, explain_query

if TYPE_CHECKING:
    from rich.table import Table

_ROWS_SHOWN = 100  # of a query, unless --rows says otherwise


@options.examples("""
  ltr-harness explain ndcg@10 --query 1234 --data test.txt --scores scores.txt
  ltr-harness explain ndcg@10 --data test.txt --scores scores.txt
  ltr-harness explain map --query 301 --qrels qrels.txt --run a.run
  ltr-harness explain err@10 --query 1234 runs/mq2008/lgbm--fold1--s1--0123456789ab
""")
@click.command("explain")
@click.argument("metric")
@click.argument("run_folder", required=False, type=options.PATH)
@click.option("--query", metavar="ID", help="The query, as the data names it; without it, the whole set.")
@options.rankings("all_queries")
@click.option("--rows", type=int, help="Rows of a query to show at most; 0 for all.  [default: 100]")
@options.as_json
def command(
    metric: str, run_folder: Path | None, query: str | None, rows: int | None, as_json: bool, **given: Any
) -> None:
    """The arithmetic of one query: every document in rank order, what it contributes, the ideal order, the result.

    Then the same query as LightGBM, XGBoost, trec_eval and others measure it, and why their numbers differ. Without
    --query: every tool's mean over the whole set, and the effect of each of its conventions on the mean.
    """
    if rows is not None and rows < 0:
        raise UsageError(f"--rows {rows}; expected 0 or more")
    if rows is not None and query is None:
        raise UsageError("--rows without --query; the whole set is shown tool by tool, not row by row")
    requested = parse_metric(metric)
    if run_folder is None:
        loaded = rankings.load_rankings(rankings.RankingSource(**given))
    else:
        requested, loaded = _load_run(run_folder, requested, given)
    (scaled,), scale_cautions = loaded.with_max_grade([requested])
    cautions = [*loaded.cautions, *scale_cautions, *metric_names.tools_named([metric])]
    if as_json:
        documents = [{**_document(ranking, scaled, query), "cautions": cautions} for ranking in loaded.all]
        echo_json(documents[0] if len(documents) == 1 else documents)
        return
    n_rows = _ROWS_SHOWN if rows is None else rows or None
    echo("\n\n".join(_page(_blocks(ranking, scaled, query, n_rows)) for ranking in loaded.all))
    echo_cautions(cautions)


def _load_run(folder: Path, metric: Metric, given: Mapping[str, Any]) -> tuple[Metric, rankings.Rankings]:
    """Return the metric as a stored run is measured by it, and the run's ranking of its test rows."""
    from ltr_harness.cli import stored_runs

    for name, value in given.items():
        if value and name != "max_grade":
            found = f"{folder} with {options.option_name(name)}"
            raise UsageError(f"{found}; expected a run folder or files, not both")
    run = ltr_harness.load_run(folder)
    ranking = stored_runs.scored(run)
    max_grade = given["max_grade"]
    if max_grade is None:  # the scale of grades is the one that the run was evaluated on
        max_grade = stored_runs.grade_scale(run.record)
    (metric,) = run.record.measuring([metric])
    cautions = tuple(stored_runs.temperature_notes([metric]))
    return metric, rankings.Rankings((ranking,), ranking.judgments, folder, max_grade, cautions)


def _explain_mean(metric: Metric, ranking: rankings.ScoredRanking) -> MeanExplanation:
    return explain_mean(metric, ranking.judgments, ranking.scores, ranking.retrieved)


def _explain_query(metric: Metric, query: str, ranking: rankings.ScoredRanking) -> Explanation:
    groups = ranking.judgments.groups
    names = [str(name) for name in groups.ids.tolist()]
    if query not in names:
        close = difflib.get_close_matches(query, names, n=3) or names[:3]
        found = f"no query {query!r} among its {len(names):,}; there is {', '.join(close)}"
        raise UsageError(f"{ranking.path}: {found}")
    number = names.index(query)
    rows = slice(int(groups.boundaries[number]), int(groups.boundaries[number + 1]))
    retrieved = None if ranking.retrieved is None else ranking.retrieved[rows]
    judgments = ranking.judgments.take(np.array([number]))
    return explain_query(metric, judgments, ranking.scores[rows], retrieved)


_TextTable = tuple[Sequence[str], Sequence[Sequence[str]]]  # head and rows
_WRAPPED = ("why", "document", "missed document", "tied ranks")  # columns of long texts


def _page(blocks: Iterable[str | _TextTable]) -> str:
    """Return lines and tables as wide as the terminal; long reasons and document ids wrap."""
    from rich.console import Console

    width = max(shutil.get_terminal_size((80, 24)).columns, 72) if sys.stdout.isatty() else 80
    unstyled: dict[str, Any] = dict.fromkeys(("force_terminal", "highlight", "markup", "emoji"), False)
    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, **unstyled)
    for block in blocks:
        console.print(block if isinstance(block, str) else _grid(*block))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for column in head:
        justify: Literal["left", "right"] = "left" if column in explanation.LEFT else "right"
        grid.add_column(column, justify=justify, overflow="fold", no_wrap=column not in _WRAPPED)
    for row in rows:
        grid.add_row(*map(printable, row))
    return grid


def _blocks(
    ranking: rankings.ScoredRanking, metric: Metric, query: str | None, n_rows: int | None
) -> Iterator[str | _TextTable]:
    """Return the lines and tables of a query, or of the mean."""
    if query is None:
        return _mean_blocks(ranking.name, _explain_mean(metric, ranking))
    return _query_blocks(ranking.name, query, _explain_query(metric, query, ranking), n_rows)


def _mean_blocks(name: str, explained: MeanExplanation) -> Iterator[str | _TextTable]:
    yield f"{printable(name)}: {explained.heading}\n"
    if explained.presets:
        yield explanation.MEAN_COLUMNS, explained.preset_texts
    else:
        yield f"{explained.metric.name} is not a metric of any tool with known conventions"


def _query_blocks(
    name: str, query: str, explained: Explanation, n_rows: int | None
) -> Iterator[str | _TextTable]:
    result = explained.text_of(explained.value)
    yield f"{printable(name)}, query {printable(query)}: {explained.metric} = {result}\n"
    rows = explained.texts[:n_rows]
    yield explained.columns, rows
    if n_more := len(explained.rows) - len(rows):
        yield f"({count_of(n_more, 'more document')}; --rows 0 shows all)"
    if explained.hidden_text:
        yield explained.hidden_text
    missed, more_missed = explained.missed_texts(n_rows)
    if missed:
        yield ""
        yield explained.missed_columns, missed
    yield from (*more_missed, f"\n{explained.ideal_text(n_rows)}", *explained.lines_below)
    if explained.presets:
        yield ""
        yield explanation.PRESET_COLUMNS, explained.preset_texts


def _document(ranking: rankings.ScoredRanking, metric: Metric, query: str | None) -> dict[str, Any]:
    """Return the explanation of a query, or of the mean, as JSON."""
    if query is None:
        return _mean_document(ranking.name, _explain_mean(metric, ranking))
    return _query_document(ranking.name, query, _explain_query(metric, query, ranking))


def _mean_document(name: str, explained: MeanExplanation) -> dict[str, Any]:
    return {
        "ranking": name,
        "metric": str(explained.metric),
        "mean": explained.mean,
        "n_queries": explained.n_queries,
        "n_undefined": explained.n_queries - explained.n_defined,
        "interval_over_ties": explained.interval,
        "presets": [
            _preset(preset, mean=preset.value, n_queries=explained.counts.get(preset.tool))
            for preset in explained.presets
        ],
    }


def _query_document(name: str, query: str, explained: Explanation) -> dict[str, Any]:
    fields = ("value", "columns", "rows", "n_hidden", "missed_columns", "missed", "ideal", "steps")
    return {
        "ranking": name,
        "query": query,
        "metric": str(explained.metric),
        **{field: getattr(explained, field) for field in fields},
        "interval_over_ties": explained.interval,
        "presets": [_preset(preset, value=preset.value) for preset in explained.presets],
    }


def _preset(preset: explanation.PresetValue, **numbers: Any) -> dict[str, Any]:
    return {"as": preset.tool, "name": preset.name, **numbers, "why": preset.reason}
