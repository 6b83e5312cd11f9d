"""The snippets of README.md and docs/ do as they say: every one runs, page by page, in the order of the page.

``bash`` and ``python`` blocks are executed, in a folder that holds nothing but a copy of configs/; a Python page
is one session. Blocks with ``title="file"`` are written to that file; ``yaml`` among them must pass `check`. A
``text`` block after one that ran is what it printed: to the letter but for ``…``, or word by word where
``<!-- numbers vary -->`` stands above it. A command that is to fail ends in ``# exit code N``.
``<!-- not run: reason -->`` above a block is the only way out; an experiment must then make sense but for its data.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.config.yaml_tree import parse_yaml
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.report.writing import write_files

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*?) -->\n)?^(?P<indent> *)```(?P<language>\w*) *(?P<info>[^\n]*)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
# Words of a shell that are more than one command with arguments; but for where its output goes.
SHELL = {"|", "||", "&", "&&", ";", "<", ">", ">>", "(", ")"}
INTO_FILES = re.compile(r"(?: 2?> [\w.-]+)+$")
# The quickstart says the same of fewer queries and rounds.
SMALLER = {
    "n_queries: {train: 600, valid: 200,": "n_queries: {train: 100, valid: 60,",
    "patience: 20, max_rounds: 200}": "patience: 3, max_rounds: 12}",
}
# Other pages show none of its numbers.
SMALLEST = {
    "seeds: [1, 2, 3]": "seeds: [1, 2]",
    "n_queries: {train: 600, valid: 200, test: 300}": "n_queries: {train: 30, valid: 20, test: 30}",
    "patience: 20, max_rounds: 200}": "patience: 3, max_rounds: 5}",
}
# These pages show no number that comes from it.
SMALLER_IN_PAGES = {
    "cookbook.md": {"patience: 20}": "patience: 2}", "seeds: [1, 2, 3]": "seeds: [1]"},
    "own-script.md": {"patience=20": "patience=3", "iterations=50": "iterations=10"},
    "next-gain.md": {'"patience": 10, "max_rounds": 60}': '"patience": 3, "max_rounds": 20}'},
    "own-ranker.md": {
        "name: estimators\ndata: {reader: synthetic, n_queries: {train: 80, valid: 30, test: 60}": (
            "name: estimators\ndata: {reader: synthetic, n_queries: {train: 10, valid: 5, test: 10}"
        )
    },
    "published.md": {
        "data: {reader: synthetic}": (
            "data: {reader: synthetic, n_queries: {train: 30, valid: 20, test: 30}}"
        )
    },
}


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str
    line: int
    mark: str

    @property
    def is_run(self) -> bool:
        return not self.mark.startswith("not run: ")


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    found = []
    for match in FENCE.finditer(page):
        title = re.search(r'title="([^"]+)"', match["info"])
        text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        line = page[: match.start("text")].count("\n") + 1
        found.append(Block(match["language"], title and title[1], text, line, match["mark"] or ""))
    return found


class Reader:
    """Someone who works through a page: one folder, one Python session, one set of shell variables."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.session: dict[str, Any] = {"__name__": "__main__"}
        self.variables = ""
        self.printed: str | None = None

    def read(self, text: str) -> None:
        """Do what a page says, from top to bottom."""
        for block in blocks(text):
            if block.is_run or block.language == "yaml":
                try:
                    self.follow(block)
                except Exception as problem:
                    raise AssertionError(
                        f"{self.page}, line {block.line}: {type(problem).__name__}: {problem}"
                    ) from problem
            if block.language == "text" or not block.is_run:
                self.printed = None

    def follow(self, block: Block) -> None:
        if block.language == "text":
            self.compare(block)
            return
        if block.title is not None:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
            if block.language == "yaml":
                self.check(block.title, data=block.is_run)
        elif block.language == "python":
            self.printed = self.python(block)
        elif block.language == "bash":
            self.printed = "".join(self.command(line) for line in lines_of(block.text))
        else:
            raise AssertionError(
                f"a {block.language or 'nameless'} block is neither run nor written to a file"
            )

    def python(self, block: Block) -> str:
        code = "\n" * block.line + block.text  # tracebacks name the page's lines
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, self.page, "exec"), self.session)
        return printed.getvalue()

    def command(self, line: str) -> str:
        """Return the output of a line of shell; our own commands run in this process, which spares their imports."""
        command, _, wanted = line.partition("  # exit code ")
        if re.match(r"\w+=", command):
            self.variables += command + "\n"
            return ""
        ours = INTO_FILES.sub("", command)
        try:
            words = list(shlex.shlex(ours, posix=True, punctuation_chars=True))
        except ValueError:
            words = []
        if ours.startswith("ltr-harness ") and not SHELL & set(words):
            code, output, complaint = self.ours(ours.removeprefix("ltr-harness ").partition("  #")[0])
            for stream, file in re.findall(r" (2?)> (\S+)", command.removeprefix(ours)):
                Path(file).write_text(complaint if stream else output, encoding="utf-8")
                output, complaint = (output, "") if stream else ("", complaint)
        elif re.match(r"(?:python -m )?pytest (?=-)", command):
            code, output, complaint = self.pytest(shlex.split(command.partition("pytest ")[2]))
        else:
            done = self.shell(command)
            code, output, complaint = done.returncode, done.stdout, done.stderr
        assert code == int(wanted or 0), f"{line}\nexit code {code}\n{output}{complaint}"
        return output + (complaint if code == 2 else "")

    def ours(self, arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of our command with arguments as one writes them in a shell."""
        expanded = self.shell("printf '%s\\0' " + arguments)
        printed, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
            code = run_command(cli, expanded.stdout.split("\0")[:-1])
        return code, printed.getvalue(), complained.getvalue()

    def pytest(self, arguments: list[str]) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of pytest, in this process too."""
        printed, complained = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(complained),
            warnings.catch_warnings(action="ignore"),  # which this session turns into errors
        ):
            for name in ("path", "meta_path"):
                patch.setattr(sys, name, list(getattr(sys, name)))
            # without the plugin that collects garbage five times when it ends
            code = pytest.main([*arguments, "-p", "no:unraisableexception"])
        return int(code), printed.getvalue(), complained.getvalue()

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        script = f"set -euo pipefail\n{self.variables}{command}\n"
        return subprocess.run(
            ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True
        )

    def check(self, path: str, data: bool) -> None:
        """The YAML is a sound experiment, with its data or without; or a sound monitoring file."""
        keys = set(parse_yaml(Path(path).read_text(encoding="utf-8"), path, Path()).as_python())
        if {"columns", "relevance"} & keys:
            load_monitor_config(Path(path))
            return
        if not data:
            load_experiment(path)
            return
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = run_command(cli, ["check", path])
        assert code == 0, said.getvalue()

    def compare(self, block: Block) -> None:
        if self.printed is None:
            commands = [
                line for line in block.text.splitlines() if re.match(r"(\$ )?(ltr-harness|pip|python) ", line)
            ]
            assert not commands or commands[0].startswith("$ "), f"a command that nobody runs: {commands[0]}"
            return  # a picture made of letters
        shown, printed = block.text, self.printed
        if block.mark == "numbers vary":
            assert words_of(shown) == words_of(printed), printed
            return
        pattern = "".join(
            r"(?:.*\n)*" if line.strip() == "…" else re.escape(line.rstrip()).replace("…", ".*") + r"\s*\n"
            for line in shown.splitlines()
        )
        assert re.fullmatch(r"\s*" + pattern + r"\s*", printed), printed


def lines_of(script: str) -> list[str]:
    """The commands of a block, one string each, continued lines joined, comments left out."""
    lines = script.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def words_of(text: str) -> list[str]:
    return sorted(set(re.findall(r"[^\W\d_]{3,}", text)))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with configs/ and nothing else, without colours, as a page's reader would."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv(
        "PYTEST_DEBUG_TEMPROOT", str(tmp_path)
    )  # pages that run pytest leave nothing elsewhere
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # and need none of the plugins that are here
    return tmp_path


def write_without_pictures(
    report: Any, folder: Path, formats: Collection[str]
) -> tuple[Path, dict[Path, bytes]]:
    return write_files(report, folder, [name for name in formats if name not in ("svg", "png", "tex")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_reader_who_follows_the_page_gets_what_it_shows(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = page.read_text(encoding="utf-8")
    if page.name != "README.md":  # no other reader opens what `run` has drawn, or its page
        monkeypatch.setattr("ltr_harness.workflow.write_files", write_without_pictures)
        monkeypatch.setattr("ltr_harness.report.html.render", lambda report: "")
        monkeypatch.setattr("ltr_harness.report.charts.svg", lambda chart: "")
    quickstart = place / "configs" / "quickstart.yaml"
    text = quickstart.read_text(encoding="utf-8")
    for whole, part in (SMALLER if page.name == "README.md" else SMALLEST).items():
        assert text.count(whole) == 1
        text = text.replace(whole, part)
    quickstart.write_text(text, encoding="utf-8")
    for whole, part in SMALLER_IN_PAGES.get(page.name, {}).items():
        assert whole in content
        content = content.replace(whole, part)
    Reader(str(page.relative_to(ROOT))).read(content)


@pytest.mark.slow
def test_the_quickstart_as_it_is_says_what_the_readme_shows(place: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    Reader("README.md").read(text[: text.index("## Only the metric")])


def test_every_exception_has_its_reason_and_they_are_few() -> None:
    left_out = [
        (page.name, block.mark)
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        if not block.is_run
    ]
    assert all(len(mark.removeprefix("not run: ")) > 10 for _, mark in left_out), left_out
    assert len(left_out) <= 12, left_out


def test_a_page_that_shows_what_does_not_happen_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong in (
        "```python\nprint(1)\n```\n```text\n2\n```\n",
        "```python\n1 / 0\n```\n",
        "```bash\nltr-harness list metrix\n```\n",
        "```bash\nltr-harness list metrix > a.txt 2> b.txt\n```\n",
        "```bash\nltr-harness list metrics > a.txt\n```\n```text\nndcg\n```\n",
        "```bash\nls nowhere\n```\n",
        '```yaml title="a.yaml"\nname: x\n```\n',
        "```\nwhatever\n```\n",
    ):
        with pytest.raises(AssertionError, match="page, line"):
            Reader("page").read(wrong)
