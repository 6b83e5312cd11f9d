"""`ltr-harness check`: everything but training."""

from dataclasses import replace
from pathlib import Path

import click

from ltr_harness._util.text import count_of, named
from ltr_harness.cli import options
from ltr_harness.cli.output import counts, say


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
    from ltr_harness.experiments.inspection.agreement import agreement_lines
    from ltr_harness.experiments.inspection.candidates import recall_lines
    from ltr_harness.experiments.inspection.lints import beside_lints, first_a_cause, one_a_cause
    from ltr_harness.experiments.training.check import (
        dependence_notes,
        each_once,
        memory_estimate,
        stopping_depth,
    )
    from ltr_harness.metrics.core.cautions import cautions
    from ltr_harness.workflow import prepare, read

    job = prepare(read(config, overrides=overrides, runs=runs, verify=verify, workers=None), accept)
    for line in job.reader.boundaries():
        say(line)
    for fold in job.folds:
        for split, facts in fold.facts.items():
            place = split if fold.name == "all" else f"{fold.name} {split}"
            n_blank = facts.n_without_relevant
            blank = f", {n_blank:,} without relevant documents" if n_blank else ""
            size = counts(query=facts.n_queries, row=facts.n_rows, feature=facts.n_features)
            say(f"{place}: {size}{blank}")
            for line in (*recall_lines(facts.candidates), *agreement_lines(facts.agreement)):
                say(f"{place}: {line}")
    for features in dict.fromkeys(named("feature", fold.train.feature_names) for fold in job.folds):
        say(features)
    of_reading = dict.fromkeys(one for fold in job.folds for one in beside_lints(fold.train.cautions))
    for one in (*of_reading, *dependence_notes(job)):
        say(f"{one.severity}: {one}")
    memory = memory_estimate(job)
    say(f"memory: {memory}")
    others = memory.cautions
    others += [one for fold in job.folds for one in cautions(job.metrics, fold.test.judgments)]
    others += stopping_depth(job)
    others = first_a_cause(others)  # folds have much in common
    for one in others:
        say(f"caution: {one}")
    for study in job.open_studies:
        say(f"tune: {study}: {count_of(len(job.trials_of(study)), 'trial')} done")
    for state in ("done", "score again", "train"):
        if job.count(state):
            say(f"{state}: {job.count(state)} of {count_of(len(job.tasks), 'run')}")
    largest = max(float(fold.train.labels.max()) for fold in job.folds)
    for name, model in job.experiment.models.items():
        beside = model.ranker.cautions_for_metric(job.primary, largest)
        for one in (*model.ranker.cautions(job.threads), *beside):
            others.append(replace(one, place=f"models.{name}"))
            say(f"caution: {others[-1]}")
    of_data = one_a_cause(each_once(job.cautions))
    for one in of_data:
        say(f"{one.severity}: {one}")
    errors = [one.kind for one in of_data if one.severity == "error"]
    if errors:
        meant = " ".join(f"--accept {name}" for name in dict.fromkeys(errors))
        found = f"{count_of(len(errors), 'error')} in the data, see above"
        say(f"primary {job.primary}; {found}; if meant: {meant}")
        return 2
    n_warnings = sum(one.severity == "warning" for one in (*of_reading, *of_data))
    n_accepted = sum(one.severity == "accepted" for one in of_data)
    parts = [f"{count_of(n_accepted, 'error')} accepted" if n_accepted else "no errors"]
    parts += [count_of(n, of) for n, of in ((n_warnings, "warning"), (len(others), "caution")) if n]
    sound = not (n_accepted or n_warnings or others)
    say(f"primary {job.primary}; {'no problems found' if sound else ', '.join(parts)}")
    return 0
