"""A chart as pixels, for slides and mail; twice as sharp as it is large."""

from __future__ import annotations

import struct
import zlib

from ltr_harness.report import engine
from ltr_harness.report.blocks import OURS, Chart
from ltr_harness.report.charts import file_spec

_HEADER = 33
"""Bytes of a PNG's signature and its first chunk, after which text may stand."""


def render(chart: Chart) -> bytes:
    """PNG bytes, light background."""
    pixels = engine.draw("png", file_spec(chart.spec))
    return pixels[:_HEADER] + _text("Software", OURS) + pixels[_HEADER:]


def _text(keyword: str, text: str) -> bytes:
    """A chunk that viewers ignore, by which a later report knows its own pictures."""
    content = b"tEXt" + keyword.encode("latin-1") + b"\0" + text.encode("latin-1")
    return struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
