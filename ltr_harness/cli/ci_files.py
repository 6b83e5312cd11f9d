"""What gates leave for a CI system: JUnit XML, and a page of Markdown such as GitHub shows beside a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ltr_harness.errors import Problem, UsageError
from ltr_harness.wording import count_of, printable

if TYPE_CHECKING:
    from ltr_harness.report.data import ReportData

_FILE = click.Path(path_type=Path, dir_okay=False)

_NONE: Mapping[str, Sequence[str]] = {}

F = TypeVar("F", bound=Callable[..., Any])


def options(command: F) -> F:
    """``--junit`` and ``--summary``; `taken` has their values."""
    appended = 'Append verdict, table and gates as Markdown: --summary "$GITHUB_STEP_SUMMARY".'
    command = click.option("--summary", type=_FILE, metavar="FILE", help=appended)(command)
    return click.option("--junit", type=_FILE, metavar="FILE", help="Write the gates as JUnit XML.")(command)


class Files(NamedTuple):
    """Where what gates found is written; None for nowhere."""

    junit: Path | None
    summary: Path | None

    def write(
        self, data: ReportData, failures: Mapping[str, Sequence[str]], cautions: Mapping[str, Sequence[str]]
    ) -> None:
        """Write the files, whether the gates pass or not.

        Raises:
            UsageError: a file cannot be written.
        """
        from ltr_harness.files import write_whole

        try:
            if self.junit is not None:
                self.junit.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self.junit, as_junit(data.comparison.verdict, failures, cautions))
            if self.summary is not None:
                with open(self.summary, "a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(as_markdown(data, failures, cautions))
        except OSError as problem:
            found = f"cannot be written: {problem.strerror or problem}"
            raise UsageError(Problem(str(problem.filename), found)) from None


def taken(given: dict[str, Any], gates: Sequence[str], interleaving: bool) -> Files:
    """The options' values, taken out of what the command was given.

    Raises:
        UsageError: no gate to write of, or no comparison.
    """
    files = Files(given.pop("junit"), given.pop("summary"))
    if files.junit is not None and not gates:
        raise UsageError("--junit without --fail-if; its test cases are the gates")
    if files.summary is not None and interleaving:
        raise UsageError("--summary with --interleaving; --summary is about comparisons by metrics")
    return files


def as_junit(
    verdict: str, failures: Mapping[str, Sequence[str]], cautions: Mapping[str, Sequence[str]] = _NONE
) -> bytes:
    """One test case for each gate; what fails in it is its failure.

    Example:
        >>> print(as_junit("a is better", {"mrr < 0.4": []}).decode().splitlines()[2].strip())
        <testcase classname="ltr-harness compare" name="mrr &lt; 0.4" />
    """
    from xml.etree import ElementTree as Xml

    name = "ltr-harness compare"
    counts: dict[str, Any] = {
        "tests": len(failures),
        "failures": sum(map(bool, failures.values())),
        "errors": 0,
    }
    suite = Xml.Element("testsuite", {"name": name, **{key: str(value) for key, value in counts.items()}})
    for gate, lines in failures.items():
        case = Xml.SubElement(suite, "testcase", {"classname": name, "name": printable(gate)})
        if lines:
            message = f"{count_of(len(lines), 'model')} met the condition"
            failure = Xml.SubElement(case, "failure", {"type": "gate", "message": message})
            failure.text = "\n".join(map(printable, lines))
        if cautions.get(gate):
            Xml.SubElement(case, "system-out").text = "\n".join(map(printable, cautions[gate]))
    Xml.SubElement(suite, "system-out").text = printable(verdict)
    Xml.indent(suite)
    text: bytes = Xml.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def as_markdown(
    data: ReportData, failures: Mapping[str, Sequence[str]], cautions: Mapping[str, Sequence[str]] = _NONE
) -> str:
    """The report's verdict with its table, and each gate with what fails in it."""
    from ltr_harness.report import markdown
    from ltr_harness.report.blocks import Page, Section
    from ltr_harness.report.sections import verdict

    page = markdown.render(Page(data.title, (Section("verdict", tuple(verdict.section(data))),)))
    lines = []
    for gate, reasons in failures.items():
        lines.append(f"- {'❌' if reasons else '✅'} {markdown.escape(printable(gate))}")
        lines += [f"    - {markdown.escape(printable(line))}" for line in (*reasons, *cautions.get(gate, ()))]
    gates = "\n".join(["\n## Gates\n", *lines, ""]) if lines else ""
    return f"{page}{gates}"
