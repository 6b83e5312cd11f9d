"""Problems between the sections of a configuration, each with its place and cure."""

import math
from collections.abc import Iterator, Mapping

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.data.logs.settings import seconds
from ltr_harness.data.logs.ubi import OBJECT
from ltr_harness.errors import HarnessError, Problem
from ltr_harness.experiments.config.yaml_tree import Node
from ltr_harness.metrics import NDCG, Metric, parse_metric
from ltr_harness.monitoring.config import HIGHEST_GRADE, MonitorConfig, needs_whole_grades


def inconsistencies(config: MonitorConfig, tree: Node) -> Iterator[Problem]:
    """Check what must hold between the sections; `tree` has their places."""
    relevance = _place(tree, "relevance")
    yield from _grade_problems(config, relevance)
    yield from _estimate_problems(config, relevance)
    yield from _metric_problems(config, str(tree.place), relevance)
    yield from _limit_problems(config, tree)
    yield from _primary_problems(config, str(tree.place))
    yield from _event_log_problems(config, relevance)
    yield from _dwell_problems(config, relevance)
    yield from _ubi_problems(config, relevance)
    yield from _time_problems(config, str(tree.place), relevance)
    yield from _adjust_problems(config, _place(tree, "compare"))
    if config.parity is not None and not (config.parity.score or config.columns.score):
        expected = "columns.score, or parity.score where rank orders lists"
        yield Problem(_place(tree, "parity"), "parity without a score", expected)


def _place(tree: Node, section: str) -> str:
    """Return the section's place, or the file's where it has none."""
    return str(tree.mapping.get(section, tree).place)


def _metric_problems(config: MonitorConfig, place: str, relevance: str) -> Iterator[Problem]:
    for metric in config.resolved_metrics:
        if metric.with_max_grade(1) != metric:
            found = f"metrics: {metric} needs the top of the scale of grades"
            yield Problem(place, found, "relevance.max_grade", "add relevance: {max_grade: 4}")
        if config.relevance.cuts_lists and isinstance(metric, NDCG) and metric.short_list == "zero":
            found = f"{metric} gives 0 to lists shorter than K, and relevance cuts lists at unjudged rows"
            cure = "leave out short_list=zero, or unseen and unlabelled"
            yield Problem(relevance, found, "lists as they were shown", cure)


def _primary_problems(config: MonitorConfig, place: str) -> Iterator[Problem]:
    if config.primary.diagnostic:
        found = f"metrics: {config.primary} is a diagnostic, and the first metric raises the alerts"
        yield Problem(place, found, "a metric that says which ranking is better", "put another one first")


def _event_log_problems(config: MonitorConfig, place: str) -> Iterator[Problem]:
    """Events are joined by item, and by query or by user and time."""
    log, columns = config.relevance.event_log, config.columns
    if log is None:
        return
    if columns.item_id is None:
        found = "relevance.event_log without columns.item_id"
        yield Problem(place, found, "the column that names the item")
    by_user = log.user and log.timestamp and columns.cluster_id and columns.timestamp
    if log.query_id is None and not by_user:
        expected = "user and timestamp there, cluster_id and timestamp in columns"
        yield Problem(place, "relevance.event_log without query_id", expected)


def _dwell_problems(config: MonitorConfig, place: str) -> Iterator[Problem]:
    if config.relevance.dwell is None:
        return
    segments = config.columns.segments
    for name in config.relevance.dwell.by:
        if name not in segments:
            found = f"relevance.dwell.by: {name!r} is not a segment"
            yield Problem(place, found, cure=did_you_mean(name, segments))


def _ubi_problems(config: MonitorConfig, place: str) -> Iterator[Problem]:
    """User Behavior Insights name the item, and have the events in documents of their own."""
    if config.ubi is None:
        return
    rule, item_id = config.relevance, config.columns.item_id
    if item_id != OBJECT:
        yield Problem(place, f"ubi with columns.item_id {item_id!r}", f"item_id: {OBJECT}")
    if rule.event_log:
        source = "event_log"
    elif rule.list_column:
        source = "list_column"
    elif not rule.from_events:
        source = f"mode {rule.chosen}"
    else:
        return
    events = "events, such as {click: 1, purchase: 4}: the actions are in the log"
    yield Problem(place, f"ubi with relevance.{source}", events)


def _time_problems(config: MonitorConfig, place: str, relevance: str) -> Iterator[Problem]:
    windows = config.windows
    if windows.season in ("weekday", "hour_of_week") and seconds(windows.size) > 86_400:
        found = f"windows.season {windows.season} with windows longer than a day"
        yield Problem(place, found, "size: 1d or less")
    if seconds(config.relevance.maturity) and config.columns.timestamp is None:
        found = "relevance.maturity without columns.timestamp"
        yield Problem(relevance, found, "the column with the time")


def _adjust_problems(config: MonitorConfig, place: str) -> Iterator[Problem]:
    """Only columns that describe queries can be adjusted for."""
    columns, adjust = config.columns, config.compare.adjust
    choices = [*columns.segments, *columns.features]
    if columns.pair_key:
        choices.append(columns.pair_key)
    for name in adjust:
        if name in choices:
            continue
        found = f"compare.adjust: {name!r} is not a segment, a feature or the pair_key"
        if choices:
            yield Problem(place, found, f"one of {', '.join(choices)}", did_you_mean(name, choices))
        else:
            yield Problem(place, found, "columns that describe the queries", "name it under columns, too")
    if columns.cluster_id is not None and columns.pair_key in adjust:
        found = f"compare.adjust: {columns.pair_key!r} beside columns.cluster_id"
        found += ": queries of one key are alike, and those of one user"
        cure = "leave out cluster_id, or adjust by segments and features"
        yield Problem(place, found, "one unit of queries", cure)


def _limit_problems(config: MonitorConfig, tree: Node) -> Iterator[Problem]:
    """Each limit must be of a metric that is computed, inside its range, and able to raise an alert."""
    node = tree.find(("alerts", "below"))
    if node is None or not config.alerts.below:
        return
    if "limit" not in config.alerts.on:
        found = f"alerts.on is {', '.join(config.alerts.on) or 'empty'}, beside alerts.below"
        yield Problem(_place(tree, "alerts"), found, "limit among them", "add limit to alerts.on")
    names = dict[Metric, str]()
    for name, limit in config.alerts.below.items():
        place, option = str(node.key_places[name]), f"alerts.below: {name}"
        try:
            metric = config.resolved(parse_metric(name))
        except HarnessError as error:
            yield from (Problem(place, f"alerts.below: {problem}") for problem in error.problems)
            continue
        if metric not in config.resolved_metrics:
            computed = f"one of {', '.join(metric.spelling for metric in config.metrics)}"
            yield Problem(place, f"{option} is not computed", computed, f"add {name} to metrics")
        elif metric in names:
            found = f"{option} and {names[metric]} are one metric"
            yield Problem(place, found, "one limit", "leave out one of them")
        else:
            names[metric] = name
            yield from _range_problems(option, limit, metric, place)


def _range_problems(option: str, limit: float, metric: Metric, place: str) -> Iterator[Problem]:
    low, high = metric.bounds
    if not metric.higher_is_better:
        found = f"{option} is better where it is lower"
        yield Problem(place, found, "a metric that is better where it is higher")
        return
    if low < limit <= high:
        return
    bounds = []
    if not math.isinf(low):
        bounds.append(f"above {low:g}")
    if not math.isinf(high):
        bounds.append(f"at most {high:g}")
    is_percent = (low, high) == (0.0, 1.0) and 1 < limit <= 100
    cure = f"write {limit / 100:g}" if is_percent else ""
    yield Problem(place, f"{option} has the limit {limit:g}", " and ".join(bounds), cure)


def _grade_problems(config: MonitorConfig, place: str) -> Iterator[Problem]:
    """Metrics with exponential gain need whole grades, and no high ones."""
    exponential = [str(metric) for metric in config.resolved_metrics if needs_whole_grades(metric)]
    if not exponential:
        return
    rule, metric = config.relevance, exponential[0]
    if rule.chosen == "weighted_sum" and rule.clip is None:
        total = sum(rule.events.values())
        gain = f"{2 ** min(total, 1000) - 1:g}"
        found = f"relevance.mode weighted_sum with {metric}: weights add up to {total:g}, a gain of {gain}"
        cure = "use ndcg(gain=linear)@K, mode: max, or clip: 4"
        yield Problem(place, found, "a metric with linear gain, or a limit", cure)
    weights = {rung.when: rung.grade for rung in rule.ladder}
    if rule.chosen in ("max", "weighted_sum"):
        weights = {**rule.events, **weights}
    yield from _fraction_problems(config, weights, metric, place)
    yield from _gain_problems(config, weights, metric, place)


def _fraction_problems(
    config: MonitorConfig, weights: Mapping[str, float], metric: str, place: str
) -> Iterator[Problem]:
    fractions = [f"the weight of {name!r} is {weight:g}" for name, weight in weights.items() if weight % 1]
    if config.relevance.count == "log1p":
        fractions.append("count: log1p gives fractions")
    if fractions:
        found = f"relevance: {fractions[0]}, and {metric} needs integer labels"
        yield Problem(place, found, cure="use ndcg(gain=linear)@K or whole weights")


def _gain_problems(
    config: MonitorConfig, weights: Mapping[str, float], metric: str, place: str
) -> Iterator[Problem]:
    rule = config.relevance
    grades = weights
    if rule.chosen == "weighted_sum":
        grades = {} if rule.clip is None else {"clip": rule.clip}
    for name, grade in grades.items():
        if grade > HIGHEST_GRADE:
            found = f"relevance: {name!r} is worth {grade:g}, and {metric} gains 2^grade - 1"
            cure = "use ndcg(gain=linear)@K or smaller weights"
            yield Problem(place, found, f"grades up to {HIGHEST_GRADE}", cure)
            return


def _estimate_problems(config: MonitorConfig, place: str) -> Iterator[Problem]:
    """Rules that estimate relevance need features, rows that were not shown, or no other correction."""
    rule = config.relevance
    experiment = "use it under data: of an experiment"
    if rule.chosen == "doubly_robust":
        found = "relevance.mode doubly_robust: a log has no features to predict relevance from"
        yield Problem(place, found, "mode ips", experiment)
    if rule.chosen == "quantiles":
        found = "relevance.mode quantiles: a log has only shown documents, beside which grades would differ"
        yield Problem(place, found, "mode label, with ready grades", experiment)
    if not rule.estimates:
        return
    if config.propensity is not None:
        found = f"propensity beside relevance.mode {rule.chosen}, which divides by propensities itself"
        yield Problem(place, found, cure="leave out one of them")
    if binary := [str(metric) for metric in config.resolved_metrics if not metric.graded]:
        found = f"{', '.join(binary)} with relevance.mode {rule.chosen}: it counts events whatever their rank"
        yield Problem(place, found, "metrics of graded labels", "use dcg(gain=linear)@10")
    if config.columns.retrieved is not None:
        found = f"columns.retrieved with relevance.mode {rule.chosen}: what was not shown has no propensity"
        yield Problem(place, found, cure="leave out one of them")
    if config.empty != "zero":
        found = f"empty: {config.empty} with relevance.mode {rule.chosen}: the mean is not an estimate of relevance"
        yield Problem(place, found, "empty: zero: queries without an event count 0")
