"""`ltr-harness data convert`: the same rows in another format."""

from __future__ import annotations

from pathlib import Path

import click

from ltr_harness.cli.data_source import read_files, reader_option, reader_options
from ltr_harness.cli.output import say
from ltr_harness.wording import count_of


@click.command(
    "convert",
    epilog="""\b
Examples:
  ltr-harness data convert train.txt -o train.parquet
  ltr-harness data convert rows.csv --set query=session -o rows.txt.gz
  ltr-harness data convert part1.txt part2.txt -o lightgbm/rank.train --to lightgbm
""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@reader_option
@reader_options
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="File to write.")
@click.option("--to", "form", help="letor, lightgbm, csv, parquet or arrow; else as the output's name says.")
def convert_command(
    files: tuple[Path, ...],
    reader_name: str | None,
    reader_options: tuple[str, ...],
    output: Path,
    form: str | None,
) -> int:
    """Write FILES, read one after the other, as one file of another format, exactly."""
    from ltr_harness.writers import write_dataset

    dataset = read_files(files, reader_name, reader_options)
    for note in (*dataset.notes, *write_dataset(dataset, output, form)):
        say(f"note: {note}", err=True)
    say(
        f"wrote {output}: {count_of(dataset.n_queries, 'query')}, {count_of(dataset.n_rows, 'row')}, "
        f"{count_of(dataset.n_features, 'feature')}"
    )
    return 0
