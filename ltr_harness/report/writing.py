"""Building and writing a report: sections give its content, renderers its form; equal runs give equal bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import get_args

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import stored_file, whole_files
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, UsageError
from ltr_harness.experiments.compare import saved
from ltr_harness.experiments.config.report_parts import DEFAULT_FORMATS, SECTIONS, ReportFormat
from ltr_harness.experiments.config.report_parts import section_catalog as catalog
from ltr_harness.report.blocks import OURS, Report, Section, SectionGroup, Text, code
from ltr_harness.report.chart_engine import EngineError, MissingEngineError
from ltr_harness.report.data import ReportData

log = logging.getLogger(__name__)

FORMATS: tuple[str, ...] = get_args(ReportFormat)


GROUPS = {
    SectionGroup("Result", "How do the models compare on every metric, and with each other?"): (
        "next_gain", "metrics", "cutoffs", "precision_recall", "paired", "pairs", "tuning", "sweep",
    ),
    SectionGroup("Where", "On which queries do they differ?"): ("over_time", "slices", "distribution", "queries"),
    SectionGroup("Can I trust it?", "What else could explain the numbers, and what did they cost?"): (
        "failures", "cautions", "seeds", "ties", "conventions", "tools", "data", "training", "features",
        "cost", "position_bias", "partial_feedback",
    ),
    SectionGroup("Record", "What exactly was computed, and from what?"): ("definitions", "provenance"),
}  # fmt: skip
"""The groups of a report without chosen sections; those of other packages stand at the end of the first group."""


def warm_up(formats: Collection[str] = DEFAULT_FORMATS) -> None:
    """Load and compile all that a report needs, which takes a second, while something else runs."""
    with suppress(Exception):  # raised again where the part is needed
        if "svg" in formats or "png" in formats:
            from ltr_harness.report import chart_engine

            chart_engine.warm_up()
        import pyarrow.parquet  # noqa: F401

        from ltr_harness.report.sections import conventions

        if set(formats) != {"json"}:
            for name in SECTIONS:
                catalog.load(name)
        if "html" in formats:
            from ltr_harness.report import html

            html.warm_up()
        conventions.warm_up()


def build_report(data: ReportData, made: Callable[[Section], None] | None = None) -> Report:
    """Return the chosen sections, or all in the order of `SECTIONS`, without those that have nothing to show."""
    names = _section_names(data)
    sections = []
    for name, group in names.items():
        section = Section(name, tuple(catalog.load(name)(data)), group)
        if section.blocks:
            sections.append(section)
            if made is not None:
                made(section)
    if not sections:
        text = f"the report is empty because none of its sections has content: {', '.join(names)}"
        log.warning(Caution("empty-report", "warning", text))
    return _report(data, sections)


def _section_names(data: ReportData) -> dict[str, SectionGroup | None]:
    """Return each section's name with its group; those of other packages are at the end of the first group."""
    names: dict[str, SectionGroup | None] = dict.fromkeys(data.sections or ["verdict"])
    if data.sections:
        return names
    own_names = {*names, *(name for group_names in GROUPS.values() for name in group_names)}
    installed_names = [name for name in catalog.names() if name not in own_names]
    for group, group_names in GROUPS.items():
        names |= dict.fromkeys((*group_names, *installed_names), group)
        installed_names = []
    return names


def _report(data: ReportData, sections: Sequence[Section]) -> Report:
    def document() -> str:
        from ltr_harness.report import json_document

        return json_document.render(data)

    queries = f"{data.n_defined:,} of {count_of(data.comparison.n_queries, 'query')}"
    if data.n_empty:
        queries += f" ({data.n_empty:,} without relevant documents)"
    facts: list[Text] = [(code(data.primary),), queries, count_of(len(data.models), "model")]
    if data.rivals:
        facts.append(f"baseline {data.baseline}")
    return Report(
        data.title, tuple(facts), tuple(sections), document, lambda: saved.to_parquet(data.comparison)
    )


def write_report(
    report: Report | ReportData, folder: str | Path, formats: Collection[str] = DEFAULT_FORMATS
) -> Path:
    """Write the report in the given formats, all files or none; return the path of ``report.html`` or the first file.

    Args:
        report: what `run_experiment` returns as ``report``, or what `build_report` made of it.
        folder: of the files; it is made where it does not exist.
        formats: one or more of ``html``, ``md``, ``json``, ``tex``, ``svg`` and ``png``.

    Raises:
        UsageError: no format, an unknown one, or a file in the folder's place.
    """
    return write_files(report, Path(folder).expanduser(), formats)[0]


def write_files(
    report: Report | ReportData, folder: Path, formats: Collection[str]
) -> tuple[Path, dict[Path, bytes]]:
    """Write the report as `write_report` does; return the main file's path, and the content of each file."""
    chosen = _chosen_formats(formats)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: the report cannot be written: a file has the name of its folder")
    files = _files(report, chosen)
    encoded: dict[Path, bytes] = {}
    with whole_files(folder / "report.html") as temporary:  # all are written before the first is put in place
        for name, content in files.items():
            path = folder / name
            encoded[path] = (
                content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
            )
            temporary(path).write_bytes(encoded[path])
    _remove_earlier(folder, chosen, files)
    main_file = "report.html" if "html" in chosen else next(iter(files), "report.html")
    return folder / main_file, encoded


def _chosen_formats(formats: Collection[str]) -> list[str]:
    """Return the formats in the order of `FORMATS`; refuses unknown names, and none at all."""
    names = [formats] if isinstance(formats, str) else list(formats)
    if not names:
        raise UsageError(f"no report format given; known: {', '.join(FORMATS)}")
    for name in names:
        if name not in FORMATS:
            raise UsageError(f"unknown report format {name!r}; {did_you_mean(name, FORMATS)}")
    return [name for name in FORMATS if name in names]


def _remove_earlier(folder: Path, chosen: Sequence[str], files: Collection[str]) -> None:
    """Remove tables and pictures of an earlier report in the chosen formats that this report does not have."""
    for subfolder, suffix in (("tables", "tex"), ("charts", "svg"), ("charts", "png")):
        if suffix not in chosen:
            continue
        for path in sorted((folder / subfolder).glob(f"*.{suffix}")):
            if f"{subfolder}/{path.name}" in files:
                continue
            with suppress(OSError):  # a pipe, a link: not one of ours
                if OURS.encode() in stored_file(folder / subfolder, path.name).read_bytes():
                    path.unlink()


def _files(report: Report | ReportData, chosen: Sequence[str]) -> dict[str, str | bytes]:
    """Return the content of each file by its name; charts that cannot be drawn are logged, and left out."""
    pool = ThreadPoolExecutor(1)
    pictures: dict[tuple[str, str], Future[str | bytes]] = {}  # by chart and format

    def draw(section: Section) -> None:
        """Begin to draw charts: the engine is a process of its own, which draws while the rest is being made."""
        from ltr_harness.report import charts

        for chart in section.charts:
            if "svg" in chosen:
                pictures[chart.name, "svg"] = pool.submit(charts.svg, chart)
            if "png" in chosen:
                pictures[chart.name, "png"] = pool.submit(charts.png, chart)

    undrawn: dict[str, str] = {}
    noted_by_page: set[str] = set()  # reasons that the page has logged
    try:
        full_report = _build_and_draw(report, chosen, draw)
        files = _pages(full_report, chosen)
        for (name, suffix), picture in pictures.items():
            try:
                files[f"charts/{name}.{suffix}"] = picture.result()
            except EngineError as problem:
                undrawn[name] = str(problem)
                if isinstance(problem, MissingEngineError) and "html" in chosen:
                    noted_by_page.add(str(problem))
    finally:
        # where the report fails, those that nobody has begun to draw are given up: Ctrl-C waits for one at most
        pool.shutdown(cancel_futures=True)
    if "md" in chosen:
        from ltr_harness.report import markdown

        files["report.md"] = markdown.render(full_report, with_charts="svg" in chosen, undrawn=undrawn)
    for reason in sorted(set(undrawn.values()) - noted_by_page):
        names = [name for name, problem in undrawn.items() if problem == reason]
        text = f"{len(names)} of {len(full_report.charts)} charts not drawn ({', '.join(names)}): {reason}"
        log.warning(Caution("undrawn-charts", "note", text))
    return files


def _build_and_draw(
    report: Report | ReportData, chosen: Sequence[str], draw: Callable[[Section], None]
) -> Report:
    """Return the report with its sections; each is drawn as soon as it is made."""
    if isinstance(report, ReportData):
        if chosen == ["json"]:  # has the numbers themselves: no section is needed
            return _report(report, ())
        return build_report(report, draw)
    for section in report.sections:
        draw(section)
    return report


def _pages(report: Report, chosen: Sequence[str]) -> dict[str, str | bytes]:
    """Return the files without pictures; renderers are imported here, as JSON needs no template engine."""
    files: dict[str, str | bytes] = {}
    if "html" in chosen:
        from ltr_harness.report import html

        files["report.html"] = html.render(report)
    if "json" in chosen:
        files["report.json"] = report.document()
        if report.values is not None:
            files[saved.FILE] = report.values()
    if "tex" in chosen:
        from ltr_harness.report import latex

        files |= {f"tables/{table.name}.tex": latex.render(table) for table in report.tables}
    return files
