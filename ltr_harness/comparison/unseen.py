"""What these queries may not hold, or hold too little of: warnings that go with a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ltr_harness.comparison.rare import rare_difference, rare_text
from ltr_harness.comparison.result import Paired
from ltr_harness.stats.skewness import unseen_p
from ltr_harness.stats.units import unit_totals
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.comparison.comparison import Comparison


def lopsided(n: int, skewness: float) -> bool:
    """Cochran's rule: the normal approximation of a mean needs n > 25 times the squared skewness."""
    return bool(n <= 25 * skewness**2)


def unseen_notes(comparison: Comparison, pairs: Sequence[Paired]) -> list[str]:
    """What the verdicts of one family rest on beyond its queries.

    Args:
        comparison: whose values they are from.
        pairs: comparisons of one metric that are corrected together.
    """
    method, notes = comparison.method, []
    level = method.level(len(pairs))
    needed: dict[str, float] = {}
    for pair in pairs:
        if not pair.n:
            continue
        d = comparison.query_differences(pair.model, pair.metric)
        largest = comparison.largest_difference(pair.model, pair.metric)
        draws = d[:, None] if comparison.units is None else unit_totals(d[:, None], comparison.units)
        alone = float(unseen_p(draws, largest)[0]) if method.test == "skew-adjusted" else 0.0
        if alone >= level and pair.verdict == "not distinguishable" and pair.difference:
            notes.append(
                f"{pair.model}: no verdict from {count_of(pair.n, 'query')} that nearly all differ in one direction: "
                f"a rare kind of query that would make up for them may be missing (p = {alone:.2g})"
            )
        elif pair.verdict != "not distinguishable":
            same = pair.verdict == "equivalent" and method.margin is not None
            room = (method.margin or 0.0) - abs(pair.difference) if same else abs(pair.difference)
            needed[pair.model] = rare_difference(comparison.n_independent(pair), room, largest, level)
        if lopsided(pair.n, pair.skewness):
            said = (
                "p allows for what these queries show of it, not for what they lack"
                if method.test == "skew-adjusted"
                else "interval and p-value are too optimistic"
            )
            notes.append(
                f"{pair.model}: n = {pair.n:,} is small for differences as lopsided as these (skewness "
                f"{pair.skewness:+.1f}); {said}"
            )
    shaky = {model: least for model, least in needed.items() if least == least}
    if shaky:
        n = min(comparison.n_independent(pair) for pair in pairs if pair.model in shaky)
        names = ", ".join(list(shaky)[:3]) + (f" and {len(shaky) - 3} more" if len(shaky) > 3 else "")
        said = rare_text(n, min(shaky.values()), method, level)
        notes.append(f"{names}: {said}, the verdict would not hold")
    return notes
