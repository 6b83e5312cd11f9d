"""What is given several times and counts once: one test query in several folds, one result under several seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.comparison.result import Entrant
from ltr_harness.wording import count_of


@dataclass(frozen=True, eq=False)
class TestSet:
    """The test queries of one fold.

    Attributes:
        digest: of its labels, groups and ids; empty when unknown.
        facts: query id to what is known of the query apart from any model: rows, relevant ones, attributes.
        repeated: whether the data lints found queries here that another fold tests as well.
    """

    __test__ = False  # its name is about test data, not about pytest

    digest: str
    facts: Mapping[str, tuple[Any, ...]]
    repeated: bool = False

    def shares(self, other: TestSet) -> bool:
        """Whether ids that both have name the same queries, and not two files' first, second, third …

        They do where the digests or the lints say so, or where every fact of every such query is the same and the
        facts tell queries apart.
        """
        if self.digest and self.digest == other.digest:
            return True
        ids = self.facts.keys() & other.facts.keys()
        told_apart = self.repeated or other.repeated or len({self.facts[query] for query in ids}) > 1
        return bool(ids) and told_apart and all(self.facts[query] == other.facts[query] for query in ids)


def facts_by_id(ids: NDArray[np.str_], columns: Mapping[str, NDArray[Any]]) -> dict[str, tuple[Any, ...]]:
    """What is known of each query.

    Shapes: `ids` (n_queries,), `columns` (n_queries,).
    """
    if not columns:
        return dict.fromkeys(ids.tolist(), ())
    rows = zip(*(map(str, columns[name].tolist()) for name in sorted(columns)), strict=True)
    return dict(zip(ids.tolist(), rows, strict=True))


def names_of_queries(tests: Mapping[str, TestSet]) -> dict[str, str]:
    """Fold to the fold after which its queries are called: the first one that shares queries with it."""
    called: dict[str, str] = {}
    for fold, test in tests.items():
        called[fold] = next((called[known] for known in called if tests[known].shares(test)), fold)
    return called


def repetition_note(tests: Mapping[str, TestSet]) -> str:
    """What is said of queries that several folds test; nothing where each is tested once."""
    called = names_of_queries(tests)
    queries = [(called[fold], query) for fold, test in tests.items() for query in test.facts]
    n = len(queries) - len(set(queries))
    if not n:
        return ""
    distinct = len(set(queries))
    return (
        f"the folds test {count_of(distinct, 'query')} {len(queries):,} times: each query counts once, with its mean "
        f"over the folds that test it"
    )


def each_once(entrant: Entrant) -> tuple[Entrant, int]:
    """The entrant with one value for each query id: the mean over the places where it stands.

    Returns:
        The entrant, and how many of its places were a query that stood before.
    """
    ids, first, at = np.unique(entrant.query_ids, return_index=True, return_inverse=True)
    repeated = entrant.query_ids.size - ids.size
    if not repeated:
        return entrant, 0
    order = np.argsort(first)
    place = np.argsort(order)[at.reshape(-1)]
    kept = entrant.take(first[order])
    values = {metric: _means(rows, place, ids.size) for metric, rows in entrant.values.items()}
    return replace(kept, values=values), repeated


def merged(entrant: Entrant) -> tuple[Entrant, int]:
    """An entrant whose queries are called ``fold/id``, such as an older saved comparison has, with each query once."""
    folds = list(entrant.judgments_fingerprint)
    parts = [query.partition("/") for query in entrant.query_ids.tolist()]
    if len(folds) < 2 or any(not slash or fold not in folds for fold, slash, _ in parts):
        return entrant, 0
    bare = np.array([query for _, _, query in parts])
    own = np.array([fold for fold, _, _ in parts])
    tests = {}
    for fold in folds:
        rows = own == fold
        columns = {name: column[rows] for name, column in entrant.query_attributes.items()}
        tests[fold] = TestSet(entrant.judgments_fingerprint[fold], facts_by_id(bare[rows], columns))
    called = names_of_queries(tests)
    ids = np.array([f"{called[fold]}/{query}" for fold, _, query in parts])
    return each_once(replace(entrant, query_ids=ids))


def distinct_replicates(entrant: Entrant) -> tuple[Entrant, list[str]]:
    """Replicates that are identical to the bit carry one piece of information: they count once, which notes say."""
    kept: dict[bytes, list[int]] = {}
    for row in range(len(entrant.replicates)):
        content = b"".join(rows[row].tobytes() for rows in entrant.values.values())
        kept.setdefault(content, []).append(row)
    if len(kept) == len(entrant.replicates):
        return entrant, []
    alike = [[entrant.replicates[row] for row in same] for same in kept.values() if len(same) > 1]
    notes = [
        f"{entrant.name}: seeds {', '.join(seeds)} gave identical values and count once" for seeds in alike
    ]
    first = [same[0] for same in kept.values()]
    distinct = replace(
        entrant,
        values={metric: rows[first] for metric, rows in entrant.values.items()},
        replicates=tuple(entrant.replicates[row] for row in first),
        deterministic=entrant.deterministic or len(first) == 1,
        seeded=entrant.seeded and len(first) > 1,
    )
    return distinct, notes


def _means(rows: NDArray[np.float64], place: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """(replicates, n): means over the columns of each place, of what is defined there."""
    sums, counts = np.zeros((len(rows), n)), np.zeros((len(rows), n))
    defined = ~np.isnan(rows)
    for row in range(len(rows)):
        sums[row] = np.bincount(place[defined[row]], rows[row, defined[row]], minlength=n)
        counts[row] = np.bincount(place[defined[row]], minlength=n)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = sums / counts
    return means
