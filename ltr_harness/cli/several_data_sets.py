"""What `ltr-harness compare --data-sets` does: each input is a data set."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ltr_harness.cli.compared_inputs import ComparedInputs, expanded
from ltr_harness.cli.output import say
from ltr_harness.cli.tables import show_page
from ltr_harness.errors import UsageError
from ltr_harness.stats.method import Method


def compared(
    inputs: Sequence[str],
    metrics: Sequence[str],
    method: Method,
    given: dict[str, Any],
    output: Path | None,
    as_json: bool,
) -> int:
    """Compare each input by itself, then all of them, and print that."""
    from ltr_harness.comparison import compare
    from ltr_harness.comparison.data_sets import across_data_sets
    from ltr_harness.report import write_report
    from ltr_harness.report.data_sets import document, report

    baseline, shared, weights = (given.pop(name) for name in ("baseline", "common_queries", "weights"))
    paths, notes = expanded(inputs)
    comparisons = {}
    for path, name in zip(paths, _names(paths), strict=True):
        one = ComparedInputs([path], metrics, (), dict(given))
        comparisons[name] = compare(
            *one.items,
            metrics=one.metrics and one.metrics[:1],
            baseline=one.declared_baseline if baseline is None else baseline,
            common_queries=shared,
            **dataclasses.asdict(method),
        )
        notes += one.notes
    across = across_data_sets(comparisons, None if weights is None else _weights(weights))
    page = report(across)
    if as_json:
        say(document(across))
    else:
        show_page(page)
    if output is not None:
        say(f"report: {write_report(page, output, ('html', 'md', 'json'))}", err=as_json)
    for note in notes:
        say(f"note: {note}", err=True)
    return 0


def _names(paths: Sequence[Path]) -> list[str]:
    """What each data set is called: by its experiment, or by its path where two would share a name."""
    from ltr_harness.comparison.inputs import label_of

    names = [label_of(path if path.is_dir() else path.parent) for path in paths]
    return [name if names.count(name) == 1 else str(path) for name, path in zip(names, paths, strict=True)]


def _weights(text: str) -> dict[str, float]:
    weights = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise UsageError(
                f"--weights {text}; expected NAME=NUMBER for each data set, such as mq2008=1,web=2"
            )
    return weights
