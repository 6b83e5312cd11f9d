"""What must hold between the parts of an experiment, beyond what each part checks alone."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping

from ltr_harness.catalog import did_you_mean
from ltr_harness.config.experiment import MOST_FOLDS, DataLayout, ModelConfig, SplitConfig
from ltr_harness.config.explain import Path
from ltr_harness.config.references import TOOLS, Reference
from ltr_harness.config.yaml_tree import Node
from ltr_harness.errors import MetricError
from ltr_harness.metrics import Metric
from ltr_harness.relevance.rule import Relevance
from ltr_harness.wording import count_of

MOST_RUNS = 100_000

Violation = tuple[Path, str, str, str]
"""Where, what was found, what was expected, how to mend it."""


def size_rule(tree: Node) -> Iterator[Violation]:
    """An experiment is a plan of runs, each of which is a folder: models x folds x seeds."""
    folds = tree.at(("data", "folds"))
    splits = tree.at(("data", "splits"))
    seeds = tree.at(("seeds",))
    n_models = len(tree.mapping["models"].mapping) if "models" in tree.mapping else 0
    n_folds = min(folds.value, MOST_FOLDS) if folds is not None and isinstance(folds.value, int) else 0
    n_folds = n_folds or (len(splits.mapping) if splits is not None else 1)
    n_seeds = len(seeds.value) if seeds is not None and isinstance(seeds.value, list) else 1
    if n_models * n_folds * n_seeds > MOST_RUNS:
        found = (
            f"{count_of(n_models, 'model')}, {count_of(n_folds, 'fold')} and {count_of(n_seeds, 'seed')} are "
            f"{n_models * n_folds * n_seeds:,} runs"
        )
        yield (), found, f"at most {MOST_RUNS:,} runs", ""


def data_rules(data: DataLayout) -> Iterator[Violation]:
    """Rows are divided in one way: by naming files, or by folds."""
    where: Path = ("data",)
    if data.folds is not None and data.splits:
        yield (*where, "folds"), "data.folds with data.splits", "one of them", ""
    elif data.folds is not None and data.files is None:
        yield (
            (*where, "folds"),
            "data.folds without data.files",
            "the files to divide",
            "add files: [data.txt]",
        )
    elif data.folds is None and data.files is not None:
        cure = "add folds: 5, or name the files under splits"
        yield (*where, "files"), "data.files without data.folds", "", cure
    elif data.folds is None and not data.splits:
        yield where, "data has no 'splits'", "{train: …, valid: …, test: …}, or folds: 5 with files: …", ""
    for key in ("fold_together", "fold_stratify"):
        if getattr(data, key) is not None and data.folds is None:
            yield (*where, key), f"data.{key} without data.folds", "", "add folds: 5, or leave it out"
    if data.fold_together is not None and data.fold_stratify is not None:
        yield (*where, "fold_stratify"), "data.fold_stratify with data.fold_together", "one of them", ""
    for fold, split in data.splits.items():
        ways = [name for name in ("by_time", "together", "stratify") if getattr(split.valid, name, None)]
        if len(ways) > 1:
            yield (
                (*where, "splits", fold, "valid"),
                f"a holdout with {' and '.join(ways)}",
                "at most one of them",
                "",
            )


def leak_rules(splits: Mapping[str, SplitConfig]) -> Iterator[Violation]:
    """No file may train and judge, or judge and choose the number of rounds."""
    for fold, split in splits.items():
        yield from _leaks(("data", "splits", fold), split)


def _leaks(where: Path, split: SplitConfig) -> Iterator[Violation]:
    sides = {"train": _files(split.train)}
    if isinstance(split.test, tuple):
        sides["test"] = _files(split.test)
    if isinstance(split.valid, tuple):
        sides["valid"] = _files(split.valid)
    reasons = {
        ("train", "test"): "models would be judged on what they were trained on",
        ("valid", "test"): "the number of rounds would be chosen on the data that is to judge it",
        ("train", "valid"): "the number of rounds would be chosen on training data",
    }
    for (one, other), reason in reasons.items():
        both = sorted(sides.get(one, set()) & sides.get(other, set()))
        if both:
            blamed = "valid" if "valid" in (one, other) else "test"
            cure = "valid: {holdout: 0.2, seed: 1} sets training queries aside" if blamed == "valid" else ""
            found = f"{', '.join(both)} is in {one} and in {other} of the same split: {reason}"
            yield (*where, blamed), found, "different files", cure


def _files(files: tuple[str, ...]) -> set[str]:
    return {posixpath.normpath(file) for file in files}


def stopping_rules(
    splits: Mapping[str, SplitConfig], models: Mapping[str, ModelConfig], stopping: bool
) -> Iterator[Violation]:
    """Either the validation data decides how many rounds to train, or each model says it."""
    for name, model in models.items():
        where: Path = ("models", name)
        if not model.ranker.boosted:
            if model.rounds is not None:
                found = f"models.{name}.rounds: ranker {model.ranker_name!r} is not trained in rounds"
                yield (*where, "rounds"), found, "", "leave it out"
        elif stopping and model.rounds is not None:
            cure = "stopping.max_rounds is the limit; `stopping: null` lets every model train its own rounds"
            yield (*where, "rounds"), f"models.{name}.rounds with stopping", "one of them", cure
        elif not stopping and model.rounds is None:
            cure = "add rounds: 300, or a stopping section for all models"
            yield where, f"models.{name} does not say how long to train", "", cure
    for fold, split in splits.items():
        if stopping and split.valid is None:
            found = (
                f"split {fold!r} has no validation data, on which stopping could choose the number of rounds"
            )
            cure = "add valid: {holdout: 0.2, seed: 1}, or use stopping: null and give each model its rounds"
            yield ("data", "splits", fold), found, "", cure


def baseline_rule(
    baseline: str, models: Mapping[str, object], swept: Mapping[str, str]
) -> Iterator[Violation]:
    """The baseline is one of the models; `swept` are the points of sweeps by the model they were made of."""
    points = [point for point, model in swept.items() if model == baseline]
    if baseline not in models and points:
        cure = f"one of them, such as {points[0]!r}; the first model is the baseline unless one is named"
        yield (
            ("compare", "baseline"),
            f"{baseline!r} is swept: it became {count_of(len(points), 'model')}",
            cure,
            "",
        )
    elif baseline not in models:
        yield ("compare", "baseline"), f"there is no model {baseline!r}", "", did_you_mean(baseline, models)


def estimate_rules(rule: Relevance | None, metrics: Mapping[Path, Iterable[Metric]]) -> Iterator[Violation]:
    """Labels that estimate relevance need metrics that are right on average where labels are."""
    if rule is None or not rule.estimates:
        return
    for where, wanted in metrics.items():
        for metric in wanted:
            k = "" if metric.k is None else f"@{metric.k}"
            if metric.adds_up and metric.empty != "zero":
                found = (
                    f"{metric} leaves out queries without an event, so its mean is no estimate of relevance"
                )
                yield where, found, "", f"use {metric.name}(gain=linear,empty=zero){k}"
            elif not metric.graded:
                found = f"{metric} asks only whether a label is above 0: it counts what happened, whatever its rank"
                yield where, found, "a metric of graded labels", f"use dcg(gain=linear,empty=zero){k}"


def reference_rules(
    references: Collection[Reference], models: Collection[str], max_grade: float | None
) -> Iterator[Violation]:
    """Figures are of models of this experiment, and of metrics that can be computed as their source did."""
    for at, reference in enumerate(references):
        where = ("references", at)
        if reference.tool is not None and reference.tool not in TOOLS:
            found = f"references.{at}.as is {reference.tool!r}"
            yield (*where, "as"), found, "", did_you_mean(reference.tool, TOOLS)
            continue
        for model, figures in reference.values.items():
            path = (*where, "values", model)
            if model not in models:
                yield (
                    path,
                    f"references.{at}.values: there is no model {model!r}",
                    "",
                    did_you_mean(model, models),
                )
            for metric in figures:
                called = f"references.{at}.values.{model}: "
                try:
                    measured = reference.measured(metric)
                except MetricError as error:
                    yield (*path, metric), f"{called}{error}", "", ""
                    continue
                if (scaled := measured.on_scale(max_grade or 1)) != measured:
                    cure = f"write {scaled}" if max_grade else f"write it out, as in {measured.on_scale(4)}"
                    yield (
                        (*path, metric),
                        f"{called}{metric} does not say the scale's highest grade",
                        "",
                        cure,
                    )
