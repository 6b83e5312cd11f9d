"""Studies of where the next gain is: their feature groups, their plan, and the second wave of trainings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ltr_harness._util.stored import StudyVariant
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution
from ltr_harness.experiments.compare.next_gain import removable_groups, shared_feature_lines
from ltr_harness.experiments.config.schema import Experiment, ModelConfig, ModelOptions
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.experiments.training.job import Job, list_tasks
from ltr_harness.experiments.training.progress import time_left
from ltr_harness.models.boosted import BoostedRanker
from ltr_harness.models.selection import FeatureSelection


def _variants(studied: Mapping[str, ModelOptions]) -> dict[str, dict[str, StudyVariant]]:
    """Return for each studied model its variants by name."""
    found: dict[str, dict[str, StudyVariant]] = {}
    for name, model in studied.items():
        if model.variant is not None:
            found.setdefault(model.variant.of, {})[name] = model.variant
    return found


def group_features(experiment: Experiment, studied: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return for each feature group of a studied model its features, of those that the model learns from."""
    groups = {}
    left_out = set(_selection_of(experiment.models[studied]).left_out(names))
    for name, variant in _variants(experiment.studied)[studied].items():
        if len(variant.without) == 1:
            lacking = _selection_of(experiment.models[name]).left_out(names)
            groups[variant.without[0]] = [feature for feature in lacking if feature not in left_out]
    return groups


def _selection_of(model: ModelConfig) -> FeatureSelection:
    """Return the features of a model; all of a ranker that leaves none out."""
    return model.ranker.selected_features if isinstance(model.ranker, BoostedRanker) else FeatureSelection()


def study_notes(job: Job) -> list[Caution]:
    """Return a note for every two feature groups of a study that share features."""
    names = job.folds[0].train.feature_names
    lines = [
        line
        for studied in _variants(job.experiment.studied)
        for line in shared_feature_lines(group_features(job.experiment, studied, names))
    ]
    return [
        Caution("overlapping-groups", "note", line, place="study.features.groups")
        for line in dict.fromkeys(lines)
    ]


def study_plan(job: Job) -> Iterator[str]:
    """Yield a line for each studied model: the runs of its variants, those to be trained, and how long it will take.

    Once all are trained, it is known which groups can go, and with them the second wave.
    """
    is_trained = not job.open_studies and job.count("done") == len(job.tasks)
    if is_trained and _variants(job.experiment.studied):
        job = with_second_wave(job, [load_run(task.folder) for task in job.tasks]) or job
    for studied, variants in _variants(job.experiment.studied).items():
        tasks = [task for task in job.tasks if task.model in variants]
        to_train = [task for task in tasks if task.state != "done"]
        runs = f"{len(to_train)} of {count_of(len(tasks), 'run')} to do"
        line = f"study of {studied}: {count_of(len(variants), 'model')}, {runs}"
        if not is_trained and _has_second_wave(job, variants):
            n_more = sum(task.model == studied for task in job.tasks)
            line += f", and up to {n_more} more without several groups together"
        if remaining := str(time_left(job, to_train)):
            line += f"; {remaining}"
        yield line


def _has_second_wave(job: Job, variants: Mapping[str, StudyVariant]) -> bool:
    """Return whether several groups may turn out to be removable, and have not been left out together yet."""
    n_lacking = [len(variant.without) for variant in variants.values()]
    is_tested = all("test" in fold.splits for fold in job.folds)
    has_verdicts = is_tested and job.experiment.compare.method.margin is not None
    return has_verdicts and n_lacking.count(1) > 1 and max(n_lacking) == 1


def with_second_wave(job: Job, runs: Sequence[Run]) -> Job | None:
    """Return the job with a model for each studied one, without all groups that can go one by one; None without any."""
    experiment = job.experiment
    waiting = {
        studied
        for studied, variants in _variants(experiment.studied).items()
        if _has_second_wave(job, variants)
    }
    if not waiting:
        return None
    added: dict[str, ModelConfig] = {}
    for studied, removable in removable_groups(runs, experiment.studied, experiment.compare.method).items():
        if studied not in waiting or len(removable) < 2:
            continue
        model = _without_all(experiment.models[studied], [experiment.models[name] for name in removable])
        variants = [_variants(experiment.studied)[studied][name] for name in removable]
        names = job.folds[0].train.feature_names
        if len(_selection_of(model).left_out(names)) < len(names):
            groups = tuple(group for variant in variants for group in variant.without)
            joint_variant = StudyVariant(of=studied, without=groups, cost=_total_cost(variants))
            name = f"{studied} without {', '.join(groups)}"
            added[name] = model.model_copy(update={"variant": joint_variant})
    if not added:
        return None
    models = {**experiment.models, **added}
    # workers keep a job by its topic
    second = replace(job, experiment=experiment.model_copy(update={"models": models}), topic=f"{job.topic}-2")
    return list_tasks(second, tuned=True)


def _without_all(model: ModelConfig, lacking: Sequence[ModelConfig]) -> ModelConfig:
    """Return a model without the features that any of its variants lacks."""
    selections = [_selection_of(model) for model in lacking]
    model_features = _selection_of(model).features
    features = None
    if model_features is not None:
        features_of_each = [set(selection.features or ()) for selection in selections]
        features = tuple(name for name in model_features if all(name in names for names in features_of_each))
    exclude = tuple(dict.fromkeys(name for selection in selections for name in selection.exclude))
    assert isinstance(model.ranker, BoostedRanker)  # it has feature groups
    ranker = model.ranker.with_selection(FeatureSelection(features, exclude))
    return model.model_copy(update={"ranker": ranker, "point": None})


def _total_cost(variants: Sequence[StudyVariant]) -> float | None:
    """Return what the groups that variants lack cost together; None where one has no cost."""
    costs = [variant.cost for variant in variants if variant.cost is not None]
    return sum(costs) if len(costs) == len(variants) else None
