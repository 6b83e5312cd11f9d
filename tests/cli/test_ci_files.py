"""The files that gates write for CI: JUnit XML, a page of Markdown, and the documented workflow, run as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
import yaml

from ltr_harness import compare, evaluate
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import UsageError
from ltr_harness.testing import assert_not_worse
from tests.conftest import recorded_arguments

Cli = Callable[..., tuple[int, str, str]]
PAGE = Path(__file__).parents[2] / "docs" / "ci-gate.md"


def write_files(folder: Path) -> None:
    """60 queries of 5 documents: `better` is nearer to the labels than `live`, `worse` farther."""
    rng = np.random.default_rng(0)
    labels = rng.choice([0, 0, 1, 2], 300)
    lines = (f"{grade} qid:{row // 5} 1:0\n" for row, grade in enumerate(labels))
    (folder / "judged.txt").write_text("".join(lines))
    live = labels + rng.normal(scale=1.5, size=300)
    for name, scores in {"live": live, "better": live + labels, "worse": rng.normal(size=300)}.items():
        np.savetxt(folder / f"{name}.txt", scores)


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, ["compare", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


FILES = ("live.txt", "worse.txt", "--data", "judged.txt", "-m", "ndcg@5", "--draws", "200")
GATES = ("--fail-if", "ndcg@5 < baseline and significant", "--fail-if", "ndcg@5 of worse < 0.1")


def test_gates_as_junit_and_as_a_summary(ltr: Cli) -> None:
    Path("summary.md").write_text("before\n")
    code, _, _ = ltr(*FILES, *GATES, "--junit", "out/gates.xml", "--summary", "summary.md")
    assert code == 3
    suite = Xml.parse("out/gates.xml").getroot()
    assert (suite.tag, suite.get("name")) == ("testsuite", "ltr-harness compare")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    failed, passed = suite.findall("testcase")
    assert (failed.get("name"), passed.get("name")) == (GATES[1], GATES[3])
    assert passed.find("failure") is None
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "1 model met the condition"
    assert re.fullmatch(r"worse: ndcg@5 0\.\d{4} < baseline live 0\.\d{4} \(.*\)", failure.text or "")
    assert "live has the highest mean ndcg@5" in (suite.findtext("system-out") or "")
    page = Path("summary.md").read_text()
    assert page.startswith("before\n# ")
    assert "| live | baseline | **0.8900**" in page
    assert "- ❌ ndcg@5 &lt; baseline and significant\n    - worse: ndcg@5" in page
    assert "- ✅ ndcg@5 of worse &lt; 0.1\n" in page
    code, _, _ = ltr(*FILES, "--summary", "summary.md")  # without gates, and appended
    assert (code, Path("summary.md").read_text().startswith(page)) == (0, True)
    assert Path("summary.md").read_text().count("## Gates") == 1


def test_nothing_in_a_name_breaks_the_files(ltr: Cli) -> None:
    hostile = "a<b>&\"'\x1b[2J]]>.txt"
    Path("worse.txt").rename(hostile)
    arguments = ("live.txt", hostile, *FILES[2:], *GATES[:2], "--junit", "gates.xml", "--summary", "s.md")
    assert ltr(*arguments)[0] == 3
    (case,) = Xml.parse("gates.xml").getroot().findall("testcase")
    assert "\\x1b" in (case.findtext("failure") or "")
    assert "\x1b" not in Path("s.md").read_text()
    assert "<b>" not in Path("s.md").read_text()


RARE = (  # 1 - .05 ** (1 / 100) is 1 in 33.9, and .005 * 33.9 is .17
    "a query type below 3 % of traffic may be missing here; it could fail the gate only if it differed by 0.17"
)


def write_alike(n: int) -> None:
    """Two tables of n queries whose values differ by a thousandth, up as often as down."""
    old = np.resize([0.4, 0.5, 0.6, 0.7], n)
    for name, values in {"old": old, "new": old + np.resize([0.001, 0.001, -0.001, -0.001], n)}.items():
        rows = [f"{query},{value:.4f}\n" for query, value in enumerate(values)]
        Path(f"{name}.csv").write_text("query_id,mrr\n" + "".join(rows))


def test_a_gate_that_a_rare_kind_of_query_could_turn_says_so_where_it_passes(ltr: Cli) -> None:
    write_alike(100)
    gate = "mrr < baseline - 0.005"
    files = ("old.csv", "new.csv", "--fail-if", gate, "--fail-if", "mrr < baseline and significant")
    code, out, err = ltr(*files, "--json", "--junit", "gates.xml", "--summary", "s.md")
    assert code == 0
    assert f"gate passed: {gate}\nnote: gate {gate!r}: new: {RARE}\ngate passed: mrr < baseline and" in err
    assert err.count("a query type") == 1  # that nothing was shown is not turned by anything
    caution = {"kind": "rare-kind", "severity": "warning", "text": RARE, "cure": "", "place": "new"}
    assert [held["cautions"] for held in json.loads(out)["gates"]] == [[caution], []]
    margin, significant = Xml.parse("gates.xml").getroot().findall("testcase")
    assert margin.findtext("system-out") == f"new: {RARE}"
    assert significant.find("system-out") is None
    assert f"- ✅ mrr &lt; baseline - 0.005\n    - new: {RARE}\n" in Path("s.md").read_text()
    code, _, err = ltr(*files[:2], "--fail-if", "mrr < baseline - 0.5")  # the most that a query can lose is 1
    assert (code, err) == (0, "gate passed: mrr < baseline - 0.5\n")


def test_a_gate_that_passes_because_nothing_is_shown_says_what_is_not_excluded(ltr: Cli) -> None:
    """A loss of .17 in twelve queries passes: the lower end of the interval stands beside the gate."""
    old = [1, 1, 0.5, 1, 1, 0, 1, 0.5, 1, 1, 1, 0]
    new = [1, 0, 0.5, 1, 0.5, 0, 0, 1, 1, 1, 0.5, 0]
    for name, values in {"old": old, "new": new}.items():
        rows = "".join(f"{query},{value}\n" for query, value in enumerate(values))
        Path(f"{name}.csv").write_text("query_id,mrr\n" + rows)
    gate = "mrr < baseline and significant"
    code, out, err = ltr("old.csv", "new.csv", "--fail-if", gate, "--json", "--summary", "s.md")
    (low,) = [row["ci_low"] for row in json.loads(out)["pairs"]]
    assert code == 0
    assert low < -0.3
    assert f"gate passed: {gate} (a difference of {low:+.4f} is not excluded)\n" in err
    assert f"(a difference of {low:+.4f} is not excluded)" in Path("s.md").read_text().replace("\\", "")
    code, _, err = ltr("new.csv", "old.csv", "--fail-if", "mrr < baseline - 0.9 and significant")
    assert (code, err.splitlines()[0]) == (0, "gate passed: mrr < baseline - 0.9 and significant")


def test_a_strict_gate_takes_thousands_of_queries_and_no_rare_kind_turns_it(ltr: Cli) -> None:
    gate = ("--strict", "--fail-if", "mrr < baseline - 0.02")
    write_alike(100)
    code, _, err = ltr("old.csv", "new.csv", *gate)
    assert (code, "cannot be excluded" in err) == (3, True)
    write_alike(4000)
    code, out, err = ltr("old.csv", "new.csv", "--verbose", *gate)
    assert (code, err) == (0, "gate passed: mrr < baseline - 0.02\n")
    assert "betting test for bounded metrics" in out
    assert ltr("old.csv", "new.csv", "--verbose", "--test", "bounded", *gate[1:])[:2] == (code, out)


def test_misuse(ltr: Cli) -> None:
    code, _, err = ltr(*FILES, "--junit", "gates.xml")
    assert (code, "--junit without --fail-if; its test cases are the gates" in err) == (2, True)
    code, _, err = ltr(*FILES, "--summary", "nowhere/summary.md")
    assert (code, "nowhere/summary.md: cannot be written: No such file or directory" in err) == (2, True)


# --- assert_not_worse


def evaluations(metric: str) -> dict[str, object]:
    rng = np.random.default_rng(0)
    labels, sizes = rng.choice([0, 0, 1, 2], 600), [5] * 120
    live = labels + rng.normal(scale=1.5, size=600)
    scores = {"live": live, "better": live + labels, "worse": rng.normal(size=600)}
    return {name: evaluate(labels, one, group_sizes=sizes, metrics=[metric]) for name, one in scores.items()}


@pytest.mark.parametrize("metric", ["ndcg@5", "kendall_tau_distance(normalized=true)"])
def test_worse_is_worse_in_either_direction(metric: str) -> None:
    ev = evaluations(metric)
    assert (
        assert_not_worse(ev["better"], ev["live"], metric, draws=200).paired("candidate").verdict == "better"
    )
    unknown = nullcontext() if metric == "ndcg@5" else pytest.warns(UserWarning, match="has no known bounds")
    with unknown:
        assert assert_not_worse(ev["better"], ev["live"], metric, by=0.0, draws=200)
    assert assert_not_worse(ev["live"], ev["live"], metric, draws=200)
    name, sign = re.escape(metric), "<" if metric.startswith("ndcg") else ">"
    with pytest.raises(AssertionError, match=rf"candidate: {name} .* {sign} baseline baseline .* p = "):
        assert_not_worse(ev["worse"], ev["live"], metric, draws=200)


def test_with_a_margin_the_candidate_has_to_show_it() -> None:
    ev = evaluations("mrr")
    few = {name: one.frame().head(6).reset_index() for name, one in ev.items()}  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match=r"a query type below 39 % of traffic may be missing"):
        assert assert_not_worse(few["live"], few["live"], "mrr", by=0.01)
    assert assert_not_worse(few["worse"], few["live"], "mrr")  # six queries show nothing,
    with pytest.raises(
        AssertionError, match=r"candidate: mrr < baseline baseline - 0\.01 cannot be excluded"
    ):
        assert_not_worse(few["worse"], few["live"], "mrr", by=0.01)  # and so not this either
    with pytest.raises(UsageError, match="by=-1; expected a number of at least 0"):
        assert_not_worse(few["live"], few["live"], "mrr", by=-1)


def test_what_a_rare_kind_of_query_could_turn_is_a_warning(ltr: Cli) -> None:
    write_alike(100)
    with pytest.warns(UserWarning, match=re.escape(RARE)) as said:
        assert_not_worse("new.csv", "old.csv", "mrr", by=0.005)
    assert Path(said[0].filename).name == Path(__file__).name  # the caller's line
    assert_not_worse("new.csv", "old.csv", "mrr")  # shows nothing, and warns of nothing
    write_alike(4000)
    assert_not_worse("new.csv", "old.csv", "mrr", by=0.02, test="bounded")


def test_one_model_on_each_side() -> None:
    ev = evaluations("mrr")
    with pytest.raises(UsageError, match=r"candidate holds 3 models \(live, better, worse\); expected one"):
        assert_not_worse(ev, ev["live"], "mrr")
    named = assert_not_worse({"new": ev["better"]}, {"old": ev["live"]}, "mrr", draws=200)
    assert named.models == ("candidate", "baseline")
    expected = compare({"live": ev["live"], "better": ev["better"]}, draws=200)
    assert named.paired("candidate").difference == expected.paired("better").difference


# --- the documentation's workflow


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_the_workflow_of_the_documentation_runs(ltr: Cli, tmp_path: Path, commands_folder: Path) -> None:
    """Each `run:` step in a shell, as an Action runs it: the last one fails, and leaves what the next steps upload."""
    (text,) = re.findall(
        r'```yml title="\.github/workflows/search\.yml"\n(.*?)```', PAGE.read_text(), re.DOTALL
    )
    workflow = yaml.safe_load(text)
    steps = workflow["jobs"]["search"]["steps"]
    (tmp_path / "worse.txt").rename(tmp_path / "candidate.txt")
    summary = tmp_path / "summary.md"
    environment = {
        **os.environ,
        "PATH": f"{commands_folder}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
        "CODE": "3",
    }
    codes = [
        subprocess.run(["sh", "-e", "-c", step["run"]], cwd=tmp_path, env=environment, check=False).returncode
        for step in steps
        if "run" in step and not step["run"].startswith("pip install")
    ]
    assert codes == [3]
    subcommand, *arguments = recorded_arguments(tmp_path)
    assert subcommand == "compare"
    assert ltr(*arguments)[0] == 3
    uploads = [step for step in steps if step.get("if") == "always()"]
    assert uploads
    assert all((tmp_path / step["with"]["path"]).exists() for step in uploads)
    assert "## Gates" in summary.read_text()
