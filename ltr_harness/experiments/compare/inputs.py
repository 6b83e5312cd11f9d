"""What people hand to `compare`: runs, folders, evaluations, tables; all become systems here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.data.addresses import here
from ltr_harness.data.columns import collected
from ltr_harness.errors import Caution, DataError, UsageError
from ltr_harness.experiments.compare.from_runs import distinct_replicates, systems_from_runs
from ltr_harness.experiments.compare.mteb import from_results, results_in
from ltr_harness.experiments.compare.saved import FILE, Saved, read_saved, saved_at
from ltr_harness.experiments.compare.tables import from_table, read_table
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.runs.run import OTHER_PLANS, plan_in_words
from ltr_harness.metrics.core.judged_share import FEW_JUDGED
from ltr_harness.metrics.evaluate_runs import EvaluatedRuns
from ltr_harness.metrics.evaluation import Evaluation

_ACCEPTED = (
    "runs, run folders, evaluations, tables of per-query values (pandas, Polars, Arrow), other comparisons, "
    "or a mapping from a name to one of these; a ranking needs its judgments: compare(…, qrels=…)"
)


@dataclass
class Gathered:
    """All inputs as systems."""

    systems: list[SystemResult] = field(default_factory=list)  # the models, in the order given
    primaries: list[str] = field(default_factory=list)  # that runs and saved comparisons declare, each once
    baseline: str | None = None  # of the first saved comparison, if there is one
    weights: str | None = None  # likewise
    cautions: list[Caution] = field(default_factory=list)  # what was left out or merged on the way
    runs: list[Run] = field(default_factory=list)  # those among the inputs, whole or of experiments


def gather(
    inputs: Iterable[Any],
    convention: str | None = None,
    unit: str | None = None,
    primary: Any = None,
    weights: str | None = None,
) -> Gathered:
    """Systems from anything `compare` accepts."""
    gathered = Gathered()
    runs = gathered.runs
    # Systems in the order given, runs where the first stood, and the label of the comparison they are from.
    position: list[tuple[str, Callable[[], Sequence[SystemResult]]]] = []
    saved: list[Saved | Comparison] = []
    tables: list[str] = []

    def add(value: Any, name: str, given: bool = False) -> None:
        value = collected(value)
        if isinstance(value, SystemResult):
            own = replace(value, name=name) if given else value
            position.append(("", lambda: [own]))
        elif isinstance(value, Saved | Comparison):
            position.append((name, lambda: value.systems))
            saved.append(value)
        elif isinstance(value, str | Path):
            for item, label in _from_path(here(value), gathered.cautions):
                add(item, name if given else label, given)
        elif isinstance(value, EvaluatedRuns):
            gathered.cautions += [Caution("recognised-form", "note", line) for line in value.recognised]
            # of the metric that decides here the comparison says it
            gathered.cautions += [one for one in value.cautions if one.kind != FEW_JUDGED]
            rankings = [SystemResult.of(name, [one], None, primary) for name, one in value.items()]
            position.append(("", lambda: rankings))
        elif isinstance(value, Mapping):
            for label, item in value.items():
                add(item, str(label), given=True)
        # asked of the class: the attribute of a run would be read from its file
        elif hasattr(value, "record") and hasattr(type(value), "per_query"):
            if not runs:
                position.append(("", pooled))
            runs.append(value)
        elif hasattr(value, "columns") and (hasattr(value, "iloc") or hasattr(value, "__arrow_c_stream__")):
            tables.append(name)
            cautions = gathered.cautions
            position.append(("", lambda: [from_table(value, name, convention, cautions, unit, weights)]))
        elif _is_evaluation(value):
            position.append(("", lambda: [_from_evaluations([value], name, primary)]))
        elif isinstance(value, Sequence) and value and all(map(_is_evaluation, value)):
            position.append(("", lambda: [_from_evaluations(value, name, primary)]))
        elif isinstance(value, Sequence) and value:
            for item in value:
                add(item, name)
        else:
            raise UsageError(f"cannot compare {type(value).__name__!r} {name}; expected {_ACCEPTED}")

    def pooled() -> list[SystemResult]:
        systems, primaries, cautions = systems_from_runs(runs)
        gathered.primaries += primaries
        gathered.cautions += cautions
        return systems

    for number, value in enumerate(inputs, start=1):
        try:
            add(value, f"scores {number}")
        except RecursionError:
            found = f"scores {number} contains itself, or is nested too deep"
            raise UsageError(f"{found}; expected {_ACCEPTED}") from None
    if convention is not None and not tables:
        raise UsageError(f"convention={convention!r} is about tables, and none is given")
    groups = [(label, systems()) for label, systems in position]
    _take(groups, saved, gathered)
    gathered.primaries = list(dict.fromkeys([*gathered.primaries, *(one.primary for one in saved)]))
    if saved:
        first = saved[0]
        gathered.weights = first.weights if isinstance(first, Saved) else first.method.weights
    return gathered


def _take(
    groups: Sequence[tuple[str, Sequence[SystemResult]]],
    saved: Sequence[Saved | Comparison],
    gathered: Gathered,
) -> None:
    """Take the systems in, under names of their own; a group has the label of its comparison."""
    names = [system.name for _, group in groups for system in group]
    first = next((one for one in saved[0].systems if one.name == saved[0].baseline), None) if saved else None
    for label, group in groups:
        # also where the experiment's name is a run's: the runs themselves are not at hand
        source, kept = f"as kept in the comparison {label}", []
        for system in group:
            # last week's comparison beside this week's runs: the same names, told apart by where they are from
            clash = label and names.count(system.name) > 1
            name = f"{label}/{system.name}" if clash else system.name
            own, alike = distinct_replicates(system)
            gathered.cautions += alike
            kept.append(replace(own, name=name, source=source if label else system.source))
            if saved and gathered.baseline is None and system is first:
                gathered.baseline = name
        gathered.systems += kept
        if label and len(groups) > 1:
            models = ", ".join(one.name for one in kept)
            gathered.cautions.append(Caution("saved-comparison", "note", source, place=models))


def _is_evaluation(value: Any) -> bool:
    return hasattr(value, "query_ids") and hasattr(value, "directions") and hasattr(value, "metrics")


def _from_path(path: Path, cautions: list[Caution]) -> list[tuple[Any, str]]:
    """Runs of a run folder or of all in a folder; a saved comparison; a table of per-query values; MTEB's results."""
    if path.is_dir():
        if runs := find_runs(path):
            return [(run, run.record.model) for run in runs]
        if saved_at(path) is not None:
            return [(read_saved(path / FILE), label_of(path))]
        if files := results_in(path):
            system, caution = from_results(files)
            cautions.append(caution)
            return [(system, system.name)]
        if words := plan_in_words(path):
            raise DataError.at(path, f"contains no run: {words}", cure=OTHER_PLANS)
        raise DataError.at(path, "contains no run", "a run folder (with record.json), or a folder of them")
    if not path.is_file():
        raise DataError.at(path, "no such file or folder", "a run folder or a table")
    file = saved_at(path)
    if file is not None:
        return [(read_saved(file), label_of(file.parent))]
    if path.suffix in (".parquet", ".csv", ".tsv"):
        return [(read_table(path), path.stem)]
    raise DataError.at(
        path,
        f"cannot tell what a {path.suffix or 'file without suffix'} is",
        "a run folder, a saved comparison (.json), or a .parquet, .csv or .tsv table with query_id and one "
        "column per metric",
    )


def label_of(folder: Path) -> str:
    """What a saved comparison is called: after the experiment, where the folder is an experiment's report."""
    absolute = folder.resolve()
    return absolute.parent.name if absolute.name == "report" else absolute.name


def _from_evaluations(evaluations: Sequence[Evaluation], name: str, primary: Any) -> SystemResult:
    """One system; several evaluations, of models trained with several seeds, are its replicates."""
    first = evaluations[0]
    for number, other in enumerate(evaluations[1:], start=2):
        if other.metrics != first.metrics or other.judgments_fingerprint != first.judgments_fingerprint:
            found = f"evaluation {number} has other metrics, queries or labels than the first"
            raise UsageError.at(name, found, "evaluations of one model on one test set, one per seed")
    system = SystemResult.of(name, evaluations, {"rows": first.judgments.groups.sizes}, primary)
    return replace(system, truth_fingerprint={"all": first.truth_fingerprint})
