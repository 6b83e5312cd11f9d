"""Stored JSON of folders from anywhere: read through a schema, whichever version wrote it; unknown keys are refused."""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from ltr_harness.files import stored_file

T = TypeVar("T")
Document = dict[str, Any]
Form = Literal["record", "study", "comparison", "report", "look", "monitor", "history"]
"""A kind of stored document: record.json, study.json, the metadata of comparison.parquet, report.json, a line of
looks.jsonl, report.json of `monitor`, and the windows of its history."""

SCHEMA_VERSION: Final = 2
"""The one version of all forms. Whoever changes a key of any form raises it and adds a step to `_STEPS`."""

_LARGEST = 256 * 2**20  # bytes; the record of a model of 100,000 features takes a hundredth of it

Count = Annotated[int, Field(ge=0, lt=2**48)]
Amount = Annotated[float, Field(ge=0, lt=1e12)]


def harness_version() -> str:
    """Return the version of ltr-harness, as stored documents have it."""
    return version("ltr-harness")


class NewerVersionError(ValueError):
    """A stored document of a later version of ltr-harness, which this one cannot read."""


class Stored(BaseModel):
    """What stands in a file beside the runs: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Versioned(Stored):
    """A stored document with the version of its schema; one of an older version is lifted before it is validated."""

    form: ClassVar[Form]
    schema_version: Literal[2] = SCHEMA_VERSION
    written_by: str = Field(default_factory=harness_version, description="Version of ltr-harness.")

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, document: Any, info: ValidationInfo) -> Any:
        # what is made in Python has the keys of this version
        return lifted(cls.form, document) if info.mode == "json" and isinstance(document, dict) else document


class SweepPoint(Stored, use_attribute_docstrings=True):
    """Which point of a sweep a model is; the resolved configuration says it."""

    of: str
    """The model that was swept."""
    at: dict[str, Any]
    """The options that differ, such as {params.num_leaves: 15}."""


def read_stored(kind: type[T], folder: Path, name: str) -> T:
    """A JSON file of a folder as a model or a dataclass; anything else is a ValueError with the first reason."""
    with stored_file(folder, name).open("rb") as stream:
        content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"is larger than {_LARGEST >> 20} MiB")
    return validated(kind, content)


def validated(kind: type[T], content: bytes) -> T:
    """JSON as a model or a dataclass; anything else is a ValueError with the first reason."""
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{place}: {reason}" if place else reason) from None


def lifted(form: Form, document: Document) -> Document:
    """Return a stored document as this version would have written it.

    Raises:
        NewerVersionError: a later version of ltr-harness wrote it.
        ValueError: its version is no version.
    """
    written = document.get("schema_version", document.get("version", 1))
    if isinstance(written, bool) or not isinstance(written, int) or written < 1:
        raise ValueError(f"has schema version {written!r:.60}; expected 1 to {SCHEMA_VERSION}")
    if written > SCHEMA_VERSION:
        writer = f"ltr-harness {document.get('written_by', 'of a later version')!s:.60}"
        found = f"has schema version {written}, written by {writer}; this version reads 1 to {SCHEMA_VERSION}"
        raise NewerVersionError(f"{found}: update ltr-harness")
    for step in range(written, SCHEMA_VERSION):
        document = _STEPS[step](form, document)
    return document


def _from_version_1(form: Form, document: Document) -> Document:
    """Lift to version 2: one name for the version's key, systems for entrants, one list of cautions."""
    rest = {key: value for key, value in document.items() if key != "version"}
    renamed = {_RENAMED_IN_2.get(form, {}).get(key, key): value for key, value in rest.items()}
    if form == "record":
        renamed["cautions"] = _cautions_in_2(renamed.pop("findings", []), renamed.pop("notes", []))
    elif form == "report":
        of_runs = {key: renamed[key] for key in ("runs", "failures") if isinstance(renamed.get(key), list)}
        renamed |= {key: [_from_version_1("record", run) for run in runs] for key, runs in of_runs.items()}
    return renamed | {"schema_version": 2, "written_by": "0.2.0"}


def _cautions_in_2(findings: Any, notes: Any) -> list[Document]:
    """Return what version 1 kept as findings of the data lints, and as notes of reading and training."""
    try:
        of_data = [
            {
                "kind": one["lint"],
                "severity": "accepted" if one["accepted"] else one["severity"],
                "text": one["found"],
                **{name: one[name] for name in ("cure", "place")},
            }
            for one in findings
        ]
        return of_data + [_of_training(text) for text in notes]
    except (TypeError, KeyError, AttributeError):
        raise ValueError("has findings or notes that no record has") from None


def _of_training(text: str) -> Document:
    known = (kind for start, kind in _NOTES_IN_1.items() if text.startswith(start))
    kind, severity = next(known, ("training", "note"))
    return {"kind": kind, "severity": severity, "text": text}


_RENAMED_IN_2: Mapping[Form, Mapping[str, str]] = {
    "comparison": {"entrants": "systems"},
    "report": {"gained": "headroom"},
}

_NOTES_IN_1: Mapping[str, tuple[str, str]] = {
    "ignored ": ("ignored-columns", "note"),
    "the model is constant": ("constant-model", "warning"),
    "the model is nearly constant": ("nearly-constant-model", "warning"),
    "bagging_by_query with several threads": ("not-deterministic", "warning"),
}
"""Beginnings of notes that version 1 was asked about, and kind and severity of the cautions that they are now."""

_STEPS: Mapping[int, Callable[[Form, Document], Document]] = {1: _from_version_1}
"""From each version to the next."""
