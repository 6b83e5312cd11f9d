"""`ltr-harness doctor`: check the installation."""

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np

from ltr_harness._util.cores import available_cores
from ltr_harness._util.files import cache_folder
from ltr_harness.cli import options
from ltr_harness.cli.exit_codes import WITHOUT_DOCSTRINGS
from ltr_harness.cli.output import echo
from ltr_harness.errors import install_line, requirements_of
from ltr_harness.metrics.evaluation import evaluate

SLOW_TO_START = 5.0
"""Seconds after which a first evaluation means that compiled metrics are not kept between processes."""


@dataclass(frozen=True)
class Diagnosis:
    """The state of one part of the installation."""

    status: str  # ok, note, failed
    what: str
    found: str
    cure: str = ""

    def __str__(self) -> str:
        line = f"{self.status:<6}  {self.what}: {self.found}"
        return f"{line}; {self.cure}" if self.cure else line


@options.examples("""
  ltr-harness doctor
  ltr-harness doctor --json > doctor.json     # for a bug report

\b
Exit codes: 0 experiments can run (notes are about optional things), 1 something failed.
""")
@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the diagnoses as JSON.")
def command(as_json: bool) -> int:
    """Check the installation: versions, cores, caches and disks, one metric, and a tiny model of both libraries."""
    diagnoses = []
    for diagnosis in examined():
        diagnoses.append(diagnosis)
        if not as_json:
            echo(str(diagnosis))
    if as_json:
        echo(json.dumps([asdict(diagnosis) for diagnosis in diagnoses], indent=2, ensure_ascii=False))
    return 1 if any(diagnosis.status == "failed" for diagnosis in diagnoses) else 0


def examined() -> Iterator[Diagnosis]:
    """Yield the diagnosis of each part, one after the other."""
    names = ("ltr-harness", "lightgbm", "xgboost", "numpy", "pandas", "numba", "pyarrow")
    versions = [f"Python {sys.version.split()[0]}", *(f"{name} {_version(name)}" for name in names)]
    yield Diagnosis("ok", "versions", ", ".join(versions))
    yield _cores()
    yield from _attempt("compiled metrics", _metrics)
    yield from _attempt("lightgbm", lambda: _trains("lightgbm", "lambdarank"))
    yield from _attempt("xgboost", lambda: _trains("xgboost", "rank:ndcg"))
    yield from _attempt("charts", _charts)
    yield from _attempt("worker processes", _workers)
    yield _data_cache()
    yield _writable("temporary folder", Path(tempfile.gettempdir()))
    yield from _extras()


def _attempt(part: str, diagnose: Callable[[], Diagnosis]) -> Iterator[Diagnosis]:
    """Yield the result of `diagnose`; any error of it is a diagnosis too."""
    try:
        yield diagnose()
    except Exception as problem:
        cure = WITHOUT_DOCSTRINGS if sys.flags.optimize > 1 else "install ltr-harness again"
        yield Diagnosis("failed", part, f"{type(problem).__name__}: {problem}", cure)


def _cores() -> Diagnosis:
    n_cores, n_allowed = os.cpu_count() or 1, available_cores()
    cores = f"{n_allowed}" if n_allowed == n_cores else f"{n_allowed} of {n_cores} may be used"
    variables = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT")
    limits = ", ".join(f"{name}={os.environ[name]}" for name in variables if name in os.environ)
    if not limits:
        return Diagnosis("ok", "cores", cores)
    cure = "it also limits the boosters; unset it to use all"
    return Diagnosis("note", "cores", f"{cores}; {limits}", cure)


def _data_cache() -> Diagnosis:
    folder = cache_folder()
    if folder is None:
        return Diagnosis("note", "data cache", "switched off", "every run parses its files again")
    from ltr_harness.data.cache import kept_entries

    return _writable("data cache", folder, sum(entry.size for entry in kept_entries(folder)))


def _version(name: str) -> str:
    from ltr_harness.experiments.runs.identity import package_versions

    return package_versions([name]).get(name, "not installed")


def _metrics() -> Diagnosis:
    started = time.perf_counter()
    mean = evaluate([2, 0, 1], [0.1, 0.3, 0.2], group_sizes=[3], metrics=["ndcg@3"])["ndcg@3"].mean
    seconds = time.perf_counter() - started
    expected = (1 / 1.5849625007211562 + 3 / 2) / (3 + 1 / 1.5849625007211562)
    if abs(mean - expected) > 1e-12:
        return Diagnosis("failed", "compiled metrics", f"ndcg@3 is {mean!r}, not {expected!r}", "report this")
    if seconds > SLOW_TO_START:
        found = f"right, but {seconds:.1f} s until the first value"
        cure = "normal the first time; if it stays, set NUMBA_CACHE_DIR to a folder that can be written"
        return Diagnosis("note", "compiled metrics", found, cure)
    return Diagnosis("ok", "compiled metrics", f"right, {seconds:.1f} s until the first value")


def _trains(name: str, objective: str) -> Diagnosis:
    """A tiny model that must learn to sort by its one informative feature."""
    if find_spec(name) is None:
        found = "not installed: rankings are evaluated and compared, not trained"
        return Diagnosis("note", name, found, f"pip install {name}")
    from ltr_harness.data.readers.synthetic import Synthetic
    from ltr_harness.models import table as rankers
    from ltr_harness.models.ranker import Training

    data = Synthetic.model_validate({"n_queries": {"train": 30}}).read(["train"], Path())
    ranker = rankers.catalog.load(name).model_validate({"objective": objective})
    started = time.perf_counter()
    fitted = ranker.fit(Training(train=data, seed=1, threads=1, rounds=5))
    if np.ptp(fitted.score(data.features)) == 0:
        found = f"{_version(name)} learned a constant from data that has structure"
        return Diagnosis("failed", name, found, "report this")
    seconds = time.perf_counter() - started
    return Diagnosis("ok", name, f"{_version(name)} trains {objective} ({seconds:.1f} s)")


def _charts() -> Diagnosis:
    from ltr_harness.report import chart_engine

    chart = {"data": {"values": [{"a": 1}]}, "mark": "bar", "encoding": {"x": {"field": "a"}}}
    try:
        chart_engine.draw("svg", chart)
    except chart_engine.MissingEngineError:
        return Diagnosis("note", "charts", "not installed (vl-convert-python)", install_line("charts"))
    except chart_engine.EngineError as problem:
        return Diagnosis("note", "charts", str(problem), "reports have descriptions in place of charts")
    return Diagnosis("ok", "charts", f"vl-convert {_version('vl-convert-python')} draws")


def _workers() -> Diagnosis:
    from ltr_harness.experiments.training.pool import new_pool, worker_context

    started = time.perf_counter()
    with new_pool(1, worker_context()) as pool:
        pool.submit(os.getpid).result(60)
    return Diagnosis("ok", "worker processes", f"start ({time.perf_counter() - started:.1f} s)")


def _writable(part: str, folder: Path, size: int | None = None) -> Diagnosis:
    """Return the diagnosis of a folder to write to, of which `size` bytes are used already."""
    from ltr_harness.data.readers.text_files import in_words

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
        free = shutil.disk_usage(folder).free
    except OSError as problem:
        return Diagnosis("note", part, f"{folder}: {problem.strerror}", "nothing can be kept there")
    status, cure = ("ok", "") if free > 1e9 else ("note", "little room")
    holds = "" if size is None else f", holds {in_words(size)}"
    return Diagnosis(status, part, f"{folder}, {in_words(free)} free{holds}", cure)


def _extras() -> Iterator[Diagnosis]:
    """Yield the optional packages, from the requirements of the distribution."""
    for extra in ("catboost", "tune", "dask", "mlflow", "onnx"):
        packages = [re.split(r"[^\w.-]", requirement)[0] for requirement in requirements_of(extra)]
        missing = [name for name in packages if _version(name) == "not installed"]
        found = ", ".join(f"{name} {_version(name)}" for name in packages)
        if missing:
            found = f"not installed ({', '.join(missing)})"
            yield Diagnosis("note", f"extra {extra}", found, install_line(extra))
        elif packages:
            yield Diagnosis("ok", f"extra {extra}", found)
