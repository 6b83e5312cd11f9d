"""`ltr-harness init`: a first experiment file, for data of one's own or made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ltr_harness.cli.data_source import reader_option, reader_options
from ltr_harness.cli.output import say
from ltr_harness.wording import count_of, named

_SAID = ("leaking-feature", "outcome-feature", "id-feature", "position-feature", "inverted-label")
"""The lints of which features and labels were guessed."""


@click.command(
    "init",
    epilog="""\b
Examples:
  ltr-harness init                                     # on made-up data: runs at once
  ltr-harness init clicks.csv                          # one file: five folds by query
  ltr-harness init train.txt --valid vali.txt --test test.txt -o mine.yaml
  ltr-harness init offers.parquet --set query=request --set label=bought

\b
Never overwrites a file. Says what it guessed; then: ltr-harness check FILE, ltr-harness run FILE.
""",
)
@click.argument("train", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--valid",
    type=click.Path(path_type=Path, exists=True),
    help="Queries to stop on; else a fifth is held out.",
)
@click.option(
    "--test", type=click.Path(path_type=Path, exists=True), help="Queries to compare on; else five folds."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("experiment.yaml"),
    show_default=True,
)
@reader_option
@reader_options
def command(
    train: tuple[Path, ...],
    valid: Path | None,
    test: Path | None,
    output: Path,
    reader_name: str | None,
    reader_options: tuple[str, ...],
) -> int:
    """Write a commented experiment file.

    TRAIN is a file of labelled rows: LETOR, LibSVM, CSV, TSV, Parquet or Arrow; how to read it is guessed from its
    name, its columns and its content. Without TRAIN the experiment is about made-up data.
    """
    from ltr_harness.errors import Problem, UsageError

    if output.exists():
        raise UsageError(
            Problem(
                str(output),
                "exists already; nothing was written",
                cure="choose another name with -o",
            )
        )
    if valid is not None and test is None:
        raise UsageError(
            Problem("--valid", "given without --test", cure="name the test file too, or leave both out")
        )
    if not train:
        if valid or test or reader_name or reader_options:
            raise UsageError(
                "no training file; expected it as the argument, as in `ltr-harness init train.csv`"
            )
        text, said = _on_made_up_data(output)
    else:
        text, said = _on(train, valid, test, output, reader_name, reader_options)
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("x", encoding="utf-8") as file:
        file.write(text)
    for line in said:
        say(line)
    say(f"wrote {output}\nnext: ltr-harness check {output}\n      ltr-harness run {output}")
    return 0


def _on_made_up_data(output: Path) -> tuple[str, list[str]]:
    from ltr_harness.cli.starter import starter

    data = [
        "  reader: synthetic                # made up: grades 0 to 4, 5 to 200 rows per query; see `list readers`",
        "  n_queries: {train: 600, valid: 200, test: 300}",
    ]
    return starter(output.stem, data, None, {"feature": "match_1"}), []


def _on(
    train: tuple[Path, ...],
    valid: Path | None,
    test: Path | None,
    output: Path,
    reader_name: str | None,
    reader_options: tuple[str, ...],
) -> tuple[str, list[str]]:
    from ltr_harness.cli.data_source import guessed_reader, made_reader
    from ltr_harness.cli.starter import (
        best_single_feature,
        data_section,
        guessed_categories,
        guessed_columns,
        read_anyway,
        starter,
    )
    from ltr_harness.inspection import data_card, lint
    from ltr_harness.readers.align import check_alignment
    from ltr_harness.readers.tables import TableReader

    name = reader_name or guessed_reader(train[0])
    reader = made_reader(name, reader_options)
    options: dict[str, Any] = reader.model_dump(mode="json", exclude_unset=True)
    said = [f"reader: {name}"]
    if isinstance(reader, TableReader):
        first = reader.paths([train[0].name], train[0].parent)[0]
        table = reader.opened(first)
        columns, guessed = guessed_columns(table.columns, table.numeric_columns(), options, str(first))
        options, said = columns, said + guessed
        reader = type(reader).model_validate(options)
        if categories := guessed_categories(reader, first):
            options["categorical"] = list(categories)
            said.append(f"categorical: {', '.join(categories)}, few texts each")
            reader = type(reader).model_validate(options)
    splits = {"train": train, "valid": (valid,) if valid else (), "test": (test,) if test else ()}
    files = {split: [path.absolute() for path in paths] for split, paths in splits.items() if paths}
    rows = {}
    for split, paths in files.items():
        rows[split], scattered = read_anyway(reader, list(map(str, paths)))
        if scattered:
            options["regroup"] = True
            said.append(
                f"regroup: rows of a query do not stand together in {split}; they are brought together"
            )
        facts = rows[split]
        said.append(
            f"{split}: {count_of(facts.n_queries, 'query')}, {count_of(facts.n_rows, 'row')}, "
            f"{named('feature', facts.feature_names)}"
        )
    said += rows["train"].notes
    card = data_card({"train": rows["train"]})
    said += [str(one) for one in lint(card) if one.lint in _SAID]
    check_alignment(rows)
    best = best_single_feature(card.splits[0])
    baseline = None
    if best is not None:
        baseline = {"feature": best.name} | ({} if best.descending else {"ascending": True})
        said.append(
            f"one-feature: {best.name!r} ranks best by itself{'' if best.descending else ', the lowest first'}"
        )
    data = data_section(name, options, files, output.absolute().parent)
    return starter(output.stem, data, rows["train"], baseline, max_grade="relevance" not in options), said
