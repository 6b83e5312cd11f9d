"""Table reader: which named column is the query, the label, a feature."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import Field, PrivateAttr, model_validator

from ltr_harness.catalog import did_you_mean
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.logs.columns import id_texts
from ltr_harness.logs.log import files_of
from ltr_harness.logs.settings import ListColumns
from ltr_harness.readers.column_names import ROLES, column_for, is_id, is_outcome
from ltr_harness.readers.cost import Bound
from ltr_harness.readers.delimited import Delimited
from ltr_harness.readers.files import located
from ltr_harness.readers.reader import FileReader
from ltr_harness.readers.rows import Rows, assembled, limited, repeated
from ltr_harness.readers.table_part import ColumnRoles, OpenedTable, TableColumns, joined, one_log
from ltr_harness.readers.values import ValueOptions, beyond_notes, without_unjudged
from ltr_harness.relevance.rule import Relevance, columns_to_read, lacking
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.relevance.labels import RuleLabels

_DOCUMENT = "document_id"


class TableReader(FileReader, ValueOptions):
    """A reader of tables with one row per document of a query."""

    query: str = Field(default="query_id", description="Column that says which query a row belongs to.")
    label: str = Field(default="label", description="Column with the grade of the row, a number >= 0.")
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
    weight: str | None = Field(
        default=None,
        description="Column with row weights; a query's weight is the mean of its rows' weights.",
    )
    position: str | None = Field(
        default=None, description="Column with the whole-number position at which the row was shown."
    )
    document_id: str | None = Field(
        default=None,
        description="Column that names the document. Default: `document_id`, if there is one and it is nowhere empty.",
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
            raise ValueError(
                f"{', '.join(map(repr, twice))} named more than once; expected one role for each column"
            )
        if twice := repeated(self.categorical):
            raise ValueError(f"{', '.join(map(repr, twice))} named more than once under categorical")
        if self.relevance is not None:
            wrong = [*self._beside_the_rule(), *lacking(self.relevance, self._rule_roles())]
            if wrong:
                raise ValueError("; ".join(wrong))
        if self.features == ():
            raise ValueError("features is empty; expected at least one column, or leave it out for all")
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
        tables: list[OpenedTable] = []
        problems: list[Problem] = []
        for path in self.paths(files, root):
            try:
                tables.append(self.opened(path))
            except DataError as problem:
                problems += problem.problems
        if problems:
            raise DataError(problems)
        return self._beside(root).assembled(tables, ", ".join(files))

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        rule = self._beside(root).relevance
        logs = () if rule is None else rule.logs
        return (*super().inputs(files, root), *(file for log in logs for file in files_of(Path(log))))

    def _beside(self, root: Path) -> Self:
        """The same reader, the logs of its rule of relevance found from the folder of the data."""
        rule = self.relevance
        if rule is None or not rule.logs or not self._labelled:
            return self
        there = [str(path) for path in located(rule.logs, root, folders=True)]
        return self.model_copy(update={"relevance": rule.with_logs(there)})

    def assembled(self, tables: Sequence[OpenedTable], source: str) -> RankingDataset:
        """The rows of opened tables, one after the other."""
        self._refuse_cost(tables)
        return self._with_documents(tables)._assembled(tables, source)

    def _assembled(self, tables: Sequence[OpenedTable], source: str) -> RankingDataset:
        problems: list[Problem] = []
        features, notes = self._feature_columns(tables)
        categorical = self._categorical_columns(tables, features)
        roles = ColumnRoles(
            label=self._label_column if self._labelled else None,
            features=features,
            query=self.query,
            weight=self.weight,
            position=self.position,
            document_id=self.document_id,
            attributes=self.attributes,
            categorical=categorical,
            subtopics=self.subtopics if self._labelled else (),
        )
        parts = []
        for table in tables:
            try:
                parts.append(TableColumns(table, roles, self))
            except DataError as problem:
                problems += problem.problems
        problems += [problem for part in parts for problem in part.problems]
        if problems:
            raise DataError(limited(problems, noun="problem"))
        rows = joined(parts, features, categorical)
        if self.relevance is not None and self._labelled:
            made = self._labels_by_rule(self.relevance, tables, rows, source)
            labels, judged, said = made.grades, made.judged, made.notes
        else:
            labels, judged, said = without_unjudged(rows.labels, self.unjudged)
        if categorical:
            notes += (f"categories in {tables[0].path.name}: {', '.join(categorical)}",)
        notes += (
            self.grade_notes + said + beyond_notes(sum(part.n_beyond for part in parts), self.beyond_float32)
        )
        rows = replace(rows, labels=labels, judged=judged, columns=self._columns(), notes=notes)
        return assembled(rows, source, regroup=self.regroup)

    def _labels_by_rule(
        self, rule: Relevance, tables: Sequence[OpenedTable], rows: Rows, source: str
    ) -> RuleLabels:
        """The rows' labels, from the columns of all files together: a query may stand in several."""
        from ltr_harness.relevance.labels import labels_of

        columns = self._rule_roles()
        log = one_log(tables, *columns_to_read(rule, columns), source)
        return labels_of(log, rule, columns, rows.place, rows.features)

    def _with_documents(self, tables: Sequence[OpenedTable]) -> Self:
        """This reader; where no column was said to name the document, `document_id` does if it has a name for all."""
        from pyarrow.compute import any as any_of
        from pyarrow.compute import equal

        taken = (*self.roles(), *self._named_features())
        if self.document_id is not None or _DOCUMENT in taken:
            return self
        for table in tables:
            if _DOCUMENT not in table.columns:
                return self
            try:
                names = id_texts(table.read([], [_DOCUMENT])[_DOCUMENT])
            except DataError:  # it will be told with the rest of the file
                return self
            if names is None or any_of(equal(names, "")).as_py():
                return self
        return self.model_copy(update={"document_id": _DOCUMENT})

    def _columns(self) -> dict[str, str]:
        """Role to column, as `RankingDataset` keeps them."""
        named = {"query": self.query, "label": self._label_column, "document_id": self.document_id}
        return {role: name for role, name in named.items() if name is not None}

    def _named_features(self) -> list[str]:
        named = self.features or ()
        return [*named, *(name for name in self.categorical if name not in named)]

    def _categorical_columns(
        self, tables: Sequence[OpenedTable], features: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The features that are categories: named so, or of such a type in every file."""
        typed = set.intersection(*(table.category_columns() for table in tables))
        return tuple(name for name in features if name in typed or name in self.categorical)

    def roles(self) -> list[str]:
        """Columns that are something else than features."""
        optional = [name for name in (self.weight, self.position, self.document_id) if name is not None]
        labels = [self.label] if self._labelled and self.relevance is None else []
        return [self.query, *labels, *optional, *self.attributes, *self.subtopics]

    @property
    def _label_column(self) -> str | None:
        return self.label if self.relevance is None else None

    def no_features(self) -> tuple[str, ...]:
        """Columns beside the roles that are no features: what a rule of relevance makes labels of, users and times."""
        rule = () if self.relevance is None else self.relevance.named_columns
        return tuple(name for name in (*rule, self.user, self.timestamp) if name)

    def _beside_the_rule(self) -> Iterator[str]:
        """What the rule of relevance replaces, and features that it makes labels of."""
        defaults = {name: type(self).model_fields[name].default for name in ("label", "grades", "unjudged")}
        given = [name for name, default in defaults.items() if getattr(self, name) != default]
        if given:
            yield f"{' and '.join(given)} beside relevance; expected one of them: the rule says what a row is worth"
        both = sorted({*self.no_features()} & {*self._named_features()})
        if both:
            yield f"features names {', '.join(both)}, of which relevance makes labels; expected other columns"

    def _rule_roles(self) -> ListColumns:
        """Which columns play a role in the rule of relevance."""
        return ListColumns.model_construct(
            query_id=self.query,
            item_id=self.document_id,
            rank=self.position,
            score=None,
            timestamp=self.timestamp,
            cluster_id=self.user,
        )

    def _rule_columns(self) -> list[str]:
        """Columns that the rule of relevance needs."""
        if self.relevance is None or not self._labelled:
            return []
        numbers, texts = columns_to_read(self.relevance, self._rule_roles())
        return [name for name in (*numbers, *texts) if name not in self.roles()]

    def _cure(self, name: str, columns: Sequence[str]) -> str:
        """What to do about a column that is not there: say which has its role, where a name tells."""
        role = next((role for role in ROLES if getattr(self, role) == name), None)
        column = column_for(role, columns) if role is not None else None
        return f"did you mean `{role}: {column}`?" if column else did_you_mean(name, columns)

    def _refuse_cost(self, tables: Sequence[OpenedTable]) -> None:
        """Where the files say how many rows they have: a few bytes can stand for billions of equal rows."""
        if any(table.n_rows is None for table in tables):
            return
        n_rows = sum(table.n_rows or 0 for table in tables)
        others = self.roles()
        chosen = self.features or [name for name in tables[0].numeric_columns() if name not in others]
        size = f"{count_of(n_rows, 'row')} of {count_of(len(chosen) + len(others), 'column')}"
        Bound.of_file(sum(table.size for table in tables)).refuse(
            str(tables[0].path), f"{size} take", n_rows * (4 * len(chosen) + 8 * len(others))
        )

    def _feature_columns(self, tables: Sequence[OpenedTable]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The feature columns, the same for all files, and a note on columns that are none."""
        roles = self.roles()
        notes: tuple[str, ...] = ()
        problems = []
        features = tuple(self._named_features())
        if self.features is None:
            first = tables[0]
            fit = first.numeric_columns() | first.category_columns() | set(self.categorical)
            rest = [name for name in first.columns if name not in {*roles, *self.no_features()}]
            unnamed = [name for name in rest if name in fit and name not in self.categorical]
            ids = [name for name in unnamed if is_id(name)]
            outcomes = [name for name in unnamed if is_outcome(name)]
            absent = [name for name in self.categorical if name not in first.columns]
            features = (*(name for name in rest if name in fit and name not in (*ids, *outcomes)), *absent)
            left_out = [name for name in rest if name not in fit]
            if left_out:
                notes = (f"ignored non-numeric columns of {first.path.name}: {', '.join(left_out)}",)
            for what, names in (("ids and times", ids), ("outcomes", outcomes)):
                if not names:
                    continue
                ignored = f"ignored {what} of {first.path.name}: {', '.join(names)}"
                notes += (f"{ignored}; `features:` with their names would learn from them",)
            for table in tables:
                if isinstance(table, Delimited):
                    problems += table.decimal_commas([name for name in left_out if name in table.columns])
        for table in tables:
            there = set(table.columns)
            if isinstance(table, Delimited) and table.lacks_header and not there.issuperset(roles):
                problems.append(table.no_header())
                continue
            problems += [
                Problem(
                    str(table.path),
                    f"has no column {name!r}",
                    cure=self._cure(name, table.columns)
                    + ("" if len(table.columns) > 1 else "; is the separator right?"),
                )
                for name in (*roles, *self._rule_columns(), *features)
                if name not in there
            ]
        if problems:
            raise DataError(limited(problems, noun="missing column"))
        return features, notes
