"""Documentation and messages are plain English: short sentences, without turns of phrase that readers stumbled over.

The words of the field are in CONTRIBUTING.md, "House style".
"""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = r"^ *```.*?^ *```$|<!--.*?-->"
LONGEST = 25  # words of a sentence, on average over a page
STUMBLED = "|".join(
    (
        r"of ours\b|of one's own|called as\b|too dear|its own affair|seeds? knows?\b|reads over|\bin earnest",
        r"\bhands? over\b|turns? that round|nobody knows|is said of|goes by them|bears? that\b|without a word\b",
        r"\bof processor\b|processor(?:'s)? time|(?:what|that) was (?:compared|measured|simulated) is",
        r"is no (?:default|metric of|test of)|\b(?:it|which|library|model|metric|run|log) (?:knows|asks)\b",
        r"\b(?:harness|test|report|record|ranker|monitor|comparison|command) (?:believes|knows|asks)\b",
    )
)


def sentences(page: str) -> list[list[str]]:
    """The words of each sentence of the running text: no code, tables, headings or comments."""
    text = re.sub(CODE, "\n", page, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]+`", "Code", text))
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        lines = [line for line in paragraph.splitlines() if not line.lstrip().startswith(("|", "#", ":::"))]
        for sentence in re.split(r"(?<=[.!?])[\"*)]*\s+(?=[A-Z*\"(])", " ".join(lines)):
            if words := re.findall(r"[\w'%@.+-]*\w[\w'%@.+-]*", sentence):
                found.append(words)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short_and_plain(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lengths = [len(words) for words in sentences(text)] or [0]
    assert sum(lengths) / len(lengths) <= LONGEST, f"{page.name}: split its sentences, or make a table"
    running = " ".join(re.sub(CODE, " ", text, flags=re.MULTILINE | re.DOTALL).split())
    found = re.finditer(STUMBLED, running, re.IGNORECASE)
    assert not (places := [running[max(0, one.start() - 40) : one.end() + 40] for one in found]), places


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


def test_long_sentences_and_turns_of_phrase_are_found() -> None:
    assert sentences("# No\n\nOne two three. Four `x y`\nfive.\n\n- six\n- seven\n\n| a |\n") == [
        ["One", "two", "three."],
        ["Four", "Code", "five."],
        ["six"],
        ["seven"],
    ]
    assert re.search(STUMBLED, "It takes 3 s of processor.")
