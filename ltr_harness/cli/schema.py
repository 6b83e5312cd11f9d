"""`ltr-harness schema`: the JSON Schema of experiment files."""

from __future__ import annotations

import click


@click.command(
    "schema",
    epilog="""\b
Example:
  ltr-harness schema > schema.json     # for editors: # yaml-language-server: $schema=./schema.json
""",
)
def command() -> int:
    """Print the JSON Schema of experiment files."""
    import json

    from ltr_harness.config.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
