"""Definitions of rankers, metrics and stopping rules, as identities and records have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.config.experiment import Experiment, ModelConfig
from ltr_harness.errors import Problem, UsageError
from ltr_harness.files import file_digest
from ltr_harness.metrics import Metric
from ltr_harness.own_files import imported_modules, installed_version, is_own_file, own_file_digest


def ranker_definition(config: ModelConfig) -> dict[str, Any]:
    """A ranker's name and every field, with the digest or the version of its code if that is not the harness's own."""
    definition: dict[str, Any] = {"ranker": config.ranker_name, **config.ranker.definition()}
    module = type(config.ranker).__module__
    if is_own_file(config.ranker_name):
        definition["ranker"] = own_file_digest(config.ranker_name)
    elif not module.startswith("ltr_harness."):
        definition["ranker"] = f"{config.ranker_name} {module} {installed_version(module)}"
    return definition


def metric_definition(metric: Metric) -> str:
    """A metric's canonical name, with the digest of its code where that is not the harness's own."""
    return str(metric) if metric.digest is None else f"{metric} {metric.digest}"


def stopping_definition(rule: StoppingRule) -> dict[str, Any]:
    """A stopping rule as records keep it."""
    return {
        "metric": str(rule.metric),
        "on": "valid",
        "patience": rule.patience,
        "min_delta": rule.min_delta,
        "every": rule.every,
        "max_rounds": rule.max_rounds,
    }


def other_files(experiment: Experiment) -> dict[str, str]:
    """Files besides the data that models, metrics and code of the user's own come from, and their digests."""
    paths = {path for model in experiment.models.values() for path in model.ranker.inputs()}
    names = [experiment.data.reader_name, *(model.ranker_name for model in experiment.models.values())]
    metrics = [*experiment.metrics.metrics, *([experiment.stopping.metric] if experiment.stopping else [])]
    metrics += [metric for model in experiment.models.values() for metric in model.ranker.metrics()]
    names += [metric.origin or "" for metric in metrics]
    for own in {Path(name.rpartition(":")[0]) for name in names if is_own_file(name)}:
        paths |= {own, *imported_modules(own)}
    return {str(path): file_digest(path) for path in sorted(paths)}


def changed_files(files: Mapping[str, str]) -> list[str]:
    """Those of the files whose content is another here and now, or that are not there."""
    return [path for path, digest in files.items() if not Path(path).is_file() or file_digest(path) != digest]


def refuse_changed(files: Mapping[str, str]) -> None:
    """Raises UsageError where a file is not what it was when the plan was made."""
    problems = [
        Problem(path, "has changed since the command began", cure="run it again")
        for path in changed_files(files)
    ]
    if problems:
        raise UsageError(problems)
