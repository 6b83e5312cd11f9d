"""docs/metrics.md says what is true: its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

from ltr_harness.cli.trec_eval import COUNTS, METRICS, OTHERS, SETS
from ltr_harness.metrics.core.presets import PRESETS
from ltr_harness.metrics.table import METRICS as FAMILY

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


def test_it_names_every_metric_and_every_preset_with_its_metrics() -> None:
    family = PAGE.partition("## Conventions")[0]
    for name in FAMILY:
        assert re.search(rf"`{name}[`(]", family), name
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", PAGE, re.M))
    assert {tool: set(names.split()) for tool, names in rows.items() if tool in PRESETS} == {
        tool: set(metrics) for tool, metrics in PRESETS.items()
    }


def test_it_names_what_is_printed_of_trec_eval() -> None:
    (listed,) = re.findall(r"takes `official`.*?\n\n(.*?)\n\n", PAGE, re.S)
    assert set(listed.split()) == {"num_q", *COUNTS, *METRICS}
    assert all(f"`{name}`" in PAGE for name in SETS)
    assert all(f"`{name}`" in PAGE or f"`{name}_*`" in PAGE for name in OTHERS)
