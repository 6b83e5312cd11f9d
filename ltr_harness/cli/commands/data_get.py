"""`ltr-harness data list` and `data get`: public sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltr_harness.cli.output import say
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.known_sets import KnownSet


@click.command("list")
def list_command() -> int:
    """List the public sets that `data get` and `data: {set: …}` know."""
    from ltr_harness.known_sets import SETS

    width = max(map(len, SETS))
    for name, known in SETS.items():
        say(f"{name:<{width}}  {known.title}")
        say(f"{'':<{width}}  {'downloaded' if known.downloads else 'by hand'}; {known.terms}")
        say(f"{'':<{width}}  {known.home}")
    return 0


@click.command(
    "get",
    epilog="""\b
Examples:
  ltr-harness data get lightgbm-example
  ltr-harness data get mslr-web30k -o /data/mslr --archive ~/Downloads/MSLR-WEB30K.zip
""",
)
@click.argument("name")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Folder; default: data/NAME."
)
@click.option(
    "--archive",
    "archives",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Archive that you fetched: unpacked safely.",
)
def get_command(name: str, output: Path | None, archives: tuple[Path, ...]) -> int:
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
        say(f"note: {archive} ({count_of(size, 'byte')}) is not {known.archive.file} ({wanted})", err=True)


def _verify(known: KnownSet, folder: Path) -> None:
    """Compare every file with the published one by its digest or, failing that, by what it holds.

    Raises:
        DataError: every file or fold that is another.
    """
    from ltr_harness import readers
    from ltr_harness.cache import DataCache
    from ltr_harness.errors import DataError, Problem

    options = {key: value for key, value in known.reader.items() if key != "reader"}
    reader = readers.catalog.load(known.reader["reader"], DataError).model_validate(options)
    cache = DataCache()
    published = set()
    for file, digest in known.digests.items():
        if cache.digest(folder / file) == digest:
            published.add(file)
            say(f"{file}: the published file, byte for byte", err=True)
        else:
            say(f"note: {file} is not the published file (SHA-256 {digest})", err=True)
    counts: dict[str, tuple[int, int]] = {}
    problems = []
    for files, expected in known.counts.items():
        if published.issuperset(files):
            continue
        for file in files:
            if file not in counts:
                dataset = cache.read(reader, [file], folder).dataset
                counts[file] = dataset.n_queries, dataset.n_rows
                say(
                    f"{file}: {count_of(dataset.n_queries, 'query')}, {count_of(dataset.n_rows, 'row')}",
                    err=True,
                )
        counted = tuple(sum(counts[file][i] for file in files) for i in range(2))
        if counted != (expected.queries, expected.rows):
            problems.append(
                Problem(
                    f"{folder}: {' + '.join(files)}",
                    f"{count_of(counted[0], 'query')} and {count_of(counted[1], 'row')}",
                    f"{count_of(expected.queries, 'query')} and {count_of(expected.rows, 'row')}",
                    f"another edition of the set, or a damaged copy ({known.sources})",
                )
            )
    if problems:
        raise DataError(problems)
    checked = published.union(*known.counts)
    for file in known.files:
        if file not in checked and file not in {download.file for download in known.downloads}:
            say(f"note: {file}: nothing is known to compare it with", err=True)


def _progress(done: int, total: int) -> None:
    click.echo(f"\r{done / total:4.0%} of {total / 1e6:,.1f} MB", err=True, nl=done >= total)
