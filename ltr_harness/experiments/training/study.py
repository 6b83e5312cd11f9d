"""Studies of where the next gain is: their feature groups and their plan."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from ltr_harness._util.stored import StudyVariant
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution
from ltr_harness.experiments.config.schema import ModelConfig
from ltr_harness.experiments.training.job import Job
from ltr_harness.experiments.training.progress import time_left
from ltr_harness.models.boosted import BoostedRanker


def variants(models: Mapping[str, ModelConfig]) -> dict[str, dict[str, StudyVariant]]:
    """Return for each studied model its variants by name."""
    found: dict[str, dict[str, StudyVariant]] = {}
    for name, model in models.items():
        if model.variant is not None:
            found.setdefault(model.variant.of, {})[name] = model.variant
    return found


def group_features(
    models: Mapping[str, ModelConfig], studied: str, names: Sequence[str]
) -> dict[str, list[str]]:
    """Return for each feature group of a studied model its features, of those that the model learns from."""
    groups = {}
    left_out = set(_ranker_of(models[studied]).left_out(names))
    for name, variant in variants(models)[studied].items():
        if len(variant.without) == 1:
            lacking = _ranker_of(models[name]).left_out(names)
            groups[variant.without[0]] = [feature for feature in lacking if feature not in left_out]
    return groups


def _ranker_of(model: ModelConfig) -> BoostedRanker:
    assert isinstance(model.ranker, BoostedRanker)  # checked where the experiment was built
    return model.ranker


def study_notes(job: Job) -> list[Caution]:
    """Return a note for every two feature groups of a study that share features."""
    models, names = job.experiment.models, job.folds[0].train.feature_names
    notes = []
    for studied in variants(models):
        groups = group_features(models, studied, names)
        for first, second in combinations(groups, 2):
            shared = [feature for feature in groups[first] if feature in groups[second]]
            if shared:
                text = f"groups {first} and {second} share {', '.join(shared)}: the worth of both counts it"
                notes.append(Caution("overlapping-groups", "note", text, place="study.features.groups"))
    return list(dict.fromkeys(notes))


def study_plan(job: Job) -> Iterator[str]:
    """Yield a line for each studied model: the runs of its variants, those to be trained, and how long it will take."""
    models = job.experiment.models
    for studied, variants_of_model in variants(models).items():
        tasks = [task for task in job.tasks if task.model in variants_of_model]
        to_train = [task for task in tasks if task.state != "done"]
        runs = f"{len(to_train)} of {count_of(len(tasks), 'run')} to do"
        line = f"study of {studied}: {count_of(len(variants_of_model), 'model')}, {runs}"
        if remaining := str(time_left(job, to_train)):
            line += f"; {remaining}"
        yield line
