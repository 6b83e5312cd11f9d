"""`ltr-harness data`: look at data, convert, divide and fetch it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness.cli import SuggestingGroup, data_source, options
from ltr_harness.cli.commands import data_split
from ltr_harness.cli.output import counts, say, say_note, say_notes
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.known_sets import KnownSet


@click.group(
    "data",
    cls=SuggestingGroup,
    epilog="""\b
Examples:
  ltr-harness data describe configs/quickstart.yaml
  ltr-harness data describe train.txt test.txt -o card/
  ltr-harness data convert train.txt -o train.parquet
  ltr-harness data split all.txt -o parts/ --valid 0.1 --test 0.2
  ltr-harness data list
  ltr-harness data get mslr-web30k -o data/mslr-web30k
  ltr-harness data cache --unused 30
""",
)
def command() -> None:
    """Look at ranking data, convert, divide and fetch it."""


@command.command(
    "describe",
    epilog="""\b
Examples:
  ltr-harness data describe configs/quickstart.yaml
  ltr-harness data describe train.txt vali.txt test.txt -o card/
  ltr-harness data describe rows.csv --set query=session --set label=grade --json
""",
)
@click.argument("what", nargs=-1, required=True, type=options.PATH)
@options.reader_name
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A value of the experiment, such as data.root=/data, or an option of the files' reader, such as label=grade; "
    "may be given several times.",
)
@options.output("Folder for data_card.html and .md.")
@options.as_json
def data_describe(
    what: tuple[Path, ...],
    reader_name: str | None,
    settings: tuple[str, ...],
    output: Path | None,
    as_json: bool,
) -> int:
    """Show what is in data, and what in it is suspicious.

    WHAT is an experiment's file (its splits, fold by fold) or data files, each a split, as FILE or NAME=FILE.
    """
    from ltr_harness.inspection import data_card, lint
    from ltr_harness.report.pages import card_page, card_text, write_card

    if len(what) == 1 and what[0].suffix in (".yaml", ".yml"):
        from ltr_harness.config import load_experiment
        from ltr_harness.experiment.folds import FoldReader

        experiment = load_experiment(what[0], settings, check_rankers=False)
        reader = FoldReader(experiment.data)
        sets = {name: dict(reader.read(name).splits) for name in reader.names()}
        title = f"Data of {experiment.name}"
    else:
        sets = {"all": data_source.read_splits(what, reader_name, settings)}
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


@command.command(
    "convert",
    epilog="""\b
Examples:
  ltr-harness data convert train.txt -o train.parquet
  ltr-harness data convert rows.csv --set query=session -o rows.txt.gz
  ltr-harness data convert part1.txt part2.txt -o lightgbm/rank.train --to lightgbm
""",
)
@options.files
@options.reader
@options.output("File to write.", options.PATH, required=True)
@click.option("--to", "form", help="letor, lightgbm, csv, parquet or arrow; else as the output's name says.")
def data_convert(files: tuple[Path, ...], output: Path, form: str | None, **reader: Any) -> int:
    """Write FILES, read one after the other, as one file of another format, exactly."""
    from ltr_harness.writers import write_dataset

    dataset = data_source.read_files(files, **reader)
    say_notes([*dataset.notes, *write_dataset(dataset, output, form)])
    size = counts(query=dataset.n_queries, row=dataset.n_rows, feature=dataset.n_features)
    say(f"wrote {output}: {size}")
    return 0


command.add_command(data_split.command)


@command.command("list")
def data_list() -> int:
    """List the public sets that `data get` and `data: {set: …}` know."""
    from ltr_harness.known_sets import SETS

    width = max(map(len, SETS))
    for name, known in SETS.items():
        say(f"{name:<{width}}  {known.title}")
        say(f"{'':<{width}}  {'downloaded' if known.downloads else 'by hand'}; {known.terms}")
        say(f"{'':<{width}}  {known.home}")
    return 0


@command.command(
    "get",
    epilog="""\b
Examples:
  ltr-harness data get lightgbm-example
  ltr-harness data get mslr-web30k -o /data/mslr --archive ~/Downloads/MSLR-WEB30K.zip
""",
)
@click.argument("name")
@options.output("Folder; default: data/NAME.")
@click.option(
    "--archive",
    "archives",
    multiple=True,
    type=options.PATH,
    help="Archive that you fetched: unpacked safely.",
)
def data_get(name: str, output: Path | None, archives: tuple[Path, ...]) -> int:
    """Fetch the public set NAME, or say how, and verify what is there.

    Sets whose terms a person has to accept are never downloaded: put their files into the folder, or name the
    archive, and run the command again.
    """
    from ltr_harness.known_sets import known_set
    from ltr_harness.known_sets.fetch import fetch, unpack

    known = known_set(name)
    folder = output or Path("data") / name
    say(f"{known.title}\nterms: {known.terms}\nhome page: {known.home}", err=True)
    say(f"facts: {known.sources}", err=True)
    for archive in archives:
        _compare(archive.expanduser(), known)
        for path in unpack(archive.expanduser(), folder, known.files, known.inside):
            say(f"unpacked {path}", err=True)
    for download in known.downloads:
        say(f"{download.file}: {count_of(download.size, 'byte')} from {download.url}", err=True)
        fetch(download, folder, _progress if sys.stderr.isatty() else None)
    missing = [file for file in known.files if not (folder / file).is_file()]
    if missing:
        say(known.by_hand)
        say(f"{folder} lacks {', '.join(missing[:4])}{', …' if len(missing) > 4 else ''}")
        say("put the files there, or give --archive FILE, and run the same command again to verify them")
        return 1
    _verify(known, folder)
    say(f"{folder} is complete; use it with `data: {{set: {name}, root: {folder}}}`")
    return 0


def _compare(archive: Path, known: KnownSet) -> None:
    """Say whether an archive is the published one; what is in it decides."""
    if known.archive is None or not archive.is_file():
        return
    from ltr_harness.cache import DataCache

    size = archive.stat().st_size
    if size == known.archive.size and DataCache().digest(archive) == known.archive.sha256:
        say(f"{archive} is {known.archive.file} as published", err=True)
    else:
        wanted = f"{count_of(known.archive.size, 'byte')}, SHA-256 {known.archive.sha256}"
        say_note(f"{archive} ({count_of(size, 'byte')}) is not {known.archive.file} ({wanted})")


def _verify(known: KnownSet, folder: Path) -> None:
    """Compare every file with the published one by its digest or, failing that, by what it holds; else a DataError."""
    from ltr_harness import readers
    from ltr_harness.cache import DataCache
    from ltr_harness.errors import DataError, Problem

    fields = {key: value for key, value in known.reader.items() if key != "reader"}
    reader = readers.catalog.load(known.reader["reader"], DataError).model_validate(fields)
    cache = DataCache()
    published = set()
    for file, digest in known.digests.items():
        if cache.digest(folder / file) == digest:
            published.add(file)
            say(f"{file}: the published file, byte for byte", err=True)
        else:
            say_note(f"{file} is not the published file (SHA-256 {digest})")
    found: dict[str, tuple[int, int]] = {}
    problems = []
    for files, expected in known.counts.items():
        if published.issuperset(files):
            continue
        for file in files:
            if file not in found:
                dataset = cache.read(reader, [file], folder).dataset
                found[file] = dataset.n_queries, dataset.n_rows
                say(f"{file}: {counts(query=dataset.n_queries, row=dataset.n_rows)}", err=True)
        queries, rows = (sum(found[file][i] for file in files) for i in range(2))
        if (queries, rows) != (expected.queries, expected.rows):
            problems.append(
                Problem(
                    f"{folder}: {' + '.join(files)}",
                    f"{count_of(queries, 'query')} and {count_of(rows, 'row')}",
                    f"{count_of(expected.queries, 'query')} and {count_of(expected.rows, 'row')}",
                    f"another edition of the set, or a damaged copy ({known.sources})",
                )
            )
    if problems:
        raise DataError(problems)
    checked = published.union(*known.counts, (download.file for download in known.downloads))
    say_notes(f"{file}: nothing is known to compare it with" for file in known.files if file not in checked)


def _progress(done: int, total: int) -> None:
    click.echo(f"\r{done / total:4.0%} of {total / 1e6:,.1f} MB", err=True, nl=done >= total)


@command.command(
    "cache",
    epilog="""\b
Examples:
  ltr-harness data cache
  ltr-harness data cache --unused 30
  ltr-harness data cache --clear
""",
)
@click.option(
    "--unused", type=click.IntRange(min=0), metavar="DAYS", help="Remove what was not read for so many days."
)
@click.option("--clear", is_flag=True, help="Remove everything.")
def data_cache(unused: int | None, clear: bool) -> int:
    """List the data that is kept parsed, the longest unused last, or remove some of it.

    Whatever is removed is parsed again when it is next asked for; runs that are reading it go on.
    """
    from ltr_harness.cache import kept_entries, remove_entries
    from ltr_harness.errors import UsageError
    from ltr_harness.files import cache_folder
    from ltr_harness.readers.files import in_words

    if clear and unused is not None:
        raise UsageError("--clear and --unused; expected one of them")
    folder = cache_folder()
    if folder is None:
        say("the data cache is off (LTR_HARNESS_CACHE=off)")
        return 0
    now = time.time()
    entries = kept_entries(folder)
    if clear or unused is not None:
        chosen = [entry for entry in entries if clear or now - entry.used > (unused or 0) * 86_400]
        remove_entries(folder, chosen, everything=clear)
        freed = sum(entry.size for entry in chosen)
        say(f"removed {len(chosen):,} of {count_of(len(entries), 'entry')}, {in_words(freed)}: {folder}")
        return 0
    for entry in entries:
        days = int((now - entry.used) // 86_400)
        read = "today" if days <= 0 else f"{count_of(days, 'day')} ago"
        say(f"{in_words(entry.size):>9}  {read:>14}  {entry.title}")
    total = sum(entry.size for entry in entries)
    say(f"{count_of(len(entries), 'entry')}, {in_words(total)}: {folder}")
    return 0
