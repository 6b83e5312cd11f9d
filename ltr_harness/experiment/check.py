"""Checks before training: problems of data, metrics and models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ltr_harness.catalog import did_you_mean
from ltr_harness.comparison.units import unit_texts
from ltr_harness.config.point import model_at
from ltr_harness.config.tune import probes
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import HarnessError, Problem, UsageError
from ltr_harness.experiment.findings import findings_of
from ltr_harness.experiment.job import Job
from ltr_harness.metrics import Metric, bind
from ltr_harness.rankers.ranker import Facts
from ltr_harness.wording import count_of


def check(job: Job, accept: Collection[str] = ()) -> Job:
    """The job with the data lints' findings, which are not refused here.

    Raises:
        UsageError: every problem found.
    """
    problems = [
        *(_metric_problems(job) or _undefined_everywhere(job)),
        *_model_problems(job),
        *_unit_problems(job),
    ]
    if problems:
        raise UsageError(problems)
    return replace(job, findings=findings_of(job.reader, job.metrics, accept))


def _metric_problems(job: Job) -> list[Problem]:
    """Labels outside a metric's domain, found before the first tree."""
    problems = []
    for fold in job.folds:
        for split in ("valid", "test"):
            part = fold.splits.get(split)
            if part is None:
                continue
            wanted = [*job.metrics, *([job.stopping.metric] if job.stopping and split == "valid" else [])]
            try:
                bind(wanted, part.judgments)
            except HarnessError as problem:
                problems.append(Problem(part.source, str(problem)))
    return _each_once(problems)


def _undefined_everywhere(job: Job) -> list[Problem]:
    """A metric that decides and has no value for any query: there would be nothing to compare, or to stop on."""
    tests = [fold.test for fold in job.folds if _is_undefined(job.primary, fold.test)]
    undefined = [(job.primary, part) for part in tests] if len(tests) == len(job.folds) else []
    if job.stopping is not None:
        undefined += [
            (job.stopping.metric, fold.valid)
            for fold in job.folds
            if fold.valid is not None and _is_undefined(job.stopping.metric, fold.valid)
        ]
    problems = [
        Problem(
            part.source,
            f"{metric} is undefined for every query",
            "at least one query with a relevant document",
            "look at the labels",
        )
        for metric, part in undefined
    ]
    return _each_once(problems)


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
        known = fold.test.query_attributes
        if unit not in known:
            cure = did_you_mean(unit, known) if known else "name it under `attributes:` of the data"
            problems.append(
                Problem("compare.unit", f"{fold.test.source} has no query attribute {unit!r}", cure=cure)
            )
            continue
        texts = unit_texts(known[unit])
        missing = int(np.count_nonzero(texts == ""))
        if missing:
            found = f"{fold.test.source}: {count_of(missing, 'query')} without a {unit}"
            problems.append(Problem("compare.unit", found, "one for each query"))
        units |= set(texts.tolist())
    if not problems and len(units) < 2:
        problems = [Problem("compare.unit", f"all test queries are of one {unit}", "at least two")]
    return _each_once(problems)


def _model_problems(job: Job) -> list[Problem]:
    """What a library would reject, ignore or misread, found before the first tree."""
    problems: list[Problem] = []
    facts = {fold.name: Facts.of(fold.train, job.stopping is not None) for fold in job.folds}
    for name, config in job.experiment.models.items():
        space = job.experiment.tune.space(name) if job.experiment.tune else {}
        for fold in job.folds:
            wrong = config.ranker.check(facts[fold.name]) or config.ranker.check_scoring(fold.test)
            problems += _placed(f"models.{name}", wrong)
            for probe in () if wrong else probes(space):
                refused = model_at(config, probe).ranker.check(facts[fold.name])
                problems += _placed(f"tune.models.{name}", refused)
    return _each_once(problems)


def _placed(where: str, problems: Sequence[Problem]) -> list[Problem]:
    return [replace(one, place=f"{where}.{one.place}" if one.place else where) for one in problems]


def _each_once(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
