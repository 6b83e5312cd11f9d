"""`ltr-harness export`: stored runs for other tools."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltr_harness._util.json_values import json_value
from ltr_harness._util.number_text import four_decimals
from ltr_harness._util.text import count_of, plural
from ltr_harness.cli import SuggestingGroup, options
from ltr_harness.cli.output import echo, echo_json, print_table

if TYPE_CHECKING:
    from ltr_harness.models.trees.verification import FileAgreement, Verification


@click.group("export", cls=SuggestingGroup, no_args_is_help=True)
def command() -> None:
    """Export models for search engines and runtimes, requirements for pip, and runs with their models to MLflow."""


@options.examples("""
  ltr-harness export model RUN --to onnx -o model.onnx
  ltr-harness export model RUN --to opensearch --engine-version 3.5 -o model.json
  ltr-harness export model RUN --to elasticsearch-native -o model.json
  ltr-harness export model RUN --to elasticsearch -o model.json --max-loss 0.001   # exit 3 if ndcg@10 loses more
""")
@command.command("model")
@options.run
@click.option(
    "--to",
    "form",
    required=True,
    metavar="FORMAT",
    help="elasticsearch-native, elasticsearch (the plugin), json (Vespa), onnx or opensearch; FILE.py:NAME for one "
    "of your own.",
)
@options.output("File to write.", options.FILE, required=True)
@click.option(
    "--max-loss",
    type=click.FloatRange(min=0),
    help="What the metric may lose; if it loses more, nothing is written and the exit code is 3.",
)
@click.option(
    "--engine-version",
    metavar="VERSION",
    help="Of the search engine that is to read the file, such as 3.5.  [default: the newest]",
)
@click.option("-m", "--metric", help="Whose loss is measured.  [default: the experiment's primary metric]")
@options.rows_of_run
@options.trust
@options.as_json
def to_model(
    run: Path,
    form: str,
    output: Path,
    max_loss: float | None,
    engine_version: str | None,
    metric: str | None,
    as_json: bool,
    **rows: Any,
) -> None:
    """Write a model for another engine, and verify it.

    The written file is read back and scores the test rows by the engine's own rules: in its runtime where there is a
    package of it, elsewhere in a small interpreter after its documentation.
    """
    from ltr_harness.cli.stored_runs import loaded, on_scale_of
    from ltr_harness.models.trees.formats import catalog
    from ltr_harness.models.trees.verification import export_model

    model_format = catalog.load(form)()
    if engine_version:
        model_format = model_format.for_engine(engine_version)
    stored, model, split = loaded(run, **rows)
    (measured,) = on_scale_of(stored.record, [metric] if metric else [], split.judgments)
    verification = export_model(model, split, measured, model_format, output, max_loss)
    if as_json:
        head = {"format": form, "versions": model_format.versions, "file": str(output)}
        echo_json({**head, **json_value(verification), "rules": model_format.rules})
        return
    for name in verification.kept:
        path = output.with_name(name)
        echo(f"{path} was there with other content and stays; remove it for a new one", err=True)
    if model_format.versions:
        versions = f"read back as versions {model_format.versions} do"
        echo(f"{form}: {versions}; --engine-version names another", err=True)
    for rule in model_format.rules:
        echo(f"{form}: {rule}", err=True)
    _print_verification(verification)


def _print_verification(verification: "Verification") -> None:
    """Print a table of scores and means here and there, then the sentences about their differences."""
    agreements = {
        "all": verification.agreement,
        "with missing values": verification.with_missing,
        "a tenth missing": verification.if_missing,
    }
    rows = [
        [queries, *_agreement_cells(agreement)]
        for queries, agreement in agreements.items()
        if agreement is not None
    ]
    columns = ["queries", "same order", "score difference", verification.metric, "there", "change"]
    print_table([*columns, "95 % interval"], rows)
    overall, swapped = verification.agreement, verification.first
    if abs(overall.offset) > overall.largest_beside_offset:
        rest = f"by at most {overall.largest_beside_offset:.2g} besides"
        echo(f"scores there differ by {overall.offset:+.6g} in the median, which moves no row, and {rest}")
    n_missing = verification.n_missing
    if n_missing:
        echo(f"{count_of(n_missing, 'value')} {plural('is', n_missing)} missing")
    if swapped is not None:
        (row_a, row_b), (score_a, score_b), (other_a, other_b) = swapped.rows, swapped.here, swapped.there
        order = f"row {row_a} ({score_a:.9g}) stands above row {row_b} ({score_b:.9g}) here"
        scores = f"there they have {other_a:.9g} and {other_b:.9g}"
        echo(f"for example query {swapped.query}: {order}; {scores}")


def _agreement_cells(agreement: "FileAgreement") -> list[str]:
    change, interval = "–", "–"
    if not math.isnan(agreement.difference):
        change = f"{agreement.difference:+.2g}"
    if not math.isnan(agreement.low):
        interval = f"{agreement.low:+.2g} {agreement.high:+.2g}"
    return [
        f"{agreement.n_same_order:,} of {agreement.n_queries:,}",
        f"{agreement.largest_difference:.2g}",
        four_decimals(agreement.here),
        four_decimals(agreement.there),
        change,
        interval,
    ]


_runs = click.argument("runs", type=options.PATH)


@options.examples("""
  ltr-harness export requirements RUN > requirements.txt
  ltr-harness export requirements runs/quickstart -o requirements.txt
""")
@command.command("requirements")
@_runs
@options.output("File to write to.", options.FILE)
def to_requirements(runs: Path, output: Path | None) -> None:
    """Print a requirements file of the packages used.

    Every package that RUNS used is pinned to its version.

    RUNS is a run folder, or an experiment's folder. No address of an index is in the file: installing it takes the
    one you have configured. `ltr-harness reproduce` trains again in what was installed from it.
    """
    from ltr_harness._util.files import write_whole
    from ltr_harness.experiments.runs import find_runs
    from ltr_harness.experiments.runs.identity import requirements

    text = requirements(find_runs(runs))
    if output is None:
        echo(text, nl=False)
    else:
        write_whole(output, text)


@options.examples("""
  ltr-harness export mlflow runs/quickstart --to sqlite:///mlflow.db
  ltr-harness export mlflow RUN --experiment shop --no-models
""")
@command.command("mlflow")
@_runs
@click.option(
    "--to", "uri", help="Tracking store, such as sqlite:///mlflow.db; default: MLFLOW_TRACKING_URI."
)
@click.option("--experiment", help="Its name in MLflow; default: as here.")
@click.option(
    "--models/--no-models", default=True, help="Log each run's model, too; the default is to do so."
)
@options.as_json
def to_mlflow(runs: Path, uri: str | None, experiment: str | None, models: bool, as_json: bool) -> None:
    """Log stored runs with their models to MLflow.

    Each run is logged once, however often the command is called.

    RUNS is a run folder, or an experiment's folder: then its runs stand below one that carries the report. Logged
    are parameters, the history round by round, means on test, every file of the run, per_query.parquet among
    them, and the model of LightGBM, XGBoost or CatBoost in MLflow's own flavour. In names, `ndcg@10` becomes
    `ndcg_at_10`. Needs the extra `mlflow`.
    """
    from ltr_harness.integrations.mlflow_export import export

    exported = export(runs, uri=uri, experiment=experiment, models=models)
    if as_json:
        echo_json(exported)
    else:
        added = count_of(len(exported.added), "run")
        line = f"{added} to the experiment {exported.experiment!r} of {exported.uri}"
        n_present = len(exported.present)
        if n_present:
            line += f"; {n_present} {plural('was', n_present)} there already"
        echo(line)
        for name, model in exported.models.items():
            echo(f"{name}: {model}")
        for name, reason in exported.without_model.items():
            echo(f"{name}: no model, {reason}")
