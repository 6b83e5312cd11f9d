"""`ltr-harness schema`: the JSON Schema of experiment files, or of report.json."""

from __future__ import annotations

import click


@click.command(
    "schema",
    epilog="""\b
Examples:
  ltr-harness schema > schema.json     # for editors: # yaml-language-server: $schema=./schema.json
  ltr-harness schema report            # what report.json holds
""",
)
@click.argument("what", type=click.Choice(["experiment", "report"]), default="experiment")
def command(what: str) -> int:
    """Print the JSON Schema of experiment files, or of report.json."""
    import json

    if what == "report":
        from ltr_harness.report.json_document import schema

        found = schema()
    else:
        from ltr_harness.config.schema import json_schema

        found = json_schema()
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    return 0
