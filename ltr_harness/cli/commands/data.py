"""`ltr-harness data`: look at data, convert, divide and fetch it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

# Name to (module, line of help): as with the commands above this one, help imports nothing.
COMMANDS: Mapping[str, str] = {
    "describe": "ltr_harness.cli.commands.data_describe",
    "convert": "ltr_harness.cli.commands.data_convert",
    "split": "ltr_harness.cli.commands.data_split",
    "list": "ltr_harness.cli.commands.data_get",
    "get": "ltr_harness.cli.commands.data_get",
    "cache": "ltr_harness.cli.commands.data_cache",
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[name])
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from ltr_harness.catalog import did_you_mean

            raise click.UsageError(
                f"no command 'data {args[0]}'; {did_you_mean(args[0], COMMANDS)}", ctx
            ) from None


@click.group(
    "data",
    cls=_Group,
    epilog="""\b
Examples:
  ltr-harness data describe configs/quickstart.yaml
  ltr-harness data describe train.txt test.txt -o card/
  ltr-harness data convert train.txt -o train.parquet
  ltr-harness data split all.txt -o parts/ --valid 0.1 --test 0.2
  ltr-harness data list
  ltr-harness data get mslr-web30k -o data/mslr-web30k
  ltr-harness data cache --unused 30
""",
)
def command() -> None:
    """Look at ranking data, convert, divide and fetch it."""
