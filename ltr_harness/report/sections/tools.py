"""What would another tool print for these very scores?"""

from __future__ import annotations

from collections.abc import Sequence

from ltr_harness.explanation import differences_in_words
from ltr_harness.report.blocks import Block, Cell, Column, Details, Heading, Paragraph, Table, code
from ltr_harness.report.data import ReportData
from ltr_harness.report.metric_names import file_names
from ltr_harness.report.numbers.other_tools import Recomputed
from ltr_harness.wording import count_of


def section(data: ReportData) -> list[Block]:
    tools = data.other_tools
    if not tools:
        return []
    tables = [_table(data, one, name) for one, name in zip(tools, _names(tools), strict=True)]
    blocks: list[Block] = [
        Heading("The same numbers in other tools"),
        Paragraph(
            "Each column evaluates the stored scores again, all seeds of them, under one tool's conventions: look up "
            "the number of a log here before suspecting the model. Below, what the tool does differently."
        ),
        tables[0],
        _words(tools[0], "tools_words"),
    ]
    rest: list[Block] = []
    for one, table in zip(tools[1:], tables[1:], strict=True):
        rest += [table, _words(one, f"{table.name}_words")]
    if rest:
        blocks.append(Details(f"The other {count_of(len(tools) - 1, 'metric')} at this K", tuple(rest)))
    return blocks


def _names(tools: Sequence[Recomputed]) -> list[str]:
    files = file_names([one.metric for one in tools])
    return ["tools", *(f"tools_{files[one.metric]}" for one in tools[1:])]


def _table(data: ReportData, one: Recomputed, name: str) -> Table:
    rows: list[tuple[Cell, ...]] = [(data.model_name(model), *one.means[model]) for model in data.models]
    return Table(
        name=name,
        caption=("Mean ", code(one.metric), " under other conventions."),
        columns=(
            Column("Model"),
            *(
                Column(", ".join(convention.names), "metric", hint=str(convention.metric))
                for convention in one.conventions
            ),
        ),
        rows=tuple(rows),
        notes=tuple(f"Not computed: {reason}" for reason in one.refused),
    )


def _words(one: Recomputed, name: str) -> Table:
    own = one.conventions[0].metric
    return Table(
        name=name,
        caption=("What the others do differently from ", code(one.metric), "."),
        columns=(Column("Convention"), Column("In full", "code"), Column("What differs")),
        rows=tuple(
            (
                ", ".join(convention.names),
                str(convention.metric),
                "; ".join(differences_in_words(own, convention.metric)),
            )
            for convention in one.conventions[1:]
        ),
        sortable=False,
    )
