"""pydantic's findings in the words of the person who has to mend the file.

What was expected is read off the JSON Schema of the class, so it is the same thing an editor would say.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from pydantic import BaseModel, ValidationError

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.retired import retirement
from ltr_harness._util.text import plural
from ltr_harness.errors import HarnessError, MismatchError, Problem
from ltr_harness.experiments.config.yaml_tree import KeyPath, Node, PlacedProblem, dotted, node_text

Schema = dict[str, Any]
_LISTED = 100


def explain_errors(
    error: ValidationError, kind: type[BaseModel], node: Node, path: KeyPath, also_known: Iterable[str] = ()
) -> list[Problem]:
    """Return each problem of `node`, once."""
    return [problem for _, problem in placed_problems(error, kind, node, path, also_known)]


def placed_problems(
    error: ValidationError, kind: type[BaseModel], node: Node, path: KeyPath, also_known: Iterable[str] = ()
) -> list[PlacedProblem]:
    """Return each problem of `node`, once, with its place in the file."""
    schema = _schema_of(kind)
    problems: dict[KeyPath, PlacedProblem] = {}
    from_union: set[KeyPath] = set()
    # of a union's members, the one that was read and then refused says more than those that could not be read
    details = sorted(error.errors(include_url=False), key=lambda detail: "error" not in detail.get("ctx", {}))
    for detail in details[:_LISTED]:
        missing = detail["loc"][-1:] if detail["type"] == "missing" else ()
        steps = (*_steps(node, detail["loc"][:-1] if missing else detail["loc"]), *missing)
        if len(steps) < len(detail["loc"]):
            from_union.add(steps)
        if steps not in problems:
            problems[steps] = _Finding(detail, schema, node, path, steps).problem(also_known)
    # `valid: {holdout: 2}` is neither a list of files nor a good holdout: only the deeper finding helps.
    deeper = ((steps, other) for steps in from_union for other in problems if len(other) > len(steps))
    shallow = {steps for steps, other in deeper if other[: len(steps)] == steps}
    listed = [problem for steps, problem in problems.items() if steps not in shallow]
    n_more = len(details) - _LISTED
    if n_more > 0:
        more = Problem("", f"and {n_more:,} more {plural('problem', n_more)}", count=n_more)
        listed.append(PlacedProblem(listed[-1].place, more))
    return listed


@cache
def _schema_of(kind: type[BaseModel]) -> Schema:
    """Return the JSON Schema of a class, which never changes and takes 20 ms to make."""
    return kind.model_json_schema(by_alias=True)


@dataclass(frozen=True, eq=False)
class _Finding:
    """One of pydantic's findings, and where in the file it is."""

    detail: Any
    schema: Schema
    node: Node  # that was validated
    path: KeyPath  # to the node
    steps: KeyPath  # from the node to the finding

    @property
    def place(self) -> Node:
        """The node that the finding is about; the whole one where the file has none there."""
        return self.node.find(self.steps) or self.node

    @property
    def parent(self) -> Node | None:
        return self.node.find(self.steps[:-1]) if self.steps else None

    @property
    def name(self) -> str:
        return _path_text(self.path, self.steps, self.node)

    @cached_property
    def accepted(self) -> list[Schema]:
        return _schemas_at(self.schema, self.steps)

    @property
    def expected(self) -> str:
        return schema_in_words({"anyOf": self.accepted}, self.schema)

    @property
    def reason(self) -> str:
        return str(self.detail.get("ctx", {}).get("error") or self.detail["msg"])

    def problem(self, also_known: Iterable[str]) -> PlacedProblem:
        kind, parent = self.detail["type"], self.parent
        if kind == "missing":
            return self.missing_key()
        if parent is not None and kind in ("extra_forbidden", "unexpected_keyword_argument"):
            return self.unknown_key(parent, also_known)
        if parent is not None and self.detail["loc"][-1:] == ("[key]",):
            found = f"{dotted((*self.path, *self.steps[:-1]))}: name {str(self.steps[-1])!r}"
            return PlacedProblem.at(parent.key_places[str(self.steps[-1])], found, self.reason)
        error = self.detail.get("ctx", {}).get("error")
        if error is not None:
            return self.broken_rule(error)
        return self.wrong_value(self.expected or self.reason)

    def missing_key(self) -> PlacedProblem:
        place = (self.parent or self.node).place
        section = _path_text(self.path, self.steps[:-1], self.node) or "the experiment"
        if section.startswith("data.splits") and self.steps[-1] == "test":
            cure = "add `test: test.csv` or `test: {holdout: 0.2}`; or `files:` and `folds: 5` in place of splits"
            return PlacedProblem.at(place, f"{section} has no 'test'", cure=cure)
        return PlacedProblem.at(place, f"{section} has no {self.steps[-1]!r}", self.expected)

    def unknown_key(self, parent: Node, also_known: Iterable[str]) -> PlacedProblem:
        key = str(self.steps[-1])
        place, full_name = parent.key_places[key], dotted((*self.path, *self.steps))
        sentence = retirement(full_name)
        if sentence:
            return PlacedProblem.at(place, f"{full_name}: {sentence}")
        sections = _schemas_at(self.schema, self.steps[:-1])
        names = {name for section in sections for name in section.get("properties", ())}
        if len(self.steps) == 1:
            names |= set(also_known)
        stem = key.removesuffix("_name").removesuffix("_column").removesuffix("_col")
        cure = did_you_mean(key, names, {key.lower(): stem} if stem in names else None)
        if "params" in names and not cure.startswith("did you mean"):
            cure = f"parameters of the library go under params ({cure})"
        section_name = dotted((*self.path, *self.steps[:-1])) or "the experiment"
        return PlacedProblem.at(place, f"unknown key {key!r} in {section_name}", cure=cure)

    def broken_rule(self, error: Exception) -> PlacedProblem:
        """Return the problem of a value that a validator refused."""
        place = self.place.place
        if isinstance(error, HarnessError):
            problems = "; ".join(str(problem) for problem in error.problems)
            return PlacedProblem.at(place, f"{self.name}: {problems}")
        if not self.steps:  # two options that do not go together: the text names them
            return PlacedProblem.at(place, f"{self.name}: {error}")
        if isinstance(
            error, MismatchError
        ):  # a rule between options: the section's whole value is no part of it
            return PlacedProblem.at(place, f"{self.name}: {error.found}", error.expected)
        return self.wrong_value(str(error))

    def wrong_value(self, expected: str) -> PlacedProblem:
        value, kind, place = self.place.value, self.detail["type"], self.place.place
        found = f"{self.name} is {node_text(self.place)}"
        if isinstance(value, str):
            return self.wrong_text(value, found, expected)
        if isinstance(value, float) and "{holdout: …}" in expected:
            return PlacedProblem.at(place, found, cure=f"did you mean `{{holdout: {value:g}}}`?")
        if isinstance(value, int | float) and kind == "string_type":
            return PlacedProblem.at(place, found, expected, "put it in quotes to make it text")
        return PlacedProblem.at(place, found, expected)

    def wrong_text(self, value: str, found: str, expected: str) -> PlacedProblem:
        kind, place = self.detail["type"], self.place.place
        words = [word for option in self.accepted for word in option.get("enum", ())]
        names = [word for word in words if isinstance(word, str)]
        if kind == "literal_error" and names:
            return PlacedProblem.at(place, found, cure=did_you_mean(value, names))
        if kind == "string_too_short":
            expected += " that is not empty"
        cure = "write it without quotes" if _accepts_unquoted(value, self.accepted) else ""
        return PlacedProblem.at(place, found, expected, cure)


def _path_text(path: KeyPath, steps: KeyPath, node: Node) -> str:
    """Return a path as the file has it: the only fold of `splits: {train: …}` has no name there."""
    splits = node.mapping.get("splits")
    if steps[:2] == ("splits", "all") and splits and splits.mapping["all"].place == splits.place:
        steps = ("splits", *steps[2:])
    return dotted((*path, *steps))


def _accepts_unquoted(text: str, accepted: Iterable[Schema]) -> bool:
    """Return whether the text would be a value of an accepted kind, had it no quotes."""
    kinds = {option.get("type") for option in accepted}
    words = [word for option in accepted for word in option.get("enum", ())]
    try:
        value = json.loads(text)
    except ValueError:
        return False
    if isinstance(value, bool):
        return "boolean" in kinds
    return value in words if words else ("number" in kinds or ("integer" in kinds and isinstance(value, int)))


def _steps(node: Node, location: Sequence[str | int]) -> KeyPath:
    """Return pydantic's location without the names of a union's members, which are no keys of the data."""
    steps: KeyPath = ()
    for step in location:
        if node.find((*steps, step)) is not None:
            steps = (*steps, step)
    return steps


def _resolved(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema or len(schema.get("allOf", ())) == 1:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema["allOf"][0]
    return schema


def _schemas_at(root: Schema, steps: KeyPath) -> list[Schema]:
    """Return the schemas of the values that may stand at the path: one for each accepting option of a union."""
    schemas = _options(root, root)
    for step in steps:
        accepted: list[Schema] = []
        for schema in schemas:
            if isinstance(step, int):
                inner = schema.get("items")
            else:
                inner = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
            if isinstance(inner, dict):
                accepted += _options(inner, root)
        schemas = accepted
    return schemas


def _options(schema: Schema, root: Schema) -> list[Schema]:
    schema = _resolved(schema, root)
    if "anyOf" not in schema:
        return [schema]
    return [option for each in schema["anyOf"] for option in _options(each, root)]


_SINGULAR = {
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "object": "a mapping",
    "array": "a list",
}
_PLURAL = {"integer": "integers", "number": "numbers", "string": "text", "object": "mappings"}
_FORMATS = {"file-path": ("a file", "files"), "path": ("a path", "paths")}


def schema_in_words(schema: Schema, root: Schema) -> str:
    """Return the values that a JSON Schema accepts, as a noun."""
    schema = _resolved(schema, root)
    kind = schema.get("type", "")
    if "anyOf" in schema:
        return _alternatives([option for option in schema["anyOf"] if option.get("type") != "null"], root)
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    if "const" in schema:
        return repr(schema["const"])
    if kind == "array":
        return _list_in_words(_resolved(schema.get("items", {}), root))
    if kind == "object" and "properties" in schema:
        keys = schema.get("required") or schema["properties"]
        return f"a mapping {{{', '.join(f'{key}: …' for key in keys)}}}" if keys else "a mapping"
    singular, _ = _FORMATS.get(schema.get("format", ""), (_SINGULAR.get(kind, ""), ""))
    return singular + _range(schema)


def _alternatives(options: Iterable[Schema], root: Schema) -> str:
    words = [schema_in_words(option, root) for option in options]
    covered = [word.replace("a number", "an integer") for word in words if "a number" in word]
    return " or ".join(dict.fromkeys(word for word in words if word and word not in covered))


def _list_in_words(items: Schema) -> str:
    _, plural = _FORMATS.get(items.get("format", ""), ("", _PLURAL.get(items.get("type", ""))))
    return f"a list of {plural}{_range(items)}" if plural else "a list"


def _range(schema: Schema) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[word]}" for word, sign in signs.items() if word in schema]
    return f" {' and '.join(bounds)}" if bounds else ""
