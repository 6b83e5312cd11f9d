"""What people hand to `compare`: runs, folders, evaluations, tables; all become entrants here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.catalog import is_own_file
from ltr_harness.comparison.comparable import LABEL_FACTS, Definition
from ltr_harness.comparison.entrants import RunLike, entrants_from_runs
from ltr_harness.comparison.result import WEIGHT, Entrant
from ltr_harness.comparison.saved import FILE, Saved, read_saved, saved_at
from ltr_harness.errors import DataError, MetricError, Problem, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from ltr_harness.evaluation import Evaluation

_ACCEPTED = (
    "runs, run folders, evaluations, pandas tables of per-query values, other comparisons, "
    "or a mapping from a name to one of these"
)


@dataclass
class Gathered:
    """All inputs as entrants.

    Attributes:
        entrants: the models, in the order given.
        primaries: the primary metrics that runs and saved comparisons declare, each once.
        baseline: the model that the first saved comparison was made against, if there is one.
        notes: what was left out or merged on the way.
    """

    entrants: list[Entrant] = field(default_factory=list)
    primaries: list[str] = field(default_factory=list)
    baseline: str | None = None
    notes: list[str] = field(default_factory=list)


def gather(inputs: Iterable[Any]) -> Gathered:
    """Entrants from anything `compare` accepts.

    Raises:
        DataError: a table without query ids or metrics, or a path that is neither run nor table.
        NotComparableError: runs of one model contradict each other.
        UsageError: something else.
    """
    from ltr_harness.comparison.comparison import Comparison

    found = Gathered()
    runs: list[RunLike] = []
    # Entrants in the order given, runs where the first stood, and the label of the comparison they are from.
    position: list[tuple[str, Callable[[], Sequence[Entrant]]]] = []
    saved: list[Saved] = []

    def add(value: Any, name: str, given: bool = False) -> None:
        if isinstance(value, Entrant):
            position.append(("", lambda: [value]))
        elif isinstance(value, Saved | Comparison):
            position.append((name, lambda: value.entrants))
            saved.append(Saved(value.entrants, value.primary, value.baseline))
        elif isinstance(value, str | Path):
            for item, label in _from_path(Path(value)):
                add(item, name if given else label)
        elif isinstance(value, Mapping):
            for label, item in value.items():
                add(_named(item, str(label)), str(label), given=True)
        elif _is_run(value):
            if not runs:
                position.append(("", pooled))
            runs.append(value)
        elif _is_table(value):
            position.append(("", lambda: [_from_table(value, name, found.notes)]))
        elif _is_evaluation(value):
            position.append(("", lambda: [_from_evaluations([value], name)]))
        elif isinstance(value, Sequence) and value and all(_is_evaluation(item) for item in value):
            position.append(("", lambda: [_from_evaluations(value, name)]))
        elif isinstance(value, Sequence) and value:
            for item in value:
                add(item, name)
        else:
            raise UsageError(f"cannot compare {type(value).__name__!r} {name}; expected {_ACCEPTED}")

    def pooled() -> list[Entrant]:
        entrants, primaries, notes = entrants_from_runs(runs)
        found.primaries += primaries
        found.notes += notes
        return entrants

    for number, value in enumerate(inputs, start=1):
        add(value, f"scores {number}")
    groups = [(label, entrants()) for label, entrants in position]
    names = [entrant.name for _, group in groups for entrant in group]
    for label, group in groups:
        kept = []
        for entrant in group:
            # last week's comparison beside this week's runs: the same names, told apart by where they are from
            clash = label and names.count(entrant.name) > 1
            name = f"{label}/{entrant.name}" if clash else entrant.name
            kept.append(replace(entrant, name=name, source=_saved_in(label) if label else entrant.source))
            if saved and found.baseline is None and entrant is _baseline_of(saved[0]):
                found.baseline = name
        found.entrants += kept
        if label and len(groups) > 1:
            found.notes.append(f"{', '.join(one.name for one in kept)}: {_saved_in(label)}")
    found.primaries = list(dict.fromkeys([*found.primaries, *(one.primary for one in saved)]))
    return found


def _saved_in(label: str) -> str:
    """Where an entrant is from whose runs are not at hand, also where its experiment's name is a run's."""
    return f"as kept in the comparison {label}"


def _baseline_of(saved: Saved) -> Entrant:
    return next(entrant for entrant in saved.entrants if entrant.name == saved.baseline)


def resolve_metric(metric: Any, entrants: Sequence[Entrant]) -> str:
    """The canonical name, among those evaluated, of a metric that the user named.

    ``err@10`` finds ``err(max_grade=4)@10``: what a metric took from the data belongs to its evaluated name.
    """
    available = list(dict.fromkeys(name for entrant in entrants for name in entrant.values))
    found = name_among(available, metric)
    if found is not None:
        return found
    from ltr_harness.metrics import parse_metric

    return str(parse_metric(metric))


def name_among(available: Sequence[str], metric: Any) -> str | None:
    """The evaluated metric that the user's name stands for, in full; None where there is none."""
    if str(metric) in available:
        return str(metric)
    from ltr_harness.metrics import parse_metric

    name = str(parse_metric(metric))
    if name in available:
        return name
    wanted = Definition.of(name)
    fuller = [
        other
        for other in available
        if (Definition.of(other).name, Definition.of(other).k) == (wanted.name, wanted.k)
        and Definition.of(other).parameters >= wanted.parameters
    ]
    return fuller[0] if len(fuller) == 1 else None


def _named(item: Any, name: str) -> Any:
    """An entrant under the name it has in a mapping; everything else is named when it becomes one."""
    return replace(item, name=name) if isinstance(item, Entrant) else item


def _is_run(value: Any) -> bool:
    # asked of the class: the attribute of a run would be read from its file
    return hasattr(value, "record") and hasattr(type(value), "per_query")


def _is_table(value: Any) -> bool:
    return hasattr(value, "columns") and hasattr(value, "to_numpy")


def _is_evaluation(value: Any) -> bool:
    return hasattr(value, "query_ids") and hasattr(value, "directions") and hasattr(value, "metrics")


def _from_path(path: Path) -> list[tuple[Any, str]]:
    """Runs of a run folder or of all run folders in a folder; a saved comparison; a table of per-query values."""
    if path.is_dir():
        from ltr_harness.runs import find_runs

        runs = find_runs(path)
        if not runs and saved_at(path) is not None:
            return [(read_saved(path / FILE), label_of(path))]
        if not runs:
            raise DataError(
                Problem(str(path), "contains no run", "a run folder (with record.json), or a folder of them")
            )
        return [(run, run.record.model) for run in runs]
    if not path.is_file():
        raise DataError(Problem(str(path), "no such file or folder", "a run folder or a table"))
    file = saved_at(path)
    if file is not None:
        return [(read_saved(file), label_of(file.parent))]
    if path.suffix in (".parquet", ".csv", ".tsv"):
        return [(_read_table(path), path.stem)]
    raise DataError(
        Problem(
            str(path),
            f"cannot tell what a {path.suffix or 'file without suffix'} is",
            "a run folder, a saved comparison (.json), or a .parquet, .csv or .tsv table with query_id and one "
            "column per metric",
        )
    )


def label_of(folder: Path) -> str:
    """What a saved comparison is called: after the experiment, where the folder is an experiment's report."""
    absolute = folder.resolve()
    return absolute.parent.name if absolute.name == "report" else absolute.name


def _read_table(path: Path) -> pd.DataFrame:
    import warnings

    import pandas as pd

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        with warnings.catch_warnings():
            # rows longer than the header: pandas would cut them, or take their first field for an index
            warnings.simplefilter("error", pd.errors.ParserWarning)
            separator = "," if path.suffix == ".csv" else "\t"
            return pd.read_csv(path, sep=separator, dtype={"query_id": str}, index_col=False)
    # what pandas and Arrow raise for damaged, empty, ragged or undecodable files are ValueErrors
    except (ValueError, OSError, pd.errors.ParserWarning) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise DataError(
            Problem(str(path), f"cannot be read as a table: {reason}", "query_id and metric columns")
        ) from None


def _from_evaluations(evaluations: Sequence[Evaluation], name: str) -> Entrant:
    """One entrant; several evaluations, of models trained with several seeds, are its replicates."""
    first = evaluations[0]
    ids = _text_ids(first.query_ids)
    for number, other in enumerate(evaluations[1:], start=2):
        if other.metrics != first.metrics or other.judgments_fingerprint != first.judgments_fingerprint:
            raise UsageError(
                Problem(
                    name,
                    f"evaluation {number} has other metrics, queries or labels than the first",
                    "evaluations of one model on one test set, one per seed",
                )
            )
    weights = {} if first.judgments.query_weights is None else {WEIGHT: first.judgments.query_weights}
    relevant = np.add.reduceat(first.judgments.labels > 0, first.judgments.groups.boundaries[:-1])
    return Entrant(
        name=name,
        query_ids=ids,
        values={
            metric: np.stack([evaluation[metric].per_query for evaluation in evaluations])
            for metric in first.metrics
        },
        replicates=tuple(str(number) for number in range(1, len(evaluations) + 1)),
        higher_is_better=dict(first.directions),
        judgments_fingerprint={"all": first.judgments_fingerprint},
        query_attributes={"rows": first.judgments.groups.sizes, "n_relevant": relevant, **weights},
    )


def _from_table(table: pd.DataFrame, name: str, notes: list[str]) -> Entrant:
    """One entrant from a table with ``query_id`` (column or index) and one column per metric."""
    from ltr_harness.metrics import parse_metric

    frame = table.reset_index() if "query_id" in table.index.names else table
    if "query_id" not in frame:
        found = ", ".join(map(str, frame.columns))
        raise DataError(
            Problem(name, f"no column query_id (columns: {found})", "query_id and metric columns")
        )
    ids = _text_ids(frame["query_id"].to_numpy())
    if len(set(ids.tolist())) != ids.size:
        twice = frame["query_id"][frame["query_id"].duplicated()].iloc[0]
        raise DataError(Problem(name, f"query {str(twice)!r} has several rows", "one row per query"))
    values, directions, other = {}, {}, []
    for column in frame.columns:
        if column == "query_id" or column in LABEL_FACTS:
            continue
        try:
            if is_own_file(str(column)):  # a table brings numbers, not code to execute
                raise MetricError(f"{column} is a file")
            metric = parse_metric(str(column))
        except MetricError:
            other.append(str(column))
            continue
        try:
            numbers = frame[column].to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise DataError(Problem(name, f"column {column} has a value that is not a number")) from None
        values[str(metric)] = numbers[None, :]
        directions[str(metric)] = metric.higher_is_better
    if not values:
        raise DataError(
            Problem(
                name,
                f"no column is a metric (columns: {', '.join(other) or 'none'})",
                "one column per metric, named as ndcg@10",
            )
        )
    if other:
        notes.append(
            f"{name}: {', '.join(other)} {'is' if len(other) == 1 else 'are'} no metric and not compared"
        )
    attributes = [*(fact for fact in LABEL_FACTS if fact in frame), *other]
    return Entrant(
        name=name,
        query_ids=ids,
        values=values,
        replicates=("1",),
        higher_is_better=directions,
        query_attributes={str(column): frame[column].to_numpy() for column in attributes},
    )


def _text_ids(ids: NDArray[Any]) -> NDArray[np.str_]:
    return np.array([str(query) for query in ids.tolist()])
