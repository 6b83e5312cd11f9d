"""Scores that are columns of the data: tables of any size, in batches, or a sample of their queries."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.cores import require_room
from ltr_harness._util.text import count_of, four_decimals
from ltr_harness.cli import options
from ltr_harness.cli.output import counts, print_table, say, say_again, say_caution, say_cautions, say_json
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
    """Scores in columns of the data: what the options of `options.score_columns` say."""

    data: Path
    names: Sequence[str]
    columns: Mapping[str, str]
    max_grade: float | None
    sample: int | None

    @classmethod
    def of(
        cls, names: Sequence[str], sample: int | None, source: RankingSource, baseline: str | None
    ) -> "ScoreColumns | None":
        """The columns, the baseline's first; None without ``--score-column``."""
        if not names:
            if sample is not None:
                raise UsageError("--sample without --score-column; expected scores in a column of --data")
            return None
        if source.data is None:
            raise UsageError("--score-column without --data; expected the table that has the column")
        for name, value in vars(source).items():
            if value and name not in ("data", "max_grade", "reader_options"):
                raise UsageError(f"{options.written(name)} with --score-column; expected one of them")
        if baseline is not None and baseline not in names:
            expected = f"expected one of {', '.join(names)}"
            raise UsageError(f"--baseline {baseline}: no such --score-column; {expected}")
        names = sorted(dict.fromkeys(names), key=lambda name: name != baseline)
        columns = _columns(source.data, source.reader_options)
        return cls(source.data, names, columns, source.max_grade, sample)

    def evaluated(self, metrics: Sequence[Metric]) -> "tuple[StreamEvaluation, list[Caution]]":
        """The metrics of every column, and cautions."""
        require_room(2, megabytes=256)  # what the libraries take that are imported here
        from ltr_harness.comparison.stream import evaluate_stream
        from ltr_harness.data.readers.column_names import orders_by_rank

        shown = sys.stderr.isatty()
        found = evaluate_stream(
            self.data, metrics, self.names, self.columns, max_grade=self.max_grade, sample=self.sample,
            progress=(lambda n: say_again(f"{count_of(n, 'row')} read")) if shown else None,
        )  # fmt: skip
        if shown:
            say_again(f"{'':40}\r")
        scaled = [name for name in found.metrics if name not in map(str, metrics)]
        cautions = [
            Caution(
                "ranks-for-scores", "note", "ranks its rows, 1 being the best", place=f"--score-column {name}"
            )
            for name in self.names
            if orders_by_rank(name)
        ]
        queries = count_of(found.n_queries, "query")
        if scaled and self.max_grade is None:
            cure = "--max-grade says which scale the labels are on"
            cautions.append(Caution("max-grade", "note", "the largest label", cure, ", ".join(scaled)))
        if found.sample is not None and found.n_queries < (self.sample or 0):
            text = f"{self.data} has {queries}; all were evaluated"
            cautions.append(Caution("whole-sample", "note", text, place=f"--sample {self.sample}"))
        if len(self.names) == 1 or found.moments is not None:  # else the comparison has it
            cautions += _few_judged(found)
        if found.moments is not None:
            text = f"the values of {queries} are not kept: means and moments alone"
            cautions.append(Caution("moments-alone", "note", text))
        return found, cautions


def _columns(path: Path, texts: Sequence[str]) -> dict[str, str]:
    """Role to column, as given or as the column's name says."""
    from ltr_harness.data.logs.log import open_log
    from ltr_harness.data.readers.column_names import column_for

    columns = {}
    for text in texts:
        role, equals, column = text.partition("=")
        if not equals or role.strip() not in _ROLES or not column.strip():
            expected = f"ROLE=COLUMN with --score-column, a role of {', '.join(_ROLES)}"
            raise UsageError(f"--column {text}; expected {expected}")
        columns[role.strip()] = column.strip()
    there = open_log(path).columns
    for role, name in (("query", "query_id"), ("label", "label")):
        free = [one for one in there if one not in columns.values()]
        if role not in columns and name not in there and (guessed := column_for(role, free)):
            columns[role] = guessed
            text = f"{role}: {guessed} (--column chooses others)"
            say_caution(Caution("guessed-columns", "note", text, place=str(path)))
    return columns


def _few_judged(found: "StreamEvaluation") -> Iterable[Caution]:
    """Return the caution that few documents are judged of those that the first metric looks at."""
    metric = found.metrics[0]
    shares = {score: by_metric[metric] for score, by_metric in found.judged.items() if metric in by_metric}
    return judged_share.few_judged(metric, parse_metric(metric).k, shares)


def say_moments(
    found: "StreamEvaluation",
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
    first = found.metrics[0]
    if in_json:
        judged = {"judged": found.judged} if found.judged else {}
        say_json({"means": found.means, **judged, "cautions": cautions, **as_json(found, first, method)})
        return
    say(f"{title}: {counts(query=found.n_queries, row=found.n_rows)}")
    rows = [[name, *(four_decimals(of[name]) for of in found.means.values())] for name in found.metrics]
    say()
    print_table(["mean", *found.means], rows)
    for line in judged_share.lines(found.judged, {name: parse_metric(name).k for name in found.metrics}):
        say(line)
    say_rest(found, first, method)
    say_cautions(cautions)


def say_rest(found: "StreamEvaluation", metric: str, method: Method) -> None:
    """The means that a sample estimates, and differences by moments."""
    from ltr_harness.report import formats

    percent = f"with {100 * method.confidence:g} % intervals:"
    if found.sample is not None:
        said = f"Sample of {found.n_queries:,} from {count_of(found.sample.n_all, 'query')}"
        say(f"\n{said}. Means over all of them, {percent}")
        cells: dict[str, list[str]] = {metric: [] for metric in found.metrics}
        for one, _, other, *ends in _estimates(found, method):
            cells[one].append(_cell(*ends, signed=other is not None))
        columns = [score if other is None else f"{score} - {other}" for score, other in _pairs(found)]
        print_table(["", *columns], [[name, *row] for name, row in cells.items()])
    elif differences := _differences(found, metric, method):
        rows = []
        for score, of in differences.items():
            cell = _cell(of.difference, of.ci_low, of.ci_high, signed=True)
            rows.append([score, cell, formats.p_value(of.p_corrected), of.verdict])
        say(f"\n{metric}, differences to {_pairs(found)[0][0]} by Student's t, {percent}")
        print_table(["", "difference", "p", "verdict"], rows, (0, 3))


def _cell(value: float, low: float, high: float, *, signed: bool) -> str:
    from ltr_harness.report import formats

    shown = formats.value_text(value, "difference" if signed else "metric")
    return f"{shown} {formats.interval(low, high, signed=signed)}"


def as_json(found: "StreamEvaluation", metric: str, method: Method) -> dict[str, Any]:
    """What `say_rest` prints."""
    if found.sample is not None:
        keys = ("metric", "ranking", "baseline", "mean", "ci_low", "ci_high")
        estimates = [dict(zip(keys, one, strict=True)) for one in _estimates(found, method)]
        return {"sample": {"n": found.n_queries, "of": found.sample.n_all, "estimates": estimates}}
    of = {score: vars(one) for score, one in _differences(found, metric, method).items()}
    return {"differences": {"metric": metric, "baseline": _pairs(found)[0][0], "of": of}} if of else {}


def _pairs(found: "StreamEvaluation") -> list[tuple[str, str | None]]:
    """Each column of scores, then each but the first with the first."""
    names = list(found.means)
    return [*((name, None) for name in names), *((name, names[0]) for name in names[1:])]


def _estimates(
    found: "StreamEvaluation", method: Method
) -> Iterator[tuple[str, str, str | None, float, float, float]]:
    for metric in found.metrics:
        for score, other in _pairs(found):
            yield metric, score, other, *found.estimate(metric, score, other, method.confidence)


def _differences(found: "StreamEvaluation", metric: str, method: Method) -> "Mapping[str, Difference]":
    """By moments, for which there is one test; none where values are kept."""
    if found.moments is None or len(found.moments.models) < 2:
        return {}
    source = click.get_current_context().get_parameter_source("test")
    if method.unit is not None or (source is click.core.ParameterSource.COMMANDLINE and method.test != "t"):
        what = f"--test {method.test}" if method.unit is None else "--unit"
        raise UsageError(f"{what} needs the values of all queries, which are not kept; expected --sample N")
    try:
        return found.moments.compare(metric, confidence=method.confidence, margin=method.margin)
    except DataError as error:  # too few queries, or the difference rests on few of them
        raise DataError(str(error).replace("compare() on the merged results", "--sample N")) from None
