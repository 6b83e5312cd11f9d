"""Were the model's scores served?"""

from __future__ import annotations

from ltr_harness.monitoring.report.verdict import label
from ltr_harness.monitoring.results.parity import Parity, ParityWindow
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import Badge, Block, Cell, Column, Heading, Paragraph, Table
from ltr_harness.wording import count_of, plural

_INCOMPLETE = (
    Column("Incomplete", "percent", hint="Of the rows that differ, those that lack a feature."),
    Column("Others", "percent", hint="Of the rows that agree, those that lack a feature."),
)


def section(result: MonitorResult) -> list[Block]:
    parity = result.parity
    if parity is None:
        return []
    blocks: list[Block] = [
        Heading("Served scores"),
        Paragraph(parity.verdict, "warning" if parity.alerts else "lead"),
        _windows(parity, result),
    ]
    if parity.n_unscored:
        n = parity.n_unscored
        blocks.append(
            Paragraph(f"{count_of(n, 'row')} {plural('has', n)} no logged score: not compared.", "note")
        )
    if parity.features:
        blocks.append(_features(parity))
    if parity.examples:
        blocks.append(_examples(parity))
    return blocks


def _windows(parity: Parity, result: MonitorResult) -> Table:
    lacking = parity.whole.incomplete > 0 or parity.whole.incomplete_others > 0
    return Table(
        "parity",
        f"Logged scores against those of {parity.model} for the logged features.",
        (
            Column("Window"),
            Column("Verdict"),
            Column("Rows", "count"),
            Column("Differ", "percent", hint="Of the rows."),
            Column(f"{label(result)} interval"),
            Column("p corrected", "p", hint=f"That it is more than {100 * parity.max_share:g} %, by Bonferroni."),
            Column("Largest", hint="Difference of scores."),
            Column("Median", hint="Over queries with such rows, of their largest difference."),
            Column("Reordered", "percent", hint="Queries that the model would have ordered otherwise."),
            Column("Effect", "difference", hint=f"On {result.primary}: by the logged scores, less by the model's."),
            *(_INCOMPLETE if lacking else ()),
        ),
        tuple(_row(part, lacking) for part in (*parity.windows, parity.whole)),
        notes=(
            f"Scores differ where they are further apart than {parity.tolerance:g} times the model's score, or the "
            "standard deviation of its scores on test rows where that is larger.",
        ),
    )  # fmt: skip


def _row(part: ParityWindow, lacking: bool) -> tuple[Cell, ...]:
    tested = part.p_corrected == part.p_corrected
    quiet = Badge("no alert", "good") if tested else Badge("not tested", "neutral")
    share = part.share
    return (
        part.label, Badge("alert", "bad") if part.alert else quiet, part.n_rows, share.value,
        f"{100 * share.low:.1f} to {100 * share.high:.1f} %" if share.low == share.low else None, part.p_corrected,
        f"{part.largest:.3g}", f"{part.typical:.3g}", part.reordered, part.effect,
        *((part.incomplete, part.incomplete_others) if lacking else ()),
    )  # fmt: skip


def _features(parity: Parity) -> Table:
    return Table(
        "parity_features",
        "Watched features whose absence goes with other scores: share of rows in which they are missing.",
        (
            Column("Feature", "code"),
            Column("Queries with rows that differ", "percent"),
            Column("Others", "percent"),
        ),
        tuple((f.name, f.missing, f.missing_others) for f in parity.features),
    )


def _examples(parity: Parity) -> Table:
    return Table(
        "parity_examples",
        "The first queries with rows that differ, each with the row that differs most.",
        (
            Column("Query", "code"),
            Column("Window"),
            Column("Logged"),
            Column("Model"),
            Column("Difference"),
        ),
        tuple(
            (e.query, e.window, f"{e.logged:.6g}", f"{e.model:.6g}", f"{e.logged - e.model:+.3g}")
            for e in parity.examples
        ),
    )
