"""The identities of an experiment's runs and searches, made here and nowhere else."""

from __future__ import annotations

from ltr_harness.config.experiment import ModelConfig
from ltr_harness.experiment.definitions import metric_definition, ranker_definition, stopping_definition
from ltr_harness.experiment.folds import Fold
from ltr_harness.experiment.job import Job
from ltr_harness.fingerprint import fingerprint_arrays
from ltr_harness.runs.identity import TrainingInputs, evaluation_identity, package_versions, study_identity


def identity_of(
    job: Job, model: ModelConfig, fold: Fold, seed: int | None, *, valid: bool = True, error: str = ""
) -> str:
    """What decides every tree of a model."""
    ranker, stopping = model.ranker, job.stopping
    facts = ranker_definition(model)
    if error:
        facts["tuning"] = error
    inputs = TrainingInputs(
        ranker=facts,
        seed=seed,
        rounds=model.rounds,
        stopping=None
        if stopping is None
        else stopping_definition(stopping) | {"metric": metric_definition(stopping.metric)},
        train=fold.facts["train"].fingerprint,
        valid=fold.facts["valid"].fingerprint if valid and "valid" in fold.facts else None,
        packages=package_versions(ranker.packages),
        threads=job.threads if ranker.threads_matter else None,
    )
    return inputs.identity


def evaluation_identity_of(job: Job, identity: str, fold: Fold) -> str:
    """What decides every value of a trained model on the fold's test split."""
    test = fold.facts["test"].fingerprint
    if fold.test.file_rows is not None:  # scores in a file may be in the order of the data's file
        test = f"{test} {fingerprint_arrays(fold.test.file_rows)}"
    return evaluation_identity(identity, [metric_definition(metric) for metric in job.metrics], test)


def study_identity_of(job: Job, model: str, fold: Fold) -> str:
    """What decides every trial of a search; not its budget, because more of it goes on from the trials there are."""
    tune = job.experiment.tune
    assert tune is not None
    training = identity_of(job, job.experiment.models[model], fold, tune.seed, valid=tune.inner_folds is None)
    facts = tune.model_dump(mode="json", include={"sampler", "pruner", "inner_folds", "storage", "seed"})
    return study_identity(
        training, {**facts, "space": tune.plain_space(model), "metric": metric_definition(job.decisive)}
    )
