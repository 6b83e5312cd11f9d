"""A finished `run` of which nothing has changed: printed again from a page in the cache, without any library.

`read` lists what has to be the same. Anything else, and a page that is absent, damaged or of other code, means that
the command runs as ever. The page is written last, after the outputs.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ltr_harness._util.cores import available_cores
from ltr_harness._util.digests import FileDigests, as_page, read_page, sha256
from ltr_harness._util.files import UNFINISHED, cache_folder, file_digest, stored_file, write_whole
from ltr_harness._util.text_form import TextForm
from ltr_harness.cli.output import LoggedCautions, echo, echo_again
from ltr_harness.errors import Caution, HarnessError

if TYPE_CHECKING:
    from ltr_harness.experiments.config import Experiment
    from ltr_harness.experiments.training.job import Job
    from ltr_harness.workflow import ExperimentResult

_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDER = "finished"
_MOST_PAGES = 200
_LOADED = "ltr_harness.experiments.training.job"
_NEVER_REPEATED = ("dask", "dry_run", "final", "force", "verify")
"""Options of a command that is asked to do something, whatever is there."""

READING = "reading the data and checking the models"
"""The first line of `run` on stderr."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished `run`: the files behind it, by path and SHA-256, and what it prints when nothing is to be done."""

    experiment: str  # the experiment's folder
    sources: Mapping[str, str]  # the configuration with what it extends, and other files of models
    data: Mapping[str, str]
    data_folders: Mapping[str, str]  # folders that hold data, and the digest of the names in them
    files: Mapping[str, str]  # records, their files, ledger, configuration and plan as stored, report
    report: str  # its path, as it is printed
    lines: tuple[str, ...]  # on stderr
    table: str  # on stdout; empty with --json, which prints report.json
    cautions: tuple[Mapping[str, Any], ...]  # of --json

    def is_unchanged(self) -> bool:
        """Return whether each file and folder is there and the same, and no killed command left anything behind."""
        if next(Path(self.experiment).glob(f"{UNFINISHED}*"), None) is not None:
            return False
        digests = FileDigests(cache_folder())
        return (
            all(_names_digest(Path(folder)) == digest for folder, digest in self.data_folders.items())
            and all(digests.digest(Path(path)) == digest for path, digest in self.data.items())
            and all(file_digest(path) == digest for path, digest in self.sources.items())
            and all(_stored_digest(Path(path)) == digest for path, digest in self.files.items())
        )


def page_of(options: Mapping[str, Any]) -> Path | None:
    """Return the page of a `run` with these options, in this folder and terminal, by this code and these packages.

    None where the command is never repeated, where there is no cache, and where modules were loaded before: those
    in memory may be others than those on the disk.
    """
    if any(options[name] for name in _NEVER_REPEATED) or isinstance(options["workers"], str):
        return None
    if _LOADED in sys.modules or not _PACKAGE.is_dir():
        return None
    try:
        cache = cache_folder()
        made_by = [
            _sources_digest(),
            _installed_packages(),
            [sys.version, sys.platform, platform.machine(), available_cores()],
            [os.getcwd(), os.path.expanduser("~")],
            {name: value for name, value in os.environ.items() if name.startswith("LTR_HARNESS_")},
            TextForm.of(sys.stdout),
            dict(options),
        ]
    except OSError:
        return None
    key = sha256(json.dumps(made_by, sort_keys=True, default=str).encode())
    return None if cache is None else cache / _FOLDER / f"{key[:40]}.json"


def read(page: Path | None) -> FinishedRun | None:
    """Return the finished run of a page; None where there is none, or anything has changed since.

    By its name, the page is of the same code of ltr-harness, Python, installed packages, number of cores, current
    folder, home, variables LTR_HARNESS_*, form of the output, and options. The rest is `FinishedRun.is_unchanged`.
    """
    if page is None:
        return None
    with suppress(OSError, ValueError, TypeError, KeyError, HarnessError):
        facts = read_page(page)
        finished = None if facts is None else FinishedRun(**facts)
        if finished is not None and finished.is_unchanged():
            return finished
    return None


def print_again(finished: FinishedRun, *, quiet: bool, as_json: bool) -> int:
    """Print what the command prints when everything is there, and return its exit code."""
    if as_json:
        from ltr_harness.cli.json_events import EventStream

        with EventStream("run", quiet) as events:
            for caution in finished.cautions:
                events.caution(Caution(**caution))
            events.print_report(Path(finished.report))
        return 0
    if not quiet:
        for line in finished.lines:
            echo(line, err=True)
    echo_again(finished.table)
    echo(f"report: {finished.report}")
    return 0


@dataclass(frozen=True)
class Recording:
    """A `run` whose page is to be written: its configuration's files before they were read, and what it has logged."""

    page: Path | None  # None where there is to be none
    configuration: Mapping[str, str]
    logged: list[Caution]

    def store(self, result: ExperimentResult, table: str) -> None:
        """Write the page, where all that the result depends on is known and is as it was read."""
        if self.page is None or self.logged or result.failures:
            return
        with suppress(OSError, HarnessError):  # nothing is lost but time
            finished = _finished_run(self.configuration, result, table)
            if finished is not None:
                write_whole(self.page, as_page(asdict(finished)))
                _remove_oldest(self.page.parent)


@contextmanager
def recording(page: Path | None, config: Path) -> Iterator[Recording]:
    """Record a `run` that is about to read its configuration."""
    logged: list[Caution] = []
    handler = LoggedCautions(logged.append)
    logging.getLogger("ltr_harness").addHandler(handler)
    try:
        yield Recording(page, {} if page is None else _configuration_digests(config), logged)
    finally:
        logging.getLogger("ltr_harness").removeHandler(handler)


def _configuration_digests(config: Path) -> dict[str, str]:
    """Return the files of a configuration and their digests; none of what is no file."""
    from ltr_harness.experiments.config.expand import configuration_files

    with suppress(OSError, HarnessError):  # reading it will tell
        if config.expanduser().is_file():
            return {str(path.absolute()): file_digest(path) for path in configuration_files(config)}
    return {}


def _remove_oldest(folder: Path) -> None:
    by_age = sorted(folder.glob("*.json"), key=lambda page: page.stat().st_mtime)
    for page in by_age[:-_MOST_PAGES]:
        page.unlink(missing_ok=True)


def _finished_run(
    configuration: Mapping[str, str], result: ExperimentResult, table: str
) -> FinishedRun | None:
    from ltr_harness.experiments.training.progress import shown_cautions
    from ltr_harness.report.terminal_progress import lines_without_training

    materials = result.materials
    if materials is None or result.report_path is None or not configuration:
        return None
    first = materials.jobs[0]
    if any(_has_other_inputs(job) for job in materials.jobs):
        return None
    data = {path.absolute(): digest for path, digest in first.reader.inputs.items()}
    names = {str(folder): _names_digest(folder) for folder in _folders_of(data, first.experiment.data.root)}
    if {path.absolute() for path in first.reader.input_files()} != data.keys():
        return None  # a file has come or gone
    return FinishedRun(
        experiment=str(result.folder.absolute()),
        sources={**configuration, **first.files},
        data={str(path): digest for path, digest in data.items()},
        data_folders=names,
        files={str(path.absolute()): digest for path, digest in materials.files.items()},
        report=str(result.report_path),
        lines=(READING, *lines_without_training(materials.jobs)),
        table=table,
        cautions=tuple(asdict(caution) for job in materials.jobs for caution in shown_cautions(job)),
    )


def _has_other_inputs(job: Job) -> bool:
    """Return whether a job depends on what has no digest here: other people's code, data elsewhere, a search."""
    from ltr_harness._util.escapes import addressed

    is_copied = any(addressed(path.as_posix()) != path.as_posix() for path in job.reader.inputs)
    return is_copied or job.experiment.tune is not None or not _is_of_harness(job.experiment, job.files)


def _is_of_harness(experiment: Experiment, files: Iterable[str]) -> bool:
    """Return whether reader, models, metrics and sections are the harness's own."""
    from ltr_harness.experiments.config.report_parts import SECTIONS, section_catalog

    stopping = () if experiment.stopping is None else (experiment.stopping.metric,)
    parts: list[object] = [experiment.data.reader, *experiment.metrics.metrics, *stopping]
    for model in experiment.models.values():
        parts += [model.ranker, *model.ranker.metrics()]
    sections = experiment.report.sections or section_catalog.names()
    return (
        all(type(part).__module__.startswith("ltr_harness.") for part in parts)
        and all(name in SECTIONS for name in sections)
        and not any(path.endswith(".py") for path in files)
    )


def _folders_of(files: Iterable[Path], root: Path) -> list[Path]:
    """Return the folders that hold files, and those between them and the folder of the data."""
    root = root.absolute()
    folders: dict[Path, None] = {}
    for file in files:
        above = [folder for folder in file.parents if folder.is_relative_to(root)]
        folders |= dict.fromkeys(above or [file.parent])
    return list(folders)


def _names_digest(folder: Path) -> str:
    return sha256("\0".join(sorted(os.listdir(folder))).encode("utf-8", "surrogateescape"))


def _stored_digest(path: Path) -> str:
    return file_digest(stored_file(path.parent, path.name))


def _sources_digest() -> str:
    """Return the digest of all files of this package, with their names: its version alone does not say what they do."""
    digests = []
    for folder, subfolders, names in os.walk(_PACKAGE):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        digests += [f"{folder} {name} {file_digest(os.path.join(folder, name))}" for name in sorted(names)]
    return sha256("\n".join(digests).encode())


def _installed_packages() -> list[str]:
    """Return the names of all installed packages with their versions, as their folders have them."""
    found = []
    for place in sys.path:
        with suppress(OSError):  # an archive, or not there
            names = os.listdir(place or ".")
            found += sorted(name for name in names if name.endswith((".dist-info", ".egg-info", ".pth")))
    return found
