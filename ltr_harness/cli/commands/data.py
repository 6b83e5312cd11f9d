"""`ltr-harness data`: describe, convert and split data, and list public sets."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import bare_name, cache_folder, opened_for_writing, suffix_of, whole_files
from ltr_harness._util.text import count_of
from ltr_harness.cli import SuggestingGroup, data_source, options
from ltr_harness.cli.output import counts, say, say_cautions
from ltr_harness.data.known_sets import SETS
from ltr_harness.errors import Caution, DataError, UsageError, all_of, worst_first

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ltr_harness.data.dataset import RankingDataset
    from ltr_harness.data.readers.csv import Delimited
    from ltr_harness.data.readers.reader import Reader
    from ltr_harness.data.readers.table_columns import OpenedTable
    from ltr_harness.data.readers.table_reader import TableReader
    from ltr_harness.experiments.inspection.card import DataCard
    from ltr_harness.metrics import Metric

    Parts = Mapping[str, NDArray[np.int64]]


@click.group("data", cls=SuggestingGroup)
def command() -> None:
    """Describe, convert and split ranking data."""


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
    from ltr_harness.experiments.inspection import data_card
    from ltr_harness.experiments.inspection.lints import about
    from ltr_harness.report.pages import card_page, card_text, write_card

    metrics: Sequence[Metric] | None = None  # those that an experiment asks for
    if len(what) == 1 and what[0].suffix in (".yaml", ".yml"):
        from ltr_harness.experiments.config import load_experiment
        from ltr_harness.experiments.training.folds import FoldReader

        if reader_name or reader_options:
            found = f"{what[0]} with --reader or --column, which are about data files"
            raise UsageError(f"{found}; --set changes a value of it")
        experiment = load_experiment(what[0], overrides, check_rankers=False)
        metrics = experiment.metrics.metrics
        reader = FoldReader(experiment.data)
        sets = {name: dict(reader.read(name).splits) for name in reader.names()}
        title = f"Data of {experiment.name}"
    else:
        if overrides:
            found = f"--set {overrides[0]} with data files; --set changes a value of an experiment's file"
            raise UsageError(f"{found}; expected --column {overrides[0]}")
        files: dict[str, Path] = {}
        for path in what:  # by ``name=file`` or by the file's name
            label, sign, file = str(path).partition("=")
            named = bool(sign) and not path.exists()
            label = label if named else path.name
            files[label if label not in files else str(path)] = Path(file) if named else path
        # every problem of every file
        reads = [
            partial(data_source.read_files, [file], reader_name, reader_options) for file in files.values()
        ]
        sets = {"all": dict(zip(files, all_of(reads), strict=True))}
        title = f"Data: {', '.join(path.name for path in what)}"
    cards = {}
    for fold, splits in sets.items():
        card = data_card(splits)
        cautions = _findings(card, of_files=metrics is None)
        cautions = cautions if metrics is None else about(cautions, metrics)
        if not as_json:
            if fold != "all":
                say(f"== {fold}")
            say(card_text(card, cautions), nl=fold != list(sets)[-1])
        cards[fold] = card.facts() | {"cautions": list(map(asdict, cautions))}
        if output is not None:
            whole = fold == "all"
            page = card_page(card, cautions, title if whole else f"{title}, {fold}")
            for path in write_card(page, output if whole else output / fold):
                say(f"wrote {path}", err=True)
    if as_json:
        say(json.dumps(cards["all"] if list(cards) == ["all"] else cards, indent=1, allow_nan=False))


def _findings(card: DataCard, *, of_files: bool) -> list[Caution]:
    """What `check` would find, the worst first: files alone have no folds and no unit of comparisons."""
    from ltr_harness.experiments.inspection import lint
    from ltr_harness.experiments.inspection.dependence import dependence
    from ltr_harness.experiments.inspection.lints import beside_lints

    found = lint(card)
    for split in card.splits:
        of_reading = beside_lints(split.dataset.cautions)
        of_queries = dependence(split.dataset, by_time=False, unit=None) if of_files else []
        warnings = [one for one in of_reading if one.severity != "note"]
        found += [replace(one, place=split.name) for one in (*warnings, *of_queries)]
    return worst_first(found)


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
    say_cautions([*dataset.cautions, *write_dataset(dataset, output, form)])
    size = counts(query=dataset.n_queries, row=dataset.n_rows, feature=dataset.n_features)
    say(f"wrote {output}: {size}")


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
    folds: int | None,
    seed: int,
    suffix: str | None,
    **how: Any,
) -> None:
    """Divide files by query, and write the parts.

    Beside the parts stands splits.tsv: which query went where.

    Columns named here describe the query and must be the same in all its rows.
    """
    from ltr_harness.data import writers
    from ltr_harness.data.cache import DataCache
    from ltr_harness.data.readers.table_reader import TableReader

    keys = {"time": "by_time", "together": "together", "strata": "stratify"}
    given: dict[str, str] = {key: how[name] for key, name in keys.items() if how[name] is not None}
    if len(given) > 1:
        raise UsageError("--by-time, --together and --stratify exclude each other; expected at most one")
    if folds is not None and "time" in given:
        raise UsageError("--folds with --by-time: every fold would train on queries later than its test")
    shares: dict[str, float] = {part: how[part] for part in ("valid", "test") if how[part] is not None}
    if folds is None and not shares:
        raise UsageError("no split given; expected --test 0.2, with or without --valid, or --folds 5")
    if folds is not None and shares:
        raise UsageError("--folds with --valid or --test; expected one of them")
    name = reader_name or data_source.guessed_reader(files[0])
    said = reader_options
    reader = data_source.with_columns(data_source.made_reader(name, said), files[0])
    for column in given.values():
        if not isinstance(reader, TableReader) or name not in ("csv", "parquet"):
            raise UsageError(f"column {column!r}: {name} files have no columns; expected csv or parquet")
        is_there = column in (*reader.query_columns, *reader.attributes)
        if not is_there and not any(option.startswith("attributes=") for option in said):
            said = (*said, f"attributes=[{column}]")
            reader = reader.model_copy(update={"attributes": (column,)})
    dataset = DataCache().read(reader, list(map(str, files)), Path()).dataset
    form = name if name == "lightgbm" and suffix is None else None
    if suffix is None:  # .txt.gz of rows.v2.txt.gz
        suffix = Path(bare_name(files[0].name)).suffix + suffix_of(files[0].name)
    tables = tables_of(reader, files, suffix)
    for fold, parts in _divided(dataset, shares, folds, given, seed).items():
        paths = {part: output / fold / f"{part}{suffix}" for part in parts}
        if tables and isinstance(reader, TableReader):
            copy_rows(reader, tables, dataset, parts, paths)
            cautions = [writers.reader_options(said)] if said else []
        else:
            written = (writers.write_dataset(dataset.take(parts[part]), paths[part], form) for part in parts)
            cautions = list(dict.fromkeys(chain.from_iterable(written)))
        part_of: dict[int, str] = {}
        for part, queries in parts.items():
            n_rows = int(dataset.groups.sizes[queries].sum())
            part_of |= dict.fromkeys(queries.tolist(), part)
            missed = dataset.judgments.take(queries).missed
            size = counts(query=len(queries), row=n_rows)
            if missed is not None:
                size += f", {count_of(missed.labels.size, 'missed document')}"
            say(f"wrote {paths[part]}: {size}")
        say_cautions(cautions)
        assignment = next(iter(paths.values())).with_name("splits.tsv")
        with whole_files(assignment) as temporary:
            lines = (f"{dataset.groups.name(query)}\t{part_of[query]}\n" for query in sorted(part_of))
            temporary(assignment).write_text("query_id\tpart\n" + "".join(lines), encoding="utf-8")


def _divided(
    dataset: RankingDataset, shares: dict[str, float], n_folds: int | None, by: dict[str, str], seed: int
) -> dict[str, Parts]:
    """Folder to part to queries."""
    from ltr_harness.data.dataset import values_by_query
    from ltr_harness.data.splits import divided, divided_by_time, folds

    groups, keys = dataset.groups, {}
    for what, column in by.items():
        values = values_by_query(dataset, column)
        if values is None:
            near = did_you_mean(column, dataset.query_attributes)
            raise DataError(f"{column!r} is not an attribute; {near}")
        keys[what] = values
    if "time" in keys:
        return {"": divided_by_time(groups, shares, keys["time"], by["time"], dataset.source)}
    if n_folds is None:
        return {"": divided(groups, shares, seed, **keys)}
    parts, each = ("train", "valid", "test"), enumerate(folds(groups, n_folds, seed, **keys), start=1)
    return {f"fold{number}": dict(zip(parts, queries, strict=True)) for number, queries in each}


def tables_of(reader: Reader, files: Sequence[Path], suffix: str) -> list[OpenedTable]:
    """The files, opened, if they are tables whose rows can be copied into files of this suffix; else none."""
    from ltr_harness.data.readers.csv import Csv, Delimited
    from ltr_harness.data.readers.parquet import Parquet

    if not isinstance(reader, Csv | Parquet):
        return []
    tables = reader.tables(list(map(str, files)), Path())
    plain = Path(bare_name(f"part{suffix}")).suffix
    if isinstance(reader, Parquet):
        return tables if plain in (".parquet", ".pq", ".arrow", ".feather") else []
    separator = reader.separator or ("\t" if plain in (".tsv", ".tab") else ",")
    same = all(isinstance(table, Delimited) and table.separator == separator for table in tables)
    return tables if plain in (".csv", ".tsv", ".tab") and same else []


def copy_rows(
    reader: TableReader,
    tables: Sequence[OpenedTable],
    dataset: RankingDataset,
    parts: Parts,
    paths: Mapping[str, Path],
) -> None:
    """Write the rows of each part's queries as they stand, in the order of the files; all parts appear, or none."""
    import numpy as np

    from ltr_harness.data.readers.csv import Delimited
    from ltr_harness.data.readers.table_columns import TableColumns, joined

    for table in tables[1:]:
        if table.columns != tables[0].columns:
            expected = ", ".join(tables[0].columns)
            raise DataError.at(table.path, "has other columns than the first file", expected)
    number = np.full(dataset.n_queries, -1)
    for i, queries in enumerate(parts.values()):
        number[queries] = i
    if dataset.judgments.missed is not None:  # whose rows are none of the dataset's
        named = dict(zip(dataset.groups.ids.tolist(), number.tolist(), strict=True))
        rows = joined([TableColumns(table, (), {}, reader, query=reader.query_columns) for table in tables])
        of_block = np.array([named[query] for query in rows.block_ids.tolist()])
        of_row = np.repeat(of_block, np.diff(np.append(rows.block_starts, rows.file_starts[-1])))
    else:
        of_row = np.repeat(number, dataset.groups.sizes)
        if dataset.file_order is not None:
            of_row = of_row[dataset.file_order]
    with ExitStack() as stack:
        targets = [stack.enter_context(whole_files(paths[part]))(paths[part]) for part in parts]
        if texts := [table for table in tables if isinstance(table, Delimited)]:
            _copy_text(texts, of_row, targets)
            return
        import pyarrow as pa
        from pyarrow import feather, parquet

        read = [table.read([], table.columns).table for table in tables]
        whole = pa.concat_tables(read, promote_options="permissive")
        for part, target in enumerate(targets):
            of_part = whole.filter(pa.array(of_row == part))
            if target.suffix in (".arrow", ".feather"):
                feather.write_feather(of_part, target, compression="uncompressed")
            else:
                parquet.write_table(of_part, target, compression="zstd")


def _copy_text(tables: Sequence[Delimited], of_row: NDArray[np.int64], targets: Sequence[Path]) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(opened_for_writing(target, target.name)) for target in targets]
        parts = iter(of_row.tolist())
        for table in tables:
            records = table.records_as_they_stand()
            for header in islice(records, 1):
                for stream in streams if table is tables[0] else ():
                    stream.write(header)
            for record in records:
                part = next(parts, None)
                if part is None:
                    raise _unequal(table.path)
                streams[part].write(record)
        if next(parts, None) is not None:
            raise _unequal(tables[-1].path)


def _unequal(path: Path) -> DataError:
    cure = "write the parts in another format, as with --format .parquet"
    return DataError.at(path, "its rows cannot be told apart as text", cure=cure)


@options.examples("""
  ltr-harness data list
""")
@command.command("list")
def data_list() -> None:
    """List the public sets of `data: {set: …}`.

    Each with its size, its terms, where it is to be had and how its files are laid out.
    """
    width = max(map(len, SETS))
    for name, known in SETS.items():
        size = "" if known.counts is None else f"{known.counts}; "
        archive = [] if known.archive is None else [str(known.archive)]
        say(f"{name:<{width}}  {known.title}")
        for fact in (f"{size}{known.terms}", known.home, known.instructions, *archive):
            say(f"{'':<{width}}  {fact}")


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
    from ltr_harness.data.cache import kept_entries, remove_entries
    from ltr_harness.data.readers.text_files import in_words

    if clear and unused is not None:
        raise UsageError("--clear and --unused; expected one of them")
    folder = cache_folder()
    if folder is None:
        say("the data cache is off (LTR_HARNESS_CACHE=off)")
        return
    now = time.time()
    entries = kept_entries(folder)
    if clear or unused is not None:
        chosen = [entry for entry in entries if clear or now - entry.used > (unused or 0) * 86_400]
        remove_entries(folder, chosen, everything=clear)
        freed = sum(entry.size for entry in chosen)
        say(f"removed {len(chosen):,} of {count_of(len(entries), 'entry')}, {in_words(freed)}: {folder}")
        return
    for entry in entries:
        days = int((now - entry.used) // 86_400)
        read = "today" if days <= 0 else f"{count_of(days, 'day')} ago"
        say(f"{in_words(entry.size):>9}  {read:>14}  {entry.title}")
    total = sum(entry.size for entry in entries)
    say(f"{count_of(len(entries), 'entry')}, {in_words(total)}: {folder}")
