"""Labels or scores that are upside down: a random order of the candidates is better, and that is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ltr_harness import compare, evaluate
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

RNG = np.random.default_rng(3)
LABELS = RNG.integers(0, 3, 400)
SIZES = [10] * 40
GOOD = LABELS + RNG.normal(0, 1, 400)


def evaluate_scores(scores: np.ndarray) -> object:
    return evaluate(LABELS, scores, ["ndcg@5"], group_sizes=SIZES)


def test_a_comparison_without_a_model_above_random_order_has_it_in_its_headline() -> None:
    both = compare({"down": evaluate_scores(-GOOD), "random": evaluate_scores(RNG.normal(size=400))})
    assert both.headline.text.endswith("; worse than random order")
    (caution,) = (one for one in both.cautions if one.kind == "worse-than-random")
    assert (caution.severity, caution.place) == ("warning", "down")
    assert "a random order of the candidates has" in caution.text
    assert caution.cure == "check whether labels or scores are reversed"


def test_a_good_model_beside_a_bad_one_keeps_the_headline() -> None:
    both = compare({"up": evaluate_scores(GOOD), "down": evaluate_scores(-GOOD)})
    assert "random" not in both.headline.text
    assert [one.place for one in both.cautions if one.kind == "worse-than-random"] == ["down"]


def test_random_scores_and_few_queries_raise_nothing() -> None:
    for seed in range(20):
        scores = np.random.default_rng(seed).normal(size=400)
        assert "random" not in compare({"a": evaluate_scores(scores)}).headline.text
    few = evaluate(LABELS[:50], -GOOD[:50], ["ndcg@5"], group_sizes=[10] * 5)
    assert "random" not in compare({"few": few}).headline.text


@pytest.mark.long
@pytest.mark.parametrize(("sign", "is_said"), [(-1, True), (1, False)])
def test_the_command_evaluate_says_it(
    sign: int, is_said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"{label} qid:{row // 10} 1:{value}"
        for row, (label, value) in enumerate(zip(LABELS, GOOD, strict=True))
    ]
    (tmp_path / "rows.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "scores.txt").write_text("\n".join(map(str, sign * GOOD)), encoding="utf-8")
    command = [
        "evaluate",
        "--data",
        tmp_path / "rows.txt",
        "--scores",
        tmp_path / "scores.txt",
        "-m",
        "ndcg@5",
    ]
    assert run_command(cli, list(map(str, command))) == 0
    printed = capsys.readouterr()
    assert ("a random order of the candidates has" in printed.out + printed.err) is is_said
