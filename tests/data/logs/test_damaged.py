"""Arrow files whose texts point outside the file: a message, never the end of the process."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather

from ltr_harness.comparison.stream import evaluate_stream
from ltr_harness.data.logs.log import open_log
from ltr_harness.errors import DataError
from ltr_harness.metrics import NDCG


@pytest.fixture
def damaged_file(tmp_path: Path) -> Path:
    """A file of four rows; the text of the third begins far before the file."""
    table = pa.table(
        {
            "query_id": pa.array(["one", "one", "two", "two"], pa.large_string()),
            "label": [1, 0, 0, 1],
            "score": [0.5, 0.25, 0.5, 0.25],
        }
    )
    path = tmp_path / "log.arrow"
    feather.write_feather(table, path, compression="uncompressed")
    offsets = struct.pack("<5q", 0, 3, 6, 9, 12)
    content = path.read_bytes()
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, struct.pack("<5q", 0, 3, -(1 << 60), 9, 12)))
    return path


def test_a_damaged_text_column_is_refused(damaged_file: Path) -> None:
    with pytest.raises(DataError, match=r"log\.arrow: cannot be read: .*non-monotonic offset"):
        open_log(damaged_file).read(["query_id"])


def test_so_is_a_stream_of_it(damaged_file: Path) -> None:
    with pytest.raises(DataError, match="non-monotonic offset"):
        evaluate_stream(damaged_file, [NDCG(3)], ["score"])


def test_other_columns_are_read(damaged_file: Path) -> None:
    assert open_log(damaged_file).read(["label"])["label"].to_pylist() == [1, 0, 0, 1]
