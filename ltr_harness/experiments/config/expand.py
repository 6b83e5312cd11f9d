"""A configuration's tree with ``extends`` and ``--set`` merged, short forms and sweeps expanded.

Values keep the places where they were written; what is malformed is left for `load` to explain.
"""

import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import ValidationError

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.user_code import is_own_file
from ltr_harness.data.addresses import is_address
from ltr_harness.errors import ConfigError, Problem
from ltr_harness.experiments.config.tune import MOST_POINTS, Range, SweepConfig, shown_value
from ltr_harness.experiments.config.yaml_tree import (
    Node,
    Place,
    PlacedProblem,
    from_python,
    node_text,
    not_an_experiment,
    parse_yaml,
    read_yaml,
)

# What an experiment leaves open is taken from its preset, `search` unless it names another.
PRESETS: dict[str, dict[str, Any]] = {
    # graded web or product search: the order of the first page
    "search": {"report": ["ndcg", "mrr", "err", "map"], "cutoffs": [1, 3, 5, 10], "primary": "ndcg@10"},
    # one right answer: how far down is it
    "navigational": {"report": ["mrr", "success", "ndcg"], "cutoffs": [1, 3, 5, 10], "primary": "mrr@10"},
    # nothing relevant may be missed: patents, law, medicine
    "recall": {"report": ["map", "recall", "ndcg"], "cutoffs": [10, 100, 1000], "primary": "map@1000"},
    # a shelf of recommendations, clicked or not
    "recsys": {"report": ["map", "precision", "recall", "ndcg"], "cutoffs": [5, 10, 20], "primary": "map@10"},
    # passages handed to a language model: are they there, and how early
    "rag": {"report": ["recall", "mrr", "ndcg"], "cutoffs": [1, 3, 5, 10, 20], "primary": "recall@10"},
}
DEFAULT_PRESET = "search"

_MOST_FILES = 100

# Below these, keys are names the user chose: `--set` does not invent one on its way to something deeper.
_NAMED_BY_USER = {("models",), ("data", "splits")}


def merged_tree(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Node:
    """Return the configuration as one tree: ``--set`` over the file's values, and those over the files it extends."""
    problems: list[Problem] = []
    tree = _with_bases(source, (), problems, [])
    for override in overrides:
        option, folder = f"--set {override}", Path.cwd()
        path, equals, text = override.partition("=")
        steps = path.strip().split(".")
        if not equals or not all(steps):
            problems.append(Problem(option, "found no 'path=value'", "such as --set stopping.patience=20"))
        elif steps[0] == "extends":
            problems.append(
                Problem(option, "extends cannot be set from outside", cure="write it in the file")
            )
        else:
            try:  # block YAML would take `a: b` in a value for a mapping; that is what the user typed, so it is fine
                empty = Node(None, Place(option, 0, 0, folder))
                value = parse_yaml(text, option, folder, lines=False) if text.strip() else empty
                tree = _replace_value(tree, steps, value, (), option)
            except ConfigError as error:
                problems += error.problems
    ConfigError.refuse(problems)
    return tree


def configuration_files(source: Path) -> list[Path]:
    """Return a configuration's file, and those that it extends, directly or not, as far as they can be read."""
    extended_files: list[Path] = []
    _with_bases(source, (), [], extended_files)
    return [source.expanduser(), *extended_files]


def merged(base: Node, over: Node) -> Node:
    """Return `over` on top of `base`: mappings are merged key by key, everything else is replaced."""
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
    extended_files: list[Path],
    name: str | None = None,
) -> Node:
    """Return the source on top of all that it extends, and collect the problems and the files that it extends."""
    place = Place(name or "configuration", 0, 0, Path.cwd())
    try:
        tree = _read_source(source, place, name)
    except ConfigError as error:
        problems += error.problems
        return Node({}, place)
    extends = tree.mapping.get("extends")
    if extends is None:
        return tree
    if not isinstance(source, Mapping):
        open_files = (*open_files, (Path(source).expanduser().resolve(), tree.place.name))
    base = Node({}, extends.place)
    extended = extends.value if isinstance(extends.value, list) else [extends]
    for node in extended:
        try:
            path, name = _extended_file(node, tree.place.name, open_files)
        except ConfigError as error:
            problems += error.problems
            continue
        extended_files.append(path)
        if len(extended_files) > _MOST_FILES:  # files that extend two each, over and over
            raise ConfigError([*problems, Problem(str(node.place), f"extends more than {_MOST_FILES} files")])
        base = merged(base, _with_bases(path, open_files, problems, extended_files, name))
    return merged(base, tree.drop_keys("extends"))


def _read_source(source: str | Path | Mapping[str, Any], place: Place, name: str | None) -> Node:
    """Return a file or a mapping as a tree; ConfigError where it cannot be read, or is no mapping."""
    if isinstance(source, Mapping):
        problems: list[Problem] = []
        tree = from_python(source, place, problems)
        ConfigError.refuse(problems)
    else:
        tree = read_yaml(Path(source).expanduser(), name)
    if isinstance(tree.value, dict):
        return tree
    cure = "" if isinstance(source, Mapping) else not_an_experiment(tree.place.name)
    expected = "a mapping such as 'name: my-experiment'"  # what it holds, maybe a secret, is not quoted
    raise ConfigError.at(tree.place, "is not an experiment", expected, cure)


def _extended_file(node: Node, file_name: str, open_files: Sequence[tuple[Path, str]]) -> tuple[Path, str]:
    """Return the file that `extends` names, and its name in messages; ConfigError where it cannot be extended."""
    if not isinstance(node.value, str):
        raise ConfigError.at(node.place, f"extends is {node_text(node)}", "a path or a list of paths")
    path = node.place.folder / Path(node.value).expanduser()
    name = os.path.normpath(os.path.join(os.path.dirname(file_name), node.value))
    circle = [open_name for file, open_name in open_files if file == path.resolve()]
    if circle:
        chain = " -> ".join([*(open_name for _, open_name in open_files), circle[0]])
        raise ConfigError.at(node.place, f"extends is circular: {chain}")
    if not path.is_file():
        raise ConfigError.at(node.place, f"extends {node.value!r}: there is no file {name!r}")
    return path, name


def _replace_value(node: Node, steps: list[str], value: Node, parents: tuple[str, ...], option: str) -> Node:
    """Return a node with another value at the end of the steps; ConfigError, which names the option, if it has none."""
    if not steps:
        return value
    section_name = ".".join(parents) or "the experiment"
    if isinstance(node.value, list):
        index = _list_index(node.value, steps[0], section_name, option)
        items = list(node.value)
        items[index] = _replace_value(items[index], steps[1:], value, (*parents, steps[0]), option)
        return Node(items, node.place)
    if node.value is None:  # `stopping:` left empty, or null: there is nothing to lose
        node = Node({}, value.place)
    if not isinstance(node.value, dict):
        raise ConfigError(Problem(option, f"{section_name} is {node.as_python()!r} and has nothing below it"))
    lengths = range(len(steps), 0, -1)  # names may hold dots, so the longest that exists is taken
    length = next((length for length in lengths if ".".join(steps[:length]) in node.mapping), 1)
    key, rest = ".".join(steps[:length]), steps[length:]
    if key not in node.value and rest and parents in _NAMED_BY_USER:
        raise ConfigError(
            Problem(option, f"{section_name} has no {key!r}", cure=did_you_mean(key, node.value))
        )
    below = node.value.get(key, Node({}, value.place))
    return node.with_entry(key, _replace_value(below, rest, value, (*parents, key), option))


def _list_index(items: Sequence[Node], text: str, section_name: str, option: str) -> int:
    """Return the text as an index of a list; ConfigError where the list has none such."""
    if text.isascii() and text.isdigit() and int(text) < len(items):
        return int(text)
    expected = f"an index from 0 to {len(items) - 1}" if items else "nothing: the list is empty"
    raise ConfigError(Problem(option, f"{section_name} is a list and has no {text!r}", expected))


PRIMARY = "primary"  # as an objective: the metric that decides the experiment


def normal_form(tree: Node) -> Node:
    """Return the tree with every short form expanded."""
    normalisers = {"data": _data, "metrics": _metrics, "models": _models, "compare": _compare}
    for section, normalise in normalisers.items():
        node = tree.mapping.get(section)
        if (node is None or node.value is None) and section in ("metrics", "compare"):
            node = Node({}, tree.place)  # these two have defaults for everything
        if node is not None and isinstance(node.value, dict):
            tree = tree.with_entry(section, normalise(node, tree))
    return tree.change_at(("stopping", "metric"), _resolve_own_file)


def absolute_path(node: Node, *, data: bool = False) -> Node:
    """Return a path made absolute: relative to the file it is written in, or of the command line to this folder."""
    if not isinstance(node.value, str) or (data and is_address(node.value)):
        return node
    if is_address(node.value):
        raise ConfigError.at(node.place, f"{node.value!r} is an address", "a path of this machine")
    return Node(str((node.place.folder / Path(node.value).expanduser()).resolve()), node.place)


def _data(data: Node, tree: Node) -> Node:
    public_set = data.mapping.get("set")
    if public_set is not None and isinstance(public_set.value, str):
        from ltr_harness.data.known_sets import SETS

        if public_set.value in SETS:
            section = SETS[public_set.value].data_section()
            if not {"folds", "files"}.isdisjoint(data.mapping):  # a division of its own
                section.pop("splits", None)
            data = data.drop_keys("set").with_defaults(section, public_set.place)
    data = data.with_entry("root", absolute_path(data.mapping.get("root", Node(".", tree.place))))
    data = data.change_at(("reader",), _resolve_own_file)
    splits = data.mapping.get("splits")
    if splits is not None and not splits.mapping.keys().isdisjoint(("train", "valid", "test")):
        data = data.with_entry("splits", Node({"all": splits}, splits.place, {"all": splits.place}))
    judgments = data.mapping.get("judgments")
    if judgments is not None and isinstance(judgments.value, str | list):
        files = {"files": judgments}
        data = data.with_entry("judgments", Node(files, judgments.place, {"files": judgments.place}))
    return data


def _metrics(metrics: Node, tree: Node) -> Node:
    preset = metrics.mapping.get("preset")
    name = DEFAULT_PRESET if preset is None else preset.value
    if isinstance(name, str) and name in PRESETS:
        place = metrics.place if preset is None else preset.place
        metrics = metrics.drop_keys("preset").with_defaults(PRESETS[name], place)
    return metrics.change_at(("primary",), _resolve_own_file).change_at(("report",), _resolve_own_file)


def _models(models: Node, tree: Node) -> Node:
    primary, entries = tree.find(("metrics", "primary")), {}
    for name, model in models.mapping.items():
        model = model.change_at(("ranker",), _resolve_own_file).change_at(("estimator",), _resolve_own_file)
        objective = model.mapping.get("objective")
        if objective is not None and objective.value == PRIMARY and primary is not None:
            metric = Node({"metric": primary}, objective.place, {"metric": objective.place})
            model = model.with_entry("objective", metric)
        elif objective is not None and "metric" in objective.mapping:
            metric = objective.mapping["metric"]
            deciding_metric = (
                primary if metric.value == PRIMARY and primary is not None else _resolve_own_file(metric)
            )
            model = model.with_entry("objective", objective.with_entry("metric", deciding_metric))
        entries[name] = model
    return replace(models, value=entries)


def _compare(compare: Node, tree: Node) -> Node:
    if "baseline" in compare.mapping:
        return compare
    models = tree.mapping.get("models", tree)
    first = next(iter(models.mapping), "-")  # without models there is something else to complain about
    return compare.with_entry("baseline", Node(first, models.key_places.get(first, models.place)))


def _resolve_own_file(node: Node) -> Node:
    """Return ``./my_metric.py:MyMetric`` with an absolute path, also in a list or a metric written as a mapping."""
    if isinstance(node.value, list):
        return Node([_resolve_own_file(item) for item in node.value], node.place)
    if isinstance(node.value, dict):
        return node.change_at(("metric",), _resolve_own_file)
    if not isinstance(node.value, str) or not is_own_file(node.value):
        return node
    path, _, rest = node.value.partition(".py:")
    file = absolute_path(Node(f"{path}.py", node.place))
    return Node(f"{file.value}:{rest}", node.place)


_LONGEST_NAME = 200
_TRIES = 100  # draws per point asked for, before the values are said to allow no more


class _Axis(NamedTuple):
    """One option of a model that is swept: its values, and where both stand."""

    option: tuple[str, ...]
    values: Any
    node: Node
    place: Place

    def listed_values(self) -> list[Node]:
        """Return each of its values; none for a range."""
        items = self.node.value if isinstance(self.node.value, list) else []
        return [from_python(item.as_python(), item.place) for item in items]

    def value_at(self, share: float) -> Node:
        """Return the value at a share of the way from the first to the last."""
        if isinstance(self.values, Range):
            return from_python(self.values.value_at(share), self.node.place)
        return self.listed_values()[int(share * len(self.values))]


AxisValues = list[tuple[_Axis, Node]]


def expand_sweep(tree: Node) -> tuple[Node, list[PlacedProblem]]:
    """Return the tree with the points of `sweep` in `models`; or unchanged, with the problems of the sweep."""
    section = tree.mapping.get("sweep")
    models = tree.mapping.get("models")
    if section is None or section.value is None:
        return tree.drop_keys("sweep"), []
    try:
        config = section.validated(SweepConfig)
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
        points = list(_points(grid, random, config, name, problems)) if grid or random else []
        nodes = _nodes_of_points(name, node, points, {*models.mapping, *entries})
        entries |= nodes
        places |= dict.fromkeys(nodes, models.key_places[name])
    if problems:
        return tree, problems
    return tree.drop_keys("sweep").with_entry("models", Node(entries, models.place, places)), []


def _nodes_of_points(
    name: str, node: Node, points: list[AxisValues], used_names: set[str]
) -> dict[str, Node]:
    """Return a model's points by their names; the model itself where it is not swept."""
    if not points:
        return {name: node}
    names = _names(name, points, used_names)
    return {
        point_name: _with_point(node, name, point) for point_name, point in zip(names, points, strict=True)
    }


def origins(tree: Node, kind: Literal["point", "variant"] = "point") -> dict[str, str]:
    """Return for each point of a sweep, or each variant of a study, the model that it was made of."""
    models = tree.mapping.get("models")
    if models is None:
        return {}
    origin_nodes = ((name, node.find((kind, "of"))) for name, node in models.mapping.items())
    return {
        name: origin.value
        for name, origin in origin_nodes
        if origin is not None and isinstance(origin.value, str)
    }


def models_by_origin(tree: Node) -> dict[str, list[str]]:
    """Return for each model that is swept the names of its points."""
    points: dict[str, list[str]] = {}
    for point, model in origins(tree).items():
        points.setdefault(model, []).append(point)
    return points


def _axes(
    section: Node, config: SweepConfig, kind: str, models: Mapping[str, Node], problems: list[PlacedProblem]
) -> dict[str, list[_Axis]]:
    axes: dict[str, list[_Axis]] = {}
    kind_node = section.mapping.get(kind, Node({}, section.place))
    for path, values in getattr(config, kind).items():
        place = kind_node.key_places[path]
        rest = path.removeprefix("models.")
        owners = [name for name in models if rest.startswith(f"{name}.")]
        label = f"sweep.{kind}: {path!r}"
        if rest == path:
            expected = "an option of a model, such as models.NAME.params.PARAMETER"
            problems.append(PlacedProblem.at(place, label, expected))
        elif not owners:
            cure = did_you_mean(rest.partition(".")[0], models)
            problems.append(PlacedProblem.at(place, f"{label} names no model and option of it", cure=cure))
        else:
            owner = max(owners, key=len)  # names may hold dots
            first, dot, name = rest[len(owner) + 1 :].partition(".")
            option = (first, name) if dot else (first,)
            axes.setdefault(owner, []).append(_Axis(option, values, kind_node.mapping[path], place))
    return axes


def _points(
    grid: list[_Axis], random: list[_Axis], config: SweepConfig, model: str, problems: list[PlacedProblem]
) -> Iterator[AxisValues]:
    n_draws = 1  # of a model without random options, the only draw is empty
    if random and config.points is not None:
        n_draws = config.points
    n_points = math.prod(len(axis.values) for axis in grid) * n_draws
    if n_points > MOST_POINTS:
        found = f"sweep: its values make {n_points:,} models of models.{model}"
        cure = "sweep.random draws as many points as sweep.points says"
        problems.append(PlacedProblem.at((grid or random)[0].place, found, f"at most {MOST_POINTS:,}", cure))
        return
    draws = _draws(random, n_draws, config.seed, model)
    if len(draws) < n_draws:
        found = f"sweep.points is {n_draws}, and the values of models.{model} allow {len(draws)}"
        problems.append(PlacedProblem.at(random[0].node.place, found, f"points: {len(draws)}, or sweep.grid"))
    for combination in itertools.product(*(axis.listed_values() for axis in grid)):
        for draw in draws:
            yield [*zip(grid, combination, strict=True), *draw]


def _draws(random: list[_Axis], n_draws: int, seed: int, model: str) -> list[AxisValues]:
    """Return as many different random points as asked for, or those that there are."""
    # adding a model leaves the others' points
    key = [seed, int.from_bytes(model.encode(), "big") % 2**64]
    rng = np.random.Generator(np.random.Philox(key=key))
    draws: dict[str, AxisValues] = {}
    for _ in range(n_draws * _TRIES):
        draw = [(axis, axis.value_at(float(rng.random()))) for axis in random]
        draws.setdefault(json.dumps([value.as_python() for _, value in draw]), draw)
        if len(draws) == n_draws:
            break
    return list(draws.values())


def _names(model: str, points: list[AxisValues], used_names: set[str]) -> list[str]:
    """Return names such as ``lgb num_leaves=15``; numbered where that would be too long or not unique."""
    options = [axis.option for axis, _ in points[0]]
    lasts = [option[-1] for option in options]
    labels = [option[-1] if lasts.count(option[-1]) == 1 else ".".join(option) for option in options]
    names: list[str] = []
    for number, point in enumerate(points, start=1):
        values = [shown_value(value.as_python()) for _, value in point]
        name = " ".join([model, *map("{}={}".format, labels, values)])
        if len(name) > _LONGEST_NAME or not name.isprintable() or name in used_names or name in names:
            name = f"{model} #{number}"
        names.append(name)
    return names


def _with_point(node: Node, model: str, point: AxisValues) -> Node:
    """Return the model with a point's values in the place of its own."""
    for axis, value in point:
        *above, key = axis.option
        owner = node.find(axis.option[:-1]) or Node({}, axis.place)
        # problems are shown in the place of the sweep, not of the model
        owner = Node({**owner.mapping, key: value}, owner.place, {**owner.key_places, key: axis.place})
        node = node.with_entry(above[0], owner) if above else owner
    values = {".".join(axis.option): value.as_python() for axis, value in point}
    return node.with_entry("point", from_python({"of": model, "at": values}, node.place))
