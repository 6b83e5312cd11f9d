"""Stored runs that earlier versions trained otherwise than they should: which, what was wrong, and what to do.

A revision enters the identity and the record of the models that it concerns. All other identities stay.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from packaging.version import InvalidVersion, Version

from ltr_harness.errors import Caution
from ltr_harness.experiments.runs.record import PartRecord, Record
from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.models.tree_model import is_on

KEY: Final = "training-revisions"
"""What a model's definition has its revisions under; with its hyphen it is the name of no field."""

_CURE = "run the experiment again"


class Setting(NamedTuple):
    """The facts that decide which revisions a model has."""

    config: Mapping[str, Any]  # its definition
    watched: bool  # a rule ends its training, or a search does, by values on validation data
    metric: str  # the one that decides on validation data
    of_probabilities: bool  # whether that is a metric of probabilities


class _Revision(NamedTuple):
    number: int  # raise it when the harness trains these models differently once more
    concerns: Callable[[Setting], bool]
    text: str


_LINKED = ("binary", "cross_entropy", "cross_entropy_lambda", "poisson", "tweedie", "gamma")


def _ended_by_other_scores(setting: Setting) -> bool:
    """Return whether LightGBM showed other scores to what ended training than those that are stored."""
    config = setting.config
    is_boosted = "position_bias" in config  # a field of the boosters' rankers, those of users' own included
    # across workers, what ends training always had the stored scores
    if not is_boosted or not setting.watched or config.get("data_parallel"):
        return False
    params, objective = _params(config), config.get("objective")
    boosting = [params.get(name) for name in ("boosting", "boosting_type", "boost")]
    averages = ("rf" in boosting or "random_forest" in boosting) and objective != "multiclass"
    return objective in _LINKED or averages or is_on(params.get("reg_sqrt"))


def _weighs_by_probabilities(setting: Setting) -> bool:
    """Return whether a blend chose its weights by a metric of other probabilities than those that are reported."""
    config = setting.config
    if "how" not in config or "of" not in config or config.get("weights") is not None:
        return False
    parameters = MetricName.of(setting.metric).parameters
    is_fixed = any(parameter.startswith("temperature=") for parameter in parameters)
    return setting.of_probabilities and (config["how"] == "ranks" or not is_fixed)


_REVISIONS: Mapping[str, _Revision] = {
    "ended-by-other-scores": _Revision(
        2,
        _ended_by_other_scores,
        "training was ended by probabilities, rates or averages, not by the stored scores: another round may be better",
    ),
    "weights-of-other-probabilities": _Revision(
        2,
        _weighs_by_probabilities,
        "weights were chosen by other probabilities than those that are reported: others may be better",
    ),
}


def revisions(setting: Setting) -> dict[str, int]:
    """Return the revision of each kind that concerns a model; nothing for most."""
    concerned = {kind: revision for kind, revision in _REVISIONS.items() if revision.concerns(setting)}
    return {kind: revision.number for kind, revision in concerned.items()}


# Kinds whose identities have changed by themselves: by the seed, and by the parameters of a final model.


def _lacks_seeds(record: Record) -> bool:
    """Return whether one seed stands for all although XGBoost drew pairs by it, as it does from 3.4 on."""
    models: Iterable[Record | PartRecord] = (record, *record.parts.values())
    samples = any(_params(model.config).get("lambdarank_pair_method") == "mean" for model in models)
    try:
        version = Version(record.environment.get("xgboost", "0"))
    except InvalidVersion:
        return False
    return record.deterministic and samples and version >= Version("3.4.0")


_RATE_OF_LENGTH = ("RMSE", "Logloss", "MultiClass")
_STEPS_OF_LENGTH = (
    *("Logloss", "CrossEntropy", "Poisson", "Expectile"),
    *("PairLogit", "PairLogitPairwise", "QuerySoftMax"),
)
_RATE_IS_SET = {"learning_rate", "eta", "l2_leaf_reg", "reg_lambda", "leaf_estimation_method"}


def _has_values_of_its_length(record: Record) -> bool:
    """Return whether CatBoost may have derived other values for a final model than for the compared ones."""
    is_final = record.experiment.endswith("-final") and record.stopping is None and record.rounds is not None
    # what it derives is recorded now, and a final model has it among its parameters
    if record.ranker != "catboost" or not is_final or record.derived_params:
        return False
    loss, given = str(record.objective).partition(":")[0], record.params.keys()
    if "leaf_estimation_iterations" in given:
        return False
    # leaves take one step instead of several in less than 200 rounds on less than 20 features
    is_short = (record.rounds or 0) < 200 and record.data["train"].n_features < 20
    by_rate = loss in _RATE_OF_LENGTH and given.isdisjoint(_RATE_IS_SET)
    return by_rate or (loss in _STEPS_OF_LENGTH and is_short)


def _params(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the library's parameters in a definition, which in a stored one may be anything."""
    params = config.get("params")
    return params if isinstance(params, dict) else {}


_OUTDATED: Mapping[str, tuple[Callable[[Record], bool], str]] = {
    "one-seed-of-several": (
        _lacks_seeds,
        "one seed was trained, although XGBoost draws pairs by the seed from 3.4 on: intervals lack the seeds",
    ),
    "values-of-the-final-length": (
        _has_values_of_its_length,
        "the final model may differ from the compared ones in the learning rate or the steps of a leaf, which CatBoost "
        "derived from its own number of rounds",
    ),
}


def outdated(record: Record) -> dict[str, str]:
    """Return what was wrong with a stored run's training, by its kind; nothing for most."""
    texts = {kind: text for kind, (concerns, text) in _OUTDATED.items() if concerns(record)}
    models: Iterable[Record | PartRecord] = (record, *record.parts.values())
    for model in models:
        stored = model.config.get(KEY)
        for kind, number in revisions(_setting(model, record)).items():
            if not isinstance(stored, dict) or stored.get(kind) != number:
                texts[kind] = _REVISIONS[kind].text
    return texts


def _setting(model: Record | PartRecord, record: Record) -> Setting:
    """Return the setting of a stored run, or of a model that it is made of."""
    stopping = model.stopping
    metric = record.primary if stopping is None else stopping.metric
    is_known = MetricName.of(metric).name in ("log_loss", "brier")
    of_probabilities = is_known or metric in record.temperatures
    return Setting(model.config, stopping is not None, metric, of_probabilities)


def cautions_of(runs: Mapping[str, Iterable[Record]], cure: str = _CURE) -> list[Caution]:
    """Return a caution for each kind of outdated training, which names the models of its runs.

    Args:
        runs: the records of finished runs, by the name of their model.
        cure: what to do about them.
    """
    models: dict[str, dict[str, None]] = defaultdict(dict)
    texts: dict[str, str] = {}
    for name, records in runs.items():
        for record in records:
            for kind, text in outdated(record).items():
                models[kind][name] = None
                texts[kind] = text
    return [Caution(kind, "warning", text, cure, ", ".join(models[kind])) for kind, text in texts.items()]


def cautions_about(definition: Mapping[str, Any], place: str, cure: str) -> list[Caution]:
    """Return a caution for each revision of a model's definition."""
    return [Caution(kind, "warning", _REVISIONS[kind].text, cure, place) for kind in definition[KEY]]
