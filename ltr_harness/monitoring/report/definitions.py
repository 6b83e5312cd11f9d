"""What exactly is computed, and from what?"""

from __future__ import annotations

import json

from ltr_harness.metrics.core.grammar import MetricName
from ltr_harness.monitoring.results.result import MonitorResult
from ltr_harness.report.blocks import (
    Block,
    Code,
    Column,
    Definitions,
    Details,
    Heading,
    Paragraph,
    Table,
    Text,
)
from ltr_harness.report.sections.definitions import metric_text


def section(result: MonitorResult) -> list[Block]:
    cutoffs: dict[str, list[int | None]] = {}
    for metric in result.metrics:
        base, _, _, k = MetricName.of(metric)
        cutoffs.setdefault(base, []).append(k)
    items: list[tuple[str, tuple[Text, ...]]] = [("relevance", (f"{result.relevance}.",))]
    items += [(base, metric_text(base, ks)) for base, ks in cutoffs.items()]
    items += [
        (
            "alert",
            (
                (
                    f"Corrected p at most {result.alpha:g} and a {result.alternative} of at least "
                    f"{result.min_drop:g}. {result.family}."
                ),
            ),
        ),
        (
            "interval",
            ("t over clusters (users) where there are any, over queries otherwise; never over rows.",),
        ),
        (
            "season",
            (
                {
                    "weekday": "Compared with the same weekday of the baseline.",
                    "hour": "Compared with the same hour of the baseline's days.",
                    "hour_of_week": "Compared with the same hour of the same weekday of the baseline.",
                }.get(result.season, "None: all times of the baseline count alike."),
            ),
        ),
    ]
    digests = [("configuration", result.config_sha256), ("production", result.production_sha256)]
    if result.baseline_sha256:
        digests.append(("baseline", result.baseline_sha256))
    return [
        Heading("Definitions"),
        Definitions(tuple(items)),
        Paragraph(
            "The same queries under the same configuration give this page byte for byte, whatever "
            "the order of rows, columns or batches."
        ),
        Table(
            "digests",
            "SHA-256 of what went in, query by query.",
            (Column("What"), Column("Digest", "code")),
            tuple(digests),
            sortable=False,
        ),
        Details(
            "Resolved configuration", (Code(json.dumps(result.config, indent=1, ensure_ascii=False), "json"),)
        ),
    ]
