"""Two retrievers with one truth, from two files of candidates to the table that says which one leaves less behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

CONFIG = """
name: {name}
data:
  reader: csv
  query: query
  label: label
  document_id: document
  {retrieved}
  features: [x, noise]
  splits: {{train: {name}.csv, test: {{holdout: 0.6}}}}
metrics: {{cutoffs: [10], report: [ndcg], primary: ndcg@10}}
models:
  {name}-x: {{ranker: feature, feature: x}}
  {name}-noise: {{ranker: feature, feature: noise}}
report: {{formats: [md, tex, json]}}
"""


def ltr(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command(cli, list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wide and a narrow retriever; the narrow one misses one of three relevant documents and ranks as well."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    lines: dict[str, list[str]] = {"wide": [], "narrow": []}
    for query in range(100):
        labels = np.r_[2, 1, 1, np.zeros(9, dtype=int)]
        for document, label in enumerate(labels.tolist()):
            features = f"{label + rng.normal(0, 0.8):.4f},{rng.normal():.4f}"
            row = f"q{query},d{document},{label},{features}"
            lines["wide"].append(f"{row},1")
            lines["narrow"].append(f"{row},{int(document != 1 and document < 12 - query % 3)}")
    for name, rows in lines.items():
        text = "\n".join(["query,document,label,x,noise,found", *rows])
        (tmp_path / f"{name}.csv").write_text(text + "\n")
        (tmp_path / f"{name}.yaml").write_text(CONFIG.format(name=name, retrieved="retrieved: found"))
    return tmp_path


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
def test_from_files_to_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ideal = 3 + 1 / np.log2(3) + 1 / 2
    ceiling = (3 + 1 / np.log2(3)) / ideal
    for name, said in (
        ("wide", "ceiling 1.0000, retrieval leaves 0.0000"),
        ("narrow", f"ceiling {ceiling:.4f}"),
    ):
        code, out, err = ltr(
            capsys, "run", f"{name}.yaml", "--accept", "identical-rows", "--accept", "leaking-feature"
        )
        assert code == 0, err
        assert said in " ".join(out.split())
        assert out.startswith(f"{name}-noise is worse") or "Of what can be gained" in out

    code, out, err = ltr(capsys, "compare", "runs/narrow", "runs/wide", "-o", "both")
    assert code == 0, err
    text = " ".join(out.split())
    assert f"ceiling {ceiling:.4f}, retrieval leaves {1 - ceiling:.4f} out of reach" in text
    assert "ceiling 1.0000, retrieval leaves 0.0000 out of reach" in text
    body = json.loads((folder / "both/report.json").read_text())
    share = {one["model"]: one["share"] for one in body["headroom"]}
    mean = {one["model"]: one["mean"] for one in body["summaries"] if one["metric"] == "ndcg@10"}
    assert mean["narrow-x"] < mean["wide-x"] - 0.05
    assert abs(share["narrow-x"] - share["wide-x"]) < 0.15  # it ranks what it gets about as well
    # the baseline's lists are of three lengths, which are not the other's
    assert not [one for one in body["slices"] if one["attribute"] == "rows"]

    page = (folder / "both/report.html").read_text()
    first = page.index("wide-x")
    assert first < page.index("Gained") < page.index("retrieval leaves")
    assert "Gained" in (folder / "runs/narrow/report/report.md").read_text()
    (table,) = (folder / "runs/narrow/report").rglob("*fixed_k*.tex")
    assert "Gained" in table.read_text()


@pytest.mark.long
def test_without_declared_candidates_the_cure_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("wide", "narrow"):
        rows = [line for line in (folder / f"{name}.csv").read_text().splitlines() if not line.endswith(",0")]
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")
        config = CONFIG.format(name=name, retrieved="attributes: []").replace("[md, tex, json]", "[json]")
        (folder / f"{name}.yaml").write_text(config)
        code, out, err = ltr(
            capsys, "run", f"{name}.yaml", "--accept", "identical-rows", "--accept", "leaking-feature"
        )
        assert code == 0, err
        assert "out of reach" not in out
        assert "ceiling 1.0000" in out
    code, _, err = ltr(capsys, "compare", "runs/wide", "runs/narrow")
    assert code != 0
    assert "same queries, other labels or rows" in err
    assert (
        "to compare two retrievers, whose candidates differ, give both the same `data.judgments`"
        in " ".join(err.split())
    )
