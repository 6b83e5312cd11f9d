"""Bounded reading of somebody else's files and settings: a message in place of a defect or a wait."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ltr_harness import run_experiment
from ltr_harness._util.files import UNFINISHED, file_digest, sweep_unfinished, temporary_folder
from ltr_harness._util.stored import LARGEST
from ltr_harness.comparison.stream import evaluate_stream
from ltr_harness.data.addresses import local_path
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.time_folds import MOST_FOLDS, CalendarSpan, TimeFolds
from ltr_harness.errors import DataError, MissingExtraError, TrainingError
from ltr_harness.experiments.compare import online_agreement as offline_online
from ltr_harness.experiments.compare.ledger import LEDGER, Look, count_look, ledger_content, looks_at
from ltr_harness.experiments.compare.online_agreement import agreement
from ltr_harness.experiments.compare.saved import read_saved, to_parquet
from ltr_harness.experiments.runs import load_run
from ltr_harness.metrics import parse_metric
from ltr_harness.models.blend import BlendModel
from ltr_harness.models.random import RandomModel

Cli = Callable[..., tuple[int, str, str]]
CONFIG: dict[str, Any] = {
    "name": "x",
    "data": {
        "reader": "synthetic",
        "n_queries": {"train": 20, "test": 20},
        "n_features": 12,
        "splits": {"train": "train", "test": "test"},
    },
    "seeds": [1],
    "metrics": {"cutoffs": [10], "report": ["ndcg"], "primary": "ndcg@10"},
    "models": {"chance": {"ranker": "random"}, "other": {"ranker": "random"}},
    "compare": {"baseline": "chance"},
    "report": {"formats": ["json"]},
}


def look(number: int) -> Look:
    return Look("t" * 64, "ndcg@10", (f"{number:016}", "b" * 16))


def test_a_ledger_of_deep_json_counts_what_is_none(tmp_path: Path) -> None:
    count_look(tmp_path, look(1))
    with (tmp_path / LEDGER).open("a") as file:
        file.write("[" * 100_000 + "\n")
        file.write('{"test":' * 100_000 + "\n")
    assert count_look(tmp_path, look(2)).comparisons == 2
    assert looks_at(tmp_path)[("t" * 64, "ndcg@10")].comparisons == 2


@pytest.mark.long
def test_a_ledger_of_20_mb_costs_a_moment(tmp_path: Path) -> None:
    count_look(tmp_path, look(1))
    with (tmp_path / LEDGER).open("a") as file:
        for line in ("{}", "1", "", json.dumps({"test": "t", "metric": "m", "models": ["a"] * 9})):
            for _ in range(5):
                file.write(f"{line}\n" * (2**20 // (len(line) + 1)))
    size = (tmp_path / LEDGER).stat().st_size
    assert len(ledger_content(tmp_path)) <= 4 * 2**20
    started = time.process_time()
    assert count_look(tmp_path, look(2)).comparisons == 2
    assert time.process_time() - started < 2
    assert (tmp_path / LEDGER).stat().st_size == size


@pytest.fixture(scope="module")
def finished_experiment(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run_experiment(CONFIG, runs=tmp_path_factory.mktemp("finished"))


def with_a_column_twice(content: pa.Table, name: str) -> pa.Table:
    names = [*content.column_names, name]
    twice = pa.Table.from_arrays([*content.columns, content[name]], names=names)
    return twice.replace_schema_metadata(content.schema.metadata)


@pytest.mark.long
def test_a_stored_table_with_a_column_twice_is_refused(finished_experiment: Any, tmp_path: Path) -> None:
    saved = tmp_path / "comparison.parquet"
    for name in ("model", "query_id", "ndcg@10"):
        saved.write_bytes(to_parquet(finished_experiment.report.comparison))
        pq.write_table(with_a_column_twice(pq.read_table(saved), name), saved)
        with pytest.raises(
            DataError, match=rf"cannot be read as a saved comparison: it has the column {name} twice"
        ):
            read_saved(saved)
    folder = tmp_path / "run"
    shutil.copytree(finished_experiment.runs[0].path, folder)
    table = folder / "per_query.parquet"
    pq.write_table(with_a_column_twice(pq.read_table(table), "rows"), table)
    record = json.loads((folder / "record.json").read_text())
    record["files"]["per_query.parquet"] = file_digest(table)
    (folder / "record.json").write_text(json.dumps(record))
    with pytest.raises(
        DataError, match=r"per_query\.parquet: cannot be read \(it has the column rows twice\)"
    ):
        _ = load_run(folder).per_query


@pytest.mark.long
def test_of_a_record_that_is_too_large_only_the_beginning_is_read(
    finished_experiment: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished_experiment.runs[0].path, folder)
    os.truncate(folder / "record.json", 100 * LARGEST)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=f"is larger than {LARGEST >> 20} MiB"):
            load_run(folder)
        assert tracemalloc.get_traced_memory()[1] < 2 * LARGEST
    finally:
        tracemalloc.stop()


def test_a_blend_in_a_blend_is_refused(tmp_path: Path) -> None:
    RandomModel(seed=1).save(tmp_path)
    (inner,) = tmp_path.iterdir()
    content, ranker, name = inner.read_bytes(), "random", inner.name
    for _ in range(300):
        part = {"ranker": ranker, "file": name, "weight": 1}
        with ZipFile(tmp_path / BlendModel.FILE, "w") as archive:
            archive.writestr(BlendModel.CONTENTS, json.dumps({"how": "ranks", "parts": {"a": part}}))
            archive.writestr(f"0/{name}", content)
        content, ranker, name = (tmp_path / BlendModel.FILE).read_bytes(), "blend", BlendModel.FILE
    with pytest.raises(DataError, match=r"its part 'a' is a blend; expected models that are trained"):
        BlendModel.load(tmp_path)


def test_rankings_as_json_are_compared_with_qrels(ltr: Cli, tmp_path: Path) -> None:
    names = [tmp_path / "a.json", tmp_path / "b.json"]
    for name, (one, two) in zip(names, ((2.0, 1.0), (1.0, 2.0)), strict=True):
        name.write_text(json.dumps({query: {"x": one, "y": two} for query in ("1", "2", "3")}))
    (tmp_path / "qrels.txt").write_text("1 0 x 1\n2 0 x 1\n3 0 y 1\n")
    code, out, err = ltr("compare", *names, "--qrels", tmp_path / "qrels.txt", "-m", "mrr@2", "--json")
    assert code == 0, err
    means = {one["model"]: one["mean"] for one in json.loads(out)["summaries"] if one["metric"] == "mrr@2"}
    assert means == {
        "a": pytest.approx((1 + 1 + 1 / 2) / 3),
        "b": pytest.approx((1 / 2 + 1 / 2 + 1) / 3),
    }
    code, _, err = ltr("compare", *names)
    assert code == 2
    assert "rankings need --qrels FILE" in err


def test_a_stream_without_room_for_threads_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"query_id": [1, 1], "label": [1, 0], "a": [0.1, 0.2]}), file)

    def refuse_memory(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("mmap.mmap", refuse_memory)
    with pytest.raises(MemoryError):
        evaluate_stream(file, [parse_metric("mrr")], ["a"], {})


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="needs ulimit -v")
def test_a_stream_under_a_limit_of_addresses_ends(tmp_path: Path) -> None:
    n = 200_000
    table = pa.table({"query_id": np.arange(n) // 10, "label": np.arange(n) % 2, "a": np.arange(n) * 1.0})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=20_000)
    said = [sys.executable, "-m", "ltr_harness", "evaluate", "--data", "rows.parquet", "--score-column", "a"]
    limited = ["bash", "-c", 'ulimit -v 1500000; exec "$@"', "bash", *said, "-m", "ndcg@10"]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 2
    assert "internal error" not in done.stderr


def test_a_kind_of_address_without_its_package_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError) as caught:
        local_path("hf://datasets/owner/name/rows.parquet")
    assert str(caught.value).startswith("hf://datasets/owner/name/rows.parquet: needs another package: ")
    assert str(caught.value).endswith("; pip install huggingface_hub")


def experiments(n_metrics: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    true = rng.normal(size=12)
    columns: dict[str, Any] = {"experiment": [f"e{at}" for at in range(12)], "online": true, "online_se": 0.3}
    for k in range(1, n_metrics + 1):
        columns |= {f"ndcg@{k}": 0.01 * (true + rng.normal(size=12)), f"ndcg@{k}_se": 0.004}
    return pd.DataFrame(columns)


@pytest.mark.usefixtures("few_points")
def test_agreement_resamples_each_metric_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    dirichlet = np.random.Generator.dirichlet

    class Counting(np.random.Generator):
        def dirichlet(self, *arguments: Any, **named: Any) -> Any:
            times.append(1)
            return dirichlet(self, *arguments, **named)

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Counting(np.random.PCG64(seed)))
    found = agreement(experiments(3))
    assert len(found.pairs) == 3  # each metric is in two
    assert len(times) == 3


@pytest.mark.usefixtures("few_points")
def test_agreement_says_how_far_it_is() -> None:
    lines: list[str] = []
    found = offline_online.judge_by_experiments(experiments(2), (), None, None, 0.95, lines.append)
    assert lines[:2] == ["1 of 2 metrics: ndcg@1", "2 of 2 metrics: ndcg@2"]
    assert lines[2:] == [
        f"{at} of 2 metrics with intervals: {one.metric}" for at, one in enumerate(found.metrics, start=1)
    ]


def test_folds_in_time_are_bounded() -> None:
    n = 3 * (MOST_FOLDS + 2)
    groups, days = QueryGroups.from_sizes([1] * n), np.repeat(np.arange(n // 3), 3)
    rule = TimeFolds(test=CalendarSpan.of("1 day"))
    found = rf"data\.folds: 1970-01-01 to 1972-09-29 has more than {MOST_FOLDS:,} folds 1 day apart; expected at most"
    with pytest.raises(DataError, match=found):
        rule.divide(groups, np.concatenate([days, [days[-1] + 1] * 3]))
    assert len(TimeFolds(test=CalendarSpan.of("1 day"), at_most=3).divide(groups, days)) == 3


def test_what_a_killed_process_unpacked_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "models").mkdir()
    RandomModel(seed=1).save(tmp_path / "models")
    (inner,) = (tmp_path / "models").iterdir()
    with ZipFile(tmp_path / "models" / BlendModel.FILE, "w") as archive:
        part = {"ranker": "random", "file": inner.name, "weight": 1}
        archive.writestr(BlendModel.CONTENTS, json.dumps({"how": "ranks", "parts": {"a": part}}))
        archive.write(inner, f"0/{inner.name}")
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            model = BlendModel.load(tmp_path / "models")
            os.kill(os.getpid(), signal.SIGKILL)
            model.save(tmp_path)
        os.waitpid(child, 0)
        (left,) = [path for path in tmp_path.iterdir() if path.name != "models"]
        assert left.name.startswith(UNFINISHED)
        assert sweep_unfinished(tmp_path) == 1
    model = BlendModel.load(tmp_path / "models")
    assert sweep_unfinished(tmp_path) == 0
    del model
    assert [path.name for path in tmp_path.iterdir()] == ["models"]
    with temporary_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["runs", "runs/x/chance--*"])
def test_runs_removed_while_others_train_are_named(tmp_path: Path, what: str) -> None:
    (tmp_path / "mine.py").write_text(
        "import shutil\nfrom pathlib import Path\nfrom ltr_harness.models.random import RandomRanker\n"
        "class Mine(RandomRanker):\n    folder: str\n    def fit(self, training):\n"
        "        for path in Path(self.folder).glob(" + repr(what) + "): shutil.rmtree(path)\n"
        "        return super().fit(training)\n"
    )
    own = {"ranker": f"{tmp_path}/mine.py:Mine", "folder": str(tmp_path)}
    config = {**CONFIG, "models": {"chance": {"ranker": "random"}, "own": own}}
    with pytest.raises(
        TrainingError, match="was removed while models were trained; run the same command again"
    ):
        run_experiment(config, runs=tmp_path / "runs")
