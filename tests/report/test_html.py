"""One file, nothing fetched, nothing injected, readable by machines that read pages aloud."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pytest

from ltr_harness._util.escapes import printable
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.report import ReportData, blocks, build_report, html
from ltr_harness.report.blocks import Report

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """The page as a browser's parser would split it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def scripts(text: str) -> list[str]:
    """Contents of the elements that run."""
    return re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def text(report: Report) -> str:
    return html.render(report)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


@pytest.fixture(scope="module")
def hostile_text(hostile_report: Report) -> str:
    return html.render(hostile_report)


@pytest.mark.long
def test_nothing_is_fetched(page: Page, text: str) -> None:
    for tag, attrs in page.tags:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            target = attrs.get(name) or "#"
            assert target.startswith(("#", "data:")), f"<{tag} {name}={target}>"
    assert "@import" not in text
    assert "url(" not in text.partition("<style>")[2].partition("</style>")[0]


@pytest.mark.long
def test_the_policy_admits_exactly_the_two_scripts(page: Page, text: str) -> None:
    (policy,) = (m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    (own,) = scripts(text)
    library = gzip.decompress(base64.b64decode(text.partition('id="library">')[2].partition("<")[0])).decode()
    for script in (own, library):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == 2
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]


@pytest.mark.long
def test_hostile_names_make_no_elements(hostile_text: str, page: Page) -> None:
    hostile = Page(hostile_text)
    # Chart data and two scripts, however many names try to add one.
    assert len(hostile.all("script")) == len(page.all("script")) == 3
    assert hostile.all("img") == []
    assert not any(name.startswith("on") for _, attrs in hostile.tags for name in attrs)
    assert {tag for tag, _ in hostile.tags} <= {tag for tag, _ in page.tags} | {"pre"}


@pytest.mark.long
def test_hostile_names_are_shown_as_they_are_and_control_characters_as_escapes(
    hostile_text: str, hostile_names: list[str]
) -> None:
    shown = "\n".join(data for _, data in Page(hostile_text).texts)
    for name in hostile_names:
        assert printable(name, lines=True) in shown


@pytest.mark.long
def test_chart_data_survive_the_way_into_the_page(hostile_text: str, hostile_names: list[str]) -> None:
    (embedded,) = re.findall(
        r'<script type="application/json" id="charts">(.*?)</script>', hostile_text, re.DOTALL
    )
    for character in "<>&\u2028\u2029":
        assert character not in embedded
    specs = json.loads(embedded)["specs"]
    drawn = {row["model"] for row in specs["value_distribution"]["data"]["values"]}
    assert drawn == {printable(name, lines=True) for name in hostile_names}


@pytest.mark.long
def test_hostile_query_ids_and_metric_names(
    make_data: Callable[..., ReportData], hostile_names: list[str]
) -> None:
    systems = [
        SystemResult(
            name=model,
            query_ids=np.array(hostile_names),
            values={name: np.linspace(0, 1, len(hostile_names))[None, :] * at for name in hostile_names},
            replicates=("1",),
            higher_is_better=dict.fromkeys(hostile_names, True),
        )
        for at, model in ((0.5, "A"), (1.0, "B"))
    ]
    page = Page(html.render(build_report(make_data(systems=systems, with_runs=False))))
    assert len(page.all("script")) == 3
    assert page.all("img") == []


def test_the_page_is_small(text: str) -> None:
    assert len(text.encode()) < 1_500_000


def test_the_page_says_what_it_is(page: Page) -> None:
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == len(page.all("main")) == len(page.all("title")) == 1
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for link in page.all("a"):
        assert (link["href"] or "")[1:] in ids


def test_tables_have_captions_and_headings_with_a_scope(page: Page) -> None:
    tables = len(page.all("table"))
    assert tables == len(page.all("caption")) > 10
    without = [attrs for attrs in page.all("th") if "scope" not in attrs]
    assert all(attrs.get("colspan") == "1" for attrs in without)  # the empty corners above the model names


def test_every_chart_has_its_words(page: Page) -> None:
    plots = [attrs for attrs in page.all("div") if "data-chart" in attrs]
    assert len(plots) == 6 + 3  # distributions of three more metrics, one of which is shown when it is chosen
    for plot in plots:
        assert plot["role"] == "img"
        assert "xgb-ndcg" in (plot["aria-label"] or "")


def test_cells_sort_by_their_full_value(page: Page, data: ReportData) -> None:
    sorts = {attrs["data-sort"] for tag, attrs in page.tags if "data-sort" in attrs}
    for model in data.models:
        assert str(data.comparison.summary(model).mean) in sorts


def test_a_report_without_charts_carries_no_chart_library(
    make_data: Callable[..., ReportData], make_system: Callable[..., SystemResult]
) -> None:
    one = make_system("only", 0.1, n=40, empty=40)
    text = html.render(build_report(make_data(systems=[one], with_runs=False)))
    assert len(text) < 100_000
    assert len(scripts(text)) == 1


@pytest.mark.parametrize("scale", [1e-5, 1e-7, 1e-9])
def test_differences_far_below_six_decimals_have_an_axis(
    make_data: Callable[..., ReportData], scale: float
) -> None:
    rng = np.random.default_rng(3)
    base = rng.uniform(size=200)
    systems = [
        SystemResult(
            name=model,
            query_ids=np.arange(200).astype(str),
            values={"ndcg@10": (base + at * scale * rng.normal(1, 1, 200))[None, :]},
            replicates=("1",),
            higher_is_better={"ndcg@10": True},
        )
        for at, model in enumerate("ABC")
    ]
    page = Page(html.render(build_report(make_data(systems=systems, with_runs=False))))
    places = [attrs["style"] or "" for attrs in page.all("i") if "%" in (attrs.get("style") or "")]
    assert len(places) > 6
    assert all(-1 <= float(place) <= 101 for style in places for place in re.findall(r"(\S+)%", style))


def test_the_headline_has_the_minus_signs_of_the_table() -> None:
    """Names, dates and exponents keep their hyphens."""
    banner = blocks.Banner(
        blocks.Badge("undecided", "neutral"),
        "b-2 leads a--s1--0d9 by 0.1 (CI -0.2 to +0.3), 2024-01-02, 1e-05",
    )
    page = Page(html.render(blocks.Report("t", (), (blocks.Section("verdict", (banner,)),))))
    assert [text.strip() for tag, text in page.texts if tag == "h2" and "leads" in text] == [
        "b-2 leads a--s1--0d9 by 0.1 (CI −0.2 to +0.3), 2024-01-02, 1e-05"
    ]


def test_backticks_are_code_and_pages_have_one_minus_sign_and_one_arrow() -> None:
    """In names, dates, exponents and code a hyphen stays a hyphen."""
    table = blocks.Table(
        "t",
        "By `k`, from -.2 -> 0",
        (blocks.Column("Cure", hint="see `a`"), blocks.Column("n", "difference")),
        (("set `data.root`", -0.5), ("b-2 at 2024-01-02", 1e-5)),
        footnotes=("`--limit -1` of ``x``",),
    )
    content = (
        blocks.Heading("About `a`", finding="`b` fell by -0.1"),
        blocks.Paragraph("0.2 -> 0.1, `x -> y`, 1e-05"),
        blocks.Bullets(("`c`: -3",)),
        blocks.Details("`d`", (table,)),
    )
    group = blocks.SectionGroup("G", "?")
    text = html.render(blocks.Report("t", (), (blocks.Section("s", content, group),)))
    page = Page(text)
    shown = [(tag, words) for tag, words in page.texts if tag not in ("script", "style")]
    assert "`" not in "".join(words for _, words in shown)
    assert "`" not in "".join(str(attrs) for tag, attrs in page.tags if tag != "style")
    codes = [words for tag, words in shown if tag == "code"]
    assert sorted(codes) == ["--limit -1", "a", "b", "c", "d", "data.root", "k", "x", "x -> y"]
    prose = "".join(words for tag, words in shown if tag != "code")
    for words in (
        " fell by −0.1",
        "0.2 → 0.1, ",
        ", 1e-05",
        ": −3",
        ", from −.2 → 0",
        "b-2 at 2024-01-02",
        "−0.5000",
    ):
        assert words in prose
