"""The folder of files: whole, repeatable, and an answer to wrong wishes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import UsageError
from ltr_harness.report import ReportData, build_report, charts, write_report
from ltr_harness.report.blocks import OURS

pytestmark = pytest.mark.long


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_files_of_a_report(written_report: Path) -> None:
    found = contents(written_report)
    assert {
        "report.html",
        "report.md",
        "report.json",
        "comparison.parquet",
        "tables/fixed_k.tex",
        "charts/difference_over_k.svg",
    } <= set(found)
    assert not [name for name in found if name.rpartition("/")[2].startswith(".")]


def test_the_same_runs_give_the_same_bytes(data: ReportData, written_report: Path, tmp_path: Path) -> None:
    path = write_report(build_report(data), tmp_path / "report")
    assert path == tmp_path / "report" / "report.html"
    assert contents(tmp_path / "report") == contents(written_report)


def test_another_process_gives_the_same_bytes(written_report: Path, tmp_path: Path, repository: Path) -> None:
    """Hash seeds, import order and counters of other libraries must not show.

    Pictures are drawn by a process of their own anyway: here they are empty.
    """
    script = (
        "import sys; sys.path.insert(0, 'tests/report'); import conftest; "
        "from ltr_harness.report import charts, write_report; "
        "charts.svg = lambda chart: ''; "
        f"write_report(conftest.make_report_data(), {str(tmp_path / 'other')!r})"
    )
    same = {
        "LTR_HARNESS_CACHE": os.environ["LTR_HARNESS_CACHE"]
    }  # of what is drawn with, which takes two seconds
    env = {"PYTHONHASHSEED": "12345", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **same}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=repository, env=env)
    expected = contents(written_report)
    pictures = dict.fromkeys((name for name in expected if name.endswith(".svg")), b"")
    assert contents(tmp_path / "other") == expected | pictures


def test_json_alone_has_the_same_numbers_and_asks_no_section(data: ReportData, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from pathlib import Path\nfrom ltr_harness.report.blocks import Heading\n"
        "def section(data):\n    Path(__file__).with_name('asked').touch()\n    return [Heading('Own')]\n"
    )
    chosen = dataclasses.replace(data, sections=(f"{own}:section",))
    write_report(chosen, tmp_path / "json", ["json"])
    assert not (tmp_path / "asked").exists()
    write_report(chosen, tmp_path / "both", ["md", "json"])
    assert (tmp_path / "asked").exists()
    both = contents(tmp_path / "both")
    assert "Own" in both.pop("report.md").decode()
    assert contents(tmp_path / "json") == both


def test_order_of_runs_does_not_matter(data: ReportData, written_report: Path, tmp_path: Path) -> None:
    shuffled = dataclasses.replace(data, runs=list(reversed(data.runs)))
    write_report(shuffled, tmp_path, ["html", "json"])
    found = contents(tmp_path)
    assert sorted(found) == ["comparison.parquet", "report.html", "report.json"]
    assert found == {name: content for name, content in contents(written_report).items() if name in found}


def test_a_second_report_leaves_nothing_of_the_first(
    data: ReportData,
    tmp_path: Path,
    make_data: Callable[..., ReportData],
    make_system: Callable[..., SystemResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(charts, "svg", lambda chart: f"<svg/>\n<!-- {OURS} -->\n")
    write_report(data, tmp_path, ["tex", "svg"])
    assert (tmp_path / "charts" / "learning_curves.svg").exists()
    assert (tmp_path / "tables" / "seeds.tex").exists()
    (tmp_path / "tables" / "mine.tex").write_text("by hand")
    smaller = make_data(systems=[make_system("only", 0.1, seeds=1)], with_runs=False)
    write_report(smaller, tmp_path, ["tex", "svg"])
    assert not (tmp_path / "tables" / "seeds.tex").exists()
    assert not (tmp_path / "charts" / "learning_curves.svg").exists()
    assert (tmp_path / "tables" / "fixed_k.tex").exists()
    assert (tmp_path / "tables" / "mine.tex").read_text() == "by hand"


def test_only_what_is_asked_for(data: ReportData, tmp_path: Path) -> None:
    assert write_report(data, tmp_path, ["json"]) == tmp_path / "report.json"
    assert sorted(contents(tmp_path)) == ["comparison.parquet", "report.json"]


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        (
            ["htlm"],
            r"unknown report format 'htlm'; did you mean 'html'\? \(known: html, json, md, png, svg, tex\)",
        ),
        ([], "no report format given; known: html, md, json, tex, svg, png"),
    ],
)
def test_wrong_formats_are_named(data: ReportData, tmp_path: Path, formats: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        write_report(data, tmp_path, formats)


def test_a_folder_that_is_a_file(data: ReportData, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match="the report cannot be written"):
        write_report(data, tmp_path / "taken", ["json"])


def test_a_write_that_fails_leaves_the_old_file(
    data: ReportData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(data, tmp_path, ["json"])
    before = contents(tmp_path)

    def full_disk(self: Path, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        write_report(data, tmp_path, ["json"])
    assert contents(tmp_path) == before


def test_thirty_models(
    tmp_path: Path, make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult]
) -> None:
    metrics = [f"ndcg@{k}" for k in (1, 3, 5, 10)]
    systems = [make_system(f"model-{at:02d}", 0.01 * at, n=100, metrics=metrics) for at in range(30)]
    path = write_report(make_data(systems=systems, draws=200), tmp_path, ["html", "md", "tex"])
    assert path.stat().st_size < 1_500_000


def test_six_thousand_queries_stay_small(
    tmp_path: Path, make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult]
) -> None:
    """A page with each query's values, 72,000 of some eight bytes, would be larger."""
    metrics = ["ndcg@10", "mrr@10", "recall@10"]
    systems = [make_system(f"model-{at}", 0.01 * at, n=6000, metrics=metrics) for at in range(4)]
    path = write_report(make_data(systems=systems, draws=200), tmp_path, ["html"])
    assert path.stat().st_size < 1_000_000


def test_pictures_as_pixels_on_request(data: ReportData, tmp_path: Path) -> None:
    import zlib

    data = dataclasses.replace(data, sections=("paired", "slices"))
    write_report(data, tmp_path, ["png"])
    first = contents(tmp_path)
    assert "charts/paired_differences.png" in first
    assert not [name for name in first if not name.endswith(".png")]
    picture = first["charts/paired_differences.png"]
    assert picture.startswith(b"\x89PNG")
    at = 8
    while at < len(picture):  # every chunk is whole, the one we add among them
        size = int.from_bytes(picture[at : at + 4], "big")
        body = picture[at + 4 : at + 8 + size]
        assert zlib.crc32(body) == int.from_bytes(picture[at + 8 + size : at + 12 + size], "big")
        at += 12 + size
    (tmp_path / "charts" / "holiday.png").write_bytes(b"\x89PNG of mine")
    (tmp_path / "charts" / "old.png").write_bytes(picture)
    write_report(data, tmp_path, ["png"])
    assert {**first, "charts/holiday.png": b"\x89PNG of mine"} == contents(tmp_path)
