"""Is a stored run what its record says? Train again from the record and compare, down to the bytes of the model."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from ltr_harness._util.cores import available_cores
from ltr_harness._util.files import file_digest, temporary_folder
from ltr_harness._util.json_values import none_if_undefined
from ltr_harness._util.user_code import is_own_file, own_file_digest, resolve_trusted, trusting
from ltr_harness.data.arrays import Floats
from ltr_harness.errors import ConfigError, Problem, UsageError
from ltr_harness.experiments.config import load_data, stored_tree
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.runs.identity import environment
from ltr_harness.experiments.runs.record import PartRecord, Record
from ltr_harness.experiments.runs.revisions import KEY, outdated
from ltr_harness.experiments.training.folds import Fold, FoldReader
from ltr_harness.experiments.training.train import with_temperatures
from ltr_harness.metrics import Metric, bind, parse_metric
from ltr_harness.metrics.core.softmax import with_learned
from ltr_harness.metrics.evaluation import evaluate_bound
from ltr_harness.models.ranker import BlendPart, FittedModel, Ranker, Training, Workers
from ltr_harness.models.table import catalog


@dataclass(frozen=True)
class Reproduction:
    """The result of training a run again."""

    run: Path
    same_model: bool  # the model files are the same, byte for byte
    n_scores: int  # n_scores, n_other_scores: test rows, and those whose score differs
    n_other_scores: int
    largest_difference: float  # of two scores of a row
    # name to the stored and the new mean, where they differ
    metrics: Mapping[str, tuple[float | None, float | None]]
    best_rounds: tuple[int | None, int | None]  # stored and new
    # what is not as it was when the run was made: data, versions, threads, the machine
    reasons: tuple[str, ...]

    @property
    def identical(self) -> bool:
        """Model, scores and means are the same to the bit."""
        return self.same_model and not self.n_other_scores and not self.metrics

    def as_dict(self) -> dict[str, Any]:
        scores = {"n": self.n_scores, "different": self.n_other_scores, "largest": self.largest_difference}
        return {
            "run": str(self.run),
            "identical": self.identical,
            "same_model": self.same_model,
            "scores": scores,
            "metrics": {name: list(values) for name, values in self.metrics.items()},
            "best_round": list(self.best_rounds),
            "reasons": list(self.reasons),
        }


def reproduce(
    path: str | Path, *, threads: int | None = None, data_root: Path | None = None, trust: bool = False
) -> Reproduction:
    """Train a stored run again from its record, and compare; UsageError where it cannot be trained any more."""
    run = load_run(path, trust=trust)
    record = run.record
    if record.status != "complete":
        raise UsageError(f"{path}: this run failed ({record.error}); so there is nothing to reproduce")
    run.require_test()
    metrics = tuple(_metric(run, name) for name in record.metrics)
    fold = _fold(run, data_root)
    training = Training(
        train=fold.train,
        valid=fold.valid,
        seed=record.seed,
        threads=threads or record.threads,
        metrics=metrics,
    )
    fitted, model_digests, changed = _trained_again(run, fold, training)
    scores = fitted.score_split(fold.test)
    learned = with_temperatures(fitted.learned, fitted, metrics, fold.valid, record.temperatures)
    evaluation = evaluate_bound(bind(with_learned(metrics, learned), fold.test.judgments), scores)
    n_scores, gaps = _differences(run.score_columns("score")["score"], scores)
    stored = {name: summary.mean for name, summary in record.metrics.items()}
    now = {name: none_if_undefined(mean) for name, mean in evaluation.means.items()}
    return Reproduction(
        run=run.path,
        same_model=model_digests == {name: record.files[name] for name in run.model_files},
        n_scores=n_scores,
        n_other_scores=gaps.size,
        largest_difference=float(gaps.max()) if gaps.size else 0.0,
        metrics={name: (mean, now.get(name)) for name, mean in stored.items() if mean != now.get(name)},
        best_rounds=(record.best_round, fitted.best_round),
        reasons=(*changed, *_reasons(run, fold, training.threads)),
    )


def _trained_again(run: Run, fold: Fold, training: Training) -> tuple[FittedModel, dict[str, str], list[str]]:
    """Return the model trained again after its parts, digests of its files, and what changed about its rankers."""
    record = run.record
    records: dict[str, PartRecord | Record] = {**record.parts, record.model: record}
    parts: dict[str, BlendPart] = {}
    changed: list[str] = []
    with temporary_folder() as folder:
        for number, (name, stored) in enumerate(records.items()):
            ranker, changes = _ranker(run, name, stored)
            with trusting(run.trust, run.path), _workers(ranker, fold) as workers:
                fitted = ranker.fit_to(
                    replace(_as_recorded(run, stored, training), parts=parts, workers=workers)
                )
            own_folder = Path(folder, str(number))
            own_folder.mkdir()
            file = own_folder / fitted.save(own_folder)
            parts[name] = BlendPart(stored.ranker, fitted, file)
            changed += changes
        return fitted, {file.name: file_digest(file)}, changed


def _as_recorded(run: Run, record: Record | PartRecord, training: Training) -> Training:
    """Return the training with the stopping rule, or the rounds, that a record has."""
    if record.stopping is None:
        rounds = record.rounds or record.rounds_trained
        return replace(training, rounds=rounds, decision_metric=_metric(run, run.record.primary))
    rule = record.stopping.rule(_metric(run, record.stopping.metric))
    return replace(training, stopping=rule, decision_metric=rule.metric)


def _differences(before: Floats, after: Floats) -> tuple[int, Floats]:
    """Return the number of scores, and how far apart those are that differ: infinitely where their numbers do."""
    if before.size != after.size:
        n = max(before.size, after.size)
        return n, np.full(n, math.inf)
    # equal infinities are no difference; a score that was and one that was not a number would be
    differs = ~(before == after)
    with np.errstate(invalid="ignore"):
        return before.size, np.abs(before - after)[differs]


def fold_of(run: Run) -> Fold:
    """The data of a stored run, read again; UsageError where they are not those that it was tested on."""
    run.require_test()
    fold = _fold(run, None)
    if fold.facts["test"].fingerprint != run.record.data["test"].fingerprint:
        raise UsageError(f"{run.path}: the test data are not those that this run was tested on")
    return fold


def _fold(run: Run, data_root: Path | None) -> Fold:
    """The run's data, by its record; the configuration beside it has the folder."""
    record, configuration_file = run.record, run.path.resolve().parent / "experiment.yaml"
    root = data_root
    with suppress(ConfigError, KeyError, TypeError):
        root = root or Path(_data_section(configuration_file)["root"])
    if root is None and any(facts.files for facts in record.data.values()):
        found = "its record names the data files but not the folder they are in"
        expected = "the experiment's configuration beside the run, or the folder"
        raise UsageError(Problem(str(run.path), found, expected, "name the folder with --data-root"))
    section = {**record.reading, "root": str((root or run.path).resolve())}
    if isinstance(section.get("reader"), str):
        section["reader"] = resolve_trusted(section["reader"], run.path, run.trust)
    reader = FoldReader(load_data(section))
    if record.fold not in reader.names():
        fold_names = ", ".join(reader.names())
        raise UsageError(f"the experiment has no fold {record.fold!r} any more; folds: {fold_names}")
    return reader.read(record.fold, record.training_queries)


def _data_section(configuration: Path) -> dict[str, Any]:
    """Return the data section of an experiment; the rest is not looked at, because it may have changed since."""
    node = stored_tree(configuration).mapping.get("data")
    section = None if node is None else node.as_python()
    return section if isinstance(section, dict) else {}


def _ranker(run: Run, model: str, record: Record | PartRecord) -> tuple[Ranker, list[str]]:
    """The ranker as a record has it, and what has changed about it since."""
    facts = dict(record.config)
    facts.pop(KEY, None)
    digest, before, objective = facts.pop("ranker", None), facts.pop("inputs", {}), facts.get("objective")
    for name, is_wrong in {
        "ranker": not isinstance(digest, str),
        "inputs": not isinstance(before, dict),
        "objective.metric": isinstance(objective, dict) and not isinstance(objective.get("metric"), str),
    }.items():
        if is_wrong:
            raise UsageError(f"{run.path}: record.json: config.{name} is not what a run's record holds")
    kind = catalog.load(resolve_trusted(record.ranker, run.path, run.trust), UsageError)
    if isinstance(objective, dict):
        facts["objective"] = {
            **objective,
            "metric": resolve_trusted(objective["metric"], run.path, run.trust),
        }
    try:
        ranker: Ranker = kind.model_validate(facts)
    except ValidationError as problem:
        found = "this version does not take what the record says"
        cure = "install what the run was made with: `ltr-harness export requirements` writes the list"
        places = [(".".join(map(str, error["loc"])), error["msg"]) for error in problem.errors()]
        raise UsageError(
            [Problem(f"{model}.{place}", f"{found}: {reason}", cure=cure) for place, reason in places]
        ) from None
    changed = []
    if is_own_file(record.ranker) and own_file_digest(record.ranker) != digest:
        changed.append(f"{record.ranker.rpartition(':')[0]} is not the file it was")
    now = ranker.definition().get("inputs", {})
    changed += [f"{name} is not the file it was" for name in before if now.get(name) != before[name]]
    return ranker, changed


@contextmanager
def _workers(ranker: Ranker, fold: Fold) -> Iterator[Workers | None]:
    """For a model that was trained across several workers, as many processes of this machine."""
    n_workers = getattr(ranker, "data_parallel", False)
    if not n_workers:
        yield None
        return
    from ltr_harness.experiments.training.dask import local_cluster

    with local_cluster(int(n_workers)) as cluster:

        def load(worker: str, split: str, first: int, end: int) -> Any:
            part = fold.splits[split].take(np.arange(first, end))
            return cluster.client.scatter(part, workers=[worker], hash=False)

        yield Workers(cluster.client, load)


def _metric(run: Run, name: str) -> Metric:
    own_metric = run.record.own_metrics.get(name)
    return parse_metric(
        name if own_metric is None else resolve_trusted(own_metric.spelling, run.path, run.trust)
    )


def _changed_data(record: Record, fold: Fold) -> Iterator[str]:
    for split, before in record.data.items():
        now = fold.facts.get(split)
        if now is None:
            yield f"there is no {split} split any more"
        elif now.fingerprint != before.fingerprint:
            files = [name for name, digest in before.files.items() if now.files.get(name) != digest]
            named = f" ({', '.join(files)})" if files else ""
            yield f"the {split} data are not what they were{named}"


def _reasons(run: Run, fold: Fold, threads: int) -> list[str]:
    record = run.record
    reasons = [*outdated(record).values(), *_changed_data(record, fold)]
    for name, own_metric in record.own_metrics.items():
        if _metric(run, name).digest != own_metric.sha256:
            reasons.append(f"{own_metric.spelling.partition('.py:')[0]}.py is not the file it was")
    if threads != record.threads:
        reasons.append(f"threads: {record.threads} then, {threads} now")
    elif threads > available_cores():
        reasons.append(f"threads: {threads} as then, on {available_cores()} cores")
    current = environment()
    for name, version in record.environment.items():
        if current.get(name) != version:
            reasons.append(f"{name}: {version} then, {current.get(name, 'not there')} now")
    return reasons
