"""A ledger of the comparisons of stored runs, beside them: how often the same test queries decided."""

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from ltr_harness._util.files import stored_file
from ltr_harness._util.stored import SCHEMA_VERSION, NewerVersionError, harness_version, lifted
from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.errors import Caution, DataError
from ltr_harness.experiments.runs.record import Record

LEDGER = "looks.jsonl"
"""In the folder of all experiments: a line for each comparison of other models than before."""
NOTED_FROM = 10
_LONGEST, _MOST = 4 * 2**20, 50_000  # bytes and lines that are read; ten thousand comparisons take less


@dataclass(frozen=True)
class Looks:
    """The comparisons that some test queries have decided so far, at one metric."""

    comparisons: int  # of distinct sets of models
    models: int  # distinct ones in them


@dataclass(frozen=True)
class Look:
    """One comparison: digests of the test queries and of the models."""

    test: str
    metric: str
    models: tuple[str, ...]

    @classmethod
    def of(cls, records: Sequence[Record], metric: str) -> Self | None:
        """Return the look of the runs of at least two models on known test queries, or None."""
        by_model: dict[tuple[str, str], set[str]] = {}
        tests = {}
        for record in records:
            if "test" not in record.data:
                return None
            tests[record.fold] = record.data["test"].judged_by
            by_model.setdefault((record.experiment, record.model), set()).add(record.identity)
        if len(by_model) < 2:
            return None
        models = {_digest(identities)[:16] for identities in by_model.values()}
        return cls(digest_of_folds(tests), metric, tuple(sorted(models)))


def add_to_ledger(comparison: Comparison, runs: Sequence[Any]) -> Comparison:
    """Write a comparison of stored runs to the ledger beside their experiments, and return it.

    From the tenth look on it gets a caution: what the best of so many equal models gains by chance.
    """
    paths = [run.path for run in runs if hasattr(run, "path")]
    look = Look.of([run.record for run in runs if run.record.status == "complete"], comparison.primary)
    if not paths or look is None:
        return comparison
    looks = count_look(paths[0].resolve().parent.parent, look)
    if looks.comparisons < NOTED_FROM:
        return comparison
    gain = expected_gain(median_error(comparison), looks.models)
    text = f"these {count_of(comparison.n_queries, 'query')} have decided {count_of(looks.comparisons, 'comparison')}"
    if math.isfinite(gain):
        text += (
            f"; the best of {looks.models:,} equal models would look better by about {gain:.2g} at "
            f"{comparison.primary}: confirm on queries that decided nothing yet"
        )
    return replace(comparison, cautions=(*comparison.cautions, Caution("many-looks", "warning", text)))


def count_look(folder: Path, look: Look) -> Looks:
    """Write the look to the ledger, unless it is in it or nothing can be written, and count those of its test queries.

    Of a ledger that is too long its beginning counts, and nothing is added.
    """
    looks = {
        entry.models: entry
        for entry in _read_looks(folder)
        if (entry.test, entry.metric) == (look.test, look.metric)
    }
    if look.models not in looks:
        with suppress(OSError):
            version = {"schema_version": SCHEMA_VERSION, "written_by": harness_version()}
            line = json.dumps({"test": look.test, "metric": look.metric, "models": look.models} | version)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            file = os.open(folder / LEDGER, flags, 0o666)
            try:
                size = os.fstat(file).st_size  # 0 of a pipe, too, which takes the line and keeps nothing
                if size > 0 and os.pread(file, 1, size - 1) != b"\n":  # a line of which the end is missing
                    line = f"\n{line}"
                if size < _LONGEST:
                    os.write(file, f"{line}\n".encode())
            finally:
                os.close(file)
        looks[look.models] = look
    return Looks(len(looks), len({model for entry in looks.values() for model in entry.models}))


def looks_at(folder: Path) -> dict[tuple[str, str], Looks]:
    """Return the looks in the ledger of a folder of experiments, by test queries and metric."""
    models_by_question: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for look in _read_looks(folder):
        models_by_question.setdefault((look.test, look.metric), set()).add(look.models)
    return {key: Looks(len(sets), len(set().union(*sets))) for key, sets in models_by_question.items()}


def median_error(comparison: Comparison) -> float:
    """Return the median standard error of the differences from the baseline, by units and weights."""
    rivals = [model for model in comparison.models if model != comparison.baseline]
    d = np.column_stack([comparison.query_differences(model) for model in rivals])
    return float(np.median(comparison.sampling.contributions(d).error))


def expected_gain(error: float, n_models: int) -> float:
    """Return how far the best of equal models is expected above their mean, by the standard error of a difference."""
    grid = np.linspace(-9.0, 9.0, 4000)
    largest = ndtr(grid) ** n_models
    # E max = integral of (1 - F) above 0 less that of F below it
    mean = np.where(grid > 0, 1.0 - largest, -largest).sum() * (grid[1] - grid[0])
    return float(error / math.sqrt(2.0) * mean)


def ledger_content(folder: Path) -> bytes:
    """Return the ledger of a folder of experiments, or as much of it as counts; empty where there is none."""
    try:
        with stored_file(folder, LEDGER).open("rb") as stream:
            return stream.read(_LONGEST)
    except OSError:
        return b""


def added_only(look: Look, before: bytes, after: bytes, folder: Path) -> bool:
    """Return True where no other look than this one was written to a ledger, so that it counts the same again."""
    added = _looks_in(after[len(before) :], folder)
    return after.startswith(before) and all(entry == look for entry in added)


def _read_looks(folder: Path) -> list[Look]:
    return _looks_in(ledger_content(folder), folder)


def _looks_in(content: bytes, folder: Path) -> list[Look]:
    """Return the looks of a ledger's lines; the folder is its place in messages."""
    looks = []
    for line in islice(io.BytesIO(content), _MOST):
        try:
            entry = json.loads(line)
            if isinstance(entry, dict):
                entry = lifted("look", entry)
                looks.append(Look(str(entry["test"]), str(entry["metric"]), tuple(map(str, entry["models"]))))
        except NewerVersionError as error:
            raise DataError.at(folder / LEDGER, str(error)) from None
        except (ValueError, TypeError, KeyError, RecursionError):  # a damaged line counts nothing
            continue
    return looks


def digest_of_folds(folds: Mapping[str, str]) -> str:
    """Return the digest of the test queries of a single fold, or one digest over those of all folds."""
    if len(folds) == 1:
        return next(iter(folds.values()))
    return _digest({f"{fold} {digest}" for fold, digest in folds.items()})


def _digest(texts: set[str]) -> str:
    return sha256("\n".join(sorted(texts)).encode()).hexdigest()
