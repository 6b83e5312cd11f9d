"""Checks before training: problems of data, metrics and models, cautions of the data lints, memory."""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.contrasts import WEIGHT
from ltr_harness.comparison.stats.method import UNWEIGHTED
from ltr_harness.comparison.units_and_weights import read_weights, unit_texts
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import Features, SparseFeatures
from ltr_harness.data.time_folds import DAY, PERIOD, period_in
from ltr_harness.errors import (
    Caution,
    DataError,
    HarnessError,
    MetricError,
    Problem,
    Severity,
    UsageError,
    merge_by_cause,
    worst_first,
)
from ltr_harness.experiments.config.rules import probes
from ltr_harness.experiments.config.schema import ModelConfig, model_at
from ltr_harness.experiments.inspection import LINTS
from ltr_harness.experiments.inspection.dependence import dependence
from ltr_harness.experiments.inspection.lints import (
    NEARLY_ALL,
    REPEATED,
    cautions_for_metrics,
    little_to_gain,
    nearly_all_relevant,
)
from ltr_harness.experiments.training.folds import Fold, FoldReader
from ltr_harness.experiments.training.job import Job
from ltr_harness.metrics import Metric, bind
from ltr_harness.models.objectives import stopping_cautions
from ltr_harness.models.ranker import TrainingFacts

FoldCautions = Mapping[str, tuple[Caution, ...]]
"""Fold to the cautions of its data."""


def data_cautions(
    reader: FoldReader, metrics: Sequence[Metric], accept: Collection[str] = (), primary: Metric | None = None
) -> FoldCautions:
    """Return the cautions of each fold, the worst first; UsageError where there is no such lint to accept."""
    UsageError.refuse(
        Problem(f"--accept {name}", "no such lint", cure=did_you_mean(name, LINTS))
        for name in accept
        if name not in LINTS
    )
    repeated = _repeated(reader)
    cautions = {}
    for name in reader.names():
        found = [*reader.cautions(name)]
        splits = reader.read(name).splits
        if primary is not None:  # of which more is known than of the data alone
            found = [caution for caution in found if caution.kind != NEARLY_ALL]
            for split, part in splits.items():
                found += nearly_all_relevant(split, part.judgments, primary)
            if "test" in splits:
                found += little_to_gain("test", splits["test"].judgments, primary)
        prefix = "" if name == "all" else f"{name} "
        cautions[name] = tuple(
            replace(caution, place=f"{prefix}{caution.place}", severity=_accepted(caution, accept))
            for caution in worst_first((*cautions_for_metrics(found, metrics), *repeated.get(name, ())))
        )
    return cautions


def _accepted(caution: Caution, accept: Collection[str]) -> Severity:
    return "accepted" if caution.severity == "error" and caution.kind in accept else caution.severity


def dependence_notes(job: Job) -> list[Caution]:
    """Return notes about the times and users of queries, which shuffled folds and comparisons by query ignore."""
    folds = job.experiment.data.folds
    if folds is None:  # somebody else divided the queries
        return []
    unit = job.experiment.compare.method.unit
    by_time = not isinstance(folds, int)
    return dependence(job.folds[0].train, by_time=by_time, unit=unit)


def refuse_errors(cautions: FoldCautions) -> None:
    """Raise a DataError of all that is wrong with the data and has not been accepted."""
    problems = []
    for caution in merge_by_cause(each_once(cautions)):
        if caution.severity == "error":
            accept = f"add --accept {caution.kind} (in Python: accept=[{caution.kind!r}])"
            cure = f"{caution.cure}; to train all the same, {accept}"
            problems.append(Problem(caution.place, caution.text, cure=cure))
    DataError.refuse(problems)


def each_once(cautions: FoldCautions) -> list[Caution]:
    """Return the cautions of all folds, each once, the worst first."""
    return worst_first(dict.fromkeys(chain.from_iterable(cautions.values())))


def _repeated(reader: FoldReader) -> dict[str, list[Caution]]:
    """Fold to the caution that its test queries are tested by an earlier fold as well."""
    names = reader.names()
    if len(names) < 2:
        return {}
    repeated: dict[str, list[Caution]] = {}
    seen: dict[tuple[str, bytes], str] = {}
    for name in names:
        judgments = reader.read(name).test.judgments.pool
        labels = np.split(judgments.labels, judgments.groups.boundaries[1:-1])
        parts = zip(judgments.groups.ids, labels, strict=True)
        queries = [(str(query), values.tobytes()) for query, values in parts]
        before = [query for query in queries if query in seen]
        if before:
            folds = ", ".join(dict.fromkeys(seen[query] for query in before))
            n = len(before)
            of_all = f"{n:,} of {count_of(len(queries), 'query')} {plural('is', n)}"
            text = f"{of_all} tested in {folds} too (such as {before[0][0]})"
            cure = "a comparison counts each once, with its mean over the folds"
            repeated[name] = [Caution(REPEATED, "note", text, cure, "test")]
        seen |= {query: seen.get(query, name) for query in queries}
    return repeated


def check(job: Job, accept: Collection[str] = ()) -> Job:
    """The job with the cautions of its data, which are not refused here; UsageError with every problem found."""
    problems = [*_metric_problems(job), *_model_problems(job), *_unit_problems(job), *_weight_problems(job)]
    UsageError.refuse(dict.fromkeys(problems))
    return replace(job, cautions=data_cautions(job.reader, job.metrics, accept, job.primary))


def _metric_problems(job: Job) -> list[Problem]:
    """Return the problems of labels outside a metric's domain, or of a metric that decides and has no value."""
    outside = _labels_outside_domains(job)
    if outside:
        return _each_cause(outside)
    random = [*_random_with_ties(job)]
    if random:
        return random
    return _undefined_metrics(job)


def _labels_outside_domains(job: Job) -> list[list[Problem]]:
    """Return a problem for each validation and test part whose labels a metric refuses."""
    problems: list[list[Problem]] = []
    for fold in job.folds:
        metrics = {"valid": list(job.metrics), "test": list(job.metrics)}
        if job.stopping is not None:
            metrics["valid"].append(job.stopping.metric)
        for split, requested in metrics.items():
            part = fold.splits.get(split)
            if part is None:
                continue
            try:
                bind(requested, part.judgments)
            except HarnessError as problem:
                problems.append([Problem(part.source, str(problem))])
    return problems


def _undefined_metrics(job: Job) -> list[Problem]:
    """Return the problems of a primary or stopping metric without a value for any query."""
    tests = [fold.test for fold in job.folds if _is_undefined(job.primary, fold.test)]
    undefined = [(job.primary, part) for part in tests] if len(tests) == len(job.folds) else []
    if job.stopping is not None:
        undefined += [
            (job.stopping.metric, fold.valid)
            for fold in job.folds
            if fold.valid is not None and _is_undefined(job.stopping.metric, fold.valid)
        ]
    expected = "at least one query with a relevant document"
    return [
        Problem(part.source, f"{metric} is undefined for every query", expected, "check the labels")
        for metric, part in undefined
    ]


def _random_with_ties(job: Job) -> Iterator[Problem]:
    """The stopping metric, where rows that tie across its K leave it without a value: in first rounds many do."""
    if job.stopping is None:
        return
    metric = job.stopping.metric
    for fold in job.folds:
        if fold.valid is None:
            continue
        try:
            bind(metric, fold.valid.judgments).means(np.zeros(fold.valid.n_rows))
        except MetricError as error:
            cure = "name another metric, or one of these as in `map(denominator=retrieved,ties=stable)@10`"
            yield Problem("stopping.metric", f"{error}; the first rounds tie many rows", cure=cure)
            return


# What differs between parts of one set where the cause is one.
_PARTICULARS = re.compile(r"'[^']*'|-?\d[\d,.]*(?:e[-+]?\d+)?| such rows?\b")


def _each_cause(parts: Iterable[Sequence[Problem]]) -> list[Problem]:
    """The problems of folds and splits in turn; of those with the place and cause of an earlier part's, the number."""
    first: dict[tuple[str, ...], Problem] = {}
    counts: Counter[tuple[str, ...]] = Counter()
    problems: list[tuple[tuple[str, ...], Problem]] = []
    for part in parts:
        earlier = set(first)
        for problem in part:
            cause = (problem.place, problem.expected, problem.cure, _PARTICULARS.sub("#", problem.found))
            if cause in earlier:
                counts[cause] += 1
                continue
            first.setdefault(cause, problem)
            problems.append((cause, problem))
    return [_with_number(problem, counts.pop(cause, 0)) for cause, problem in problems]


def _with_number(problem: Problem, n_alike: int) -> Problem:
    if not n_alike:
        return problem
    return replace(problem, found=f"{problem.found} (and {count_of(n_alike, 'other part')} alike)")


def _is_undefined(metric: Metric, part: RankingDataset) -> bool:
    return bool(np.isnan(bind(metric, part.judgments).means(np.zeros(part.n_rows))).all())


def _unit_problems(job: Job) -> list[Problem]:
    """Test queries that do not say which of them belong together, where the comparison is to go by that."""
    unit = job.experiment.compare.method.unit
    if unit is None:
        return []
    problems = []
    units: set[str] = set()
    for fold in job.folds:
        attributes = fold.test.query_attributes
        if (unit == PERIOD or period_in(unit)) and unit not in attributes and DAY in attributes:
            unit = DAY  # of which a comparison makes them
        if unit not in attributes:
            cure = did_you_mean(unit, attributes) if attributes else "name it under `attributes:` of the data"
            found = f"{fold.test.source} has no query attribute {unit!r}"
            problems.append(Problem("compare.unit", found, cure=cure))
            continue
        texts = unit_texts(attributes[unit])
        missing = int(np.count_nonzero(texts == ""))
        if missing:
            found = f"{fold.test.source}: {count_of(missing, 'query')} without a {unit}"
            cure = f"add the column {unit!r} to the judgments, or leave out queries without candidates"
            is_missed = ((texts == "") & ~fold.test.groups.has_rows).any()
            cure = f"{cure} with `no_candidates: skip`" if is_missed else ""
            problems.append(Problem("compare.unit", found, "one for each query", cure))
        units |= set(texts.tolist())
    if not problems and len(units) < 2:
        problems = [Problem("compare.unit", f"all test queries are of one {unit}", "at least two")]
    return problems


def _weight_problems(job: Job) -> Iterator[Problem]:
    """Test queries without the attribute that is to weigh them, or with values that are no weights."""
    weights = job.experiment.compare.method.weights
    if weights is None or weights in (UNWEIGHTED, WEIGHT):  # the data's own were checked as they were read
        return
    for fold in job.folds:
        attributes = fold.test.query_attributes
        if weights not in attributes:
            found = f"{fold.test.source} has no query attribute {weights!r}"
            cure = (
                did_you_mean(weights, attributes) if attributes else "name it under `attributes:` of the data"
            )
            yield Problem("compare.weights", found, cure=cure)
            continue
        try:
            read_weights(attributes[weights], fold.test.groups.ids, "compare.weights", fold.test.source)
        except UsageError as error:
            yield from error.problems


def _model_problems(job: Job) -> list[Problem]:
    """Find values that a library would reject, ignore or misread, before the first tree."""
    problems: list[Problem] = []
    facts = {fold.name: TrainingFacts.of(fold.train, job.stopping is not None) for fold in job.folds}
    for name, config in job.experiment.models.items():
        of_folds: list[list[Problem]] = []
        for fold in job.folds:
            model_facts = facts[fold.name]
            if config.training_queries is not None:
                try:
                    model_facts = _facts_of_share(job, name, fold.name)
                except DataError as error:
                    of_folds.append([Problem(_place_of_share(name, config), str(error))])
                    continue
            of_folds.append(_problems_on_fold(job, name, fold, model_facts))
        problems += _each_cause(of_folds)
    return problems


def _facts_of_share(job: Job, name: str, fold: str) -> TrainingFacts:
    """Return the facts of a model's share of the training queries; DataError where none has a relevant document."""
    facts = TrainingFacts.of(job.fold_of(name, fold).train, job.stopping is not None)
    queries = job.experiment.models[name].training_queries
    if queries is not None and facts.n_without_relevant == facts.n_queries:
        found = (
            f"a share of {queries.share:g} is {count_of(facts.n_queries, 'training query')} of fold {fold}"
        )
        raise DataError(f"{found}, none with a relevant document; expected a larger share")
    return facts


def _place_of_share(name: str, config: ModelConfig) -> str:
    return f"models.{name}.training_queries" if config.variant is None else "study.queries"


def problems_of_options(name: str, config: ModelConfig, problems: Sequence[Problem]) -> list[Problem]:
    """Return a ranker's problems in the place of the model's options: of a variant's features, that of their group."""
    variant = config.variant
    groups = () if variant is None else (*variant.without, *filter(None, [variant.only]))
    if len(groups) != 1:
        return _placed(f"models.{name}", problems)
    found: list[Problem] = []
    for problem in problems:
        if problem.place in ("features", "exclude"):
            found.append(replace(problem, place=f"study.features.groups.{groups[0]}"))
        else:
            found += _placed(f"models.{name}", [problem])
    return found


def _problems_on_fold(job: Job, name: str, fold: Fold, facts: TrainingFacts) -> list[Problem]:
    """Return the problems of a model, its parts and its search on the data of a fold."""
    config = job.experiment.models[name]
    refused = config.ranker.check(facts) or config.ranker.check_scoring(fold.test)
    problems = problems_of_options(name, config, refused)
    if config.ranker.needs_valid and fold.valid is not None:
        for part in config.ranker.parts():
            for problem in job.experiment.models[part].ranker.check_scoring(fold.valid):
                found = f"{part!r} on validation data: {problem.found}"
                problems.append(replace(problem, place=f"models.{name}.of", found=found))
    if not refused and job.experiment.tune:
        for probe in probes(job.experiment.tune.space(name)):
            refused_point = model_at(config, probe).ranker.check(facts)
            problems += _placed(f"tune.models.{name}", refused_point)
    return problems


def _placed(section: str, problems: Sequence[Problem]) -> list[Problem]:
    return [
        replace(problem, place=f"{section}.{problem.place}" if problem.place else section)
        for problem in problems
    ]


def stopping_depth(job: Job) -> list[Caution]:
    """A caution where training stops on another depth than the metric that decides."""
    if job.stopping is None:
        return []
    longest = max(int(fold.valid.groups.sizes.max()) for fold in job.folds if fold.valid is not None)
    return stopping_cautions(job.stopping.metric, job.primary, longest)


BINNED = 1  # bytes of a value in both libraries' binned training data
PLAIN = 8  # bytes of a value in the plain DMatrix that XGBoost predicts validation rows from: index and value
PROCESS = 300e6  # interpreter, libraries, compiled metrics
SHOWN = 50e6  # bytes of mapped data from which on they are mentioned
WORK = 1.3  # gradients, scores, histograms and trees on top; measured with `scripts/bench full_size`


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes, of the fold that needs most."""

    mapped: float  # features in the cache's files, which all processes share and the kernel can take back
    own: float  # of each worker, beyond that
    workers: int
    available: float | None  # what the machine has free; None where it does not say

    @property
    def cautions(self) -> list[Caution]:
        """One where the workers' own memory does not fit."""
        if self.available is None or self.own * self.workers <= self.available:
            return []
        text, cure = "more than is available", "fewer --workers need less"
        return [Caution("short-memory", "warning", text, cure, place="memory")]

    def __str__(self) -> str:
        each = "" if self.workers == 1 else f" for each of {self.workers} workers"
        have = "" if self.available is None else f", {_gigabytes(self.available)} available"
        mapped = f", and {_gigabytes(self.mapped)} of mapped data" if self.mapped >= SHOWN else ""
        return f"about {_gigabytes(self.own)}{each}{mapped}{have}"


def memory_estimate(job: Job) -> MemoryEstimate:
    """Return the memory that training will take, from the sizes of the data and the libraries in use."""
    libraries = {getattr(model.ranker, "library", None) for model in job.experiment.models.values()} - {None}
    needs = []
    for fold in job.folds:
        valid = 0 if fold.valid is None else fold.valid.features.size
        plain_matrix = PLAIN * valid if "xgboost" in libraries else 0
        trained_on = [split.features for split in (fold.train, fold.valid) if split is not None]
        n_binned = sum(_n_binned(features, library) for features in trained_on for library in libraries)
        per_process = PROCESS + WORK * (BINNED * n_binned + plain_matrix)
        needs.append((sum(part.features.nbytes for part in fold.splits.values()), per_process))
    mapped, per_process = max(needs, key=sum)
    return MemoryEstimate(mapped, per_process, job.workers, _available())


def _n_binned(features: Features, library: str | None) -> int:
    """Return how many values a library bins: LightGBM only what sparse features store."""
    if library == "lightgbm" and isinstance(features, SparseFeatures):
        return features.values.size
    return features.size


def _available() -> float | None:
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return None


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
