"""A chart as a picture on its own, drawn without a browser and without a network."""

from __future__ import annotations

from ltr_harness.report.blocks import OURS, Chart
from ltr_harness.report.charts import file_spec
from ltr_harness.report.vega import VEGALITE_VERSION


def warm_up() -> None:
    """Start the engine that draws charts, which takes half a second, while something else is being done."""
    import vl_convert

    vl_convert.vegalite_to_svg({"mark": "point", "data": {"values": []}}, vl_version=VEGALITE_VERSION)


def render(chart: Chart) -> str:
    """SVG text, light background."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(file_spec(chart.spec), vl_version=VEGALITE_VERSION)
    return f"{svg}\n<!-- {OURS} -->\n"
