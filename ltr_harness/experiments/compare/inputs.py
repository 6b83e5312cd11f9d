"""The inputs of `compare` (runs, folders, evaluations, tables) as systems."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.data.addresses import local_path
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
class Inputs:
    """All inputs as systems."""

    systems: list[SystemResult] = field(default_factory=list)  # the models, in the order given
    primaries: list[str] = field(default_factory=list)  # that runs and saved comparisons declare, each once
    baseline: str | None = None  # of the first saved comparison, if there is one
    weights: str | None = None  # likewise
    cautions: list[Caution] = field(default_factory=list)  # what was left out or merged on the way
    runs: list[Run] = field(default_factory=list)  # those among the inputs, whole or of experiments


@dataclass(frozen=True, eq=False)
class _Input:
    """A run, a comparison, a table or evaluations, and how its models are called if they have no names."""

    value: Any
    name: str
    is_named: bool = False  # whether the name is the caller's, which goes before the system's own
    cautions: Sequence[Caution] = ()


@dataclass(frozen=True, eq=False)
class _InputSystems:
    """The systems of one input, or of all runs."""

    systems: Sequence[SystemResult]
    comparison: str = ""  # the label of the saved comparison that they are from
    baseline: str | None = None  # of that comparison

    @property
    def source(self) -> str:
        """The origin of the systems of a comparison, even where it has an experiment's name: its runs are absent."""
        return f"as kept in the comparison {self.comparison}"


def read_inputs(
    values: Iterable[Any],
    convention: str | None = None,
    unit: str | None = None,
    primary: Any = None,
    weights: str | None = None,
) -> Inputs:
    """Return the systems in anything `compare` accepts, in the order given; all runs stand where the first stood."""
    items = _all_items(values)
    if convention is not None and not any(_is_table(item.value) for item in items):
        raise UsageError(f"convention={convention!r} is about tables, and none is given")
    inputs = Inputs(cautions=[caution for item in items for caution in item.cautions])
    groups: list[_InputSystems] = []
    for item in items:
        value = item.value
        if isinstance(value, Run):
            if not inputs.runs:
                inputs.runs += [other.value for other in items if isinstance(other.value, Run)]
                systems, inputs.primaries, cautions = systems_from_runs(inputs.runs)
                inputs.cautions += cautions
                groups.append(_InputSystems(systems))
        elif isinstance(value, Saved | Comparison):
            groups.append(_InputSystems(value.systems, item.name, value.baseline))
        elif _is_table(value):
            system = from_table(value, item.name, convention, inputs.cautions, unit, weights)
            groups.append(_InputSystems([system]))
        else:
            groups.append(_InputSystems(_evaluated_systems(item, primary)))
    saved = [item.value for item in items if isinstance(item.value, Saved | Comparison)]
    _add_systems(inputs, groups)
    _add_declared(inputs, saved)
    return inputs


def _all_items(values: Iterable[Any]) -> list[_Input]:
    items: list[_Input] = []
    for number, value in enumerate(values, start=1):
        name = f"scores {number}"
        try:
            items += _flatten(_Input(value, name))
        except RecursionError:
            found = f"{name} contains itself, or is nested too deep"
            raise UsageError(f"{found}; expected {_ACCEPTED}") from None
    return items


def _flatten(item: _Input) -> list[_Input]:
    """Return the inputs that a path, a mapping or a sequence stands for; of anything else itself."""
    value = collected(item.value)
    if isinstance(value, str | Path):
        return _contents(local_path(value), item)
    if isinstance(value, EvaluatedRuns):
        return [replace(item, value=value, cautions=_cautions_of(value))]
    if isinstance(value, Mapping):
        return _flatten_all(_Input(member, str(label), is_named=True) for label, member in value.items())
    if isinstance(value, SystemResult | Saved | Comparison | Run) or _is_table(value):
        return [replace(item, value=value)]
    if _is_evaluation(value):
        return [replace(item, value=[value])]
    if isinstance(value, Sequence) and value:
        if all(map(_is_evaluation, value)):  # of one model, one for each seed
            return [replace(item, value=list(value))]
        return _flatten_all(_Input(member, item.name) for member in value)
    raise UsageError(f"cannot compare {type(value).__name__!r} {item.name}; expected {_ACCEPTED}")


def _flatten_all(items: Iterable[_Input]) -> list[_Input]:
    return [content for item in items for content in _flatten(item)]


def _contents(path: Path, item: _Input) -> list[_Input]:
    """Return the inputs at a path, under the name that the caller gave it, if there is one."""
    contents = _read_path(path)
    if item.is_named:
        return [replace(content, name=item.name, is_named=True) for content in contents]
    return contents


def _is_table(value: Any) -> bool:
    return hasattr(value, "columns") and (hasattr(value, "iloc") or hasattr(value, "__arrow_c_stream__"))


def _is_evaluation(value: Any) -> bool:
    return hasattr(value, "query_ids") and hasattr(value, "directions") and hasattr(value, "metrics")


def _cautions_of(rankings: EvaluatedRuns) -> list[Caution]:
    forms = [Caution("recognised-form", "note", line) for line in rankings.recognised]
    # the comparison has the caution on judged documents, of the metric that decides
    return forms + [caution for caution in rankings.cautions if caution.kind != FEW_JUDGED]


def _evaluated_systems(item: _Input, primary: Any) -> list[SystemResult]:
    """Return the systems of rankings or of evaluations; a system is returned under its caller's name."""
    value = item.value
    if isinstance(value, EvaluatedRuns):
        return [SystemResult.of(name, [evaluation], None, primary) for name, evaluation in value.items()]
    if not isinstance(value, SystemResult):
        return [_from_evaluations(value, item.name, primary)]
    if item.is_named:
        return [replace(value, name=item.name)]
    return [value]


def _add_systems(inputs: Inputs, groups: Sequence[_InputSystems]) -> None:
    """Add the systems of all groups, under names that are unique; the first comparison's baseline is the baseline."""
    names = Counter(system.name for group in groups for system in group.systems)
    for group in groups:
        added = []
        for system in group.systems:
            distinct, cautions = distinct_replicates(system)
            inputs.cautions += cautions
            added.append(_from_group(distinct, group, is_unique=names[system.name] == 1))
            if inputs.baseline is None and system.name == group.baseline:
                inputs.baseline = added[-1].name
        inputs.systems += added
        if group.comparison and len(groups) > 1:
            models = ", ".join(system.name for system in added)
            inputs.cautions.append(Caution("saved-comparison", "note", group.source, place=models))


def _from_group(system: SystemResult, group: _InputSystems, *, is_unique: bool) -> SystemResult:
    """Return a system with its source, and under a name that tells last week's comparison from this week's runs."""
    if not group.comparison:
        return system
    if is_unique:
        return replace(system, source=group.source)
    return replace(system, source=group.source, name=f"{group.comparison}/{system.name}")


def _add_declared(inputs: Inputs, comparisons: Sequence[Saved | Comparison]) -> None:
    """Add what saved comparisons declare: their primary metrics, and the weights of the first."""
    primaries = [comparison.primary for comparison in comparisons]
    inputs.primaries = list(dict.fromkeys([*inputs.primaries, *primaries]))
    if comparisons:
        first = comparisons[0]
        inputs.weights = first.weights if isinstance(first, Saved) else first.method.weights


def _read_path(path: Path) -> list[_Input]:
    """Return the runs in a folder, or a saved comparison, a table of per-query values, or MTEB's results."""
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise DataError.at(path, "no such file or folder", "a run folder or a table")
    file = saved_at(path)
    if file is not None:
        return [_Input(read_saved(file), label_of(file.parent))]
    if path.suffix in (".parquet", ".csv", ".tsv"):
        return [_Input(read_table(path), path.stem)]
    raise DataError.at(
        path,
        f"cannot tell what a {path.suffix or 'file without suffix'} is",
        "a run folder, a saved comparison (.json), or a .parquet, .csv or .tsv table with query_id and one "
        "column per metric",
    )


def _read_folder(path: Path) -> list[_Input]:
    runs = find_runs(path)
    if runs:
        return [_Input(run, run.record.model) for run in runs]
    if saved_at(path) is not None:
        return [_Input(read_saved(path / FILE), label_of(path))]
    results = results_in(path)
    if results:
        system, caution = from_results(results)
        return [_Input(system, system.name, cautions=[caution])]
    plan = plan_in_words(path)
    if plan:
        raise DataError.at(path, f"contains no run: {plan}", cure=OTHER_PLANS)
    raise DataError.at(path, "contains no run", "a run folder (with record.json), or a folder of them")


def label_of(folder: Path) -> str:
    """Return the name of a saved comparison: its experiment's, where the folder is an experiment's report."""
    absolute = folder.resolve()
    return absolute.parent.name if absolute.name == "report" else absolute.name


def _from_evaluations(evaluations: Sequence[Evaluation], name: str, primary: Any) -> SystemResult:
    """Return one system; several evaluations, of models trained with several seeds, are its replicates."""
    first = evaluations[0]
    for number, other in enumerate(evaluations[1:], start=2):
        if other.metrics != first.metrics or other.judgments_fingerprint != first.judgments_fingerprint:
            found = f"evaluation {number} has other metrics, queries or labels than the first"
            raise UsageError.at(name, found, "evaluations of one model on one test set, one per seed")
    system = SystemResult.of(name, evaluations, {"rows": first.judgments.groups.sizes}, primary)
    return replace(system, truth_fingerprint={"all": first.truth_fingerprint})
