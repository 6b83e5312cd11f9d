"""The changelog and the pages stay as short as their readers need them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_changelog_is_short() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 12 * 1024, "shorten it: details belong on the linked pages"
    assert [line for line in text.splitlines() if len(line) > 120] == []


def test_each_change_is_one_line_with_a_link() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ", 1)[1].splitlines()
    entries = [line for line in lines[1:] if line and not line.startswith("#")]
    assert [line for line in entries if not line.startswith("- ") or "](docs/" not in line] == []
