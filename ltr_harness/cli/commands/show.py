"""`ltr-harness show`: a resolved configuration with origins, experiments, a stored run and what its model looks at."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ltr_harness
from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import write_whole
from ltr_harness._util.text import count_of
from ltr_harness.cli import SuggestingGroup, options
from ltr_harness.cli.output import echo, echo_json, print_page, print_table
from ltr_harness.errors import UsageError

if TYPE_CHECKING:
    from ltr_harness.data.dataset import RankingDataset
    from ltr_harness.models.ranker import FittedModel


@click.group("show", cls=SuggestingGroup, no_args_is_help=True)
def command() -> None:
    """Show a resolved configuration, all experiments, a run, or a stored model's features and trees."""


@options.examples("""
  ltr-harness show trees RUN -m ndcg@10 -m mrr@10
  ltr-harness show trees RUN --data last_week.csv --documents 500
  ltr-harness show trees runs/quickstart --budget 5ms     # the best model that is fast enough
""")
@command.command("trees")
@click.argument("runs", nargs=-1, required=True, type=options.PATH, metavar="RUN…")
@options.rows_of_run
@click.option(
    "-m",
    "--metric",
    "names",
    multiple=True,
    help="May be given several times; with --budget the first decides.  [default: the primary metric]",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="Name the best of all RUNs whose p99 for a list is within it, such as 800us, 5ms or 0.2s; exit 3 if none is.",
)
@click.option(
    "--documents",
    type=options.COUNT,
    default=100,
    show_default=True,
    help="Length of the lists that rounds and --budget go by.",
)
@options.trust
@options.as_json
def show_trees(
    runs: tuple[Path, ...],
    names: tuple[str, ...],
    budget: str | None,
    documents: int,
    as_json: bool,
    **rows_of_run: Any,
) -> None:
    """Print how good a model's first trees are and what they cost.

    Nothing is trained.

    Times are of one call that scores a list, on one thread, in microseconds, measured now: a machine that does
    nothing else is best. With --budget RUNs are run folders and experiments' folders.
    """
    from ltr_harness.cli.commands import show_trees as trees

    if budget is not None:
        trees.print_best_model(runs, names, budget, documents, as_json, **rows_of_run)
    elif len(runs) > 1:
        found = f"{count_of(len(runs), 'run')} without --budget"
        raise UsageError(f"{found}; expected one, or the time that a query may take")
    else:
        trees.print_first_rounds(runs[0], names, documents, as_json, **rows_of_run)


@options.examples("""
  ltr-harness show config configs/mq2008.yaml
  ltr-harness show config configs/mq2008.yaml --set seeds=[1]
""")
@command.command("config")
@options.config
@options.overrides
def show_config(config: Path, overrides: tuple[str, ...]) -> None:
    """Print every resolved value and its origin.

    The origin is a file and line, --set, or default.
    """
    from ltr_harness.experiments.config import settings

    rows = [(f"{path}: {value}", origin) for path, value, origin in settings(config, overrides)]
    width = max(len(text) for text, _ in rows)
    for text, origin in rows:
        echo(f"{text:<{min(width, 60)}}  # {origin}")


@options.examples("""
  ltr-harness show run runs/quickstart/xgb-ndcg--all--s1--0123456789ab
  ltr-harness show run RUN --json
""")
@command.command("run")
@options.run
@options.as_json
def show_run(run: Path, as_json: bool) -> None:
    """Print a run's record."""
    from ltr_harness.experiments.runs.revisions import cautions_of

    record = ltr_harness.load_run(run).record
    if as_json:
        echo(record.model_dump_json(indent=2))
        return
    echo(f"{record.model} of {record.experiment}: fold {record.fold}, seed {record.seed}, {record.status}")
    if record.error:
        echo(f"error: {record.error}")
    objective = f", objective {record.objective}" if record.objective else ""
    echo(f"ranker {record.ranker}{objective}")
    if record.best_round is not None:
        echo(f"best round {record.best_round} of {record.rounds_trained}")
    for name, summary in record.metrics.items():
        echo(f"  {name}  {summary.mean_text}  over {summary.counted}")
    for caution in [*cautions_of({record.model: [record]}), *record.training_cautions]:
        echo(f"{caution.severity}: {caution}")
    for name, value in record.params.items():
        echo(f"  {name} = {value}")
    for name, value in record.derived_params.items():
        echo(f"  {name} = {value} (derived by the library)")
    for name, value in record.temperatures.items():
        echo(f"  T of {name} = {value:.6g}")
    echo(f"identity {record.identity}")


@options.examples("""
  ltr-harness show runs
  ltr-harness show runs --verbose
  ltr-harness show runs /data/runs -o /data/runs/index.html
""")
@command.command("runs")
@click.argument("folder", type=options.PATH, default=Path("runs"))
@options.output("Page to write, such as runs/index.html.", options.PATH)
@options.flag(
    "--verbose", "The result of each, its interval, models, seeds and folds, comparisons, runs and size."
)
@options.as_json
def show_runs(folder: Path, output: Path | None, verbose: bool, as_json: bool) -> None:
    """Print all experiments of a folder.

    Each has its verdict, its best model, the change from the one before on the same question, and its report.

    A change is taken only between experiments whose test data's judgments and primary metric are equal. FOLDER
    is `runs` unless given. What in it cannot be read is listed.
    """
    from ltr_harness.report import run_index as experiments

    page = output / "index.html" if output is not None and output.is_dir() else output
    report = experiments.report(experiments.read_experiments(folder), page)
    if page is not None:
        from ltr_harness.report import html

        write_whole(page, html.render(report).encode("utf-8", "backslashreplace"))
    if as_json:
        echo(report.document())
        return
    print_page(report, folded=verbose)
    if page is not None:
        echo(f"page: {page}")


@options.examples("""
  ltr-harness show worst RUN -n 20
  ltr-harness show worst RUN -m mrr@10
""")
@command.command("worst")
@options.run
@click.option("-m", "--metric", help="One of the run's metrics; the primary one unless given.")
@click.option("-n", "number", type=options.COUNT, default=10, show_default=True, help="How many queries.")
@options.as_json
def show_worst(run: Path, metric: str | None, number: int, as_json: bool) -> None:
    """Print the queries that a run ranks worst: where to look first."""
    stored = ltr_harness.load_run(run)
    stored.require_test()
    name = metric or stored.record.primary
    if name not in stored.record.metrics:
        raise UsageError(f"the run has no metric {name!r}; {did_you_mean(name, stored.record.metrics)}")
    defined = stored.per_query.dropna(subset=[name])
    lower_is_worse = stored.record.metrics[name].higher_is_better
    ordered = defined.sort_values([name, "query_id"], ascending=[lower_is_worse, True], kind="stable")
    worst = ordered[["query_id", name, "rows", "n_relevant"]].head(number)
    if as_json:
        echo(worst.to_json(orient="records", indent=2))
        return
    rows = [
        [str(query), f"{value:z.4f}", *map(str, counts)]
        for query, value, *counts in worst.itertuples(index=False)
    ]
    print_table(["query", name, "rows", "relevant"], rows)


@options.examples("""
  ltr-harness show importance RUN
  ltr-harness show importance RUN --data last_week.csv --top 50
""")
@command.command("importance")
@options.run
@options.rows_of_run
@click.option("-m", "--metric", help="Whose loss is measured.  [default: the experiment's primary metric]")
@click.option("--repeats", type=options.COUNT, default=3, show_default=True, help="Shuffles of each feature.")
@click.option("--top", type=options.COUNT, default=20, show_default=True, help="Features shown.")
@options.trust
@options.as_json
def show_importance(
    run: Path, metric: str | None, repeats: int, top: int, as_json: bool, **rows_of_run: Any
) -> None:
    """Print the metric's loss when a feature is shuffled.

    Beside it are the feature's shares of gain and of splits.

    Intervals are over queries. Gain is measured in training and favours features with many values; the loss is
    measured on rows that the model was not trained on.
    """
    from ltr_harness.cli.stored_runs import loaded, on_scale_of
    from ltr_harness.experiments.runs.serving_cost import permutation_importance

    stored, model, split = loaded(run, **rows_of_run)
    (measured,) = on_scale_of(stored.record, [metric] if metric else [], split.judgments)
    losses = permutation_importance(model, split, measured, repeats=repeats)
    shares = _importance_shares(model, split.feature_names)
    if as_json:
        features = [
            {**loss._asdict(), **{kind: of_feature[loss.feature] for kind, of_feature in shares.items()}}
            for loss in losses
        ]
        echo_json({"metric": str(measured), "features": features})
        return
    rows = []
    for loss in losses[:top]:
        percents = [f"{100 * of_feature[loss.feature]:.1f} %" for of_feature in shares.values()]
        rows.append([loss.feature, f"{loss.loss:.4f}", f"{loss.low:+.4f} {loss.high:+.4f}", *percents])
    print_table(["feature", f"loss of {measured}", "95 % interval", *shares], rows)
    if len(losses) > top:
        echo(f"{count_of(len(losses) - top, 'more feature')}; --top shows more", err=True)


def _importance_shares(model: "FittedModel", features: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return each feature's shares of gain and of splits; nothing for a model without trees."""
    from ltr_harness.models.tree_model import TreeModel

    if not isinstance(model, TreeModel):
        return {}
    shares = {}
    for kind in ("gain", "split"):
        values = model.importance(kind)
        total = max(float(values.sum()), 1e-300)
        shares[kind] = dict(zip(features, (values / total).tolist(), strict=True))
    return shares


@options.examples("""
  ltr-harness show why RUN --query 17
  ltr-harness show why RUN --query 17 --rows 0 3
""")
@command.command("why")
@options.run
@options.rows_of_run
@click.option("--query", required=True, metavar="ID", help="The query.")
@click.option(
    "--rows",
    nargs=2,
    type=click.IntRange(min=0),
    metavar="A B",
    help="Two of its rows, from 0.  [default: the two ranked first]",
)
@click.option("--top", type=options.COUNT, default=10, show_default=True, help="Features shown.")
@options.trust
@options.as_json
def show_why(
    run: Path, query: str, rows: tuple[int, int] | None, top: int, as_json: bool, **rows_of_run: Any
) -> None:
    """Print why one document of a query ranks above another.

    The difference of their scores, feature by feature: SHAP values of the library that trained the model. They sum to
    the difference of the scores.
    """
    from ltr_harness.cli.stored_runs import loaded
    from ltr_harness.experiments.runs import serving_cost as insight

    _, model, split = loaded(run, **rows_of_run)
    a, b = rows or _two_best_rows(model, split, query)
    score_a, score_b, reasons = insight.score_difference(model, split, query, a, b)
    if as_json:
        body = {"query": query, "rows": [a, b], "scores": [score_a, score_b]}
        echo_json(body | {"reasons": [reason._asdict() for reason in reasons]})
        return
    if score_a > score_b:
        order = "above"
    elif score_a < score_b:
        order = "below"
    else:
        order = "level with"
    difference = f"{score_a - score_b:+.4f}"
    echo(f"query {query}: row {a} ({score_a:.4f}) stands {order} row {b} ({score_b:.4f}), {difference}")
    cells = [
        [reason.feature, f"{reason.of_a:.6g}", f"{reason.of_b:.6g}", f"{reason.difference:+.4f}"]
        for reason in reasons[:top]
    ]
    print_table(["feature", f"row {a}", f"row {b}", "difference"], cells)
    rest = sum(reason.difference for reason in reasons[top:])
    if reasons[top:]:
        echo(f"{count_of(len(reasons) - top, 'more feature')} together {rest:+.4f}")


def _two_best_rows(model: "FittedModel", split: "RankingDataset", query: str) -> tuple[int, int]:
    """Return the two rows that rank first in a query, by their places in it."""
    import numpy as np

    numbers = np.flatnonzero(split.groups.ids.astype(str) == query)
    # of an unknown query any two: `why` refuses it
    start, end = split.groups.boundaries[numbers[0] : numbers[0] + 2] if numbers.size else (0, 2)
    order = np.argsort(-model.score(split.features[start:end]), kind="stable")
    return int(order[0]), int(order[min(1, order.size - 1)])
