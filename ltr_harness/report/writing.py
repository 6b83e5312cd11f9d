"""From a comparison to pages people open: sections say what, renderers say how; the same runs give the same bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import get_args

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import stored_file, whole_files
from ltr_harness._util.text import count_of
from ltr_harness.errors import Caution, UsageError
from ltr_harness.experiments.compare import saved
from ltr_harness.experiments.config.report_parts import DEFAULT_FORMATS, SECTIONS, ReportFormat
from ltr_harness.experiments.config.report_parts import section_catalog as catalog
from ltr_harness.report.blocks import OURS, Group, Report, Section, Text, code
from ltr_harness.report.chart_engine import EngineError
from ltr_harness.report.data import ReportData

log = logging.getLogger(__name__)

FORMATS: tuple[str, ...] = get_args(ReportFormat)


GROUPS = {
    Group("Result", "How do the models compare on every metric, and with each other?"): (
        "metrics", "cutoffs", "precision_recall", "paired", "pairs", "tuning", "sweep",
    ),
    Group("Where", "On which queries do they differ?"): ("over_time", "slices", "distribution", "queries"),
    Group("Can I trust it?", "What else could explain the numbers, and what did they cost?"): (
        "failures", "cautions", "seeds", "ties", "conventions", "tools", "data", "training", "features",
        "cost", "position_bias", "partial_feedback",
    ),
    Group("Record", "What exactly was computed, and from what?"): ("definitions", "provenance"),
}  # fmt: skip
"""The groups of a report in which nobody chose the sections; those of other packages stand at the end of the first."""


def warm_up(formats: Collection[str] = DEFAULT_FORMATS) -> None:
    """Load and compile whatever a report needs, a second's work, while something else is being done."""
    with suppress(Exception):  # which comes again where it is needed
        if "svg" in formats or "png" in formats:
            from ltr_harness.report import chart_engine

            chart_engine.warm_up()
        import pandas  # noqa: F401
        import pyarrow.parquet  # noqa: F401

        from ltr_harness.report.sections import conventions

        for name in () if set(formats) == {"json"} else SECTIONS:
            catalog.load(name)
        if "html" in formats:
            from ltr_harness.report import html

            html.warm_up()
        conventions.warm_up()


def build_report(data: ReportData, made: Callable[[Section], None] | None = None) -> Report:
    """The chosen sections' answers, or all in the order of `SECTIONS`, installed ones last, without silent sections."""
    chosen: dict[str, Group | None] = dict.fromkeys(data.sections or ["verdict"])
    if not data.sections:
        known = {*chosen, *(name for names in GROUPS.values() for name in names)}
        others = [name for name in catalog.names() if name not in known]
        for group, names in GROUPS.items():
            chosen |= dict.fromkeys((*names, *others), group)
            others = []  # of other packages, at the end of the first group
    sections = []
    for name, placed in chosen.items():
        section = Section(name, tuple(catalog.load(name)(data)), placed)
        if section.blocks:
            sections.append(section)
            if made is not None:
                made(section)
    if not sections:
        text = f"the report is empty: none of its sections has anything to show: {', '.join(chosen)}"
        log.warning(Caution("empty-report", "warning", text))
    return _report(data, sections)


def _report(data: ReportData, sections: Sequence[Section]) -> Report:
    def document() -> str:
        from ltr_harness.report import json_document

        return json_document.render(data)

    without = f" ({data.n_empty:,} without relevant documents)" if data.n_empty else ""
    facts: tuple[Text, ...] = (
        (code(data.primary),),
        f"{data.n_defined:,} of {count_of(data.comparison.n_queries, 'query')}{without}",
        count_of(len(data.models), "model"),
        *((f"baseline {data.baseline}",) if data.rivals else ()),
    )
    return Report(data.title, facts, tuple(sections), document, lambda: saved.to_parquet(data.comparison))


def write_report(
    report: Report | ReportData, folder: str | Path, formats: Collection[str] = DEFAULT_FORMATS
) -> Path:
    """Write the report in the given formats, all files or none; the path of ``report.html``, or of the first file.

    Args:
        report: what `run_experiment` returns as ``report``, or what `build_report` made of it.
        folder: of the files; it is made where it does not exist.
        formats: one or more of ``html``, ``md``, ``json``, ``tex``, ``svg`` and ``png``.

    Raises:
        UsageError: no format, an unknown one, or a file in the folder's place.
    """
    asked = [formats] if isinstance(formats, str) else list(formats)
    if not asked:
        raise UsageError(f"no report format given; known: {', '.join(FORMATS)}")
    for name in asked:
        if name not in FORMATS:
            raise UsageError(f"unknown report format {name!r}; {did_you_mean(name, FORMATS)}")
    chosen = [name for name in FORMATS if name in asked]
    folder = Path(folder).expanduser()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: the report cannot be written: a file has the name of its folder")
    files = _files(report, chosen)
    with whole_files(folder / "report.html") as temporary:  # all are written before the first is put in place
        for name, content in files.items():
            whole = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
            temporary(folder / name).write_bytes(whole)
    for sub, suffix in (("tables", "tex"), ("charts", "svg"), ("charts", "png")):
        for path in sorted((folder / sub).glob(f"*.{suffix}")) if suffix in chosen else ():
            with suppress(OSError):  # a pipe, a link: not one of ours
                ours = OURS.encode() in stored_file(folder / sub, path.name).read_bytes()
                if ours and f"{sub}/{path.name}" not in files:  # of an earlier report
                    path.unlink()
    return folder / ("report.html" if "html" in chosen else next(iter(files), "report.html"))


def _files(report: Report | ReportData, chosen: Sequence[str]) -> dict[str, str | bytes]:
    """File name to content, in all these formats; charts that cannot be drawn are said, and left out."""
    files: dict[str, str | bytes] = {}
    drawing: dict[tuple[str, str], Future[str | bytes]] = {}
    undrawn: dict[str, str] = {}
    with ThreadPoolExecutor(1) as pool, ExitStack() as given_up:
        # with what makes a report, the charts that nobody has begun to draw: Ctrl-C waits for one at most
        given_up.callback(pool.shutdown, wait=False, cancel_futures=True)

        def draw(section: Section) -> None:
            """The chart engine is a process of its own: pictures are drawn while the rest is being made."""
            from ltr_harness.report import charts

            for chart in section.charts:
                for kind, picture in (("svg", charts.svg), ("png", charts.png)):
                    if kind in chosen:
                        drawing[chart.name, kind] = pool.submit(picture, chart)

        if isinstance(report, ReportData):
            # no section is asked for its blocks where JSON has the numbers themselves
            built = _report(report, ()) if chosen == ["json"] else build_report(report, draw)
        else:
            built = report
            for section in built.sections:
                draw(section)
        if "html" in chosen:  # renderers are imported here: a JSON report needs no template engine
            from ltr_harness.report import html

            files["report.html"] = html.render(built)
        if "json" in chosen:
            files["report.json"] = built.document()
            if built.values is not None:
                files[saved.FILE] = built.values()
        if "tex" in chosen:
            from ltr_harness.report import latex

            files |= {f"tables/{table.name}.tex": latex.render(table) for table in built.tables}
        for (name, kind), drawn in drawing.items():
            try:
                files[f"charts/{name}.{kind}"] = drawn.result()
            except EngineError as problem:
                undrawn[name] = str(problem)
        given_up.pop_all()
    if "md" in chosen:
        from ltr_harness.report import markdown

        files["report.md"] = markdown.render(built, with_charts="svg" in chosen, undrawn=undrawn)
    for why in sorted(set(undrawn.values())):
        names = [name for name, reason in undrawn.items() if reason == why]
        text = f"{len(names)} of {len(built.charts)} charts not drawn ({', '.join(names)}): {why}"
        log.warning(Caution("undrawn-charts", "note", text))
    return files
