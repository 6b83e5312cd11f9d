"""Every message of the project side by side: found, written in one voice and in plain English."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.test_plain_english import STUMBLED


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


ROUGH_IN_MESSAGES = "|".join(
    (
        STUMBLED,
        r"nobody\b|expected it left out|\bsays: |not asked about|\bnothing (?:says|tells)\b|\bof theirs\b|\bas which\b",
        r"\bkinds? of\b|\bwhat is\b|\bof (?:its|their|your|one's) own\b|\bother than 0\b|\bbegins of\b",
        r"(?<!there )\b(?:is|are) no (?!longer\b)|\bgone back\b|\btells? as much\b|\bfor the correlation of\b",
        r"(?:^|; )(?-i:Of|Whether|Which|How|A kind) ",  # openings
    )
)
LONGEST_PART = 35  # words of a sentence, or of a part between semicolons: a finding, an expectation or a cure
LONGEST_OF_A_FILE = 20  # of these, on average over a file


def message_parts(text: str) -> list[list[str]]:
    """The words of each sentence of a message, and of each of its parts between semicolons."""
    parts = re.split(r"(?<=[.!?])\s+|; | \| ", re.sub(r"\{[^{}]*\}", "X", text))
    return [words for part in parts if (words := re.findall(r"\w[\w'%@.+-]*", part))]


@pytest.mark.long
def test_messages_are_plain(project_messages: list[Any]) -> None:
    assert len(project_messages) > 1400
    texts = [re.sub(r"\{[^{}]*\}", "…", message.text) for message in project_messages]
    assert not [text for text in texts if re.search(ROUGH_IN_MESSAGES, text, re.IGNORECASE)]
    parts_of_file: dict[str, list[list[str]]] = {}
    for message in project_messages:
        parts_of_file.setdefault(message.file, []).extend(message_parts(message.text))
    long = {" ".join(part) for parts in parts_of_file.values() for part in parts if len(part) > LONGEST_PART}
    assert not long, "split these sentences"
    means = {file: sum(map(len, parts)) / len(parts) for file, parts in parts_of_file.items() if parts}
    assert not {file: mean for file, mean in means.items() if mean > LONGEST_OF_A_FILE}


@pytest.mark.parametrize(
    "rough",
    [
        "A kind of query can be absent",
        "label -1 is no grade",
        "feature late is other than 0 in relevant documents",
        "so that nothing says whether they are raw",
        "a name of its own for each column",
        "12 days are too few for the correlation of neighbouring days",
        "Of the rows that differ",
        "found; Whether they are raw",
    ],
)
def test_turns_of_phrase_in_messages_are_found(rough: str) -> None:
    assert re.search(ROUGH_IN_MESSAGES, rough, re.IGNORECASE)


def test_parts_of_a_message_are_counted() -> None:
    assert message_parts("label {x:g} is odd; expected one; clip it. Or not") == [
        ["label", "X", "is", "odd"], ["expected", "one"], ["clip", "it."], ["Or", "not"],
    ]  # fmt: skip
