"""Is the score that was served the model's? The logged features are scored again by the stored model."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.groups import Judgments
from ltr_harness.logs.columns import coded, numbers_of
from ltr_harness.logs.contract import THREADS, LogRows
from ltr_harness.metrics import bind
from ltr_harness.monitoring.config import MonitorConfig, Parity
from ltr_harness.own_files import admitted
from ltr_harness.readers.rows import recoded
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.runs import Run

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]


_PIECE = 200_000  # rows


class Served(NamedTuple):
    """The model that should have given the logged scores, and the standard deviation of its scores on test rows."""

    run: Run
    spread: float


def served(parity: Parity) -> Served:
    """The stored model, read once in a process; refused where it scores no features, or nobody trusts its code."""
    return _served(parity.model, parity.trust)


@lru_cache(maxsize=4)
def _served(path: str, trust: bool) -> Served:
    from ltr_harness.runs import load_run

    run = load_run(Path(path), trust=trust)
    record = run.record
    why = (
        f"failed ({record.error}) and has no model"
        if record.status != "complete"
        else f"has no model of features: its ranker is {record.ranker}"
        if record.ranker in ("random", "scores")
        else "" if record.features else "does not name its features: it was made by an older version"
    )  # fmt: skip
    if why:
        raise DataError(Problem(path, why, "a run of a model that scores features"))
    try:
        admitted(record.ranker, run.path, trust)
    except UsageError as error:
        [problem] = error.problems
        cure = "read that file, then add parity: {trust: true}"
        raise UsageError(Problem(problem.place, problem.found, cure=cure)) from None
    run.model  # noqa: B018 refused before logs are read, which may take long
    scores = run.score_columns("score")["score"]
    known = scores[np.isfinite(scores)]
    return Served(run, float(known.std()) if known.size else 0.0)


def feature_columns(parity: Parity) -> dict[str, str]:
    """Each feature of the model, in its order, to the column of the log; names that the model lacks are refused."""
    run = served(parity).run
    features, found = run.record.features, f"no feature of {run.path.name}"
    unknown = [name for name in parity.features if name not in features]
    if unknown:
        raise UsageError(
            [
                Problem(f"parity.features: {name}", found, cure=did_you_mean(name, features))
                for name in unknown
            ]
        )
    return {name: parity.features.get(name, name) for name in features}


def refuse_unlogged(parity: Parity, columns: tuple[str, ...], log: str) -> None:
    """Stop where the log lacks what the model scores, naming features without a column."""
    wanted = feature_columns(parity)
    lacking = [column for column in wanted.values() if column not in columns]
    if not lacking:
        return
    named = ", ".join(map(repr, lacking[:5])) + (" …" if len(lacking) > 5 else "")
    model = f"{count_of(len(wanted), 'feature')} of {served(parity).run.path.name}"
    cure = f"name columns under parity.features; {did_you_mean(lacking[0], columns)}"
    found = f"lacks {len(lacking)} of the {model}: {named}"
    raise DataError(Problem(log, found, "the features as the model was given them", cure))


def parity_of_rows(
    rows: LogRows, judgments: Judgments, keep: Rows | None, primary: Floats, config: MonitorConfig
) -> dict[str, NDArray[Any]]:
    """Query by query how the logged scores differ from the model's; `keep` (n_rows,), `primary` (n_queries,).

    Two scores differ by more than `tolerance` times the model's score, or its spread where that is larger.

    Returns:
        (n_queries,) each. Rows: ``rows`` with a logged score, ``differ``, ``incomplete`` (some feature is missing) and
        ``differ_incomplete``. Of the row that differs most, ``logged`` and ``model``, NaN where none does. Whether
        the order differs, ``reordered``; and ``effect``, the metric by the logged scores less that by the model's.
    """
    parity = config.parity
    if parity is None:
        return {}
    logged = rows.numbers(parity.score or str(config.columns.score))
    model, incomplete = _scored(rows, parity)
    reach = parity.tolerance * np.maximum(np.abs(model), served(parity).spread)
    scored = ~np.isnan(logged)
    with np.errstate(invalid="ignore"):  # infinities
        apart = np.abs(logged - model)
    close = (logged == model) | (np.isfinite(apart) & (apart <= reach))
    differ = scored & ~close
    start = rows.boundaries[:-1]

    def count(holds: Rows) -> NDArray[np.int32]:
        return np.add.reduceat(holds, start, dtype=np.int32)

    by_difference = np.lexsort((-np.where(differ, np.nan_to_num(apart, nan=np.inf), -1.0), rows.query_of_row))
    worst = by_difference[start]  # the row of each query with its largest difference
    n_differ = count(differ)
    some = n_differ > 0
    effect = np.where(np.isnan(primary) | (count(scored) < rows.sizes), np.nan, 0.0)
    if some.any():
        binding = bind([config.primary], judgments, THREADS)
        known = slice(None) if keep is None else keep
        by_logged, by_model = (
            binding.per_query(np.nan_to_num(one[known], nan=-np.inf, posinf=np.inf, neginf=-np.inf))[0]
            for one in (logged, model)
        )
        effect = np.where(np.isnan(effect), np.nan, by_logged - by_model)
    return {
        "rows": count(scored),
        "differ": n_differ,
        "incomplete": count(scored & incomplete),
        "differ_incomplete": count(differ & incomplete),
        "logged": np.where(some, logged[worst], np.nan),
        "model": np.where(some, model[worst], np.nan),
        "reordered": some & _reordered(rows, logged, model, reach),
        "effect": effect,
    }


def _scored(rows: LogRows, parity: Parity) -> tuple[Floats, Rows]:
    """The model's score of every row, and which rows lack a feature; a piece at a time, as features are many."""
    run, columns = served(parity).run, feature_columns(parity)
    scores, incomplete = [], []
    for start in range(0, rows.table.num_rows, _PIECE):
        matrix = _matrix(rows.table.slice(start, _PIECE), columns, run)
        scores.append(run.score(matrix))
        incomplete.append(np.isnan(matrix).any(axis=1))
    return rows.arranged(np.concatenate(scores)), rows.arranged(np.concatenate(incomplete))


def _matrix(table: Any, columns: dict[str, str], run: Run) -> NDArray[np.float32]:
    """The features as the model takes them, (n_rows, n_features)."""
    matrix = np.empty((table.num_rows, len(columns)), dtype=np.float32)
    for at, (name, column) in enumerate(columns.items()):
        texts = run.record.categories.get(name)
        if texts is None:
            with np.errstate(over="ignore"):  # too large for 32 bits: infinite, as in training
                matrix[:, at] = numbers_of(table[column], column)
            continue
        codes = coded(table[column].combine_chunks())
        if codes is None:
            found = f"has the type {table[column].type}"
            raise DataError(Problem(f"column {column!r}", found, f"texts: {name} is a category"))
        matrix[:, at] = recoded(*codes, texts)
    return matrix


def _reordered(rows: LogRows, logged: Floats, model: Floats, reach: Floats) -> Rows:
    """Queries of which some neighbours in the logged order stand the other way round by the model.

    Rows that are tied by either leave the order open, and so do those that the tolerance cannot tell apart.
    """
    order = np.lexsort((-model, -logged, rows.query_of_row))
    above, below = order[:-1], order[1:]
    same = rows.query_of_row[1:] == rows.query_of_row[:-1]
    with np.errstate(invalid="ignore"):
        turned = same & ~np.isnan(logged[below]) & (model[below] > model[above] + reach[below])
    found = np.zeros(rows.sizes.size, dtype=bool)
    found[rows.query_of_row[1:][turned]] = True
    return found
