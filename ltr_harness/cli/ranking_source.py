"""Where rankings are: the options of `evaluate`, `explain` and `compare`, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from ltr_harness.cli import data_source
from ltr_harness.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_PATH = click.Path(path_type=Path)

_OPTIONS = {
    "data": click.option("--data", type=_PATH, metavar="FILE", help="Labelled rows: LETOR, CSV, Parquet, …"),
    "reader": data_source.reader_option,
    "reader_options": data_source.reader_options,
    "scores": click.option(
        "--scores",
        type=_PATH,
        multiple=True,
        metavar="FILE",
        help="Scores for --data: one number per line, .npy, or a table with query_id, row or document_id, and score or "
        "rank.",
    ),
    "qrels": click.option(
        "--qrels",
        type=_PATH,
        metavar="FILE",
        help="Judgments: TREC, BEIR, MTEB, NTCIR, CSV, Parquet, JSON, …",
    ),
    "run": click.option(
        "--run",
        "run_files",
        type=_PATH,
        multiple=True,
        metavar="FILE",
        help="Ranking for --qrels: TREC, MS MARCO, CSV, Parquet, JSON, …",
    ),
    "all_queries": click.option(
        "--all-queries",
        is_flag=True,
        help="Queries of the qrels that a run lacks count as empty rankings (trec_eval -c).",
    ),
    "judged_only": click.option(
        "--judged-only", is_flag=True, help="Remove unjudged documents from the runs (trec_eval -J)."
    ),
    "depth": click.option(
        "--depth",
        type=click.IntRange(min=1),
        metavar="N",
        help="Look at the first N documents of each query of a run only (trec_eval -M).",
    ),
    "max_grade": click.option(
        "--max-grade",
        type=float,
        metavar="GRADE",
        help="Highest grade of the scale, for ERR and similar metrics.  [default: the largest label]",
    ),
}


_OTHERWISE = {"reader_name": "--reader", "reader_options": "--set", "run_files": "--run"}


def option(name: str) -> str:
    """How the user writes the option that `RankingSource` knows by a name."""
    return _OTHERWISE.get(name, f"--{name.replace('_', '-')}")


def options(*without: str) -> Callable[[F], F]:
    """The options that say where rankings come from; the values make a `RankingSource`."""

    def add(command: F) -> F:
        for name in reversed([name for name in _OPTIONS if name not in without]):
            command = _OPTIONS[name](command)
        return command

    return add


@dataclass(frozen=True, kw_only=True)
class RankingSource:
    """Where rankings and their judgments are: what these options say.

    Attributes:
        data: labelled documents; None where `qrels` has the judgments.
        qrels: judgments in TREC's format; None where `data` has them.
        scores: of the documents of `data`.
        run_files: rankings in TREC's format, for `qrels`.
        reader_name: the format of `data`; guessed if None.
        reader_options: of the reader, each ``key=value``.
        all_queries: queries of the qrels that a run lacks count 0.
        judged_only: documents that nobody judged are taken out of the runs.
        depth: documents of a run that count; None for all.
        max_grade: the scale's highest grade, for metrics that need it.
    """

    data: Path | None
    qrels: Path | None
    scores: Sequence[Path] = ()
    run_files: Sequence[Path] = ()
    reader_name: str | None = None
    reader_options: Sequence[str] = ()
    all_queries: bool = False
    judged_only: bool = False
    depth: int | None = None
    max_grade: float | None = None

    def refuse_contradictions(self) -> None:
        """
        Raises:
            UsageError: the options do not go together.
        """
        both = "give --data FILE --scores FILE, or --qrels FILE --run FILE"
        if (self.data is None) == (self.qrels is None):
            found = "neither --data nor --qrels" if self.data is None else "both --data and --qrels"
            raise UsageError(f"{found}; {both}")
        if self.data is not None and (
            what := self._given("run_files", "all_queries", "judged_only", "depth")
        ):
            raise UsageError(f"{what} with --data; {what} goes with --qrels; {both}")
        if self.qrels is not None and (what := self._given("scores", "reader_name", "reader_options")):
            raise UsageError(f"{what} with --qrels; {what} goes with --data; {both}")
        if self.data is not None and not self.scores:
            raise UsageError("--data without --scores FILE; expected at least one file of scores")
        if self.qrels is not None and not self.run_files:
            raise UsageError("--qrels without --run FILE; expected at least one run")
        if self.max_grade is not None and not (np.isfinite(self.max_grade) and self.max_grade > 0):
            raise UsageError(f"--max-grade {self.max_grade:g}; expected a grade above 0")

    def _given(self, *names: str) -> str | None:
        """The first of these options that was given, as the user writes it."""
        return next((option(name) for name in names if getattr(self, name)), None)
