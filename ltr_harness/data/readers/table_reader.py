"""The reader of tables, whose options name the columns of queries, labels and features."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.logs.settings import ListColumns, SpanText
from ltr_harness.data.readers.column_names import (
    ROLES,
    column_for,
    columns_named,
    is_id,
    is_outcome,
    time_and_user,
)
from ltr_harness.data.readers.nearly_numeric import nearly_numeric
from ltr_harness.data.readers.reader import FileReader, ValueOptions
from ltr_harness.data.readers.rows import Rows, assembled, limited, repeated
from ltr_harness.data.readers.table_columns import OpenedTable, Roles, TableColumns, joined
from ltr_harness.data.readers.text_files import Bound, located
from ltr_harness.data.relevance.rule import Relevance, columns_to_read, lacking
from ltr_harness.data.time_folds import CalendarSpan
from ltr_harness.errors import Caution, DataError, MismatchError, Problem, all_of

if TYPE_CHECKING:
    from ltr_harness.data.relevance.labels import RuleLabels


_DOCUMENT = "document_id"


class Ageing(BaseModel):
    """Weights in training that halve with age, from the newest row that is learned from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    half_life: SpanText = Field(
        description="After which a row counts half, such as 90 days or 3 months; a year has 365.25 days."
    )
    by: str | None = Field(
        default=None,
        description="Column with times or dates, which may be one of `attributes`. Default: `timestamp`.",
    )
    column: str | None = Field(
        default=None,
        description="Column with weights of rows, which are multiplied; metrics take these alone.",
    )


class TableReader(FileReader, ValueOptions):
    """A reader of tables with one row per document of a query."""

    query: str | Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        default="query_id",
        description="Column that says which query a row belongs to: text, integers, dates or times. Several columns, "
        "such as [week, customer], are a key together; ids are then joined by /, as in 31/4711.",
    )
    label: str = Field(
        default="label", description="Column with the grade of the row, or another number, such as a return."
    )
    features: tuple[str, ...] | None = Field(
        default=None,
        description="Columns to use as features. Default: every numeric column that has no other role and no name of "
        "an id, a time or an outcome, such as user_id, timestamp or purchase; and those that are categories.",
    )
    categorical: tuple[str, ...] = Field(
        default=(),
        description="Features that are texts or integers without an order, such as a brand or a colour; boosters learn "
        "from them as categories, and an empty cell is missing. Columns whose type says so (pandas' category, "
        "Arrow's dictionary of texts) need no naming.",
    )
    weight: str | Ageing | None = Field(
        default=None,
        description="Column with weights of rows: what each counts in training, by LightGBM and by objectives that "
        "look at one row at a time. A query counts the mean of its rows' in metrics and in all other objectives. "
        "{half_life: 90 days, by: day}: weights that halve with age, in training alone.",
    )
    position: str | None = Field(
        default=None, description="Column with the whole-number position at which the row was shown."
    )
    document_id: str | None = Field(
        default=None,
        description="Column that names the document. Default: `document_id`, if there is one and it is nowhere empty.",
    )
    retrieved: str | None = Field(
        default=None,
        description="Column with 1 (or true) for candidates and 0 (or false) for missed documents: judged ones that "
        "the retriever did not return. They count in ideal lists and numbers of relevant documents; nothing is learned "
        "from them, and their features are not read.",
    )
    attributes: tuple[str, ...] = Field(
        default=(),
        description="Columns that describe the query, equal in all its rows, to slice results by.",
    )
    subtopics: tuple[str, ...] = Field(
        default=(),
        description="Columns with the row's grade for a subtopic of its query each, for alpha_ndcg and err_ia. Two "
        "queries need not mean the same by a column.",
    )
    relevance: Relevance | None = Field(
        default=None,
        description="From what users did to labels, in place of `label`: the very block that `monitor` takes. Files of "
        "events lie relative to root. Columns that it names are no features.",
    )
    user: str | None = Field(
        default=None,
        description="Column with the user, for an event log without query ids; may be one of `attributes`.",
    )
    timestamp: str | None = Field(
        default=None,
        description="Column with the time of the query, for an event log without query ids and for "
        "relevance.maturity; may be one of `attributes`.",
    )

    @model_validator(mode="after")
    def _one_role_each(self) -> Self:
        for role in ("query", "label", "document_id", "weight"):
            column = getattr(self, role)
            if isinstance(column, str) and column in self._named_features():
                raise MismatchError(f"features: {column!r} is the {role}", "features without it")
        roles = [*self.roles(), *self._named_features()]
        if repeated_names := repeated(roles):
            named = f"{', '.join(map(repr, repeated_names))} named more than once"
            raise MismatchError(named, "one role for each column")
        if repeated_names := repeated(self.categorical):
            raise ValueError(f"{', '.join(map(repr, repeated_names))} named more than once under categorical")
        if self.relevance is not None:
            conflicts = [*self._rule_conflicts(), *lacking(self.relevance, self._rule_roles())]
            if conflicts:
                raise MismatchError("; ".join(conflicts))
        if isinstance(self.weight, Ageing) and self._day is None:
            raise MismatchError("weight.half_life without times", "`by:`, the column with them")
        if self.features == ():
            raise MismatchError("features is empty", "at least one column, or leave it out for all")
        return self

    _labelled: bool = PrivateAttr(default=True)

    def without_labels(self) -> Self:
        """Return the same reader for rows without judgments, which are to be scored: their labels are 0."""
        reader = self.model_copy()
        reader._labelled = False
        return reader

    @abstractmethod
    def opened(self, path: Path) -> OpenedTable:
        """Open a file."""

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        return self._with_logs_in(root).assembled(self.tables(files, root), ", ".join(files))

    def tables(self, files: Sequence[str], root: Path) -> list[OpenedTable]:
        """Open the files, in order."""
        return all_of([partial(self.opened, path) for path in self.paths(files, root)])

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        rule = self._with_logs_in(root).relevance
        if rule is None or not rule.logs:
            return super().inputs(files, root)
        from ltr_harness.data.logs.log import files_of

        return (*super().inputs(files, root), *(file for log in rule.logs for file in files_of(Path(log))))

    def _with_logs_in(self, root: Path) -> Self:
        """Return the same reader, with the logs of its rule of relevance as paths from the folder of the data."""
        rule = self.relevance
        if rule is None or not rule.logs or not self._labelled:
            return self
        paths = [str(path) for path in located(rule.logs, root, folders=True)]
        return self.model_copy(update={"relevance": rule.with_logs(paths)})

    def assembled(self, tables: Sequence[OpenedTable], source: str) -> RankingDataset:
        """Return the dataset of opened tables, one after the other."""
        # where the files say how many rows they have: a few bytes can stand for billions of equal rows
        if all(table.n_rows is not None for table in tables):
            n_rows, used_columns = sum(table.n_rows or 0 for table in tables), self.roles()
            features = self.features or [
                name for name in tables[0].numeric_columns() if name not in used_columns
            ]
            size = f"{count_of(n_rows, 'row')} of {count_of(len(features) + len(used_columns), 'column')}"
            bound = Bound.of_file(sum(table.size for table in tables))
            needed = n_rows * (4 * len(features) + 8 * len(used_columns))
            bound.refuse(str(tables[0].path), f"{size} take", needed)
        return self._with_documents(tables)._assembled(tables, source)

    def _assembled(self, tables: Sequence[OpenedTable], source: str) -> RankingDataset:
        features, cautions = self._feature_columns(tables)
        roles = self._roles_of(tables, features)
        parts, problems = [], list[Problem]()
        for table in tables:
            try:
                parts.append(TableColumns(table, roles, self))
            except DataError as problem:
                problems += problem.problems
        if roles.categorical:
            text = f"categories in {tables[0].path.name}: {', '.join(roles.categorical)}"
            cautions.append(Caution("categories", "note", text))
        rows = joined(parts, problems).with_cautions(*cautions)
        if isinstance(self.weight, Ageing):
            rows = self._with_half_lives(rows, parts, CalendarSpan.of(self.weight.half_life))
        if self.relevance is not None and self._labelled:
            by_rule = self._labels_by_rule(self.relevance, tables, rows, source)
            rows = replace(
                rows.with_cautions(*by_rule.cautions), labels=by_rule.grades, judged=by_rule.judged
            )
        rows = rows.labelled(self, sum(part.n_beyond for part in parts))
        columns = self._known_columns(tables[0], features)
        recurring = self.relevance is not None  # a log of what was shown
        dataset = assembled(rows, source, regroup=self.regroup, columns=columns, recurring=recurring)
        return replace(dataset, features_named=self.features is not None)

    def _roles_of(self, tables: Sequence[OpenedTable], features: Sequence[str]) -> Roles:
        typed = set.intersection(*(table.category_columns() for table in tables))
        return Roles(
            features=features,
            categorical=[name for name in features if name in typed or name in self.categorical],
            label=self._label if self._labelled else None,
            weight=self.weight_column,
            position=self.position,
            document_id=self.document_id,
            retrieved=self.retrieved,
            time=self._day,
            attributes=self.attributes,
            subtopics=self.subtopics if self._labelled else (),
            query=self.query_columns,
        )

    def _with_half_lives(self, rows: Rows, parts: Sequence[TableColumns], half_life: CalendarSpan) -> Rows:
        """Return the rows with their age in half-lives, and a caution about it."""
        text = f"in training, weights halve every {half_life} back from the newest row ({self._day})"
        days = np.concatenate([part.days for part in parts if part.days is not None])
        rows = rows.with_cautions(Caution("half-life", "note", text))
        return replace(rows, half_lives=days / half_life.days)

    def _known_columns(self, table: OpenedTable, features: Sequence[str]) -> dict[str, str]:
        """Return the columns of the query, label and document, and of times and users, by their roles."""
        columns = {"query": ", ".join(self.query_columns)}
        if self._label is not None:
            columns["label"] = self._label
        if self.document_id is not None:
            columns["document_id"] = self.document_id
        return columns | self._time_and_user(table, features)

    def _time_and_user(self, table: OpenedTable, features: Sequence[str]) -> dict[str, str]:
        """Return the columns with the queries' times and users, by their names; numbers are not taken for times."""
        used_columns = {*features, *self.roles()}.difference(self.attributes)
        column_of_role = time_and_user([name for name in table.columns if name not in used_columns])
        if column_of_role.get("time") in table.numeric_columns():
            del column_of_role["time"]
        return column_of_role

    def _labels_by_rule(
        self, rule: Relevance, tables: Sequence[OpenedTable], rows: Rows, source: str
    ) -> "RuleLabels":
        """Return the rows' labels from the columns of all files together, as a query may be in several."""
        from pyarrow import concat_tables

        from ltr_harness.data.logs.log import open_files, open_log
        from ltr_harness.data.relevance.labels import labels_of

        columns = self._rule_roles()
        numbers, texts = columns_to_read(rule, columns)
        streamed = [table for table in tables if table.streams]
        kinds = {tuple(table.schema.field(n).type for n in (*numbers, *texts)) for table in streamed}
        if len(kinds) == 1 and len(streamed) == len(tables):  # as the files lie there, batch by batch
            log = open_files([table.path for table in tables], source, texts)
        else:
            parts = [table.read(numbers, texts).table for table in tables]
            log = open_log(concat_tables(parts, promote_options="permissive"), source)
        return labels_of(log, rule, columns, rows.place, np.asarray(rows.features))

    def _with_documents(self, tables: Sequence[OpenedTable]) -> Self:
        """Return this reader, with `document_id` as the documents' column if none is configured and it has no gaps."""
        import pyarrow.compute as pc

        used_columns = (*self.roles(), *self._named_features())
        if self.document_id is not None or _DOCUMENT in used_columns:
            return self
        for table in tables:
            if _DOCUMENT not in table.columns:
                return self
            try:
                names = table.read([], [_DOCUMENT]).texts(_DOCUMENT)
            except DataError:  # it is reported with the rest of the file
                return self
            if names is None or pc.any(pc.equal(names, "")).as_py():
                return self
        return self.model_copy(update={"document_id": _DOCUMENT})

    def _named_features(self) -> list[str]:
        named = self.features or ()
        return [*named, *(name for name in self.categorical if name not in named)]

    @property
    def query_columns(self) -> tuple[str, ...]:
        """The columns whose values together are the query's id; nearly always one."""
        return (self.query,) if isinstance(self.query, str) else self.query

    @property
    def weight_column(self) -> str | None:
        """The column with weights of rows."""
        return self.weight.column if isinstance(self.weight, Ageing) else self.weight

    @property
    def _label(self) -> str | None:
        """The column with ready labels; None where a rule makes them."""
        return self.label if self.relevance is None else None

    @property
    def _day(self) -> str | None:
        """The column with the times by which weights halve."""
        return self.weight.by or self.timestamp if isinstance(self.weight, Ageing) else None

    def roles(self) -> list[str]:
        """Return the columns with another role than that of a feature."""
        label = self._label if self._labelled else None
        optional = (label, self.weight_column, self.position, self.document_id, self.retrieved)
        named = [name for name in optional if name is not None]
        return [*self.query_columns, *named, *self.attributes, *self.subtopics]

    def no_features(self) -> tuple[str, ...]:
        """Return further columns that are no features: those that a rule makes labels of, users and times."""
        rule = () if self.relevance is None else self.relevance.named_columns
        return tuple(name for name in (*rule, self.user, self.timestamp, self._day) if name)

    def _rule_conflicts(self) -> Iterator[str]:
        """Yield the options that the rule of relevance replaces, and the features that it makes labels of."""
        defaults = {name: type(self).model_fields[name].default for name in ("label", "grades", "unjudged")}
        changed_options = [name for name, default in defaults.items() if getattr(self, name) != default]
        if changed_options:
            names = " and ".join(changed_options)
            yield f"{names} beside relevance; expected one of them: the rule says what a row is worth"
        if len(self.query_columns) > 1:
            yield "query of several columns beside relevance; expected one: join them in the file"
        rule = self.relevance
        if self.retrieved and rule and (rule.estimates or rule.by_list):
            yield "retrieved beside relevance that depends on ranks; missed documents have none"
        shared_columns = sorted({*self.no_features()} & {*self._named_features()})
        if shared_columns:
            yield f"features names {', '.join(shared_columns)}, of which relevance makes labels; expected other columns"

    def _rule_roles(self) -> ListColumns:
        return ListColumns.model_construct(
            query_id=self.query_columns[0],
            item_id=self.document_id,
            rank=self.position,
            score=None,
            timestamp=self.timestamp,
            cluster_id=self.user,
        )

    def _absent_column(self, name: str, table: OpenedTable) -> Problem:
        """Return the problem that a column is absent, with the column whose name implies its role."""
        role = next((role for role in ROLES if getattr(self, role) == name), None)
        column = column_for(role, table.columns) if role is not None else None
        cure = (
            f"did you mean `{role}: {column}`?"
            if column
            else did_you_mean(name, columns_named(table.columns, table.columns))
        )
        single = "" if len(table.columns) > 1 else "; is the separator right?"
        return Problem(str(table.path), f"has no column {name!r}", cure=cure + single)

    def _feature_columns(self, tables: Sequence[OpenedTable]) -> tuple[tuple[str, ...], list[Caution]]:
        """Return the feature columns, the same for all files, and cautions about ignored columns."""
        roles = self.roles()
        cautions: list[Caution] = []
        problems = []
        features = tuple(self._named_features())
        if self.features is None:
            features, left_out = self._default_features(tables[0], cautions)
            for table in tables:
                problems += table.decimal_commas([name for name in left_out if name in table.columns])
        of_rule = self._rule_columns()
        for table in tables:
            present = set(table.columns)
            if not present.issuperset(roles) and (header_problem := table.missing_header()):
                problems.append(header_problem)
                continue
            problems += [
                self._absent_column(name, table)
                for name in (*roles, *of_rule, *features)
                if name not in present
            ]
        DataError.refuse(limited(problems, noun="missing column"))
        return features, cautions

    def _rule_columns(self) -> list[str]:
        """Return the columns that the rule of relevance reads and that have no other role, the day before them."""
        roles = self.roles()
        columns = [self._day] if self._day and self._day not in roles else []
        if self.relevance is not None and self._labelled:
            numbers, texts = columns_to_read(self.relevance, self._rule_roles())
            columns += [name for name in (*numbers, *texts) if name not in (*roles, *columns)]
        return columns

    def _default_features(
        self, table: OpenedTable, cautions: list[Caution]
    ) -> tuple[tuple[str, ...], list[str]]:
        """Return the features where none are named, and the columns without numbers, with cautions about them."""
        numeric = table.numeric_columns() | table.category_columns()
        used_columns = {*self.roles(), *self.no_features()}
        rest = [name for name in table.columns if name not in used_columns]
        free = [name for name in rest if name in numeric and name not in self.categorical]
        left_out = [name for name in rest if name not in numeric and name not in self.categorical]
        if left_out:
            listed = ", ".join(columns_named(left_out, table.columns))
            text = f"ignored non-numeric columns of {table.path.name}: {listed}"
            cautions += [*nearly_numeric(table, left_out), Caution("ignored-columns", "note", text)]
        ignored = _columns_without_signal(free, table.index_columns())
        for kind, names in ignored.items():
            if names:
                listed = ", ".join(columns_named(names, table.columns))
                text = f"ignored {kind} of {table.path.name}: {listed}"
                cure = "`features:` with their names would learn from them"
                cautions.append(Caution("ignored-columns", "note", text, cure))
        chosen = {*free, *self.categorical}.difference(*ignored.values())
        absent = [name for name in self.categorical if name not in table.columns]
        return (*(name for name in rest if name in chosen), *absent), left_out


def _columns_without_signal(names: Sequence[str], indexes: Collection[str]) -> dict[str, list[str]]:
    """Return columns of numbers that are features only on request, by the reason."""
    remaining = [name for name in names if name not in indexes]
    return {
        "the index": [name for name in names if name in indexes],
        "ids and times": [name for name in remaining if is_id(name)],
        "outcomes": [name for name in remaining if is_outcome(name)],
    }
