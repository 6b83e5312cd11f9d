"""From a file, what it extends and ``--set`` to one tree, in which every value still knows where it was written."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ltr_harness.catalog import did_you_mean
from ltr_harness.config.yaml_text import not_an_experiment, parse_yaml, read_yaml
from ltr_harness.config.yaml_tree import Node, Place, from_values, shown
from ltr_harness.errors import ConfigError, Problem

_MOST_FILES = 100

# Below these, keys are names the user chose: `--set` does not invent one on its way to something deeper.
_NAMED_BY_USER = {("models",), ("data", "splits")}


def merged_tree(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Node:
    """The whole configuration as one tree.

    ``extends: base.yaml`` (or a list, later files before earlier ones) puts the file's own values over
    those of the base: mappings are merged key by key, everything else is replaced.

    Raises:
        ConfigError: unreadable files, syntax errors, circular `extends`, impossible overrides: all at once.
    """
    problems: list[Problem] = []
    tree = _with_bases(source, (), problems, itertools.count(1))
    for override in overrides:
        try:
            tree = _overridden(tree, override)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return tree


def merged(base: Node, over: Node) -> Node:
    """`over` on top of `base`: mappings are merged key by key, everything else is replaced."""
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    entries = dict(base.value)
    for key, node in over.value.items():
        entries[key] = merged(entries[key], node) if key in entries else node
    return Node(entries, over.place, {**base.key_places, **over.key_places})


def _with_bases(
    source: str | Path | Mapping[str, Any],
    open_files: tuple[tuple[Path, str], ...],
    problems: list[Problem],
    files: Iterator[int],
    name: str | None = None,
) -> Node:
    here = Path.cwd()
    nothing = Node({}, Place(name or "configuration", 0, 0, here))
    try:
        if isinstance(source, Mapping):
            tree = from_values(source, "configuration", here)
        else:
            path = Path(source).expanduser()
            tree = read_yaml(path, name)
            open_files = (*open_files, (path.resolve(), tree.place.name))
    except ConfigError as error:
        problems += error.problems
        return nothing
    if not isinstance(tree.value, dict):
        cure = "" if isinstance(source, Mapping) else not_an_experiment(tree.place.name)
        problems.append(
            # what it holds is not quoted: it may be any file of this machine
            Problem(str(tree.place), "is not an experiment", "a mapping such as 'name: my-experiment'", cure)
        )
        return nothing
    extends = tree.mapping.get("extends")
    if extends is None:
        return tree
    base = Node({}, extends.place)
    for node in extends.value if isinstance(extends.value, list) else [extends]:
        if not isinstance(node.value, str):
            problems.append(
                Problem(str(node.place), f"extends is {shown(node)}", "a path or a list of paths")
            )
            continue
        path = node.place.folder / Path(node.value).expanduser()
        name = os.path.normpath(os.path.join(os.path.dirname(tree.place.name), node.value))
        circle = [known for file, known in open_files if file == path.resolve()]
        if circle:
            chain = " -> ".join([*(known for _, known in open_files), circle[0]])
            problems.append(Problem(str(node.place), f"extends is circular: {chain}"))
            continue
        if not path.is_file():
            problems.append(Problem(str(node.place), f"extends {node.value!r}: there is no file {name!r}"))
            continue
        if next(files) > _MOST_FILES:  # files that extend two each, over and over
            raise ConfigError([*problems, Problem(str(node.place), f"extends more than {_MOST_FILES} files")])
        base = merged(base, _with_bases(path, open_files, problems, files, name))
    return merged(base, tree.without("extends"))


def _overridden(tree: Node, override: str) -> Node:
    said = f"--set {override}"
    path, equals, text = override.partition("=")
    steps = path.strip().split(".")
    if not equals or not all(steps):
        raise ConfigError(Problem(said, "found no 'path=value'", "such as --set stopping.patience=20"))
    if steps[0] == "extends":
        raise ConfigError(Problem(said, "extends cannot be set from outside", cure="write it in the file"))
    here = Path.cwd()
    # Block YAML would take `a: b` in a value for a mapping; that is what the user typed, so it is fine.
    value = parse_yaml(text, said, here, lines=False) if text.strip() else Node(None, Place(said, 0, 0, here))
    return _replaced(tree, steps, value, (), said)


def _replaced(node: Node, steps: list[str], value: Node, walked: tuple[str, ...], said: str) -> Node:
    if not steps:
        return value
    where = ".".join(walked) or "the experiment"
    if isinstance(node.value, list):
        if not (steps[0].isascii() and steps[0].isdigit()) or int(steps[0]) >= len(node.value):
            known = (
                f"an index from 0 to {len(node.value) - 1}" if node.value else "nothing: the list is empty"
            )
            raise ConfigError(Problem(said, f"{where} is a list and has no {steps[0]!r}", known))
        index = int(steps[0])
        items = list(node.value)
        items[index] = _replaced(items[index], steps[1:], value, (*walked, steps[0]), said)
        return Node(items, node.place)
    if node.value is None:  # `stopping:` left empty, or null: there is nothing to lose
        node = Node({}, value.place)
    if not isinstance(node.value, dict):
        raise ConfigError(Problem(said, f"{where} is {node.plain()!r} and has nothing below it"))
    key, rest = _next_key(node.value, steps)
    if key not in node.value and rest and walked in _NAMED_BY_USER:
        raise ConfigError(Problem(said, f"{where} has no {key!r}", cure=did_you_mean(key, node.value)))
    below = node.value.get(key, Node({}, value.place))
    return node.with_entry(key, _replaced(below, rest, value, (*walked, key), said))


def _next_key(entries: Mapping[str, Node], steps: list[str]) -> tuple[str, list[str]]:
    """The next key and what remains; names may hold dots, so the longest that exists is taken."""
    for length in range(len(steps), 0, -1):
        key = ".".join(steps[:length])
        if key in entries:
            return key, steps[length:]
    return steps[0], steps[1:]
