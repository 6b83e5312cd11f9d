"""The help of every command: groups, and examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import click
import pytest

from ltr_harness.cli import COMMANDS, cli

Cli = Callable[..., tuple[int, str, str]]


def commands(group: click.Group = cli, path: str = "ltr-harness") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


ALL = dict(commands())


def test_commands_stand_under_headings(ltr: Cli) -> None:
    code, out, _ = ltr("--help")
    assert code == 0
    at = [out.index(f"\n{heading}:\n") for heading in COMMANDS]
    assert at == sorted(at)
    for heading, group in COMMANDS.items():
        section = out.split(f"\n{heading}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(group)  # a line for each
    assert out.count("export  ") == 1
    assert re.search(r"export +Models", out)


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if isinstance(command, click.Group)])
def test_the_lines_of_subcommands_are_whole(ltr: Cli, path: str) -> None:
    lines = ltr(*path.split()[1:], "--help")[1].split("\nCommands:\n")[1].split("\n\n")[0].splitlines()
    assert len(lines) >= 3
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


def test_usage_names_the_command_as_it_is_typed(ltr: Cli) -> None:
    assert ltr("compare", "-h")[1].startswith("Usage: ltr-harness compare [OPTIONS] RUNS-OR-SCORES…\n")
    assert ltr("compare-sets", "-h")[1].startswith("Usage: ltr-harness compare-sets [OPTIONS] RUNS…\n")
    code, _, err = ltr("compare-sets")
    assert (code, "Missing argument 'RUNS…'" in err) == (2, True)


def test_options_that_few_need_stand_apart(ltr: Cli) -> None:
    for name, everyday in (
        ("compare", "--fail-if"),
        ("compare-sets", "--weights"),
        ("compare-labels", "--cheap"),
    ):
        first, _, rest = ltr(name, "--help")[1].partition("\nAdvanced:\n")
        assert f"\n  {everyday} " in first
        assert "\n  --draws " not in first
        assert "\n  --draws " in f"\n{rest}"
        assert "--json" in first
    assert "Advanced:" not in ltr("list", "--help")[1]


@pytest.mark.parametrize("path", ALL)
def test_a_command_has_examples_of_itself(ltr: Cli, path: str) -> None:
    code, out, _ = ltr(*path.split()[1:], "--help")
    assert code == 0
    examples = out.split("\n  Examples:\n")[1].split("\n\n")[0]
    assert f"{path}" in examples
