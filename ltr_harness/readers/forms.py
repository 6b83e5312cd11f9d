"""Judgments and rankings in the forms that other tools have them, told by what they are, in memory and in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ltr_harness.errors import DataError, Problem
from ltr_harness.readers.file_forms import read_file
from ltr_harness.readers.files import located
from ltr_harness.readers.listing import Listing, Role
from ltr_harness.readers.object_forms import listing_of
from ltr_harness.readers.trec import Qrels, TrecRun
from ltr_harness.wording import count_of


def qrels_of(value: Any, source: str = "qrels") -> Qrels:
    """Judgments in any form.

    Raises:
        DataError: the form is known and the content is not right; every place that is wrong.
        UsageError: no form is known that looks like this.

    Example:
        >>> qrels_of({"q1": {"d1": 2, "d2": 0}}).form
        'dict {query: {document: grade}}'
    """
    recognised = value if isinstance(value, Qrels) else _recognised(value, source, "qrels")
    return recognised.qrels() if isinstance(recognised, Listing) else cast(Qrels, recognised)


def run_of(value: Any, source: str = "run") -> TrecRun:
    """A ranking in any form; see `qrels_of`.

    Example:
        >>> run_of([("q1", "d1", 0.5), ("q1", "d2", 2.5)]).form
        'rows of (query, document, score)'
    """
    recognised = value if isinstance(value, TrecRun) else _recognised(value, source, "run")
    return recognised.run() if isinstance(recognised, Listing) else cast(TrecRun, recognised)


def _recognised(value: Any, source: str, role: Role) -> Listing | Qrels | TrecRun:
    if isinstance(value, str | Path):
        return read_file(located([str(value)], Path())[0], role)
    return listing_of(value, source, role)


def recognised(qrels: Qrels, runs: Mapping[str, TrecRun]) -> list[str]:
    """What judgments and rankings were taken for, one line each."""
    return [
        f"{qrels.path}: {described(qrels)}",
        *(f"{name}: {described(run)}" for name, run in runs.items()),
    ]


def described(table: Qrels | TrecRun) -> str:
    """What judgments or a ranking were taken for, and how large they are."""
    rows, word = (table.grades, "judgment") if isinstance(table, Qrels) else (table.scores, "row")
    return f"{table.form}: {count_of(table.queries.values.size, 'query')}, {count_of(rows.size, word)}"


def all_of(reads: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each returns, or the problems of all.

    Raises:
        DataError: with every problem of each.
    """
    values: list[Any] = []
    problems: list[Problem] = []
    for read in reads:
        try:
            values.append(read())
        except DataError as error:
            problems += error.problems
    if problems:
        raise DataError(problems)
    return values
