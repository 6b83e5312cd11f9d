"""What is wrong with a text that is not YAML, in the words of the person who has to mend it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import yaml
from yaml.reader import ReaderError

from ltr_harness.wording import count_of

_MISPLACED = ("mapping values are not allowed here", "expected <block end>, but found")


def in_words(problem: yaml.MarkedYAMLError, text: str) -> tuple[str, str, str]:
    """What was found, what was expected, and the cure.

    Example:
        >>> text = "data:\\n  reader: letor\\n    root: a"
        >>> try:
        ...     yaml.compose(text)
        ... except yaml.MarkedYAMLError as problem:
        ...     in_words(problem, text)
        ("'root' is indented by 4 spaces", '2 spaces, as in line 2', '')
    """
    what = problem.problem or problem.context or "not YAML"
    mark = problem.problem_mark or problem.context_mark
    if mark is not None and (what.startswith(_MISPLACED) or "got ':'" in what):
        lines = text.splitlines()[: mark.line + 1]
        told = _indentation(lines)
        if told is not None:
            return (*told, "")
        return f"not valid YAML: {what}", "", _cure_of_colon(lines[-1])
    if "could not find expected ':'" in what:
        return f"not valid YAML: {what}", "", "is a ':' or a space after it missing?"
    if "single document" in (problem.context or ""):
        return "not valid YAML: a second document ('---')", "", "one experiment per file"
    return f"not valid YAML: {what}", "", "indent with spaces" if "'\\t'" in what else ""


def _indentation(lines: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with the last line's indentation, and what fits; None where it is not the reason."""
    above = [
        (at, _indent(line)) for at, line in enumerate(lines[:-1], 1) if line.strip() and not _is_comment(line)
    ]
    if not above:
        return None
    here = _indent(lines[-1])
    before, deepest = above[-1]
    fitting = [(before, deepest)]
    for at, indent in reversed(above):
        if indent < fitting[-1][1]:
            fitting.append((at, indent))
    opens = lines[before - 1].split("#")[0].rstrip().endswith((":", "-"))
    if here in [indent for _, indent in fitting] or (here > deepest and opens):
        return None
    at, indent = min(fitting, key=lambda one: abs(one[1] - here))
    name = lines[-1].strip().partition(":")[0]
    return (
        f"{name!r} is indented by {count_of(here, 'space')}",
        f"{count_of(indent, 'space')}, as in line {at}",
    )


def _cure_of_colon(line: str) -> str:
    """``objective: rank: ndcg``: to YAML, a colon before a space ends a key."""
    form = re.search(r"([\w.]+): +([^\s'\"{\[,:]+): +([^\s,}\]]+)", line)
    if form is None:
        return ""
    key, first, second = form.groups()
    return f"a value with a colon and a space needs quotes; or is it {key}: {first}:{second}?"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def control_character(problem: ReaderError, text: str) -> tuple[int, str]:
    """The line of a character that YAML does not take, and what to say of it."""
    code = problem.character if isinstance(problem.character, int) else ord(problem.character)
    return text.count("\n", 0, problem.position) + 1, f"control character #x{code:02x}"


def sections(text: str) -> Iterator[str]:
    """Each top-level ``key:`` with what belongs to it, on the lines where it stands in the text."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if re.match(r"[\w'\"][^#]*:(\s|$)", line)]
    for start, end in pairwise([*starts, len(lines)]):
        yield "\n" * start + "".join(lines[start:end])
