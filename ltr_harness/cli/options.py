"""Options that several commands share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ltr_harness.errors import UsageError
from ltr_harness.stats.method import CHOICES, RETIRED, Method, method_of

F = TypeVar("F", bound=Callable[..., Any])

config = click.argument("config", type=click.Path(path_type=Path))

overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="a.b=VALUE",
    help="Override one value of the configuration; may be given several times.",
)
runs = click.option(
    "--runs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs"),
    show_default=True,
    help="Folder that holds the experiments' run folders.",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Results and errors only.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
trust = click.option(
    "--trust", is_flag=True, help="Execute code that the run names: a ranker, reader or metric from a file."
)
accept = click.option(
    "--accept",
    multiple=True,
    metavar="LINT",
    help="Errors of this data lint are meant, such as leaking-feature; may be given several times.",
)
verify = click.option(
    "--verify", is_flag=True, help="Hash all data again, even if the cache knows the files."
)


def method(command: F) -> F:
    """One option for each field of `Method`, and ``--strict``; `taken_method` puts their values together again."""
    strict = click.option(
        "--strict",
        is_flag=True,
        help="As --test bounded: for gates that decide money. It holds in every world, and its price is queries: "
        "thousands, where the default needs hundreds.",
    )
    return method_options(*(option.name for option in dataclasses.fields(Method)))(strict(command))


def method_options(*names: str) -> Callable[[F], F]:
    """The options for some fields of `Method`, in its order."""

    def add(command: F) -> F:
        for option in reversed(dataclasses.fields(Method)):
            if option.name not in names:
                continue
            words = CHOICES.get(option.name)
            kind = type(option.default)
            if option.default is None:
                kind = str if "min_length" in option.metadata else float
            said = option.metadata["description"]
            command = click.option(
                f"--{option.name}",
                type=kind,
                default=option.default,
                show_default=option.default is not None,
                help=f"{said[:-1]}: {', '.join(words)}." if words else said,
            )(command)
        for name in RETIRED.keys() - CHOICES.keys():
            command = click.option(f"--{name}", hidden=True)(command)
        return command

    return add


def taken_method(given: dict[str, Any]) -> Method:
    """The `Method` that a command's options say, taken out of all that was given."""
    names = [option.name for option in dataclasses.fields(Method)]
    chosen = {name: given.pop(name) for name in names if name in given}
    retired = {name: given.pop(name) for name in RETIRED.keys() & given.keys()}
    if given.pop("strict", False):
        source = click.get_current_context().get_parameter_source("test")
        if source is click.core.ParameterSource.COMMANDLINE and chosen["test"] != "bounded":
            raise UsageError(f"--strict with --test {chosen['test']}; --strict is --test bounded")
        chosen["test"] = "bounded"
    return method_of(chosen | {name: value for name, value in retired.items() if value is not None})
