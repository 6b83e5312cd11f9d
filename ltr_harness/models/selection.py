"""The choice of the features that a model learns from: by names, ids and patterns."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Self

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.errors import Problem, RankerError

FeatureName = int | str


def is_pattern(name: FeatureName) -> bool:
    """Return whether a name may stand for several features, as ``ctr_*`` does."""
    return any(character in str(name) for character in "*?[")


def matches(name: FeatureName, entries: Sequence[FeatureName]) -> bool:
    """Return whether one of the entries is this feature's name or a pattern that fits it."""
    return any(str(entry) == str(name) or fnmatchcase(str(name), str(entry)) for entry in entries)


class FeatureSelection(NamedTuple):
    """The options `features` and `exclude` of a ranker."""

    features: tuple[FeatureName, ...] | None = None  # None for all
    exclude: tuple[FeatureName, ...] = ()

    @property
    def has_patterns(self) -> bool:
        return any(map(is_pattern, (*(self.features or ()), *self.exclude)))

    def left_out(self, names: Sequence[str]) -> list[str]:
        """Return those of a data set's features that the model must not learn from."""
        chosen = set(names if self.features is None else map(str, self.features))
        chosen -= set(map(str, self.exclude))
        return [name for name in names if name not in chosen]

    def drop_group(self, members: Sequence[FeatureName]) -> Self | None:
        """Return the selection without a group of features; None where it has none of them, or no others."""
        if self.features is None or any(map(is_pattern, self.features)):
            return self._replace(exclude=tuple(dict.fromkeys([*self.exclude, *members])))
        rest = tuple(name for name in self.features if not matches(name, members))
        return self._replace(features=rest) if rest and rest != self.features else None

    def keep_group(self, members: Sequence[FeatureName]) -> Self | None:
        """Return the selection of a group of features alone; None where it has none of them."""
        if self.features is not None and not any(map(is_pattern, self.features)):
            part = tuple(name for name in self.features if matches(name, members))
        else:
            selected = self.features or ("*",)
            part = tuple(name for name in members if is_pattern(name) or matches(name, selected))
        if not any(map(is_pattern, part)):
            part = tuple(name for name in part if not matches(name, self.exclude))
            return self._replace(features=part, exclude=()) if part else None
        return self._replace(features=part)

    def resolved(self, names: Sequence[str]) -> Self:
        """Return the selection with the names that its patterns match; RankerError for a pattern without any."""
        if not self.has_patterns:
            return self
        problems: list[Problem] = []
        exclude = tuple(_names_of("exclude", self.exclude, names, problems))
        features = self.features
        if features is not None:
            features = tuple(_names_of("features", features, names, problems))
            features = tuple(name for name in features if not matches(name, exclude))
            exclude = ()
        RankerError.refuse(problems)
        return self._replace(features=features, exclude=exclude)

    def options(self) -> Mapping[str, Any]:
        """Return the selection as options of a model; None for those that it does not need."""
        return {"features": self.features, "exclude": self.exclude or None}


def _names_of(
    field: str, entries: Sequence[FeatureName], names: Sequence[str], problems: list[Problem]
) -> Iterator[FeatureName]:
    """Yield the entries of an option, each once, and in the place of a pattern what it matches."""
    found: dict[str, FeatureName] = {}
    for entry in entries:
        if str(entry) in names or not is_pattern(entry):
            found.setdefault(str(entry), entry)
            continue
        matching = [name for name in names if fnmatchcase(name, str(entry))]
        if not matching:
            cure = did_you_mean(str(entry), names)
            problems.append(Problem(field, f"the pattern {str(entry)!r} matches no feature", cure=cure))
        found |= {name: found.get(name, name) for name in matching}
    yield from found.values()
