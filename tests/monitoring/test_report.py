"""The files a run leaves and the page people open."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml

from ltr_harness.errors import DataError, NotComparableError
from ltr_harness.experiments.runs import Run
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.load import json_schema, load_monitor_config
from ltr_harness.monitoring.page import MONITOR_SECTIONS, build_monitor_report, write_monitor_report
from ltr_harness.monitoring.queries import QueryColumns
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.monitoring.result import json_schema as result_schema
from ltr_harness.monitoring.stages import run_stages, watch
from ltr_harness.monitoring.stored import stored_result
from ltr_harness.monitoring.synthetic import SyntheticLog
from ltr_harness.report.blocks import Estimate
from ltr_harness.report.formats import cell_text
from tests.conftest import without_charts

pytestmark = pytest.mark.long

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def result(quickstart_result: MonitorResult) -> MonitorResult:
    return quickstart_result


def test_the_quickstart_shows_a_real_alert(ltr: Cli, tmp_path: Path) -> None:
    started = time.perf_counter()
    code, out, err = ltr("monitor", CONFIGS / "monitor_quickstart.yaml", "-o", tmp_path / "out")
    assert time.perf_counter() - started < 60
    assert code == 4
    lines = out.splitlines()
    assert all(re.match(r"ALERT (change|slice) ndcg@10 ", line) for line in lines)
    assert "country=D" in lines[-1]
    assert err.startswith("9 alerts: ndcg@10 fell by 0.0368 (90 % CI ")
    assert "It is worst in country=D" in err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "report.html", "report.md", "report.json", "per_query.parquet", "windows.csv", "slices.csv", "config.yaml",
        "provenance.json", "charts",
    }  # fmt: skip
    pictures = re.findall(
        r"\]\((charts/\w+\.svg)\)", (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    )
    over_time = [f"charts/{name}_over_time.svg" for name in ("metrics", "segments", "features", "labels")]
    assert pictures == ["charts/windows.svg", *over_time]
    assert all((tmp_path / "out" / picture).is_file() for picture in pictures)


@pytest.mark.usefixtures("empty_pictures")
def test_tables_for_other_programs(result: MonitorResult, ltr: Cli, tmp_path: Path) -> None:
    SyntheticLog(seed=2, days=2).table().to_pandas().to_parquet(tmp_path / "log.parquet")
    config = {
        "columns": {"query_id": "request_id", "rank": "position", "timestamp": "ts"},
        "metrics": ["ndcg@10"],
    }
    (tmp_path / "m.yaml").write_text(yaml.safe_dump(config))
    code, *_ = ltr("monitor", tmp_path / "m.yaml", "--log", tmp_path / "log.parquet", "-o", tmp_path / "out")
    assert code == 0
    with (tmp_path / "out" / "windows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["window"] for row in rows] == ["2026-01-05", "2026-01-06"]
    assert rows[0]["difference"] == ""
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text())
    digest = hashlib.sha256((tmp_path / "log.parquet").read_bytes()).hexdigest()
    assert list(provenance["files"]["log"].values()) == [digest]
    assert {"numpy", "pyarrow", "ltr-harness"} <= set(provenance["packages"])
    resolved = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    assert load_monitor_config(resolved).digest() == load_monitor_config(config).digest()


def test_the_document_keeps_to_its_schema(result: MonitorResult) -> None:
    schema = result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(result.document)
    alone = monitor(
        {"columns": {"query_id": "request_id", "rank": "position"}, "metrics": ["mrr"]},
        log=SyntheticLog(days=1, queries_per_day=50),
    )
    validator.validate(alone.document)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**result.document, "windows": "none"})


def test_the_schema_of_the_configuration_is_fresh() -> None:
    schema = json_schema()
    assert json.loads((CONFIGS / "monitor.schema.json").read_text(encoding="utf-8")) == schema
    quickstart = yaml.safe_load((CONFIGS / "monitor_quickstart.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(quickstart, schema)


def test_every_section_is_in_the_table() -> None:
    folder = Path(build_monitor_report.__code__.co_filename).parent
    written = {
        f"ltr_harness.monitoring.{path.stem}:{name}"
        for path in folder.glob("[a-z]*.py")
        for name in re.findall(
            r"^def (section|\w+_section)\(", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert written == set(MONITOR_SECTIONS.values())
    assert len(written) == len(MONITOR_SECTIONS)


def test_the_first_lines_say_what_where_and_by_which_rule(result: MonitorResult) -> None:
    report = build_monitor_report(result)
    first = ["verdict", "metrics", "windows", "over_time", "slices"]
    assert [section.name for section in report.sections][:5] == first
    assert [type(block).__name__ for block in report.sections[0].blocks][:3] == ["Banner", "Chart", "Bullets"]
    findings = {
        section.name: (section.heading.finding, section.heading.matters) for section in report.sections
    }
    assert findings["windows"] == ("7 of 14 windows with an alert", True)
    assert findings["slices"] == (f"1 of {result.n_slice_candidates} with an alert", True)
    assert findings["log"] == ("all checks passed", False)
    assert "empty_rules" not in findings  # no query is without a relevant document
    slices = next(table for table in report.tables if table.name == "slices")
    assert slices.drawn
    assert [cell.mark for row in slices.rows for cell in row if isinstance(cell, Estimate)] == ["worse"]
    written = [
        cell_text(cell, column.format)
        for table in report.tables
        for row in table.rows
        for column, cell in zip(table.columns, row, strict=True)
    ]
    assert "-0.0000" not in " ".join(written)
    assert result.verdict.what.startswith("ndcg@10 fell in 7 of 14 windows, first 2026-01-26: 0.9")
    assert "country=D" in result.verdict.where
    assert result.relevance == "the grade in column relevance"


def many_slices(seed: int, windows: int = 90) -> pd.DataFrame:
    """Ninety days and slices enough to fill a page."""
    random = np.random.default_rng(seed)
    n = windows * 100
    day = np.repeat(np.arange(windows), 100)
    start = int(np.datetime64("2026-01-05", "ns").astype(np.int64))
    city = random.integers(0, 40, n)
    values = 0.8 - (0.02 * (city % 10) if seed == 0 else 0) + 0.05 * random.standard_normal(n)
    return QueryColumns(
        query_id=np.char.add(f"{seed}-", np.arange(n).astype(str)),
        metric={"ndcg@10": np.clip(values, 0, 1)},
        n_items=np.full(n, 10, np.int32),
        has_relevant=np.ones(n, bool),
        grade=np.zeros((n, 10), np.float32),
        time=start + day * 86_400 * 10**9,
        event={"click": random.poisson(1, n).astype(np.int32)},
        segment={f"city{at}": pd.Categorical(np.roll(city, at).astype(str)) for at in range(3)},
    ).frame()


@pytest.mark.usefixtures("empty_pictures")
def test_a_long_report_is_small_and_needs_no_network(tmp_path: Path) -> None:
    config = load_monitor_config(
        {
            "columns": {"rank": "r", "segments": ["city0", "city1", "city2"]},
            "metrics": ["ndcg@10"],
            "relevance": {"events": {"click": 1}},
            "slices": {"max_predicates": 1},
            "windows": {"min_queries": 50},
        }
    )
    found = run_stages(many_slices(0), many_slices(1), config).result
    assert len(found.windows) == 90
    assert len(found.slices) == 10
    path = write_monitor_report(found, tmp_path)
    page = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 2_000_000
    body = page.split("<script", 1)[0]
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", body)
    assert "default-src &#39;none&#39;" in page


@pytest.mark.usefixtures("empty_pictures")
def test_names_from_data_stay_text(tmp_path: Path) -> None:
    table = SyntheticLog(days=1, queries_per_day=300).table().to_pandas()
    table["country"] = "<script>alert(1)</script>"
    table["request_id"] = table["request_id"] + "<img src=x>"
    config = {
        "columns": {"query_id": "request_id", "rank": "position", "segments": ["country"]},
        "metrics": ["ndcg@10"],
    }
    path = write_monitor_report(monitor(config, log=table, baseline=table), tmp_path)
    page = path.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "<img src=x>" not in page


def test_a_stored_result_is_a_baseline(tmp_path: Path) -> None:
    config = load_monitor_config(CONFIGS / "monitor_quickstart.yaml")
    size: dict[str, Any] = {"days": 3, "queries_per_day": 250}
    now, before = (
        SyntheticLog(seed=2, drop=1.5, slice_country="D", slice_noise=5.0, **size),
        SyntheticLog(seed=1, **size),
    )
    config = config.model_copy(update={"log": None, "baseline": None})
    result = watch(config, log=now, baseline=before).result
    first = watch(config, log=before)
    from ltr_harness.monitoring.stored import write_tables

    write_tables(first, tmp_path / "good")
    (tmp_path / "good" / "report.json").write_text(json.dumps(first.result.document))
    again = watch(config, log=now, baseline=tmp_path / "good").result
    assert result.alerts
    assert again.document["changes"] == result.document["changes"]
    assert again.document["slices"] == result.document["slices"]
    assert again.baseline_kind == "an earlier result of monitor"
    assert again.baseline_sha256 == result.baseline_sha256


@pytest.mark.parametrize(
    ("columns", "document"),
    [
        (
            {"query_id": ["q"], "n_items": [1], "has_relevant": [True], "grade_by_rank": [[1.0]]},
            {"metrics": ["mrr"]},
        ),
        (
            {"query_id": ["q"], "mrr": [1.0], "n_items": [1], "has_relevant": [True], "grade_by_rank": [1]},
            None,
        ),
        ({"query_id": ["q"], "mrr": [1.0]}, {"metrics": ["mrr"]}),
        (
            {
                "query_id": ["q"],
                "mrr": [1.0],
                "n_items": [1],
                "has_relevant": ["x"],
                "grade_by_rank": [[1.0]],
            },
            None,
        ),
        (
            {
                "query_id": ["q", "r"],
                "mrr": [1.0, 0.5],
                "n_items": [1, None],
                "has_relevant": [True, True],
                "grade_by_rank": [[1.0], [0.0]],
            },
            None,
        ),
        ({"query_id": ["q"]}, []),
        ({"query_id": ["q"]}, 7),
    ],
)
def test_what_is_no_stored_result_is_refused(
    columns: dict[str, list[Any]], document: Any, tmp_path: Path
) -> None:
    """A missing metric was a KeyError, and a document of another form a TypeError."""
    definition = {"metrics": ["mrr"]} if document is None else document
    (tmp_path / "report.json").write_text(json.dumps({"definition": definition}))
    parquet.write_table(pa.table(columns), tmp_path / "per_query.parquet")
    with pytest.raises(DataError, match="is not a stored result of monitor: "):
        stored_result(tmp_path, load_monitor_config({"columns": {"rank": "rank"}, "metrics": ["mrr"]}))


def test_a_run_of_this_harness_is_a_baseline(frozen_run: Run) -> None:
    run = frozen_run.path
    config: dict[str, Any] = {
        "columns": {"query_id": "request_id", "rank": "position"},
        "metrics": ["ndcg@10"],
        "windows": {"min_queries": 20},
    }
    log = SyntheticLog(days=1, queries_per_day=100)
    result = monitor(config, log=log, baseline=run)
    assert result.baseline_kind == "a run of this harness"
    mean = frozen_run.record.metrics["ndcg@10"].mean
    assert result.changes[0].baseline.value == pytest.approx(mean, abs=1e-12)
    with pytest.raises(NotComparableError, match="measured on labels"):
        monitor({**config, "relevance": {"events": {"click": 1}}}, log=log, baseline=run)
    with pytest.raises(NotComparableError, match="has no ndcg@5"):
        monitor({**config, "metrics": ["ndcg@5"]}, log=log, baseline=run)


# ---- in a browser -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    context = browser.new_context(offline=True)
    yield context.new_page()
    context.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("empty_pictures")
def test_the_page_without_a_network(result: MonitorResult, window: Any, tmp_path: Path) -> None:
    page, address = window, write_monitor_report(result, tmp_path).as_uri()
    page.set_viewport_size({"width": 1280, "height": 800})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.extend([request.url] if request.url != address else []))
    open_drawn(page, address)
    answer, line = page.locator("#verdict .banner"), page.locator("#chart-windows .plot svg")
    assert answer.locator(".badge.bad").inner_text() == "9 alerts"
    assert "ndcg@10 fell by 0.0368" in answer.inner_text()
    assert "worst in country=D" in answer.inner_text()
    box = line.bounding_box()  # both are on the first screen, the answer above
    assert answer.bounding_box()["y"] < box["y"]
    assert box["y"] + box["height"] < 800
    assert page.locator("#verdict").get_by_text("It is worst in country=D").count() == 1
    assert page.locator("section.folded > details[open]").count() == 4  # what alarms is not folded
    # wider than its column: it takes the room at its left
    assert page.locator(".wide:not(.hidden-right) #table-windows").count() == 1
    assert_charts_are_whole(page, 1280)
    page.goto("about:blank")  # else the charts would be drawn for the other width first
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 400, "height": 800})
    open_drawn(page, address)
    assert page.locator(".hidden-right #table-windows").count() == 1  # it says that there is more
    assert_charts_are_whole(page, 400)
    assert [line for line in said if not line.startswith("data:")] == []


def open_drawn(page: Any, address: str) -> None:
    """Open the page of the quickstart, and wait until its charts are drawn."""
    page.goto(address)
    drawn = "document.querySelectorAll('.plot').length === document.querySelectorAll('.plot svg').length"
    end = time.monotonic() + 30
    while not page.evaluate(drawn):
        assert time.monotonic() < end
        page.wait_for_timeout(20)
    assert page.locator(".plot svg").count() == 5


def assert_charts_are_whole(page: Any, width: int) -> None:
    """Nothing is wider than the window, and nothing in a chart over time is cut."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # metrics, segments, features, labels: the alert windows are one red band in each panel, and nothing is cut
    for name, panels in {"metrics": 4, "segments": 6, "features": 5, "labels": 3}.items():
        chart = page.locator(f"#chart-{name}_over_time .plot")
        assert chart.get_attribute("aria-label").startswith("7 of 14 windows raised an alert of a metric, ")
        assert chart.locator(".mark-rect path[fill='#cf4338']").count() == panels
        assert chart.locator(".mark-line path").count() == 2 * panels
        assert not any(text.endswith("…") for text in chart.locator("text").all_text_contents())
        assert chart.locator("svg").bounding_box()["width"] <= chart.bounding_box()["width"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("empty_pictures")
def test_the_first_screen_says_that_nothing_moved(window: Any, tmp_path: Path) -> None:
    config = load_monitor_config(CONFIGS / "monitor_quickstart.yaml", ("slices.features=false",))
    before, now = SyntheticLog(seed=1, days=4), SyntheticLog(seed=3, start="2026-01-19", days=4)
    quiet = monitor(config, log=now, baseline=before)
    assert quiet.healthy
    page = window
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(without_charts(write_monitor_report(quiet, tmp_path)).as_uri())
    answer = page.locator("#verdict .banner")
    assert answer.bounding_box()["y"] < 900
    assert "ndcg@10 did not measurably change" in answer.inner_text()
    assert answer.locator(".badge.good").inner_text() == "healthy"
    assert page.locator("section.folded > details[open]").count() == 0


def test_the_configuration_in_the_documentation_is_one() -> None:
    text = (CONFIGS.parent / "docs" / "monitoring.md").read_text(encoding="utf-8")
    example = text.partition("```yaml title=")[2].partition("\n")[2].partition("```")[0]
    config = load_monitor_config(yaml.safe_load(example))
    assert [str(metric) for metric in config.resolved_metrics][-1] == "err(max_grade=4)@10"
    labels = (CONFIGS.parent / "docs" / "partial-feedback.md").read_text(encoding="utf-8")
    table = labels.partition("| `relevance.mode` |")[2].partition("\n\n")[0]
    modes = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    known = json_schema()["$defs"]["Relevance"]["properties"]["mode"]["anyOf"][0]["enum"]
    assert sorted(modes) == sorted(known)
