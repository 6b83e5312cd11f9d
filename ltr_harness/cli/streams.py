"""Scores that are columns of the data: tables of any size, in batches, or a sample of their queries."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.cores import require_room
from ltr_harness._util.number_text import NumberFormat, four_decimals, number_text
from ltr_harness._util.text import count_of
from ltr_harness.cli import options
from ltr_harness.cli.output import (
    counts,
    echo,
    echo_caution,
    echo_cautions,
    echo_json,
    print_table,
    progress_line,
)
from ltr_harness.cli.rankings import RankingSource
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import Caution, DataError, UsageError
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core import judged_share

if TYPE_CHECKING:
    from ltr_harness.comparison.contrasts import Difference
    from ltr_harness.comparison.stream import StreamEvaluation

_ROLES = ("query", "label", "document_id", "weight", "judged", "retrieved")


@dataclass(frozen=True)
class ScoreColumns:
    """Scores in columns of the data, as the options of `options.score_columns` name them."""

    data: Path
    names: Sequence[str]
    columns: Mapping[str, str]
    max_grade: float | None
    sample: int | None

    @classmethod
    def from_options(
        cls, names: Sequence[str], sample: int | None, source: RankingSource, baseline: str | None
    ) -> "ScoreColumns | None":
        """Return the columns, the baseline's first; None without ``--score-column``."""
        if not names:
            if sample is not None:
                raise UsageError("--sample without --score-column; expected scores in a column of --data")
            return None
        if source.data is None:
            raise UsageError("--score-column without --data; expected the table that has the column")
        for name, value in vars(source).items():
            if value and name not in ("data", "max_grade", "reader_options"):
                raise UsageError(f"{options.option_name(name)} with --score-column; expected one of them")
        if baseline is not None and baseline not in names:
            expected = f"expected one of {', '.join(names)}"
            raise UsageError(f"--baseline {baseline}: no such --score-column; {expected}")
        names = sorted(dict.fromkeys(names), key=lambda name: name != baseline)
        columns = _columns(source.data, source.reader_options)
        return cls(source.data, names, columns, source.max_grade, sample)

    def evaluated(self, metrics: Sequence[Metric]) -> "tuple[StreamEvaluation, list[Caution]]":
        """Return the metrics of every column, and cautions."""
        require_room(2, megabytes=256)  # what the libraries take that are imported here
        from ltr_harness.comparison.stream import evaluate_stream

        is_interactive = sys.stderr.isatty()
        evaluation = evaluate_stream(
            self.data,
            metrics,
            self.names,
            self.columns,
            max_grade=self.max_grade,
            sample=self.sample,
            progress=_print_rows_read if is_interactive else None,
        )
        if is_interactive:
            progress_line(f"{'':40}\r")
        return evaluation, self._cautions(evaluation, metrics)

    def _cautions(self, evaluation: "StreamEvaluation", metrics: Sequence[Metric]) -> list[Caution]:
        from ltr_harness.data.readers.column_names import orders_by_rank

        cautions = []
        for name in self.names:
            if orders_by_rank(name):
                text = "ranks its rows, 1 being the best"
                cautions.append(Caution("ranks-for-scores", "note", text, place=f"--score-column {name}"))
        scaled = [name for name in evaluation.metrics if name not in map(str, metrics)]
        if scaled and self.max_grade is None:
            cure = "--max-grade sets the top of their scale"
            cautions.append(Caution("max-grade", "note", "the largest label", cure, ", ".join(scaled)))
        queries = count_of(evaluation.n_queries, "query")
        if evaluation.sample is not None and evaluation.n_queries < (self.sample or 0):
            text = f"{self.data} has {queries}; all were evaluated"
            cautions.append(Caution("whole-sample", "note", text, place=f"--sample {self.sample}"))
        if len(self.names) == 1 or evaluation.moments is not None:  # else the comparison has it
            cautions += _few_judged(evaluation)
        if evaluation.moments is not None:
            text = f"the values of {queries} are not kept, only means and moments"
            cautions.append(Caution("moments-alone", "note", text))
        return cautions


def _few_judged(evaluation: "StreamEvaluation") -> Iterable[Caution]:
    """Return the caution that few documents are judged of those that the first metric looks at."""
    metric = evaluation.metrics[0]
    shares = {
        score: by_metric[metric] for score, by_metric in evaluation.judged.items() if metric in by_metric
    }
    return judged_share.few_judged(metric, parse_metric(metric).k, shares)


def _print_rows_read(n_rows: int) -> None:
    progress_line(f"{count_of(n_rows, 'row')} read")


def _columns(path: Path, texts: Sequence[str]) -> dict[str, str]:
    """Return the column of each role, as given or as the column's name says."""
    from ltr_harness.data.logs.log import open_log
    from ltr_harness.data.readers.column_names import column_for

    columns = _parse_columns(texts)
    of_table = open_log(path).columns
    for role, default in (("query", "query_id"), ("label", "label")):
        if role in columns or default in of_table:
            continue
        guess = column_for(role, [name for name in of_table if name not in columns.values()])
        if guess is not None:
            columns[role] = guess
            text = f"{role}: {guess} (--column chooses others)"
            echo_caution(Caution("guessed-columns", "note", text, place=str(path)))
    return columns


def _parse_columns(texts: Sequence[str]) -> dict[str, str]:
    columns = {}
    for text in texts:
        role, equals, column = text.partition("=")
        if not equals or role.strip() not in _ROLES or not column.strip():
            expected = f"ROLE=COLUMN with --score-column, a role of {', '.join(_ROLES)}"
            raise UsageError(f"--column {text}; expected {expected}")
        columns[role.strip()] = column.strip()
    return columns


def print_moments(
    evaluation: "StreamEvaluation",
    title: str,
    cautions: Sequence[Caution],
    method: Method,
    reports: bool,
    in_json: bool,
) -> None:
    """Print means and differences where the values of queries are not kept."""
    if reports:
        lacking = "gates and reports need the values of all queries, which are not kept"
        raise UsageError(f"{lacking}; expected --sample N")
    primary, means = evaluation.metrics[0], evaluation.means
    if in_json:
        judged = {"judged": evaluation.judged} if evaluation.judged else {}
        echo_json({"means": means, **judged, "cautions": cautions, **as_json(evaluation, primary, method)})
        return
    echo(f"{title}: {counts(query=evaluation.n_queries, row=evaluation.n_rows)}")
    rows = [
        [name, *(four_decimals(by_metric[name]) for by_metric in means.values())]
        for name in evaluation.metrics
    ]
    echo()
    print_table(["mean", *means], rows)
    cutoffs = {name: parse_metric(name).k for name in evaluation.metrics}
    for line in judged_share.lines(evaluation.judged, cutoffs):
        echo(line)
    print_sample(evaluation, primary, method)
    echo_cautions(cautions)


def print_sample(evaluation: "StreamEvaluation", metric: str, method: Method) -> None:
    """Print the means that a sample estimates, or the differences by moments."""
    from ltr_harness.report import formats

    intervals = f"with {100 * method.confidence:g} % intervals:"
    if evaluation.sample is not None:
        n_all = count_of(evaluation.sample.n_all, "query")
        sample = f"Sample of {evaluation.n_queries:,} from {n_all}"
        echo(f"\n{sample}. Means over all of them, {intervals}")
        _print_estimates(evaluation, method)
    elif differences := _differences(evaluation, metric, method):
        rows = []
        for score, difference in differences.items():
            cell = _cell(difference.difference, difference.ci_low, difference.ci_high, signed=True)
            rows.append([score, cell, formats.p_value(difference.p_corrected), difference.verdict])
        baseline = next(iter(evaluation.means))
        echo(f"\n{metric}, differences to {baseline} by Student's t, {intervals}")
        print_table(["", "difference", "p", "verdict"], rows, (0, 3))


def _print_estimates(evaluation: "StreamEvaluation", method: Method) -> None:
    """Print the means of each column of scores, then its differences to the first, with their intervals."""
    cells: dict[str, list[str]] = {metric: [] for metric in evaluation.metrics}
    for metric, _, baseline, *interval in _estimates(evaluation, method):
        cells[metric].append(_cell(*interval, signed=baseline is not None))
    columns = []
    for score, baseline in _pairs(evaluation):
        columns.append(score if baseline is None else f"{score} - {baseline}")
    print_table(["", *columns], [[name, *row] for name, row in cells.items()])


def _cell(value: float, low: float, high: float, *, signed: bool) -> str:
    from ltr_harness.report import formats

    number_format: NumberFormat = "difference" if signed else "metric"
    return f"{number_text(value, number_format)} {formats.interval(low, high, number_format)}"


def as_json(evaluation: "StreamEvaluation", metric: str, method: Method) -> dict[str, Any]:
    """Return the values of `print_sample`."""
    if evaluation.sample is not None:
        keys = ("metric", "ranking", "baseline", "mean", "ci_low", "ci_high")
        estimates = [dict(zip(keys, values, strict=True)) for values in _estimates(evaluation, method)]
        n, n_all = evaluation.n_queries, evaluation.sample.n_all
        return {"sample": {"n": n, "of": n_all, "estimates": estimates}}
    differences = {score: vars(pair) for score, pair in _differences(evaluation, metric, method).items()}
    if not differences:
        return {}
    baseline = next(iter(evaluation.means))
    return {"differences": {"metric": metric, "baseline": baseline, "of": differences}}


def _pairs(evaluation: "StreamEvaluation") -> list[tuple[str, str | None]]:
    """Return each column of scores, then each but the first with the first."""
    names = list(evaluation.means)
    return [*((name, None) for name in names), *((name, names[0]) for name in names[1:])]


def _estimates(
    evaluation: "StreamEvaluation", method: Method
) -> Iterator[tuple[str, str, str | None, float, float, float]]:
    for metric in evaluation.metrics:
        for score, baseline in _pairs(evaluation):
            yield metric, score, baseline, *evaluation.estimate(metric, score, baseline, method.confidence)


def _differences(evaluation: "StreamEvaluation", metric: str, method: Method) -> "Mapping[str, Difference]":
    """Return the differences by moments, for which there is one test; none where values are kept."""
    moments = evaluation.moments
    if moments is None or len(moments.models) < 2:
        return {}
    _refuse_tests_of_values(method)
    try:
        return moments.compare(metric, confidence=method.confidence, margin=method.margin)
    except DataError as error:  # too few queries, or the difference rests on few of them
        raise DataError(str(error).replace("compare() on the merged results", "--sample N")) from None


def _refuse_tests_of_values(method: Method) -> None:
    """Raise a UsageError for a unit, or for another test than Student's t."""
    source = click.get_current_context().get_parameter_source("test")
    if method.unit is not None:
        option = "--unit"
    elif source is click.core.ParameterSource.COMMANDLINE and method.test != "t":
        option = f"--test {method.test}"
    else:
        return
    raise UsageError(f"{option} needs the values of all queries, which are not kept; expected --sample N")
