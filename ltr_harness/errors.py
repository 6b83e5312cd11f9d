"""Every error the harness raises on purpose, and the caution, which a result carries with it.

HarnessError                what went wrong, in the words of the person who has to mend it
├── UsageError              exit 2: nothing was run
│   ├── ConfigError         the experiment file or an option
│   ├── DataError           a data file, or arrays handed in from Python
│   ├── MetricError         a metric's name, parameter or domain
│   ├── RankerError         a model's definition: objective, parameter, limits of the library
│   ├── NotComparableError  results that must not be set side by side
│   └── MissingExtraError   an optional package that is not installed
├── TrainingError           exit 1: a model failed while training; what finished is kept
└── GateError              exit 3: a condition given with --fail-if or --max-loss does not hold
"""

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from ltr_harness._util.escapes import printable

__all__ = [
    "Caution",
    "ConfigError",
    "DataError",
    "GateError",
    "HarnessError",
    "MetricError",
    "MissingExtraError",
    "NotComparableError",
    "Problem",
    "RankerError",
    "Severity",
    "TrainingError",
    "UsageError",
]

MAIN_GUARD = (
    'in a script, call this below `if __name__ == "__main__":`, because new processes import the script'
)
"""The cure where processes that were started end before they can work."""


@dataclass(frozen=True)
class Problem:
    """One problem: its place, the finding, the expectation, the cure.

    `count` is above 1 in the last line of a long list, which stands for the problems that are not listed.

    Example:
        >>> print(Problem("exp.yaml:3", "unknown key 'sedes'", cure="did you mean 'seeds'?"))
        exp.yaml:3: unknown key 'sedes'; did you mean 'seeds'?
    """

    place: str
    found: str
    expected: str = ""
    cure: str = ""
    count: int = 1

    def __str__(self) -> str:
        head = f"{self.place}: {self.found}" if self.place else self.found
        if self.expected:
            head += f"; expected {self.expected}"
        if self.cure:
            head += f"; {self.cure}"
        return printable(head, lines=True)


class MismatchError(ValueError):
    """A validator's refusal of options that do not go together: the finding, and what is expected in its place."""

    def __init__(self, found: str, expected: str = "") -> None:
        self.found, self.expected = found, expected
        super().__init__(f"{found}; expected {expected}" if expected else found)


Severity = Literal["error", "accepted", "warning", "note"]
"""`error`: numbers mislead; `accepted`: an error that the user has accepted; `warning`: they may mislead; `note`: good
to know."""

SEVERITIES: tuple[Severity, ...] = ("error", "accepted", "warning", "note")
"""From the worst on."""


@dataclass(frozen=True)
class Caution:
    """One thing that a reader of a result should keep in mind.

    Attributes:
        kind: the name of what was looked for, such as ``query-in-two-folds``; names stay from version to version.
        severity: how much it matters, see `Severity`.
        text: what was found, and what it does to the numbers.
        cure: what to do about it; empty where nothing can or need be done.
        place: the split, fold, model, metric or log it is about; empty for the result as a whole.

    Example:
        >>> print(Caution("few-queries", "warning", "12 queries", "label more", place="test"))
        test: 12 queries; label more
    """

    kind: str
    severity: Severity
    text: str
    cure: str = ""
    place: str = ""

    def __str__(self) -> str:
        head = f"{self.place}: {self.text}" if self.place else self.text
        return f"{head}; {self.cure}" if self.cure else head


def labelled(caution: Caution) -> str:
    """Return the caution as a line, which begins with its severity where that is an error or an accepted one."""
    return f"{caution.severity}: {caution}" if caution.severity in ("error", "accepted") else str(caution)


def worst_first(cautions: Iterable[Caution]) -> list[Caution]:
    """Return the cautions by severity, each kind of severity in the order given."""
    return sorted(cautions, key=lambda caution: SEVERITIES.index(caution.severity))


# Numbers that differ between folds, splits and runs where the cause is one; those of columns' names stay.
_MEASURED = re.compile(
    r"\d+\.\d{4}|\d[\d.,]*\s?%|\d[\d,]*(?= (?:of|rows?|quer(?:y|ies))\b)|(?<= of )\d[\d,]*\b"
    r"|(?<=\()(?:\d+ runs|[^()]+, seed \d+)(?=\))"
)


def merge_by_cause(cautions: Iterable[Caution]) -> list[Caution]:
    """Return each caution once: its place names the other folds and splits that have it."""
    listed = []
    for first, *repeats in _by_cause(cautions):
        places = dict.fromkeys(caution.place for caution in repeats if caution.place != first.place)
        listed.append(replace(first, place=_joint_place(first.place, [*places])) if places else first)
    return listed


def first_by_cause(cautions: Iterable[Caution]) -> list[Caution]:
    """Return the first of the cautions that differ in numbers alone, where places name no parts of the data."""
    return [first for first, *_ in _by_cause(cautions)]


def _joint_place(place: str, repeats: Sequence[str]) -> str:
    more = f" and {len(repeats) - 2:,} more" if len(repeats) > 2 else ""
    return f"{place} (alike: {', '.join(repeats[:2])}{more})"


def _by_cause(cautions: Iterable[Caution]) -> list[list[Caution]]:
    groups: dict[tuple[object, ...], list[Caution]] = {}
    for caution in cautions:
        cause = (caution.kind, caution.severity, caution.cure, _MEASURED.sub("#", caution.text))
        groups.setdefault(cause, []).append(caution)
    return list(groups.values())


class HarnessError(Exception):
    """Base of all deliberate errors; `problems` holds every problem found, not only the first."""

    exit_code = 1

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem("", problems)
        self.problems: Sequence[Problem] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def at(cls, place: object, found: str, expected: str = "", cure: str = "") -> Self:
        """The error of one problem.

        Args:
            place: where it was found, such as a path.
            found: what was found there.
            expected: what should be there.
            cure: what to do.
        """
        return cls(Problem(str(place), found, expected, cure))

    @classmethod
    def refuse(cls, problems: Iterable[Problem]) -> None:
        """Raise the error of these problems, where there are any."""
        if found := list(problems):
            raise cls(found)

    def __reduce__(self) -> tuple[type, tuple[Sequence[Problem]]]:
        # Errors cross process boundaries; the default would rebuild them from the text.
        return type(self), (self.problems,)


class UsageError(HarnessError, ValueError):
    """Usage, configuration or data is wrong; nothing was run."""

    exit_code = 2


class ConfigError(UsageError):
    """The experiment file or a command-line option is wrong."""


class DataError(UsageError):
    """A data file or an array is wrong; the place names file and line, or the query."""


class MetricError(UsageError):
    """A metric's name, parameter or input is outside its definition."""


class RankerError(UsageError):
    """A model is described in a way its library would reject, ignore or misread."""


class NotComparableError(UsageError):
    """Results differ in K, definition, labels or queries, and must not be compared."""


class MissingExtraError(UsageError):
    """An optional package is needed; the cure is the install command."""


def optional_module(module: str, needed: str, extra: str) -> Any:
    """Import a module of an optional package; MissingExtraError where it is not there, saying what needs which."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(Problem("", needed, cure=install_line(extra))) from None


def install_line(extra: str) -> str:
    """The command that installs an extra's packages; it needs neither the clone nor the wheel."""
    import shlex

    return shlex.join(["pip", "install", *(requirements_of(extra) or [f".[{extra}]"])])


def requirements_of(extra: str) -> list[str]:
    """An extra's packages with their versions; none where the harness runs from a folder, uninstalled."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires("ltr-harness") or []
    except PackageNotFoundError:
        return []
    return [
        requirement.partition(";")[0].strip()
        for requirement in requirements
        if re.search(rf"extra == .{extra}\b", requirement)
    ]


class TrainingError(HarnessError):
    """A model failed while training."""


class GateError(HarnessError):
    """A gate given with --fail-if, --max-loss or --budget does not hold."""

    exit_code = 3


def all_of(calls: Iterable[Callable[[], Any]], kind: type[HarnessError] = DataError) -> list[Any]:
    """Return the result of each call, or raise one error of this kind with the problems of all that fail."""
    values: list[Any] = []
    problems: list[Problem] = []
    for call in calls:
        try:
            values.append(call())
        except kind as error:
            problems += error.problems
    kind.refuse(problems)
    return values
