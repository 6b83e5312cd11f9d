"""The share of planted worlds in which `monitor` comes to the right outcome and names the right cause.

Usage: python scripts/monitor_worlds.py [--logs 200] [--only WORD] [--processes 2] [--write]

Each world is a ranker, a page, its clicks and its log, made up `--logs` times with other seeds; the same seeds give
the same table. ``--write`` puts it between the markers of docs/maintainers/monitoring-in-depth.md.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from ltr_harness.monitoring import MonitorResult

PAGE = Path(__file__).resolve().parents[1] / "docs" / "maintainers" / "monitoring-in-depth.md"
MARKERS = "<!-- worlds: begin -->", "<!-- worlds: end -->"
CONFIG: dict[str, Any] = {
    "columns": {
        "query_id": "request_id",
        "item_id": "sku",
        "rank": "position",
        "timestamp": "ts",
        "segments": ["country", "device"],
        "features": ["f3", "f7", "price"],
    },
    "relevance": {"events": {"click": 1}},
    "metrics": ["ndcg@10", "mrr@10"],
    "windows": {"min_queries": 50},
}
ITEMS = 10
PER_DAY = 100  # queries
BASELINE_DAYS = 28
CALM = ("healthy", "improved")
SUSPECTS = ("everywhere", "slice")  # the ranking, in all queries or in some

Damage = Callable[["pa.Table"], "pa.Table"]


@dataclass(frozen=True)
class World:
    """The planted truth, with the outcomes and the causes that are right."""

    name: str
    outcomes: tuple[str, ...]
    causes: tuple[str, ...]
    planted: dict[str, Any] = field(default_factory=dict)
    days: int = 14
    propensities: str = ""  # right, wrong (their exponent by a fifth), or absent
    damage: Damage | None = None  # to production's log
    labels: bool = False  # whether items have grades, so that neither clicks nor the page matter
    maturity: bool = False
    per_day: int = PER_DAY
    min_drop: float = 0.01


def constant_feature(table: pa.Table, feature: str = "f3") -> pa.Table:
    """Return the log with a feature that is 0 in every row."""
    import pyarrow as pa

    return table.set_column(table.column_names.index(feature), feature, pa.array(np.zeros(table.num_rows)))


def swapped_features(table: pa.Table) -> pa.Table:
    """Return the log whose price is in the column of f7, and f7 in that of the price."""
    names = {"price": "f7", "f7": "price"}
    return table.rename_columns([names.get(name, name) for name in table.column_names])


NOISIER = {"drop": 0.7}  # NDCG of grades falls by 9 %
EVERYWHERE = {"drop": 1.5}
RANK_1 = {"wrong_first": 0.5}
BELOW_1 = {"shuffled_rest": 1.0}
ONE_COUNTRY = {"slice_country": "B", "slice_noise": 9.0}
OTHER_PAGE = {"examination": 0.6}
ANY = ("healthy", "undecided", "alert")
EITHER = ("unclear",)
WORSE = (*SUSPECTS, *EITHER)

WORLDS = (
    World("nothing", ("healthy",), CALM),
    World("nothing, propensities right", ("healthy",), CALM, propensities="right"),
    World("nothing, propensities wrong", ("healthy",), CALM, propensities="wrong"),
    World("nothing, grades", ("healthy",), CALM, labels=True),
    World("another page", ("undecided", "alert"), ("presentation", *EITHER), OTHER_PAGE),
    World("another page, propensities right", (*ANY,), ("presentation", *EITHER), OTHER_PAGE, propensities="right"),
    World("another page, propensities right, 4 times the queries, min_drop 0.03", ("healthy",),
          ("presentation", *CALM), OTHER_PAGE, propensities="right", per_day=4 * PER_DAY, min_drop=0.03),
    World("another page, propensities wrong", (*ANY,), ("presentation", *EITHER), OTHER_PAGE, propensities="wrong"),
    World("another page and a worse ranker", ("undecided", "alert"), WORSE, OTHER_PAGE | EVERYWHERE),
    World("another page and a worse ranker, propensities right", ("alert",), WORSE, OTHER_PAGE | EVERYWHERE,
          propensities="right"),
    World("a loss of 9 %", ("undecided", "alert"), WORSE, NOISIER),
    World("a loss of 9 %, propensities right", ("undecided", "alert"), WORSE, NOISIER, propensities="right"),
    World("a loss of 9 %, propensities wrong", ("undecided", "alert"), WORSE, NOISIER, propensities="wrong"),
    World("worse everywhere", ("alert",), WORSE, EVERYWHERE),
    World("worse everywhere, propensities right", ("alert",), WORSE, EVERYWHERE, propensities="right"),
    World("worse everywhere, propensities wrong", ("alert",), WORSE, EVERYWHERE, propensities="wrong"),
    World("worse everywhere, grades", ("alert",), SUSPECTS, EVERYWHERE, labels=True),
    World("worse at rank 1", ("alert",), WORSE, RANK_1),
    World("worse at rank 1, propensities right", ("alert",), WORSE, RANK_1, propensities="right"),
    World("worse below rank 1", ("undecided", "alert"), WORSE, BELOW_1),
    World("worse below rank 1, propensities right", ("alert",), WORSE, BELOW_1, propensities="right"),
    World("worse in one country", ("alert",), ("slice",), ONE_COUNTRY),
    World("worse in one country, grades", ("alert",), ("slice",), ONE_COUNTRY, labels=True),
    World("worse in one country on one day, grades", ("alert",), ("slice",),
          ONE_COUNTRY | {"since": 8, "until": 9}, labels=True),
    World("worse on one day", ("alert",), WORSE, {"drop": 9.0, "since": 8, "until": 9}),
    World("worse on one day, grades", ("alert",), SUSPECTS, {"drop": 1.5, "since": 8, "until": 9}, labels=True),
    World("worse on the last 2 of 28 days", ("alert",), WORSE, {"drop": 9.0, "since": 26}, days=28),
    World("worse on the last 2 of 28 days, grades", ("alert",), SUSPECTS, {"drop": 1.5, "since": 26}, days=28,
          labels=True),
    World("clicks lost evenly", ("alert",), ("labels",), {"lost_clicks": 0.4}),
    World("clicks lost evenly, propensities right", ("alert",), ("labels",), {"lost_clicks": 0.4},
          propensities="right"),
    World("clicks lost below rank 3", ("alert", "undecided"), EITHER, {"lost_clicks": 0.7, "lost_from_rank": 4}),
    World("purchases that come late", ("undecided",), ("immature",), {"purchase_delay": 4.0}, maturity=True),
    World("a feature broke, worse ranker, grades", ("alert",), ("input", *SUSPECTS), EVERYWHERE,
          damage=constant_feature, labels=True),
    World("a feature moved, grades", ("alert",), ("covariate",), {"f3_shift": 0.8}, labels=True),
    World("a feature moved on the last 2 of 28 days, grades", ("alert",), ("covariate",),
          {"f3_shift": 1.2, "since": 26}, days=28, labels=True),
    World("two features swapped, worse ranker, grades", ("alert",), ("input", *SUSPECTS), EVERYWHERE,
          damage=swapped_features, labels=True),
    World("other countries, grades", ("alert",), ("mix",),
          {"hard_country": "E", "country_shares": (0.15, 0.15, 0.15, 0.15, 0.4)}, labels=True),
    World("other countries and a worse ranker, grades", ("alert",), ("mix", *SUSPECTS),
          {"hard_country": "E", "country_shares": (0.15, 0.15, 0.15, 0.15, 0.4), "drop": 0.25}, labels=True),
)  # fmt: skip


def result_of(world: World, seed: int) -> MonitorResult:
    """Monitor one log of the world."""
    from ltr_harness.monitoring import monitor
    from ltr_harness.monitoring.synthetic import SyntheticLog

    planted = dict(world.planted)
    page = planted.get("examination", 1.0)
    always = {key: planted[key] for key in ("hard_country",) if key in planted}
    size = {"queries_per_day": world.per_day, "items": ITEMS}
    before = SyntheticLog(seed=2 * seed, days=BASELINE_DAYS, **size, **always)
    now = SyntheticLog(seed=2 * seed + 1, start="2026-02-02", days=world.days, **size, **planted)
    log = now.table()
    if world.damage is not None:
        log = world.damage(log)
    return monitor(_config(world, page), log=log, baseline=before.table())


def _config(world: World, page: float) -> dict[str, Any]:
    """The configuration where users look at rank r with r**-page in production, and with 1/r in the baseline."""
    config = CONFIG | {"compare": {"min_drop": world.min_drop}}
    if world.labels:
        config["relevance"] = {"mode": "label", "label": "relevance", "max_grade": 4}
    elif world.maturity:
        config["relevance"] = {"events": {"buy": 1}}
    if world.propensities:
        off = 1.2 if world.propensities == "wrong" else 1.0
        tables = [[rank ** -(off * power) for rank in range(1, ITEMS + 1)] for power in (page, 1.0)]
        config["propensity"] = {"table": tables[0], "baseline_table": tables[1]}
    return config


def outcome_of(result: MonitorResult) -> str:
    """Alert, healthy or undecided."""
    if result.alerts:
        return "alert"
    return "healthy" if result.healthy else "undecided"


def outcome_and_cause(world: World, seed: int) -> tuple[str, str]:
    """The outcome and the cause of one log."""
    result = result_of(world, seed)
    return outcome_of(result), result.verdict.cause


def count_outcomes(
    world: World, logs: int, pool: ProcessPoolExecutor | None = None
) -> Counter[tuple[str, str]]:
    """Count the outcomes and causes of the world's logs."""
    over = map if pool is None else partial(pool.map, chunksize=10)
    return Counter(over(partial(outcome_and_cause, world), range(logs)))


def row_of(world: World, found: Counter[tuple[str, str]]) -> str:
    """The world's line of the table."""
    logs = sum(found.values())

    def share(holds: Callable[[str, str], bool]) -> str:
        n = sum(count for key, count in found.items() if holds(*key))
        return f"{n / logs:.0%}" if n else ""

    shares = [
        share(lambda outcome, _, name=name: outcome == name) for name in ("healthy", "undecided", "alert")
    ]
    right = share(lambda outcome, _: outcome in world.outcomes)
    causes = Counter[str]()
    for (_, cause), count in found.items():
        causes[cause] += count
    named = ", ".join(f"{cause} {count / logs:.0%}" for cause, count in causes.most_common(3))
    right_cause = share(lambda _, cause: cause in world.causes)
    cells = (world.name, " or ".join(world.outcomes), right or "0%", *shares, right_cause or "0%", named)
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| world | right | found | healthy | undecided | alert | right cause | causes |",
    "|---|---|--:|--:|--:|--:|--:|---|",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--only", default="", help="worlds whose name has this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="into docs/maintainers/monitoring-in-depth.md")
    options = parser.parse_args()
    lines = [*HEAD]
    print("\n".join(lines), flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        for world in WORLDS:
            if options.only in world.name:
                lines.append(row_of(world, count_outcomes(world, options.logs, pool)))
                print(lines[-1], flush=True)
    if options.write:
        begin, end = MARKERS
        text = PAGE.read_text()
        before, after = text.partition(begin)[0], text.partition(end)[2]
        of_each = f"{options.logs} logs of each world:\n\n"
        PAGE.write_text(f"{before}{begin}\n{of_each}" + "\n".join(lines) + f"\n{end}{after}")


if __name__ == "__main__":
    main()
