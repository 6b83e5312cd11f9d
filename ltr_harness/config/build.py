"""From the tree to the experiment: each part on its own, so that one mistake does not hide the next."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ltr_harness import rankers, readers
from ltr_harness.catalog import Catalog, did_you_mean
from ltr_harness.config import rules, sweep, tune
from ltr_harness.config.experiment import (
    CompareConfig,
    CompareSection,
    DataConfig,
    DataLayout,
    Experiment,
    Header,
    MetricsConfig,
    ModelConfig,
    ModelOptions,
    ReportConfig,
    SplitConfig,
    StoppingConfig,
)
from ltr_harness.config.explain import Path, dotted, explained
from ltr_harness.config.normal import absolute_path, from_plain
from ltr_harness.config.presets import PRESETS
from ltr_harness.config.references import Reference, References
from ltr_harness.config.search import SweepConfig, TuneConfig
from ltr_harness.config.values import checked_name
from ltr_harness.config.yaml_tree import Node, Place, shown
from ltr_harness.errors import ConfigError, Problem, UsageError
from ltr_harness.known_sets import SETS
from ltr_harness.rankers.ranker import Ranker
from ltr_harness.stats.method import successors

Kind = TypeVar("Kind", bound=BaseModel)

_SECTIONS = ("data", "metrics", "stopping", "models", "sweep", "tune", "compare", "report", "references")
_EXPECTED = {
    "data": "a mapping such as {reader: letor, root: …, splits: …}",
    "metrics": "a mapping such as {report: [ndcg], cutoffs: [10], primary: ndcg@10}",
    "stopping": "a mapping such as {metric: ndcg@10, patience: 50}",
    "models": "a mapping from each model's name to {ranker: …}",
    "sweep": "a mapping such as {grid: {models.lgb.params.num_leaves: [15, 31]}}",
    "tune": "a mapping such as {models: {lgb: built-in}, trials: 50}",
    "compare": "a mapping such as {baseline: …}",
    "report": "a mapping such as {formats: [html, json]}",
}


def build_experiment(tree: Node, *, check_rankers: bool = True) -> Experiment:
    """The experiment that a tree in normal form describes.

    Raises:
        ConfigError: every problem, in the order of the file.
    """
    return _Build(tree, check_rankers).experiment()


def build_compare(tree: Node) -> tuple[CompareConfig, tuple[Reference, ...], ReportConfig]:
    """The sections ``compare:``, ``references:`` and ``report:`` of a tree in normal form; others load nothing.

    Raises:
        ConfigError: every problem of the sections.
    """
    build = _Build(tree, check_rankers=False)
    compare, references = build.compare(), build.references()
    report = build.section(ReportConfig, "report", required=False)
    if compare is None or build.placed:
        raise ConfigError(build.problems())
    return compare, references, report or ReportConfig()


def build_data(tree: Node) -> DataConfig:
    """The section ``data:`` of a tree in normal form, alone.

    Raises:
        ConfigError: every problem of the section.
    """
    build = _Build(tree, check_rankers=False)
    data = build.data()
    if data is None or build.placed:
        raise ConfigError(build.problems())
    return data


class _Build:
    """One tree being built: collects problems, and goes on with whatever is sound."""

    def __init__(self, tree: Node, check_rankers: bool) -> None:
        self.tree = tree
        self.check_rankers = check_rankers
        self.placed: list[tuple[Place, Problem]] = []

    def experiment(self) -> Experiment:
        self.check(rules.size_rule(self.tree))
        if self.placed:  # what is not to be built is not looked at either
            raise ConfigError(self.problems())
        header = self.validated(Header, self.tree.without(*_SECTIONS), (), also_known=(*_SECTIONS, "extends"))
        data = self.data()
        metrics = self.metrics()
        stopping = self.section(StoppingConfig, "stopping", required=False)
        models = self.models()
        # one that is sound is spelt out by now
        if self.section(SweepConfig, "sweep", required=False) is not None:
            self.placed += sweep.problems_of(self.tree)
        compare = self.compare()
        report = self.section(ReportConfig, "report", required=False)
        references = self.references(None if data is None else data.max_grade)
        searched = self.section(TuneConfig, "tune", required=False)
        has_stopping = (
            self.tree.at(("stopping",)) is not None and self.tree.mapping["stopping"].value is not None
        )
        splits = self.splits()
        self.check(rules.leak_rules(splits))
        self.check(rules.stopping_rules(splits, models, has_stopping))
        if searched is not None:
            searched = tune.with_built_in(searched, models)
            known = self.tree.mapping.get("models", self.tree).mapping
            self.check(
                tune.tune_rules(
                    searched, models, known, splits, stopping=has_stopping, check_rankers=self.check_rankers
                )
            )
        if data is not None and metrics is not None:
            wanted: dict[Path, Any] = {("metrics", "report"): metrics.metrics}
            if stopping is not None:
                wanted["stopping", "metric"] = [stopping.metric]
            self.check(rules.estimate_rules(getattr(data.reader, "relevance", None), wanted))
        if header is None or data is None or metrics is None or compare is None or self.placed:
            raise ConfigError(self.problems())
        if stopping is not None:
            on_scale = stopping.metric.on_scale(data.max_grade)
            stopping = stopping.model_copy(update={"metric": on_scale})
        metrics = metrics.on_scale(data.max_grade)
        models = {name: model.on_scale(data.max_grade) for name, model in models.items()}
        return Experiment(
            **dict(header),
            data=data,
            metrics=metrics,
            stopping=stopping,
            models=models,
            compare=compare,
            tune=searched,
            report=report or ReportConfig(),
            references=references,
        )

    def problems(self) -> list[Problem]:
        """Each once, those of the main file first, in the order of its lines."""
        main = self.tree.place.name
        ordered = sorted(
            self.placed, key=lambda placed: (placed[0].name != main, placed[0].name, *_position(placed[0]))
        )
        return list(dict.fromkeys(self._of_swept(problem) for _, problem in ordered))

    def _of_swept(self, problem: Problem) -> Problem:
        """What is wrong with all points of a sweep is wrong once, with the model that was swept."""
        found = problem.found
        for point, model in sorted(sweep.origins(self.tree).items(), key=lambda pair: -len(pair[0])):
            found = found.replace(f"models.{point}", f"models.{model}")
        return replace(problem, found=found)

    # --- sections ---

    def data(self) -> DataConfig | None:
        path: Path = ("data",)
        node = self.mapping("data")
        if node is None:
            return None
        known = node.mapping.get("set")
        if known is not None:  # one that is known is gone from the normal form
            self.add(known.place, f"data.set is {shown(known)}", cure=did_you_mean(str(known.plain()), SETS))
            return None
        name, kind = self.named(node, path, "reader", readers.catalog)
        if kind is None:  # nobody knows which keys are the reader's: check only those that are ours
            rest = node.without(*(node.mapping.keys() - DataLayout.model_fields))
            self.validated(DataLayout, rest, path)
            return None
        reader = self.validated(kind, node.only(kind.model_fields), path)
        rest = node.without("reader", *kind.model_fields)
        if "relevance" in rest.mapping:
            found = (
                f"data.relevance with reader {name!r}, whose files have ready labels and no columns of events"
            )
            cure = "write the rows as a table with what users did, and use reader: csv or parquet"
            self.add(rest.key_places["relevance"], found, cure=cure)
            rest = rest.without("relevance")
        if kind.default_splits and not {"splits", "folds"} & rest.mapping.keys():
            rest = rest.with_entry("splits", from_plain({"all": dict(kind.default_splits)}, node.place))
        layout = self.validated(DataLayout, rest, path, also_known=("reader", *kind.model_fields))
        if layout is None:
            return None
        self.check(rules.data_rules(layout))
        rule = getattr(reader, "relevance", None)
        if layout.max_grade is None and rule is not None:
            layout = layout.model_copy(update={"max_grade": rule.scale})
        return None if reader is None else DataConfig(**dict(layout), reader_name=name, reader=reader)

    def splits(self) -> dict[str, SplitConfig]:
        """The sound ones, whatever else is wrong with the data section."""
        sound = {}
        for fold, node in (self.tree.at(("data", "splits")) or Node({}, self.tree.place)).mapping.items():
            with suppress(ValidationError):  # told already, where the section was built
                sound[fold] = _strict(SplitConfig, node)
        return sound

    def metrics(self) -> MetricsConfig | None:
        preset = self.tree.at(("metrics", "preset"))
        if preset is not None:  # a known one is gone from the normal form
            self.add(
                preset.place,
                f"metrics.preset is {shown(preset)}",
                cure=did_you_mean(str(preset.plain()), PRESETS),
            )
            return None
        return self.section(MetricsConfig, "metrics", also_known=["preset"])

    def models(self) -> dict[str, ModelConfig]:
        """The sound ones."""
        node = self.mapping("models")
        if node is None:
            return {}
        if not node.mapping:
            self.add(node.place, "models is empty", "at least one model")
        models = {}
        for name, place in node.key_places.items():
            try:
                checked_name(name)
            except ValueError as error:
                self.add(place, f"models: name {name!r}", str(error))
            model = self.model(("models", name), node.mapping[name])
            if model is not None:
                models[name] = model
        return models

    def model(self, path: Path, node: Node) -> ModelConfig | None:
        if not isinstance(node.value, dict):
            self.add(
                node.place, f"{dotted(path)} is {shown(node)}", "a mapping such as {ranker: lightgbm, …}"
            )
            return None
        name, kind = self.named(node, path, "ranker", rankers.catalog)
        options = self.validated(ModelOptions, node.only(ModelOptions.model_fields), path)
        if kind is None:
            return None
        own = node.without("ranker", *ModelOptions.model_fields)
        ranker = self.validated(
            kind, _with_paths(own, kind), path, also_known=("ranker", *ModelOptions.model_fields)
        )
        if ranker is None or options is None:
            return None
        if self.check_rankers:
            self.limits(ranker, path)
        return ModelConfig(**dict(options), ranker_name=name, ranker=ranker)

    def limits(self, ranker: Ranker, path: Path) -> None:
        """What the library behind the ranker would reject, ignore or misread, as far as needs no data."""
        for problem in ranker.check():
            steps = (*path, *problem.place.split("."))
            called = dotted(steps if self.tree.at(steps) else path)
            while (key := self.tree.at(steps[:-1])) is None or steps[-1] not in key.key_places:
                steps = steps[:-1]
            self.add(
                key.key_places[str(steps[-1])], f"{called}: {problem.found}", problem.expected, problem.cure
            )

    def compare(self) -> CompareConfig | None:
        node, outdated = self.mapping("compare"), ""
        if node is not None:
            node, outdated = _of_today(node)
        compare = None if node is None else self.validated(CompareSection, node, ("compare",))
        if compare is not None:
            compare._outdated = outdated
        baseline, models = self.tree.at(("compare", "baseline")), self.tree.at(("models",))
        if models is not None and models.mapping and baseline is not None and isinstance(baseline.value, str):
            self.check(rules.baseline_rule(baseline.value, models.mapping, sweep.origins(self.tree)))
        return compare

    def references(self, max_grade: float | None = None) -> tuple[Reference, ...]:
        node = self.tree.mapping.get("references")
        if node is None or node.value is None:
            return ()
        sound = self.validated(References, node, ("references",))
        if sound is None:
            return ()
        models = self.tree.mapping.get("models", self.tree).mapping
        self.check(rules.reference_rules(sound.root, models, max_grade))
        return sound.root

    # --- what they share ---

    def mapping(self, section: str, *, required: bool = True) -> Node | None:
        node = self.tree.mapping.get(section)
        if node is None or (node.value is None and not required):
            if required:
                self.add(self.tree.place, f"the experiment has no {section!r}", _EXPECTED[section])
            return None
        if not isinstance(node.value, dict):
            self.add(node.place, f"{section} is {shown(node)}", _EXPECTED[section])
            return None
        return node

    def section(
        self, kind: type[Kind], section: str, *, required: bool = True, also_known: Iterable[str] = ()
    ) -> Kind | None:
        node = self.mapping(section, required=required)
        return None if node is None else self.validated(kind, node, (section,), also_known)

    def named(self, node: Node, path: Path, key: str, catalog: Catalog) -> tuple[str, type[Any] | None]:
        """The class that the value of `key` names."""
        entry = node.mapping.get(key)
        name = None if entry is None else entry.value
        if entry is None or not isinstance(name, str):
            where = dotted(path) if entry is None else dotted((*path, key))
            found = f"{where} has no {key!r}" if entry is None else f"{where} is {shown(entry)}"
            self.add((entry or node).place, found, f"one of {', '.join(catalog.names())}")
            return "", None
        try:
            kind = catalog.load(name, ConfigError)
        except UsageError as error:
            for problem in error.problems:
                self.add(entry.place, f"{dotted((*path, key))}: {problem}")
            return name, None
        return name, kind

    def validated(
        self, kind: type[Kind], node: Node, path: Path, also_known: Iterable[str] = ()
    ) -> Kind | None:
        """The node as a `kind`; None when something is wrong with it."""
        try:
            return _strict(kind, node)
        except ValidationError as error:
            self.placed += explained(error, kind, node, path, also_known)
            return None

    def check(self, violations: Iterable[rules.Violation]) -> None:
        for path, found, expected, cure in violations:
            while (node := self.tree.at(path)) is None:  # what is missing is told where it would stand
                path = path[:-1]
            self.add(node.place, found, expected, cure)

    def add(self, place: Place, found: str, expected: str = "", cure: str = "") -> None:
        self.placed.append((place, Problem(str(place), found, expected, cure)))


def _strict(kind: type[Kind], node: Node) -> Kind:
    """Strict JSON rules: a list may become a tuple and text a path, but "5" and true are no numbers."""
    return kind.model_validate_json(json.dumps(node.plain()), strict=True)


def _of_today(compare: Node) -> tuple[Node, str]:
    """The section with the successors of retired options, and the line that says so; "" where there are none."""
    said = []
    for name, successor in successors(compare.plain()).items():
        old = compare.mapping[name]
        compare = (
            compare.with_entry(name, replace(old, value=successor)) if successor else compare.without(name)
        )
        now = f"is {successor!r} now" if successor else "is a part of the test now"
        said.append(f"{name} {old.value!r} {now}")
    return compare, f"compare: {', '.join(said)}" if said else ""


def _position(place: Place) -> tuple[int, int]:
    return place.line, place.column


def _with_paths(node: Node, kind: type[BaseModel]) -> Node:
    """The options, those that are paths made absolute."""
    for name in _path_options(kind) & node.mapping.keys():
        node = node.with_entry(name, absolute_path(node.mapping[name]))
    return node


@cache
def _path_options(kind: type[BaseModel]) -> frozenset[str]:
    properties = kind.model_json_schema().get("properties", {})
    return frozenset(
        name
        for name, schema in properties.items()
        if any(option.get("format") == "path" for option in schema.get("anyOf", [schema]))
    )
