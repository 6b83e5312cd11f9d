"""Every message of the project side by side: found, and written in one voice."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def collector(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("messages")


def test_messages_are_collected_into_one_file_for_reading(collector: ModuleType, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "one.py").write_text(
        "raise DataError(Problem(path, f'label {label!r} is below 0', 'grades >= 0', cure='map ' + 'them'))\n"
        "raise UsageError('both ' 'given') if twice else None\n"
        "log('not a message')\n"
    )
    found = [(message.line, message.text) for message in collector.messages(package)]
    assert found == [(1, "label {label} is below 0; grades >= 0; map them"), (2, "both given")]


def test_texts_of_variables_belong_to_the_message(collector: ModuleType, tmp_path: Path) -> None:
    """The last before the call, or those of each branch; never those of another function."""
    (tmp_path / "one.py").write_text(
        "def check(label, path):\n"
        "    found, expected = f'label {label} is below 0', 'grades >= 0'\n"
        "    cure = ''\n"
        "    if path:\n"
        "        cure = 'map them'\n"
        "    elif label:\n"
        "        cure = 'remove them'\n"
        "    problem = Problem(path, found, expected, cure)\n"
        "    found = 'is not a grade'\n"
        "    raise DataError.at(path, found)\n"
        "def other(path):\n"
        "    return Problem(path, found, 'a number or nothing')\n"
    )
    assert [(message.line, message.text) for message in collector.messages(tmp_path)] == [
        (8, "label {label} is below 0; grades >= 0; map them | remove them"),
        (10, "is not a grade"),
        (12, "a number or nothing"),
    ]


@pytest.mark.long
def test_all_messages_speak_with_one_voice(project_messages: list[Any]) -> None:
    assert len(project_messages) > 400
    wrong = {
        f"{message.file}:{message.line}: {message.text}"
        for message in project_messages
        if re.search(
            r"\binvalid\b|\billegal\b|\bplease\b|\bsorry\b|\boops\b|\bfailed to\b|!$",
            re.sub(r"\{[^{}]*\}", "…", message.text),  # what stands in braces is source, not text
            re.IGNORECASE,
        )
        # the paragraphs and hints of pages are sentences, but no other message ends in a full stop
        or (message.text.endswith(".") and message.kind not in {"Banner", "Column", "Paragraph"})
    }
    assert wrong == set()


@pytest.mark.long
def test_messages_use_standard_words(project_messages: list[Any]) -> None:
    """Words that were asked about more than once, and what is said instead."""
    instead = {
        "whole number": "integer",
        "holds nothing": "is empty",
        "comes up again": "is not contiguous",
        "say it (as|under)": "set it with",
        "list of text": "a list of files",
        "relevant row": "relevant document",
        r"(?<!there )(is|are) no (?!longer)": "is not a",
        "judgement": "judgment",
    }
    wrong = {
        f"{message.file}:{message.line}: {message.text}; say {standard}"
        for message in project_messages
        for word, standard in instead.items()
        if re.search(rf"\b{word}", re.sub(r"\{[^{}]*\}", "…", message.text))
    }
    assert wrong == set()


@pytest.mark.long
def test_counts_go_with_their_noun(project_messages: list[Any]) -> None:
    """``1 query``: a number is followed by its noun through `count_of`, which knows one from many."""
    nouns = (
        "queries|rows|features|documents|models|runs|folds|labels|scores|values|workers|trials|problems|lines"
    )
    texts_and_large = {
        "counts",
        "leaf",
        "largest",
        "n",
        "facts.largest_query",
        "rows",
        "n_points",
        "_MAX_ROWS",
        "_MOST_VALUES",
        "unit.max() + 1",
        "_FORMATS[sep]",
    }
    wrong = {
        f"{message.file}:{message.line}: {message.text}"
        for message in project_messages
        for number, _ in re.findall(rf"\{{([^{{}}]*)\}} ((?:more |such )?(?:{nouns}))\b", message.text)
        if not number.startswith("count_of") and number not in texts_and_large
    }
    assert wrong == set()
