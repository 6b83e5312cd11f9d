"""No example trains with two seeds: three measure what training itself varies, and one says that it does not."""

import re
from pathlib import Path

import pytest

WORD = "how much training itself varies is not measured"


def examples(repository: Path) -> list[tuple[str, str]]:
    """Return the lines `seeds: …` of all configurations and pages, each with its place."""
    files = [
        *(repository / "configs").glob("*.yaml"),
        *(repository / "docs").glob("*.md"),
        repository / "README.md",
    ]
    return [
        (path.name, line)
        for path in sorted(files)
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"seeds: *\[", line)
    ]


@pytest.fixture
def lines(repository: Path) -> list[tuple[str, str]]:
    return examples(repository)


def test_examples_have_three_seeds_or_say_what_one_leaves_open(lines: list[tuple[str, str]]) -> None:
    assert len(lines) > 15
    for place, line in lines:
        seeds = line.partition("[")[2].partition("]")[0].split(",")
        assert len(seeds) >= 3 or (len(seeds) == 1 and WORD in line), (place, line)


def test_every_experiment_of_the_folder_names_its_seeds(
    repository: Path, lines: list[tuple[str, str]]
) -> None:
    experiments = [
        path.name
        for path in (repository / "configs").glob("*.yaml")
        if re.search("^models:", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert set(experiments) == {place for place, _ in lines if place.endswith(".yaml")}
