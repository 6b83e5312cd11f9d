"""`ltr-harness schema`: the JSON Schema of experiment files, of report.json, or of the events of --json."""

import json

import click

from ltr_harness._util.catalog import load_target
from ltr_harness.cli import options
from ltr_harness.cli.output import echo

SCHEMAS = {
    "experiment": "ltr_harness.experiments.config.json_schema:json_schema",
    "report": "ltr_harness.report.json_document:schema",
    "events": "ltr_harness.cli.json_events:schema",
}


@options.examples("""
  ltr-harness schema > schema.json     # for editors: # yaml-language-server: $schema=./schema.json
  ltr-harness schema report            # what report.json holds
  ltr-harness schema events            # one line of what `run --json` writes to stderr
""")
@click.command("schema")
@click.argument("what", type=click.Choice(list(SCHEMAS)), default="experiment")
def command(what: str) -> None:
    """Print the JSON Schema of experiment files, of report.json, or of the events that --json writes to stderr."""
    echo(json.dumps(load_target(SCHEMAS[what])(), indent=2, ensure_ascii=False))
