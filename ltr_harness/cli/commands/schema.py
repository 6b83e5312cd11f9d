"""`ltr-harness schema`: the JSON Schema of experiment files, of report.json, or of the events of --json."""

import click

from ltr_harness.cli import options
from ltr_harness.cli.output import say


@options.examples("""
  ltr-harness schema > schema.json     # for editors: # yaml-language-server: $schema=./schema.json
  ltr-harness schema report            # what report.json holds
  ltr-harness schema events            # one line of what `run --json` writes to stderr
""")
@click.command("schema")
@click.argument("what", type=click.Choice(["experiment", "report", "events"]), default="experiment")
def command(what: str) -> int:
    """Print the JSON Schema of experiment files, of report.json, or of the events that --json writes to stderr."""
    import json

    if what == "report":
        from ltr_harness.report.json_document import schema

        document = schema()
    elif what == "events":
        from ltr_harness.cli import events

        document = events.schema()
    else:
        from ltr_harness.config.schema import json_schema

        document = json_schema()
    say(json.dumps(document, indent=2, ensure_ascii=False))
    return 0
