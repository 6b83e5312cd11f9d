"""`ltr-harness check`: find every problem of an experiment before training."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltr_harness._util.text import count_of, named
from ltr_harness.cli import options
from ltr_harness.cli.output import echo
from ltr_harness.errors import Caution, first_by_cause, merge_by_cause

if TYPE_CHECKING:
    from ltr_harness.experiments.runs.record import SplitFacts
    from ltr_harness.experiments.training.job import Job, State


@options.examples("""
  ltr-harness check configs/quickstart.yaml
  ltr-harness check configs/mq2008.yaml --set data.root=/data/mq2008
""")
@click.command("check")
@options.config
@options.overrides
@options.seed
@options.runs
@options.accept
@options.verify
def command(
    config: Path, overrides: tuple[str, ...], runs: Path, accept: tuple[str, ...], verify: bool
) -> int:
    """Find every problem of an experiment before training.

    Parses and resolves CONFIG, reads the data, checks models and metrics against it and the libraries'
    limits, looks for what in the data could mislead (leaks, overlaps, sorted labels), and prints the data and
    the plan. All problems are listed at once; exit 2 if there are any, or if the data has errors.
    """
    from ltr_harness.experiments.training.check import (
        dependence_notes,
        each_once,
        memory_estimate,
        stopping_depth,
    )
    from ltr_harness.experiments.training.study import study_notes
    from ltr_harness.workflow import prepare, read

    job = prepare(read(config, overrides=overrides, runs=runs, verify=verify, workers=None), accept)
    _print_splits(job)
    reading_cautions = _reading_cautions(job)
    _print_with_severity([*reading_cautions, *dependence_notes(job), *study_notes(job)])
    memory = memory_estimate(job)
    echo(f"memory: {memory}")
    # folds have much in common
    plan_cautions = first_by_cause([*memory.cautions, *_metric_cautions(job), *stopping_depth(job)])
    _print_cautions(plan_cautions)
    _print_plan(job)
    model_cautions = _model_cautions(job)
    _print_cautions(model_cautions)
    data_findings = merge_by_cause(each_once(job.cautions))
    _print_with_severity(data_findings)
    errors = [finding.kind for finding in data_findings if finding.severity == "error"]
    if errors:
        accepting = " ".join(f"--accept {name}" for name in dict.fromkeys(errors))
        n_errors = count_of(len(errors), "error")
        echo(f"primary {job.primary}; {n_errors} in the data, see above; if intended: {accepting}")
        return 2
    n_cautions = len(plan_cautions) + len(model_cautions)
    echo(f"primary {job.primary}; {_count_findings([*reading_cautions, *data_findings], n_cautions)}")
    return 0


def _print_splits(job: "Job") -> None:
    """Print the features, and the sizes of each split over all folds."""
    from ltr_harness.experiments.inspection.agreement import agreement_lines
    from ltr_harness.experiments.inspection.candidates import recall_lines

    for features in dict.fromkeys(named("feature", fold.train.feature_names) for fold in job.folds):
        echo(features)
    for line in job.reader.boundaries():
        echo(line)
    of_split: dict[str, list[SplitFacts]] = {}
    for fold in job.folds:
        for split, facts in fold.facts.items():
            of_split.setdefault(split, []).append(facts)
    for split, facts_of_folds in of_split.items():
        folds = f" of each of {len(facts_of_folds)} folds" if len(job.folds) > 1 else ""
        echo(f"{split}{folds}: {_sizes_in_words(facts_of_folds)}")
    for fold in job.folds:
        for split, facts in fold.facts.items():
            place = split if fold.name == "all" else f"{fold.name} {split}"
            for line in (*recall_lines(facts.candidates), *agreement_lines(facts.agreement)):
                echo(f"{place}: {line}")


def _sizes_in_words(facts_of_folds: "Sequence[SplitFacts]") -> str:
    """Return the numbers of queries, rows and features, from the smallest fold to the largest."""
    parts = [
        _range_of([facts.n_queries for facts in facts_of_folds], "query"),
        _range_of([facts.n_rows for facts in facts_of_folds], "row"),
        _range_of([facts.n_features for facts in facts_of_folds], "feature"),
    ]
    n_without_relevant = [facts.n_without_relevant for facts in facts_of_folds]
    if any(n_without_relevant):
        low, high = min(n_without_relevant), max(n_without_relevant)
        numbers = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        parts.append(f"{numbers} without relevant documents")
    return ", ".join(parts)


def _range_of(numbers: Sequence[int], noun: str) -> str:
    low, high = min(numbers), max(numbers)
    largest = count_of(high, noun)
    return largest if low == high else f"{low:,} to {largest}"


def _print_plan(job: "Job") -> None:
    """Print the trials and the runs that exist and those to train."""
    from ltr_harness.experiments.training.study import study_plan

    for study in job.open_studies:
        echo(f"tune: {study}: {count_of(len(job.trials_of(study)), 'trial')} done")
    words: dict[State, str] = {"done": "done", "score again": "to score again", "train": "to train"}
    for state, text in words.items():
        if job.count(state):
            echo(f"{text}: {job.count(state)} of {count_of(len(job.tasks), 'run')}")
    for line in study_plan(job):
        echo(line)


def _print_with_severity(findings: Iterable[Caution]) -> None:
    for finding in findings:
        echo(f"{finding.severity}: {finding}")


def _print_cautions(cautions: Iterable[Caution]) -> None:
    for caution in cautions:
        echo(f"caution: {caution}")


def _reading_cautions(job: "Job") -> list[Caution]:
    """Return the cautions of reading the training rows, besides lints, each once."""
    from ltr_harness.experiments.inspection.lints import cautions_beside_lints

    return list(
        dict.fromkeys(chain.from_iterable(cautions_beside_lints(fold.train.cautions) for fold in job.folds))
    )


def _metric_cautions(job: "Job") -> Iterator[Caution]:
    from ltr_harness.metrics.core.cautions import cautions

    for fold in job.folds:
        yield from cautions(job.metrics, fold.test.judgments)


def _model_cautions(job: "Job") -> list[Caution]:
    """Return the cautions of each ranker, whose place is the model's key."""
    highest_grade = max(float(fold.train.labels.max()) for fold in job.folds)
    cautions = []
    for name, model in job.experiment.models.items():
        ranker = model.ranker
        for caution in (
            *ranker.cautions(job.threads),
            *ranker.cautions_for_metric(job.primary, highest_grade),
        ):
            cautions.append(replace(caution, place=f"models.{name}"))
    return cautions


def _count_findings(findings: Sequence[Caution], n_cautions: int) -> str:
    """Return the numbers of accepted errors, warnings and cautions in words."""
    n_accepted = sum(finding.severity == "accepted" for finding in findings)
    n_warnings = sum(finding.severity == "warning" for finding in findings)
    if not (n_accepted or n_warnings or n_cautions):
        return "no problems found"
    parts = ["no errors"]
    if n_accepted:
        parts = [f"{count_of(n_accepted, 'error')} accepted"]
    if n_warnings:
        parts.append(count_of(n_warnings, "warning"))
    if n_cautions:
        parts.append(count_of(n_cautions, "caution"))
    return ", ".join(parts)
