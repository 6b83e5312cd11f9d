"""Documentation is plain English: short sentences, without turns of phrase that readers stumbled over.

The words of the field are in CONTRIBUTING.md, "House style".
"""

import re
from pathlib import Path

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


def test_long_sentences_and_turns_of_phrase_are_found() -> None:
    assert sentences("# No\n\nOne two three. Four `x y`\nfive.\n\n- six\n- seven\n\n| a |\n") == [
        ["One", "two", "three."],
        ["Four", "Code", "five."],
        ["six"],
        ["seven"],
    ]
    assert re.search(STUMBLED, "It takes 3 s of processor.")
