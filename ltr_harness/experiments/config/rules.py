"""The rules between the parts of an experiment, beyond those that each part checks by itself."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of
from ltr_harness.data.relevance.rule import Relevance
from ltr_harness.data.time_folds import MOST_FOLDS
from ltr_harness.errors import RankerError
from ltr_harness.experiments.config import schema as experiment
from ltr_harness.experiments.config.schema import (
    DataLayout,
    Holdout,
    ModelConfig,
    SplitConfig,
    TimeFoldsConfig,
)
from ltr_harness.experiments.config.tune import BUILT_IN, Range, Space, TuneConfig
from ltr_harness.experiments.config.yaml_tree import KeyPath, Node
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.softmax import ProbabilityMetric

MOST_RUNS = 100_000
_NO_VALID = "has no validation data, on which stopping could choose the number of rounds"
_HOLDOUT = "valid: {holdout: 0.2, seed: 1} sets training queries aside"


class Violation(NamedTuple):
    """A rule that does not hold: its place, what was found and expected, and how to repair it."""

    path: KeyPath
    found: str
    expected: str = ""
    cure: str = ""


def size_rule(tree: Node) -> Iterator[Violation]:
    """An experiment is a plan of runs, each of which is a folder: models x folds x seeds."""
    folds, splits, seeds = (tree.find(path) for path in (("data", "folds"), ("data", "splits"), ("seeds",)))
    n_models = len(tree.mapping["models"].mapping) if "models" in tree.mapping else 0
    n_folds = 1
    if folds is not None and isinstance(folds.value, int) and folds.value:
        n_folds = min(folds.value, MOST_FOLDS)
    elif splits is not None:
        n_folds = len(splits.mapping)
    n_seeds = len(seeds.value) if seeds is not None and isinstance(seeds.value, list) else 1
    n_runs = n_models * n_folds * n_seeds
    if n_runs > MOST_RUNS:
        counts = f"{count_of(n_models, 'model')}, {count_of(n_folds, 'fold')}"
        counts += f" and {count_of(n_seeds, 'seed')}"
        yield Violation((), f"{counts} are {n_runs:,} runs", f"at most {MOST_RUNS:,} runs")


def data_rules(data: DataLayout) -> Iterator[Violation]:
    """Rows are divided in one way, by naming files or by folds; judgments by split are of splits with own files."""
    yield from _division_rules(data)
    yield from _fold_option_rules(data)
    yield from _judgment_rules(data)
    for fold, split in data.splits.items():
        ways = [name for name in ("by_time", "together", "stratify") if getattr(split.valid, name, None)]
        if len(ways) > 1:
            place = ("data", "splits", fold, "valid")
            yield Violation(place, f"a holdout with {' and '.join(ways)}", "at most one of them")


def _division_rules(data: DataLayout) -> Iterator[Violation]:
    """Rows are divided by naming files under splits, or by folds of some files."""
    folds = ("data", "folds")
    if data.folds is not None and data.splits:
        yield Violation(folds, "data.folds with data.splits", "one of them")
    elif data.folds is not None and data.files is None:
        cure = "add files: [data.txt]"
        yield Violation(folds, "data.folds without data.files", "the files to divide", cure)
    elif data.folds is None and data.files is not None:
        cure = "add folds: 5, or name the files under splits"
        yield Violation(("data", "files"), "data.files without data.folds", cure=cure)
    elif data.folds is None and not data.splits:
        expected = "{train: …, valid: …, test: …}, or folds: 5 with files: …"
        yield Violation(("data",), "data has no 'splits'", expected)


def _fold_option_rules(data: DataLayout) -> Iterator[Violation]:
    """Options of folds go with folds that are drawn by chance, and by one attribute at most."""
    in_time = isinstance(data.folds, TimeFoldsConfig)
    for key in ("fold_together", "fold_stratify", "fold_seed"):
        if in_time and key in data.model_fields_set:
            found = f"data.{key} with folds in time, which nothing divides by chance"
            yield Violation(("data", key), found, cure="leave it out")
        elif key != "fold_seed" and getattr(data, key) is not None and data.folds is None:
            cure = "add folds: 5, or leave it out"
            yield Violation(("data", key), f"data.{key} without data.folds", cure=cure)
    if data.fold_together is not None and data.fold_stratify is not None:
        found = "data.fold_stratify with data.fold_together"
        yield Violation(("data", "fold_stratify"), found, "one of them")


def _judgment_rules(data: DataLayout) -> Iterator[Violation]:
    """Judgments by split are of the one split that there is, and of sides with files of their own."""
    sides = () if data.judgments is None else data.judgments.by_split
    if not sides:
        return
    place, found, expected = ("data", "judgments"), "data.judgments by split", "one set of judgments"
    cure = "`judgments: truth.parquet`, whose queries find their splits by themselves"
    if data.folds is not None:
        yield Violation(place, f"{found} with data.folds", expected, cure)
    elif len(data.splits) > 1:
        yield Violation(place, f"{found} with {count_of(len(data.splits), 'fold')}", expected, cure)
    elif data.splits:
        (split,) = data.splits.values()
        for side in sides:
            if not isinstance(getattr(split, side), tuple):
                reason = f"data.judgments.{side}, and {side} has no files of its own"
                yield Violation(
                    (*place, side), reason, cure="the judgments of train are those of its hold-outs"
                )


def time_rules(data: DataLayout, stopping: bool, tune: TuneConfig | None) -> Iterator[Violation]:
    """Folds in time need validation data to stop on, and to judge trials by."""
    if not isinstance(data.folds, TimeFoldsConfig) or data.folds.valid is not None:
        return
    if stopping:
        cure = "add valid: 1 month, or use stopping: null and give each model its rounds"
        yield Violation(("data", "folds"), f"data.folds {_NO_VALID}", cure=cure)
    elif tune is not None and tune.inner_folds is None:
        found = "data.folds has no validation data, on which tune could choose"
        cure = "add valid: 1 month, or judge trials on training queries: inner_folds: 5"
        yield Violation(("data", "folds"), found, cure=cure)


def leak_rules(splits: Mapping[str, SplitConfig]) -> Iterator[Violation]:
    """No file may train and judge, or judge and choose the number of rounds."""
    reasons = {
        ("train", "test"): "models would be judged on what they were trained on",
        ("valid", "test"): "the number of rounds would be chosen on the data that is to judge it",
        ("train", "valid"): "the number of rounds would be chosen on training data",
    }
    for fold, split in splits.items():
        sides = {"train": split.train, "valid": split.valid, "test": split.test}
        files = {side: _normal_paths(paths) for side, paths in sides.items()}
        for (first, second), reason in reasons.items():
            shared_files = sorted(files[first] & files[second])
            if shared_files:
                blamed_side, cure = ("valid", _HOLDOUT) if "valid" in (first, second) else ("test", "")
                found = f"{', '.join(shared_files)} is in {first} and in {second} of the same split: {reason}"
                yield Violation(("data", "splits", fold, blamed_side), found, "different files", cure)


def _normal_paths(files: tuple[str, ...] | Holdout | None) -> set[str]:
    """Return the files of a split's part; none where it is held out of another."""
    if not isinstance(files, tuple):
        return set()
    return {posixpath.normpath(file) for file in files}


def _violations_of_rounds(name: str, model: ModelConfig, stopping: bool) -> Iterator[Violation]:
    """Yield the reason why a model must not say its rounds."""
    path = ("models", name, "rounds")
    if not model.ranker.boosted:
        found = f"models.{name}.rounds: ranker {model.ranker_name!r} is not trained in rounds"
        yield Violation(path, found, cure="leave it out")
    elif stopping:
        cure = "stopping.max_rounds is the limit; `stopping: null` lets every model train its own rounds"
        yield Violation(path, f"models.{name}.rounds with stopping", "one of them", cure)


def stopping_rules(
    splits: Mapping[str, SplitConfig], models: Mapping[str, ModelConfig], stopping: bool
) -> Iterator[Violation]:
    """Either the validation data decides how many rounds to train, or each model says it."""
    for name, model in models.items():
        if model.ranker.boosted and not stopping and model.rounds is None:
            cure = "add rounds: 300, or a stopping section for all models"
            yield Violation(("models", name), f"models.{name} does not say how long to train", cure=cure)
        elif model.rounds is not None:
            yield from _violations_of_rounds(name, model, stopping)
    for fold, split in splits.items():
        if stopping and split.valid is None:
            cure = "add valid: {holdout: 0.2, seed: 1}, or use stopping: null and give each model its rounds"
            yield Violation(("data", "splits", fold), f"split {fold!r} {_NO_VALID}", cure=cure)


def model_rule(
    path: KeyPath, prefix: str, name: str, models: Iterable[str], origins: Mapping[str, str], cure: str = ""
) -> Iterator[Violation]:
    """A name is one of the models; `origins` has for each point of a sweep the model that it was made of."""
    models, points = list(models), [point for point, model in origins.items() if model == name]
    if name not in models and points:
        found = f"{prefix}{name!r} is swept: it became {count_of(len(points), 'model')}"
        yield Violation(path, found, f"one of them, such as {points[0]!r}", cure)
    elif name not in models:
        yield Violation(path, f"{prefix}there is no model {name!r}", cure=did_you_mean(name, models))


def part_rules(
    models: Mapping[str, ModelConfig],
    named_models: Mapping[str, object],
    origins: Mapping[str, str],
    without_valid: bool,
) -> Iterator[Violation]:
    """A model is made of other models that are trained; what chooses its weights needs validation data."""
    for name, model in models.items():
        path, prefix = ("models", name, "of"), f"models.{name}.of: "
        for part in model.ranker.parts():
            if part == name or (part in models and models[part].ranker.parts()):
                itself = "itself" if part == name else f"{part!r}, which is made of others"
                yield Violation(path, f"{prefix}names {itself}", "models that are trained")
            else:
                yield from model_rule(
                    path, prefix, part, [other for other in named_models if other != name], origins
                )
        if model.ranker.needs_valid and without_valid:
            found = f"models.{name} chooses its weights on validation data, and there is none"
            weights = ", ".join(f"{part}: 1" for part in model.ranker.parts())
            cure = f"add validation data, such as valid: {{holdout: 0.2, seed: 1}}, or weights: {{{weights}}}"
            yield Violation(("models", name), found, cure=cure)


def study_rules(models: Mapping[str, ModelConfig]) -> Iterator[Violation]:
    """A model that is studied learns from training queries, and one without some features can leave them out."""
    for name, model in models.items():
        variant, ranker = model.variant, model.ranker
        if variant is None:
            continue
        path, about_groups = ("models", name, "variant", "of"), bool(variant.without or variant.only)
        prefix = f"study.of: {variant.of!r}"
        if ranker.parts():
            yield Violation(
                path, f"{prefix} is made of others", "a model that is trained", "name one of its parts"
            )
        elif not ranker.learns:
            found = f"{prefix}: ranker {model.ranker_name!r} learns nothing from training queries"
            yield Violation(path, found, "a model that learns, such as lightgbm")
        elif about_groups and not ranker.selects_features:
            found = f"{prefix}: ranker {model.ranker_name!r} cannot leave features out"
            cure = "study its `queries:` alone"
            yield Violation(path, found, "lightgbm, xgboost or catboost", cure)
        elif about_groups and getattr(ranker, "init_model", None) is not None:
            found = f"{prefix} goes on from init_model, whose trees have features of the groups"
            yield Violation(path, found, "a model that is trained from the start")


def carried_rules(models: Mapping[str, ModelConfig], metrics: Iterable[Metric]) -> Iterator[Violation]:
    """A model takes over temperatures only for reported metrics that have a fitted T."""
    fitted_names = [
        str(metric) for metric in metrics if isinstance(metric, ProbabilityMetric) and metric.takes_fitted
    ]
    for name, model in models.items():
        for metric_name in model.temperatures:
            if metric_name not in fitted_names:
                path = ("models", name, "carried", "temperature", metric_name)
                found = (
                    f"models.{name}.carried.temperature: no reported metric {metric_name!r} has a fitted T"
                )
                cure = did_you_mean(metric_name, fitted_names) if fitted_names else "leave it out"
                yield Violation(path, found, cure=cure)


def estimate_rules(
    rule: Relevance | None, metrics: Mapping[KeyPath, Iterable[Metric]]
) -> Iterator[Violation]:
    """Labels that estimate relevance need metrics that are right on average where labels are."""
    if rule is None or not rule.estimates:
        return
    for path, requested in metrics.items():
        for metric in requested:
            k = "" if metric.k is None else f"@{metric.k}"
            if metric.is_linear_sum and metric.empty != "zero":
                found = f"{metric} leaves out queries without an event, so its mean is not an estimate of relevance"
                yield Violation(path, found, cure=f"use {metric.name}(gain=linear,empty=zero){k}")
            elif not metric.graded:
                found = f"{metric} asks only whether a label is above 0: it counts events whatever their rank"
                cure = f"use dcg(gain=linear,empty=zero){k}"
                yield Violation(path, found, "a metric of graded labels", cure)


_SPACE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Space])


def with_built_in(tune: TuneConfig, models: Mapping[str, ModelConfig]) -> TuneConfig:
    """Return the section with each ``built-in`` replaced by the ranker's own space, where it has one."""
    spaces = dict(tune.models)
    for name, space in tune.models.items():
        if space == BUILT_IN and name in models:
            spaces[name] = _SPACE.validate_python(models[name].ranker.search_space()) or space
    return tune.model_copy(update={"models": spaces})


def _search_violations(
    name: str, model: ModelConfig, space: str | dict[str, Any], stopping: bool, check_rankers: bool
) -> Iterator[Violation]:
    """Yield what is wrong with the search of one model."""
    path = ("tune", "models", name)
    if model.ranker.parts():
        found = f"tune.models.{name}: a model that is made of others is not searched"
        cure = "tune its parts; `sweep:` compares several settings"
        yield Violation(path, found, cure=cure)
    elif isinstance(space, str):
        objective_text = f" with the objective {model.objective}" if model.objective else ""
        found = f"there is no built-in space for the ranker {model.ranker_name}{objective_text}"
        expected = "a mapping such as {params.num_leaves: {low: 7, high: 127, log: true}}"
        yield Violation(path, f"tune.models.{name}: {found}", expected)
    elif getattr(model.ranker, "data_parallel", False):
        found = f"tune.models.{name}: a model that is trained across workers cannot be tuned"
        cure = "tune it without data_parallel, on fewer queries, and write down what was chosen"
        yield Violation(path, found, cure=cure)
    elif not space:
        yield Violation(path, f"tune.models.{name} searches nothing", "at least one option, or built-in")
    elif stopping and experiment.ROUNDS in space:
        found = f"tune.models.{name}.{experiment.ROUNDS} with stopping"
        cure = "stopping chooses the rounds of every trial; leave it out, or use `stopping: null`"
        yield Violation((*path, experiment.ROUNDS), found, "one of them", cure)
    else:
        yield from _space_violations(path, model, space, check_rankers)


def tune_rules(
    tune: TuneConfig,
    models: Mapping[str, ModelConfig],
    named_models: Mapping[str, object],
    splits: Mapping[str, SplitConfig],
    *,
    stopping: bool,
    check_rankers: bool,
) -> Iterator[Violation]:
    """A search is of options and values that the ranker takes; `models` are the valid ones of `named_models`."""
    for name, space in tune.models.items():
        if name not in named_models:
            cure = did_you_mean(name, named_models) if named_models else ""
            yield Violation(("tune", "models", name), f"tune.models: there is no model {name!r}", cure=cure)
        elif name in models:
            yield from _search_violations(name, models[name], space, stopping, check_rankers)
    for fold, split in splits.items():
        if split.valid is None and tune.inner_folds is None:
            found = f"split {fold!r} has no validation data, on which tune could choose"
            cure = "add valid: {holdout: 0.2, seed: 1}, or judge trials on training queries: inner_folds: 5"
            yield Violation(("data", "splits", fold), found, cure=cure)


def _space_violations(
    path: KeyPath, config: ModelConfig, space: Mapping[str, Any], check_ranker: bool
) -> Iterator[Violation]:
    """Yield a violation for each option and value of a space that the ranker does not take."""
    if check_ranker and config.ranker.check():
        return  # told already, where the model stands
    for probe in probes(space):
        try:
            ranker = experiment.model_at(config, probe).ranker
            problems = ranker.check() if check_ranker else []
        except RankerError as error:
            problems = list(error.problems)
        for problem in problems:
            option_path = (*path, problem.place) if problem.place in space else path
            found = f"{problem.place}: {problem.found}" if problem.place else problem.found
            yield Violation(option_path, f"tune.models.{path[-1]}: {found}", problem.expected, problem.cure)


def _ends(values: Range | Sequence[Any]) -> tuple[Any, Any]:
    return (values.low, values.high) if isinstance(values, Range) else (values[0], values[-1])


def probes(space: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield points that together try both ends of every range and every value of every list."""
    ends = {option: _ends(values) for option, values in space.items()}
    low = {option: lowest for option, (lowest, _) in ends.items()}
    high = {option: highest for option, (_, highest) in ends.items()}
    yield low
    if high != low:
        yield high
    for option, values in space.items():
        if not isinstance(values, Range):
            yield from ({**low, option: value} for value in values[1:-1])
