"""Objectives of boosted rankers: names, metrics as objectives, grades as classes, CatBoost's own, cautions.

CatBoost reads over a parameter that it does not know in three of its losses, and over some that it knows; one it does
not survive. What is known here was seen by training with and without each (tests/models/test_catboost_losses.py).
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Self

import numpy as np
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic.dataclasses import dataclass as validated_dataclass

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.number_text import plain_number
from ltr_harness._util.text import count_of
from ltr_harness.boosting.swap_gradients import MetricObjective, require_order
from ltr_harness.data.arrays import Floats
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import Caution, MetricError, Problem
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.binding import MAKE_GRADES
from ltr_harness.metrics.core.gains import gains_of
from ltr_harness.models.ranker import TrainingFacts
from ltr_harness.models.tree_model import as_number

# Names, in small letters, for the same thing or for what stands in its place in another library.
_ALIKE = (
    *(
        set(names.split())
        for names in (
            "lambda_mart lambda_rank lambdamart lambdarank ndcg rank:ndcg yetirank",
            "rank:xendcg rank_xendcg xe_ndcg xe_ndcg_mart xendcg xendcg_mart",
            "pairlogit pairwise rank:pairwise ranknet",
            "lambdamap map rank:map",
            "mcrank multi:softmax multi:softprob multiclass softmax",
            "l2 mse pointwise queryrmse reg:linear reg:squarederror regression regression_l2 rmse",
            "l1 mae reg:absoluteerror regression_l1",
            "binary binary:logistic logistic logloss",
            "cross_entropy crossentropy reg:logistic xentropy",
            "huber reg:pseudohubererror",
            "quantile reg:quantileerror",
            "expectile reg:expectileerror",
        )
    ),
    *({name, f"reg:{name}", f"count:{name}"} for name in ("gamma", "poisson", "tweedie")),
)

_WHY_NOT = {
    "its labels are times until an event": "survival:aft survival:cox Cox SurvivalAft",
    "each grade's trees are trained alone, and its probabilities of the grades do not sum to 1": """
        multiclassova MultiClassOneVsAll""",
    "it predicts several numbers for a row, and a ranker has one score": """
        MultiQuantile MultiRMSE MultiRMSEWithMissingValues MultiLogloss MultiCrossEntropy RMSEWithUncertainty""",
    "it cuts lists and does not order them": "StochasticFilter",
    "CatBoost trains it on a GPU alone": "QueryCrossEntropy",
}
_REFUSED: Final = {name: why for why, names in _WHY_NOT.items() for name in names.split()}
"""Objectives of the libraries that no ranker can have, and why."""


def objective_problems(objective: str, known_objectives: Collection[str]) -> list[Problem]:
    """Unknown objective: the problem, with the one that was probably meant."""
    if objective in known_objectives:
        return []
    if objective in _REFUSED:
        return [Problem("objective", f"{objective} is not available: {_REFUSED[objective]}")]
    similar_names: set[str] = next((names for names in _ALIKE if objective.lower() in names), set())
    meant = next((name for name in known_objectives if name.lower() in similar_names), "")
    if not meant:
        with suppress(MetricError):
            metric = parse_metric(objective)
            expected = f"{{metric: {metric}}}, or one of {', '.join(sorted(known_objectives))}"
            return [Problem("objective", f"{objective!r} is a metric", expected)]
    cure = did_you_mean(objective, known_objectives, dict.fromkeys(similar_names, meant))
    return [Problem("objective", f"unknown objective {objective!r}", cure=cure)]


METRIC = "{metric: …}"
"""Name of any objective that is a metric, in messages, presets and search spaces."""

MetricValue = Annotated[
    Metric,
    PlainValidator(parse_metric),
    PlainSerializer(lambda metric: metric.spelling),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "examples": ["ndcg@10", "mrr@10", "ndcg(gain=linear)@5"]},
                {"type": "object", "properties": {"metric": {"type": "string"}}, "required": ["metric"]},
            ]
        }
    ),
]


@validated_dataclass(frozen=True, config=ConfigDict(extra="forbid", arbitrary_types_allowed=True))
class MetricObjectiveConfig(MetricObjective):
    """A metric to optimise by LambdaMART, and how its pairs are weighed."""

    metric: MetricValue = Field(description="What is optimised, such as err@10; primary: whatever decides.")

    def __str__(self) -> str:
        return str(self.metric)

    def with_max_grade(self, max_grade: float | None) -> Self:
        """The same, with the scale's highest grade for a metric that takes it."""
        return replace(self, metric=self.metric.with_max_grade(max_grade))

    def problems(self, facts: TrainingFacts | None) -> list[Problem]:
        """Training labels that the metric is not defined for, or whose order it does not look at."""
        if facts is None or facts.judgments is None:
            return []
        try:
            with warnings.catch_warnings():
                # of a scale taken from the data, which is said where it is used
                warnings.simplefilter("ignore")
                require_order(self.metric.resolved(facts.judgments.pool), facts.judgments)
        except MetricError as error:
            return [Problem("objective", str(problem)) for problem in error.problems]
        return []


def parameters_of_others(objective: str, objectives: Mapping[str, Mapping[str, Any]]) -> str:
    """Parameters of the losses of other objectives alone."""
    own_parameters = objectives.get(objective, ())
    return " ".join({name for loss in objectives.values() for name in loss if name not in own_parameters})


CLASSES: Final = ("multiclass", "multi:softprob", "MultiClass")
"""Each library's name of the objective."""

_LARGEST = 31

_OF_GRADES = (
    *CLASSES, "lambdarank", "rank_xendcg", "rank:ndcg", "LambdaMart", "StochasticRank", "QuerySoftMax",
)  # fmt: skip


def value_problems(objective: str, facts: TrainingFacts | None) -> Iterator[Problem]:
    """Training labels below 0, such as returns, where an objective learns from grades."""
    judgments = None if facts is None else facts.judgments
    # of YetiRank, which then goes by the order of labels alone
    mode = objective.partition("mode=")[2] or "Classic"
    of_grades = objective.startswith(_OF_GRADES) or not mode.startswith("Classic")
    if judgments is None or judgments.lowest >= 0 or not of_grades:
        return
    found = f"{objective} needs grades; the lowest training label is {judgments.lowest:g}"
    cure = f"use a regression or a pairwise objective, or make grades: {MAKE_GRADES}"
    yield Problem("objective", found, "labels >= 0", cure)


def class_problems(objective: str, is_set: Mapping[str, bool], facts: TrainingFacts | None) -> list[Problem]:
    """Fields that mean nothing to a model of classes, and training labels that are none."""
    reasons = {
        "monotone": "it would bind the trees of each grade, and not the expected grade",
        "init_model": "only a model of the same grades can be gone on from",
        "data_parallel": "across workers a row has one score",
    }
    refused = [
        Problem(field, f"cannot be combined with the objective {objective}: {reason}", cure="leave it out")
        for field, reason in reasons.items()
        if is_set.get(field)
    ]
    if facts is None:
        return refused
    cure = "map the labels with data.grades, or use squared error"
    if facts.n_fractional:
        found = f"{objective} has a class for each grade; found {count_of(facts.n_fractional, 'fractional label')}"
        refused.append(Problem("objective", found, "integer labels", cure))
    elif facts.max_label > _LARGEST:
        found = f"{objective} grows a tree for each grade; the largest training label is {facts.max_label:g}"
        refused.append(Problem("objective", found, f"grades from 0 to at most {_LARGEST}", cure))
    elif facts.judgments is not None and facts.judgments.labels.min() == facts.max_label:
        found = f"all training labels are {facts.max_label:g}: {objective} has nothing to tell apart"
        refused.append(Problem("objective", found, "at least two grades"))
    return refused


BINARY = ("binary", "rank:map", "binary:logistic", "binary:logitraw", "binary:hinge", "Logloss", "Focal")
"""Objectives to which a row is relevant or not: `relevant` has the grade from which on it is."""

# Objectives with the labels that they take, and whether those from a smallest to a largest are such.
_LABELS: Final[tuple[tuple[str, str, Callable[[float, float], bool]], ...]] = (
    (
        "cross_entropy cross_entropy_lambda reg:logistic CrossEntropy",
        "from 0 to 1, not all 0",
        lambda low, high: low >= 0 < high <= 1,
    ),
    (
        "poisson tweedie count:poisson reg:tweedie Poisson Tweedie",
        "of at least 0, not all 0",
        lambda low, high: low >= 0 < high,
    ),
    ("gamma reg:gamma RMSPE", "above 0", lambda low, _: low > 0),
    ("reg:squaredlogerror", "above -1", lambda low, _: low > -1),
)


def tried_labels(objective: str) -> list[float]:
    """Two labels that the objective takes, for questions to its library."""
    above = any(objective in names.split() and not takes(0, 1) for names, _, takes in _LABELS)
    return [1.0, 2.0] if above else [0.0, 1.0]


def label_problems(objective: str, relevant: int | None, facts: TrainingFacts | None) -> Iterator[Problem]:
    """Training labels that the objective does not take, and a `relevant` that is missing or tells no rows apart."""
    labels = np.empty(0) if facts is None or facts.judgments is None else facts.judgments.labels
    for names, words, takes in _LABELS:
        if objective in names.split() and labels.size and not takes(labels.min(), labels.max()):
            found = f"training labels are from {labels.min():g} to {labels.max():g}"
            cure = "map them with data.grades, or use squared error"
            yield Problem("objective", found, f"labels {words}, with {objective}", cure)
    if objective in BINARY:
        yield from _threshold_problems(objective, relevant, labels, facts)
    elif relevant is not None:
        yield Problem("relevant", f"has no effect with the objective {objective}", cure="leave it out")


def _threshold_problems(
    objective: str, relevant: int | None, labels: Floats, facts: TrainingFacts | None
) -> Iterator[Problem]:
    """Yield what is wrong with the lowest label that counts as relevant in training."""
    if relevant is None:
        expected = "the lowest label that counts as relevant in training, such as relevant: 1"
        yield Problem("relevant", f"not given: {objective} has only relevant and not relevant", expected)
    elif relevant < 1:
        yield Problem("relevant", f"found {relevant}: every document would be relevant", "at least 1")
    elif facts is not None and facts.max_label < relevant:
        expected = f"at most {facts.max_label:g}, the largest label"
        yield Problem("relevant", f"no training label reaches {relevant}", expected)
    elif labels.size and labels.min() >= relevant:
        expected = f"more than {labels.min():g}, the smallest label"
        yield Problem("relevant", f"every training label reaches {relevant}", expected)


@dataclass(frozen=True)
class Optimised:
    """Depth and gains of an objective."""

    option: str  # where `depth` is set
    depth: int | None  # pairs count that have a row within this many ranks; None: all
    gain: str | None = None  # of a grade, in the spelling of metrics
    k: int | None = None  # cutoff of the metric that is optimised


def objective_cautions(optimised: Optimised, primary: Metric, max_grade: float) -> list[Caution]:
    """Cautions where training is for one thing and another decides."""
    cautions = []
    depth, n_counted = optimised.depth, max(primary.k or 0, optimised.k or 0)
    if depth is not None and depth < n_counted:
        metric_text = primary if n_counted == primary.k else f"the metric it optimises, @{n_counted},"
        ignored = f"pairs of rows below rank {depth} are ignored"
        text = f"{optimised.option} is {depth}: {ignored}, and {metric_text} counts {n_counted} ranks"
        cautions.append(Caution("truncated-objective", "warning", text))
    if optimised.k is not None and primary.k is not None and optimised.k < primary.k:
        text = f"the objective ends at rank {optimised.k}, and {primary} decides"
        cautions.append(Caution("shallow-objective", "warning", text))
    return [*cautions, *_gain_cautions(optimised, primary, max_grade)]


def _gain_cautions(optimised: Optimised, primary: Metric, max_grade: float) -> Iterator[Caution]:
    """Yield a caution where the gains of training are not in proportion to those that decide."""
    objective_gains = _gains(optimised.gain, max_grade)
    metric_gains = _gains(getattr(primary, "gain", None), max_grade)
    if objective_gains is None or metric_gains is None:
        return
    if np.allclose(objective_gains * metric_gains[-1], metric_gains * objective_gains[-1]):
        return
    objective_text, metric_text = (
        ", ".join(plain_number(float(gain)) for gain in gains) for gains in (objective_gains, metric_gains)
    )
    text = (
        f"the objective's gains of grades 0 to {max_grade:g} are {objective_text}, those of {primary} {metric_text}: "
        "another metric"
    )
    yield Caution("other-gains", "warning", text)


def stopping_cautions(stopping: Metric, primary: Metric, longest: int) -> list[Caution]:
    """Cautions where training stops on another depth than the metric that decides."""
    is_whole_list = stopping.takes_cutoff and (stopping.k is None or stopping.k >= longest)
    if not is_whole_list or primary.k is None or primary.k >= longest:
        return []
    text = (
        f"{stopping} looks at whole lists, up to {count_of(longest, 'document')}, and {primary} decides by "
        f"{primary.k}: so its best round may differ"
    )
    return [Caution("stopping-depth", "warning", text, place="stopping.metric")]


def _gains(gain: Any, max_grade: float) -> Floats | None:
    """Gains of grades 0, 1, … to the largest; None where there are none, or too many."""
    if not isinstance(gain, str) or not 1 <= max_grade <= 30 or max_grade != int(max_grade):
        return None
    grades = np.arange(max_grade + 1.0)
    try:
        return gains_of(Judgments.checked(grades, QueryGroups.from_sizes([grades.size])), gain, "gain")
    except MetricError:  # a table that ends before the largest label is refused elsewhere
        return None


_YETI = "mode top dcg_type dcg_denominator num_neighbors noise noise_power permutations decay"
_DCG = "top type denominator"
CATBOOST: Final[dict[str, str]] = {
    "YetiRank": _YETI,
    "YetiRankPairwise": _YETI,
    "LambdaMart": f"metric sigma norm {_DCG}",
    "StochasticRank": f"metric sigma mu nu num_estimations {_DCG} decay",
    "PairLogit": "max_pairs",
    "PairLogitPairwise": "max_pairs",
    "QuerySoftMax": "beta",
    "QueryRMSE": "",
    "GroupQuantile": "alpha delta",
    **dict.fromkeys(
        ["RMSE", "MAE", "MAPE", "RMSPE", "LogCosh", "Poisson", "Logloss", "CrossEntropy", "MultiClass"], ""
    ),
    "Huber": "delta",
    "Lq": "q",
    "Quantile": "alpha delta",
    "LogLinQuantile": "alpha",
    "Expectile": "alpha",
    "Tweedie": "variance_power",
    "Focal": "focal_alpha focal_gamma",
}
"""Each loss with the parameters that it reads."""
CATBOOST_POINTWISE: Final = tuple(CATBOOST)[tuple(CATBOOST).index("RMSE") :]
"""Those that look at one row at a time."""

LAMBDAMART = ("LambdaMart", METRIC)
LAMBDAMART_RIDGE = 0.01
"""CatBoost 1.2.10 has LambdaMart's gradient and hessian with the wrong sign. Newton's step, their quotient, is right as
long as hardly a ridge is added to the hessian; a gradient step goes the wrong way, and learns the worst order."""
_LARGEST_RIDGE = 0.1

_LINEAR_OR_EXP = {"linear": "Base", "exp": "Exp"}


def loss_problems(objective: str, facts: TrainingFacts | None) -> Iterator[Problem]:
    """Yield objectives that CatBoost refuses, ignores or does not survive; it checks other values itself."""
    loss, _, options = objective.partition(":")
    if loss not in CATBOOST:
        yield from objective_problems(objective if loss == "rank" else loss, CATBOOST)
        return
    entries = options.split(";") if options else []
    for entry in entries:
        yield from _entry_problems(objective, loss, entry)
    given = {name: value for name, _, value in (entry.partition("=") for entry in entries)}
    yield from _ignored_parameters(objective, loss, given)
    if loss == "StochasticRank" and given.get("metric") == "MRR" and "top" in given:
        found = f"{objective}: with top, metric=MRR ends CatBoost's process"
        yield Problem("objective", found, cure="leave out top")
    if "ERR" in (given.get("mode"), given.get("metric")) and facts is not None and facts.max_label > 1:
        yield Problem(
            "objective",
            f"{objective}: CatBoost's ERR takes labels for probabilities; the largest training label is "
            f"{facts.max_label:g}",
            "labels from 0 to 1",
            "objective: {metric: err} with LightGBM or XGBoost has the scale's grades",
        )


def _entry_problems(objective: str, loss: str, entry: str) -> Iterator[Problem]:
    """Yield the problem of one ``name=value`` of an objective."""
    name, _, value = entry.partition("=")
    parameters = CATBOOST[loss].split()
    if not value:
        cure = f"such as {loss}:{parameters[0]}=…" if parameters else f"such as {loss}"
        yield Problem("objective", f"{objective}: found {entry!r}", "name=value", cure)
    elif name not in parameters:
        cure = did_you_mean(name, parameters) if parameters else "leave it out"
        yield Problem("objective", f"{objective}: {loss} has no parameter {name!r}", cure=cure)


def _ignored_parameters(objective: str, loss: str, given: Mapping[str, str]) -> Iterator[Problem]:
    """Yield parameters that the loss has, and does not read beside others."""
    ignored, condition = list[str](), ""
    target, mode = given.get("metric", "NDCG"), given.get("mode", "Classic")
    if loss == "LambdaMart" and target in ("MRR", "MAP", "ERR"):
        ignored, condition = _DCG.split(), f"metric={target}"
    elif loss.startswith("YetiRank"):
        ignored = ["top"] if mode == "Classic" else ["decay"]
        condition = f"mode={mode}"
        if mode not in ("DCG", "NDCG"):
            ignored += ["dcg_type", "dcg_denominator"]
    for name in ignored:
        if name in given:
            found = f"{objective}: CatBoost ignores {name} with {condition}"
            yield Problem("objective", found, cure="leave it out")


def step_problems(loss: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    """Parameters (by canonical names) that reverse LambdaMart's steps."""
    if loss not in LAMBDAMART:
        return
    if as_number(given.get("l2_leaf_reg"), 0.0) > _LARGEST_RIDGE:
        reason = "CatBoost's LambdaMart has the hessian's sign wrong: a ridge moves leaves the wrong way"
        expected = f"at most {_LARGEST_RIDGE:g}; {LAMBDAMART_RIDGE:g} unless given"
        yield Problem("params.l2_leaf_reg", f"found {given['l2_leaf_reg']}: {reason}", expected)
    if given.get("leaf_estimation_method", "Newton") != "Newton":
        reason = "CatBoost's LambdaMart has the gradient's sign wrong: it would learn the worst order"
        yield Problem("params.leaf_estimation_method", reason, "Newton")


def translated(config: MetricObjectiveConfig) -> str:
    """The metric as CatBoost's LambdaMart has it; ask `translation_problems` first."""
    from ltr_harness.metrics.ndcg import NDCG

    metric = config.metric
    shared = f"sigma={config.sigma:g};norm={str(config.norm).lower()}"
    if isinstance(metric, NDCG):
        top = "" if metric.k is None else f";top={metric.k}"
        gain = _LINEAR_OR_EXP[metric.gain]
        return f"LambdaMart:metric=NDCG;type={gain};denominator=LogPosition{top};{shared}"
    return f"LambdaMart:metric={metric.name.upper()};{shared}"


def translation_problems(config: MetricObjectiveConfig, facts: TrainingFacts | None) -> list[Problem]:
    """Reasons why CatBoost has no such objective; empty where it has."""
    from ltr_harness.metrics.map import MAP
    from ltr_harness.metrics.mrr import MRR
    from ltr_harness.metrics.ndcg import NDCG

    metric, reason = config.metric, ""
    if isinstance(metric, NDCG):
        if metric.gain not in _LINEAR_OR_EXP:
            reason = "its LambdaMart has gain=exp and gain=linear, and no table"
        elif metric.discount != "log2":
            reason = "its LambdaMart has discount=log2 alone"
    elif not isinstance(metric, MRR | MAP):
        reason = "its LambdaMart has ndcg, mrr and map"  # and takes its DCG for NDCG
    elif metric.k is not None:
        reason = f"its LambdaMart has {metric.name} of whole lists alone"
    elif metric.relevant != 1 or (facts is not None and facts.n_fractional):
        reason = "every label above 0 is relevant to it"
    if reason:
        cure = "LightGBM or XGBoost optimise it; or one of CatBoost's own, such as YetiRank:mode=NDCG"
        return [Problem("objective", f"CatBoost has no objective for {metric}: {reason}", cure=cure)]
    return [
        Problem(f"objective.{name}", "CatBoost's LambdaMart has no such choice", cure="leave it out")
        for name in ("truncation_level", "weighting")
        if getattr(config, name) != getattr(MetricObjective, name)
    ]
