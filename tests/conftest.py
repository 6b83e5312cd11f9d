"""The real data of the tests, skipping where there is none, and the command line in this process."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest
from _pytest.doctest import DoctestModule

# A busy machine is no failure. What stays the same is tried on other examples each time, on fewer in an ordinary run.
hypothesis.settings.register_profile("all", deadline=None)
hypothesis.settings.register_profile("ordinary", deadline=None, max_examples=30)
hypothesis.settings.load_profile("all")


def examples(most: int, **more: Any) -> hypothesis.settings:
    """Return settings of a property: `most` examples with the slow tests, three tenths of them otherwise."""
    share = hypothesis.settings.default.max_examples / 100  # of the profile
    return hypothesis.settings(max_examples=round(share * most), **more)


@contextmanager
def named_case(case: object) -> Iterator[None]:
    """Name the case that fails, in a test of many: each would take longer to set up than to run."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as problem:  # the second where nothing is raised
        problem.add_note(f"in case {case}")
        raise


# What 7,000 tests import and make stays, and hardly anything is garbage: searched as often as Python does by default,
# it takes a tenth of a session.
gc.set_threshold(50_000, 20, 100)
gc.disable()  # until the tests are collected

# Before a booster is imported: a thread that waits for another sleeps. Awake it would take the core that the other
# needs, and a training of 0.05 s takes a second as soon as something runs beside it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Beside other workers a library takes one thread unless it is told otherwise. OpenMP's are always told, by the harness.
if "PYTEST_XDIST_WORKER" in os.environ:
    for library in ("OPENBLAS", "MKL", "NUMBA", "RAYON"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")

_REPOSITORY = Path(__file__).resolve().parent.parent


def data_folder() -> Path | None:
    """``$LTR_HARNESS_DATA``, else ``../shared/data`` beside the repository's root, else None."""
    given = os.environ.get("LTR_HARNESS_DATA")
    folder = Path(given) if given else _REPOSITORY.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``scripts/test --fast`` does not import a module of which it runs nothing."""
    if "not long" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    return True if b"\npytestmark = pytest.mark.long\n" in collection_path.read_bytes() else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import a worker's share of the modules before it collects them.

    In a new checkout pytest compiles each module, twelve seconds for all. Workers that collect side by side would each
    compile every one; so each finds those of the others compiled.
    """
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    folders = [config.invocation_params.dir / folder for folder in config.args]
    files = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
    for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        if not pytest_ignore_collect(file, config):
            # what fails or skips here does so again when it is collected
            with suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(file.relative_to(_REPOSITORY).with_suffix("").parts))


class _OnlyFilesWithExamples:
    """Looks for examples in docstrings only where one is: not in tests, and in a third of the package's modules."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collectors = yield
        if file_path.is_relative_to(_REPOSITORY / "ltr_harness") and b">>> " in file_path.read_bytes():
            return collectors
        return [one for one in collectors if not isinstance(one, DoctestModule)]


def pytest_configure(config: pytest.Config) -> None:
    # a hook of this file would see the tests' folder alone
    config.pluginmanager.register(_OnlyFilesWithExamples())
    # what hypothesis reads of sources and of Unicode takes each process of a new checkout four seconds
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(kept_folder("hypothesis")))
    if "not slow" in config.option.markexpr:
        hypothesis.settings.load_profile("ordinary")
    if not hasattr(config, "workerinput"):
        with suppress(OSError):
            _copy_kernels(kept_folder("kernels"), _REPOSITORY / "ltr_harness")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        with suppress(OSError):
            _copy_kernels(_REPOSITORY / "ltr_harness", kept_folder("kernels"))
            _remove_old_files(kept_folder("kernels"))
            _remove_old_files(kept_folder("mlflow"))


def kept_folder(name: str) -> Path:
    """A folder of what sessions compile and later ones take, of this checkout and of others of this user."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "ltr-harness" / "tests" / name


def _copy_kernels(source: Path, target: Path) -> None:
    """Copy the machine code that the target lacks or has of earlier: compiling all takes two minutes.

    That of another source is never loaded.
    """
    for file in source.rglob("*.nbk"):
        copy = target / file.relative_to(source)
        if not copy.exists() or copy.stat().st_mtime < file.stat().st_mtime:
            copy.parent.mkdir(parents=True, exist_ok=True)
            unfinished = copy.with_suffix(f".{os.getpid()}")
            shutil.copy2(file, unfinished)
            unfinished.replace(copy)  # whole for a process that reads it meanwhile


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the workers of ``-n auto``: one for each core, and one more for two where tests wait.

    Long tests wait for clusters, for processes that end, and for the browser: a third of two workers' time.
    """
    from ltr_harness._util.cores import available_cores

    cores = available_cores()
    return cores if "not long" in config.option.markexpr else cores + (cores + 1) // 2


def _remove_old_files(folder: Path, days: int = 30) -> None:
    """Remove what was made so long ago: most of it is of sources that have changed since."""
    for file in folder.rglob("*.*"):
        if file.is_file() and time.time() - file.stat().st_mtime > days * 86_400:
            file.unlink(missing_ok=True)


def pytest_report_header() -> str:
    """The libraries whose versions decide results; pytest itself names the Python."""
    named = ["numpy", "scipy", "pandas", "pyarrow", "numba", "lightgbm", "xgboost", "catboost", "onnxruntime"]
    found = {one.name.lower(): one.version for one in distributions() if one.name.lower() in named}
    return "libraries: " + ", ".join(f"{name} {found[name]}" for name in named if name in found)


def pytest_collection_finish() -> None:
    """Freeze all that is imported and collected, so that the garbage collector need not look through it again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = data_folder()
    if folder is None:
        pytest.skip("needs the real ranking data: set LTR_HARNESS_DATA to its folder")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _apart_from_the_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests have a cache, programs and workers of their own.

    It is one fixture, as each that every test has takes a tenth of a test's setup.
    """
    own_cache = _own_data_cache(tmp_path_factory.mktemp("data-cache"))
    core_alone = _core_alone(tmp_path_factory.mktemp("core-alone"))
    with own_cache, core_alone, pytest.MonkeyPatch.context() as patch:
        # thousands of files would wait four milliseconds each to outlive a power cut
        patch.setattr(os, "fsync", lambda file: None)
        _train_in_this_process()
        yield


_numbers = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test alone, as pytest's own fixture makes it but for a link to the latest of each name.

    The link takes longer than the folder. Sockets lie below it, whose paths have 107 bytes at most.
    """
    name = re.sub(r"\W", "_", request.node.name)[:24]
    folder = tmp_path_factory.getbasetemp() / f"{next(_numbers)}-{name}"
    folder.mkdir(mode=0o700)
    return folder


@contextmanager
def _own_data_cache(folder: Path) -> Iterator[None]:
    """Tests neither trust nor fill the data cache of whoever runs them.

    The charts' program, which takes two seconds to bundle, is copied from session to session.
    """
    os.environ["LTR_HARNESS_CACHE"] = str(folder)
    with suppress(OSError):
        shutil.copytree(kept_folder("charts"), folder / "charts")
    yield
    with suppress(OSError):
        shutil.copytree(folder / "charts", kept_folder("charts"), dirs_exist_ok=True)


_FOR_COPIES = (
    *("distributed", "lightgbm.dask", "xgboost.dask"),  # Dask's workers
    *("ltr_harness.workflow", "ltr_harness.cli.commands.run", "ltr_harness.report.writing"),  # `Command`
    "ltr_harness.report.json_document",
)
"""Modules that the copies of the process need which workers are copied from."""


@contextmanager
def _core_alone(folder: Path) -> Iterator[None]:
    """Programs that tests start find no scikit-learn, as after ``pip install .``.

    LightGBM and XGBoost import it where there is one, which takes as long again as they take themselves. Workers of
    this process are no programs: they find what it finds, and Dask's need scikit-learn.
    """
    from multiprocessing import forkserver

    (folder / "sklearn.py").write_text("raise ModuleNotFoundError('a core installation', name='sklearn')\n")
    start = forkserver.ensure_running

    def start_with_all() -> None:
        server = forkserver._forkserver  # type: ignore[attr-defined]
        server.set_forkserver_preload([*server._preload_modules, *_FOR_COPIES])
        with pytest.MonkeyPatch.context() as within:
            within.setenv("PYTHONPATH", before)
            within.delenv("LTR_HARNESS_WITHOUT_SKLEARN", raising=False)
            start()

    with pytest.MonkeyPatch.context() as patch:
        before = os.environ.get("PYTHONPATH", "")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), before])))
        patch.setattr(forkserver, "ensure_running", start_with_all)
        yield


def _train_in_this_process() -> None:
    """Experiments of tests train where they are asked for, on one thread, unless the test says otherwise.

    On two threads tiny models train no faster, and beside other tests each thread waits until the other has its turn.
    """
    from ltr_harness import workflow
    from ltr_harness.cli.commands.run import command

    workflow.threads_of = lambda workers: 1
    workflow.run_experiment.__kwdefaults__["workers"] = 1
    (workers,) = (option for option in command.params if option.name == "workers")
    workers.default = 1


@contextmanager
def reports_left_out() -> Iterator[None]:
    """Within, experiments end when their runs are trained and evaluated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ltr_harness.workflow._TrainingPlan.is_tested", False)
        yield


@pytest.fixture
def without_report() -> Iterator[None]:
    """Experiments end when their runs are trained and evaluated: to compare and report them takes as long again."""
    with reports_left_out():
        yield


@pytest.fixture(scope="module")
def module_without_report() -> Iterator[None]:
    """`without_report` for all tests of a module and its fixtures, which name it."""
    with reports_left_out():
        yield


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """`agreement` computes a coarse posterior, for tests that read none of its digits."""
    monkeypatch.setattr("ltr_harness.experiments.compare.errors_in_variables._TRIAL_POINTS", 200)
    monkeypatch.setattr("ltr_harness.experiments.compare.errors_in_variables._POINTS", 500)


@pytest.fixture
def empty_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of charts are empty: the process that draws them takes as long as the rest of a small report."""
    monkeypatch.setattr("ltr_harness.report.charts.svg", lambda chart: "")
    monkeypatch.setattr("ltr_harness.report.chart_engine.warm_up", lambda: None)


@pytest.fixture(scope="session")
def repository() -> Path:
    return _REPOSITORY


@pytest.fixture(scope="session")
def script(repository: Path) -> Callable[[str], ModuleType]:
    """A function that loads a file of ``scripts``, which is no package, as a module: a new one each time."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, repository / "scripts" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(repository / "scripts")  # they import each other
            spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def project_messages(script: Callable[[str], ModuleType]) -> list[Any]:
    """Every message of the package, as ``scripts/messages.py`` collects them."""
    return list(script("messages").messages())


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line; no traceback may reach the user."""
    from ltr_harness.cli import cli
    from ltr_harness.cli.exit_codes import run_command

    def run(*arguments: Any) -> tuple[int, str, str]:
        code = run_command(cli, [str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture
def commands_folder(tmp_path: Path) -> Path:
    """A folder for the path of scripts, with an `ltr-harness` that writes its arguments to ``arguments``.

    It ends with ``$CODE``. A test runs the command with these arguments in its own process: a new one imports for
    seconds.
    """
    folder = tmp_path / "commands"
    folder.mkdir()
    command = folder / "ltr-harness"
    command.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\" > arguments\nexit ${CODE:-0}\n")
    command.chmod(0o755)
    return folder


def recorded_arguments(folder: Path) -> list[str]:
    """The arguments that `ltr-harness` of `commands_folder` got, called in that folder."""
    return (folder / "arguments").read_text(encoding="utf-8").split("\0")[:-1]


@pytest.fixture(scope="session")
def mlflow_store() -> Path:
    """An empty store of MLflow, to be copied: a new one is migrated for three seconds.

    All sessions share it, until MLflow or the module that makes it is another.
    """
    mlflow = pytest.importorskip("mlflow", reason="needs ltr-harness[mlflow]")
    from filelock import FileLock
    from mlflow.utils import requirements_utils

    from ltr_harness._util.files import file_digest
    from ltr_harness.integrations import mlflow_export
    from ltr_harness.integrations.mlflow_export import _client

    # for a warning about versions MLflow asks every installed package for all of its files, which takes a second
    requirements_utils._MODULES_TO_PACKAGES = {}
    made_by = f"{mlflow.__version__}-{file_digest(mlflow_export.__file__)[:12]}"
    store = kept_folder("mlflow") / f"{made_by}.db"
    store.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{store}.lock"), warnings.catch_warnings(action="ignore"):
        if not store.exists():
            client, _ = _client(f"sqlite:///{store}")
            client._tracking_client.store._dispose_engine()
    return store


@pytest.fixture(scope="session")
def chart_schema() -> Any:
    """A validator of Vega-Lite's schema: altair has a copy, and need not be imported, which takes half a second."""
    import jsonschema

    altair = importlib.util.find_spec("altair")
    assert altair is not None
    (path,) = Path(str(altair.origin)).parent.glob("vegalite/v6/schema/vega-lite-schema.json")
    return jsonschema.Draft7Validator(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def browser(script: Callable[[str], ModuleType]) -> Iterator[Any]:
    """A real one. Of a module and no longer: its driver's event loop would be in the way of other tests' own."""
    pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    chromium = script("chromium")
    path = chromium.find()
    if path is None:
        pytest.skip(chromium.MISSING)
    # threads that compile and collect garbage beside the page take a tenth more CPU time
    with chromium.launched(path, "--js-flags=--single-threaded") as launched:
        yield launched


def without_charts(page: Path) -> Path:
    """Write the page without its charts beside it: they take two thirds of the loading."""
    text, n_charts = re.subn(r'<div class="plot" .*?></div>', "", page.read_text(encoding="utf-8"))
    assert n_charts
    path = page.with_name("without_charts.html")
    path.write_text(text, encoding="utf-8")
    return path
