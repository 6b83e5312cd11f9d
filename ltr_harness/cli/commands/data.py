"""`ltr-harness data`: describe, convert and split data, compare judges, and list public sets."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.files import cache_folder
from ltr_harness._util.text import count_of
from ltr_harness.cli import SuggestingGroup, data_source, options
from ltr_harness.cli.commands import data_agreement
from ltr_harness.cli.output import counts, echo, echo_cautions
from ltr_harness.data.known_sets import SETS
from ltr_harness.errors import Caution, UsageError, all_of, worst_first

if TYPE_CHECKING:
    from ltr_harness.data.cache import KeptEntry
    from ltr_harness.data.dataset import RankingDataset
    from ltr_harness.experiments.inspection.card import DataCard
    from ltr_harness.metrics import Metric


@click.group("data", cls=SuggestingGroup)
def command() -> None:
    """Describe, convert and split data; compare judges."""


@options.examples("""
  ltr-harness data describe configs/quickstart.yaml
  ltr-harness data describe train.txt vali.txt test.txt -o card/
  ltr-harness data describe rows.csv --column query=session --column label=grade --json
""")
@command.command("describe")
@click.argument("what", nargs=-1, required=True, type=options.DATA)
@options.reader_name
@options.reader_options
@options.overrides
@options.output("Folder for data_card.html and .md.")
@options.as_json
def data_describe(
    what: tuple[Path, ...],
    reader_name: str | None,
    reader_options: tuple[str, ...],
    overrides: tuple[str, ...],
    output: Path | None,
    as_json: bool,
) -> None:
    """Show the contents of data, and what in them is suspicious.

    WHAT is an experiment's file (its splits, fold by fold) or data files, each a split, as FILE or NAME=FILE.
    """
    if len(what) == 1 and what[0].suffix in (".yaml", ".yml"):
        if reader_name or reader_options:
            found = f"{what[0]} with --reader or --column, which are about data files"
            raise UsageError(f"{found}; --set changes a value of it")
        described = _read_experiment(what[0], overrides)
    else:
        if overrides:
            found = f"--set {overrides[0]} with data files; --set changes a value of an experiment's file"
            raise UsageError(f"{found}; expected --column {overrides[0]}")
        described = _read_files(what, reader_name, reader_options)
    cards = described.cards()
    if not as_json:
        described.print(cards)
    if output is not None:
        described.write(cards, output)
    if as_json:
        contents = {fold: _card_values(*card) for fold, card in cards.items()}
        document = contents["all"] if list(contents) == ["all"] else contents
        echo(json.dumps(document, indent=1, allow_nan=False))


@dataclass(frozen=True)
class _DescribedData:
    """The splits that `describe` shows."""

    title: str
    folds: Mapping[str, Mapping[str, RankingDataset]]  # fold, or "all", to the data of its splits
    metrics: Sequence[Metric] | None  # those of an experiment; None for files

    def cards(self) -> dict[str, tuple[DataCard, list[Caution]]]:
        """Return the card and the cautions of each fold."""
        from ltr_harness.experiments.inspection import data_card

        cards = {}
        for fold, splits in self.folds.items():
            card = data_card(splits)
            cards[fold] = card, self._cautions(card)
        return cards

    def _cautions(self, card: DataCard) -> list[Caution]:
        """Return the findings of `check`, the worst first: files have neither folds nor a unit of comparisons."""
        from ltr_harness.data.logs.contract import CHECKS
        from ltr_harness.experiments.inspection import lint
        from ltr_harness.experiments.inspection.dependence import dependence
        from ltr_harness.experiments.inspection.lints import cautions_beside_lints, cautions_for_metrics

        cautions = lint(card)
        for split in card.splits:
            reading = cautions_beside_lints(split.dataset.cautions)
            # of the notes, those that a rule of relevance has on its log
            of_split = [each for each in reading if each.severity != "note" or each.kind in CHECKS]
            if self.metrics is None:
                of_split += dependence(split.dataset, by_time=False, unit=None)
            cautions += [replace(caution, place=split.name) for caution in of_split]
        cautions = worst_first(cautions)
        return cautions if self.metrics is None else cautions_for_metrics(cautions, self.metrics)

    def print(self, cards: Mapping[str, tuple[DataCard, list[Caution]]]) -> None:
        """Print each card, with an empty line between two."""
        from ltr_harness.report.pages import card_text

        for fold, card in cards.items():
            if fold != "all":
                echo(f"== {fold}")
            echo(card_text(*card), nl=fold != list(cards)[-1])

    def write(self, cards: Mapping[str, tuple[DataCard, list[Caution]]], output: Path) -> None:
        """Write the page of each card, in a folder for each fold."""
        from ltr_harness.report.pages import card_page, write_card

        for fold, card in cards.items():
            if fold == "all":
                page, folder = card_page(*card, self.title), output
            else:
                page, folder = card_page(*card, f"{self.title}, {fold}"), output / fold
            for path in write_card(page, folder):
                echo(f"wrote {path}", err=True)


def _read_experiment(path: Path, overrides: Sequence[str]) -> _DescribedData:
    from ltr_harness.experiments.config import load_experiment
    from ltr_harness.experiments.training.folds import FoldReader

    experiment = load_experiment(path, overrides, check_rankers=False)
    reader = FoldReader(experiment.data)
    folds = {name: dict(reader.read(name).splits) for name in reader.names()}
    return _DescribedData(f"Data of {experiment.name}", folds, experiment.metrics.metrics)


def _read_files(
    paths: Sequence[Path], reader_name: str | None, reader_options: Sequence[str]
) -> _DescribedData:
    """Read files, each a split, with every problem of every file."""
    files: dict[str, Path] = {}
    for path in paths:
        label, file = options.named_file(path)
        label = label or path.name
        if label in files:
            label = str(path)
        files[label] = file
    reads = [partial(data_source.read_files, [file], reader_name, reader_options) for file in files.values()]
    splits = dict(zip(files, all_of(reads), strict=True))
    return _DescribedData(f"Data: {', '.join(path.name for path in paths)}", {"all": splits}, None)


def _card_values(card: DataCard, cautions: Sequence[Caution]) -> dict[str, Any]:
    return card.facts() | {"cautions": list(map(asdict, cautions))}


command.add_command(data_agreement.command)


@options.examples("""
  ltr-harness data convert train.txt -o train.parquet
  ltr-harness data convert rows.csv --column query=session -o rows.txt.gz
  ltr-harness data convert part1.txt part2.txt -o lightgbm/rank.train --to lightgbm
  ltr-harness data convert test.txt -o truth.qrels
""")
@command.command("convert")
@options.files
@options.reader
@options.output("File to write.", options.PATH, required=True)
@click.option(
    "--to", "form", help="letor, lightgbm, csv, parquet, arrow or qrels; else as the output's name says."
)
def data_convert(files: tuple[Path, ...], output: Path, form: str | None, **reader: Any) -> None:
    """Write files as one file of another format, exactly.

    FILES are read one after the other.
    """
    from ltr_harness.data.writers import write_dataset

    dataset = data_source.read_files(files, **reader)
    echo_cautions([*dataset.cautions, *write_dataset(dataset, output, form)])
    size = counts(query=dataset.n_queries, row=dataset.n_rows, feature=dataset.n_features)
    echo(f"wrote {output}: {size}")


@options.examples("""
  ltr-harness data split all.txt -o parts/ --valid 0.1 --test 0.2
  ltr-harness data split all.txt -o folds/ --folds 5 --seed 3
  ltr-harness data split log.parquet -o parts/ --test 0.2 --by-time day
  ltr-harness data split log.parquet -o parts/ --test 0.2 --together user
  ltr-harness data split log.parquet -o folds/ --folds 5 --stratify language
""")
@command.command("split")
@options.files
@options.reader
@options.output("Folder to write to.", required=True)
@click.option("--valid", type=float, help="Share of the queries for validation.")
@click.option("--test", type=float, help="Share of the queries for testing.")
@click.option("--folds", type=int, help="Make folds instead: each query is tested once.")
@click.option(
    "--by-time", metavar="COLUMN", help="Oldest queries train, newest test: dates, times or numbers."
)
@click.option("--together", metavar="COLUMN", help="Queries of one user or session stay in one part.")
@click.option("--stratify", metavar="COLUMN", help="Each value gets its share of every part.")
@click.option("--seed", default=1, show_default=True, help="Decides which queries go where.")
@click.option(
    "--format", "suffix", help="Suffix of the files, such as .parquet; default: that of the first of FILES."
)
def data_split(
    files: tuple[Path, ...],
    reader_name: str | None,
    reader_options: tuple[str, ...],
    output: Path,
    suffix: str | None,
    **division_options: Any,
) -> None:
    """Divide files by query, and write the parts.

    Beside the parts stands splits.tsv: which query went where.

    Columns named here describe the query and must be the same in all its rows.
    """
    from ltr_harness.cli.commands.data_split import Division, split_files

    division = Division(**division_options)
    division.refuse_contradictions()
    split_files(files, reader_name, reader_options, division, output, suffix)


@options.examples("""
  ltr-harness data list
""")
@command.command("list")
def data_list() -> None:
    """List the public sets of `data: {set: …}`.

    Each with its size, its terms, where it is to be had and how its files are laid out.
    """
    width = max(map(len, SETS))
    for name, public_set in SETS.items():
        terms = public_set.terms
        if public_set.counts is not None:
            terms = f"{public_set.counts}; {terms}"
        facts = [terms, public_set.home, public_set.instructions]
        if public_set.archive is not None:
            facts.append(str(public_set.archive))
        echo(f"{name:<{width}}  {public_set.title}")
        for fact in facts:
            echo(f"{'':<{width}}  {fact}")


@options.examples("""
  ltr-harness data cache
  ltr-harness data cache --unused 30
  ltr-harness data cache --clear
""")
@command.command("cache")
@click.option(
    "--unused", type=click.IntRange(min=0), metavar="DAYS", help="Remove what was not read for so many days."
)
@options.flag("--clear", "Remove everything.")
def data_cache(unused: int | None, clear: bool) -> None:
    """List the parsed data in the cache, or remove some of it.

    The longest unused stands last.

    Removed data is parsed again when it is next read; runs that are reading it go on.
    """
    from ltr_harness.data.cache import kept_entries

    if clear and unused is not None:
        raise UsageError("--clear and --unused; expected one of them")
    folder = cache_folder()
    if folder is None:
        echo("the data cache is off (LTR_HARNESS_CACHE=off)")
        return
    entries = kept_entries(folder)
    if clear:
        _remove_entries(folder, entries, len(entries), everything=True)
    elif unused is not None:
        old = [entry for entry in entries if _days_unused(entry) > unused]
        _remove_entries(folder, old, len(entries), everything=False)
    else:
        _list_entries(folder, entries)


def _remove_entries(folder: Path, entries: Sequence[KeptEntry], n_all: int, *, everything: bool) -> None:
    from ltr_harness.data.cache import remove_entries
    from ltr_harness.data.readers.text_files import in_words

    remove_entries(folder, entries, everything=everything)
    freed = sum(entry.size for entry in entries)
    echo(f"removed {len(entries):,} of {count_of(n_all, 'entry')}, {in_words(freed)}: {folder}")


def _list_entries(folder: Path, entries: Sequence[KeptEntry]) -> None:
    from ltr_harness.data.readers.text_files import in_words

    for entry in entries:
        days = int(_days_unused(entry))
        last_read = "today" if days <= 0 else f"{count_of(days, 'day')} ago"
        echo(f"{in_words(entry.size):>9}  {last_read:>14}  {entry.title}")
    total = sum(entry.size for entry in entries)
    echo(f"{count_of(len(entries), 'entry')}, {in_words(total)}: {folder}")


def _days_unused(entry: KeptEntry) -> float:
    return (time.time() - entry.used) / 86_400
