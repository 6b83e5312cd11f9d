"""How much did the place of a row count, where labels are clicks and models were told so?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ltr_harness.report.blocks import Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.report.data import ReportData

if TYPE_CHECKING:
    from ltr_harness.runs.record import Record


def section(data: ReportData) -> list[Block]:
    """Silent unless a model learned biases (`position_bias: true`)."""
    learned_by = {model: learned for model in data.models if (learned := biases(data.records_of(model)))}
    if not learned_by:
        return []
    positions = sorted({at for learned in learned_by.values() for at in learned}, key=int)
    columns: list[Column] = [Column("Position")]
    for model, learned in learned_by.items():
        kinds = len(next(iter(learned.values())))
        labels = ("bias factor",) if kinds == 1 else ("ti+", "tj-")
        columns += [Column(label, "number", group=model) for label in labels]
    rows: list[tuple[Cell, ...]] = []
    for at in positions:
        row: list[Cell] = [at]
        for learned in learned_by.values():
            kinds = len(next(iter(learned.values())))
            row += list(learned.get(at, (None,) * kinds))
        rows.append(tuple(row))
    return [
        Heading("Position bias"),
        Paragraph(
            "What training took to be due to the place at which a document was displayed, and left out of the model; "
            "after the last trained round, averaged over runs. LightGBM's bias factor was added to scores in training: "
            "the higher, the more a place alone attracts clicks. XGBoost's ti+ and tj- are relative to the first "
            "place, for the clicked and the not clicked document of a pair."
        ),
        Table(
            name="position_bias",
            caption="Learned bias by display position, as the data count positions (XGBoost: rank from 0).",
            columns=tuple(columns),
            rows=tuple(rows),
        ),
    ]


def biases(records: Sequence[Record]) -> dict[str, tuple[float, ...]]:
    """Position to its biases, averaged over the runs that have it."""
    by_position: dict[str, list[Sequence[float | None]]] = {}
    tables = [one for record in records for one in record.learned.get("position_bias", {}).items()]
    for what, table in tables:
        if what == tables[0][0]:
            for at, values in table.items():
                by_position.setdefault(at, []).append(values)
    return {
        at: tuple(np.array(values, dtype=np.float64).mean(axis=0).tolist())
        for at, values in by_position.items()
    }
