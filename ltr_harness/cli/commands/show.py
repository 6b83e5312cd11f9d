"""`ltr-harness show`: a resolved configuration with origins, or a stored run."""

from __future__ import annotations

from pathlib import Path

import click

from ltr_harness.cli import options
from ltr_harness.cli.commands import show_model, show_trees
from ltr_harness.cli.output import say
from ltr_harness.cli.tables import print_table
from ltr_harness.wording import count_of


@click.group(
    "show",
    no_args_is_help=True,
    epilog="""\b
Examples:
  ltr-harness show config configs/mq2008.yaml --set seeds=[1]
  ltr-harness show runs runs -o runs/index.html
  ltr-harness show run runs/quickstart/xgb-ndcg--all--s1--0123456789ab
  ltr-harness show worst RUN -n 20
  ltr-harness show importance RUN
  ltr-harness show why RUN --query 17 --rows 0 3
  ltr-harness show trees RUN -m ndcg@10 -m mrr@10
  ltr-harness show trees runs/quickstart --budget 5ms
""",
)
def command() -> None:
    """Show a resolved configuration, all experiments, a run, or what a stored model looks at."""


command.add_command(show_model.importance)
command.add_command(show_model.why)
command.add_command(show_trees.trees)


@command.command("config")
@options.config
@options.overrides
def show_config(config: Path, overrides: tuple[str, ...]) -> int:
    """Print every resolved value and where it comes from: file and line, --set, or default."""
    from ltr_harness.config import settings

    rows = settings(config, overrides)
    width = max(len(f"{row.path}: {row.value}") for row in rows)
    for row in rows:
        text = f"{row.path}: {row.value}"
        say(f"{text:<{min(width, 60)}}  # {row.origin}")
    return 0


@command.command("run")
@click.argument("run", type=click.Path(path_type=Path))
@options.as_json
def show_run(run: Path, as_json: bool) -> int:
    """Print what a run's record says."""
    from ltr_harness.runs import load_run

    record = load_run(run).record
    if as_json:
        say(record.model_dump_json(indent=2))
        return 0
    say(f"{record.model} of {record.experiment}: fold {record.fold}, seed {record.seed}, {record.status}")
    if record.error:
        say(f"error: {record.error}")
    say(f"ranker {record.ranker}" + (f", objective {record.objective}" if record.objective else ""))
    if record.best_round is not None:
        say(f"best round {record.best_round} of {record.rounds_trained}")
    for name, summary in record.metrics.items():
        mean = "undefined" if summary.mean is None else f"{summary.mean:z.4f}"
        say(
            f"  {name}  {mean}  over {summary.n_queries - summary.n_undefined:,} of "
            f"{count_of(summary.n_queries, 'query')}"
        )
    for note in record.notes:
        say(f"note: {note}")
    for name, value in record.params.items():
        say(f"  {name} = {value}")
    say(f"identity {record.identity}")
    return 0


@command.command("runs")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Page to write, such as runs/index.html."
)
@options.as_json
def show_runs(folder: Path, output: Path | None, as_json: bool) -> int:
    """Print all experiments of a folder: best model, difference to the one before on the same question, size.

    A difference is taken only between experiments whose test data's judgments and primary metric are equal. FOLDER
    is `runs` unless given. What in it cannot be read is listed.
    """
    from ltr_harness.cli.tables import show_page
    from ltr_harness.files import write_whole
    from ltr_harness.report import experiments_page
    from ltr_harness.report.experiments import read_experiments

    page = output / "index.html" if output is not None and output.is_dir() else output
    report = experiments_page.report(read_experiments(folder), page)
    if page is not None:
        from ltr_harness.report import html

        write_whole(page, html.render(report).encode("utf-8", "backslashreplace"))
    if as_json:
        say(report.document())
        return 0
    show_page(report)
    if page is not None:
        say(f"page: {page}")
    return 0


@command.command("worst")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-m", "--metric", help="One of the run's metrics; the primary one unless given.")
@click.option(
    "-n", "number", type=click.IntRange(min=1), default=10, show_default=True, help="How many queries."
)
@options.as_json
def show_worst(run: Path, metric: str | None, number: int, as_json: bool) -> int:
    """Print the queries that a run ranks worst: where to look first."""
    from ltr_harness.catalog import did_you_mean
    from ltr_harness.errors import UsageError
    from ltr_harness.runs import load_run

    stored = load_run(run)
    name = metric or stored.record.primary
    if name not in stored.record.metrics:
        raise UsageError(f"the run has no metric {name!r}; {did_you_mean(name, stored.record.metrics)}")
    defined = stored.per_query.dropna(subset=[name])
    lower_is_worse = stored.record.metrics[name].higher_is_better
    worst = defined.sort_values([name, "query_id"], ascending=[lower_is_worse, True], kind="stable").head(
        number
    )
    if as_json:
        say(worst[["query_id", name, "rows", "n_relevant"]].to_json(orient="records", indent=2))
        return 0
    listed = worst[["query_id", name, "rows", "n_relevant"]].itertuples(index=False)
    print_table(
        ["query", name, "rows", "relevant"],
        [[str(query), f"{value:z.4f}", str(rows), str(relevant)] for query, value, rows, relevant in listed],
    )
    return 0
