"""From a metric's name to the metric: ``name(param=value,…)@K``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.user_code import installed_version, is_own_file, own_file_digest
from ltr_harness.errors import Caution, MetricError
from ltr_harness.metrics.core.custom import adopt, function_metric
from ltr_harness.metrics.core.metric import LARGEST_CUTOFF, Metric, accepted_of
from ltr_harness.metrics.core.presets import own_name, spelling
from ltr_harness.metrics.table import DEFINITIONS, ELSEWHERE, OBJECTIVES, built_in, catalog

_FORM = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w.-]*|[^()@]+\.py:\w+)\s*(?:\((?P<parameters>[^()]*)\))?\s*(?:@\s*(?P<k>[^@()]*))?\s*"
)
_PARTS = re.compile(
    r"(?P<base>(?P<name>[^(]*?)(?:\((?P<parameters>[^()]*)\))?)(?:@(?P<k>[0-9]{1,18}))?", re.DOTALL
)
# How other tools and papers call a parameter.
_OTHER_NAMES: dict[str, str | None] = {
    "cutoff": "k",
    "g_max": "max_grade",
    "gmax": "max_grade",
    "max_rel": "max_grade",
    "patience": "p",
    "persistence": "p",
    "rel": "relevant",
    "threshold": "relevant",
    "top": "k",
}
_EXPECTED = "name(param=value,…)@K, such as ndcg@10 or ndcg(gain=linear)@10"


class MetricName(NamedTuple):
    """A canonical name taken apart, also of a metric that is not at hand: another tool's, or one from a file."""

    base: str  # all but the cutoff
    name: str  # all before parameters and cutoff
    parameters: frozenset[str]  # each as it is written
    k: int | None  # the cutoff, or None

    @classmethod
    def of(cls, text: str) -> MetricName:
        """The parts of a name; a text of another form is all name."""
        form = _PARTS.fullmatch(text)
        if form is None:
            return cls(text, text, frozenset(), None)
        parameters = frozenset(filter(None, (form["parameters"] or "").split(",")))
        return cls(form["base"], form["name"], parameters, None if form["k"] is None else int(form["k"]))


def parse_metric(metric: str | Metric | Mapping[str, Any], tool: str | None = None) -> Metric:
    """The metric a name, or a mapping from YAML, stands for.

    Args:
        metric: ``"ndcg(gain=linear)@10"``, ``{"metric": "ndcg", "gain": "linear", "k": 10}``, or a metric.
            ``as=lightgbm`` stands for that tool's conventions; what is said beside it wins. A name that only one
            tool writes (``ndcg_cut_10`` of trec_eval, ``SetP`` of ir_measures) is that tool's metric.
        tool: whose conventions a text has that names no other's.

    Raises:
        MetricError: no such metric or parameter, a value it does not take, or text of another form.

    Example:
        >>> from ltr_harness.metrics import NDCG
        >>> parse_metric("ndcg(gain=linear)@10") == NDCG(k=10, gain="linear")
        True
        >>> str(parse_metric("ndcg(gain=exp) @ 10"))
        'ndcg@10'
        >>> str(parse_metric("ndcg(as=lightgbm)@10")), str(parse_metric("ndcg(ties=id)@10", "lightgbm"))
        ('ndcg(empty=one,ties=stable)@10', 'ndcg(empty=one,ties=id)@10')
        >>> str(parse_metric("ndcg_cut_10"))
        'ndcg(empty=zero,gain=linear,ties=id)@10'
    """
    if isinstance(metric, str):
        return _parse_built_in(metric, tool) or _parse_text(metric, tool)
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, Mapping):
        fields = dict(metric)
        name = fields.pop("metric", None)
        if not isinstance(name, str):
            raise MetricError(
                f"a metric written as a mapping needs its name: {{metric: ndcg, …}}; found {metric!r}"
            )
        if isinstance(fields.get("k"), str):
            fields["k"] = _cutoff(metric, fields["k"])
        return _build(name, fields)
    raise MetricError(f"{metric!r} is not a metric; expected {_EXPECTED}")


@lru_cache(maxsize=1024)
def _parse_built_in(text: str, tool: str | None) -> Metric | None:
    """Return the metric; None for one from outside, whose code may be another at the next call."""
    name, _ = _parse_name(text)
    return _parse_text(text, tool) if built_in(name) else None


def _parse_text(text: str, tool: str | None) -> Metric:
    name, parameters = _parse_name(text)
    return _build(name, parameters if tool is None else {"as": tool, **parameters})


def as_list(metrics: Any) -> list[Any]:
    """One metric or several as a list of what `parse_metric` takes, or refuses."""
    is_single = isinstance(metrics, str | Mapping) or not isinstance(metrics, Iterable)
    return [metrics] if is_single else list(metrics)


def metric_named(tool: str, name: str) -> Metric | None:
    """Our metric that gives the number which the tool prints under this name; None where there is none."""
    grammar_text = spelling(tool, name)
    try:
        return None if grammar_text is None else parse_metric(grammar_text)
    except MetricError:  # a threshold for a metric that takes none
        return None


def tool_of_name(metric: str) -> str | None:
    """The tool that a metric's name stands for a metric of; None where it is ours."""
    form = _FORM.fullmatch(metric)
    if form is None or is_own_file(form["name"]):
        return None
    parameters = dict(
        part.strip().split("=", 1) for part in (form["parameters"] or "").split(",") if "=" in part
    )
    name_of_tool = own_name(form["name"])
    return parameters.get("as", None if name_of_tool is None else name_of_tool[0])


def other_name(typed: str, metric: object) -> Caution:
    """Return the caution that a metric was typed by another name than its own."""
    return Caution("other-name", "note", f"{with_tool(typed)} is {metric}")


def with_tool(typed: str) -> str:
    """A metric as somebody typed it, and whose name that is where it is another tool's."""
    tool = tool_of_name(typed)
    return typed if tool is None or f"as={tool}" in typed else f"{typed} of {tool}"


def _parse_name(metric: str) -> tuple[str, dict[str, Any]]:
    """Return a metric's name and its parameters as they are written, the cutoff among them."""
    form = _FORM.fullmatch(metric)
    if form is None:
        raise MetricError(f"{metric!r} cannot be read as a metric; expected {_EXPECTED}")
    parameters: dict[str, Any] = {}
    if form["parameters"] and form["parameters"].strip():
        parameters.update(_written_parameters(metric, form["parameters"]))
    if form["k"] is not None:
        if "k" in parameters:
            raise MetricError(f"{metric!r} gives the cutoff twice")
        parameters["k"] = form["k"].strip()
    if "k" in parameters:
        parameters["k"] = _cutoff(metric, parameters["k"])
    return form["name"], parameters


def _written_parameters(metric: str, text: str) -> dict[str, str]:
    """Return the parameters between a metric's parentheses, which are not empty."""
    parameters: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            raise MetricError(f"{metric!r} has an empty parameter; expected {_EXPECTED}")
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise MetricError(f"{metric!r}: {part.strip()!r} is not param=value; expected {_EXPECTED}")
        if key in parameters:
            raise MetricError(f"{metric!r} gives {key} twice")
        parameters[key] = value
    return parameters


def _build(name: str, parameters: dict[str, Any]) -> Metric:
    definition = DEFINITIONS.get(name.lower().replace("-", "_"))
    if definition is not None:
        defined_name, defined_parameters = _parse_name(definition)
        for key in sorted(defined_parameters.keys() & parameters.keys()):
            raise MetricError(f"{name} is {definition}; leave out {key}={parameters[key]}")
        return _build(defined_name, {**defined_parameters, **parameters})
    name_of_tool = None if is_own_file(name) else own_name(name)
    if name_of_tool is not None:
        defined_name, tool_parameters = _parse_name(name_of_tool[1])
        if "k" in tool_parameters and "k" in parameters:
            raise MetricError(
                f"{name} of {name_of_tool[0]} has a cutoff already; leave out @{parameters['k']}"
            )
        return _build(defined_name, {**tool_parameters, **parameters})
    target = _class_or_function(name)
    if not isinstance(target, type):
        return _from_function(target, name, parameters)
    kind: type[Metric] = target
    tool = parameters.pop("as", None)
    if tool is not None and not isinstance(tool, str):
        raise MetricError(f"{name}: as={tool!r}; expected the name of a tool, such as lightgbm")
    values = {key: _read(kind, key, value) for key, value in parameters.items()}
    return kind(**values) if tool is None else kind.for_tool(tool, **values)


def _read(metric: type[Any], parameter: str, text: Any) -> Any:
    """A parameter's value, of which only text is to be read; a name that the metric lacks is refused with its own."""
    fields = {field.name for field in dataclasses.fields(metric)}
    if parameter not in fields:
        own_parameters = fields if metric.takes_cutoff else fields - {"k"}
        raise MetricError(
            f"{metric.name} has no parameter {parameter!r}; {did_you_mean(parameter, own_parameters, _OTHER_NAMES)}"
        )
    if not isinstance(text, str):
        return text
    accepted = accepted_of(metric)[parameter]
    options = get_args(accepted) or (accepted,)
    if bool in options and text in ("true", "false"):
        return text == "true"
    if (int in options or float in options) and "_" not in text:  # Python would take 1_000 for a number
        try:
            return float(text.encode())  # which are ASCII's digits alone
        except ValueError:
            pass
    return text


def _cutoff(metric: object, text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text):
        raise MetricError(f"{metric!r}: cutoff {text!r}; expected an integer after @")
    if len(text) > 100:  # int() refuses thousands of digits, and nobody reads them
        raise MetricError(f"cutoff '{text[:20]}…'; expected an integer of at most {LARGEST_CUTOFF:,} after @")
    return int(text)


def _refuse_near_miss(name: str) -> None:
    """Refuse names that stand for something else, or have the cutoff after an underscore, with the cure."""
    small = name.lower()
    if small in ELSEWHERE:
        raise MetricError(f"{name!r} is {ELSEWHERE[small]}")
    stem, _, cutoff = small.rpartition("_")
    stem = stem.removesuffix("_at")
    if cutoff.isdigit() and (ours := built_in(stem)) is not None:
        raise MetricError(f"unknown metric {name!r}; did you mean '{ours}@{cutoff}'?")


def _class_or_function(name: str) -> Any:
    ours = built_in(name)  # NDCG@10 and P@5 are how papers write them
    if ours is not None:
        return catalog.load(ours, MetricError)
    if name.lower() in OBJECTIVES and name not in catalog.names():
        raise MetricError(f"{name} is a training objective, not a metric; did you mean 'ndcg'?")
    if name not in catalog.names():
        _refuse_near_miss(name)
    target = catalog.load(name, MetricError)
    if isinstance(target, type) and issubclass(target, Metric):
        if is_own_file(name):
            return adopt(target, _absolute(name), own_file_digest(name))
        return adopt(target, None, f"{target.__module__} {installed_version(target.__module__)}")
    if isinstance(target, type | Metric) or not callable(target) or not is_own_file(name):
        raise MetricError(
            f"{name} is a {type(target).__name__}; expected a subclass of Metric, or a function f(labels, scores)"
        )
    return target


def _from_function(function: Any, name: str, parameters: dict[str, Any]) -> Metric:
    fields = dict(parameters)
    own_parameters = {"higher_is_better", "name", "empty"}
    unknown = sorted(set(fields) - own_parameters)
    if unknown:
        raise MetricError(
            f"{name} has no parameter {unknown[0]!r}; {did_you_mean(unknown[0], own_parameters)}"
        )
    if "higher_is_better" not in fields:
        raise MetricError(
            f"{name} is a function without `higher_is_better`; write {name}(higher_is_better=true) or false"
        )
    higher = fields.pop("higher_is_better")
    higher = {"true": True, "false": False}.get(higher, higher) if isinstance(higher, str) else higher
    metric_name = fields.pop("name", None)
    metric = function_metric(function, name=metric_name, higher_is_better=higher, origin=_absolute(name))
    return dataclasses.replace(metric, **fields)


def _absolute(name: str) -> str:
    path, _, attribute = name.rpartition(":")
    return f"{Path(path).resolve()}:{attribute}"
