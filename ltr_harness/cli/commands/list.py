"""`ltr-harness list`: the names of metrics, rankers, readers and report sections."""

import inspect
from typing import Any

import click

from ltr_harness._util.catalog import load_target
from ltr_harness.cli import options
from ltr_harness.cli.output import echo

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
        echo(f"{name:<{width}}  {_first_line(catalog.load(name))}")


def _first_line(target: Any) -> str:
    """Return the first line of the docstring.

    That of a section stands at the head of its file where the function is called `section`.
    """
    documented = inspect.getmodule(target) if target.__name__ == "section" else target
    text = inspect.getdoc(documented) or ""
    return text.partition("\n")[0]
