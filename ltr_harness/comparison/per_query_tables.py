"""A table of per-query values, wherever it comes from: which column is which metric?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ltr_harness.comparison.comparable import FOREIGN, LABEL_FACTS
from ltr_harness.comparison.result import Entrant
from ltr_harness.errors import DataError, MetricError, Problem
from ltr_harness.groups import as_column
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.grammar import MetricName, metric_named
from ltr_harness.metrics.core.tool_names import TOOLS, own_name
from ltr_harness.metrics.table import built_in
from ltr_harness.own_files import is_own_file
from ltr_harness.readers.column_names import column_for
from ltr_harness.wording import FORMULA

if TYPE_CHECKING:
    import pandas as pd

_EXPECTED = "query_id and metric columns"
_RANKING = "a ranking needs its judgments: --qrels FILE, or compare(…, qrels=…)"


def read_table(path: Path) -> pd.DataFrame:
    """The table in a .parquet, .csv or .tsv file, query ids as text.

    Raises:
        DataError: it cannot be read.
    """
    import warnings

    import pandas as pd

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path.absolute())
        with warnings.catch_warnings():
            # rows longer than the header: pandas would cut them, or take their first field for an index
            warnings.simplefilter("error", pd.errors.ParserWarning)
            separator = "," if path.suffix == ".csv" else "\t"
            names = pd.read_csv(path, sep=separator, nrows=0, index_col=False).columns
            query = column_for("query", names.tolist())
            frame = pd.read_csv(
                path, sep=separator, dtype={} if query is None else {query: str}, index_col=False
            )
        return frame if query is None else frame.replace({query: FORMULA}, r"\1", regex=True)
    # for damaged, empty, ragged or undecodable files ValueErrors; the others for what pandas notes in Parquet
    except (ValueError, TypeError, LookupError, AttributeError, OSError, pd.errors.ParserWarning) as problem:
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise DataError(Problem(str(path), f"cannot be read as a table: {reason}", _EXPECTED)) from None


def from_table(
    table: Any, name: str, convention: str | None, notes: list[str], unit: str | None = None
) -> Entrant:
    """One entrant from a table with ``query_id`` (column or index) and one column per metric.

    Raises:
        DataError: no query or no query ids, a query or a metric twice, no metric at all, text for numbers.
        UsageError: a convention that is not known.
    """
    frame = _as_pandas(table, name)
    frame = frame.set_axis([str(column) for column in frame.columns], axis="columns")
    query = column_for("query", frame.columns.tolist())
    if query is None:
        found = ", ".join(frame.columns)
        raise DataError(Problem(name, f"no column query_id (columns: {found})", _EXPECTED))
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(Problem(name, f"has several columns {twice}", "one column per metric"))
    if frame.empty:
        raise DataError(Problem(name, "holds no query", "one row per query"))
    ids = text_ids(frame[query].to_numpy(), f"{name}: {query}")
    if len(set(ids.tolist())) != ids.size:
        twice = frame[query][frame[query].duplicated()].iloc[0]
        raise DataError(Problem(name, f"query {str(twice)!r} has several rows", "one row per query"))
    columns = _Columns.of(
        [column for column in frame.columns if column not in (query, unit)], name, convention
    )
    notes += columns.notes
    attributes = [*(fact for fact in LABEL_FACTS if fact in frame), *columns.others]
    if unit is not None and unit in frame and unit not in attributes:
        attributes.append(unit)
    return Entrant(
        name=name,
        query_ids=ids,
        values={metric: _numbers(frame[column], name)[None, :] for metric, column in columns.metrics.items()},
        replicates=("1",),
        higher_is_better=columns.higher_is_better,
        query_attributes={column: frame[column].to_numpy() for column in attributes},
    )


def _as_pandas(table: Any, name: str) -> pd.DataFrame:
    """The table as a frame of pandas, an index that names the queries among its columns."""
    import pyarrow as pa

    if hasattr(table, "iloc"):
        frame = cast("pd.DataFrame", table)
        indexed = column_for("query", [str(level) for level in frame.index.names]) is not None
        return frame.reset_index() if indexed else frame
    try:
        return cast("pd.DataFrame", pa.table(table).to_pandas())
    except (TypeError, ValueError, pa.ArrowException) as problem:
        raise DataError(Problem(name, f"cannot be read as a table: {problem}", _EXPECTED)) from None


def _numbers(column: pd.Series[Any], name: str) -> NDArray[np.float64]:
    try:
        return column.to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise DataError(Problem(name, f"column {column.name} has a value that is not a number")) from None


@dataclass
class _Columns:
    """What the columns of a table are.

    Attributes:
        metrics: what each is compared as, to its column.
        higher_is_better: their directions.
        others: columns that are no metric.
        notes: what goes by another name than its column, and what is left out.
    """

    metrics: dict[str, str] = field(default_factory=dict)
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, columns: Sequence[str], table: str, convention: str | None) -> _Columns:
        """Sort the columns of the table called `table`."""
        kinds = cls()
        for column in columns:
            if column in LABEL_FACTS:
                continue
            named = _compared_as(column, convention)
            if named is None:
                kinds.others.append(column)
                continue
            metric, higher_is_better = named
            if metric in kinds.metrics:
                raise DataError(
                    Problem(
                        table,
                        f"columns {kinds.metrics[metric]} and {column} are one metric, {metric}",
                        "one column per metric",
                    )
                )
            kinds.metrics[metric] = column
            kinds.higher_is_better[metric] = higher_is_better
        if not kinds.metrics:
            raise DataError(
                Problem(
                    table,
                    f"no column is a metric (columns: {', '.join(kinds.others) or 'none'})",
                    "one column per metric, named as ndcg@10",
                    _cure(kinds.others) or (_RANKING if column_for("document_id", kinds.others) else ""),
                )
            )
        kinds._note_names(table, convention)
        return kinds

    def _note_names(self, table: str, convention: str | None) -> None:
        foreign = {column: metric for metric, column in self.metrics.items() if metric.startswith(FOREIGN)}
        if convention is not None:
            renamed = [
                f"{column} is {metric}"
                for metric, column in self.metrics.items()
                if column not in (metric, *foreign)
            ]
            if renamed:
                self.notes.append(f"{table}: as {convention} names metrics, {', '.join(renamed)}")
        if foreign:
            kept = ", ".join(f"{column} as {metric}" for column, metric in foreign.items())
            self.notes.append(
                f"{table}: {kept}: another tool's name, compared under whatever definition it has there"
                + _semicolon(_cure(list(foreign)))
            )
        if self.others:
            self.notes.append(
                f"{table}: ignored, not a metric: {', '.join(self.others)}" + _semicolon(_cure(self.others))
            )


def _compared_as(column: str, convention: str | None) -> tuple[str, bool] | None:
    """The name to compare a column under, and whether higher is better; None for what is no metric.

    Names that our grammar would read in capitals, by an alias or as a tool's own are another tool's: ``nDCG@5``, ``AP``
    and ``ndcg_cut_5`` are not what `ndcg@5` and `map` are here.
    """
    if convention is not None:
        theirs = metric_named(convention, column)
        if theirs is not None:
            return str(theirs), theirs.higher_is_better
    if is_own_file(column):  # a table brings numbers, not code to execute
        return None
    text = column.removeprefix(FOREIGN)
    try:
        metric = parse_metric(text)
    except MetricError:
        return None
    name = MetricName.of(text).name.strip()
    ours = built_in(name) in (name, None) and own_name(name) is None
    return (str(metric) if ours and text == column else FOREIGN + text), metric.higher_is_better


def _cure(names: Sequence[str]) -> str:
    """The conventions that know these names."""
    known = {tool: [name for name in names if metric_named(tool, name)] for tool in TOOLS}
    tools = [f"convention={tool!r}" for tool, meant in known.items() if meant]
    if not tools:
        return ""
    meant = dict.fromkeys(name for names in known.values() for name in names)
    return f"{' or '.join(tools)} says what {', '.join(meant)} means"


def _semicolon(text: str) -> str:
    return f"; {text}" if text else ""


def text_ids(ids: NDArray[Any], name: str = "query_id") -> NDArray[np.str_]:
    """Ids of any kind as text.

    Shapes: `ids` (n_queries,).

    Raises:
        DataError: one is too long.
    """
    return as_column([str(query) for query in ids.tolist()], name)
