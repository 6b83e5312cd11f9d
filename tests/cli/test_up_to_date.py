"""A `run` of which nothing has changed prints the stored result; whatever has changed, it is made again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness._util.files import cache_folder
from ltr_harness.cli import up_to_date
from ltr_harness.cli.exit_codes import run_command

pytestmark = pytest.mark.long

Ltr = Callable[..., tuple[int, str, str]]

BASE: dict[str, Any] = {
    "data": {
        "reader": "letor",
        "root": "data",
        "splits": {"train": "train.txt", "valid": "valid.txt", "test": "test.txt"},
    },
    "metrics": {"cutoffs": [3], "report": ["ndcg", "mrr"], "primary": "ndcg@3"},
    "report": {"sections": ["verdict", "paired"]},
}
MODELS: dict[str, Any] = {
    "name": "small",
    "extends": "base.yaml",
    "models": {
        "best": {"ranker": "feature", "feature": "1"},
        "other": {"ranker": "feature", "feature": "2"},
        "scored": {"ranker": "scores", "file": "scores.txt"},
    },
}


class World:
    """An experiment in a folder of its own, and its `run`."""

    def __init__(self, folder: Path, ltr: Ltr, formats: Sequence[str] = ("json",)) -> None:
        self.folder, self._ltr = folder, ltr
        self.runs = folder / "runs" / "small"
        self.config = folder / "small.yaml"
        (folder / "data").mkdir(parents=True)
        for part, n_queries in (("train", 4), ("valid", 3), ("test", 12)):
            rows = [
                f"{(row + query) % 3} qid:{part}{query} 1:{(row * 7 + query) % 5} 2:{(row * 3 + query * query) % 7}"
                for query in range(n_queries)
                for row in range(5)
            ]
            (folder / "data" / f"{part}.txt").write_text("\n".join(rows) + "\n")
        (folder / "scores.txt").write_text("\n".join(str(row % 11) for row in range(60)) + "\n")
        base = {**BASE, "report": {**BASE["report"], "formats": [*formats]}}
        (folder / "base.yaml").write_text(yaml.safe_dump(base))
        self.config.write_text(yaml.safe_dump(MODELS))

    def run(self, *options: str) -> tuple[int, str, str]:
        return self._ltr("run", self.config, "--runs", self.folder / "runs", *options)

    @property
    def pages(self) -> list[Path]:
        """The pages of the cache, the newest last."""
        cache = cache_folder()
        assert cache is not None
        return sorted((cache / "finished").glob("*.json"), key=lambda page: page.stat().st_mtime_ns)

    @property
    def is_up_to_date(self) -> bool:
        return up_to_date.read(self.pages[-1]) is not None


@pytest.fixture(autouse=True, scope="module")
def _as_in_a_new_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The command trusts a page only where nothing is loaded yet, as in no test; its sources are two."""
    package = tmp_path_factory.mktemp("package")
    for name in ("ndcg.py", "mrr.py"):
        shutil.copy(up_to_date._PACKAGE / "metrics" / name, package)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(up_to_date, "_LOADED", "none of the modules")
        patch.setattr(up_to_date, "_PACKAGE", package)
        yield


@pytest.fixture
def world(tmp_path: Path, ltr: Ltr, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("LTR_HARNESS_CACHE", str(tmp_path / "cache"))
    return World(tmp_path / "work", ltr)


@pytest.fixture
def trained_world(world: World, finished: World) -> World:
    """An experiment whose runs are there, and no page of it; without the model whose file is elsewhere."""
    models = {name: model for name, model in MODELS["models"].items() if name != "scored"}
    world.config.write_text(yaml.safe_dump({**MODELS, "models": models}))
    shutil.copytree(finished.runs.parent, world.runs.parent, ignore=shutil.ignore_patterns("scored--*"))
    return world


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, _as_in_a_new_process: None) -> Iterator[World]:
    """An experiment that has run, for tests that undo what they change."""
    folder = tmp_path_factory.mktemp("finished")

    def run(*arguments: Any) -> tuple[int, str, str]:
        return run_command(_cli(), [str(argument) for argument in arguments]), "", ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LTR_HARNESS_CACHE", str(folder / "cache"))
        made = World(folder / "work", run, formats=("json", "md", "svg"))
        assert made.run("--quiet")[0] == 0
        yield made


def _cli() -> Any:
    from ltr_harness.cli import cli

    return cli


@contextmanager
def without_training() -> Iterator[None]:
    """The ordinary way of the command ends in an error."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the experiment is read")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ltr_harness.workflow.read", refuse)
        yield


def _events(lines: str) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in json.loads(line).items() if key != "time"}
        for line in lines.splitlines()
    ]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--quiet",),
        ("--verbose",),
        ("--json",),
        ("--json", "--quiet"),
        ("--set", "data.max_grade=4", "--set", "compare.confidence=0.9", "--no-ledger"),
        ("--accept", "leaking-feature"),
    ],
)
def test_the_same_is_printed_as_by_the_ordinary_way(trained_world: World, options: tuple[str, ...]) -> None:
    ordinary = trained_world.run(*options)
    assert ordinary[0] == 0
    with without_training():
        again = trained_world.run(*options)
    assert again[:2] == ordinary[:2]
    if "--json" in options:
        assert _events(again[2]) == _events(ordinary[2])
    else:
        assert again[2] == ordinary[2]
    assert trained_world.is_up_to_date


def test_what_a_training_printed_is_not_repeated(world: World) -> None:
    code, table, trained = world.run()
    with without_training():
        assert world.run()[:2] == (code, table) == (0, table)
    verified = world.run("--verify")  # hashes all data, and so never takes the short way
    assert verified[:2] == (0, table)
    assert "nothing to train" in verified[2]
    assert "nothing to train" not in trained


def test_each_caution_is_repeated(world: World) -> None:
    """Labels that hardly differ are a warning of the lints."""
    train = world.folder / "data" / "train.txt"
    train.write_text(train.read_text().replace("2 qid", "1 qid").replace("1:4", "1:900000"))
    _, _, before = world.run()
    assert "warning: " in before
    with without_training():
        _, _, again = world.run()
        assert [line for line in again.splitlines() if line.startswith("warning")] == [
            line for line in before.splitlines() if line.startswith("warning")
        ]
    _, _, events = world.run("--json")
    with without_training():
        assert _events(world.run("--json")[2]) == _events(events)
    assert _events(events)[-1]["cautions"]


def _append(path: Path, text: str = " ") -> None:
    path.write_text(path.read_text() + text)


def _swap(path: Path) -> None:
    """Other content of the same size, at the same time of change."""
    before = path.stat()
    content = path.read_bytes()
    path.write_bytes(content.translate(bytes.maketrans(b"12", b"21")))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert path.read_bytes() != content


def _run_file(world: World, name: str) -> Path:
    return next(world.runs.glob("best--*")) / name


def _link(path: Path) -> None:
    target = path.parent.parent.parent.parent / "elsewhere"
    path.rename(target)
    path.symlink_to(target)


CHANGES: Mapping[str, Callable[[World], object]] = {
    "configuration": lambda world: _append(world.config, "# a comment\n"),
    "extended configuration": lambda world: _append(world.folder / "base.yaml", "\n"),
    "configuration gone": lambda world: world.config.unlink(),
    "data of the same size and time": lambda world: _swap(world.folder / "data" / "test.txt"),
    "data longer": lambda world: _append(world.folder / "data" / "valid.txt", "0 qid:more 1:1\n"),
    "data gone": lambda world: (world.folder / "data" / "train.txt").unlink(),
    "a file more beside the data": lambda world: (world.folder / "data" / "train.txt.query").write_text("1"),
    "a model's own file": lambda world: _swap(world.folder / "scores.txt"),
    "record": lambda world: _append(_run_file(world, "record.json"), "\n"),
    "values of queries": lambda world: _run_file(world, "per_query.parquet").write_bytes(b"PAR1"),
    "scores": lambda world: _run_file(world, "test_scores.parquet").unlink(),
    "a link in place of a run's file": lambda world: _link(_run_file(world, "per_query.parquet")),
    "a run gone": lambda world: shutil.rmtree(_run_file(world, "")),
    "stored configuration": lambda world: _append(world.runs / "experiment.yaml"),
    "plan": lambda world: _append(world.runs / "plan.json"),
    "report edited": lambda world: _swap(world.runs / "report" / "report.json"),
    "report gone": lambda world: (world.runs / "report" / "report.md").unlink(),
    "values of the comparison": lambda world: (world.runs / "report" / "comparison.parquet").write_bytes(b""),
    "a chart": lambda world: next((world.runs / "report" / "charts").glob("*.svg")).write_text("<svg/>"),
    "ledger": lambda world: _append(world.runs.parent / "looks.jsonl", "\n"),
    "ledger gone": lambda world: (world.runs.parent / "looks.jsonl").unlink(),
    "what a killed command left": lambda world: (world.runs / ".unfinished-host-1-abc").mkdir(),
    "page cut short": lambda world: world.pages[-1].write_bytes(world.pages[-1].read_bytes()[:-9]),
    "page edited": lambda world: world.pages[-1].write_text(world.pages[-1].read_text().replace("ndcg", "NDCG")),
    "page of another form": lambda world: world.pages[-1].write_text(up_to_date.as_page({"table": "forged"})),
    "page gone": lambda world: [page.unlink() for page in world.pages],
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_has_changed_is_noticed(
    finished: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    place, kept = finished.folder.parent, tmp_path / "kept"
    monkeypatch.setenv("LTR_HARNESS_CACHE", str(place / "cache"))
    page = finished.pages[-1]
    place.rename(kept)
    try:
        shutil.copytree(kept, place)
        assert up_to_date.read(page) is not None  # other times and other inodes, and the same content
        CHANGES[change](finished)
        assert up_to_date.read(page) is None
    finally:
        shutil.rmtree(place)
        kept.rename(place)


@pytest.mark.parametrize(
    "option",
    [
        ("--set", "compare.confidence=0.9"),
        ("--set", "report.formats=[json]"),
        ("--accept", "leaking-feature"),
        ("--workers", "2"),
        ("--fail-fast",),
        ("--no-ledger",),
        ("--quiet",),
        ("--verbose",),
        ("--json",),
        ("--runs", "others"),
    ],
)
def test_other_options_have_another_page(
    finished: World, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    assert _page(finished) == _page(finished)
    assert _page(finished, *option) not in (None, _page(finished))


def _page(world: World, *options: str) -> Path | None:
    from ltr_harness.cli.commands.run import command

    context = command.make_context("run", [str(world.config), *options])
    return up_to_date.page_of(context.params)


@pytest.mark.parametrize("option", [("--force",), ("--verify",), ("--dry-run",), ("--final", "best")])
def test_some_options_never_repeat(finished: World, option: tuple[str, ...]) -> None:
    assert _page(finished, *option) is None


@pytest.mark.parametrize("place", ["--dask=tcp://10.0.0.5:8786", "--workers=dask:2"])
def test_a_cluster_never_repeats(finished: World, place: str) -> None:
    assert _page(finished, place) is None


def test_other_code_and_places_have_another_page(
    finished: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _page(finished)

    def changed(change: Callable[[pytest.MonkeyPatch], object]) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            change(patch)
            return _page(finished) not in (None, before)

    package = tmp_path / "ltr_harness"
    shutil.copytree(up_to_date._PACKAGE, package)
    monkeypatch.setattr(up_to_date, "_PACKAGE", package)
    before = _page(finished)
    _append(package / "ndcg.py", "\n")
    assert changed(lambda _: None)  # a line of its own source
    before = _page(finished)
    (tmp_path / "site" / "plugin-1.0.dist-info").mkdir(parents=True)
    assert changed(lambda patch: patch.syspath_prepend(tmp_path / "site"))
    assert changed(lambda patch: patch.setattr(sys, "version", "3.99"))
    assert changed(lambda patch: patch.setattr(up_to_date, "available_cores", lambda: 64))
    assert changed(lambda patch: patch.chdir(tmp_path))
    assert changed(lambda patch: patch.setenv("HOME", str(tmp_path)))
    assert changed(lambda patch: patch.setenv("LTR_HARNESS_READ_LIMIT", "1GB"))
    assert not changed(lambda patch: patch.setenv("EDITOR", "vi"))
    terminal = up_to_date.TextForm(120, True, "utf-8")
    assert changed(lambda patch: patch.setattr(up_to_date.TextForm, "of", lambda stream: terminal))
    monkeypatch.setenv("LTR_HARNESS_CACHE", "off")
    assert _page(finished) is None


def test_loaded_code_never_repeats(finished: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory may be other than what is on the disk."""
    monkeypatch.setattr(up_to_date, "_LOADED", "pytest")
    assert _page(finished) is None


def test_a_touched_file_is_the_same(finished: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in finished.folder.rglob("*"):
        os.utime(path)
    assert finished.is_up_to_date


def test_code_of_the_users_own_is_run_again(world: World) -> None:
    """It may read what nobody has a digest of."""
    (world.folder / "mine.py").write_text(
        "from ltr_harness.models.feature import FeatureRanker as Mine\nclass My(Mine): pass\n"
    )
    ranker = f"models.best.ranker={world.folder}/mine.py:My"
    assert world.run("--set", ranker)[0] == 0
    assert world.pages == []


def test_a_failed_model_is_trained_again(world: World) -> None:
    assert world.run("--set", "models.other.feature=9")[0] in (1, 2)
    assert world.pages == []


def test_what_was_logged_may_be_logged_again(world: World) -> None:
    assert world.run()[0] == 0
    _run_file(world, "test_scores.parquet").unlink()
    for page in world.pages:
        page.unlink()
    _, _, err = world.run()
    assert "damaged or missing" in err
    assert world.pages == []
    world.run()
    assert world.is_up_to_date


LOOK = {
    "test": "0" * 64,
    "metric": "ndcg@3",
    "models": ["a", "b"],
    "schema_version": 3,
    "written_by": "0.2.0",
}

MEANWHILE: Mapping[str, Callable[[World], object]] = {
    "configuration": lambda world: _append(world.config, "# edited\n"),
    "record": lambda world: _append(_run_file(world, "record.json"), "\n"),
    "data": lambda world: _append(world.folder / "data" / "test.txt", "\n"),
    "data gone": lambda world: (world.folder / "data" / "test.txt").unlink(),
    "ledger": lambda world: _append(world.runs.parent / "looks.jsonl", json.dumps(LOOK) + "\n"),
}


@pytest.mark.parametrize("change", MEANWHILE)
def test_what_changes_while_it_runs_is_noticed_next_time(
    trained_world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Others edit and write beside a command: no page has what it has not read."""
    from ltr_harness import workflow

    experiment_data = workflow.experiment_data

    def compare_and_change(*arguments: Any, **more: Any) -> Any:
        data = experiment_data(*arguments, **more)
        MEANWHILE[change](trained_world)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(workflow, "experiment_data", compare_and_change)
        assert trained_world.run("--quiet")[0] == 0
    assert not any(up_to_date.read(page) for page in trained_world.pages)


def test_the_report_of_another_command_is_none_of_ours(
    trained_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands with other options write the same files at once: the later one's are in place."""
    from ltr_harness import workflow

    write_files = workflow.write_files

    def write_and_lose(*arguments: Any) -> Any:
        written = write_files(*arguments)
        _append(trained_world.runs / "report" / "report.json")
        return written

    with monkeypatch.context() as patch:
        patch.setattr(workflow, "write_files", write_and_lose)
        assert trained_world.run("--quiet")[0] == 0
    assert not trained_world.is_up_to_date


def test_a_command_killed_before_its_page_runs_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(up_to_date.Recording, "store", end)
        assert world.run()[0] == 130
    assert (world.runs / "report" / "report.json").is_file()
    assert world.pages == []
    code, _, err = world.run()
    assert code == 0
    assert "nothing to train" in err
    assert world.is_up_to_date


def test_no_worker_is_started_where_everything_is_there(
    trained_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise AssertionError("workers are started")

    monkeypatch.setattr("ltr_harness.experiments.training.pool.worker_context", refuse)
    code, _, err = trained_world.run("--workers", "2", "--set", "compare.confidence=0.9")
    assert code == 0, err
    assert "nothing to train" in err
    assert trained_world.run("--workers", "2", "--set", "name=another")[0] == 1  # which is new


def test_few_pages_are_kept(trained_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up_to_date, "_MOST_PAGES", 1)
    for confidence in (0.9, 0.99):
        trained_world.run("--set", f"compare.confidence={confidence}")
    assert len(trained_world.pages) == 1
    with without_training():
        assert trained_world.run("--set", "compare.confidence=0.99")[0] == 0


PAGE = """
import sys
from ltr_harness.cli import up_to_date
from ltr_harness.cli.commands.run import command

print(up_to_date.page_of(command.make_context("run", sys.argv[1:]).params), end="")
"""
RUN_AGAIN = """
import sys
from ltr_harness.cli import main

try:
    main(["run", *sys.argv[1:]])
except SystemExit as end:
    heavy = "numpy,pandas,scipy,numba,pyarrow,pydantic,yaml,rich,lightgbm,xgboost,multiprocessing.forkserver"
    print("loaded:", end.code, *sorted(sys.modules.keys() & {*heavy.split(",")}))
"""


def test_no_library_is_loaded_and_no_process_started(trained_world: World) -> None:
    """The page is of this process, under the name that it has in a new one."""
    printed = trained_world.run()[1]
    arguments = [trained_world.config, "--runs", trained_world.runs.parent]

    def in_a_new_process(program: str) -> str:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    shutil.copy(trained_world.pages[-1], in_a_new_process(PAGE))
    again, loaded = in_a_new_process(RUN_AGAIN).rsplit("loaded:", 1)
    assert again == printed
    assert loaded.split() == ["0"]
