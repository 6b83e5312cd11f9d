"""The JSON Schema that editors use: fresh, and of one mind with the loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ltr_harness.data import readers
from ltr_harness.experiments.config import load_experiment, resolved_yaml
from ltr_harness.experiments.config.expand import merged_tree
from ltr_harness.experiments.config.json_schema import json_schema
from ltr_harness.experiments.config.schema import DataLayout, ModelOptions
from ltr_harness.experiments.config.yaml_tree import parse_yaml
from ltr_harness.models import table as rankers

REFRESH = "python -m ltr_harness.experiments.config.json_schema > configs/schema.json"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema()


@pytest.mark.long
def test_the_committed_schema_is_fresh(repository: Path, schema: dict[str, Any]) -> None:
    committed = json.loads((repository / "configs" / "schema.json").read_text(encoding="utf-8"))
    assert committed == schema, f"configs/schema.json is stale; refresh it with: {REFRESH}"


def configs() -> list[Path]:
    folder = Path(__file__).resolve().parents[3] / "configs"
    return sorted(
        set(folder.rglob("*.yaml")) - set(folder.glob("monitor_*.yaml"))
    )  # these are no experiments


@pytest.fixture(scope="module")
def validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.long
@pytest.mark.parametrize("path", configs(), ids=lambda path: path.stem)
def test_every_config_fits_as_written_and_as_resolved(
    path: Path, validator: jsonschema.Draft202012Validator
) -> None:
    validator.validate(merged_tree(path).as_python())
    resolved = resolved_yaml(load_experiment(path, check_rankers=False))
    validator.validate(parse_yaml(resolved, "resolved", Path()).as_python())


def valid_config(**changes: Any) -> dict[str, Any]:
    data = {"reader": "letor", "splits": {"train": "a", "valid": "b", "test": "c"}}
    return {"name": "x", "data": data, "models": {"m": {"ranker": "random"}}, **changes}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"sedes": [1]}, []),
        ({"seeds": ["a"]}, ["seeds", 0]),
        ({"data": {"reader": "letor", "noise": 1.0}}, ["data"]),  # an option of another reader
        ({"data": {"reader": "letter"}}, ["data", "reader"]),
        ({"data": {"reader": "letor", "splits": {"train": "a"}}}, ["data", "splits"]),
        ({"data": {"reader": "letor", "splits": {"f": {"train": "a"}}}}, ["data", "splits", "f"]),
        ({"models": {"m": {"ranker": "feature"}}}, ["models", "m"]),
        ({"models": {"m": {"ranker": "random", "params": {}}}}, ["models", "m"]),
        ({"models": {"m": {"ranker": "lightgbm", "rounds": 0}}}, ["models", "m", "rounds"]),
        ({"stopping": {"metric": "ndcg@10", "on": "test"}}, ["stopping"]),
        ({"metrics": {"preset": "serach"}}, ["metrics", "preset"]),
        ({"compare": {"test": "anova"}}, ["compare", "test"]),
    ],
)
def test_mistakes_are_seen_where_they_are(
    changes: dict[str, Any], where: list[str | int], validator: jsonschema.Draft202012Validator
) -> None:
    validator.validate(valid_config())
    errors = list(validator.iter_errors(valid_config(**changes)))
    assert errors
    assert where in [list(error.absolute_path) for error in errors]


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"reader": "./my_reader.py:Mine", "anything": 1}},
        {"models": {"m": {"ranker": "my.py:Mine", "depth": 3}, "n": {"ranker": "feature", "feature": 3}}},
        {"stopping": None},
        {"study": {"of": "m", "features": {"groups": {"text": "bm25"}}, "queries": [0.25, 0.5]}},
        {
            "study": {
                "of": ["m"],
                "features": {"groups": {"text": ["bm25", 3]}},
                "queries": {"shares": [0.5, 0.25]},
            }
        },
        {"report": {"formats": "md", "sections": "verdict"}},
        {"metrics": {"report": [{"metric": "ndcg", "gain": "linear"}]}},
    ],
)
def test_what_the_loader_would_take_is_not_refused(
    changes: dict[str, Any], validator: jsonschema.Draft202012Validator
) -> None:
    validator.validate(valid_config(**changes))


def test_a_file_that_extends_another_may_leave_out_anything(
    validator: jsonschema.Draft202012Validator,
) -> None:
    validator.validate({"extends": "base.yaml", "data": {"root": "x"}, "models": {"m": {"rounds": 3}}})
    assert not validator.is_valid({"data": {"root": "x"}})


@pytest.mark.long
def test_every_key_of_ours_and_of_readers_and_rankers_is_described(schema: dict[str, Any]) -> None:
    branches = [
        *schema["properties"]["data"]["allOf"],
        *schema["properties"]["models"]["additionalProperties"]["allOf"],
    ]
    options = {
        key: value
        for branch in branches
        for key, value in branch["then"]["properties"].items()
        if key not in ("reader", "ranker")
    }
    sections = [schema["properties"][name]["properties"] for name in ("metrics", "compare", "data")]
    for key, value in [*options.items(), *(item for section in sections for item in section.items())]:
        assert key in ("reader", "ranker") or value.get("description"), f"{key} has no description"


def test_no_reader_or_ranker_has_an_option_that_is_ours() -> None:
    """`data:` and a model are one mapping for both: a name must mean one thing."""
    for catalog, table, ours in (
        (readers.catalog, readers.READERS, {"reader", *DataLayout.model_fields}),
        (rankers.catalog, rankers.RANKERS, {"ranker", *ModelOptions.model_fields}),
    ):
        for name in table:
            assert not ours & set(catalog.load(name).model_fields), name
