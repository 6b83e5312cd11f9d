"""`ltr-harness explain`: the arithmetic of one query, or every tool's mean over all of them."""

import difflib
import io
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

import ltr_harness
from ltr_harness._util.text import count_of, printable
from ltr_harness.cli import metric_names, options, rankings
from ltr_harness.cli.output import say, say_cautions, say_json
from ltr_harness.errors import UsageError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core import explanation
from ltr_harness.metrics.core.explanation import Explanation, MeanExplanation
from ltr_harness.metrics.explain import explain_mean, explain_query


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
    parsed = parse_metric(metric)
    if run_folder is None:
        loaded = rankings.load_rankings(rankings.RankingSource(**given))
    else:
        if also := [name for name, value in given.items() if value and name != "max_grade"]:
            found = f"{run_folder} with {options.written(also[0])}"
            raise UsageError(f"{found}; expected a run folder or files, not both")
        from ltr_harness.cli import stored_runs

        run = ltr_harness.load_run(run_folder)
        of_run = stored_runs.scored(run)
        # the scale of its grades is the one it was evaluated on
        grade = given["max_grade"] if given["max_grade"] is not None else stored_runs.grade_scale(run.record)
        (parsed,) = run.record.measuring([parsed])
        notes = tuple(stored_runs.learned_notes([parsed]))
        loaded = rankings.Rankings((of_run,), of_run.judgments, run_folder, grade, notes)
    (scaled,), of_scale = loaded.with_max_grade([parsed])
    cautions = [*loaded.cautions, *of_scale, *metric_names.tools_named([metric])]
    most = 100 if rows is None else rows or None
    pages: list[Any] = []
    for one in loaded.all:
        if query is None:
            mean = explain_mean(scaled, one.judgments, one.scores, one.retrieved)
            pages.append(_mean_document(one.name, mean) if as_json else _page(_mean_parts(one.name, mean)))
        else:
            of_query = query, one.name, _of_query(scaled, query, one)
            pages.append(_document(*of_query) if as_json else _page(_parts(*of_query, most)))
    if as_json:
        pages = [page | {"cautions": cautions} for page in pages]
        say_json(pages[0] if len(pages) == 1 else pages)
        return
    say("\n\n".join(pages))
    say_cautions(cautions)


def _of_query(metric: Metric, query: str, scored: rankings.Scored) -> Explanation:
    groups = scored.judgments.groups
    names = [str(name) for name in groups.ids.tolist()]
    if query not in names:
        close = difflib.get_close_matches(query, names, n=3) or names[:3]
        found = f"no query {query!r} among its {len(names):,}; there is {', '.join(close)}"
        raise UsageError(f"{scored.path}: {found}")
    at = names.index(query)
    part = slice(int(groups.boundaries[at]), int(groups.boundaries[at + 1]))
    listed = None if scored.retrieved is None else scored.retrieved[part]
    return explain_query(metric, scored.judgments.take(np.array([at])), scored.scores[part], listed)


_Part = str | tuple[Sequence[str], Sequence[Sequence[str]]]  # a line, or a table's head and rows


def _page(parts: Iterable[_Part]) -> str:
    """Lines and tables as wide as the terminal; long reasons and document ids wrap."""
    from rich.console import Console
    from rich.table import Table

    width = max(shutil.get_terminal_size((80, 24)).columns, 72) if sys.stdout.isatty() else 80
    plain: dict[str, Any] = dict.fromkeys(("force_terminal", "highlight", "markup", "emoji"), False)
    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, **plain)
    for part in parts:
        if isinstance(part, str):
            console.print(part)
            continue
        grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
        for column in part[0]:
            may_wrap = column in ("why", "document", "missed document", "tied ranks")
            justify: Literal["left", "right"] = "left" if column in explanation.LEFT else "right"
            grid.add_column(column, justify=justify, overflow="fold", no_wrap=not may_wrap)
        for row in part[1]:
            grid.add_row(*map(printable, row))
        console.print(grid)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _mean_parts(name: str, explained: MeanExplanation) -> Iterator[_Part]:
    yield f"{printable(name)}: {explained.heading}\n"
    if explained.presets:
        yield explanation.MEAN_COLUMNS, explained.preset_texts
    else:
        yield f"{explained.metric.name} is not a metric of any tool with known conventions"


def _parts(query: str, name: str, explained: Explanation, most: int | None) -> Iterator[_Part]:
    result = explained.text_of(explained.value)
    yield f"{printable(name)}, query {printable(query)}: {explained.metric} = {result}\n"
    shown = explained.texts[:most]
    yield explained.columns, shown
    if more := len(explained.rows) - len(shown):
        yield f"({count_of(more, 'more document')}; --rows 0 shows all)"
    if explained.n_hidden:
        yield f"({count_of(explained.n_hidden, 'more document')} below the cutoff)"
    missed, unshown = explained.missed_texts(most)
    if missed:
        yield ""
        yield explained.missed_columns, missed
    yield from (*unshown, f"\n{explained.ideal_text(most)}", *explained.lines_below)
    if explained.presets:
        yield ""
        yield explanation.PRESET_COLUMNS, explained.preset_texts


def _mean_document(name: str, explained: MeanExplanation) -> dict[str, Any]:
    n = explained.counts
    return {
        "ranking": name,
        "metric": str(explained.metric),
        "mean": explained.mean,
        "n_queries": explained.n_queries,
        "n_undefined": explained.n_queries - explained.n_defined,
        "interval_over_ties": explained.interval,
        "presets": [_preset(one, mean=one.value, n_queries=n.get(one.tool)) for one in explained.presets],
    }


def _document(query: str, name: str, explained: Explanation) -> dict[str, Any]:
    fields = ("value", "columns", "rows", "n_hidden", "missed_columns", "missed", "ideal", "steps")
    return {
        "ranking": name,
        "query": query,
        "metric": str(explained.metric),
        **{field: getattr(explained, field) for field in fields},
        "interval_over_ties": explained.interval,
        "presets": [_preset(one, value=one.value) for one in explained.presets],
    }


def _preset(one: explanation.PresetValue, **numbers: Any) -> dict[str, Any]:
    return {"as": one.tool, "name": one.name, **numbers, "why": one.reason}
