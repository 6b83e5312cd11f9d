"""Strict YAML: every value knows where it stands, and nothing is read as something it does not look like.

PyYAML speaks YAML 1.1 and keeps no positions. Here its scanner and composer are used, and the meaning of
plain words is that of YAML 1.2: ``1e-3`` is a number; ``no``, ``on`` and ``12:30:00`` are text. A key given
twice is an error instead of the last one winning. Anchors, aliases and ``<<`` work; tags (``!!python/…``)
are refused.
"""

from __future__ import annotations

import logging
import re
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from ltr_harness.catalog import did_you_mean
from ltr_harness.config.yaml_errors import control_character, in_words, sections
from ltr_harness.config.yaml_tree import Node, Place, Scalar
from ltr_harness.errors import ConfigError, Problem
from ltr_harness.wording import printable

log = logging.getLogger(__name__)

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LARGEST = 8 * 2**20  # bytes; hundreds of models take a tenth of it
_MOST_VALUES = 100_000  # of a file, with what its aliases stand for
_SECTIONS_LOOKED_AT = 100  # one by one, after a syntax error
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def read_yaml(path: Path, name: str | None = None) -> Node:
    """The file's tree; `name` is how messages call the file, its path unless given.

    Raises:
        ConfigError: the file cannot be read or is not YAML; duplicate keys and tags, all of them.
    """
    name = name or str(path)
    try:
        if path.is_fifo():
            log.warning("%s is a pipe: waiting for what is written to it", printable(name))
        size = path.stat().st_size
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)  # a device says that its size is 0, and may never end
        if len(content) > _LARGEST:
            most = f"{size / 2**20:,.0f} MiB" if size else f"more than {_LARGEST >> 20} MiB"
            raise ConfigError(
                Problem(name, f"is {most}, which no experiment is", "an experiment", not_an_experiment(name))
            )
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise ConfigError(Problem(name, "no such file", cure=_neighbours(path))) from None
    except UnicodeDecodeError as problem:
        found = f"byte {problem.start} is not UTF-8"
        raise ConfigError(Problem(name, found, "UTF-8 text", not_an_experiment(name))) from None
    except OSError as problem:
        raise ConfigError(Problem(name, f"cannot be read: {problem.strerror}")) from None
    return parse_yaml(text, name, path.resolve().parent)


def not_an_experiment(name: str) -> str:
    """What a file may be instead, by its name; "" for one that is called as experiments are."""
    if Path(name).suffix.lower() in (".yaml", ".yml", ".json"):
        return ""
    return f"is it data? `ltr-harness init {name}` writes an experiment for it"


def parse_yaml(text: str, name: str, folder: Path, *, lines: bool = True) -> Node:
    """The tree of a text.

    Raises:
        ConfigError: as `read_yaml`.

    Example:
        >>> tree = parse_yaml("{eta: 1e-3, on: no}", "example", Path())
        >>> tree.plain(), str(tree.mapping["on"].place)
        ({'eta': 0.001, 'on': 'no'}, 'example:1:17')
    """
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


class _Composer(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML up to its node graph; the tag says only whether a scalar was quoted."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        return "plain" if kind is yaml.ScalarNode and implicit[0] else "untagged"


class _Reading:
    """One text being read: collects problems, so that all duplicates and tags are told at once."""

    def __init__(self, name: str, folder: Path, lines: bool) -> None:
        self.name, self.folder, self.lines = name, folder, lines
        self.problems: list[Problem] = []
        self._open: set[int] = set()  # nodes being read: an alias to one of them is a circle

    def place(self, mark: Any) -> Place:
        line = mark.line + 1 if self.lines else 0
        return Place(self.name, line, mark.column + 1, self.folder)

    def tree(self, text: str) -> Node:
        root = _Composer(text).get_single_node()
        if root is None:
            self.problems.append(Problem(self.name, "is empty", "an experiment"))
            return Node(None, Place(self.name, 0, 0, self.folder))
        self._count(root, {})
        return self.node(root)

    def _count(self, source: Any, counts: dict[int, int]) -> int:
        """How many values a node stands for, each counted once however many aliases refer to it.

        Raises:
            ConfigError: more than a configuration holds.
        """
        if id(source) in counts:
            return counts[id(source)]
        counts[id(source)] = 1  # what contains itself ends here, and is said where it is read
        if not isinstance(source, yaml.ScalarNode):
            for child in source.value:
                counts[id(source)] += sum(
                    self._count(part, counts) for part in (child if isinstance(child, tuple) else (child,))
                )
        if counts[id(source)] > _MOST_VALUES:
            place = str(self.place(source.start_mark))
            held = f"holds more than {_MOST_VALUES:,} values, aliases spelt out"
            raise ConfigError(Problem(place, held, "a configuration"))
        return counts[id(source)]

    def node(self, source: Any) -> Node:
        place = self.place(source.start_mark)
        if source.tag not in ("plain", "untagged"):
            self.problems.append(
                Problem(
                    str(place),
                    f"tag {source.tag.replace('tag:yaml.org,2002:', '!!')!r}",
                    "plain YAML without tags",
                )
            )
        if id(source) in self._open:
            self.problems.append(Problem(str(place), "an alias refers to what contains it"))
            return Node(None, place)
        if isinstance(source, yaml.ScalarNode):
            return Node(
                plain_scalar(source.value) if source.tag == "plain" else self.text(source.value, place), place
            )
        self._open.add(id(source))
        try:
            if isinstance(source, yaml.SequenceNode):
                return Node([self.node(item) for item in source.value], place)
            return self.mapping(source, place)
        finally:
            self._open.discard(id(source))

    def text(self, escaped: str, place: Place) -> str:
        """Quoted text; JSON writes one character outside the basic plane as two escapes."""
        try:
            return escaped.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.problems.append(Problem(str(place), "half a character (a lone surrogate)", "text"))
            return ""

    def mapping(self, source: Any, place: Place) -> Node:
        entries: dict[str, Node] = {}
        places: dict[str, Place] = {}
        merged: list[Node] = []
        for key, value in source.value:
            key_place = self.place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(str(key_place), "a list or mapping as a key", "a name"))
            elif key.value == "<<" and key.tag == "plain":
                node = self.node(value)
                merged += node.value if isinstance(node.value, list) else [node]
            elif key.value in entries:
                first = places[key.value]
                told = f"line {first.line}" if first.line else "before"
                self.problems.append(
                    Problem(str(key_place), f"key {key.value!r} was given already, {told}", cure="remove one")
                )
            else:
                entries[key.value] = self.node(value)
                places[key.value] = key_place
        for node in merged:  # `<<`: the first that has a key wins, the mapping's own keys before all
            if not isinstance(node.value, dict):
                self.problems.append(
                    Problem(str(node.place), "'<<' without a mapping", "an alias of a mapping")
                )
            for name, value in node.mapping.items():
                if name not in entries:
                    entries[name], places[name] = value, node.key_places[name]
        return Node(entries, place, places)

    def problem(self, problem: yaml.YAMLError, text: str) -> None:
        if isinstance(problem, yaml.MarkedYAMLError):
            mark = problem.problem_mark or problem.context_mark
            place = str(self.place(mark)) if mark else self.name
            self.problems.append(Problem(place, *in_words(problem, text)))
        elif isinstance(problem, ReaderError):
            line, found = control_character(problem, text)
            self.problems.append(Problem(f"{self.name}:{line}", found, "text"))
        else:
            self.problems.append(Problem(self.name, f"not valid YAML: {problem}"))

    def look_further(self, text: str) -> None:
        """After a syntax error, read each top-level section alone, so that one typo does not hide the next."""
        told = False  # the first section that fails alone does so for the reason known already
        for section in islice(sections(text), _SECTIONS_LOOKED_AT):
            try:
                self.tree(section)
            except yaml.MarkedYAMLError as problem:
                if "undefined alias" in str(problem.problem):  # its anchor may stand in another section
                    continue
                if told:
                    self.problem(problem, section)
                told = True


def plain_scalar(text: str) -> Scalar:
    """What an unquoted word means in YAML 1.2 (core schema).

    Example:
        >>> [plain_scalar(word) for word in ("1e-3", "007", "no", "12:30:00", "1_000", "~")]
        [0.001, 7, 'no', '12:30:00', '1_000', None]
    """
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


def _neighbours(path: Path) -> str:
    """What the folder of a missing file holds instead."""
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    names = [file.name for file in path.parent.iterdir() if file.suffix in (".yaml", ".yml")]
    return did_you_mean(path.name, names) if names else ""
