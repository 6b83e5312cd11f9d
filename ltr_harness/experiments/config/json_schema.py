"""The JSON Schema of the experiment file, for editors.

``python -m ltr_harness.experiments.config.json_schema > configs/schema.json`` writes it. It comes from the same
classes that check the file, so the two cannot disagree about names and types. What an ``extends`` may supply is not
required here.
"""

import json
from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

from pydantic.json_schema import models_json_schema

from ltr_harness.data.known_sets import SETS
from ltr_harness.experiments.config.expand import DEFAULT_PRESET, PRESETS
from ltr_harness.experiments.config.problems import Schema
from ltr_harness.experiments.config.schema import (
    CompareConfig,
    DataLayout,
    Header,
    MetricsConfig,
    ModelOptions,
    ReportConfig,
    StoppingConfig,
)
from ltr_harness.experiments.config.study import StudyConfig
from ltr_harness.experiments.config.tune import SweepConfig, TuneConfig

TITLE = "ltr-harness experiment"

_SECTIONS = (
    Header, DataLayout, MetricsConfig, StoppingConfig, ModelOptions, SweepConfig, StudyConfig, TuneConfig,
    CompareConfig, ReportConfig,
)  # fmt: skip


def json_schema() -> Schema:
    """Return the schema of an experiment file with the readers and rankers that come with the harness."""
    from ltr_harness.data import readers
    from ltr_harness.models import table as rankers

    loaded_readers = {name: readers.catalog.load(name) for name in readers.READERS}
    loaded_rankers = {name: rankers.catalog.load(name) for name in rankers.RANKERS}
    kinds = [*_SECTIONS, *loaded_readers.values(), *loaded_rankers.values()]
    references, combined = models_json_schema([(kind, "validation") for kind in kinds])
    definitions: dict[str, Schema] = combined["$defs"]
    schemas = {
        kind: definitions.pop(references[kind, "validation"]["$ref"].rpartition("/")[2]) for kind in kinds
    }
    for kind in (MetricsConfig, StoppingConfig, StudyConfig, TuneConfig, CompareConfig):
        schemas[kind].pop("required", None)
    header, layout, options = (schemas[kind]["properties"] for kind in (Header, DataLayout, ModelOptions))
    layout["set"] = {
        "enum": list(SETS),
        "description": "A public set in its published layout, under `root`: supplies reader, options, splits and "
        "max_grade where they are not given.",
    }
    split = layout["splits"]["additionalProperties"]
    layout["splits"] = {  # flat, or by fold
        "type": "object",
        "description": layout["splits"]["description"],
        "if": {"anyOf": [{"required": [side]} for side in ("train", "valid", "test")]},
        "then": split,
        "else": {"additionalProperties": split},
    }
    schemas[MetricsConfig]["properties"]["preset"] = {
        "enum": list(PRESETS),
        "default": DEFAULT_PRESET,
        "description": "Supplies report, cutoffs and primary where they are not given.",
    }
    path_or_paths = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    readers_schema = {name: schemas[kind] for name, kind in loaded_readers.items()}
    rankers_schema = {name: schemas[kind] for name, kind in loaded_rankers.items()}
    data = _choice_schema(
        "reader", readers_schema, layout, "Where the rows come from and how they are divided."
    )
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "name": header["name"],
            "extends": {
                **path_or_paths,
                "description": "File or files this one builds on, relative to this file; its own values win.",
            },
            "seeds": header["seeds"],
            "data": data,
            "metrics": schemas[MetricsConfig],
            "stopping": _or_null(schemas[StoppingConfig]),
            "models": {
                "type": "object",
                "description": "The competitors, by the name that tables call them.",
                "additionalProperties": _choice_schema("ranker", rankers_schema, options, "One competitor."),
            },
            "sweep": _or_null(schemas[SweepConfig]),
            "study": _or_null(schemas[StudyConfig]),
            "tune": _or_null(schemas[TuneConfig]),
            "compare": schemas[CompareConfig],
            "report": _or_null(schemas[ReportConfig]),
        },
        "if": {"not": {"required": ["extends"]}},
        "then": {"required": ["name", "data", "models"]},
        "$defs": definitions,
    }
    return dict(_without_titles(schema))


def _or_null(section: Schema) -> Schema:
    return {"anyOf": [section, {"type": "null"}], "description": section.pop("description")}


def _choice_schema(
    key: str, kinds: Mapping[str, Schema], shared_properties: Schema, description: str
) -> Schema:
    """Return the schema of a mapping whose other keys depend on the class that `key` names."""
    choices = [
        {"const": name, "description": cleandoc(kind.get("description", "")).partition("\n")[0]}
        for name, kind in kinds.items()
    ]
    own_file = {"type": "string", "pattern": r"\.py:\w+$", "description": "./my_file.py:MyClass"}
    branches = [
        {
            "if": {"properties": {key: {"const": name}}, "required": [key]},
            "then": {
                "additionalProperties": False,
                "properties": {key: {}, **shared_properties, **kind.get("properties", {})},
                "required": kind.get("required", []),
            },
        }
        for name, kind in kinds.items()
    ]
    return {
        "type": "object",
        "description": description,
        "properties": {key: {"oneOf": [*choices, own_file]}, **shared_properties},
        "allOf": branches,
    }


def _without_titles(schema: Any) -> Any:
    """Return the schema without pydantic's automatic titles, which say nothing that the key does not."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    remaining = {}
    for key, value in schema.items():
        if key in ("properties", "$defs") and isinstance(value, dict):
            remaining[key] = {name: _without_titles(item) for name, item in value.items()}
        elif key != "title" or value == TITLE:
            remaining[key] = (
                value if key in ("default", "examples", "enum", "const") else _without_titles(value)
            )
    return remaining


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
