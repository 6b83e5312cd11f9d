"""Short forms spelt out, on the tree: afterwards there is one way to say everything, and places are kept.

A flat ``{train, valid, test}`` becomes the fold ``all``; a public set becomes its reader, options and splits;
what a metrics preset implies is filled in; the baseline is the first model; paths are absolute. What is
malformed is left for `build` to complain about.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ltr_harness.config.presets import DEFAULT_PRESET, PRESETS
from ltr_harness.config.yaml_tree import Node, Place
from ltr_harness.known_sets import SETS
from ltr_harness.own_files import is_own_file

PRIMARY = "primary"
"""As an objective: the metric that decides the experiment."""


def normal_form(tree: Node) -> Node:
    """The tree with every short form spelt out."""
    for section, spell_out in (
        ("data", _data),
        ("metrics", _metrics),
        ("models", _models),
        ("compare", _compare),
    ):
        node = tree.mapping.get(section)
        if node is None or node.value is None:
            if section not in ("metrics", "compare"):
                continue
            node = Node({}, tree.place)  # these two have defaults for everything
        if isinstance(node.value, dict):
            tree = tree.with_entry(section, spell_out(node, tree))
    stopping = tree.at(("stopping", "metric"))
    if stopping is not None:
        tree = tree.with_entry("stopping", tree.mapping["stopping"].with_entry("metric", _own_file(stopping)))
    return tree


def absolute_path(node: Node) -> Node:
    """A path made absolute: relative to the file it is written in; on the command line, to the current folder."""
    if not isinstance(node.value, str):
        return node
    return Node(str((node.place.folder / Path(node.value).expanduser()).resolve()), node.place)


def from_plain(value: Any, place: Place) -> Node:
    """Values that follow from something the user wrote, at the place of what they follow from."""
    if isinstance(value, dict):
        return Node(
            {key: from_plain(item, place) for key, item in value.items()}, place, dict.fromkeys(value, place)
        )
    if isinstance(value, list | tuple):
        return Node([from_plain(item, place) for item in value], place)
    return Node(value, place)


def _data(data: Node, tree: Node) -> Node:
    known = data.mapping.get("set")
    if known is not None and isinstance(known.value, str) and known.value in SETS:
        data = data.without("set")
        for key, value in SETS[known.value].data_section().items():
            own_division = key == "splits" and not {"folds", "files"}.isdisjoint(data.mapping)
            if key not in data.mapping and not own_division:
                data = data.with_entry(key, from_plain(value, known.place))
    data = data.with_entry("root", absolute_path(data.mapping.get("root", Node(".", tree.place))))
    if "reader" in data.mapping:
        data = data.with_entry("reader", _own_file(data.mapping["reader"]))
    splits = data.mapping.get("splits")
    if splits is not None and not splits.mapping.keys().isdisjoint(("train", "valid", "test")):
        data = data.with_entry("splits", Node({"all": splits}, splits.place, {"all": splits.place}))
    return data


def _metrics(metrics: Node, tree: Node) -> Node:
    preset = metrics.mapping.get("preset")
    name = DEFAULT_PRESET if preset is None else preset.value
    if isinstance(name, str) and name in PRESETS:
        metrics = metrics.without("preset")
        place = metrics.place if preset is None else preset.place
        for key, value in PRESETS[name].items():
            if key not in metrics.mapping:
                metrics = metrics.with_entry(key, from_plain(value, place))
    for key in ("primary", "report"):
        if key in metrics.mapping:
            metrics = metrics.with_entry(key, _own_file(metrics.mapping[key]))
    return metrics


def _models(models: Node, tree: Node) -> Node:
    primary = tree.at(("metrics", "primary"))
    return replace(models, value={name: _model(model, primary) for name, model in models.mapping.items()})


def _model(model: Node, primary: Node | None) -> Node:
    if "ranker" in model.mapping:
        model = model.with_entry("ranker", _own_file(model.mapping["ranker"]))
    objective = model.mapping.get("objective")
    if objective is None:
        return model
    if objective.value == PRIMARY and primary is not None:
        objective = Node({"metric": primary}, objective.place, {"metric": objective.place})
    elif "metric" in objective.mapping:
        metric = objective.mapping["metric"]
        named = primary if metric.value == PRIMARY and primary is not None else _own_file(metric)
        objective = objective.with_entry("metric", named)
    return model.with_entry("objective", objective)


def _compare(compare: Node, tree: Node) -> Node:
    if "baseline" in compare.mapping:
        return compare
    models = tree.mapping.get("models", tree)
    first = next(iter(models.mapping), "-")  # without models there is something else to complain about
    return compare.with_entry("baseline", Node(first, models.key_places.get(first, models.place)))


def _own_file(node: Node) -> Node:
    """``./my_metric.py:MyMetric`` with an absolute path, also within a list or a metric written as a mapping."""
    if isinstance(node.value, list):
        return Node([_own_file(item) for item in node.value], node.place)
    if isinstance(node.value, dict) and "metric" in node.value:
        return node.with_entry("metric", _own_file(node.value["metric"]))
    if not isinstance(node.value, str) or not is_own_file(node.value):
        return node
    path, _, rest = node.value.partition(".py:")
    file = absolute_path(Node(f"{path}.py", node.place))
    return Node(f"{file.value}:{rest}", node.place)
