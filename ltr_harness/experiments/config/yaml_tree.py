"""Strict YAML as a tree whose every value knows where it was written.

PyYAML reads YAML 1.1 and keeps no positions: here its composer is used, and plain words mean what they do in YAML 1.2
(``1e-3`` is a number; ``no`` and ``12:30:00`` are text). Duplicate keys and tags (``!!python/…``) are refused.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import yaml
from yaml.reader import ReaderError

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.escapes import printable, without_secrets
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, ConfigError, Problem

if TYPE_CHECKING:
    from pydantic import BaseModel

Kind = TypeVar("Kind", bound="BaseModel")

Scalar = str | int | float | bool | None
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """The place of a value; `line` is 0 where there are no lines, as in ``--set a.b=v``."""

    name: str
    line: int = 0
    column: int = 0
    folder: Path = Path()  # what a relative path written here is relative to

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}" if self.line else self.name

    def position(self, main: str) -> tuple[bool, str, int, int]:
        """Return the key that problems are sorted by: the main file first, then file, line and column."""
        return self.name != main, self.name, self.line, self.column


class PlacedProblem(NamedTuple):
    """A problem of a configuration, and the place that it is sorted by."""

    place: Place
    problem: Problem

    @classmethod
    def at(cls, place: Place, found: str, expected: str = "", cure: str = "") -> Self:
        return cls(place, Problem(str(place), found, expected, cure))


@dataclass(frozen=True)
class Node:
    """A value and its place; the keys of a mapping have places of their own."""

    value: Scalar | list[Node] | dict[str, Node]
    place: Place
    key_places: Mapping[str, Place] = field(default_factory=dict)

    @property
    def mapping(self) -> dict[str, Node]:
        """The entries of a mapping; empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def as_python(self) -> Any:
        """Return the value as Python's own dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.as_python() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.as_python() for node in self.value]
        return self.value

    def validated(self, kind: type[Kind]) -> Kind:
        """Return the section as its model, by strict JSON rules.

        A list may become a tuple and text a path, but "5" and true are no numbers.
        """
        return kind.model_validate_json(json.dumps(self.as_python()), strict=True)

    def find(self, path: KeyPath) -> Node | None:
        """Return the node at a path below this one, or None."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            if isinstance(node.value, dict):
                node = node.value.get(str(step))
            elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
            else:
                return None
        return node

    def with_entry(self, key: str, node: Node) -> Node:
        """Return this mapping with one entry replaced or added."""
        places = {**self.key_places, key: self.key_places.get(key, node.place)}
        return Node({**self.mapping, key: node}, self.place, places)

    def with_defaults(self, values: Mapping[str, Any], place: Place) -> Node:
        """Return this mapping with the entries that it lacks, at the place that they follow from."""
        lacking = {key: from_python(value, place) for key, value in values.items() if key not in self.mapping}
        places = {**dict.fromkeys(lacking, place), **self.key_places}
        return Node({**self.mapping, **lacking}, self.place, places)

    def change_at(self, path: tuple[str, ...], change: Callable[[Node], Node]) -> Node:
        """Return this mapping with the node at a path, if it exists, as `change` returns it."""
        node = self.mapping.get(path[0])
        if node is None:
            return self
        return self.with_entry(path[0], node.change_at(path[1:], change) if path[1:] else change(node))

    def keep_keys(self, keys: Iterable[str]) -> Node:
        """Return this mapping with the given keys only."""
        wanted_keys = set(keys)
        entries = {key: node for key, node in self.mapping.items() if key in wanted_keys}
        return Node(entries, self.place, {key: self.key_places[key] for key in entries})

    def drop_keys(self, *keys: str) -> Node:
        """Return this mapping without the given keys."""
        return self.keep_keys(self.mapping.keys() - set(keys))


def dotted(path: KeyPath) -> str:
    """Return a path as ``--set`` takes it."""
    return ".".join(str(step) for step in path)


def node_text(node: Node) -> str:
    """Return a value as messages print it: short, in YAML's words."""
    text = json.dumps(node.as_python(), ensure_ascii=False)
    if isinstance(node.value, str):
        text = repr(node.value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def secrets_in(text: str, place: Place, name: str = "") -> list[Problem]:
    """Return the problem of an address that holds a secret, which folders of experiments and records would keep."""
    if without_secrets(text) == text:
        return []
    found = f"{name} has a secret in it, which records would keep".lstrip()
    return [Problem(str(place), found, "an address without", "sign in by the environment")]


TRUTHS_MEANT = {"stopping": {True: "on"}, "alerts": {True: "on"}}
"""Section to its keys of which `yaml.safe_load` makes truth values, as YAML 1.1 does of on, off, yes, no, y and n."""


def _key_of(key: Any, path: str) -> str:
    """Return a key of Python's own mapping as text, as it was written where YAML 1.1 has made a truth value of it."""
    if isinstance(key, bool):
        return TRUTHS_MEANT.get(path, {}).get(key, str(key))
    return str(key)


def from_python(value: Any, place: Place, problems: list[Problem] | None = None, path: str = "") -> Node:
    """Return Python's own values, NumPy numbers and paths as a tree at one place; `problems` gets all others."""
    if isinstance(value, Mapping):
        return _from_mapping(value, place, problems, path)
    if isinstance(value, list | tuple):
        items = [from_python(item, place, problems, f"{path}.{index}") for index, item in enumerate(value)]
        return Node(items, place)
    if hasattr(value, "tolist"):  # a NumPy number or array
        return from_python(value.tolist(), place, problems, path)
    if isinstance(value, PurePath):
        value = str(value)
    if problems is None or value is None or isinstance(value, bool | int | float):
        return Node(value, place)
    if isinstance(value, str):
        problems += secrets_in(value, place, path)
        return Node(value, place)
    found = f"{path} is a {type(value).__name__}"
    if type(value).__name__ in ("DataFrame", "LazyFrame", "Table"):
        cure = "wrap it: from_frame(df, query=…, label=…)"
        problems.append(Problem(str(place), found, "a dataset", cure))
    else:
        problems.append(Problem(str(place), found, "text, a number, a list or a mapping"))
    return Node(None, place)


def _from_mapping(
    mapping: Mapping[Any, Any], place: Place, problems: list[Problem] | None, path: str
) -> Node:
    entries = {}
    for key, item in mapping.items():
        name = _key_of(key, path)
        entries[name] = from_python(item, place, problems, f"{path}.{name}".lstrip("."))
    if problems is not None:
        for name in entries:
            problems += secrets_in(name, place, f"a key of {path or 'the experiment'}")
    return Node(entries, place, dict.fromkeys(entries, place))


_MISPLACED = ("mapping values are not allowed here", "expected <block end>, but found")


def describe_syntax_error(problem: yaml.MarkedYAMLError, text: str) -> tuple[str, str, str]:
    """Return the finding, the expectation and the cure for a syntax error."""
    message, context = problem.problem or problem.context or "not YAML", problem.context or ""
    mark, opened = problem.problem_mark or problem.context_mark, problem.context_mark
    if "parsing a flow" in context and mark is not None and opened and opened.line < mark.line:
        bracket = text.splitlines()[opened.line][opened.column]
        found = f"the {bracket!r} of line {opened.line + 1} is not closed, or a ',' is missing before this"
        return found, "", ""
    if mark is not None and (message.startswith(_MISPLACED) or "got ':'" in message):
        lines = text.splitlines()[: mark.line + 1]
        indentation = _indentation(lines)
        if indentation is not None:
            return (*indentation, "")
        return f"not valid YAML: {message}", "", _cure_of_colon(lines[-1])
    if "could not find expected ':'" in message:
        return f"not valid YAML: {message}", "", "is a ':' or a space after it missing?"
    if "single document" in context:
        return "not valid YAML: a second document ('---')", "", "one experiment per file"
    cure = "indent with spaces" if "'\\t'" in message else ""
    return f"not valid YAML: {message}", "", cure


def _indentation(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return the finding and the expectation for the last line's indentation; None where it is not the reason."""
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    written = [bool(line.strip()) and not line.lstrip().startswith("#") for line in lines]
    previous = [(number, indents[number - 1]) for number in range(1, len(lines)) if written[number - 1]]
    if not previous:
        return None
    last_indent = indents[-1]
    before, deepest = previous[-1]
    fitting = [(before, deepest)]
    for number, indent in reversed(previous):
        if indent < fitting[-1][1]:
            fitting.append((number, indent))
    opens = lines[before - 1].split("#")[0].rstrip().endswith((":", "-"))
    if last_indent in [indent for _, indent in fitting] or (last_indent > deepest and opens):
        return None
    number, indent = min(fitting, key=lambda candidate: abs(candidate[1] - last_indent))
    name = lines[-1].strip().partition(":")[0]
    expected = f"{count_of(indent, 'space')}, as in line {number}"
    return f"{name!r} is indented by {count_of(last_indent, 'space')}", expected


def _cure_of_colon(line: str) -> str:
    """Return the cure for lines such as ``objective: rank: ndcg``: to YAML, a colon before a space ends a key."""
    form = re.search(r"([\w.]+): +([^\s'\"{\[,:]+): +([^\s,}\]]+)", line)
    if form is None:
        return ""
    key, first, second = form.groups()
    return f"a value with a colon and a space needs quotes; or is it {key}: {first}:{second}?"


log = logging.getLogger(__name__)

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LARGEST = 8 * 2**20  # bytes; hundreds of models take a tenth of it
_MOST_VALUES = 100_000  # of a file, with what its aliases stand for
_DEEPEST = 100  # levels of a configuration
_SECTIONS_LOOKED_AT = 100  # one by one, after a syntax error
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def read_yaml(path: Path, name: str | None = None) -> Node:
    """Return the file's tree; `name` is the file's name in messages, its path unless given."""
    name = name or str(path)
    try:
        if path.is_fifo():
            text = f"{printable(name)} is a pipe: waiting for its writer"
            log.warning(Caution("waiting-for-a-pipe", "note", text))
        text = _content(path, name).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise ConfigError(Problem(name, "no such file", cure=_cure_of_absence(path))) from None
    except UnicodeDecodeError as problem:
        found = f"byte {problem.start} is not UTF-8"
        raise ConfigError(Problem(name, found, "UTF-8 text", not_an_experiment(name))) from None
    except OSError as problem:
        raise ConfigError(Problem(name, f"cannot be read: {problem.strerror}")) from None
    return parse_yaml(text, name, path.resolve().parent)


def _content(path: Path, name: str) -> bytes:
    """Return the bytes of a file that is no larger than experiments are."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        content = stream.read(_LARGEST + 1)  # a device says that its size is 0, and may never end
    if len(content) > _LARGEST:
        most = f"{size / 2**20:,.0f} MiB" if size else f"more than {_LARGEST >> 20} MiB"
        found = f"is {most}, too large for an experiment"
        raise ConfigError(Problem(name, found, "an experiment", not_an_experiment(name)))
    return content


def _cure_of_absence(path: Path) -> str:
    """Return the name that may be meant among the files of its folder."""
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    names = [file.name for file in path.parent.iterdir() if file.suffix in (".yaml", ".yml")]
    return did_you_mean(path.name, names) if names else ""


def not_an_experiment(name: str) -> str:
    """Return the cure for a file that is no experiment, by its name; "" where it is named like an experiment."""
    if Path(name).suffix.lower() in (".yaml", ".yml", ".json"):
        return ""
    return f"is it data? `ltr-harness init {name}` writes an experiment for it"


def parse_yaml(text: str, name: str, folder: Path, *, lines: bool = True) -> Node:
    """Return the tree of a text; refuse duplicate keys, tags and what is no YAML together."""
    reading = _Reading(name, folder, lines)
    try:
        tree = reading.tree(text)
    except yaml.YAMLError as problem:
        reading.problem(problem, text)
        if not isinstance(problem, ReaderError):
            reading.look_further(text)
    except RecursionError:
        reading.problems.append(Problem(name, "is nested too deeply"))
    else:
        if not reading.problems:
            return tree
    raise ConfigError(list(dict.fromkeys(reading.problems)))


class _Composer(yaml.BaseLoader):
    """PyYAML up to its node graph; the tag says only whether a scalar was quoted."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError  # at one depth everywhere: Python's own limit is the program's
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        return "plain" if kind is yaml.ScalarNode and implicit[0] else "untagged"


class _Reading:
    """One text being read: collects problems, so that all duplicates and tags are refused at once."""

    def __init__(self, name: str, folder: Path, lines: bool) -> None:
        self.name, self.folder, self.lines = name, folder, lines
        self.problems: list[Problem] = []
        self._open: set[int] = set()  # nodes being read: an alias to one of them is a circle

    def add(self, place: Place | str, found: str, expected: str = "", cure: str = "") -> None:
        self.problems.append(Problem(str(place), found, expected, cure))

    def place(self, mark: Any) -> Place:
        line = mark.line + 1 if self.lines else 0
        return Place(self.name, line, mark.column + 1, self.folder)

    def tree(self, text: str) -> Node:
        root = _Composer(text).get_single_node()
        if root is None:
            self.add(self.name, "is empty", "an experiment")
            return Node(None, Place(self.name, 0, 0, self.folder))
        self._count(root, {})
        return self.node(root)

    def _count(self, source: Any, counts: dict[int, int]) -> int:
        """Return the number of a node's values, each counted once however many aliases refer to it; refuse too many."""
        if id(source) in counts:
            return counts[id(source)]
        counts[id(source)] = 1  # what contains itself ends here, and is said where it is read
        if not isinstance(source, yaml.ScalarNode):
            for child in source.value:
                parts = child if isinstance(child, tuple) else (child,)
                counts[id(source)] += sum(self._count(part, counts) for part in parts)
        if counts[id(source)] > _MOST_VALUES:
            place = self.place(source.start_mark)
            held = f"holds more than {_MOST_VALUES:,} values, aliases spelt out"
            raise ConfigError.at(place, held, "a configuration")
        return counts[id(source)]

    def node(self, source: Any) -> Node:
        place = self.place(source.start_mark)
        if source.tag not in ("plain", "untagged"):
            tag = source.tag.replace("tag:yaml.org,2002:", "!!")
            self.add(place, f"tag {tag!r}", "plain YAML without tags")
        if id(source) in self._open:
            self.add(place, "an alias refers to what contains it")
            return Node(None, place)
        if isinstance(source, yaml.ScalarNode):
            if source.tag == "plain":
                self.problems += secrets_in(source.value, place)
                return Node(plain_scalar(source.value), place)
            try:  # in quoted text, JSON writes one character outside the basic plane as two escapes
                text = source.value.encode("utf-16", "surrogatepass").decode("utf-16")
                self.problems += secrets_in(text, place)
                return Node(text, place)
            except UnicodeDecodeError:
                self.add(place, "half a character (a lone surrogate)", "text")
                return Node("", place)
        self._open.add(id(source))
        try:
            if isinstance(source, yaml.SequenceNode):
                return Node([self.node(item) for item in source.value], place)
            return self.mapping(source, place)
        finally:
            self._open.discard(id(source))

    def mapping(self, source: Any, place: Place) -> Node:
        entries: dict[str, Node] = {}
        places: dict[str, Place] = {}
        merged: list[Node] = []
        for key, value in source.value:
            key_place = self.place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self.add(key_place, "a list or mapping as a key", "a name")
            elif key.value == "<<" and key.tag == "plain":
                node = self.node(value)
                merged += node.value if isinstance(node.value, list) else [node]
            elif key.value in entries:
                first = places[key.value]
                earlier_place = f"line {first.line}" if first.line else "before"
                self.add(
                    key_place, f"key {key.value!r} was given already, {earlier_place}", cure="remove one"
                )
            else:
                self.problems += secrets_in(key.value, key_place)
                entries[key.value] = self.node(value)
                places[key.value] = key_place
        return self.merged(Node(entries, place, places), merged)

    def merged(self, node: Node, bases: Iterable[Node]) -> Node:
        """Return a mapping with the entries of `<<`: the first that has a key wins, the mapping's own before all."""
        entries, places = dict(node.mapping), dict(node.key_places)
        for base in bases:
            if not isinstance(base.value, dict):
                self.add(base.place, "'<<' without a mapping", "an alias of a mapping")
            lacking = base.drop_keys(*entries)
            entries |= lacking.mapping
            places |= lacking.key_places
        return Node(entries, node.place, places)

    def problem(self, problem: yaml.YAMLError, text: str) -> None:
        if isinstance(problem, yaml.MarkedYAMLError):
            mark = problem.problem_mark or problem.context_mark
            place = self.place(mark) if mark else self.name
            self.add(place, *describe_syntax_error(problem, text))
        elif isinstance(problem, ReaderError):
            code = problem.character if isinstance(problem.character, int) else ord(problem.character)
            line = text.count("\n", 0, problem.position) + 1
            self.add(f"{self.name}:{line}", f"control character #x{code:02x}", "text")
        else:
            self.add(self.name, f"not valid YAML: {problem}")

    def look_further(self, text: str) -> None:
        """After a syntax error, read each top-level section alone, so that one typo does not hide the next."""
        lines = text.splitlines(keepends=True)
        starts = [number for number, line in enumerate(lines) if re.match(r"[\w'\"][^#]*:(\s|$)", line)]
        has_failed = False  # the first section that fails alone does so for the reason known already
        for start, end in [*pairwise([*starts, len(lines)])][:_SECTIONS_LOOKED_AT]:
            section = "\n" * start + "".join(lines[start:end])  # on the lines where it stands in the text
            try:
                self.tree(section)
            except yaml.MarkedYAMLError as problem:
                if "undefined alias" in str(problem.problem):  # its anchor may stand in another section
                    continue
                if has_failed:
                    self.problem(problem, section)
                has_failed = True


def plain_scalar(text: str) -> Scalar:
    """Return the meaning of an unquoted word in YAML 1.2 (core schema)."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text) and len(text) < 1000:  # Python refuses to read longer numbers
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL_FLOAT.fullmatch(text):
        return float(text.replace(".", "").lower())
    return text


def one_line_yaml(value: Any, *, sort_keys: bool = True) -> str:
    """Return a value as YAML on one line, quoted where it must be."""
    text: str = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=True, width=10_000, sort_keys=sort_keys
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()
