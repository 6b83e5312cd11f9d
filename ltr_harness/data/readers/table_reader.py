"""Table reader: which named column is the query, the label, a feature."""

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
from ltr_harness.data.time_folds import Span
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
        roles = [*self.roles(), *self._named_features()]
        if twice := repeated(roles):
            named = f"{', '.join(map(repr, twice))} named more than once"
            raise MismatchError(named, "one role for each column")
        if twice := repeated(self.categorical):
            raise ValueError(f"{', '.join(map(repr, twice))} named more than once under categorical")
        if self.relevance is not None:
            wrong = [*self._beside_the_rule(), *lacking(self.relevance, self._rule_roles())]
            if wrong:
                raise MismatchError("; ".join(wrong))
        if isinstance(self.weight, Ageing) and self._day is None:
            raise MismatchError("weight.half_life without times", "`by:`, the column with them")
        if self.features == ():
            raise MismatchError("features is empty", "at least one column, or leave it out for all")
        return self

    _labelled: bool = PrivateAttr(default=True)

    def without_labels(self) -> Self:
        """The same reader for rows that nobody has judged, to be scored: their labels read as 0."""
        reader = self.model_copy()
        reader._labelled = False
        return reader

    @abstractmethod
    def opened(self, path: Path) -> OpenedTable:
        """A file, ready to be read."""

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        return self._beside(root).assembled(self.tables(files, root), ", ".join(files))

    def tables(self, files: Sequence[str], root: Path) -> list[OpenedTable]:
        """The files, ready to be read, in order."""
        return all_of([partial(self.opened, path) for path in self.paths(files, root)])

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        rule = self._beside(root).relevance
        if rule is None or not rule.logs:
            return super().inputs(files, root)
        from ltr_harness.data.logs.log import files_of

        return (*super().inputs(files, root), *(file for log in rule.logs for file in files_of(Path(log))))

    def _beside(self, root: Path) -> Self:
        """The same reader, the logs of its rule of relevance found from the folder of the data."""
        rule = self.relevance
        if rule is None or not rule.logs or not self._labelled:
            return self
        there = [str(path) for path in located(rule.logs, root, folders=True)]
        return self.model_copy(update={"relevance": rule.with_logs(there)})

    def assembled(self, tables: Sequence[OpenedTable], source: str) -> RankingDataset:
        """The rows of opened tables, one after the other."""
        # where the files say how many rows they have: a few bytes can stand for billions of equal rows
        if all(table.n_rows is not None for table in tables):
            n_rows, others = sum(table.n_rows or 0 for table in tables), self.roles()
            chosen = self.features or [name for name in tables[0].numeric_columns() if name not in others]
            size = f"{count_of(n_rows, 'row')} of {count_of(len(chosen) + len(others), 'column')}"
            bound = Bound.of_file(sum(table.size for table in tables))
            needed = n_rows * (4 * len(chosen) + 8 * len(others))
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
            rows = self._with_half_lives(rows, parts, Span.of(self.weight.half_life))
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

    def _with_half_lives(self, rows: Rows, parts: Sequence[TableColumns], half_life: Span) -> Rows:
        """Return the rows with their age in half-lives, and the caution that says so."""
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
        """The columns with the queries' times and users, by their names; numbers are no times that have an order."""
        taken = {*features, *self.roles()}.difference(self.attributes)
        found = time_and_user([name for name in table.columns if name not in taken])
        if found.get("time") in table.numeric_columns():
            del found["time"]
        return found

    def _labels_by_rule(
        self, rule: Relevance, tables: Sequence[OpenedTable], rows: Rows, source: str
    ) -> "RuleLabels":
        """The rows' labels, from the columns of all files together: a query may stand in several."""
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
        return labels_of(log, rule, columns, rows.place, rows.features)

    def _with_documents(self, tables: Sequence[OpenedTable]) -> Self:
        """This reader; where no column was said to name the document, `document_id` does if it has a name for all."""
        import pyarrow.compute as pc

        taken = (*self.roles(), *self._named_features())
        if self.document_id is not None or _DOCUMENT in taken:
            return self
        for table in tables:
            if _DOCUMENT not in table.columns:
                return self
            try:
                names = table.read([], [_DOCUMENT]).texts(_DOCUMENT)
            except DataError:  # it will be told with the rest of the file
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
        """Columns that are something else than features."""
        label = self._label if self._labelled else None
        optional = (label, self.weight_column, self.position, self.document_id, self.retrieved)
        named = [name for name in optional if name is not None]
        return [*self.query_columns, *named, *self.attributes, *self.subtopics]

    def no_features(self) -> tuple[str, ...]:
        """Columns beside the roles that are no features: what a rule of relevance makes labels of, users and times."""
        rule = () if self.relevance is None else self.relevance.named_columns
        return tuple(name for name in (*rule, self.user, self.timestamp, self._day) if name)

    def _beside_the_rule(self) -> Iterator[str]:
        """What the rule of relevance replaces, and features that it makes labels of."""
        defaults = {name: type(self).model_fields[name].default for name in ("label", "grades", "unjudged")}
        given = [name for name, default in defaults.items() if getattr(self, name) != default]
        if given:
            yield f"{' and '.join(given)} beside relevance; expected one of them: the rule says what a row is worth"
        if len(self.query_columns) > 1:
            yield "query of several columns beside relevance; expected one: join them in the file"
        rule = self.relevance
        if self.retrieved and rule and (rule.estimates or rule.by_list):
            yield "retrieved beside relevance that depends on ranks; missed documents have none"
        both = sorted({*self.no_features()} & {*self._named_features()})
        if both:
            yield f"features names {', '.join(both)}, of which relevance makes labels; expected other columns"

    def _rule_roles(self) -> ListColumns:
        return ListColumns.model_construct(
            query_id=self.query_columns[0],
            item_id=self.document_id,
            rank=self.position,
            score=None,
            timestamp=self.timestamp,
            cluster_id=self.user,
        )

    def _absent(self, name: str, table: OpenedTable) -> Problem:
        """What to do about a column that is not there: say which has its role, where a name tells."""
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
        """The feature columns, the same for all files, and cautions about columns that are none."""
        roles = self.roles()
        cautions: list[Caution] = []
        problems = []
        features = tuple(self._named_features())
        if self.features is None:
            features, left_out = self._default_features(tables[0], cautions)
            for table in tables:
                problems += table.decimal_commas([name for name in left_out if name in table.columns])
        of_rule = [self._day] if self._day and self._day not in roles else []
        if self.relevance is not None and self._labelled:
            numbers, texts = columns_to_read(self.relevance, self._rule_roles())
            of_rule += [name for name in (*numbers, *texts) if name not in (*roles, *of_rule)]
        for table in tables:
            there = set(table.columns)
            if not there.issuperset(roles) and (missing := table.missing_header()):
                problems.append(missing)
                continue
            problems += [
                self._absent(name, table) for name in (*roles, *of_rule, *features) if name not in there
            ]
        DataError.refuse(limited(problems, noun="missing column"))
        return features, cautions

    def _default_features(
        self, table: OpenedTable, cautions: list[Caution]
    ) -> tuple[tuple[str, ...], list[str]]:
        """The features where none are named, and the columns that hold no numbers; cautions about what is ignored."""
        numeric = table.numeric_columns() | table.category_columns()
        taken = {*self.roles(), *self.no_features()}
        rest = [name for name in table.columns if name not in taken]
        free = [name for name in rest if name in numeric and name not in self.categorical]
        left_out = [name for name in rest if name not in numeric and name not in self.categorical]
        if left_out:
            listed = ", ".join(columns_named(left_out, table.columns))
            text = f"ignored non-numeric columns of {table.path.name}: {listed}"
            cautions += [*nearly_numeric(table, left_out), Caution("ignored-columns", "note", text)]
        ignored = _no_signals(free, table.index_columns())
        for kind, names in ignored.items():
            if names:
                listed = ", ".join(columns_named(names, table.columns))
                text = f"ignored {kind} of {table.path.name}: {listed}"
                cure = "`features:` with their names would learn from them"
                cautions.append(Caution("ignored-columns", "note", text, cure))
        kept = {*free, *self.categorical}.difference(*ignored.values())
        absent = [name for name in self.categorical if name not in table.columns]
        return (*(name for name in rest if name in kept), *absent), left_out


def _no_signals(names: Sequence[str], indexes: Collection[str]) -> dict[str, list[str]]:
    """Return columns of numbers from which nothing should be learned unasked, by the reason."""
    others = [name for name in names if name not in indexes]
    return {
        "the index": [name for name in names if name in indexes],
        "ids and times": [name for name in others if is_id(name)],
        "outcomes": [name for name in others if is_outcome(name)],
    }
