"""Units and weights of queries, as attributes that all systems must agree on."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of
from ltr_harness.comparison.contrasts import WEIGHT, SystemResult
from ltr_harness.comparison.stats.cluster_sums import UnitCodes
from ltr_harness.comparison.stats.method import UNWEIGHTED
from ltr_harness.data.arrays import Array, Floats, Texts, as_column
from ltr_harness.errors import NotComparableError, UsageError
from ltr_harness.metrics.core.headroom import is_computed_column

T = TypeVar("T", bound=np.generic)


def weights_of_queries(systems: Sequence[SystemResult], name: str | None) -> Floats | None:
    """Return how much each query counts by an attribute that the systems have, (n_queries,) in their order.

    None stands for the test data's own weights, where there are any. Equal weights are none.
    """
    if name == UNWEIGHTED:
        return None
    attribute = name or WEIGHT
    if name is None and not any(WEIGHT in system.query_attributes for system in systems):
        return None
    place, cure = f"weights {attribute!r}", "give the data or the tables a column of that name"

    def read(system: SystemResult) -> Floats:
        return read_weights(system.query_attributes[attribute], system.query_ids, place, system.name)

    _, weights = _agreed(systems, attribute, place, read, "weight", "has ", cure)
    return None if weights.min() == weights.max() else weights


def read_weights(values: Array, query_ids: Array, place: str, owner: str) -> Floats:
    """Return (n_queries,) weights, which are finite, at least 0 and not all 0."""
    if values.dtype.kind not in "iuf":
        found = f"{owner}: {str(values[0])!r} is not a number"
        raise UsageError.at(place, found, "a number for each query", "weights: none counts each query once")
    weights = values.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if bad.size:
        found = f"{owner}: query {str(query_ids[bad[0]])!r} has {weights[bad[0]]:g}"
        raise UsageError.at(place, found, "finite weights of at least 0")
    if not weights.any():
        raise UsageError.at(place, f"{owner}: every query has 0", "weights that are not all 0")
    return weights


def unit_codes(systems: Sequence[SystemResult], unit: str) -> UnitCodes:
    """(n_queries,): a code for each unit, by the attribute that the systems have; all in one order of queries."""
    place = f"unit {unit!r}"
    cure = "name it under `attributes:` of the data, or give a table a column of that name"

    def read(system: SystemResult) -> Texts:
        return unit_texts(system.query_attributes[unit])

    first, units = _agreed(systems, unit, place, read, "unit", "is of ", cure)
    missing = np.flatnonzero(units == "")
    if missing.size:
        found = f"{count_of(missing.size, 'query')} without one, {str(first.query_ids[missing[0]])!r} first"
        cure = "if it is unknown, give each query a different one"
        raise UsageError.at(place, found, "one for each query", cure)
    codes: UnitCodes = np.unique(units, return_inverse=True)[1].reshape(-1)
    if codes.max(initial=0) == 0:
        raise UsageError.at(place, "all queries have the same", "at least two units, and better many")
    return codes


def _agreed(
    systems: Sequence[SystemResult],
    attribute: str,
    place: str,
    read: Callable[[SystemResult], NDArray[T]],
    noun: str,
    verb: str,  # between a query and its value, such as "is of "
    cure: str,
) -> tuple[SystemResult, NDArray[T]]:
    """Return the first system that has an attribute, and its (n_queries,) values, which all that have it share."""
    having = [system for system in systems if attribute in system.query_attributes]
    if not having:
        names = {name for system in systems for name in system.query_attributes}
        available = sorted(name for name in names if not is_computed_column(name))
        cure = did_you_mean(attribute, available) if available else cure
        raise UsageError.at(place, f"no query has an attribute {attribute!r}", cure=cure)
    first = having[0]
    values = read(first)
    for other in having[1:]:
        differing = np.flatnonzero(read(other) != values)
        if differing.size:
            query = int(differing[0])
            first_value, other_value = (
                system.query_attributes[attribute][query] for system in (first, other)
            )
            preposition = verb.partition(" ")[2]
            found = (
                f"query {str(first.query_ids[query])!r} {verb}{other_value} for {other.name} "
                f"and {preposition}{first_value} for {first.name}"
            )
            raise NotComparableError.at(place, found, f"one {noun} for each query")
    return first, values


def unit_texts(values: Array) -> Texts:
    """Return the names of the (n_queries,) units; empty where a query has none."""
    texts = ["" if value is None or value != value else str(value) for value in values.tolist()]
    return as_column(texts, "unit")
