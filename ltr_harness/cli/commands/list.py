"""`ltr-harness list`: what names exist."""

import inspect

import click

from ltr_harness._util.catalog import load_target
from ltr_harness.cli import options
from ltr_harness.cli.output import say

CATALOGS = {
    "metrics": "ltr_harness.metrics.table:catalog",
    "rankers": "ltr_harness.models.table:catalog",
    "readers": "ltr_harness.data.readers:catalog",
    "sections": "ltr_harness.experiments.config.report_parts:section_catalog",
}


@options.examples("""
  ltr-harness list metrics
  ltr-harness list rankers
""")
@click.command("list")
@click.argument("family", type=click.Choice(list(CATALOGS)))
def command(family: str) -> None:
    """List metrics, rankers, readers or report sections, with a line about each."""
    catalog = load_target(CATALOGS[family])
    names = catalog.names()
    width = max(map(len, names))
    for name in names:
        target = catalog.load(name)
        # The first line about a section is the question it answers: that of the file whose `section` it is, or its own.
        about = inspect.getmodule(target) if target.__name__ == "section" else target
        text = inspect.getdoc(about) or ""
        say(f"{name:<{width}}  {text.splitlines()[0] if text else ''}")
