"""Options and arguments that several commands share."""

import dataclasses
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.comparison.stats.method import SIMILAR_TESTS, TESTS, Method
from ltr_harness.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=click.Command)


class PathOrAddress(click.Path):
    """A path of this machine; where data is read, of an address such as ``s3://bucket/key`` that of its copy."""

    def __init__(self, *, data: bool = False, **more: bool) -> None:
        super().__init__(path_type=Path, **more)
        self._data = data

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from ltr_harness.data.addresses import is_address, local_path

        name, sign, place = ("", "", value) if is_address(value) else str(value).partition("=")
        if is_address(place):
            if not self._data:
                raise UsageError(f"{value}: is an address; expected a path of this machine")
            value = f"{name}{sign}{local_path(place)}"
        return super().convert(value, param, ctx)


def named_file(path: Path) -> tuple[str, Path]:
    """Return the name and the path of an argument ``FILE`` or ``NAME=FILE``; the name is "" where none is given."""
    name, sign, file = str(path).partition("=")
    return (name, Path(file)) if sign and not path.exists() else ("", path)


class Command(click.Command):
    """A command whose help has some options, by the names of their values, under a heading of their own."""

    def __init__(self, *arguments: Any, advanced: Collection[str] = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.advanced = advanced

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write everyday options first, then those under *Advanced*."""
        every = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        for heading, are_advanced in (("Options", False), ("Advanced", True)):
            options = [option for option in every if (option.name in self.advanced) == are_advanced]
            if lines := [line for option in options if (line := option.get_help_record(ctx)) is not None]:
                with formatter.section(heading):
                    formatter.write_dl(lines)


OF_JOINS = (
    "all_queries",
    "judged_only",
    "depth",
    "several",
    "documents_of",
    "within",
    "exclude",
    "ignore_query_itself",
)
"""How runs and qrels are joined."""

ADVANCED = frozenset(
    [
        "reader_name",
        "reader_options",
        *OF_JOINS,
        "max_grade",
        "sample",
        "test",
        "strict",
        "confidence",
        "draws",
        "seed",
        "no_ledger",
        "convention",
        "junit",
        "summary",
    ]
)
"""What few comparisons need: how data is read and joined, the statistics, and files for CI."""

PATH, DATA = PathOrAddress(), PathOrAddress(data=True)
FILE, FOLDER = PathOrAddress(dir_okay=False), PathOrAddress(file_okay=False)
COUNT = click.IntRange(min=1)

config = click.argument("config", type=PATH)
run = click.argument("run", type=PATH)
files = click.argument("files", nargs=-1, required=True, type=DATA)


def inputs(metavar: str, *, required: bool = False) -> Callable[[F], F]:
    """Files, folders or patterns of them, which the command resolves."""
    return click.argument("inputs", nargs=-1, required=required, metavar=metavar, shell_complete=_files)


def _files(_: click.Context, __: click.Parameter, typed: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(typed, type="file")]


overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="a.b=VALUE",
    help="Override one value of the configuration; may be given several times.",
)
runs = click.option(
    "--runs",
    type=FOLDER,
    default=Path("runs"),
    show_default=True,
    help="Folder that holds the experiments' run folders.",
)


def _refuse_seed(context: click.Context, option: click.Parameter, seed: str | None) -> None:
    if seed is not None:
        cure = f"--set 'seeds=[{seed}]' overrides them"
        raise UsageError(f"--seed {seed}: seeds are in the experiment's file; {cure}")


seed = click.option("--seed", "--seeds", hidden=True, expose_value=False, callback=_refuse_seed)


def flag(name: str, text: str) -> Callable[[F], F]:
    """An option that is given or not."""
    return click.option(name, is_flag=True, help=text)


quiet = click.option("-q", "--quiet", is_flag=True, help="Results and errors only.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
trust = flag("--trust", "Execute code of the run: a ranker, reader or metric from a file, a pickled model.")
accept = click.option(
    "--accept",
    multiple=True,
    metavar="LINT",
    help="Errors of this data lint are meant, such as leaking-feature; may be given several times.",
)
verify = flag("--verify", "Hash all data again, even if the cache knows the files.")
metrics = click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="METRIC",
    help="Such as ndcg@10, or ndcg(as=trec_eval)@10; several times, or separated by commas. The first decides.",
)
reader_name = click.option(
    "--reader", "reader_name", help="How to read files; guessed from their names unless given."
)
reader_options = click.option(
    "--column",
    "--reader-option",
    "reader_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A column, such as --column label=grade, or another option of the reader, such as --reader-option "
    "regroup=true; may be given several times.",
)


def examples(text: str) -> Callable[[C], C]:
    """Examples, and what else stands at the end of a command's help."""

    def add(command: C) -> C:
        command.epilog = f"\b\nExamples:{text}"
        return command

    return add


def output(text: str | None, kind: click.Path = FOLDER, **more: Any) -> Callable[[F], F]:
    """``-o``: the folder or file to write, and its help."""
    return click.option("-o", "--output", type=kind, help=text, **more)


def file(name: str, text: str, kind: click.Path = DATA, **more: Any) -> Callable[[F], F]:
    """An option that names a file."""
    return click.option(name, type=kind, metavar="FILE", help=text, **more)


def reader(command: F) -> F:
    """``--reader``, ``--column`` and ``--reader-option``: how files are read, for `data_source`."""
    return reader_name(reader_options(command))


def rows_of_run(command: F) -> F:
    """``--data`` and how to read it, for `stored_runs.loaded`."""
    return file("--data", "Labelled rows.  [default: the run's test split]")(reader(command))


several = click.option(
    "--several",
    type=click.Choice(["majority", "mean", "max", "median"]),
    help="What several judgments of a document become.  [default: an error]",
)
documents_of = click.option(
    "--documents-of",
    metavar="SEPARATOR|FILE",
    help="Runs list chunks: their document stands before the last SEPARATOR, such as '#', or in a FILE `chunk "
    "document`. It counts at its first chunk.",
)
_OF_RANKINGS = {
    "data": file("--data", "Labelled rows: LETOR, CSV, Parquet, …"),
    "reader": reader,
    "scores": file(
        "--scores",
        "Scores for --data: one number per line, .npy, or a table with query_id, row or document_id, and score or "
        "rank.",
        multiple=True,
    ),
    "qrels": file("--qrels", "Judgments: TREC, BEIR, MTEB, NTCIR, CSV, Parquet, JSON, …"),
    "run": file("--run", "Ranking for --qrels: TREC, MS MARCO, MTEB, CSV, Parquet, JSON, …", multiple=True),
    "all_queries": flag(
        "--all-queries", "Queries of the qrels that a run lacks count as empty rankings (trec_eval -c)."
    ),
    "judged_only": flag("--judged-only", "Remove unjudged documents from the runs (trec_eval -J)."),
    "depth": click.option(
        "--depth",
        type=COUNT,
        metavar="N",
        help="Look at the first N documents of each query of a run only (trec_eval -M).",
    ),
    "several": several,
    "documents_of": documents_of,
    "within": click.option(
        "--within",
        type=click.Choice(["documents", "chunks"]),
        help="What K counts with --documents-of: chunks, of which later ones of a document earn nothing.  [default: "
        "documents]",
    ),
    "exclude": file("--exclude", "Documents that count nowhere, `query document` a line (BRIGHT's rule)."),
    "ignore_query_itself": flag(
        "--ignore-query-itself", "A document whose id is the query's counts nowhere (BEIR's rule)."
    ),
    "max_grade": click.option(
        "--max-grade",
        type=float,
        metavar="GRADE",
        help="Highest grade of the scale, for ERR and similar metrics.  [default: the largest label]",
    ),
}


def rankings(*omitted: str) -> Callable[[F], F]:
    """The options that say where rankings come from; their values make a `RankingSource`."""

    def add(command: F) -> F:
        for name in reversed([name for name in _OF_RANKINGS if name not in omitted]):
            command = _OF_RANKINGS[name](command)
        return command

    return add


def score_columns(command: F) -> F:
    """``--score-column`` and ``--sample``: see `streams.ScoreColumns`."""
    sample = click.option(
        "--sample",
        type=click.IntRange(min=2),
        metavar="N",
        help="Evaluate N queries, drawn by a hash of their ids, and print the interval that this costs.",
    )
    columns = click.option(
        "--score-column",
        "score_columns",
        multiple=True,
        metavar="COLUMN",
        help="Scores in a column of --data, in place of files; several times. Tables of any size are read in batches.",
    )
    return columns(sample(command))


_OPTION_NAMES = {"reader_name": "--reader", "reader_options": "--column", "score_columns": "--score-column"}


def option_name(name: str) -> str:
    """Return the option as the user writes it, by the name of its value."""
    return _OPTION_NAMES.get(name, f"--{name.replace('_', '-')}")


_strict = flag(
    "--strict",
    "As --test bounded: for gates that decide money. It holds in every world, and its price is queries: "
    "thousands, where the default needs hundreds.",
)


class _TestChoice(click.Choice[str]):
    """The name of a test, with the nearest in the message where there is none of that name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if there is one."""
        if value not in self.choices:
            self.fail(f"unknown test {value!r}; {did_you_mean(str(value), TESTS, SIMILAR_TESTS)}", param, ctx)
        return super().convert(value, param, ctx)


def method(*names: str, omitted: str = "") -> Callable[[F], F]:
    """Add an option for each field of `Method` but one, and --strict, or for some fields; see `pop_method`."""

    def add(command: F) -> F:
        command = command if names else _strict(command)
        for option in reversed(dataclasses.fields(Method)):
            if option.name == omitted or (names and option.name not in names):
                continue
            kind: Any = type(option.default)
            if option.name == "test":
                kind = _TestChoice(list(TESTS))
            elif option.default is None:
                kind = str if "min_length" in option.metadata else float
            command = click.option(
                f"--{option.name}",
                type=kind,
                default=option.default,
                show_default=option.default is not None,
                help=option.metadata["description"],
            )(command)
        return command

    return add


baseline = click.option(
    "--baseline",
    metavar="NAME",
    help="The model the others are compared with.  [default: what an experiment declares, else the first]",
)
latency = click.option(
    "--latency",
    metavar="FILE|COLUMN",
    help="Milliseconds per query: a table with query_id and a column for each ranking, JSON, or a column of rankings "
    "that are tables. Prints p50, p95, and which ranking is worth its time.",
)
common_queries = flag("--common-queries", "Compare the queries that all have.")
summary = file(
    "--summary",
    'Append verdict, table and gates as Markdown: --summary "$GITHUB_STEP_SUMMARY".',
    FILE,
)
verbose = flag("--verbose", "Print the test, every caution and what a page folds, too.")
no_ledger = flag(
    "--no-ledger",
    "Do not count this comparison in looks.jsonl, which says how often these test queries decided.",
)


def pop_method(given: dict[str, Any]) -> Method:
    """Return the `Method` of a command's options, and remove these from all that were given."""
    names = [option.name for option in dataclasses.fields(Method)]
    chosen = {name: given.pop(name) for name in names if name in given}
    if given.pop("strict", False):
        source = click.get_current_context().get_parameter_source("test")
        if source is click.core.ParameterSource.COMMANDLINE and chosen["test"] != "bounded":
            raise UsageError(f"--strict with --test {chosen['test']}; --strict is --test bounded")
        chosen["test"] = "bounded"
    return Method(**chosen)
