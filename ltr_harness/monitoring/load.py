"""From a file to a checked configuration: every problem at once, with its place and how to mend it."""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.retired import retirement
from ltr_harness.data.logs.settings import seconds
from ltr_harness.data.logs.ubi import OBJECT
from ltr_harness.errors import ConfigError, DataError, HarnessError, Problem
from ltr_harness.experiments.config.expand import absolute_path, merged_tree
from ltr_harness.experiments.config.problems import explained
from ltr_harness.experiments.config.yaml_tree import Node, from_plain, shown
from ltr_harness.metrics import NDCG, Metric, parse_metric
from ltr_harness.monitoring.config import HIGHEST_GRADE, MonitorConfig, needs_whole_grades

FROM = "from"
_OF_THE_LOG = ("event_log", "maturity", "propensity", "label", "prediction", "list_column")
"""What is said of production's own log and changes no grade."""


def with_rule(tree: Node) -> tuple[Node, list[Problem]]:
    """The configuration with the rule in place of the run or experiment that has it, and what is wrong with that."""
    node = tree.at(("relevance",))
    source = None if node is None else node.mapping.get(FROM)
    if node is None or source is None:
        return tree, []
    own, place = node.without(FROM), str(source.place)
    if not isinstance(source.value, str):
        found = f"relevance.from is {shown(source)}"
        problem = Problem(place, found, "a run or an experiment file")
        return tree.with_entry("relevance", own), [problem]
    without_rule = tree.without("relevance")
    if odd := sorted(own.mapping.keys() - {*_OF_THE_LOG}):
        found = f"relevance.from beside {', '.join(odd)}, which the rule of {source.value} has"
        cure = f"leave out one of them; {', '.join(_OF_THE_LOG)} may stand beside it"
        return without_rule, [Problem(place, found, cure=cure)]
    try:
        path = absolute_path(source)
    except ConfigError as error:
        return without_rule, list(error.problems)
    try:
        rule = _rule_at(Path(str(path.value)), own.mapping.keys())
    except HarnessError as error:
        return without_rule, [Problem(place, f"relevance.from: {problem}") for problem in error.problems]
    for key, said in own.mapping.items():
        inner = rule.get(key) if key == "event_log" else None
        rule[key] = {**inner, **said.plain()} if isinstance(inner, dict) else said.plain()
    for key, log, what in (
        ("event_log", rule.get("event_log"), "log of events"),
        ("propensity", (rule.get("propensity") or {}).get("estimate"), "measurement of propensities"),
    ):
        if log and key not in own.mapping:
            found = f"relevance.from: {source.value} has a {what} of its own"
            cure = f"add relevance.{key}: {{…}} beside from"
            return without_rule, [Problem(place, found, "production's", cure)]
    return tree.with_entry("relevance", from_plain(rule, source.place)), []


def _rule_at(path: Path, given: Any) -> dict[str, Any]:
    from ltr_harness.experiments.config.load import data_mapping, load_experiment
    from ltr_harness.experiments.runs import find_runs

    if path.suffix in (".yaml", ".yml"):
        sections: list[Mapping[str, Any]] = [data_mapping(load_experiment(path, check_rankers=False).data)]
    else:
        sections = [run.record.reading for run in find_runs(path)]
    rules = {json.dumps(rule, sort_keys=True): rule for rule in (_said(one, given) for one in sections)}
    if len(rules) != 1:
        found = "has runs under several rules" if rules else "has no run"
        raise DataError(Problem(str(path), found, "one rule of relevance", "name one run"))
    return next(iter(rules.values()))


def _said(section: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """The rule of a data section; ready labels are one, too."""
    if section.get("relevance"):
        return {key: value for key, value in section["relevance"].items() if value is not None}
    if section.get("grades") or section.get("unjudged") is not None:
        found = "its labels are mapped by grades or unjudged, which a log cannot be"
        cure = "write the mapped grades into the log and set relevance: {label: …}"
        raise DataError(Problem("", found, "labels as they are, or a rule of relevance", cure))
    if "label" not in section and "label" not in given:
        cure = "add label: the log's column with them"
        raise DataError(Problem("", "its labels have no column", cure=cure))
    rule = {"mode": "label", "label": section.get("label")}
    return rule | ({"max_grade": section["max_grade"]} if section.get("max_grade") else {})


_ESTIMATE = ("relevance", "propensity", "estimate")
_TABLES = ("relevance", "event_log"), _ESTIMATE, _ESTIMATE[1:]
_OURS = ("history",), ("drift", "model"), ("parity", "model")
_PATHS = (
    *(("log",), ("baseline",), *_OURS),
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
    tree, of_rule = with_rule(tree)
    problems += of_rule
    for path in _PATHS:
        tree = tree.changed(path, partial(absolute_path, data=path not in _OURS))
    try:
        config = MonitorConfig.model_validate(tree.plain())
    except ValidationError as error:
        wrong = [
            dataclasses.replace(one, found=one.found.replace("the experiment", "the configuration"))
            for one in explained(error, MonitorConfig, tree, ())
        ]
        raise ConfigError([*problems, *wrong]) from None
    if not problems:  # without its rule, a configuration lacks more than it says
        problems += _rules(config, tree)
    ConfigError.refuse(problems)
    return config


def _about_a_log(problem: Problem, source: Any) -> Problem:
    """Point at `init --monitor` where a file is no configuration and may be a log."""
    is_folder = isinstance(source, str | Path) and Path(source).is_dir()
    if not (is_folder or problem.cure.startswith("is it data?")):
        return problem
    found = problem.found.replace("is not an experiment", "is not a monitoring file")
    expected = problem.expected.replace("an experiment", "a monitoring file").replace(
        _NAMED, "'columns: {…}'"
    )
    cure = f"is it a log? `ltr-harness init --monitor {source}` writes a monitoring file for it"
    return dataclasses.replace(problem, found=found, expected=expected, cure=cure)


_NAMED = "'name: my-experiment'"


def _without_seed(tree: Node) -> tuple[Node, list[Problem]]:
    """Leave out the seed, which has no effect: 0 in silence, because every stored config.yaml of version 1 has it."""
    seed = tree.at(("seed",))
    if seed is None:
        return tree, []
    problems = []
    if seed.value != 0 or isinstance(seed.value, bool):
        problems.append(Problem(str(tree.key_places["seed"]), f"monitor seed: {retirement('monitor seed')}"))
    return tree.without("seed"), problems


def _rules(config: MonitorConfig, tree: Node) -> Iterator[Problem]:
    """What must hold between the sections."""
    place, of, columns, rule = str(tree.place), tree.mapping, config.columns, config.relevance
    of_relevance, of_compare = (str(of.get(name, tree).place) for name in ("relevance", "compare"))
    yield from _about_grades(config, of_relevance)
    yield from _about_estimates(config, of_relevance)
    for metric in config.resolved_metrics:
        if metric.with_max_grade(1) != metric:
            found = f"metrics: {metric} needs the top of the scale of grades"
            yield Problem(place, found, "relevance.max_grade", "add relevance: {max_grade: 4}")
        if rule.cuts_lists and isinstance(metric, NDCG) and metric.short_list == "zero":
            found = f"{metric} gives 0 to lists shorter than K, and relevance cuts lists at unjudged rows"
            cure = "leave out short_list=zero, or unseen and unlabelled"
            yield Problem(of_relevance, found, "lists as they were shown", cure)
    yield from _about_limits(config, tree)
    if config.primary.diagnostic:
        found = f"metrics: {config.primary} is a diagnostic, and the first metric raises the alerts"
        yield Problem(place, found, "a metric that says which ranking is better", "put another one first")
    if (log := rule.event_log) is not None:
        if columns.item_id is None:
            found = "relevance.event_log without columns.item_id"
            yield Problem(of_relevance, found, "the column that names the item")
        by_user = log.user and log.timestamp and columns.cluster_id and columns.timestamp
        if log.query_id is None and not by_user:
            expected = "user and timestamp there, cluster_id and timestamp in columns"
            yield Problem(of_relevance, "relevance.event_log without query_id", expected)
    for segment in rule.dwell.by if rule.dwell else ():
        if segment not in columns.segments:
            found = f"relevance.dwell.by: {segment!r} is not a segment"
            yield Problem(of_relevance, found, cure=did_you_mean(segment, columns.segments))
    if config.ubi is not None and columns.item_id != OBJECT:
        yield Problem(of_relevance, f"ubi with columns.item_id {columns.item_id!r}", f"item_id: {OBJECT}")
    if config.ubi is not None and (log or rule.list_column or not rule.from_events):
        given = "event_log" if log else "list_column" if rule.list_column else f"mode {rule.chosen}"
        events = "events, such as {click: 1, purchase: 4}: the actions are in the log"
        yield Problem(of_relevance, f"ubi with relevance.{given}", events)
    if config.windows.season in ("weekday", "hour_of_week") and seconds(config.windows.size) > 86_400:
        found = f"windows.season {config.windows.season} with windows longer than a day"
        yield Problem(place, found, "size: 1d or less")
    if seconds(rule.maturity) and columns.timestamp is None:
        found = "relevance.maturity without columns.timestamp"
        yield Problem(of_relevance, found, "the column with the time")
    known = [*columns.segments, *columns.features, *([columns.pair_key] if columns.pair_key else [])]
    for name in config.compare.adjust:
        if name not in known:
            found = f"compare.adjust: {name!r} is not a segment, a feature or the pair_key"
            expected = f"one of {', '.join(known)}" if known else "columns that describe the queries"
            cure = did_you_mean(name, known) if known else "name it under columns, too"
            yield Problem(of_compare, found, expected, cure)
    if columns.cluster_id is not None and columns.pair_key in config.compare.adjust:
        found = f"compare.adjust: {columns.pair_key!r} beside columns.cluster_id"
        found += ": queries of one key are alike, and those of one user"
        cure = "leave out cluster_id, or adjust by segments and features"
        yield Problem(of_compare, found, "one unit of queries", cure)
    if config.parity is not None and not (config.parity.score or columns.score):
        expected = "columns.score, or parity.score where rank orders lists"
        yield Problem(str(tree.mapping["parity"].place), "parity without a score", expected)


def _about_limits(config: MonitorConfig, tree: Node) -> Iterator[Problem]:
    """Each limit must be of a metric that is computed, inside its range, and able to raise an alert."""
    node = tree.at(("alerts", "below"))
    if node is None or not config.alerts.below:
        return
    if "limit" not in config.alerts.on:
        found = f"alerts.on is {', '.join(config.alerts.on) or 'empty'}, beside alerts.below"
        yield Problem(str(tree.mapping["alerts"].place), found, "limit among them", "add limit to alerts.on")
    seen = dict[Metric, str]()
    for key, limit in config.alerts.below.items():
        place, name = str(node.key_places[key]), f"alerts.below: {key}"
        try:
            metric = parse_metric(key)
        except HarnessError as error:
            yield from (Problem(place, f"alerts.below: {problem}") for problem in error.problems)
            continue
        resolved = config.resolved(metric)
        if resolved not in config.resolved_metrics:
            computed = f"one of {', '.join(metric.spelling for metric in config.metrics)}"
            yield Problem(place, f"{name} is not computed", computed, f"add {key} to metrics")
        elif resolved in seen:
            yield Problem(
                place, f"{name} and {seen[resolved]} are one metric", "one limit", "leave out one of them"
            )
        else:
            seen[resolved] = key
            yield from _about_range(name, limit, resolved, place)


def _about_range(name: str, limit: float, metric: Metric, place: str) -> Iterator[Problem]:
    low, high = metric.bounds
    if not metric.higher_is_better:
        found = f"{name} is better where it is lower"
        yield Problem(place, found, "a metric that is better where it is higher")
    elif not low < limit <= high:
        cure = f"write {limit / 100:g}" if (low, high) == (0.0, 1.0) and 1 < limit <= 100 else ""
        above = "" if math.isinf(low) else f"above {low:g}"
        at_most = "" if math.isinf(high) else f"at most {high:g}"
        yield Problem(
            place, f"{name} has the limit {limit:g}", " and ".join(filter(None, (above, at_most))), cure
        )


def _about_grades(config: MonitorConfig, place: str) -> Iterator[Problem]:
    rule = config.relevance
    exponential = [str(m) for m in config.resolved_metrics if needs_whole_grades(m)]
    if not exponential:
        return
    if rule.chosen == "weighted_sum" and rule.clip is None:
        total = sum(rule.events.values())
        gain = f"{2 ** min(total, 1000) - 1:g}"
        found = f"relevance.mode weighted_sum with {exponential[0]}: weights add up to {total:g}, a gain of {gain}"
        cure = "use ndcg(gain=linear)@K, mode: max, or clip: 4"
        yield Problem(place, found, "a metric with linear gain, or a limit", cure)
    weights = rule.events if rule.chosen in ("max", "weighted_sum") else {}
    weights = {**weights, **{rung.when: rung.grade for rung in rule.ladder}}
    fractional = [name for name, weight in weights.items() if weight != int(weight)]
    if fractional or rule.count == "log1p":
        what = "count: log1p gives fractions"
        if fractional:
            what = f"the weight of {fractional[0]!r} is {weights[fractional[0]]:g}"
        found = f"relevance: {what}, and {exponential[0]} needs integer labels"
        yield Problem(place, found, cure="use ndcg(gain=linear)@K or whole weights")
    steep = {name: weight for name, weight in weights.items() if weight > HIGHEST_GRADE}
    if rule.chosen == "weighted_sum":
        steep = {} if rule.clip is None or rule.clip <= HIGHEST_GRADE else {"clip": rule.clip}
    if steep:
        name, weight = next(iter(steep.items()))
        found = f"relevance: {name!r} is worth {weight:g}, and {exponential[0]} gains 2^grade - 1"
        cure = "use ndcg(gain=linear)@K or smaller weights"
        yield Problem(place, found, f"grades up to {HIGHEST_GRADE}", cure)


def _about_estimates(config: MonitorConfig, place: str) -> Iterator[Problem]:
    rule = config.relevance
    if rule.chosen == "doubly_robust":
        found = "relevance.mode doubly_robust: a log has no features to predict relevance from"
        yield Problem(place, found, "mode ips", "under data: of an experiment it can be had")
    if rule.chosen == "quantiles":
        found = "relevance.mode quantiles: a log holds what was shown alone, and beside other rows grades are others"
        yield Problem(
            place, found, "mode label, with ready grades", "under data: of an experiment it can be had"
        )
    if not rule.estimates:
        return
    if config.propensity is not None:
        found = f"propensity beside relevance.mode {rule.chosen}, which divides by propensities itself"
        yield Problem(place, found, cure="leave out one of them")
    if binary := [str(metric) for metric in config.resolved_metrics if not metric.graded]:
        found = f"{', '.join(binary)} with relevance.mode {rule.chosen}: it counts what happened, whatever its rank"
        yield Problem(place, found, "metrics of graded labels", "use dcg(gain=linear)@10")
    if config.columns.retrieved is not None:
        found = f"columns.retrieved with relevance.mode {rule.chosen}: what was not shown has no propensity"
        yield Problem(place, found, cure="leave out one of them")
    if config.empty != "zero":
        found = f"empty: {config.empty} with relevance.mode {rule.chosen}: the mean is not an estimate of relevance"
        yield Problem(place, found, "empty: zero: queries without an event count 0")


def json_schema() -> dict[str, Any]:
    """The schema of monitoring configurations, for editors."""
    schema = MonitorConfig.model_json_schema()
    schema["$defs"]["Relevance"]["properties"][FROM] = {
        "type": "string",
        "description": "A run, a folder of runs or an experiment file with the rule; beside it stand only "
        "settings of production's log.",
    }
    schema["properties"]["extends"] = {"type": "string", "description": "A file this one builds on."}
    schema["title"] = "ltr-harness monitor"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
