"""The section ``study:``, which shows where the next gain is, and its expansion into ordinary models."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of
from ltr_harness.data.logs.settings import one_or_many
from ltr_harness.errors import MismatchError
from ltr_harness.experiments.config.expand import models_by_origin
from ltr_harness.experiments.config.tune import ExperimentSection, list_validator, shown_value
from ltr_harness.experiments.config.yaml_tree import Node, Place, PlacedProblem, from_python
from ltr_harness.models.selection import FeatureName, FeatureSelection

MOST_GROUPS = 100
MOST_DRAWS = 100
FEWEST_SHARES = 2
"""Shares below 1 of a learning curve: with the whole, a line that can bend."""

FeatureNames = Annotated[
    tuple[FeatureName, ...],
    BeforeValidator(one_or_many, json_schema_input_type=str | tuple[FeatureName, ...]),
    list_validator(10_000),
]
QueryShare = Annotated[float, Field(gt=0, le=1)]


class FeatureGroups(ExperimentSection):
    """Features by the groups that could go together, such as those of one source."""

    groups: Annotated[dict[str, FeatureNames], list_validator(MOST_GROUPS)]
    """Group to its features: names, ids, or patterns such as ctr_*; a feature may be in several groups."""
    costs: dict[str, Annotated[float, Field(ge=0, lt=1e12)]] = Field(default_factory=dict)
    """Group to what it costs, in a unit of yours; without it, the measured latency of the models is shown."""

    @model_validator(mode="after")
    def _costs_of_groups(self) -> Self:
        unknown = sorted(self.costs.keys() - self.groups.keys())
        if unknown:
            groups = ", ".join(self.groups)
            raise MismatchError(f"study.features.costs names no group {unknown[0]!r}", f"one of {groups}")
        return self


class QueryShares(ExperimentSection):
    """Shares of the training queries, each drawn several times, for the learning curve."""

    shares: Annotated[tuple[QueryShare, ...], BeforeValidator(one_or_many), list_validator(100)]
    """Shares of the training queries, such as [0.125, 0.25, 0.5]; the whole is the model itself."""
    draws: int = Field(default=3, ge=2, le=MOST_DRAWS)
    """How often each share is drawn; a smaller share of a draw is a part of the larger one."""

    @model_validator(mode="after")
    def _enough_shares(self) -> Self:
        if len(self.below_1) < FEWEST_SHARES:
            expected = f"at least {FEWEST_SHARES} shares below 1, such as [0.125, 0.25, 0.5]"
            found = f"study.queries has {count_of(len(self.below_1), 'share')} below 1"
            raise MismatchError(found, expected)
        return self

    @property
    def below_1(self) -> tuple[float, ...]:
        """The shares that take trainings of their own, smallest first."""
        return tuple(sorted(share for share in self.shares if share < 1))


def _as_shares(value: Any) -> Any:
    return {"shares": value} if isinstance(value, list | tuple) else value


class StudyConfig(ExperimentSection):
    """Models without feature groups and on fewer training queries, which show where the next gain is."""

    of: Annotated[
        tuple[str, ...],
        BeforeValidator(one_or_many, json_schema_input_type=str | tuple[str, ...]),
        list_validator(100),
    ]
    """The model that is studied, or several; of a tuned one with its chosen options."""
    features: FeatureGroups | None = None
    """{groups: {text: [bm25, title_match], behaviour: ["ctr_*"]}}: what is each group worth, and which can go?"""
    queries: (
        Annotated[
            QueryShares,
            BeforeValidator(_as_shares, json_schema_input_type=tuple[QueryShare, ...] | QueryShares),
        ]
        | None
    ) = None
    """[0.125, 0.25, 0.5, 1], or {shares: [0.125, 0.25, 0.5], draws: 5}: would more training queries help?"""

    @model_validator(mode="after")
    def _has_questions(self) -> Self:
        if self.features is None and self.queries is None:
            raise MismatchError(
                "nothing to study", "features: {groups: {…}}, queries: [0.125, 0.25, 0.5], or both"
            )
        return self


def expand_study(tree: Node) -> tuple[Node, list[PlacedProblem]]:
    """Return the tree with the variants of `study` in `models`; or unchanged, with the problems of the study."""
    section, models = tree.mapping.get("study"), tree.mapping.get("models")
    if section is None or section.value is None:
        return tree.drop_keys("study"), []
    try:
        config = section.validated(StudyConfig)
    except ValidationError:
        return tree, []  # `build` explains what is no study at all
    if models is None or not models.mapping:
        return tree, []  # and that there are no models
    problems = list(_wrong_names(section, config, models.mapping, models_by_origin(tree)))
    entries, places = dict(models.mapping), dict(models.key_places)
    if problems:
        return tree, problems
    for studied in config.of:
        variants = _Variants(section, config, studied, models.mapping[studied], problems)
        for name, node in variants.models():
            unique = f"{name} (study)" if name in entries else name
            entries[unique] = node
            places[unique] = node.place
    if problems:
        return tree, problems
    return tree.drop_keys("study").with_entry("models", Node(entries, models.place, places)), []


def _wrong_names(
    section: Node, config: StudyConfig, models: Mapping[str, Node], points: Mapping[str, Sequence[str]]
) -> Iterator[PlacedProblem]:
    """Yield the problem of each studied name that is no model, and of each model that is a share already."""
    place = section.mapping["of"].place
    for name in config.of:
        if name not in models and name in points:
            found = f"study.of: {name!r} is swept: it became {count_of(len(points[name]), 'model')}"
            yield PlacedProblem.at(place, found, f"one of them, such as {points[name][0]!r}")
        elif name not in models:
            cure = did_you_mean(name, models)
            yield PlacedProblem.at(place, f"study.of: there is no model {name!r}", cure=cure)
        elif config.queries is not None and "training_queries" in models[name].mapping:
            found = f"study.queries: models.{name} has training_queries, a share, already"
            yield PlacedProblem.at(section.mapping["queries"].place, found, "a model of all training queries")


class _Variants:
    """The variants of one studied model: its own entry of the configuration with a few changes."""

    def __init__(
        self, section: Node, config: StudyConfig, studied: str, model: Node, problems: list[PlacedProblem]
    ) -> None:
        self._section, self._config, self._studied, self._model = section, config, studied, model
        self._problems = problems

    def models(self) -> Iterator[tuple[str, Node]]:
        """Yield the names and the nodes of all variants."""
        features, queries = self._config.features, self._config.queries
        if features is not None:
            groups = self._section.mapping["features"].mapping["groups"]
            for group, members in features.groups.items():
                yield from self._without_and_only(group, members, groups.key_places[group])
        if queries is not None:
            place = self._section.mapping["queries"].place
            for share in queries.below_1:
                for draw in range(1, queries.draws + 1):
                    name = f"{self._studied} queries={shown_value(share)} draw={draw}"
                    changes = {"training_queries": {"share": share, "draw": draw}}
                    yield name, self._variant({}, changes, place)

    def _without_and_only(
        self, group: str, members: Sequence[FeatureName], place: Place
    ) -> Iterator[tuple[str, Node]]:
        """Yield the model without a group of features, and the one with nothing else."""
        assert self._config.features is not None
        facts: dict[str, Any] = {}
        if group in self._config.features.costs:
            facts["cost"] = self._config.features.costs[group]
        selection = _selection_of(self._model)
        rest, part = selection.drop_group(members), selection.keep_group(members)
        if rest is None or part is None:
            reason = f"no feature of it is among models.{self._studied}.features"
            if part is not None:
                reason = f"without it, models.{self._studied} has no feature left"
            found = f"study.features.groups.{group}: {reason}"
            self._problems.append(PlacedProblem.at(place, found, "some of the model's features, and not all"))
            return
        yield (
            f"{self._studied} without {group}",
            self._variant({"without": [group], **facts}, rest.options(), place),
        )
        yield f"{self._studied} only {group}", self._variant({"only": group, **facts}, part.options(), place)

    def _variant(self, facts: Mapping[str, Any], changes: Mapping[str, Any], place: Place) -> Node:
        """Return the model with other options, which stand in the place that they follow from."""
        node = replace(self._model.drop_keys("variant", "point", *changes), place=place)
        for option, value in changes.items():
            if value is not None:
                node = node.with_entry(option, from_python(value, place))
        origin = Node(self._studied, self._section.mapping["of"].place)
        return node.with_entry("variant", from_python(facts, place).with_entry("of", origin))


def _selection_of(model: Node) -> FeatureSelection:
    """Return the choice of features of a model's entry; what is malformed is left for `load` to explain."""
    options = {
        name: model.mapping[name].as_python() for name in ("features", "exclude") if name in model.mapping
    }
    lists = {name: tuple(value) for name, value in options.items() if isinstance(value, list)}
    return FeatureSelection(**lists)
