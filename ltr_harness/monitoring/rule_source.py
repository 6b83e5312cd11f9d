"""The rule of relevance taken from a run or an experiment: ``relevance: {from: runs/x}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ltr_harness.config.load import data_mapping, load_experiment
from ltr_harness.config.normal import absolute_path, from_plain
from ltr_harness.config.yaml_tree import Node, shown
from ltr_harness.errors import ConfigError, DataError, HarnessError, Problem
from ltr_harness.relevance.rule import Relevance
from ltr_harness.runs import Run, find_runs

FROM = "from"
_OF_THE_LOG = ("event_log", "maturity", "propensity", "label", "prediction", "list_column")
"""What is said of production's own log and changes no grade."""


def with_rule(tree: Node) -> tuple[Node, list[Problem]]:
    """The configuration with the rule in place of the run or experiment that has it, and what is wrong with that."""
    node = tree.at(("relevance",))
    source = None if node is None else node.mapping.get(FROM)
    if node is None or source is None:
        return tree, []
    own = node.without(FROM)
    if not isinstance(source.value, str):
        found = f"relevance.from is {shown(source)}"
        problem = Problem(str(source.place), found, "a run or an experiment file")
        return tree.with_entry("relevance", own), [problem]
    try:
        rule = _merged(source, own)
    except ConfigError as error:
        return tree.without("relevance"), list(error.problems)
    return tree.with_entry("relevance", from_plain(rule, source.place)), []


def rule_of_run(run: Run) -> Relevance | None:
    """The rule that made the run's labels; None where its data had ready ones."""
    rule = run.record.reading.get("relevance")
    return None if rule is None else Relevance.model_validate(rule)


def _merged(source: Node, own: Node) -> dict[str, Any]:
    """The rule that is named, with what is of production's log."""
    place = str(source.place)
    if odd := sorted(own.mapping.keys() - {*_OF_THE_LOG}):
        found = f"relevance.from beside {', '.join(odd)}, which the rule of {source.value} says"
        cure = f"leave out one of them; {', '.join(_OF_THE_LOG)} may stand beside it"
        raise ConfigError(Problem(place, found, cure=cure))
    path = Path(str(absolute_path(source).value))
    try:
        rule = _rule_at(path, own.mapping.keys())
    except HarnessError as error:
        raise ConfigError(
            [Problem(place, f"relevance.from: {problem}") for problem in error.problems]
        ) from None
    for key, said in own.mapping.items():
        inner = rule.get(key)
        if key == "event_log" and isinstance(inner, dict):
            rule[key] = {**inner, **said.plain()}
        else:
            rule[key] = said.plain()
    for key, log, what in (
        ("event_log", rule.get("event_log"), "log of events"),
        ("propensity", (rule.get("propensity") or {}).get("estimate"), "measurement of propensities"),
    ):
        if log and key not in own.mapping:
            found = f"relevance.from: {source.value} has a {what} of its own"
            cure = f"add relevance.{key}: {{…}} beside from"
            raise ConfigError(Problem(place, found, "production's", cure))
    return rule


def _rule_at(path: Path, given: Any) -> dict[str, Any]:
    if path.suffix in (".yaml", ".yml"):
        sections: list[Mapping[str, Any]] = [data_mapping(load_experiment(path, check_rankers=False).data)]
    else:
        sections = [run.record.reading for run in find_runs(path) if run.record.reading]
    rules = {json.dumps(rule, sort_keys=True): rule for rule in (_said(one, given) for one in sections)}
    if len(rules) != 1:
        found = (
            "has runs under several rules" if rules else "has no run whose record says how its data was read"
        )
        raise DataError(Problem(str(path), found, "one rule of relevance", "name one run"))
    return next(iter(rules.values()))


def _said(section: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """The rule of a data section; ready labels are one, too."""
    if section.get("relevance"):
        return {key: value for key, value in section["relevance"].items() if value is not None}
    if section.get("grades") or section.get("unjudged") is not None:
        raise DataError(
            Problem(
                "",
                "its labels are mapped by grades or unjudged, which a log cannot be",
                "labels as they are, or a rule of relevance",
                "write the mapped grades into the log and set relevance: {label: …}",
            )
        )
    if "label" not in section and "label" not in given:
        raise DataError(
            Problem("", "its labels have no column", cure="add label: the log's column with them")
        )
    rule = {"mode": "label", "label": section.get("label")}
    return rule | ({"max_grade": section["max_grade"]} if section.get("max_grade") else {})
