"""The pages on statistics: short enough to be read, with sources that are cited and a table that its script makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "statistics.md").read_text(encoding="utf-8")
IN_DEPTH, SOURCES = (
    (DOCS / "maintainers" / "statistics-in-depth.md").read_text(encoding="utf-8").split("## Sources\n")
)


def test_the_page_is_short() -> None:
    assert len(PAGE.split()) <= 2000


def test_every_source_is_cited() -> None:
    names = re.findall(r"^\* ([^\W\d]+)", SOURCES, re.MULTILINE)
    assert len(names) > 10
    assert [name for name in names if name not in PAGE + IN_DEPTH] == []


def test_whoever_is_cited_is_a_source() -> None:
    cited = re.findall(
        r"([A-Z][\w-]+)(?:, [A-Z][\w-]+)*(?: & [A-Z][\w-]+)?\s(?:19|20)\d\d[;)]", PAGE + IN_DEPTH
    )
    assert len(cited) > 10
    assert [name for name in cited if name not in SOURCES] == []


def test_the_tables_worlds_are_those_of_the_script(script: Callable[[str], ModuleType]) -> None:
    worlds = script("default_test").WORLDS
    long = re.findall(r"^\| ([^|]+?)(?:\\\*)? \| [\d,]+ \| \d+\.\d/\d+ \|", IN_DEPTH, re.MULTILINE)
    assert len(long) >= 12
    assert set(long) == set(worlds)


@pytest.mark.long
def test_an_interval_that_misses_is_counted(script: Callable[[str], ModuleType]) -> None:
    """Every interval of six normal values is finite; 2 to 6 % of them miss each mean, in 150 samples."""
    low, high = script("default_test").miss_rates(lambda rng, shape: rng.normal(size=shape), 6, 150)
    assert 0.5 <= low <= high <= 8
