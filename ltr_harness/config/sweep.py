"""Sweeps spelt out, on the tree: every point becomes a model with a name of its own, and places are kept."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from ltr_harness.catalog import did_you_mean
from ltr_harness.config.normal import from_plain
from ltr_harness.config.search import MOST_POINTS, SweepConfig
from ltr_harness.config.space import Range, shown_value
from ltr_harness.config.yaml_tree import Node, Place
from ltr_harness.errors import Problem

_LONGEST_NAME = 200
_TRIES = 100  # draws per point asked for, before the values are said to allow no more

PlacedProblem = tuple[Place, Problem]


class _Axis(NamedTuple):
    """One option, its values, and where both stand."""

    option: tuple[str, ...]
    values: Any
    node: Node
    place: Place


class _Value(NamedTuple):
    """One value, where it stands, and where its option does."""

    value: Any
    place: Place
    option_place: Place


Point = dict[tuple[str, ...], _Value]


def spelt_out(tree: Node) -> Node:
    """The tree with `sweep` spelt out in `models`; unchanged if anything is wrong, which `problems_of` says."""
    return _swept(tree)[0]


def problems_of(tree: Node) -> list[PlacedProblem]:
    """What is wrong with a sweep, beyond the types and names of its own options."""
    return _swept(tree)[1]


def _swept(tree: Node) -> tuple[Node, list[PlacedProblem]]:
    section = tree.mapping.get("sweep")
    models = tree.mapping.get("models")
    if section is None or section.value is None:
        return tree.without("sweep"), []
    try:
        plain = json.dumps(section.plain())
        config = SweepConfig.model_validate_json(plain, strict=True)
    except ValidationError:
        return tree, []  # `build` explains what is no sweep at all
    if models is None or not models.mapping:
        return tree, []  # and that there are no models
    problems: list[PlacedProblem] = []
    axes = {name: _axes(section, config, name, models.mapping, problems) for name in ("grid", "random")}
    entries: dict[str, Node] = {}
    places: dict[str, Place] = {}
    for name, node in models.mapping.items():
        grid, random = (axes[kind].get(name, []) for kind in ("grid", "random"))
        points = list(_points(grid, random, config, name, problems))
        if (grid or random) and points:
            names = _names(name, points, {*models.mapping, *entries})
            for called, point in zip(names, points, strict=True):
                entries[called], places[called] = _at(node, name, point), models.key_places[name]
        else:
            entries[name], places[name] = node, models.key_places[name]
    if problems:
        return tree, problems
    return tree.without("sweep").with_entry("models", Node(entries, models.place, places)), []


def origins(tree: Node) -> dict[str, str]:
    """Point to the model it was made of."""
    swept = {}
    for name, node in (tree.mapping.get("models") or tree).mapping.items():
        of = node.at(("point", "of"))
        if of is not None and isinstance(of.value, str):
            swept[name] = of.value
    return swept


def _axes(
    section: Node, config: SweepConfig, kind: str, models: Mapping[str, Node], problems: list[PlacedProblem]
) -> dict[str, list[_Axis]]:
    axes: dict[str, list[_Axis]] = {}
    written = section.mapping.get(kind, Node({}, section.place))
    for path, values in getattr(config, kind).items():
        place = written.key_places[path]
        rest = path.removeprefix("models.")
        owners = [name for name in models if rest.startswith(f"{name}.")]
        said = f"sweep.{kind}: {path!r}"
        if rest == path:
            expected = "an option of a model, such as models.NAME.params.PARAMETER"
            problems.append((place, Problem(str(place), said, expected)))
        elif not owners:
            cure = did_you_mean(rest.partition(".")[0], models)
            problems.append(
                (place, Problem(str(place), f"{said} names no model and option of it", cure=cure))
            )
        else:
            owner = max(owners, key=len)  # names may hold dots
            first, dot, name = rest[len(owner) + 1 :].partition(".")
            option = (first, name) if dot else (first,)
            axes.setdefault(owner, []).append(_Axis(option, values, written.mapping[path], place))
    return axes


def _points(
    grid: list[_Axis], random: list[_Axis], config: SweepConfig, model: str, problems: list[PlacedProblem]
) -> Iterator[Point]:
    n_points = math.prod(len(axis.values) for axis in grid) * (config.points or 1 if random else 1)
    if n_points > MOST_POINTS:
        said = f"sweep: its values make {n_points:,} models of models.{model}"
        cure = "sweep.random draws as many points as sweep.points says"
        place = (grid or random)[0].place
        problems.append((place, Problem(str(place), said, f"at most {MOST_POINTS:,}", cure)))
        return
    draws = _drawn(random, config, model, problems) if random else [{}]
    listed = [[(axis.option, _listed(axis, at)) for at in range(len(axis.values))] for axis in grid]
    for combination in itertools.product(*listed):
        for draw in draws:
            yield {**dict(combination), **draw}


def _drawn(axes: list[_Axis], config: SweepConfig, model: str, problems: list[PlacedProblem]) -> list[Point]:
    """As many different points as asked for."""
    wanted = config.points or 0
    key = [
        config.seed,
        int.from_bytes(model.encode(), "big") % 2**64,
    ]  # adding a model leaves the others' points
    rng = np.random.Generator(np.random.Philox(key=key))
    points: dict[str, Point] = {}
    for _ in range(wanted * _TRIES):
        point = {axis.option: _one(axis, float(rng.random())) for axis in axes}
        points.setdefault(json.dumps([value.value for value in point.values()]), point)
        if len(points) == wanted:
            break
    else:
        place = axes[0].node.place
        said = f"sweep.points is {wanted}, and the values of models.{model} allow {len(points)}"
        problems.append((place, Problem(str(place), said, f"points: {len(points)}, or sweep.grid")))
    return list(points.values())


def _one(axis: _Axis, share: float) -> _Value:
    if isinstance(axis.values, Range):
        return _Value(axis.values.drawn(share), axis.node.place, axis.place)
    return _listed(axis, int(share * len(axis.values)))


def _listed(axis: _Axis, at: int) -> _Value:
    item = axis.node.at((at,))
    assert item is not None  # values and nodes are the same list
    return _Value(axis.values[at], item.place, axis.place)


def _names(model: str, points: list[Point], taken: set[str]) -> list[str]:
    """``lgb num_leaves=15 learning_rate=0.05``; numbered where that would be too long or not unique."""
    lasts = [option[-1] for option in points[0]]
    labels = {
        option: option[-1] if lasts.count(option[-1]) == 1 else ".".join(option) for option in points[0]
    }
    names: list[str] = []
    for number, point in enumerate(points, start=1):
        parts = [f"{labels[option]}={shown_value(one.value)}" for option, one in point.items()]
        name = " ".join([model, *parts])
        if len(name) > _LONGEST_NAME or not name.isprintable() or name in taken or name in names:
            name = f"{model} #{number}"
        names.append(name)
    return names


def _at(node: Node, model: str, point: Point) -> Node:
    """The model with a point's values in the place of its own."""
    for option, (value, place, option_place) in point.items():
        node = _with(node, option, from_plain(value, place), option_place)
    at = {".".join(option): value.value for option, value in point.items()}
    return node.with_entry("point", from_plain({"of": model, "at": at}, node.place))


def _with(node: Node, option: tuple[str, ...], value: Node, place: Place) -> Node:
    key, rest = option[0], option[1:]
    if not rest:  # mistakes are told where the sweep says it, not where the model does
        return Node({**node.mapping, key: value}, node.place, {**node.key_places, key: place})
    return node.with_entry(key, _with(node.mapping.get(key, Node({}, place)), rest, value, place))
