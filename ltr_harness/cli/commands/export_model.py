"""`ltr-harness export model`: a stored model for a search engine or a runtime, verified before it is put in place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltr_harness.cli import data_source, options
from ltr_harness.cli.commands.show_model import loaded
from ltr_harness.cli.output import say
from ltr_harness.cli.tables import print_table
from ltr_harness.wording import count_of, plural

if TYPE_CHECKING:
    from ltr_harness.export.verification import Agreement, Verification


@click.command("model")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "form",
    required=True,
    metavar="FORMAT",
    help="elasticsearch, json (Vespa), onnx, opensearch, ranklib, solr or treelite; FILE.py:NAME for one of your own.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to write.",
)
@click.option(
    "--max-loss",
    type=click.FloatRange(min=0),
    help="What the metric may lose; if it loses more, nothing is written and the exit code is 3.",
)
@click.option(
    "--engine-version",
    metavar="VERSION",
    help="Of the search engine that is to read the file, such as 3.5.  [default: the newest]",
)
@click.option("-m", "--metric", help="Whose loss is measured.  [default: the experiment's primary metric]")
@data_source.rows_of_run
@data_source.reader_option
@data_source.reader_options
@options.trust
@options.as_json
def to_model(
    run: Path,
    form: str,
    output: Path,
    max_loss: float | None,
    engine_version: str | None,
    metric: str | None,
    data: Path | None,
    reader_name: str | None,
    reader_options: tuple[str, ...],
    trust: bool,
    as_json: bool,
) -> int:
    """Write RUN's model for another engine, and say whether it ranks there as it does here.

    The written file is read back and scores the test rows by the engine's own rules: in its runtime where there is a
    package of it, elsewhere in a small interpreter after its documentation.
    """
    from ltr_harness.cli.stored_runs import on_scale_of
    from ltr_harness.export.formats import catalog
    from ltr_harness.export.verification import export_model
    from ltr_harness.metrics import parse_metric
    from ltr_harness.numbers import json_value

    chosen = catalog.load(form)()
    if engine_version:
        chosen = chosen.for_engine(engine_version)
    stored, model, split = loaded(run, trust, data, reader_name, reader_options)
    (measured,) = on_scale_of(stored.record, [parse_metric(metric)] if metric else [], split.judgments)
    verification = export_model(model, split, measured, chosen, output, max_loss)
    if as_json:
        content = {
            "format": form,
            "versions": chosen.versions,
            "file": str(output),
            **json_value(verification),
            "rules": chosen.rules,
        }
        say(json.dumps(content, indent=2))
        return 0
    for name in verification.kept:
        say(
            f"{output.with_name(name)} was there with other content and stays; remove it for a new one",
            err=True,
        )
    if chosen.versions:
        say(f"{form}: read back as versions {chosen.versions} do; --engine-version names another", err=True)
    for rule in chosen.rules:
        say(f"{form}: {rule}", err=True)
    _print(verification)
    return 0


def _print(verification: Verification) -> None:
    from ltr_harness.numbers import four_decimals

    parts: dict[str, Agreement | None] = {
        "all": verification.agreement,
        "with missing values": verification.with_missing,
        "a tenth missing": verification.if_missing,
    }
    rows = [
        [
            queries,
            f"{one.n_same_order:,} of {one.n_queries:,}",
            f"{one.largest_difference:.2g}",
            four_decimals(one.here),
            four_decimals(one.there),
            "–" if math.isnan(one.difference) else f"{one.difference:+.2g}",
            "–" if math.isnan(one.low) else f"{one.low:+.2g} {one.high:+.2g}",
        ]
        for queries, one in parts.items()
        if one is not None
    ]
    name = verification.metric
    head = ["queries", "same order", "score difference", name, "there", "change"]
    print_table([*head, "95 % interval"], rows)
    overall, first = verification.agreement, verification.first
    if abs(overall.offset) > overall.largest_beside_offset:
        say(
            f"scores there differ by {overall.offset:+.6g} in the median, which moves no row, and by at most "
            f"{overall.largest_beside_offset:.2g} besides"
        )
    if verification.n_missing:
        n = verification.n_missing
        say(f"{count_of(n, 'value')} {plural('is', n)} missing")
    if first is not None:
        (a, b), (here_a, here_b), (there_a, there_b) = first.rows, first.here, first.there
        say(
            f"for example query {first.query}: row {a} ({here_a:.9g}) stands above row {b} ({here_b:.9g}) here; "
            f"there they have {there_a:.9g} and {there_b:.9g}"
        )
