"""A chart as a picture on its own, drawn without a browser and without a network."""

from __future__ import annotations

from ltr_harness.report import engine
from ltr_harness.report.blocks import OURS, Chart
from ltr_harness.report.charts import file_spec


def render(chart: Chart) -> str:
    """SVG text, light background."""
    return f"{engine.draw('svg', file_spec(chart.spec)).decode()}\n<!-- {OURS} -->\n"
