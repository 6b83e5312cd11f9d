"""The changelog and the user's pages stay short; what only maintainers need stands in docs/maintainers."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USERS_PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not {"maintainers", "reference"} & set(page.relative_to(ROOT).parts)
]


def test_the_changelog_is_short() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 12 * 1024, "shorten it: details belong on the linked pages"
    assert [line for line in text.splitlines() if len(line) > 120] == []


def test_each_change_is_one_line_with_a_link() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ", 1)[1].splitlines()
    entries = [line for line in lines[1:] if line and not line.startswith("#")]
    assert [line for line in entries if not line.startswith("- ") or "](docs/" not in line] == []


def test_no_page_for_users_is_long() -> None:
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in USERS_PAGES}
    assert {name: count for name, count in words.items() if count > 2000} == {}
    assert sum(words.values()) <= 36_000, "move measurements and insiders' prose to docs/maintainers"


def test_users_read_nothing_of_benchmarks() -> None:
    named = [page.name for page in USERS_PAGES if "scripts/bench" in page.read_text(encoding="utf-8")]
    assert named == []
