"""`ltr-harness completion`: complete commands and options with the Tab key."""

import click

from ltr_harness.cli import options
from ltr_harness.cli.output import echo


@options.examples("""
  eval "$(ltr-harness completion bash)"                                          # in ~/.bashrc
  eval "$(ltr-harness completion zsh)"                                           # in ~/.zshrc, after compinit
  ltr-harness completion fish > ~/.config/fish/completions/ltr-harness.fish
""")
@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options with the Tab key, for bash, zsh or fish."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click knows these three
    root = context.find_root().command
    echo(kind(root, {}, "ltr-harness", "_LTR_HARNESS_COMPLETE").source())
