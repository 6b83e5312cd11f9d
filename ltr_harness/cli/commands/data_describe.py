"""`ltr-harness data describe`: the data card."""

from __future__ import annotations

from pathlib import Path

import click

from ltr_harness.cli import options
from ltr_harness.cli.data_source import is_experiment, read_splits, reader_option
from ltr_harness.cli.output import say


@click.command(
    "describe",
    epilog="""\b
Examples:
  ltr-harness data describe configs/quickstart.yaml
  ltr-harness data describe train.txt vali.txt test.txt -o card/
  ltr-harness data describe rows.csv --set query=session --set label=grade --json
""",
)
@click.argument("what", nargs=-1, required=True, type=click.Path(path_type=Path))
@reader_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A value of the experiment, such as data.root=/data, or an option of the files' reader, such as label=grade; "
    "may be given several times.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for data_card.html and .md.",
)
@options.as_json
def describe_command(
    what: tuple[Path, ...],
    reader_name: str | None,
    settings: tuple[str, ...],
    output: Path | None,
    as_json: bool,
) -> int:
    """Show what is in data, and what in it is suspicious.

    WHAT is an experiment's file (its splits, fold by fold) or data files, each a split, as FILE or NAME=FILE.
    """
    import json

    from ltr_harness.inspection import data_card, lint
    from ltr_harness.report.data_card import card_page, card_text, write_card

    if is_experiment(what):
        from ltr_harness.config import load_experiment
        from ltr_harness.experiment.folds import FoldReader

        experiment = load_experiment(what[0], settings, check_rankers=False)
        reader = FoldReader(experiment.data)
        sets = {name: dict(reader.read(name).splits) for name in reader.names()}
        title = f"Data of {experiment.name}"
    else:
        sets = {"all": read_splits(what, reader_name, settings)}
        title = f"Data: {', '.join(path.name for path in what)}"
    cards = {}
    for fold, splits in sets.items():
        card = data_card(splits)
        findings = lint(card)
        if not as_json:
            if fold != "all":
                say(f"== {fold}")
            say(card_text(card, findings), nl=fold != list(sets)[-1])
        cards[fold] = card.facts() | {"findings": [vars(finding) for finding in findings]}
        if output is not None:
            whole = fold == "all"
            page = card_page(card, findings, title if whole else f"{title}, {fold}")
            for path in write_card(page, output if whole else output / fold):
                say(f"wrote {path}", err=True)
    if as_json:
        say(json.dumps(cards["all"] if list(cards) == ["all"] else cards, indent=1, allow_nan=False))
    return 0
