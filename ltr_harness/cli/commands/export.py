"""`ltr-harness export`: stored runs for other tools."""

import math
from pathlib import Path
from typing import Any

import click

from ltr_harness._util.text import count_of, four_decimals, json_value, plural
from ltr_harness.cli import SuggestingGroup, options
from ltr_harness.cli.output import print_table, say, say_json


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

    chosen = catalog.load(form)()
    if engine_version:
        chosen = chosen.for_engine(engine_version)
    stored, model, split = loaded(run, **rows)
    (measured,) = on_scale_of(stored.record, [metric] if metric else [], split.judgments)
    verification = export_model(model, split, measured, chosen, output, max_loss)
    if as_json:
        head = {"format": form, "versions": chosen.versions, "file": str(output)}
        say_json({**head, **json_value(verification), "rules": chosen.rules})
        return
    for name in verification.kept:
        path = output.with_name(name)
        say(f"{path} was there with other content and stays; remove it for a new one", err=True)
    if chosen.versions:
        say(f"{form}: read back as versions {chosen.versions} do; --engine-version names another", err=True)
    for rule in chosen.rules:
        say(f"{form}: {rule}", err=True)
    overall, first = verification.agreement, verification.first
    lines: list[list[str]] = []
    parts = {"with missing values": verification.with_missing, "a tenth missing": verification.if_missing}
    for queries, one in {"all": overall, **parts}.items():
        if one is None:
            continue
        order, largest = f"{one.n_same_order:,} of {one.n_queries:,}", f"{one.largest_difference:.2g}"
        change = "–" if math.isnan(one.difference) else f"{one.difference:+.2g}"
        interval = "–" if math.isnan(one.low) else f"{one.low:+.2g} {one.high:+.2g}"
        means = four_decimals(one.here), four_decimals(one.there)
        lines.append([queries, order, largest, *means, change, interval])
    columns = ["queries", "same order", "score difference", verification.metric, "there", "change"]
    print_table([*columns, "95 % interval"], lines)
    if abs(overall.offset) > overall.largest_beside_offset:
        most = f"by at most {overall.largest_beside_offset:.2g} besides"
        say(f"scores there differ by {overall.offset:+.6g} in the median, which moves no row, and {most}")
    if verification.n_missing:
        say(f"{count_of(verification.n_missing, 'value')} {plural('is', verification.n_missing)} missing")
    if first is not None:
        (a, b), (here_a, here_b), there = first.rows, first.here, "{:.9g} and {:.9g}".format(*first.there)
        here = f"row {a} ({here_a:.9g}) stands above row {b} ({here_b:.9g}) here"
        say(f"for example query {first.query}: {here}; there they have {there}")


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
        say(text, nl=False)
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
        say_json(exported)
    else:
        added, present = count_of(len(exported.added), "run"), len(exported.present)
        there = f"; {present} {plural('was', present)} there already" if present else ""
        say(f"{added} to the experiment {exported.experiment!r} of {exported.uri}{there}")
        for name, model in exported.models.items():
            say(f"{name}: {model}")
        for name, why in exported.without_model.items():
            say(f"{name}: no model, {why}")
