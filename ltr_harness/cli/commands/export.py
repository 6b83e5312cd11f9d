"""`ltr-harness export`: stored runs for other tools."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ltr_harness.cli import options
from ltr_harness.cli.commands.export_model import to_model
from ltr_harness.cli.output import say
from ltr_harness.wording import count_of, plural

_runs = click.argument("runs", type=click.Path(path_type=Path))


@click.group(
    "export",
    no_args_is_help=True,
    epilog="""\b
Examples:
  ltr-harness export requirements RUN > requirements.txt
  ltr-harness export model RUN --to onnx -o model.onnx
  ltr-harness export mlflow runs/quickstart --to sqlite:///mlflow.db
""",
)
def command() -> None:
    """Stored runs for other tools: a model for a search engine, the packages used, or all to MLflow."""


command.add_command(to_model)


@command.command("requirements")
@_runs
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write to.")
def to_requirements(runs: Path, output: Path | None) -> int:
    """Print a requirements file: every package that RUNS used, pinned to its version.

    RUNS is a run folder, or an experiment's folder. No address of an index is in the file: installing it takes the
    one you have configured. `ltr-harness reproduce` trains again in what was installed from it.
    """
    from ltr_harness.files import write_whole
    from ltr_harness.runs import find_runs
    from ltr_harness.runs.identity import requirements

    text = requirements(find_runs(runs))
    if output is None:
        say(text, nl=False)
    else:
        write_whole(output, text)
    return 0


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
def to_mlflow(runs: Path, uri: str | None, experiment: str | None, models: bool, as_json: bool) -> int:
    """Log stored runs to MLflow, each once however often it is called.

    RUNS is a run folder, or an experiment's folder: then its runs stand below one that carries the report. Logged
    are parameters, the history round by round, means on test, every file of the run, per_query.parquet among
    them, and its model, which `mlflow.pyfunc.load_model` loads where nothing of the harness is installed. In names,
    `ndcg@10` becomes `ndcg_at_10`. Needs the extra `mlflow`.
    """
    from dataclasses import asdict

    from ltr_harness.export.mlflow import export

    exported = export(runs, uri=uri, experiment=experiment, models=models)
    if as_json:
        say(json.dumps(asdict(exported), indent=2))
    else:
        there = (
            f"; {len(exported.present)} {plural('was', len(exported.present))} there already"
            if exported.present
            else ""
        )
        say(
            f"{count_of(len(exported.added), 'run')} to the experiment {exported.experiment!r} of {exported.uri}{there}"
        )
        for name, model in exported.models.items():
            say(f"{name}: {model}")
        for name, why in exported.without_model.items():
            say(f"{name}: no model, {why}")
    return 0
