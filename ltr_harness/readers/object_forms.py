"""Judgments and rankings in the memory, in the forms that other tools have them: a line in `OBJECTS` each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.readers.arrow_table import ArrowColumns
from ltr_harness.readers.listing import WORD, Listing, Role, first_of, of_mapping, of_rows, of_table

ACCEPTED = (
    "a file, a dict {query: {document: value}}, a table (pandas, Polars, Arrow, DuckDB), rows of (query, document, "
    "value), or an object of ranx or ir_datasets"
)


def listing_of(value: Any, source: str, role: Role) -> Listing:
    """The rows of an object.

    Raises:
        DataError: the form is known and the content is not right.
        UsageError: no form is known that looks like this.
    """
    for form in OBJECTS:
        if form.fits(value):
            return form.listing(value, source, role)
    raise UsageError(
        Problem(source, f"cannot tell what a {type(value).__module__}.{type(value).__name__} is", ACCEPTED)
    )


def is_one(value: Any) -> bool:
    """Whether a value is judgments or a ranking by itself, not several under names or in a list."""
    if isinstance(value, Mapping):
        inner = next(iter(value.values()), None)
        return isinstance(inner, Mapping) and not any(isinstance(one, Mapping) for one in inner.values())
    if isinstance(value, list | tuple):
        return bool(value) and _is_row(value[0])
    return True


class ObjectForm(NamedTuple):
    """Objects of one kind, and how they become rows."""

    fits: Callable[[Any], bool]
    listing: Callable[[Any, str, Role], Listing]


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0].lstrip("_")


def _is_row(value: Any) -> bool:
    if isinstance(value, Mapping):
        return not any(isinstance(inner, Mapping) for inner in value.values())
    scalars = isinstance(value, tuple) and all(
        isinstance(cell, str) or not hasattr(cell, "__len__") for cell in value
    )
    return scalars and not any(isinstance(cell, Path) for cell in value) and len(value) > 2


def _of_ranx(value: Any, source: str, role: Role) -> Listing:
    form = f"ranx {type(value).__name__}"
    if type(value).__name__ != {"qrels": "Qrels", "run": "Run"}[role]:
        raise DataError(Problem(source, f"is a {form}", "ranx Qrels" if role == "qrels" else "a ranx Run"))
    return of_mapping(value.to_dict(), source, form, value.name or "")


def _of_mapping(value: Mapping[Any, Any], source: str, role: Role) -> Listing:
    if role == "qrels" and (ratings := _ratings(value)) is not None:
        return _of_ratings(ratings, source)
    wrong = next(((query, inner) for query, inner in value.items() if not isinstance(inner, Mapping)), None)
    if wrong is not None:
        found = f"holds {type(wrong[1]).__name__} where documents should be"
        raise DataError(Problem(f"{source}[{wrong[0]!r}]", found, f"{{query: {{document: {WORD[role]}}}}}"))
    return of_mapping(value, source, f"dict {{query: {{document: {WORD[role]}}}}}")


def _of_frame(value: Any, source: str, role: Role) -> Listing:
    import pyarrow as pa

    library = _library(value)
    lazy = hasattr(value, "collect") and not hasattr(value, "__arrow_c_stream__")
    try:
        if hasattr(value, "iloc"):
            named = any(name is not None for name in value.index.names)
            table = pa.Table.from_pandas(value.reset_index() if named else value, preserve_index=False)
        else:
            table = pa.table(value.collect() if lazy else value)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as problem:
        raise DataError(Problem(source, f"cannot be read as a table: {problem}")) from None
    return of_table(ArrowColumns(table, Path(source)), role, f"{library} {'lazy ' * lazy}table")


def _of_rows(value: Iterable[Any], source: str, role: Role) -> Listing:
    """Tuples of three, named tuples and dicts by their fields' names."""
    import pyarrow as pa

    first, rows = first_of(value)
    if first is None or (isinstance(first, tuple) and not hasattr(first, "_fields")):
        rows = list(rows)
        wrong = next(((at, row) for at, row in enumerate(rows) if not _is_triple(row)), None)
        if wrong is not None:
            found = f"is {str(wrong[1])[:60]!r}"
            raise DataError(
                Problem(f"{source}: row {wrong[0] + 1}", found, f"(query, document, {WORD[role]})")
            )
        return of_rows(rows, source, f"rows of (query, document, {WORD[role]})")
    try:
        if isinstance(first, Mapping):
            table, form = pa.Table.from_pylist([dict(row) for row in rows]), "list of dicts"
        else:
            cells = zip(*rows, strict=True)
            table = pa.table(dict(zip(first._fields, map(list, cells), strict=True)))
            form = f"{_library(first)} {type(first).__name__} tuples"
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as problem:
        raise DataError(
            Problem(source, f"its rows are not alike: {problem}", f"rows like {first!r}")
        ) from None
    return of_table(ArrowColumns(table, Path(source)), role, form)


def _is_triple(row: Any) -> bool:
    return isinstance(row, tuple) and len(row) == 3


def _ratings(value: Any) -> Any | None:
    """OpenSearch's list of judgments, as the Search Relevance Workbench takes and returns it; None where it is none."""
    if isinstance(value, Mapping):
        hits = value.get("hits")
        if isinstance(hits, Mapping) and hits.get("hits"):
            return _ratings(hits["hits"][0].get("_source", {}))
        value = value.get("judgmentRatings")
    is_list = isinstance(value, list) and value and isinstance(value[0], Mapping)
    return value if is_list and {"query", "ratings"} <= value[0].keys() else None


def _of_ratings(value: Any, source: str) -> Listing:
    """Ratings are text there: "0.000"."""
    try:
        rows = [
            (judged["query"], rating["docId"], float(rating["rating"]))
            for judged in value
            for rating in judged["ratings"]
        ]
    except (KeyError, TypeError, ValueError) as problem:
        found = f"a rating cannot be read: {type(problem).__name__} {problem}"
        raise DataError(
            Problem(source, found, '{"query": …, "ratings": [{"docId": …, "rating": "1.0"}]}')
        ) from None
    return of_rows(rows, source, "judgments of OpenSearch's Search Relevance Workbench")


OBJECTS = (
    ObjectForm(lambda value: _library(value) == "ranx", _of_ranx),
    ObjectForm(lambda value: isinstance(value, Mapping), _of_mapping),
    ObjectForm(
        lambda value: hasattr(value, "qrels_iter"),  # a data set of ir_datasets
        lambda value, source, role: _of_rows(
            value.qrels_iter() if role == "qrels" else value.scoreddocs_iter(), source, role
        ),
    ),
    ObjectForm(
        lambda value: any(hasattr(value, name) for name in ("iloc", "collect_schema", "__arrow_c_stream__")),
        _of_frame,
    ),
    ObjectForm(
        lambda value: _ratings(value) is not None, lambda value, source, role: _of_ratings(value, source)
    ),
    ObjectForm(lambda value: isinstance(value, Iterable), _of_rows),
)
