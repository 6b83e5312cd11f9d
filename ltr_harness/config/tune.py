"""What `tune` searches: built-in spaces spelt out, and every option and value checked before the first trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from ltr_harness.catalog import did_you_mean
from ltr_harness.config.experiment import ModelConfig, SplitConfig
from ltr_harness.config.explain import Path
from ltr_harness.config.point import ROUNDS, model_at
from ltr_harness.config.rules import Violation
from ltr_harness.config.search import BUILT_IN, TuneConfig
from ltr_harness.config.space import Range, Space
from ltr_harness.errors import RankerError

_SPACE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Space])


def with_built_in(tune: TuneConfig, models: Mapping[str, ModelConfig]) -> TuneConfig:
    """The same with what ``built-in`` stands for, where there is something."""
    spaces = {
        name: _SPACE.validate_python(models[name].ranker.search_space()) or space
        if space == BUILT_IN and name in models
        else space
        for name, space in tune.models.items()
    }
    return tune.model_copy(update={"models": spaces})


def tune_rules(
    tune: TuneConfig,
    models: Mapping[str, ModelConfig],
    known: Mapping[str, object],
    splits: Mapping[str, SplitConfig],
    *,
    stopping: bool,
    check_rankers: bool,
) -> Iterator[Violation]:
    """What cannot be searched."""
    for name, space in tune.models.items():
        where: Path = ("tune", "models", name)
        if name not in known:
            yield where, f"tune.models: there is no model {name!r}", "", did_you_mean(name, known)
        elif name in models and space == BUILT_IN:
            found = f"tune.models.{name}: there is no built-in space for {_called(models[name])}"
            yield where, found, "a mapping such as {params.num_leaves: {low: 7, high: 127, log: true}}", ""
        elif name in models and getattr(models[name].ranker, "data_parallel", False):
            found = f"tune.models.{name}: a model that is trained across workers cannot be tuned"
            yield (
                where,
                found,
                "",
                "tune it without data_parallel, on fewer queries, and write down what was chosen",
            )
        elif name in models and not space:
            yield where, f"tune.models.{name} searches nothing", "at least one option, or built-in", ""
        elif name in models:
            assert not isinstance(space, str)
            if stopping and ROUNDS in space:
                cure = "stopping chooses the rounds of every trial; leave it out, or use `stopping: null`"
                yield (*where, ROUNDS), f"tune.models.{name}.{ROUNDS} with stopping", "one of them", cure
            else:
                yield from _refused(where, models[name], space, check_rankers)
    for fold, split in splits.items():
        if split.valid is None and tune.inner_folds is None:
            found = f"split {fold!r} has no validation data, on which tune could choose"
            cure = "add valid: {holdout: 0.2, seed: 1}, or judge trials on training queries: inner_folds: 5"
            yield ("data", "splits", fold), found, "", cure


def _refused(where: Path, config: ModelConfig, space: Mapping[str, Any], ask: bool) -> Iterator[Violation]:
    if ask and config.ranker.check():
        return  # told already, where the model stands
    for probe in probes(space):
        try:
            ranker = model_at(config, probe).ranker
            problems = ranker.check() if ask else []
        except RankerError as error:
            problems = list(error.problems)
        for problem in problems:
            at = next((option for option in space if problem.place == option), None)
            place = where if at is None else (*where, at)
            said = f"tune.models.{where[-1]}: " + (f"{problem.place}: " if problem.place else "")
            yield place, f"{said}{problem.found}", problem.expected, problem.cure


def probes(space: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Points that together try both ends of every range and every value of every list."""
    sides = {
        option: values.ends if isinstance(values, Range) else (values[0], values[-1])
        for option, values in space.items()
    }
    low, high = ({option: ends[side] for option, ends in sides.items()} for side in (0, 1))
    yield low
    if high != low:
        yield high
    for option, values in space.items():
        if not isinstance(values, Range):
            yield from ({**low, option: value} for value in values[1:-1])


def _called(config: ModelConfig) -> str:
    with_it = f" with the objective {config.objective}" if config.objective else ""
    return f"the ranker {config.ranker_name}{with_it}"
