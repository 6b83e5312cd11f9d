"""`ltr-harness init --monitor`: a first monitoring file for a log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ltr_harness._util.files import write_whole
from ltr_harness.cli.output import echo, refuse_existing
from ltr_harness.errors import UsageError

DEFAULT = Path("monitor.yaml")


def write_monitor_file(log: Path, output: Path, given: Sequence[str]) -> None:
    """Write a configuration of `monitor` for a log, and say what was guessed; one that fails is not written."""
    from ltr_harness.experiments.config.yaml_tree import parse_yaml
    from ltr_harness.monitoring.starter import starter

    columns: dict[str, Any] = {}
    for option in given:
        role, equals, text = option.partition("=")
        if not equals or not text.strip():
            raise UsageError(f"{option}: not ROLE=COLUMN; expected such as --column timestamp=ts")
        columns[role.strip()] = parse_yaml(text, option, Path.cwd(), lines=False).as_python()
    found = starter(log, output, columns)
    for line in found.lines:
        echo(line)
    for check in found.result.log_checks:
        echo(f"{check.severity}: {check}")
    refuse_existing(output)  # reading took its time
    write_whole(output, found.text)
    echo(f"wrote {output}\nnext: ltr-harness monitor {output} --baseline GOOD_WEEKS -o report")


def output_of(context: click.Context, output: Path) -> Path:
    """The file to write: `monitor.yaml` unless one was given."""
    given = context.get_parameter_source("output") is not click.core.ParameterSource.DEFAULT
    return output if given else DEFAULT
