"""A configuration as a tree whose every value knows where it was written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from ltr_harness.errors import ConfigError, Problem

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Place:
    """Where a value was written; ``line`` 0 where there are no lines, as in ``--set a.b=v``."""

    name: str
    line: int
    column: int
    folder: Path  # what a relative path written here is relative to

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}" if self.line else self.name


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

    def plain(self) -> Any:
        """The value as Python's own dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, path: tuple[str | int, ...]) -> Node | None:
        """The node below this one, or None."""
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
        """This mapping with one entry replaced or added."""
        places = {**self.key_places, key: self.key_places.get(key, node.place)}
        return Node({**self.mapping, key: node}, self.place, places)

    def only(self, keys: Iterable[str]) -> Node:
        """This mapping with none but the given keys."""
        wanted = set(keys)
        kept = [key for key in self.mapping if key in wanted]
        return Node(
            {key: self.mapping[key] for key in kept}, self.place, {key: self.key_places[key] for key in kept}
        )

    def without(self, *keys: str) -> Node:
        """This mapping without the given keys."""
        return self.only(self.mapping.keys() - set(keys))


def shown(node: Node) -> str:
    """A value as messages print it: short, in YAML's words."""
    text = json.dumps(node.plain(), ensure_ascii=False)
    if isinstance(node.value, str):
        text = repr(node.value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def from_values(data: Mapping[str, Any], name: str, folder: Path) -> Node:
    """The tree of Python's own dicts, lists and scalars; paths and NumPy numbers are taken as what they say.

    Raises:
        ConfigError: values of other types, all of them.

    Example:
        >>> from_values({"seeds": (1, 2)}, "configuration", Path()).plain()
        {'seeds': [1, 2]}
    """
    place = Place(name, 0, 0, folder)
    problems: list[Problem] = []

    def node(value: Any, path: str) -> Node:
        if isinstance(value, Mapping):
            return Node(
                {str(key): node(item, f"{path}.{key}".lstrip(".")) for key, item in value.items()},
                place,
                {str(key): place for key in value},
            )
        if isinstance(value, list | tuple):
            return Node([node(item, f"{path}.{index}") for index, item in enumerate(value)], place)
        if hasattr(value, "tolist"):  # a NumPy number or array
            return node(value.tolist(), path)
        if isinstance(value, PurePath):
            return Node(str(value), place)
        if value is not None and not isinstance(value, str | bool | int | float):
            problems.append(
                Problem(name, f"{path} is a {type(value).__name__}", "text, a number, a list or a mapping")
            )
            return Node(None, place)
        return Node(value, place)

    tree = node(data, "")
    if problems:
        raise ConfigError(problems)
    return tree
