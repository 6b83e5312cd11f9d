"""pydantic's findings in the words of the person who has to mend the file.

What was expected is read off the JSON Schema of the class, so it is the same thing an editor would say.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.retired import retirement
from ltr_harness._util.text import plural
from ltr_harness.errors import HarnessError, Problem
from ltr_harness.experiments.config.yaml_tree import KeyPath, Node, dotted, shown

Schema = dict[str, Any]
_LISTED = 100


def explained(
    error: ValidationError, kind: type[BaseModel], node: Node, path: KeyPath, also_known: Iterable[str] = ()
) -> list[Problem]:
    """Each thing wrong with `node`, once, at its place in the file."""
    schema = kind.model_json_schema(by_alias=True)
    problems: dict[KeyPath, Problem] = {}
    from_union: set[KeyPath] = set()
    # of a union's members, the one that was read and then refused says more than those that could not be read
    details = sorted(error.errors(include_url=False), key=lambda detail: "error" not in detail.get("ctx", {}))
    for detail in details[:_LISTED]:
        missing = detail["loc"][-1:] if detail["type"] == "missing" else ()
        steps = (*_steps(node, detail["loc"][:-1] if missing else detail["loc"]), *missing)
        if len(steps) < len(detail["loc"]):
            from_union.add(steps)
        if steps not in problems:
            problems[steps] = _one(detail, schema, node, path, steps, also_known)
    # `valid: {holdout: 2}` is neither a list of files nor a good holdout: only the deeper finding helps.
    deeper = ((steps, other) for steps in from_union for other in problems if len(other) > len(steps))
    shallow = {steps for steps, other in deeper if other[: len(steps)] == steps}
    listed = [problem for steps, problem in problems.items() if steps not in shallow]
    left = len(details) - _LISTED
    if left > 0:
        listed.append(Problem("", f"and {left:,} more {plural('problem', left)}", count=left))
    return listed


def _one(
    detail: Any, schema: Schema, node: Node, path: KeyPath, steps: KeyPath, also_known: Iterable[str]
) -> Problem:
    called = _called(path, steps, node)
    parent = node.at(steps[:-1]) if steps else None
    accepted = _schemas_at(schema, steps)
    expected = in_words({"anyOf": accepted}, schema)
    if detail["type"] == "missing":
        place = (parent or node).place
        owner = _called(path, steps[:-1], node) or "the experiment"
        if owner.startswith("data.splits") and steps[-1] == "test":
            cure = "add `test: test.csv` or `test: {holdout: 0.2}`; or `files:` and `folds: 5` in place of splits"
            return Problem(place, f"{owner} has no 'test'", cure=cure)
        return Problem(place, f"{owner} has no {steps[-1]!r}", expected)
    if detail["type"] in ("extra_forbidden", "unexpected_keyword_argument") and parent is not None:
        key = str(steps[-1])
        place = parent.key_places[key]
        full_name = dotted((*path, *steps))
        if sentence := retirement(full_name):
            return Problem(place, f"{full_name}: {sentence}")
        known = {key for option in _schemas_at(schema, steps[:-1]) for key in option.get("properties", ())}
        if len(steps) == 1:
            known |= set(also_known)
        cure = did_you_mean(key, known)
        if "params" in known and not cure.startswith("did you mean"):
            cure = f"parameters of the library go under params ({cure})"
        where = dotted((*path, *steps[:-1])) or "the experiment"
        return Problem(place, f"unknown key {key!r} in {where}", cure=cure)
    there, raised = node.at(steps) or node, detail.get("ctx", {}).get("error")
    reason = str(detail["msg"] if raised is None else raised)
    if detail["loc"][-1:] == ("[key]",) and parent is not None:
        place = parent.key_places[str(steps[-1])]
        return Problem(place, f"{dotted((*path, *steps[:-1]))}: name {str(steps[-1])!r}", reason)
    if isinstance(raised, HarnessError):
        told = "; ".join(str(problem) for problem in raised.problems)
        return Problem(there.place, f"{called}: {told}")
    if raised is not None and not steps:  # two options that do not go together: the text names them
        return Problem(there.place, f"{called}: {reason}")
    if raised is not None or not expected:
        expected = reason
    wrong, says_both, cure = expected.partition("; expected ")
    if raised is not None and says_both:  # a rule between fields: the section's whole value is no part of it
        return Problem(there.place, f"{called}: {wrong}", cure)
    if detail["type"] == "string_too_short":
        expected += " that is not empty"
    cure = ""
    words = [word for option in accepted for word in option.get("enum", ()) if isinstance(word, str)]
    if detail["type"] == "literal_error" and isinstance(there.value, str) and words:
        expected, cure = "", did_you_mean(there.value, words)
    elif isinstance(there.value, str) and _accepts_unquoted(there.value, accepted):
        cure = "write it without quotes"
    elif isinstance(there.value, float) and "{holdout: …}" in expected:
        expected, cure = "", f"did you mean `{{holdout: {there.value:g}}}`?"
    elif detail["type"] == "string_type" and isinstance(there.value, int | float):
        cure = "put it in quotes to make it text"
    return Problem(there.place, f"{called} is {shown(there)}", expected, cure)


def _called(path: KeyPath, steps: KeyPath, node: Node) -> str:
    """A path as the file has it: the only fold of `splits: {train: …}` has no name there."""
    splits = node.mapping.get("splits")
    if steps[:2] == ("splits", "all") and splits and splits.mapping["all"].place == splits.place:
        steps = ("splits", *steps[2:])
    return dotted((*path, *steps))


def _accepts_unquoted(text: str, accepted: Iterable[Schema]) -> bool:
    """Whether the text would be a value of the right kind, had it no quotes."""
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
    """pydantic's location without what is no key of the data: the names of a union's members."""
    steps: KeyPath = ()
    for step in location:
        if node.at((*steps, step)) is not None:
            steps = (*steps, step)
    return steps


def _resolved(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema or len(schema.get("allOf", ())) == 1:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema["allOf"][0]
    return schema


def _schemas_at(root: Schema, steps: KeyPath) -> list[Schema]:
    """What may stand at the path: several where an option of a union each accepts something."""
    schemas = _options(root, root)
    for step in steps:
        below: list[Schema] = []
        for schema in schemas:
            if isinstance(step, int):
                inner = schema.get("items")
            else:
                inner = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
            if isinstance(inner, dict):
                below += _options(inner, root)
        schemas = below
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


def in_words(schema: Schema, root: Schema) -> str:
    """What a JSON Schema accepts, as a noun."""
    schema = _resolved(schema, root)
    if "anyOf" in schema:
        options = [in_words(option, root) for option in schema["anyOf"] if option.get("type") != "null"]
        covered = [option.replace("a number", "an integer") for option in options if "a number" in option]
        return " or ".join(dict.fromkeys(option for option in options if option and option not in covered))
    if "enum" in schema or "const" in schema:
        words: list[Any] = schema.get("enum") or [schema["const"]]
        return " or ".join(repr(word) for word in words)
    kind = schema.get("type", "")
    if kind == "array":
        items = _resolved(schema.get("items", {}), root)
        _, plural = _FORMATS.get(items.get("format", ""), ("", _PLURAL.get(items.get("type", ""))))
        return f"a list of {plural}{_range(items)}" if plural else "a list"
    if kind == "object" and "properties" in schema:
        required = ", ".join(f"{key}: …" for key in schema.get("required") or schema["properties"])
        return f"a mapping {{{required}}}" if required else "a mapping"
    singular, _ = _FORMATS.get(schema.get("format", ""), (_SINGULAR.get(kind, ""), ""))
    return singular + _range(schema)


def _range(schema: Schema) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[word]}" for word, sign in signs.items() if word in schema]
    return f" {' and '.join(bounds)}" if bounds else ""
