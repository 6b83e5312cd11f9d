"""`ltr-harness run`: train what is missing, compare, report."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ltr_harness
from ltr_harness._util.text import count_of
from ltr_harness._util.user_code import is_own_file
from ltr_harness.cli import options, up_to_date
from ltr_harness.cli.output import echo
from ltr_harness.errors import HarnessError, UsageError

if TYPE_CHECKING:
    from ltr_harness.cli.json_progress import JsonProgress
    from ltr_harness.experiments.config.yaml_tree import Node
    from ltr_harness.experiments.runs import Record
    from ltr_harness.experiments.training.job import Job
    from ltr_harness.report.terminal_progress import TerminalProgress


class _WorkersType(click.ParamType):  # type: ignore[type-arg]  # not generic at run time in older versions
    name = "N|dask:N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if not re.fullmatch(r"(dask:)?[1-9][0-9]*", str(value)):
            expected = "expected at least 1, or dask:N for a Dask cluster of N processes"
            self.fail(f"{value!r}; {expected}", param, ctx)
        return int(value) if str(value).isdecimal() else str(value)


@options.examples("""
  ltr-harness run configs/quickstart.yaml
  ltr-harness run configs/mq2008.yaml --set data.root=/data/mq2008
  ltr-harness run exp.yaml --set models.lgbm.params.num_leaves=63 --workers 2
  ltr-harness run exp.yaml --dry-run
  ltr-harness run exp.yaml --dask tcp://10.0.0.5:8786
  ltr-harness run exp.yaml --final lgbm

\b
Run again after Ctrl-C, a crash or a change: what exists is reused.
Exit codes: 0 good, 1 a model failed (the others are kept), 2 nothing was run.
""")
@click.command("run")
@options.config
@options.overrides
@options.seed
@options.runs
@click.option(
    "--workers",
    type=_WorkersType(),
    show_default="one per core on small data",
    help="Processes; each gets its share of the cores. dask:N: a local Dask cluster of N.",
)
@click.option("--dask", metavar="ADDRESS", help="Train on the Dask cluster with this scheduler.")
@options.flag("--dry-run", "Check everything and print the plan; train nothing.")
@options.flag("--fail-fast", "Stop at the first model that fails.")
@options.flag("--force", "Train everything again.")
@click.option(
    "--final",
    metavar="MODEL",
    help="Then train this one on training and validation rows, with `folds` on all rows, for the rounds that stopping "
    "found.",
)
@options.accept
@options.no_ledger
@options.verify
@options.quiet
@options.verbose
@options.as_json
def command(
    config: Path,
    overrides: tuple[str, ...],
    workers: int | str | None,
    dask: str | None,
    dry_run: bool,
    fail_fast: bool,
    final: str | None,
    accept: tuple[str, ...],
    no_ledger: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Train what is missing, compare, report.

    CONFIG describes the experiment: data, metrics, stopping rule, models. Ends with the comparison at the
    fixed K on stdout and the path of report.html.

    Data in which `ltr-harness check` finds an error is refused; --accept NAME accepts that error.

    With --json, stdout is report.json, and every line on stderr is an event: `ltr-harness schema events`.
    """
    _refuse_with_final(final, as_json, dry_run)
    page = up_to_date.page_of(click.get_current_context().params)
    if (finished := up_to_date.read(page)) is not None:
        return up_to_date.print_again(finished, quiet=quiet, as_json=as_json)
    if not (quiet or as_json):
        echo(up_to_date.READING, err=True)
    if not dry_run and _has_workers(workers, dask):
        _load_workers(config, overrides, given["runs"])
    from ltr_harness.experiments.training.check import refuse_errors
    from ltr_harness.report.terminal_progress import TerminalProgress
    from ltr_harness.workflow import check_final, chosen_cluster, prepare, read, run_prepared

    if no_ledger:
        overrides = (*overrides, "compare.ledger=false")
    n_processes = workers if isinstance(workers, int) else None
    with (
        _listener(quiet, verbose, as_json) as progress,
        up_to_date.recording(page, config) as recording,
        chosen_cluster(workers, dask) as cluster,
    ):
        job = prepare(
            read(config, overrides=overrides, workers=n_processes, cluster=cluster, **given), accept
        )
        if final is not None:
            check_final(job.experiment, final)
        if dry_run:
            refuse_errors(job.cautions)
            progress.planned(job)
            _print_plan(job)
            return 0
        result = run_prepared(job, fail_fast=fail_fast, progress=progress)
        recording.store(result, progress.table_text)
        code = 1 if result.failures else 0
        if not isinstance(progress, TerminalProgress):
            progress.exit_code = code
            progress.print_report(result.report_path)
            return code
    if result.report_path is not None:
        echo(f"report: {result.report_path}")
    _print_failures(result)
    return code if final is None else max(code, _train_final(job, result, final, accept))


def _has_workers(workers: int | str | None, dask: str | None) -> bool:
    """Return whether several processes of this command may train."""
    return dask is None and workers != 1 and not isinstance(workers, str)


def _load_workers(config: Path, overrides: tuple[str, ...], runs: Path) -> None:
    """Let workers load while the data are read, where an experiment has no folder yet: it has something to train."""
    from ltr_harness.experiments.config.expand import merged_tree
    from ltr_harness.experiments.runs.folder import encoded
    from ltr_harness.experiments.training.pool import worker_context

    if not config.expanduser().is_file():  # a pipe can be read only once
        return
    with suppress(HarnessError):  # raised again where it is read
        tree = merged_tree(config, overrides)
        name = tree.find(("name",))
        if name is not None and not (runs.expanduser() / encoded(str(name.value))).exists():
            worker_context(sklearn=_may_need_sklearn(tree))


def _may_need_sklearn(tree: "Node") -> bool:
    """Return whether a model may be trained by a class of scikit-learn's, as those of code from outside may."""
    from ltr_harness.experiments.config.yaml_tree import Node
    from ltr_harness.models.table import RANKERS

    models = tree.mapping.get("models", Node({}, tree.place)).mapping.values()
    rankers = {str(model.mapping["ranker"].value) for model in models if "ranker" in model.mapping}
    return not rankers <= RANKERS.keys() - {"sklearn"} or is_own_file(json.dumps(tree.as_python()))


def _listener(quiet: bool, verbose: bool, as_json: bool) -> "JsonProgress | TerminalProgress":
    if as_json:
        from ltr_harness.cli.json_progress import JsonProgress

        return JsonProgress("run", quiet)
    from ltr_harness.report.terminal_progress import TerminalProgress

    return TerminalProgress(quiet, verbose=verbose)


def _refuse_with_final(final: str | None, as_json: bool, dry_run: bool) -> None:
    if final is None:
        return
    for option, is_given in (("--json", as_json), ("--dry-run", dry_run)):
        if is_given:
            raise UsageError(f"--final: has no meaning with {option}")


def _print_plan(job: "Job") -> None:
    """Print the splits, the searches and the runs to be, with their folders."""
    for line in job.reader.boundaries():
        echo(line)
    for study in job.open_studies:
        done = count_of(len(job.trials_of(study)), "trial")
        echo(f"{'tune':<11}  {study}: {done} done  ->  {job.folder_of(study)}")
    for task in job.tasks:
        echo(f"{task.state:<11}  {task}  ->  {task.folder}")


def _train_final(
    job: "Job", compared: "ltr_harness.ExperimentResult", model: str, accept: tuple[str, ...]
) -> int:
    """Train the final model, print its folder and its value, and return the exit code."""
    from ltr_harness.experiments.training.progress import Progress
    from ltr_harness.workflow import final_experiment, train_on_all

    config = final_experiment(job.experiment, compared.runs, model)
    runs = job.folder.parent
    if job.experiment.data.folds is not None:
        result = train_on_all(config, runs)
    else:
        result = ltr_harness.run_experiment(
            config, runs=runs, accept=accept, workers=1, progress=Progress(), on_failure="keep"
        )
    _print_failures(result)
    n_seeds = len(job.experiment.seeds)
    for run in result.runs:
        echo(f"final: {_final_run_in_words(run.record, n_seeds)}: {run.path}")
    return 1 if result.failures else 0


def _final_run_in_words(record: "Record", n_seeds: int) -> str:
    """Return the model, its seed where there are several, and its mean on test or its number of queries."""
    name = record.model
    if n_seeds > 1 and not record.deterministic:
        name = f"{name}, seed {record.seed}"
    summary = record.metrics.get(record.primary)
    if summary is not None:
        return f"{name}, test {record.primary} {summary.mean_text}"
    return f"{name}, all {count_of(record.data['train'].n_queries, 'query')}"


def _print_failures(result: "ltr_harness.ExperimentResult") -> None:
    for record in (run.record for run in result.failures):
        echo(f"failed: {record.model}, {record.fold}, seed {record.seed}: {record.error}", err=True)
