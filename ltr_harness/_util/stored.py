"""Stored JSON of folders from anywhere: read through a schema, whichever version wrote it; unknown keys are refused."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)

from ltr_harness._util.files import stored_file

T = TypeVar("T")
AnyModel = TypeVar("AnyModel", bound=BaseModel)
JsonObject = dict[str, Any]
StoredForm = Literal["record", "study", "comparison", "report", "look", "monitor", "history"]
"""A kind of stored document: record.json, study.json, the metadata of comparison.parquet, report.json, a line of
looks.jsonl, report.json of `monitor`, and the windows of its history."""

SCHEMA_VERSION: Final = 3
"""The one version of all forms. Whoever changes a key of any form raises it and adds a step to `_STEPS`."""

DERIVED: Final = "derived_params"
"""What `learned` of a record has parameters under that a library derived from the number of rounds or rows."""

LARGEST: Final = 64 * 2**20
"""Bytes of a document; the record of a model of 100,000 features takes a fiftieth of it."""

Count = Annotated[int, Field(ge=0, lt=2**48)]
Amount = Annotated[float, Field(ge=0, lt=1e12)]


@cache  # what is imported stays the version that it is
def harness_version() -> str:
    """Return the version of ltr-harness, as stored documents have it."""
    return version("ltr-harness")


class NewerVersionError(ValueError):
    """A stored document of a later version of ltr-harness, which this one cannot read."""


class Stored(BaseModel):
    """A document that is stored beside the runs: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Versioned(Stored):
    """A stored document with the version of its schema; one of an older version is lifted before it is validated."""

    form: ClassVar[StoredForm]
    schema_version: Literal[3] = SCHEMA_VERSION
    written_by: str = Field(default_factory=harness_version, description="Version of ltr-harness.")

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, document: Any, info: ValidationInfo) -> Any:
        # what is made in Python has the keys of this version
        return lifted(cls.form, document) if info.mode == "json" and isinstance(document, dict) else document


class SweepPoint(Stored, use_attribute_docstrings=True):
    """The point of a sweep that a model is, as the resolved configuration has it."""

    of: str
    """The model that was swept."""
    at: dict[str, Any]
    """The options that differ, such as {params.num_leaves: 15}."""


class StudyVariant(Stored, use_attribute_docstrings=True):
    """A model's part in a study; the resolved configuration has it where `study` is spelt out."""

    of: str
    """The model that is studied."""
    without: tuple[str, ...] = ()
    """The feature groups that this variant lacks."""
    only: str | None = None
    """The one feature group that this variant has."""
    cost: float | None = Field(default=None, ge=0, lt=1e12)
    """What the feature group costs, in a unit of the user's own."""


class TrainingQueries(Stored, use_attribute_docstrings=True):
    """A share of the training queries, drawn by chance; a smaller share of the same draw is a part of it."""

    share: float = Field(gt=0, lt=1)
    """Share of the training queries, rounded to the nearest query, such as 0.25."""
    draw: int = Field(default=1, ge=0, lt=2**31)
    """Decides which queries; the same for every model and seed."""


def with_options(source: type[Any]) -> Callable[[type[AnyModel]], type[AnyModel]]:
    """Add a field for each further field of a dataclass, which declares its kind, default, bounds and description."""

    def extend(model: type[AnyModel]) -> type[AnyModel]:
        kinds = get_type_hints(source)
        options: dict[str, Any] = {
            option.name: (kinds[option.name], option)
            for option in dataclasses.fields(source)
            if option.name not in model.model_fields
        }
        return create_model(
            model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **options
        )

    return extend


def read_stored(kind: type[T], folder: Path, name: str) -> T:
    """A JSON file of a folder as a model or a dataclass; anything else is a ValueError with the first reason."""
    return validated(kind, stored_content(folder, name))


def stored_content(folder: Path, name: str) -> bytes:
    """Return the bytes of a document of a folder; a ValueError where it is larger than documents are."""
    with stored_file(folder, name).open("rb") as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"is larger than {LARGEST >> 20} MiB")
    return content


def refuse_twice(columns: Sequence[str]) -> None:
    """Raises ValueError: a stored table has two columns of one name, of which no reader takes the same one."""
    if twice := sorted(name for name, times in Counter(columns).items() if times > 1):
        raise ValueError(f"it has the column {twice[0]} twice")


def validated(kind: type[T], content: bytes) -> T:
    """JSON as a model or a dataclass; anything else is a ValueError with the first reason.

    Raises:
        NewerVersionError: a later version of ltr-harness wrote it.
        ValueError: it is not what it should be.
    """
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if isinstance(newer := first.get("ctx", {}).get("error"), NewerVersionError):
            raise newer from None
        place, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{place}: {reason}" if place else reason) from None


def lifted(form: StoredForm, document: JsonObject) -> JsonObject:
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
    return {**_ADDED_SINCE_3.get(form, {}), **document}


def _from_version_1(form: StoredForm, document: JsonObject) -> JsonObject:
    """Lift to version 2: one name for the version's key, systems for entrants, cautions for notes and findings."""
    rest = {key: value for key, value in document.items() if key != "version"}
    renamed = {_RENAMED_IN_2.get(form, {}).get(key, key): value for key, value in rest.items()}
    if form == "record":
        renamed["cautions"] = _cautions_in_2(renamed.pop("findings", []), renamed.pop("notes", []))
    elif form == "report":
        renamed = {key: value for key, value in renamed.items() if key not in _RETIRED_IN_2}
        renamed["cautions"] = _of_report(renamed.pop("notes", []))
        of_runs = {key: renamed[key] for key in ("runs", "failures") if isinstance(renamed.get(key), list)}
        renamed |= {key: [_from_version_1("record", run) for run in runs] for key, runs in of_runs.items()}
    elif form == "monitor":
        renamed = _monitor_in_2(renamed)
    return renamed | {"schema_version": 2, "written_by": "0.2.0"}


def _cautions_in_2(findings: Any, notes: Any) -> list[JsonObject]:
    """Return what version 1 kept as findings of the data lints, and as notes of reading and training."""
    try:
        return [*map(_of_lint, findings), *map(_of_training, notes)]
    except (TypeError, KeyError, AttributeError):
        raise ValueError("has findings or notes that no record has") from None


def _of_lint(finding: JsonObject) -> JsonObject:
    severity = "accepted" if finding["accepted"] else finding["severity"]
    kept_fields = {name: finding[name] for name in ("cure", "place")}
    return {"kind": finding["lint"], "severity": severity, "text": finding["found"], **kept_fields}


def _of_training(text: str) -> JsonObject:
    kinds = (kind for start, kind in _NOTES_IN_1.items() if text.startswith(start))
    kind, severity = next(kinds, ("training", "note"))
    return _caution_in_2(kind, severity, text)


def _of_report(notes: Any) -> list[JsonObject]:
    """Return what version 1 kept as notes of a comparison."""
    if not isinstance(notes, list) or not all(isinstance(text, str) for text in notes):
        raise ValueError("has notes that are not texts")
    return [_caution_in_2("note", "note", text) for text in notes]


def _caution_in_2(kind: str, severity: str, text: str) -> JsonObject:
    return {"kind": kind, "severity": severity, "text": text, "cure": "", "place": ""}


_RENAMED_IN_2: Mapping[StoredForm, Mapping[str, str]] = {
    "comparison": {"entrants": "systems"},
    "report": {"gained": "headroom"},
    "monitor": {
        "findings": "log_checks",
        "notices": "cautions",
        "keyed": "paired_by_key",
        "worst": "worst_queries",
        "splits": "decompositions",
        "conventions": "empty_rules",
    },
}
_RETIRED_IN_2 = ("published", "correction")  # keys of reports

_NOTES_IN_1: Mapping[str, tuple[str, str]] = {
    "ignored ": ("ignored-columns", "note"),
    "the model is constant": ("constant-model", "warning"),
    "the model is nearly constant": ("nearly-constant-model", "warning"),
    "bagging_by_query with several threads": ("not-deterministic", "warning"),
}
"""Beginnings of notes that version 1 was asked about, and kind and severity of the cautions that they are now."""


def _monitor_in_2(document: JsonObject) -> JsonObject:
    """Return a result of `monitor`, of which the outermost keys are renamed, with all its parts in version 2."""
    result: JsonObject = {key: _with_df(part) for key, part in document.items()}
    if "config" in document:  # the user's own, without estimates
        result["config"] = document["config"]
    for path, change in _CHANGES_OF_MONITOR_IN_2:
        result = _changed(result, path, change)
    return result


def _changed(value: Any, path: Sequence[str], change: Callable[[JsonObject], JsonObject]) -> Any:
    """Return a value with the objects at a path changed, those in lists too; anything else stays as it is."""
    if isinstance(value, list):
        return [_changed(part, path, change) for part in value]
    if not isinstance(value, dict):
        return value
    if not path:
        return change(value)
    if path[0] not in value:
        return value
    return value | {path[0]: _changed(value[path[0]], path[1:], change)}


def _with_df(value: Any) -> Any:
    """Return a value in which every estimate has `df` for its degrees of freedom."""
    if isinstance(value, list):
        return [_with_df(part) for part in value]
    if not isinstance(value, dict):
        return value
    parts = {key: _with_df(part) for key, part in value.items()}
    is_estimate = "freedom" in parts and "error" in parts
    return _with_names({"freedom": "df"}, parts) if is_estimate else parts


def _with_names(names: Mapping[str, str], part: JsonObject) -> JsonObject:
    return {names.get(key, key): value for key, value in part.items()}


def _with_cautions(key: str, kind: str, part: JsonObject) -> JsonObject:
    return part | {key: _as_caution(part[key], kind)} if key in part else part


def _as_caution(text: Any, kind: str) -> Any:
    """Return a text, or a list of texts, as cautions of version 2; None for an empty one."""
    if isinstance(text, list):
        return [_as_caution(element, kind) for element in text]
    return _caution_in_2(kind, "warning", text) if text else None


def _with_hyphens(check: JsonObject) -> JsonObject:
    return check | {"check": str(check.get("check")).replace("_", "-")}


_OF_PARTS_IN_2 = {"mix_chance": "mix_p", "unmatched_chance": "unmatched_p", "lacking": "unmatched_share"}
_OF_DRIFT_IN_2 = {"explains": "share_of_change", "carried": "wasserstein", "gain": "gain_share"}
_OF_ARMS_IN_2 = {"notes": "cautions", "ratio_p": "sample_ratio_p", "drift_p": "same_shares_p"}
_OF_PARITY_IN_2 = {"largest": "largest_difference", "typical": "median_difference"}
_CHANGES_OF_MONITOR_IN_2: Sequence[tuple[Sequence[str], Callable[[JsonObject], JsonObject]]] = (
    (["decompositions"], partial(_with_names, _OF_PARTS_IN_2 | {"improved_inside": "simpsons_paradox"})),
    (["drift"], partial(_with_names, _OF_PARTS_IN_2 | _OF_DRIFT_IN_2)),
    (["slices"], partial(_with_names, {"q": "p_corrected"})),
    (["adjustment"], partial(_with_names, {"plain": "unadjusted"})),
    (["labels"], partial(_with_names, {"what": "measure"})),
    (["windows"], partial(_with_names, {"orphans": "orphan_events", "bounded": "bounded_interval"})),
    (["presentation"], partial(_with_names, {"top": "rank_1_change", "effective": "effective_gains"})),
    (["arms"], partial(_with_names, _OF_ARMS_IN_2)),
    (["parity", "whole"], partial(_with_names, _OF_PARITY_IN_2)),
    (["parity", "windows"], partial(_with_names, _OF_PARITY_IN_2)),
    (["verdict"], partial(_with_names, {"untold": "caution"})),
    (["log_checks"], _with_hyphens),
    ([], partial(_with_cautions, "cautions", "notice")),
    (["arms"], partial(_with_cautions, "cautions", "notice")),
    (["verdict"], partial(_with_cautions, "caution", "cannot-tell")),
)


def _from_version_2(form: StoredForm, document: JsonObject) -> JsonObject:
    """Lift to version 3: what weighs a comparison's queries; of `monitor`, what was examined and is undecided."""
    if form == "comparison":
        document = {"weights": None} | document
    elif form == "monitor":
        document = _monitor_in_3(document)
    elif form == "report":
        of_runs = {key: document[key] for key in ("runs", "failures") if isinstance(document.get(key), list)}
        runs = {key: [_from_version_2("record", run) for run in runs] for key, runs in of_runs.items()}
        added: JsonObject = {"weights": None, "n_effective": document.get("n_queries"), "judged": {}}
        document = added | document | runs
    return document | {"schema_version": 3}


def _monitor_in_3(document: JsonObject) -> JsonObject:
    """Return a result whose where and why are about all of production, as they were."""
    added: JsonObject = {"undecided": "", "examined": None, "whole": None, "searched": [], "limits": []}
    added |= {"over_time": {"segments": [], "features": []}}
    result: JsonObject = _changed(added | document, ["presentation"], lambda part: _PRESENTATION_IN_3 | part)
    return result


_PRESENTATION_IN_3: JsonObject = {
    "rank_1_against_rest": None,
    "positives_change": None,
    "ips_normalised_before": None,
    "ips_normalised_now": None,
}

_STEPS: Mapping[int, Callable[[StoredForm, JsonObject], JsonObject]] = {
    1: _from_version_1,
    2: _from_version_2,
}
"""From each version to the next."""

_ADDED_SINCE_3: Mapping[StoredForm, JsonObject] = {"report": {"next_gain": [], "latencies": []}}
"""Keys that version 3 got after documents of it were stored, and their empty values, which those documents lack."""
