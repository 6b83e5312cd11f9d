"""From a file to a checked configuration: every problem at once, with its place and how to mend it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ltr_harness.catalog import did_you_mean
from ltr_harness.config.explain import explained
from ltr_harness.config.merge import merged_tree
from ltr_harness.config.normal import absolute_path
from ltr_harness.config.yaml_tree import Node
from ltr_harness.errors import ConfigError, Problem
from ltr_harness.logs.settings import seconds
from ltr_harness.logs.ubi import OBJECT
from ltr_harness.monitoring.config import (
    HIGHEST_GRADE,
    MonitorConfig,
    needs_whole_grades,
    refuses_short_lists,
)
from ltr_harness.monitoring.rule_source import FROM, with_rule

_PATHS = (
    *(("log",), ("baseline",), ("history",), ("drift", "model"), ("parity", "model")),
    *(
        (*table, key)
        for table in (
            ("relevance", "event_log"),
            ("relevance", "propensity", "estimate"),
            ("propensity", "estimate"),
        )
        for key in ("path", "baseline_path")
    ),
)
"""Where files are named."""


def load_monitor_config(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()
) -> MonitorConfig:
    """Read and check a configuration.

    Raises:
        ConfigError: every problem, with its place and how to mend it.
    """
    tree = merged_tree(source, overrides)
    tree, problems = with_rule(tree)
    for path in _PATHS:
        tree = _with_absolute(tree, path)
    try:
        config = MonitorConfig.model_validate(tree.plain())
    except ValidationError as error:
        wrong = [problem for _, problem in explained(error, MonitorConfig, tree, ())]
        raise ConfigError([*problems, *(_in_our_words(problem) for problem in wrong)]) from None
    if not problems:  # without its rule, a configuration lacks more than it says
        problems += _rules(config, tree)
    if problems:
        raise ConfigError(problems)
    return config


def _in_our_words(problem: Problem) -> Problem:
    """The same finding about a monitoring configuration rather than an experiment."""
    return dataclasses.replace(problem, found=problem.found.replace("the experiment", "the configuration"))


def _with_absolute(node: Node, path: tuple[str, ...]) -> Node:
    """The tree with the path of a file made absolute, if there is one."""
    key, *rest = path
    if key not in node.mapping:
        return node
    inner = node.mapping[key]
    return node.with_entry(key, _with_absolute(inner, tuple(rest)) if rest else absolute_path(inner))


def _rules(config: MonitorConfig, tree: Node) -> list[Problem]:
    """What must hold between the sections."""
    place = str(tree.mapping.get("relevance", tree).place)
    return [
        *_about_grades(config, place),
        *_about_estimates(config, place),
        *_about_metrics(config, str(tree.place), place),
        *_about_events(config, place),
        *_about_ubi(config, place),
        *_about_time(config, str(tree.place), place),
        *_about_adjusting(config, tree),
        *_about_parity(config, tree),
    ]


def _about_grades(config: MonitorConfig, place: str) -> list[Problem]:
    """Grades that a gain cannot take."""
    problems = []
    relevance = config.relevance
    exponential = [str(m) for m in config.resolved_metrics if needs_whole_grades(m)]
    total = sum(relevance.events.values())
    if relevance.chosen == "weighted_sum" and relevance.clip is None and exponential:
        problems.append(
            Problem(
                place,
                f"relevance.mode weighted_sum with {exponential[0]}: weights add up to {total:g}, a gain of "
                f"{2 ** min(total, 1000) - 1:g}",
                "a metric with linear gain, or a limit",
                "use ndcg(gain=linear)@K, mode: max, or clip: 4",
            )
        )
    weights = {
        **(relevance.events if relevance.chosen in ("max", "weighted_sum") else {}),
        **{rung.when: rung.grade for rung in relevance.ladder},
    }
    fractional = [name for name, weight in weights.items() if weight != int(weight)]
    if (fractional or relevance.count == "log1p") and exponential:
        what = (
            f"the weight of {fractional[0]!r} is {weights[fractional[0]]:g}"
            if fractional
            else "count: log1p gives fractions"
        )
        problems.append(
            Problem(
                place,
                f"relevance: {what}, and {exponential[0]} needs integer labels",
                "",
                "use ndcg(gain=linear)@K or whole weights",
            )
        )
    steep = {name: weight for name, weight in weights.items() if weight > HIGHEST_GRADE}
    if relevance.chosen == "weighted_sum":
        steep = {} if relevance.clip is None or relevance.clip <= HIGHEST_GRADE else {"clip": relevance.clip}
    if steep and exponential:
        name, weight = next(iter(steep.items()))
        problems.append(
            Problem(
                place,
                f"relevance: {name!r} is worth {weight:g}, and {exponential[0]} gains 2^grade - 1",
                f"grades up to {HIGHEST_GRADE}",
                "use ndcg(gain=linear)@K or smaller weights",
            )
        )
    return problems


def _about_estimates(config: MonitorConfig, place: str) -> list[Problem]:
    """What labels that estimate relevance need."""
    rule, problems = config.relevance, []
    if rule.chosen == "doubly_robust":
        found = "relevance.mode doubly_robust: a log has no features to predict relevance from"
        problems.append(Problem(place, found, "mode ips", "under data: of an experiment it can be had"))
    if rule.estimates and config.propensity is not None:
        found = f"propensity beside relevance.mode {rule.chosen}, which divides by propensities itself"
        problems.append(Problem(place, found, cure="leave out one of them"))
    binary = [str(metric) for metric in config.resolved_metrics if not metric.graded]
    if rule.estimates and binary:
        found = f"{', '.join(binary)} with relevance.mode {rule.chosen}: it counts what happened, whatever its rank"
        problems.append(Problem(place, found, "metrics of graded labels", "use dcg(gain=linear)@10"))
    if rule.estimates and config.empty != "zero":
        found = (
            f"empty: {config.empty} with relevance.mode {rule.chosen}: the mean is no estimate of relevance"
        )
        problems.append(Problem(place, found, "empty: zero: queries without an event count 0"))
    return problems


def _about_metrics(config: MonitorConfig, place: str, relevance_place: str) -> list[Problem]:
    """Metrics that the rule of relevance has no numbers for, or that cannot raise alerts."""
    problems = []
    for metric in config.resolved_metrics:
        if metric.on_scale(1) != metric:
            problems.append(
                Problem(
                    place,
                    f"metrics: {metric} needs the top of the scale of grades",
                    "relevance.max_grade",
                    "add relevance: {max_grade: 4}",
                )
            )
        if config.relevance.cuts_lists and refuses_short_lists(metric):
            problems.append(
                Problem(
                    relevance_place,
                    f"{metric} gives 0 to lists shorter than K, and relevance cuts lists where nobody judged",
                    "lists as they were shown",
                    "leave out short_list=zero, or unseen and unlabelled",
                )
            )
    if config.primary.diagnostic:
        problems.append(
            Problem(
                place,
                f"metrics: {config.primary} is a diagnostic, and the first metric raises the alerts",
                "a metric that says which ranking is better",
                "put another one first",
            )
        )
    return problems


def _about_events(config: MonitorConfig, place: str) -> list[Problem]:
    """What joins an event log, and what dwell times are looked up by."""
    problems = []
    relevance, columns = config.relevance, config.columns
    log = relevance.event_log
    if log is not None:
        if columns.item_id is None:
            problems.append(
                Problem(
                    place, "relevance.event_log without columns.item_id", "the column that names the item"
                )
            )
        if log.query_id is None and not (
            log.user and log.timestamp and columns.cluster_id and columns.timestamp
        ):
            problems.append(
                Problem(
                    place,
                    "relevance.event_log without query_id",
                    "user and timestamp there, cluster_id and timestamp in columns",
                )
            )
    if relevance.dwell:
        for segment in relevance.dwell.by:
            if segment not in columns.segments:
                problems.append(
                    Problem(
                        place,
                        f"relevance.dwell.by: {segment!r} is not a segment",
                        "",
                        did_you_mean(segment, columns.segments),
                    )
                )
    return problems


def _about_ubi(config: MonitorConfig, place: str) -> list[Problem]:
    """What its documents hold: events, and objects by their ids."""
    rule, item = config.relevance, config.columns.item_id
    if config.ubi is None:
        return []
    problems = []
    if item != OBJECT:
        problems.append(Problem(place, f"ubi with columns.item_id {item!r}", f"item_id: {OBJECT}"))
    if rule.event_log or rule.list_column or not rule.from_events:
        given = (
            "event_log" if rule.event_log else "list_column" if rule.list_column else f"mode {rule.chosen}"
        )
        events = "events, such as {click: 1, purchase: 4}: the actions are in the log"
        problems.append(Problem(place, f"ubi with relevance.{given}", events))
    return problems


def _about_time(config: MonitorConfig, place: str, relevance_place: str) -> list[Problem]:
    """Windows, seasons and the age of labels."""
    problems = []
    if config.windows.season in ("weekday", "hour_of_week") and seconds(config.windows.size) > 86_400:
        problems.append(
            Problem(
                place,
                f"windows.season {config.windows.season} with windows longer than a day",
                "size: 1d or less",
            )
        )
    if seconds(config.relevance.maturity) and config.columns.timestamp is None:
        problems.append(
            Problem(
                relevance_place, "relevance.maturity without columns.timestamp", "the column with the time"
            )
        )
    return problems


def _about_adjusting(config: MonitorConfig, tree: Node) -> list[Problem]:
    place, columns = str(tree.mapping.get("compare", tree).place), config.columns
    known = [*columns.segments, *columns.features, *([columns.pair_key] if columns.pair_key else [])]
    problems = [
        Problem(
            place,
            f"compare.adjust: {name!r} is not a segment, a feature or the pair_key",
            f"one of {', '.join(known)}" if known else "columns that say what is known of the queries",
            did_you_mean(name, known) if known else "name it under columns, too",
        )
        for name in config.compare.adjust
        if name not in known
    ]
    if columns.cluster_id is not None and columns.pair_key in config.compare.adjust:
        problems.append(
            Problem(
                place,
                f"compare.adjust: {columns.pair_key!r} beside columns.cluster_id: queries of one key are alike, and "
                "those of one user",
                "one kind of queries that count together",
                "leave out cluster_id, or adjust by segments and features",
            )
        )
    return problems


def _about_parity(config: MonitorConfig, tree: Node) -> list[Problem]:
    if config.parity is None or config.parity.score or config.columns.score:
        return []
    place = str(tree.mapping["parity"].place)
    return [
        Problem(place, "parity without a score", "columns.score, or parity.score where rank orders lists")
    ]


def json_schema() -> dict[str, Any]:
    """The schema of monitoring configurations, for editors."""
    schema = MonitorConfig.model_json_schema()
    schema["$defs"]["Relevance"]["properties"][FROM] = {
        "type": "string",
        "description": "A run, a folder of runs or an experiment file whose rule this is; beside it stands only what "
        "is of production's log.",
    }
    schema["properties"]["extends"] = {"type": "string", "description": "A file this one builds on."}
    schema["title"] = "ltr-harness monitor"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
