"""Files of a comparison for CI systems: gates as JUnit XML; verdict, table and gates as Markdown."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ltr_harness._util.escapes import printable
from ltr_harness._util.files import write_whole
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, UsageError

if TYPE_CHECKING:
    from ltr_harness.report.data import ReportData


class CheckedGate(NamedTuple):
    """A gate, the models that met its condition, and what the queries may lack."""

    gate: str
    failures: Sequence[str]
    cautions: Sequence[Caution] = ()
    not_excluded: str = ""  # the largest loss that it leaves possible where it passes

    @property
    def passed(self) -> str:
        """The gate, and what passing it leaves possible."""
        return f"{self.gate} ({self.not_excluded})" if self.not_excluded else self.gate


def write_junit(path: Path, verdict: str, gates: Sequence[CheckedGate]) -> None:
    """Write the gates as JUnit XML."""
    with _refused_where_it_cannot_be_written():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, as_junit(verdict, gates))


def append_summary(path: Path, data: "ReportData", gates: Sequence[CheckedGate] = ()) -> None:
    """Append verdict, table and gates as Markdown."""
    with (
        _refused_where_it_cannot_be_written(),
        open(path, "a", encoding="utf-8", errors="backslashreplace") as file,
    ):
        file.write(as_markdown(data, gates))


@contextmanager
def _refused_where_it_cannot_be_written() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        found = f"cannot be written: {problem.strerror or problem}"
        raise UsageError.at(problem.filename, found) from None


def as_junit(verdict: str, gates: Sequence[CheckedGate]) -> bytes:
    """JUnit XML: one test case for each gate; what fails in it is its failure."""
    from xml.etree import ElementTree as Xml

    name = "ltr-harness compare"
    counts = {"tests": len(gates), "failures": sum(bool(gate.failures) for gate in gates), "errors": 0}
    suite = Xml.Element("testsuite", {"name": name, **{key: str(value) for key, value in counts.items()}})
    for gate in gates:
        case = Xml.SubElement(suite, "testcase", {"classname": name, "name": printable(gate.gate)})
        if gate.failures:
            message = f"{count_of(len(gate.failures), 'model')} met the condition"
            failure = Xml.SubElement(case, "failure", {"type": "gate", "message": message})
            failure.text = "\n".join(map(printable, gate.failures))
        if gate.cautions:
            Xml.SubElement(case, "system-out").text = "\n".join(map(printable, map(str, gate.cautions)))
    Xml.SubElement(suite, "system-out").text = printable(verdict)
    Xml.indent(suite)
    return bytes(Xml.tostring(suite, encoding="utf-8", xml_declaration=True)) + b"\n"


def as_markdown(data: "ReportData", gates: Sequence[CheckedGate]) -> str:
    """The report's verdict with its table, and each gate with what fails in it, such as GitHub shows beside a job."""
    from ltr_harness.report import markdown
    from ltr_harness.report.blocks import Report, Section
    from ltr_harness.report.sections import verdict

    page = markdown.render(Report(data.title, (), (Section("verdict", tuple(verdict.section(data))),)))
    lines = []
    for gate in gates:
        line = f"❌ {markdown.escape(printable(gate.gate))}"
        if not gate.failures:
            line = f"✅ {markdown.escape(printable(gate.passed))}"
        lines.append(f"- {line}")
        details = (*gate.failures, *map(str, gate.cautions))
        lines += [f"    - {markdown.escape(printable(detail))}" for detail in details]
    listed = "\n".join(["\n## Gates\n", *lines, ""]) if lines else ""
    return f"{page}{listed}"
