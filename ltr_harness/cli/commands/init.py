"""`ltr-harness init`: a first experiment file, for data of one's own or made up."""

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ltr_harness._util.escapes import printable
from ltr_harness._util.files import write_whole
from ltr_harness._util.text import named
from ltr_harness.cli import data_source, options
from ltr_harness.cli.init_monitor import output_of, write_monitor_file
from ltr_harness.cli.output import counts, echo, refuse_existing
from ltr_harness.errors import Caution, DataError, HarnessError, Problem, UsageError

if TYPE_CHECKING:
    from ltr_harness.data.dataset import RankingDataset
    from ltr_harness.data.readers.reader import Reader
    from ltr_harness.data.readers.table_columns import OpenedTable
    from ltr_harness.data.readers.table_reader import TableReader
    from ltr_harness.experiments.inspection.card import DataCard, FeatureFacts

FEW_ROWS = 100  # below, a training part may have no two leaves of the preset's 20 rows
FEW_QUERIES = 2_000  # training queries up to which the preset `small` is written instead of `web`
MOST_GUESSED = 50  # different texts of a column up to which it is guessed to be a category
LARGEST_EXPONENTIAL = 31  # above this grade 2^label - 1 is no longer a gain anybody means

_SAID = (
    "leaking-feature", "outcome-feature", "id-feature", "position-feature", "inverted-label",
    "nearly-all-relevant", "single-document-queries", "equal-rows",
)  # fmt: skip
"""The lints of which columns were guessed."""

_MADE_UP = [
    "  reader: synthetic                # made up: grades 0 to 4, 5 to 200 rows per query; see `list readers`",
    "  n_queries: {train: 600, valid: 200, test: 300}",
]

_THERE = options.PathOrAddress(exists=True)
MOST_FOLDS, FEWEST_FOLDS = 5, 3


class Baselines(NamedTuple):
    """The models without training, by name, and the one that all others are compared with."""

    models: Mapping[str, Mapping[str, Any]]
    compared: str
    lines: list[str]  # for the user


@options.examples("""
  ltr-harness init                                     # on made-up data: runs at once
  ltr-harness init clicks.csv                          # one file: five folds by query
  ltr-harness init train.txt --valid vali.txt --test test.txt -o mine.yaml
  ltr-harness init offers.parquet --column query=request --column label=bought
  ltr-harness init --monitor prod.parquet              # a monitoring file for a log

\b
Never overwrites a file, and writes none that fails `check`. Says what it guessed; then: ltr-harness check FILE,
ltr-harness run FILE.
""")
@click.command("init")
@click.argument("train", nargs=-1, type=_THERE)
@click.option("--valid", type=_THERE, help="Queries to stop on; else a fifth is held out.")
@click.option("--test", type=_THERE, help="Queries to compare on; else five folds.")
@click.option(
    "--monitor",
    "log",
    type=_THERE,
    help="Write a monitoring file for this log of production, monitor.yaml unless -o names another.",
)
@options.output(None, options.FILE, default=Path("experiment.yaml"), show_default=True)
@options.accept
@options.reader
@click.pass_context
def command(
    context: click.Context,
    train: tuple[Path, ...],
    valid: Path | None,
    test: Path | None,
    log: Path | None,
    output: Path,
    accept: tuple[str, ...],
    reader_name: str | None,
    reader_options: tuple[str, ...],
) -> None:
    """Write a commented experiment file, or a monitoring file for a log.

    TRAIN is a file of labelled rows: LETOR, LibSVM, CSV, TSV, Parquet or Arrow; how to read it is guessed from its
    name, its columns and its content. Without TRAIN the experiment is about made-up data.
    """
    if log is not None:
        if any((train, valid, test, accept, reader_name)):
            raise UsageError("--monitor beside data of an experiment; expected a log, -o and --column alone")
        output = output_of(context, output)
        refuse_existing(output)
        write_monitor_file(log, output, reader_options)
        return
    refuse_existing(output)
    if valid is not None and test is None:
        cure = "name the test file too, or leave both out"
        raise UsageError.at("--valid", "given without --test", cure=cure)
    if train:
        files = {"train": train, "valid": _as_files(valid), "test": _as_files(test)}
        name = reader_name or data_source.guessed_reader(train[0])
        text, lines = _guess_experiment(files, name, data_source.made_reader(name, reader_options), output)
        for line in lines:
            echo(line)
        _refuse_failing(text, output, accept)
    elif any((valid, test, reader_name, reader_options)):
        expected = "expected it as the argument, as in `ltr-harness init train.csv`"
        raise UsageError(f"no training file; {expected}")
    else:
        text = _made_up_experiment(output.stem)
    refuse_existing(output)  # reading took its time
    write_whole(output, text)
    accepted = "".join(f" --accept {lint}" for lint in accept)
    echo(
        f"wrote {output}\nnext: ltr-harness check {output}{accepted}\n      ltr-harness run {output}{accepted}"
    )


def _made_up_experiment(name: str) -> str:
    baselines = Baselines({"one-feature": {"ranker": "feature", "feature": "match_1"}}, "one-feature", [])
    return starter(name, _MADE_UP, None, baselines)


def _refuse_failing(text: str, output: Path, accept: Sequence[str]) -> None:
    """Refuse an experiment in which `check` would find an error."""
    from ltr_harness.experiments.config.yaml_tree import parse_yaml
    from ltr_harness.experiments.training.check import refuse_errors
    from ltr_harness.workflow import prepare, read

    home = output.absolute().parent
    experiment: dict[str, Any] = parse_yaml(text, str(output), home).as_python()
    experiment["data"]["root"] = str(home / experiment["data"]["root"])
    try:
        refuse_errors(prepare(read(experiment), accept).cautions)
    except HarnessError as error:
        cure = "--column KEY=VALUE sets a line of `data:`, such as --column 'features=[A, B]'"
        refused = Problem(str(output), "fails `check` and was not written", cure=cure)
        raise DataError([*error.problems, refused]) from None


class _ReadSplits(NamedTuple):
    """The rows of each split, the reader that could read them, and its options besides those given."""

    rows: "dict[str, RankingDataset]"
    reader: "Reader"
    options: dict[str, Any]
    lines: list[str]  # for the user


def _guess_experiment(
    splits: Mapping[str, Sequence[Path]], name: str, reader: "Reader", output: Path
) -> tuple[str, list[str]]:
    """Return the experiment file for the files of each split, and a line for each guess."""
    from ltr_harness.data.readers.rows import check_alignment
    from ltr_harness.data.readers.table_reader import TableReader
    from ltr_harness.experiments.inspection import data_card, lint
    from ltr_harness.experiments.inspection.dependence import dependence

    options: dict[str, Any] = reader.model_dump(mode="json", exclude_unset=True)
    lines, train = [f"reader: {name}"], splits["train"][0]
    if isinstance(reader, TableReader):
        reader, options, guesses = _guess_table(reader, train, options)
        lines += guesses
    files = {split: [path.absolute() for path in paths] for split, paths in splits.items() if paths}
    read = _read_splits(reader, files)
    rows, reader = read.rows, read.reader
    options |= read.options
    lines += [*read.lines, *map(str, rows["train"].cautions)]
    card = data_card({"train": rows["train"]})
    findings = lint(card)
    _refuse_negative(findings, options.get("label", "COLUMN"))
    lines += [
        f"{finding.severity}: {finding}"
        for finding in findings
        if finding.kind in _SAID and finding.severity != "error"
    ]
    check_alignment(rows)
    baselines = _baselines(card, options.get("position"))
    lines += baselines.lines
    n_folds = max(FEWEST_FOLDS, min(MOST_FOLDS, rows["train"].n_queries))
    data = data_section(name, options, files, output.absolute().parent, n_folds)
    users: list[str] = []
    if "test" not in files:
        attributed, added = _with_query_columns(reader, files["train"], rows["train"])
        notes = dependence(attributed, by_time=False, unit=None)
        lines += [f"{note.severity}: {note}" for note in notes]
        data += _commented_folds(attributed, [*options.get("attributes", ()), *added] if added else [])
        if "user" in attributed.columns:
            users.append(attributed.columns["user"])
    max_grade = "relevance" not in options
    return starter(output.stem, data, rows["train"], baselines, max_grade=max_grade, users=users), lines


def _guess_table(
    reader: "TableReader", train: Path, options: dict[str, Any]
) -> tuple["TableReader", dict[str, Any], list[str]]:
    """Return a reader of the guessed columns and categories, its options, and a line for each guess."""
    first = reader.paths([train.name], train.parent)[0]
    table = reader.opened(first)
    options, lines = guessed_columns(table.columns, table.numeric_columns(), options, str(first))
    reader = type(reader).model_validate(options)
    categories = guessed_categories(reader, first)
    if categories:
        options["categorical"] = list(categories)
        lines.append(f"categorical: {', '.join(categories)}, few texts each")
        reader = type(reader).model_validate(options)
    return reader, options, lines


def _read_splits(reader: "Reader", files: Mapping[str, Sequence[Path]]) -> _ReadSplits:
    """Read each split; rows of a query that do not stand together are brought together."""
    read = _ReadSplits({}, reader, {}, [])
    for split, paths in files.items():
        names = list(map(str, paths))
        try:
            rows = read.reader.read(names, Path())
        except DataError as problem:
            if getattr(read.reader, "regroup", True) or "regroup: true" not in str(problem):
                raise
            options = {"regroup": True}
            read = read._replace(reader=read.reader.model_copy(update=options), options=options)
            rows = read.reader.read(names, Path())
            scattered = f"rows of a query do not stand together in {split}"
            read.lines.append(f"regroup: {scattered}; they are brought together")
        read.rows[split] = rows
        size = counts(query=rows.n_queries, row=rows.n_rows)
        read.lines.append(f"{split}: {size}, {named('feature', rows.feature_names)}")
    return read


def _with_query_columns(
    reader: "Reader", train: Sequence[Path], rows: "RankingDataset"
) -> tuple["RankingDataset", list[str]]:
    """Return the rows with columns of times and users that are equal in all rows of a query, and those columns."""
    from ltr_harness.data.dataset import values_by_query

    columns = {role: rows.columns[role] for role in ("time", "user") if role in rows.columns}
    candidates = [column for column in columns.values() if values_by_query(rows, column) is None]
    attributed, added = rows, list[str]()
    for column in candidates:
        attributes = (*getattr(reader, "attributes", ()), *added, column)
        try:
            attributed = reader.model_copy(update={"attributes": attributes}).read(
                list(map(str, train)), Path()
            )
            added.append(column)
        except DataError:  # one that differs within a query is no attribute
            continue
    dropped = set(candidates) - set(added)
    remaining = {role: column for role, column in attributed.columns.items() if column not in dropped}
    return replace(attributed, columns=remaining), added


def _commented_folds(rows: "RankingDataset", added: Sequence[str]) -> list[str]:
    """Lines that a user may uncomment, where queries have times or users."""
    from ltr_harness.experiments.config.yaml_tree import one_line_yaml
    from ltr_harness.experiments.inspection.dependence import folds_in_time, time_column

    lines = []
    time = time_column(rows)
    if time is not None:
        lines.append("  # Queries have a time: these folds, in place of those above, train on the past.")
        lines.append(f"  # {folds_in_time(rows, time)}")
    if added:
        lines.append("  # Columns that folds in time and `unit:` need:")
        lines.append(f"  # attributes: {one_line_yaml([*added])}")
    return lines


def _refuse_negative(findings: Iterable[Caution], label: str) -> None:
    """Raise a DataError for labels below 0, with the rule that makes grades of them."""
    cure = f"--column 'relevance={{mode: quantiles, column: {label}, bins: 5}}' makes grades of them, and --column "
    cure += "unjudged=-1 marks -1 as not judged; spearman and mean_label take any label, in an experiment "
    cure += "file of your own"
    negative = [finding for finding in findings if finding.kind == "negative-labels"]
    DataError.refuse(Problem(finding.place, finding.text, cure=cure) for finding in negative)


def _baselines(card: "DataCard", position: str | None) -> Baselines:
    """Return the order in which rows were shown, where the data has it, and the best feature that is no suspect."""
    models: dict[str, Mapping[str, Any]] = {}
    lines = []
    presented = next((feature.name for feature in card.splits[0].features if feature.like_ranks), None)
    if position is not None:
        models["as-shown"] = {"ranker": "position"}
        lines.append(f"as-shown: the present ranking, by column {position!r}")
    elif presented is not None:
        models["as-shown"] = {"ranker": "feature", "feature": presented, "ascending": True}
        lines.append(f"as-shown: the present ranking, by feature {presented!r} (low values first)")
    best = _best_feature(card)
    if best is not None:
        line = f"{best.name!r} is the best single feature"
        model: dict[str, Any] = {"ranker": "feature", "feature": best.name}
        if not best.descending:
            model["ascending"] = True
            line = f"{line}, low values first"
        models["one-feature"] = model
        lines.append(f"one-feature: {line}")
    compared = next(iter(models), "random")
    lines.append(f"baseline: {compared}, which all models are compared with")
    return Baselines(models, compared, lines)


def _best_feature(card: "DataCard") -> "FeatureFacts | None":
    """Return the feature that ranks best by itself, suspects and categories aside."""
    from ltr_harness.experiments.inspection.lints import suspects

    split = card.splits[0]
    excluded = {*suspects(card), *split.dataset.categories}
    candidates = [
        feature for feature in split.features if feature.varies_in_queries and feature.name not in excluded
    ]
    return max(candidates, key=lambda facts: -1.0 if math.isnan(facts.ndcg) else facts.ndcg, default=None)


def _as_files(path: Path | None) -> tuple[Path, ...]:
    return () if path is None else (path,)


def guessed_columns(
    columns: Sequence[str], numeric: Collection[str], given: dict[str, Any], place: str
) -> tuple[dict[str, Any], list[str]]:
    """Return options that name the columns of queries, labels, documents and positions, and a line for each."""
    from ltr_harness.data.readers.column_names import ROLES, column_for, is_outcome

    options = dict(given)
    lines, problems = [], []
    for role in ROLES:
        if role in options or (role == "label" and "relevance" in options):
            continue
        column = column_for(role, [name for name in columns if name not in options.values()])
        weights = {}
        if role == "label" and (column is None or is_outcome(column)):
            weights = _event_weights([name for name in columns if name in numeric])
        if weights:
            options["relevance"] = {"events": weights}
            events = ", ".join(f"{name} {weight}" for name, weight in weights.items())
            lines.append(f"relevance: the highest weight among what users did ({events})")
        elif column is not None:
            options[role] = column
            lines.append(f"{role}: column {column!r}")
        elif role in ("query", "label"):
            problems.append(_unknown_column(role, columns, place))
    DataError.refuse(problems)
    return options, lines


def _event_weights(columns: Sequence[str]) -> dict[str, int]:
    """Return the weight of each column that is called as an event, the lowest first."""
    from ltr_harness.data.readers.column_names import event_weight

    weights = {name: event_weight(name) for name in columns}
    events = [(name, weight) for name, weight in weights.items() if weight is not None]
    return dict(sorted(events, key=lambda event: event[1]))


def _unknown_column(role: str, columns: Sequence[str], place: str) -> Problem:
    from ltr_harness.data.readers.column_names import columns_named

    names = ", ".join(columns_named(columns[:20], columns))
    if len(columns) > 20:
        names += " …"
    cure = f"name it: --column {role}=COLUMN"
    if role == "query":
        cure += ", or a key of several: --column 'query=[A, B]'"
    return Problem(place, f"no column looks like the {role} ({names})", cure=cure)


def guessed_categories(reader: "TableReader", path: Path) -> tuple[str, ...]:
    """Return columns that look like categories: few different texts, which do not begin as numbers and times do."""
    from ltr_harness.data.columns import id_texts, plain_column

    if reader.features is not None or reader.categorical:
        return ()
    table = reader.opened(path)
    names = _text_columns(reader, table)
    query = reader.query_columns[0]
    kinds = table.read([], [query, *names])
    # words that were searched for are more
    most = min(MOST_GUESSED, len(plain_column(kinds[query], query).unique()) // 10)
    categories = []
    for name in names:
        texts = id_texts(kinds[name].unique())
        if texts is not None and len(texts) <= most + 1:
            values = [text for text in texts.to_pylist() if text]
            if 1 < len(values) <= most and all(text[0].isalpha() for text in values):
                categories.append(name)
    return tuple(categories)


def _text_columns(reader: "TableReader", table: "OpenedTable") -> list[str]:
    """Return the columns of texts that have no role and are called neither as ids nor as outcomes."""
    from ltr_harness.data.columns import is_text
    from ltr_harness.data.readers.column_names import is_id, is_outcome

    excluded = {*reader.roles(), *reader.no_features(), *table.numeric_columns(), *table.category_columns()}
    excluded |= table.index_columns()
    names = [name for name in table.columns if not (name in excluded or is_id(name) or is_outcome(name))]
    if table.schema is None:
        return names
    # others, such as embeddings, are no texts
    return [name for name in names if is_text(table.schema.field(name).type)]


def data_section(
    reader_name: str,
    options: Mapping[str, Any],
    files: Mapping[str, Sequence[Path]],
    home: Path,
    n_folds: int = MOST_FOLDS,
) -> list[str]:
    """The lines under ``data:``, for splits of absolute paths, in a file that stands in the folder `home`."""
    from ltr_harness.experiments.config.yaml_tree import one_line_yaml

    folder = Path(os.path.commonpath([path.parent for paths in files.values() for path in paths]))
    inside = {
        split: one_line_yaml([path.relative_to(folder).as_posix() for path in paths])
        for split, paths in files.items()
    }
    root = one_line_yaml(Path(os.path.relpath(folder, home)).as_posix())
    lines = [
        f"  reader: {reader_name}",
        *(f"  {key}: {one_line_yaml(value)}" for key, value in options.items()),
        f"  root: {root}    # of the files below; relative to this file",
    ]
    if "test" not in files:
        rotation = "by query: each is the test set once, the next one is stopped on"
        return [
            *lines,
            f"  files: {inside['train']}",
            f"  folds: {n_folds}                         # {rotation}",
        ]
    held = inside.get("valid", "{holdout: 0.2, seed: 1}")
    return [*lines, f"  splits: {{train: {inside['train']}, valid: {held}, test: {inside['test']}}}"]


def _metric_lines(exponential: bool, top: float) -> list[str]:
    """Return the section of metrics for labels up to `top`, which are grades for an exponential gain or not."""
    ndcg, gain = "ndcg", ""
    if not exponential:
        ndcg = "ndcg(gain=linear)"
        gain = "           # linear gain: these labels are not grades for a gain of 2^label - 1"
    graded = "err, " if exponential and top > 1 else ""
    return [
        "metrics:",
        "  cutoffs: [1, 3, 5, 10]           # the fixed Ks of every table",
        f"  report: [{ndcg}, mrr, {graded}map]    # each at every cutoff; `ltr-harness list metrics` for more",
        f"  primary: {ndcg}@10{gain}                 # the one number that decides",
    ]


def starter(
    name: str,
    data: Iterable[str],
    train: "RankingDataset | None",
    baselines: Baselines,
    *,
    max_grade: bool = True,
    users: Sequence[str] = (),
) -> str:
    """Return the experiment file, commented."""
    from ltr_harness.experiments.config.yaml_tree import one_line_yaml

    name = printable(name)
    top = 4.0 if train is None else float(train.labels.max())
    has_whole_labels = train is None or bool((train.labels == train.labels.round()).all())
    exponential = has_whole_labels and top <= LARGEST_EXPONENTIAL
    preset = "small" if train is None or train.n_queries <= FEW_QUERIES else "web"
    scale = _scale_lines(top) if has_whole_labels and max_grade and top > 0 else []
    ndcg = "ndcg" if exponential else "ndcg(gain=linear)"
    cheapest = [f"  {model}: {one_line_yaml(options)}" for model, options in baselines.models.items()]
    few_rows = train is not None and train.n_rows < FEW_ROWS
    test = "test: permutation, confidence: 0.95"
    lines = [
        f"# Written by `ltr-harness init`. Check what it guessed, then:  ltr-harness check {name}.yaml",
        "# Every key, for editors that know JSON Schema:  ltr-harness schema > schema.json",
        f"name: {one_line_yaml(name)}",
        "seeds: [1, 2, 3]                   # every model is trained once per seed: how much of a number is luck?",
        "",
        "data:",
        *data,
        *scale,
        "",
        *_metric_lines(exponential, top),
        "",
        "# One rule for every library: stop when the metric on the validation queries has not improved for so many",
        "# rounds, keep the best round.",
        f"stopping: {{metric: {ndcg}@10, on: valid, patience: 50, max_rounds: 1000}}",
        "",
        "models:",
        "  # The preset samples rows and features, so that the seed matters; `params: {…}` go on top of it.",
        *_boosted_models(preset, exponential, few_rows),
        "  # Baselines cost nothing and tell whether learning was worth it.",
        *cheapest,
        "  random: {ranker: random}",
        "",
        f"compare: {{baseline: {baselines.compared}, {test}}}",
        *_unit_lines(users, baselines.compared, test),
        "",
    ]
    return "\n".join(lines)


def _scale_lines(top: float) -> list[str]:
    comment = "the top of the scale of grades; checked against the labels"
    return [f"  max_grade: {top:g}                     # {comment}"]


def _unit_lines(users: Sequence[str], baseline: str, test: str) -> list[str]:
    """Return, as comments, the line of the comparison that goes by each column of users."""
    from ltr_harness.experiments.config.yaml_tree import one_line_yaml

    lines = []
    for user in users:
        lines.append("# Queries of one user are no independent samples; in place of the line above:")
        lines.append(f"# compare: {{baseline: {baseline}, unit: {one_line_yaml(user)}, {test}}}")
    return lines


def _boosted_models(preset: str, exponential: bool, few_rows: bool) -> list[str]:
    """Return the lines of LightGBM and XGBoost, for grades of an exponential gain or for other labels."""
    leaves = ", params: {min_data_in_leaf: 1}" if few_rows else ""
    xgboost = f'ranker: xgboost, objective: "rank:ndcg", preset: {preset}'
    if exponential:
        return [
            f"  lgbm-lambdarank: {{ranker: lightgbm, objective: lambdarank, preset: {preset}{leaves}}}",
            f"  lgbm-xendcg: {{ranker: lightgbm, objective: rank_xendcg, preset: {preset}{leaves}}}",
            f"  xgb-ndcg: {{{xgboost}}}",
        ]
    return [
        "  # LightGBM's ranking objectives want integer labels.",
        f"  lgbm-regression: {{ranker: lightgbm, objective: regression, preset: {preset}{leaves}}}",
        f"  xgb-ndcg: {{{xgboost}, params: {{ndcg_exp_gain: false}}}}",
    ]
