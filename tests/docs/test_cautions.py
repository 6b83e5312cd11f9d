"""Kinds of cautions keep their names, so that programs can go by them: the documentation lists those of comparisons."""

import re
from pathlib import Path

from ltr_harness.comparison.caution_choice import ONE_TRAINING
from ltr_harness.metrics.core.headroom import LITTLE_TO_GAIN

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT / "ltr_harness" / "comparison", ROOT / "ltr_harness" / "experiments" / "compare")
SOURCES = [
    *(path for folder in FOLDERS for path in folder.glob("*.py")),
    ROOT / "ltr_harness" / "report" / "data.py",
]


def test_the_documentation_has_every_kind_of_a_comparison() -> None:
    written = (re.findall(r'\bCaution\(\s*"([a-z-]+)"', path.read_text(encoding="utf-8")) for path in SOURCES)
    kinds = {ONE_TRAINING, LITTLE_TO_GAIN, *(kind for found in written for kind in found)}
    page = (ROOT / "docs" / "reference" / "cautions.md").read_text(encoding="utf-8")
    first_cells = " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    assert len(kinds) > 30
    assert sorted(kinds - {*re.findall(r"`([a-z-]+)`", first_cells)}) == []
