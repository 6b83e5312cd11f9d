"""Metrics from outside: a class in a file of one's own, an installed package, or a plain function per query."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import re
from collections.abc import Callable
from functools import cache, partial
from types import CodeType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.catalog import load_own_file, require_methods
from ltr_harness._util.user_code import own_file_digest
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import MetricError
from ltr_harness.metrics.core.metric import Cutoffs, Metric, Prepared, Values
from ltr_harness.metrics.core.ranking import Ranking
from ltr_harness.metrics.table import DEFINITIONS, built_in

PerQuery = Callable[[NDArray[np.float64], NDArray[np.float64]], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionMetric(Metric):
    """Base of what `function_metric` makes: one call of a Python function per query.

    A query for which the function returns NaN is undefined and follows `empty`.
    """

    function: ClassVar[PerQuery]
    graded = True
    bounds = (-math.inf, math.inf)
    takes_cutoff = False
    uses_whole_order = True
    takes_any_label = True
    source = "your own"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ties != "expected":
            raise MetricError(
                f"{self.name}: ties={self.ties}; a function sees scores as they are and orders them itself"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.origin or type(self).function
        return _function_again, (source, self.name, self.higher_is_better, self.empty)

    @property
    def spelling(self) -> str:
        if self.origin is None:
            return str(self)
        parameters = [] if self.empty == "skip" else [f"empty={self.empty}"]
        direction = "true" if self.higher_is_better else "false"
        parameters.append(f"higher_is_better={direction}")
        if self.name != getattr(type(self).function, "__name__", None):
            parameters.append(f"name={self.name}")
        return f"{self.origin}({','.join(parameters)})"

    def prepare(self, judgments: Judgments, cutoffs: Cutoffs) -> Prepared:
        groups = judgments.groups
        spans = list(zip(groups.boundaries[:-1].tolist(), groups.boundaries[1:].tolist(), strict=True))
        labels = judgments.labels.view()
        labels.flags.writeable = False  # the function must not change what other metrics read
        function = type(self).function

        def values(ranking: Ranking) -> Values:
            scores = ranking.scores.view()
            scores.flags.writeable = False
            out = np.empty((1, len(spans)))
            for query, (start, end) in enumerate(spans):
                try:
                    value = float(function(labels[start:end], scores[start:end]))
                except Exception as problem:
                    raise MetricError(
                        f"{self.name} failed on query {groups.name(query)!r}: {type(problem).__name__}: {problem}"
                    ) from problem
                if math.isinf(value):
                    raise MetricError(
                        f"{self.name} is infinite for query {groups.name(query)!r}; expected a number"
                    )
                out[0, query] = value
            return self.apply_empty(out, np.isnan(out[0]))

        return values


def function_metric(
    function: PerQuery, *, name: str | None = None, higher_is_better: bool, origin: str | None = None
) -> Metric:
    """A metric from a function of one query's labels and scores.

    Args:
        function: ``f(labels, scores) -> float``, float64 arrays of one query's rows in row order; NaN where it is
            undefined. What it does with equal scores is its own affair.
        name: what reports call it; the function's name if not given.
        higher_is_better: whether higher values are better; required.
        origin: ``path.py:function`` where it was loaded from.

    Raises:
        MetricError: a name that cannot stand in the grammar or belongs to another metric.

    Example:
        >>> from ltr_harness import evaluate
        >>> def label_on_top(labels, scores):
        ...     return labels[scores.argmax()]
        >>> metric = function_metric(label_on_top, higher_is_better=True)
        >>> evaluate([1, 3, 2, 0], [0.2, 0.1, 0.4, 0.3], group_sizes=[2, 2], metrics=[metric]).means["label_on_top"]
        1.5
    """
    if not callable(function) or isinstance(function, Metric):
        raise MetricError(f"{function!r} is not a function; expected f(labels, scores) -> float")
    if not isinstance(higher_is_better, bool):
        raise MetricError(f"higher_is_better={higher_is_better!r}; expected true or false")
    metric_name = name or getattr(function, "__name__", type(function).__name__)
    return _function_class(function, metric_name, higher_is_better, origin)()


@cache  # the same function is the same metric, also for `==`
def _function_class(
    function: PerQuery, name: str, higher_is_better: bool, origin: str | None
) -> type[FunctionMetric]:
    check_name(name)
    digest = own_file_digest(origin) if origin else _code_digest(function)
    fields = {
        "__module__": __name__,
        "__doc__": inspect.getdoc(function),
        "name": name,
        "function": staticmethod(function),
        "higher_is_better": higher_is_better,
        "origin": origin,
        "digest": digest,
    }
    return dataclasses.dataclass(frozen=True, kw_only=True)(type(name, (FunctionMetric,), fields))


def _function_again(source: str | PerQuery, name: str, higher_is_better: bool, empty: str) -> FunctionMetric:
    """An unpickled metric; in another process a user's own file has to be loaded first."""
    origin = source if isinstance(source, str) else None
    function = load_own_file(source, MetricError) if isinstance(source, str) else source
    return _function_class(function, name, higher_is_better, origin)(empty=empty)  # type: ignore[arg-type]


def _class_again(origin: str, values: dict[str, Any]) -> Metric:
    """An unpickled metric of a class in a user's own file, which has no module to import."""
    kind = adopt(load_own_file(origin, MetricError), origin, own_file_digest(origin))
    return kind(**values)


def _reduce_class_metric(metric: Metric) -> tuple[Any, ...]:
    values = {field.name: getattr(metric, field.name) for field in dataclasses.fields(metric)}
    return _class_again, (metric.origin, values)


def adopt(kind: type[Metric], origin: str | None, digest: str) -> type[Metric]:
    """A metric class from outside, checked to declare what every metric must and marked with where it came from."""
    place = origin.rpartition(":")[0] if origin else kind.__module__
    for declared, example in (("name", '"my_metric"'), ("graded", "True")):
        if not hasattr(kind, declared):
            raise MetricError(
                f"{place}: {kind.__name__} does not declare `{declared}`; add `{declared}: ClassVar = {example}`"
            )
    if "__dataclass_fields__" not in vars(kind):
        raise MetricError(
            f"{place}: {kind.__name__} is not a dataclass; put @dataclass(frozen=True, kw_only=True) above it"
        )
    require_methods(kind, place, MetricError)
    check_name(kind.name)
    if not hasattr(kind, "source"):
        kind.source = FunctionMetric.source
    kind.origin, kind.digest = origin, digest
    if origin is not None:
        kind.__reduce__ = _reduce_class_metric  # type: ignore[assignment,method-assign]
    return kind


def check_name(name: str) -> None:
    """Refuse a name that the grammar cannot read or that already means something else."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
        raise MetricError(
            f"{name!r} cannot name a metric; expected letters, digits and _ only, such as "
            f"name={re.sub(r'[^A-Za-z0-9_]+', '_', name).strip('_') or 'my_metric'!r}"
        )
    existing_name = built_in(name)
    if existing_name is None and name in DEFINITIONS:
        existing_name = name
    if existing_name is not None:
        canonical_name = "" if existing_name == name else f", {existing_name!r}"
        raise MetricError(f"{name!r} already names another metric{canonical_name}; choose another name")


def _code_digest(function: Any) -> str:
    """SHA-256 of what the function does, as far as its source tells."""
    if isinstance(function, partial):
        bound_arguments = repr((function.args, sorted(function.keywords.items())))
        return hashlib.sha256((_code_digest(function.func) + bound_arguments).encode()).hexdigest()
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):  # typed in a console, or not written in Python
        code = getattr(function, "__code__", None)
        text = _compiled_text(code) if code else repr(type(function))
    return hashlib.sha256(text.encode()).hexdigest()


def _compiled_text(code: CodeType) -> str:
    """The same in every process: the functions inside are spelt out, whose own `repr` is an address."""
    constants = list(code.co_consts)
    for i, constant in enumerate(constants):
        if isinstance(constant, CodeType):
            constants[i] = _compiled_text(constant)
    return repr((code.co_code, constants, code.co_names))
