"""A comparison as tables: the fixed-K one, the tidy one with everything, and the one a notebook shows."""

from __future__ import annotations

import dataclasses
from html import escape
from typing import TYPE_CHECKING, Any

from ltr_harness.comparison.compared import Compared
from ltr_harness.comparison.result import Paired
from ltr_harness.comparison.sentence import p_text, verdict_sentence
from ltr_harness.wording import html_table

if TYPE_CHECKING:
    import pandas as pd

# Names of the tidy table that would otherwise mean two things.
_RENAMED = {
    "other": "baseline",
    "other_mean": "baseline_mean",
    "n": "n_paired",
    "ci_low": "difference_ci_low",
    "ci_high": "difference_ci_high",
}
_COUNTS = ("wins", "ties", "losses")


def primary_table(comparison: Compared) -> pd.DataFrame:
    """See `Comparison.table`."""
    import pandas as pd

    rows = []
    for model in comparison.ranking:
        summary, pair = comparison.summary(model), _pair(comparison, model, comparison.primary)
        row: dict[str, Any] = {"model": model, comparison.primary: summary.mean}
        row |= {name: getattr(summary, name) for name in ("ci_low", "ci_high", "sd", "n")}
        shown = ("difference", "ci_low", "ci_high", "p", "p_corrected", *_COUNTS)
        row |= {_RENAMED.get(name, name): getattr(pair, name, None) for name in shown}
        row["verdict"] = pair.verdict if pair else "baseline"
        rows.append(row)
    return _typed(pd.DataFrame(rows))


def tidy_frame(comparison: Compared) -> pd.DataFrame:
    """See `Comparison.frame`; for the baseline, what belongs to a pair is empty."""
    import pandas as pd

    rows = []
    for summary in comparison.summaries:
        pair = _pair(comparison, summary.model, summary.metric)
        row: dict[str, Any] = dataclasses.asdict(summary)
        row["primary"] = summary.metric == comparison.primary
        row["higher_is_better"] = comparison.higher_is_better[summary.metric]
        for field in dataclasses.fields(Paired):
            if field.name not in ("model", "metric"):
                row[_RENAMED.get(field.name, field.name)] = getattr(pair, field.name, None)
        row["baseline"] = comparison.baseline
        row["verdict"] = pair.verdict if pair else "baseline"
        rows.append(row)
    return _typed(pd.DataFrame(rows))


def html(comparison: Compared) -> str:
    """The verdict and the fixed-K table, for a notebook; every name is escaped."""
    percent = f"{comparison.method.percent} % interval"
    head = ["model", comparison.primary, percent, "sd", "queries", "difference", percent]
    head += [f"p ({comparison.correction})", "win / tie / loss", "verdict"]
    table = html_table(head, [_cells(comparison, model) for model in comparison.ranking])
    about = "; ".join(filter(None, (comparison.method.describe(), comparison.family)))
    lines = [f"<p>{escape(text)}</p>" for text in (about, *(f"Note: {note}" for note in comparison.notes))]
    return "".join((f"<p><strong>{escape(verdict_sentence(comparison))}</strong></p>", table, *lines))


def _cells(comparison: Compared, model: str) -> list[str]:
    summary, pair = comparison.summary(model), _pair(comparison, model, comparison.primary)
    cells = [
        model,
        f"{summary.mean:.4f}",
        f"{summary.ci_low:.4f} … {summary.ci_high:.4f}",
        f"{summary.sd:.4f}",
        f"{summary.n:,}",
    ]
    if pair is None:
        return [*cells, "", "", "", "", "baseline"]
    return [
        *cells,
        f"{pair.difference:+.4f}",
        f"{pair.ci_low:+.4f} … {pair.ci_high:+.4f}",
        p_text(pair.p_corrected),
        f"{pair.wins:,} / {pair.ties:,} / {pair.losses:,}",
        pair.verdict,
    ]


def _pair(comparison: Compared, model: str, metric: str) -> Paired | None:
    return None if model == comparison.baseline else comparison.paired(model, metric)


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Counts stay integers and everything else a float, also where the baseline has none."""
    kinds = dict.fromkeys((*_COUNTS, "n_paired"), "Int64")
    for field in dataclasses.fields(Paired):
        if field.type == "float":
            kinds[_RENAMED.get(field.name, field.name)] = "float64"
    return frame.astype({name: kind for name, kind in kinds.items() if name in frame})
