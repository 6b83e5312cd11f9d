"""Final model: the chosen one trained again on training and validation rows, to be deployed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Any

from ltr_harness.catalog import did_you_mean
from ltr_harness.config import as_mapping
from ltr_harness.config.experiment import Experiment
from ltr_harness.errors import UsageError
from ltr_harness.runs import Run


def check_final(experiment: Experiment, model: str) -> None:
    """What can be known before anything is trained.

    Raises:
        UsageError: no such model, or its data have several folds.
    """
    if model not in experiment.models:
        raise UsageError(f"--final: {model!r} is not a model; {did_you_mean(model, experiment.models)}")
    if experiment.data.folds is not None or len(experiment.data.splits) != 1:
        raise UsageError(
            "--final: the data have several folds, and each has test queries of its own; "
            "expected one split into train, valid and test"
        )


def final_experiment(experiment: Experiment, runs: Sequence[Run], model: str) -> dict[str, Any]:
    """An experiment of the one model, which stops nowhere: it takes the rounds that stopping found.

    The median over the seeds, of two in the middle the smaller. The test queries stay unseen, so the model has a number
    of its own; it stands beside the other runs under the name ``…-final``.

    Raises:
        UsageError: no such model, none of its runs finished, it was tuned, or its data have several folds.
    """
    check_final(experiment, model)
    own = [run.record for run in runs if run.record.model == model]
    if not own:
        raise UsageError(f"--final: no run of {model} has finished; expected at least one")
    if any(record.tuning is not None for record in own):
        raise UsageError(
            f"--final: {model} was tuned, and each seed and fold may have other options; "
            "expected a model with its options written out"
        )
    plain = as_mapping(experiment)
    rounds = [record.best_round for record in own if record.best_round is not None]
    settings = plain["models"][model] | ({"rounds": int(median_low(rounds))} if rounds else {})
    ((fold, split),) = plain["data"]["splits"].items()
    valid = split.pop("valid", None)
    if isinstance(valid, list):  # a share of the training queries is among them anyway
        split["train"] = [*split["train"], *valid]
    plain["data"]["splits"] = {fold: split}
    plain.pop("tune", None)
    plain.pop("references", None)  # they are of models that saw no validation queries
    return plain | {
        "name": f"{experiment.name}-final",
        "stopping": None,
        "models": {model: settings},
        "compare": plain["compare"] | {"baseline": model},
    }
