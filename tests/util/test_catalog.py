"""From a name to the thing: tables, entry points, own files, and what is said about a name nobody knows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ltr_harness import parse_metric
from ltr_harness._util.catalog import Catalog, did_you_mean, load_own_file
from ltr_harness._util.user_code import is_own_file, own_file_digest
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data import readers
from ltr_harness.errors import ConfigError, MetricError, UsageError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.models import table as rankers

CATALOG = Catalog("number", {"tau": "math:tau", "pi": "math:pi"}, "ltr_harness.no_such_group")


@pytest.mark.long
def test_names_load_what_they_name() -> None:
    import math

    assert CATALOG.load("pi") == math.pi
    assert CATALOG.names() == ["pi", "tau"]


def test_a_name_nobody_knows() -> None:
    with pytest.raises(MetricError, match=r"unknown number 'tao'; did you mean 'tau'\? \(known: pi, tau\)"):
        CATALOG.load("tao", MetricError)
    with pytest.raises(UsageError, match="unknown number 'xyz'; known: pi, tau"):
        CATALOG.load("xyz")


def test_did_you_mean_forgives_case_and_order() -> None:
    assert did_you_mean("NDCG", ["ndcg", "mrr"]) == "did you mean 'ndcg'? (known: mrr, ndcg)"
    assert did_you_mean("zzz", ["ndcg"]) == "known: ndcg"


def test_own_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("ANSWER = 42\n")
    assert is_own_file(f"{path}:ANSWER")
    assert not is_own_file("ndcg")
    assert CATALOG.load(f"{path}:ANSWER") == 42
    with pytest.raises(UsageError, match=r"mine.py: has no 'ANSWR'; did you mean 'ANSWER'\?"):
        load_own_file(f"{path}:ANSWR")
    with pytest.raises(
        UsageError, match=r"nowhere.py: no such file; expected a Python file that defines 'X'"
    ):
        load_own_file(f"{tmp_path}/nowhere.py:X")
    before = own_file_digest(f"{path}:ANSWER")
    path.write_text("ANSWER = 43\n")
    assert own_file_digest(f"{path}:ANSWER") != before


def test_a_broken_own_file_is_a_message_and_leaves_no_module(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    before = set(sys.modules)
    with pytest.raises(
        MetricError, match=r"broken.py: cannot be imported: ZeroDivisionError: division by zero"
    ):
        load_own_file(f"{path}:X", MetricError)
    assert not [name for name in set(sys.modules) - before if "broken" in name]


def test_two_own_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(f"VALUE = {value}\n")
    assert [load_own_file(f"{tmp_path / folder}/mine.py:VALUE") for folder in "ab"] == [1, 2]


OWN = """
from ltr_harness.metrics.precision import HitsMetric
from ltr_harness.metrics import Metric
from ltr_harness.models.ranker import Ranker
from ltr_harness.data.readers.reader import Reader
from dataclasses import dataclass
from typing import ClassVar

class HalfARanker(Ranker):
    def check(self, facts=None):
        return []

class HalfAReader(Reader):
    pass

@dataclass(frozen=True, kw_only=True)
class HalfAMetric(Metric):
    name: ClassVar[str] = "half"
    graded: ClassVar[bool] = False

@dataclass(frozen=True, kw_only=True)
class NoDivisor(HitsMetric):
    name: ClassVar[str] = "no_divisor"

class Stranger:
    pass

class Broken(Reader):
    def read(self, files, root):
        return {}["no such key"]
"""


class TestOwnClasses:
    @pytest.fixture
    def own_file(self, tmp_path: Path) -> Path:
        (tmp_path / "own.py").write_text(OWN)
        return tmp_path / "own.py"

    @pytest.mark.parametrize(
        ("family", "name", "said"),
        [
            ("rankers", "HalfARanker", "HalfARanker does not define fit, load, seed_matters"),
            ("readers", "HalfAReader", "HalfAReader does not define read; expected the methods of Reader"),
            ("metrics", "HalfAMetric", "HalfAMetric does not define prepare"),
            ("metrics", "NoDivisor", "NoDivisor does not define divisor"),
            ("rankers", "Stranger", "Stranger is not a ranker; expected a subclass of ltr_harness.models.Ranker"),
            ("readers", "HalfARanker", "HalfARanker is not a reader; expected a subclass of ltr_harness.data.Reader"),
        ],
    )  # fmt: skip
    def test_what_is_missing_is_said(self, own_file: Path, family: str, name: str, said: str) -> None:
        load = {"rankers": rankers.catalog.load, "readers": readers.catalog.load, "metrics": parse_metric}[
            family
        ]
        with pytest.raises(UsageError, match=said):
            load(f"{own_file}:{name}")

    def test_in_an_experiment_with_its_place(self, own_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(own_file.parent)
        Path("exp.yaml").write_text("""\
name: own
data: {reader: ./own.py:HalfAReader, splits: {train: a, test: b}}
metrics: {cutoffs: [5], report: ["./own.py:HalfAMetric"], primary: ndcg@5}
models: {one: {ranker: ./own.py:HalfARanker}, two: {ranker: ./own.py:Stranger}}
""")
        with pytest.raises(ConfigError) as caught:
            load_experiment(Path("exp.yaml"))
        found = [str(problem).replace(str(own_file), "./own.py") for problem in caught.value.problems]
        assert [line.partition(";")[0] for line in found] == [
            "exp.yaml:2:16: data.reader: ./own.py: HalfAReader does not define read",
            "exp.yaml:3:34: metrics.report.0: ./own.py: HalfAMetric does not define prepare",
            "exp.yaml:4:24: models.one.ranker: ./own.py: HalfARanker does not define fit, load, seed_matters",
            "exp.yaml:4:61: models.two.ranker: ./own.py: Stranger is not a ranker",
        ]

    def test_on_the_command_line(self, own_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (own_file.parent / "d.txt").write_text("1 qid:1 1:0\n0 qid:1 1:1\n")
        (own_file.parent / "s.txt").write_text("1\n0\n")
        data, scores = str(own_file.parent / "d.txt"), str(own_file.parent / "s.txt")
        for arguments, said in (
            (["data", "describe", data, "--reader", f"{own_file}:HalfAReader"], "does not define read"),
            (["data", "describe", data, "--reader", f"{own_file}:Stranger"], "Stranger is not a reader"),
            (
                ["evaluate", "--data", data, "--scores", scores, "-m", f"{own_file}:HalfAMetric"],
                "define prepare",
            ),
        ):
            assert run_command(cli, arguments) == 2
            err = capsys.readouterr().err
            assert said in err
            assert "internal error" not in err

    def test_an_error_in_it_is_not_called_ours(
        self, own_file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (own_file.parent / "d.txt").write_text("1 qid:1 1:0\n")
        arguments = ["data", "describe", str(own_file.parent / "d.txt"), "--reader", f"{own_file}:Broken"]
        assert run_command(cli, arguments) == 1
        err = capsys.readouterr().err
        line = OWN.splitlines().index('        return {}["no such key"]') + 1
        assert err.startswith(
            f"error: {own_file}:{line}: KeyError: 'no such key'; an error in your own code; details: "
        )
