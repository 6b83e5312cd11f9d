"""Load an experiment from a file or a mapping, with every problem at once, and write it back as YAML."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from ltr_harness._util.catalog import Catalog, did_you_mean
from ltr_harness._util.files import stored_file
from ltr_harness.data import readers
from ltr_harness.data.logs.settings import one_or_many
from ltr_harness.data.time_folds import PERIOD
from ltr_harness.errors import ConfigError, Problem, UsageError
from ltr_harness.experiments.config import expand, rules
from ltr_harness.experiments.config import schema as sections
from ltr_harness.experiments.config.expand import (
    PRESETS,
    absolute_path,
    expand_sweep,
    merged_tree,
    normal_form,
)
from ltr_harness.experiments.config.problems import placed_problems
from ltr_harness.experiments.config.schema import CompareConfig, DataConfig, Experiment, ModelConfig, Outline
from ltr_harness.experiments.config.study import StudyConfig, expand_study
from ltr_harness.experiments.config.tune import SweepConfig, TuneConfig
from ltr_harness.experiments.config.yaml_tree import (
    KeyPath,
    Kind,
    Node,
    Place,
    PlacedProblem,
    dotted,
    from_python,
    node_text,
    plain_scalar,
)
from ltr_harness.models import table as rankers


def load_experiment(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, check_rankers: bool = True
) -> Experiment:
    """Load an experiment with everything it extends and every ``--set``; refuse all problems, with their places."""
    return _Loading(_without_joint(plain_tree(source, overrides)), check_rankers).experiment()


def load_data(section: Mapping[str, Any]) -> DataConfig:
    """Load the section ``data:`` of an experiment, without the rest."""
    loading = _Loading(plain_tree({"data": section}))
    data = loading.data()
    if data is None or loading.problems:
        raise loading.error()
    return data


def plain_tree(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Node:
    """Return the source in normal form, with everything it extends and every ``--set``; nothing of it is loaded."""
    return normal_form(expand_study(expand_sweep(merged_tree(source, overrides))[0])[0])


def stored_tree(path: Path) -> Node:
    """Return the values of a stored configuration, which is a regular file of its folder."""
    try:
        return plain_tree(stored_file(path.parent, path.name))
    except OSError as problem:
        raise ConfigError(Problem(str(path), f"cannot be read: {problem.strerror}")) from None


def read_outline(path: Path) -> Outline:
    """Read a stored configuration's outline: its readers, rankers and metrics may be from files nobody here trusts."""
    tree, left_out = _without_retired(stored_tree(path))
    loading = _Loading(tree)
    compare = loading.compare()
    report = loading.section(sections.ReportConfig, "report", required=False) or sections.ReportConfig()
    models = {name: loading.variant_options(name, node) for name, node in loading.named_models.items()}
    if compare is None or loading.problems:
        raise loading.error()
    name = tree.mapping["name"].as_python() if "name" in tree.mapping else path.parent.name
    return Outline(name=str(name), models=models, compare=compare, report=report, left_out=left_out)


def _without_retired(tree: Node) -> tuple[Node, tuple[str, ...]]:
    """Return a stored configuration without retired parts, and the names of those parts."""
    left_out = []
    if "references" in tree.mapping:
        tree = tree.drop_keys("references")
        left_out.append("references")
    chosen = tree.find(("report", "sections"))
    if chosen is not None and "published" in (names := one_or_many(chosen.as_python())):
        remaining_sections = from_python(
            [name for name in names if name != "published"] or None, chosen.place
        )
        tree = tree.change_at(("report", "sections"), lambda _: remaining_sections)
        left_out.append("report section published")
    tree = _without_joint(tree)
    if tree.find(("compare", "correction")) is not None:
        tree = tree.change_at(("compare",), lambda compare: compare.drop_keys("correction"))
        left_out.append("compare.correction")
    return tree, tuple(left_out)


def _without_joint(tree: Node) -> Node:
    """Drop `compare: {correction: joint}`, which files that version 1 stored have: every comparison is joint now."""
    correction = tree.find(("compare", "correction"))
    if correction is None or correction.value != "joint":
        return tree
    return tree.change_at(("compare",), lambda compare: compare.drop_keys("correction"))


def as_mapping(experiment: Experiment) -> dict[str, Any]:
    """Return the whole experiment as dicts, lists and scalars; `load_experiment` makes an equal one of it."""
    sections_by_name = experiment.model_dump(mode="json", include={"name", "seeds"})
    sections_by_name["data"] = data_mapping(experiment.data)
    sections_by_name["metrics"] = experiment.metrics.model_dump(mode="json")
    sections_by_name["stopping"] = (
        None if experiment.stopping is None else experiment.stopping.model_dump(mode="json")
    )
    sections_by_name["models"] = {
        name: {
            "ranker": model.ranker_name,
            **model.model_dump(mode="json", exclude={"ranker_name", "ranker"}, exclude_none=True),
            **model.ranker.model_dump(mode="json"),
        }
        for name, model in experiment.models.items()
    }
    if experiment.tune is not None:
        sections_by_name["tune"] = experiment.tune.model_dump(mode="json")
    sections_by_name["compare"] = experiment.compare.model_dump(mode="json")
    sections_by_name["report"] = experiment.report.model_dump(mode="json", exclude_none=True)
    return sections_by_name


def data_mapping(data: DataConfig) -> dict[str, Any]:
    """Return the section ``data:`` of `as_mapping`."""
    layout = data.model_dump(mode="json", exclude={"reader_name", "reader"}, exclude_none=True)
    if data.folds is not None:
        del layout["splits"]
    if not isinstance(data.folds, int):
        del layout["fold_seed"]
    if data.judgments is None and getattr(data.reader, "retrieved", None) is None:
        del layout["no_candidates"]
    return {"reader": data.reader_name, **layout, **data.reader.model_dump(mode="json")}


def resolved_yaml(experiment: Experiment) -> str:
    """Return the whole experiment as YAML: every default written out, paths absolute, loadable again and then equal."""
    mapping = as_mapping(experiment)
    text: str = yaml.dump(
        mapping, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
    )
    return text


def settings(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()
) -> list[tuple[str, Any, str]]:
    """Return all paths of ``--set`` with value and origin: ``file:line:column``, ``--set …`` or ``default``."""
    tree = plain_tree(source, overrides)
    resolved = as_mapping(_Loading(tree).experiment())
    return [(dotted(path), value, _origin(tree.find(path))) for path, value in _leaves(resolved, ())]


def _origin(node: Node | None) -> str:
    return "default" if node is None else str(node.place)


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path, value


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either YAML 1.1 or our own 1.2 reading would take for something other than text."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None if isinstance(plain_scalar(value), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


_SECTIONS = ("data", "metrics", "stopping", "models", "sweep", "study", "tune", "compare", "report")
_EXPECTED = {
    "data": "a mapping such as {reader: letor, root: …, splits: …}",
    "metrics": "a mapping such as {report: [ndcg], cutoffs: [10], primary: ndcg@10}",
    "stopping": "a mapping such as {metric: ndcg@10, patience: 50}",
    "models": "a mapping from each model's name to {ranker: …}",
    "sweep": "a mapping such as {grid: {models.lgb.params.num_leaves: [15, 31]}}",
    "study": "a mapping such as {of: lgb, features: {groups: {text: [bm25]}}, queries: [0.125, 0.25, 0.5]}",
    "tune": "a mapping such as {models: {lgb: built-in}, trials: 50}",
    "compare": "a mapping such as {baseline: …}",
    "report": "a mapping such as {formats: [html, json]}",
}


class _Loading:
    """A tree on its way to an experiment: collects problems, and goes on with whatever is sound."""

    def __init__(self, tree: Node, check_rankers: bool = False) -> None:
        self.tree = tree
        self.check_rankers = check_rankers
        self.problems: list[PlacedProblem] = []

    def experiment(self) -> Experiment:
        self.refuse_monitoring()
        self.check(rules.size_rule(self.tree))
        if self.problems:  # what is not to be loaded is not looked at either
            raise self.error()
        header = self.validate(
            sections.Header, self.tree.drop_keys(*_SECTIONS), (), also_known=(*_SECTIONS, "extends")
        )
        data = self.data()
        metrics = self.metrics()
        stopping = self.section(sections.StoppingConfig, "stopping", required=False)
        models = self.models()
        self.sweep()
        self.study()
        compare = self.compare()
        report = self.section(sections.ReportConfig, "report", required=False)
        tune = self.section(TuneConfig, "tune", required=False)
        tune = self.check_across(data, metrics, stopping, models, tune)
        if header is None or data is None or metrics is None or compare is None or self.problems:
            raise self.error()
        if isinstance(data.folds, sections.TimeFoldsConfig) and compare.unit is None:  # type: ignore[attr-defined]
            compare = compare.model_copy(update={"unit": PERIOD})
        if stopping is not None:
            with_max_grade = stopping.metric.with_max_grade(data.max_grade)
            stopping = stopping.model_copy(update={"metric": with_max_grade})
        return Experiment(
            **dict(header),
            data=data,
            metrics=metrics.with_max_grade(data.max_grade),
            stopping=stopping,
            models={name: model.with_max_grade(data.max_grade) for name, model in models.items()},
            compare=compare,
            tune=tune,
            report=report or sections.ReportConfig(),
        )

    def error(self) -> ConfigError:
        """Return every problem once, those of the main file first, in the order of its lines."""
        main = self.tree.place.name
        problems = [
            replace(problem, found=self._with_swept_models(problem.found))
            for _, problem in sorted(self.problems, key=lambda placed: placed.place.position(main))
        ]
        return ConfigError(dict.fromkeys(problems))

    def _with_swept_models(self, found: str) -> str:
        """Return a finding about a point of a sweep, or a variant, as one about its model: it is wrong of all alike."""
        origins = expand.origins(self.tree) | expand.origins(self.tree, "variant")
        for point, model in sorted(origins.items(), key=lambda pair: -len(pair[0])):
            found = found.replace(f"models.{point}", f"models.{model}")
        return found

    # --- rules across sections ---

    def check_across(
        self,
        data: DataConfig | None,
        metrics: sections.MetricsConfig | None,
        stopping: sections.StoppingConfig | None,
        models: Mapping[str, ModelConfig],
        tune: TuneConfig | None,
    ) -> TuneConfig | None:
        """Check sections that are sound against each other, and return the search with built-in spaces written out."""
        splits = self.splits()
        self.check(rules.leak_rules(splits))
        self.check(rules.stopping_rules(splits, models, self.has_stopping))
        self.check_parts(models, splits, data)
        if data is not None:
            self.check(rules.time_rules(data, self.has_stopping, tune))
        if tune is not None:
            tune = self.check_tune(tune, models, splits)
        if metrics is not None:
            self.check(rules.carried_rules(models, metrics.metrics))
        if data is not None and metrics is not None:
            self.check_estimates(data, metrics, stopping)
        return tune

    @property
    def has_stopping(self) -> bool:
        """True where the experiment has rules of stopping, valid or not."""
        node = self.tree.find(("stopping",))
        return node is not None and node.value is not None

    @property
    def named_models(self) -> Mapping[str, Node]:
        """The models by name, valid or not."""
        node = self.tree.mapping.get("models")
        return {} if node is None else node.mapping

    def refuse_monitoring(self) -> None:
        """Raise for a file of production logs, which another command reads."""
        if "columns" in self.tree.mapping and self.tree.mapping.keys().isdisjoint(("data", "models")):
            file, cure = self.tree.place.name, f"run `ltr-harness monitor {self.tree.place.name}`"
            raise ConfigError.at(file, "is a file for monitoring", "an experiment", cure)

    def check_parts(
        self,
        models: Mapping[str, ModelConfig],
        splits: Mapping[str, sections.SplitConfig],
        data: DataConfig | None,
    ) -> None:
        """Check the models that are made of others."""
        without_valid = any(split.valid is None for split in splits.values())
        if data is not None and isinstance(data.folds, sections.TimeFoldsConfig):
            without_valid |= data.folds.valid is None
        # the rules of stopping ask for validation data themselves
        without_valid &= not self.has_stopping
        swept = expand.origins(self.tree)
        self.check(rules.part_rules(models, self.named_models, swept, without_valid))
        self.check(rules.study_rules(models))

    def check_tune(
        self,
        tune: TuneConfig,
        models: Mapping[str, ModelConfig],
        splits: Mapping[str, sections.SplitConfig],
    ) -> TuneConfig:
        """Return the search with built-in spaces written out, and check it."""
        tune = rules.with_built_in(tune, models)
        violations = rules.tune_rules(
            tune,
            models,
            self.named_models,
            splits,
            stopping=self.has_stopping,
            check_rankers=self.check_rankers,
        )
        self.check(violations)
        return tune

    def check_estimates(
        self,
        data: DataConfig,
        metrics: sections.MetricsConfig,
        stopping: sections.StoppingConfig | None,
    ) -> None:
        """Check that all metrics suit labels that are estimates."""
        requested: dict[KeyPath, Any] = {("metrics", "report"): metrics.metrics}
        if stopping is not None:
            requested["stopping", "metric"] = [stopping.metric]
        self.check(rules.estimate_rules(getattr(data.reader, "relevance", None), requested))

    # --- sections ---

    def data(self) -> DataConfig | None:
        path: KeyPath = ("data",)
        node = self.mapping("data")
        if node is None:
            return None
        if "set" in node.mapping:
            from ltr_harness.data.known_sets import SETS

            if self.has_unknown_name(path, "set", SETS):
                return None
        name, kind = self.load_named(node, path, "reader", readers.catalog)
        if kind is None:  # nobody knows which keys are the reader's: check only those that are ours
            rest = node.drop_keys(*(node.mapping.keys() - sections.DataLayout.model_fields))
            self.validate(sections.DataLayout, rest, path)
            return None
        reader = self.validate(kind, node.keep_keys(kind.model_fields), path)
        rest = node.drop_keys("reader", *kind.model_fields)
        rest = self.without_relevance(rest, name)
        if kind.default_splits and not {"splits", "folds"} & rest.mapping.keys():
            rest = rest.with_entry("splits", from_python({"all": dict(kind.default_splits)}, node.place))
        layout = self.validate(sections.DataLayout, rest, path, also_known=("reader", *kind.model_fields))
        if layout is None:
            return None
        self.check(rules.data_rules(layout))
        rule = getattr(reader, "relevance", None)
        if layout.max_grade is None and rule is not None:
            layout = layout.model_copy(update={"max_grade": rule.scale})
        return None if reader is None else DataConfig(**dict(layout), reader_name=name, reader=reader)

    def without_relevance(self, data: Node, reader: str) -> Node:
        """Return the options that are no reader's without a rule of relevance, which tables alone have."""
        if "relevance" not in data.mapping:
            return data
        found = (
            f"data.relevance with reader {reader!r}, whose files have ready labels and no columns of events"
        )
        cure = "write the rows as a table with what users did, and use reader: csv or parquet"
        self.add(data.key_places["relevance"], found, cure=cure)
        return data.drop_keys("relevance")

    def splits(self) -> dict[str, sections.SplitConfig]:
        """Return the valid splits, whatever else is wrong with the data section."""
        valid_splits = {}
        for fold, node in (self.tree.find(("data", "splits")) or Node({}, self.tree.place)).mapping.items():
            with suppress(ValidationError):  # told already, where the section was built
                valid_splits[fold] = node.validated(sections.SplitConfig)
        return valid_splits

    def metrics(self) -> sections.MetricsConfig | None:
        if self.has_unknown_name(("metrics",), "preset", PRESETS):
            return None
        return self.section(sections.MetricsConfig, "metrics", also_known=["preset"])

    def sweep(self) -> None:
        """Collect the problems of a sweep; the points of a valid one are among the models already."""
        if self.section(SweepConfig, "sweep", required=False) is not None:
            self.problems += expand.expand_sweep(self.tree)[1]

    def study(self) -> None:
        """Collect the problems of a study; the variants of a valid one are among the models already."""
        if self.section(StudyConfig, "study", required=False) is not None:
            self.problems += expand_study(self.tree)[1]

    def models(self) -> dict[str, ModelConfig]:
        """Return the valid models."""
        node = self.mapping("models")
        if node is None:
            return {}
        if not node.mapping:
            self.add(node.place, "models is empty", "at least one model")
        models = {}
        for name, place in node.key_places.items():
            try:
                sections.checked_name(name)
            except ValueError as error:
                self.add(place, f"models: name {name!r}", str(error))
            model = self.model(("models", name), node.mapping[name])
            if model is not None:
                models[name] = model
        return models

    def model(self, path: KeyPath, node: Node) -> ModelConfig | None:
        if not isinstance(node.value, dict):
            found = f"{dotted(path)} is {node_text(node)}"
            self.add(node.place, found, "a mapping such as {ranker: lightgbm, …}")
            return None
        name, kind = self.load_named(node, path, "ranker", rankers.catalog)
        options = self.validate(
            sections.ModelOptions, node.keep_keys(sections.ModelOptions.model_fields), path
        )
        if kind is None:
            return None
        ranker_options = node.drop_keys("ranker", *sections.ModelOptions.model_fields)
        if "variant" in node.mapping:  # a ranker without these options is refused as a model that is studied
            ranker_options = ranker_options.drop_keys(*({"features", "exclude"} - kind.model_fields.keys()))
        for option in _path_options(kind):
            ranker_options = ranker_options.change_at((option,), absolute_path)
        ranker = self.validate(
            kind, ranker_options, path, also_known=("ranker", *sections.ModelOptions.model_fields)
        )
        if ranker is None or options is None:
            return None
        if self.check_rankers:
            for problem in ranker.check():
                self.add_problem_of_model(path, problem)
        return ModelConfig(**dict(options), ranker_name=name, ranker=ranker)

    def variant_options(self, name: str, node: Node) -> Node | sections.ModelOptions | None:
        """Return a variant of a study as the options that need no ranker; any other model as it is."""
        if "variant" not in node.mapping:
            return node
        options = node.keep_keys(sections.ModelOptions.model_fields)
        return self.validate(sections.ModelOptions, options, ("models", name))

    def add_problem_of_model(self, path: KeyPath, problem: Problem) -> None:
        """Collect a ranker's problem in the place of the option it is about, or of the nearest key around it."""
        steps = (*path, *problem.place.split("."))
        name = dotted(steps if self.tree.find(steps) else path)
        while (key := self.tree.find(steps[:-1])) is None or steps[-1] not in key.key_places:
            steps = steps[:-1]
        place = key.key_places[str(steps[-1])]
        self.add(place, f"{name}: {problem.found}", problem.expected, problem.cure)

    def compare(self) -> CompareConfig | None:
        compare = self.section(CompareConfig, "compare")
        baseline, models = self.tree.find(("compare", "baseline")), self.tree.find(("models",))
        if models is not None and models.mapping and baseline is not None and isinstance(baseline.value, str):
            path, cure = ("compare", "baseline"), "the first model is the baseline unless one is named"
            swept = expand.origins(self.tree)
            names = models.mapping.keys() - expand.origins(self.tree, "variant")
            self.check(rules.model_rule(path, "", baseline.value, names, swept, cure))
        return compare

    # --- shared by the sections ---

    def mapping(self, section: str, *, required: bool = True) -> Node | None:
        node = self.tree.mapping.get(section)
        if node is None or (node.value is None and not required):
            if required:
                self.add(self.tree.place, f"the experiment has no {section!r}", _EXPECTED[section])
            return None
        if not isinstance(node.value, dict):
            self.add(node.place, f"{section} is {node_text(node)}", _EXPECTED[section])
            return None
        return node

    def section(
        self, kind: type[Kind], section: str, *, required: bool = True, also_known: Iterable[str] = ()
    ) -> Kind | None:
        node = self.mapping(section, required=required)
        return None if node is None else self.validate(kind, node, (section,), also_known)

    def has_unknown_name(self, path: KeyPath, key: str, known_names: Iterable[str]) -> bool:
        """Collect the problem of a key that is still in the normal form, which has expanded all known names."""
        node = self.tree.find((*path, key))
        if node is not None:
            found = f"{dotted((*path, key))} is {node_text(node)}"
            self.add(node.place, found, cure=did_you_mean(str(node.as_python()), known_names))
        return node is not None

    def load_named(self, node: Node, path: KeyPath, key: str, catalog: Catalog) -> tuple[str, Any]:
        """Return the value of `key` and the class that it names, or None."""
        entry, full_name = node.mapping.get(key), dotted((*path, key))
        if entry is None or not isinstance(entry.value, str):
            found = (
                f"{dotted(path)} has no {key!r}" if entry is None else f"{full_name} is {node_text(entry)}"
            )
            self.add((entry or node).place, found, f"one of {', '.join(catalog.names())}")
            return "", None
        try:
            return entry.value, catalog.load(entry.value, ConfigError)
        except UsageError as error:
            for problem in error.problems:
                self.add(entry.place, f"{full_name}: {problem}")
            return entry.value, None

    def validate(
        self, kind: type[Kind], node: Node, path: KeyPath, also_known: Iterable[str] = ()
    ) -> Kind | None:
        """Return the node as a `kind`; None where it has problems, which are collected."""
        try:
            return node.validated(kind)
        except ValidationError as error:
            self.problems += placed_problems(error, kind, node, path, also_known)
            return None

    def check(self, violations: Iterable[rules.Violation]) -> None:
        for path, found, expected, cure in violations:
            while (node := self.tree.find(path)) is None:  # what is missing is told where it would stand
                path = path[:-1]
            self.add(node.place, found, expected, cure)

    def add(self, place: Place, found: str, expected: str = "", cure: str = "") -> None:
        self.problems.append(PlacedProblem.at(place, found, expected, cure))


@cache
def _path_options(kind: type[BaseModel]) -> frozenset[str]:
    """Return the options that are paths, which are made absolute."""
    properties = kind.model_json_schema().get("properties", {})
    return frozenset(
        name
        for name, schema in properties.items()
        if any(option.get("format") == "path" for option in schema.get("anyOf", [schema]))
    )
