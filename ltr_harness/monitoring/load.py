"""From a file to a checked configuration: every problem at once, with its place and how to mend it."""

import dataclasses
import json
from collections.abc import Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ltr_harness._util.retired import retirement
from ltr_harness.errors import ConfigError, DataError, HarnessError, Problem
from ltr_harness.experiments.config.expand import absolute_path, merged_tree
from ltr_harness.experiments.config.problems import explain_errors
from ltr_harness.experiments.config.yaml_tree import Node, from_python, node_text
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.consistency import inconsistencies

FROM = "from"
_LOG_SETTINGS = ("event_log", "maturity", "propensity", "label", "prediction", "list_column")
"""Settings of production's own log, which change no grade."""


def with_rule(tree: Node) -> tuple[Node, list[Problem]]:
    """Return the configuration with the rule in place of the run or experiment that has it, and the problems found."""
    node = tree.find(("relevance",))
    source = None if node is None else node.mapping.get(FROM)
    if node is None or source is None:
        return tree, []
    log_settings = node.drop_keys(FROM)
    if not isinstance(source.value, str):
        found = f"relevance.from is {node_text(source)}"
        problem = Problem(str(source.place), found, "a run or an experiment file")
        return tree.with_entry("relevance", log_settings), [problem]
    try:
        rule = _rule_for_log(source, log_settings)
    except ConfigError as error:
        return tree.drop_keys("relevance"), list(error.problems)
    return tree.with_entry("relevance", from_python(rule, source.place)), []


def _rule_for_log(source: Node, log_settings: Node) -> dict[str, Any]:
    """Return the rule of a run or an experiment with the settings of production's log.

    Raises:
        ConfigError: settings that the rule has already, no such rule, or one that needs logs of its own.
    """
    place = str(source.place)
    if conflicting := sorted(log_settings.mapping.keys() - {*_LOG_SETTINGS}):
        found = f"relevance.from beside {', '.join(conflicting)}, which the rule of {source.value} has"
        cure = f"leave out one of them; {', '.join(_LOG_SETTINGS)} may stand beside it"
        raise ConfigError(Problem(place, found, cure=cure))
    path = absolute_path(source)
    try:
        rule = _rule_at(Path(str(path.value)), log_settings.mapping.keys())
    except HarnessError as error:
        problems = [Problem(place, f"relevance.from: {problem}") for problem in error.problems]
        raise ConfigError(problems) from None
    for key, setting in log_settings.mapping.items():
        value, of_rule = setting.as_python(), rule.get(key)
        if key == "event_log" and isinstance(of_rule, dict):
            value = {**of_rule, **value}
        rule[key] = value
    _refuse_logs_of_rule(rule, log_settings, source)
    return rule


def _refuse_logs_of_rule(rule: Mapping[str, Any], log_settings: Node, source: Node) -> None:
    """Refuse a rule with logs of its own, where production's are not named beside it."""
    logs = {}
    if rule.get("event_log"):
        logs["event_log"] = "log of events"
    if (rule.get("propensity") or {}).get("estimate"):
        logs["propensity"] = "measurement of propensities"
    for key, name in logs.items():
        if key not in log_settings.mapping:
            found = f"relevance.from: {source.value} has its own {name}"
            cure = f"add relevance.{key}: {{…}} beside from"
            raise ConfigError(Problem(str(source.place), found, "production's", cure))


def _rule_at(path: Path, log_settings: Set[str]) -> dict[str, Any]:
    """Return the one rule of an experiment file, of a run or of a folder of runs."""
    from ltr_harness.experiments.config.load import data_mapping, load_experiment
    from ltr_harness.experiments.runs import find_runs

    if path.suffix in (".yaml", ".yml"):
        sections: list[Mapping[str, Any]] = [data_mapping(load_experiment(path, check_rankers=False).data)]
    else:
        sections = [run.record.reading for run in find_runs(path)]
    rules = [_rule_of_data(section, log_settings) for section in sections]
    by_content = {json.dumps(rule, sort_keys=True): rule for rule in rules}
    if len(by_content) != 1:
        found = "has runs under several rules" if by_content else "has no run"
        raise DataError(Problem(str(path), found, "one rule of relevance", "name one run"))
    return rules[0]


def _rule_of_data(section: Mapping[str, Any], log_settings: Set[str]) -> dict[str, Any]:
    """Return the rule of a data section; ready labels are one, too."""
    if section.get("relevance"):
        return {key: value for key, value in section["relevance"].items() if value is not None}
    if section.get("grades") or section.get("unjudged") is not None:
        found = "its labels are mapped by grades or unjudged, which a log does not allow"
        cure = "write the mapped grades into the log and set relevance: {label: …}"
        raise DataError(Problem("", found, "labels as they are, or a rule of relevance", cure))
    if "label" not in section and "label" not in log_settings:
        cure = "add label: the log's column with them"
        raise DataError(Problem("", "its labels have no column", cure=cure))
    rule = {"mode": "label", "label": section.get("label")}
    if section.get("max_grade"):
        rule["max_grade"] = section["max_grade"]
    return rule


_ESTIMATE = ("relevance", "propensity", "estimate")
_TABLES = ("relevance", "event_log"), _ESTIMATE, _ESTIMATE[1:]
_HARNESS_PATHS = ("history",), ("drift", "model"), ("parity", "model")
_PATHS = (
    *(("log",), ("baseline",), *_HARNESS_PATHS),
    *((*table, key) for table in _TABLES for key in ("path", "baseline_path")),
)
"""Where files are named."""


def load_monitor_config(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()
) -> MonitorConfig:
    """Read and check a configuration."""
    try:
        tree, problems = _without_seed(merged_tree(source, overrides))
    except ConfigError as error:
        raise ConfigError([_about_a_log(problem, source) for problem in error.problems]) from None
    if {"data", "models"} <= tree.mapping.keys() and "columns" not in tree.mapping:
        file, cure = tree.place.name, f"run `ltr-harness run {tree.place.name}`"
        raise ConfigError.at(file, "is an experiment", "a file for monitoring", cure)
    tree, rule_problems = with_rule(tree)
    problems += rule_problems
    for path in _PATHS:
        tree = tree.change_at(path, partial(absolute_path, data=path not in _HARNESS_PATHS))
    try:
        config = MonitorConfig.model_validate(tree.as_python())
    except ValidationError as error:
        for problem in explain_errors(error, MonitorConfig, tree, ()):
            found = problem.found.replace("the experiment", "the configuration")
            problems.append(dataclasses.replace(problem, found=found))
        raise ConfigError(problems) from None
    if not problems:  # without its rule, a configuration lacks more than it says
        problems += inconsistencies(config, tree)
    ConfigError.refuse(problems)
    return config


def _about_a_log(problem: Problem, source: Any) -> Problem:
    """Point at `init --monitor` where a file is no configuration and may be a log."""
    is_folder = isinstance(source, str | Path) and Path(source).is_dir()
    if not (is_folder or problem.cure.startswith("is it data?")):
        return problem
    found = problem.found.replace("is not an experiment", "is not a monitoring file")
    expected = problem.expected.replace("an experiment", "a monitoring file").replace(
        _EXPERIMENT_NAME, "'columns: {…}'"
    )
    cure = f"is it a log? `ltr-harness init --monitor {source}` writes a monitoring file for it"
    return dataclasses.replace(problem, found=found, expected=expected, cure=cure)


_EXPERIMENT_NAME = "'name: my-experiment'"


def _without_seed(tree: Node) -> tuple[Node, list[Problem]]:
    """Leave out the seed, which has no effect: 0 in silence, because every stored config.yaml of version 1 has it."""
    seed = tree.find(("seed",))
    if seed is None:
        return tree, []
    problems = []
    if seed.value != 0 or isinstance(seed.value, bool):
        problems.append(Problem(str(tree.key_places["seed"]), f"monitor seed: {retirement('monitor seed')}"))
    return tree.drop_keys("seed"), problems


def json_schema() -> dict[str, Any]:
    """Return the schema of monitoring configurations, for editors."""
    schema = MonitorConfig.model_json_schema()
    schema["$defs"]["Relevance"]["properties"][FROM] = {
        "type": "string",
        "description": "A run, a folder of runs or an experiment file with the rule; beside it stand only "
        "settings of production's log.",
    }
    schema["properties"]["extends"] = {"type": "string", "description": "A file this one builds on."}
    schema["title"] = "ltr-harness monitor"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
