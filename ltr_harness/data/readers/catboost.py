"""CatBoost's pools: rows without a header, and a `.cd` file that describes their columns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.csv import Delimited
from ltr_harness.data.readers.rows import limited, repeated
from ltr_harness.data.readers.table_reader import TableReader
from ltr_harness.data.readers.text_files import located
from ltr_harness.errors import DataError, Problem

_ROLES = {
    "label": "label",
    "target": "label",
    "groupid": "query",
    "queryid": "query",
    "sampleid": "document_id",
    "docid": "document_id",
    "weight": "weight",
    "groupweight": "weight",
}
_FEATURES = ("num", "categ")
_IGNORED = ("auxiliary", "baseline", "subgroupid", "timestamp", "text", "numvector", "embedding")


class CatBoostPool(TableReader):
    """Pools as CatBoost reads them: tab-separated rows without a header, described by a `.cd` file.

    A line of the description is the number of a column, from 0, what it is (Label, GroupId, Num, Categ, Weight,
    GroupWeight, SampleId, Auxiliary …) and perhaps its name. Columns that it leaves out are numeric features.

    Source: CatBoost's documentation, "Columns description".
    """

    cd: str | None = Field(
        default=None,
        description="The column description, a path as those of the pools. Default: beside the first pool, under its "
        "name with `.cd`.",
    )
    separator: str = Field(default="\t", min_length=1, max_length=1, description="Character between fields.")

    _names: tuple[str, ...] = PrivateAttr(default=())

    def inputs(self, files: Sequence[str], root: Path) -> tuple[Path, ...]:
        return (*super().inputs(files, root), self._description(files, root))

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        description = self._description(files, root)
        descriptions = _read_description(description)
        first = Delimited(self.paths(files, root)[0], self.separator, header=False)
        unknown_columns = [number for number in descriptions if number >= len(first.columns)]
        if unknown_columns:
            expected = f"columns 0 to {len(first.columns) - 1}, which {first.path.name} has"
            raise DataError.at(description, f"describes column {unknown_columns[0]}", expected)
        columns = [descriptions.get(number, ("num", "")) for number in range(len(first.columns))]
        by_kind = [(kind, name or str(number)) for number, (kind, name) in enumerate(columns)]
        names = [name for _, name in by_kind]
        if repeated_names := repeated(names):
            raise DataError.at(description, f"names {', '.join(map(repr, repeated_names))} twice")
        roles: dict[str, Any] = {_ROLES[kind]: name for kind, name in by_kind if kind in _ROLES}
        features = tuple(name for kind, name in by_kind if kind in _FEATURES)
        categorical = tuple(name for kind, name in by_kind if kind == "categ")
        chosen = {**roles, "features": self.features or features, "categorical": categorical}
        if not self._labelled:
            chosen.pop("label", None)
        reader = self.model_copy(update=chosen)
        reader._names = tuple(names)
        return super(CatBoostPool, reader).read(files, root)

    def _description(self, files: Sequence[str], root: Path) -> Path:
        located(files, root, alone=bool(self.cd))  # a pool that is missing is said first
        (path,) = located([self.cd or str(Path(files[0]).with_suffix(".cd"))], root)
        return path

    def opened(self, path: Path) -> Delimited:
        table = Delimited(path, self.separator, header=False)
        if len(table.columns) != len(self._names):
            expected = f"{len(self._names)}, as the first pool"
            raise DataError.at(path, f"has {len(table.columns)} columns", expected)
        table.columns = list(self._names)
        return table


def _read_description(path: Path) -> dict[int, tuple[str, str]]:
    """Return the kind of each described column, in lower case, and its name, by the column's number."""
    descriptions: dict[int, tuple[str, str]] = {}
    problems = []
    known_kinds = (*_ROLES, *_FEATURES, *_IGNORED)
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        column, kind, name = (*(part.strip() for part in line.split("\t", 2)), "", "")[:3]
        if not column.isascii() or not column.isdigit():
            problems.append(Problem(place, f"column {column!r}", "a column number, a tab, and what it is"))
        elif kind.lower() not in known_kinds:
            cure = did_you_mean(kind.lower(), known_kinds)
            problems.append(Problem(place, f"unknown column type {kind!r}", cure=cure))
        elif int(column) in descriptions:
            problems.append(Problem(place, f"describes column {column} twice"))
        else:
            descriptions[int(column)] = (kind.lower(), name)
    DataError.refuse(limited(problems))
    _refuse_other_roles(path, [kind for kind, _ in descriptions.values()])
    return descriptions


def _refuse_other_roles(path: Path, kinds: Sequence[str]) -> None:
    """Raise unless one column has the labels and one the queries."""
    for role, example in (("label", "Label"), ("query", "GroupId")):
        n = sum(_ROLES.get(kind) == role for kind in kinds)
        if n != 1:
            raise DataError.at(path, f"{n} columns are {example}", "exactly one")
