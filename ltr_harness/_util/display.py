"""Results in notebooks and consoles: shown as the report shows them, completed by their public names."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ltr_harness._util.catalog import load_target

if TYPE_CHECKING:
    import pandas as pd

OneRow = TypeVar("OneRow", bound="DisplayedRecord")


class DocumentedNames:
    """An object whose `dir` has its public names, without those of the libraries that it builds on."""

    def __dir__(self) -> list[str]:
        names = set(vars(self))
        for kind in type(self).__mro__:
            if kind.__module__.startswith("ltr_harness.") or kind in (dict, tuple):
                names |= {*vars(kind), *vars(kind).get("__annotations__", {})}
        return sorted(name for name in names - {"model_config"} if not name.startswith("_"))


class Displayed(DocumentedNames):
    """A result that a notebook shows with the report's blocks."""

    _html: ClassVar = "ltr_harness.report.notebook:html"  # by its name: results stand below the report

    def _repr_html_(self) -> str:
        text: str = load_target(self._html)(self)
        return text


class DisplayedRecord(Displayed):
    """A dataclass of one row."""

    def frame(self) -> pd.DataFrame:
        """One row, a column for each field."""
        return DisplayedRecords([self]).frame()


class DisplayedRecords(tuple[OneRow, ...], Displayed):
    """Dataclasses of one row each, such as the pairs of a comparison."""

    def frame(self) -> pd.DataFrame:
        """One row for each, a column for each field."""
        import pandas as pd

        rows: list[dict[str, Any]] = [asdict(record) for record in self]  # type: ignore[call-overload]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))
