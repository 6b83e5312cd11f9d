"""Metrics from outside: own files, functions, installed packages; in evaluation, in other processes, by name."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate, parse_metric
from ltr_harness.errors import MetricError
from ltr_harness.metrics import Metric, function_metric
from ltr_harness.metrics.table import catalog
from tests.conftest import named_case

OWN_CLASS = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ltr_harness.metrics import Metric


@dataclass(frozen=True, kw_only=True)
class TopLabel(Metric):
    """The label of the first row, in units of `scale`."""

    scale: float = 1

    name: ClassVar[str] = "top_label"
    graded: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    takes_cutoff: ClassVar[bool] = False

    def prepare(self, judgments, cutoffs):
        def values(ranking):
            first = ranking.offsets[:-1]
            out = np.empty((1, first.size))
            for query, at in enumerate(first):
                tied = ranking.rows[at : at + ranking.tie_end[at]]
                out[0, query] = judgments.labels[tied].mean() / self.scale
            return out

        return values


def spread(labels, scores):
    """Best minus worst label."""
    return float(labels.max() - labels.min()) if labels.max() > 0 else float("nan")


class NotAMetric:
    pass


class Undecorated(Metric):
    name: ClassVar[str] = "undecorated"
    graded: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Nameless(Metric):
    pass


@dataclass(frozen=True, kw_only=True)
class Thief(TopLabel):
    name: ClassVar[str] = "ndcg"
'''

LABELS, SCORES, SIZES = [1, 3, 2, 0, 0, 0], [0.2, 0.1, 0.4, 0.4, 0.2, 0.1], [2, 2, 2]


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN_CLASS)
    return path


@pytest.mark.long
def test_a_class_in_a_file_of_ones_own(own_file: Path) -> None:
    metric = parse_metric(f"{own_file}:TopLabel(scale=2)")
    assert str(metric) == "top_label(scale=2)"
    assert type(metric).source == "your own"
    assert metric.spelling == f"{own_file}:TopLabel(scale=2)"
    assert parse_metric(metric.spelling) == metric
    ev = evaluate(LABELS, SCORES, group_sizes=SIZES, metrics=[metric, "mrr"])
    np.testing.assert_array_equal(ev["top_label(scale=2)"].per_query, [0.5, 0.5, 0.0])  # the second is a tie
    assert parse_metric({"metric": f"{own_file}:TopLabel", "scale": 2}) == metric


def test_its_digest_follows_the_file(own_file: Path, tmp_path: Path) -> None:
    import hashlib

    metric = parse_metric(f"{own_file}:TopLabel")
    assert metric.digest == hashlib.sha256(own_file.read_bytes()).hexdigest()
    assert parse_metric(f"{own_file}:spread(higher_is_better=true)").digest == metric.digest
    assert parse_metric("ndcg@10").digest is None


def test_relative_paths_are_fixed_when_they_are_read(own_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_file.parent)
    assert parse_metric("./own.py:TopLabel").spelling == f"{own_file}:TopLabel"


def test_a_function_is_spelt_with_what_it_was_given(own_file: Path) -> None:
    for given in (
        "higher_is_better=false",
        "empty=zero,higher_is_better=true",
        "higher_is_better=true,name=gap",
    ):
        assert parse_metric(f"{own_file}:spread({given})").spelling == f"{own_file}:spread({given})"


@pytest.mark.long
def test_a_function_in_a_file_of_ones_own(own_file: Path) -> None:
    metric = parse_metric(f"{own_file}:spread(higher_is_better=false)")
    assert str(metric) == "spread"
    assert not metric.higher_is_better
    assert metric.spelling == f"{own_file}:spread(higher_is_better=false)"
    ev = evaluate(LABELS, SCORES, group_sizes=SIZES, metrics=[metric])
    np.testing.assert_array_equal(ev["spread"].per_query, [2.0, 2.0, np.nan])
    assert ev["spread"].n_undefined == 1
    same = parse_metric({"metric": f"{own_file}:spread", "higher_is_better": False})
    assert same == metric
    named = parse_metric(f"{own_file}:spread(empty=zero,higher_is_better=true,name=gap)")
    assert str(named) == "gap(empty=zero)"
    assert parse_metric(named.spelling) == named
    assert evaluate(LABELS, SCORES, group_sizes=SIZES, metrics=[named]).means[
        "gap(empty=zero)"
    ] == pytest.approx(4 / 3)


@pytest.mark.long
def test_metrics_from_outside_travel_to_other_processes(own_file: Path) -> None:
    metrics = [
        parse_metric(f"{own_file}:TopLabel(scale=2)"),
        parse_metric(f"{own_file}:spread(higher_is_better=true)"),
        parse_metric("err(max_grade=4)@10"),
    ]
    assert pickle.loads(pickle.dumps(metrics)) == metrics
    program = "import pickle, sys; ms = pickle.load(sys.stdin.buffer); print(*ms, *[m.spelling for m in ms])"
    out = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(metrics), capture_output=True, check=True
    )
    assert out.stdout.decode().split() == [*map(str, metrics), *(metric.spelling for metric in metrics)]


def share_of_odd_labels(labels: Any, scores: Any) -> float:
    return float((labels % 2 == 1).mean())


def test_a_plain_function() -> None:
    metric = function_metric(share_of_odd_labels, higher_is_better=False)
    assert metric == function_metric(share_of_odd_labels, higher_is_better=False)
    assert metric != function_metric(share_of_odd_labels, higher_is_better=True)
    assert str(metric) == "share_of_odd_labels"
    assert metric.digest is not None
    assert metric.spelling == str(metric)
    for one in (metric, dataclasses.replace(metric, empty="zero")):
        assert pickle.loads(pickle.dumps(one)) == one
    ev = evaluate(LABELS, SCORES, query_ids=["a", "b", "a", "c", "c", "b"], metrics=[metric, "ndcg@1"])
    np.testing.assert_array_equal(ev[metric].per_query, [0.5, 0.5, 0.0])  # a: 1, 2; b: 3, 0; c: 0, 0
    assert ev.directions["share_of_odd_labels"] is False


def test_a_function_sees_one_query_at_a_time() -> None:
    """Best score over the number of rows: 0.2 / 2, then 0.4 / 2, then 0.3 / 3."""
    metric = function_metric(
        lambda labels, scores: scores.max() / (labels.size + scores.size) * 2,
        name="best",
        higher_is_better=True,
    )
    scores = [0.2, 0.1, 0.4, 0.3, 0.3, 0.2, 0.1]
    ev = evaluate([1] * 7, scores, group_sizes=[2, 2, 3], metrics=[metric])
    assert ev["best"].per_query == pytest.approx([0.1, 0.2, 0.1])


def test_functions_without_a_file_have_digests_too() -> None:
    """As in a console; with a function inside, which has another address in every process."""

    def digest_of(text: str) -> str | None:
        names: dict[str, Any] = {}
        exec(f"def mine(labels, scores):\n    best = lambda rows: {text}\n    return best(labels)", names)
        return function_metric(names["mine"], higher_is_better=True).digest

    assert digest_of("rows.max()") == digest_of("rows.max()") != digest_of("rows.min()")
    bound = function_metric(partial(share_of_odd_labels), name="odd", higher_is_better=True)
    assert bound.digest is not None


def test_functions_that_differ_have_other_digests() -> None:
    first = function_metric(lambda labels, scores: 1.0, name="one", higher_is_better=True)
    second = function_metric(lambda labels, scores: 2.0, name="two", higher_is_better=True)
    assert first.digest != second.digest


def test_what_a_partial_function_was_given_counts() -> None:
    def share_above(labels: Any, scores: Any, least: float) -> float:
        return float((labels >= least).mean())

    def digest(**given: float) -> str | None:
        return function_metric(partial(share_above, **given), name="above", higher_is_better=True).digest

    assert digest(least=1.0) == digest(least=1.0) != digest(least=2.0)


@pytest.mark.parametrize("which", [0, 1])
def test_a_function_cannot_change_what_others_read(which: int) -> None:
    def vandal(*labels_and_scores: Any) -> float:
        labels_and_scores[which][:] = 0
        return 0.0

    with pytest.raises(
        MetricError, match=r"vandal failed on query '0': ValueError: assignment destination is read"
    ):
        evaluate(LABELS, SCORES, group_sizes=SIZES, metrics=[function_metric(vandal, higher_is_better=True)])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda labels, scores: 1 / 0, r"mine failed on query '0': ZeroDivisionError: division by zero"),
        (lambda labels, scores: None, r"mine failed on query '0': TypeError"),
        (lambda labels, scores: float("inf"), r"mine is infinite for query '0'; expected a number"),
    ],
)
def test_a_function_that_fails_is_a_message(result: Any, message: str) -> None:
    metric = function_metric(result, name="mine", higher_is_better=True)
    with pytest.raises(MetricError, match=message):
        evaluate(LABELS, SCORES, group_sizes=SIZES, metrics=[metric])


REFUSED_METRICS = [
    (
        "spread",
        r"is a function without `higher_is_better`; write .*spread\(higher_is_better=true\) "
        "or false",
    ),
    ("spread(higher_is_better=yes)", r"higher_is_better='yes'; expected true or false"),
    (
        "spread(higher_is_better=true,scale=2)",
        r"has no parameter 'scale'; known: empty, higher_is_better, name",
    ),
    ("spread(higher_is_better=true,name=mrr)", r"'mrr' already names another metric"),
    (
        "spread(higher_is_better=true,name=AP)",
        r"'AP' already names another metric, 'map'; choose another name",
    ),
    ("spread(empty=none,higher_is_better=true)", r"empty='none'; expected one of skip, zero, one"),
    ("spread(higher_is_better=true)@10", r"has no parameter 'k'"),
    ("sprad", r"has no 'sprad'; did you mean 'spread'\?"),
    ("NotAMetric", r"is a type; expected a subclass of Metric, or a function f\(labels, scores\)"),
    ("Nameless", r"own.py: Nameless does not declare `name`; add `name: ClassVar = \"my_metric\"`"),
    (
        "Undecorated",
        r"own.py: Undecorated is not a dataclass; put @dataclass\(frozen=True, kw_only=True\) above",
    ),
    ("Thief", r"'ndcg' already names another metric; choose another name"),
    ("TopLabel(scal=2)", r"top_label has no parameter 'scal'; did you mean 'scale'\?"),
    ("TopLabel@10", r"top_label is defined on the whole list; leave out @10"),
    ("TopLabel(as=lightgbm)", r"lightgbm computes no top_label"),
]


def test_what_is_said_about_metrics_from_outside(own_file: Path) -> None:
    for spelt, message in REFUSED_METRICS:
        with named_case(spelt), pytest.raises(MetricError, match=message):
            parse_metric(f"{own_file}:{spelt}")


def test_names_that_cannot_be_read_back() -> None:
    with pytest.raises(MetricError, match=r"'<lambda>' cannot name a metric.*such as name='lambda'"):
        function_metric(lambda labels, scores: 0.0, higher_is_better=True)
    with pytest.raises(MetricError, match=r"3 is not a function"):
        function_metric(3, higher_is_better=True)  # type: ignore[arg-type]
    with pytest.raises(MetricError, match=r"ties=stable; a function sees scores as they are"):
        type(function_metric(share_of_odd_labels, higher_is_better=True))(ties="stable")
    with pytest.raises(MetricError, match=r"empty='none'; expected one of skip, zero, one"):
        type(function_metric(share_of_odd_labels, higher_is_better=True))(empty="none")


@pytest.mark.long
def test_an_installed_package_may_add_a_metric(
    own_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_package.py").write_text(OWN_CLASS)
    info = tmp_path / "their_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[ltr_harness.metrics]\ntop_label = their_package:TopLabel\n")
    (info / "top_level.txt").write_text("their_package\n")
    importlib.invalidate_caches()
    with monkeypatch.context() as within:
        within.setattr(sys, "path", [str(tmp_path)])  # all packages of this environment take a second
        assert "top_label" in catalog.names()
        metric = parse_metric("top_label(scale=2)")
    assert isinstance(metric, Metric)
    assert str(metric) == metric.spelling == "top_label(scale=2)"
    assert metric.digest == "their_package 1.2"
    assert evaluate(LABELS, SCORES, group_sizes=SIZES, metrics=[metric]).means[str(metric)] == pytest.approx(
        1 / 3
    )
