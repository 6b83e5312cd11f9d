"""The documentation builds without a warning and without a network, and knows everything there is to document."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from ltr_harness.cli import COMMANDS, cli
from ltr_harness.data.readers import READERS
from ltr_harness.experiments.config.expand import PRESETS
from ltr_harness.metrics.table import METRICS
from ltr_harness.models.table import RANKERS

ROOT = Path(__file__).resolve().parents[2]


FETCHING = re.compile(r"""<(?:script|img|iframe|source|video|link)\b(?:[^>"']|"[^"]*"|'[^']*')*>""")


class Fetched(HTMLParser):
    """The addresses that a browser would fetch in order to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video"):
            self.addresses.append(attributes.get("src") or "")
        if tag == "link" and attributes.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(attributes.get("href") or "")


def fetched_addresses(page: str) -> list[str]:
    addresses = []
    for tag in FETCHING.findall(page):  # to parse all of the site takes two seconds
        parser = Fetched()
        parser.feed(tag)
        addresses += parser.addresses
    return addresses


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; any warning of MkDocs ends the build."""
    pytest.importorskip("mkdocs", reason="the documentation's tools are missing: pip install '.[docs]'")
    from material.plugins.search.plugin import SearchIndex
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    add_page = SearchIndex.add_entry_from_context

    def add_searched_page(index: SearchIndex, page: Any) -> None:
        """Index the page that is searched for: all take a third of the build, and those of Python half of that."""
        if page.url.startswith("reference/python-boosting"):
            add_page(index, page)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SearchIndex, "add_entry_from_context", add_searched_page)
        patch.setenv("NO_MKDOCS_2_WARNING", "1")  # an advertisement, which its theme prints
        patch.chdir(ROOT)
        folder = tmp_path_factory.mktemp("site")
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
        config.theme["features"].append(
            "navigation.prune"
        )  # all pages' names in each take a tenth of the build
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
        config.plugins.on_shutdown()
    return folder


@pytest.mark.long
def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        elsewhere = [
            one
            for one in fetched_addresses(page.read_text(encoding="utf-8"))
            if re.match(r"(https?:)?//", one)
        ]
        assert not elsewhere, f"{page.relative_to(site)}: {elsewhere}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", style.read_text(encoding="utf-8")), (
            style
        )


@pytest.mark.long
def test_the_page_for_language_models_leads_to_pages(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 15
    for target in targets:
        assert (site / target).is_file(), target


@pytest.mark.long
def test_the_search_works_in_a_page_opened_from_the_disk(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "reference" / "cli.html").as_uri())
    page.locator("input[name=query]").press_sequentially("xendcg")  # the search listens to keys
    page.wait_for_selector(".md-search-result__item a", timeout=30_000)
    found = page.eval_on_selector_all(".md-search-result__item a", "links => links.map(link => link.href)")
    page.close()
    assert any("/reference/python-boosting.html" in address for address in found), found


def test_such_addresses_would_be_found() -> None:
    assert fetched_addresses(
        '<link rel="stylesheet" href="https://x/y.css"><script src="//x/y.js"></script>'
    ) == [
        "https://x/y.css",
        "//x/y.js",
    ]


@pytest.mark.long
def test_everything_with_a_name_is_on_its_page(site: Path) -> None:
    for metric in METRICS:
        assert (site / "metrics" / f"{metric}.html").is_file()
    experiment = (site / "reference" / "experiment.html").read_text(encoding="utf-8")
    for key, names in (("reader", READERS), ("ranker", RANKERS)):
        for name in names:
            assert f"<code>{key}: {name}</code>" in experiment
    commands = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    for command in (name for group in COMMANDS.values() for name in group):
        assert f'id="ltr-harness-{command}"' in commands


@pytest.mark.parametrize("metric", METRICS)
def test_a_metrics_page_says_what_it_is_for(metric: str, script: Callable[[str], ModuleType]) -> None:
    page = script("reference_pages").metric_page(metric)
    assert re.search(r"## When to use it\n\n.{40}", page)
    assert re.search(r"## When not\n\n.{40}", page)
    assert re.search(r"## Missed documents\n\nThey are judged.{60}", page)
    assert ">>> " in page


def test_keys_say_what_they_take_and_mean(script: Callable[[str], ModuleType]) -> None:
    page = script("reference_pages").experiment_page(
        {
            "$defs": {
                "Rule": {
                    "type": "object",
                    "properties": {"on": {"const": "valid", "description": "Where."}},
                }
            },
            "properties": {
                "stopping": {"anyOf": [{"$ref": "#/$defs/Rule"}, {"type": "null"}], "description": "When."},
                "data": {"properties": {"reader": {"oneOf": []}}, "allOf": []},
                "models": {"additionalProperties": {"properties": {"ranker": {"oneOf": []}}, "allOf": []}},
            },
        }
    )
    assert "| `stopping` | mapping | – | When. |" in page
    assert "| `on` | `valid` | – | Where. |" in page


def test_the_picture_of_the_layers_is_the_contract() -> None:
    text = (ROOT / "docs" / "maintainers" / "architecture.md").read_text(encoding="utf-8")
    (picture,) = re.findall(r"```text\n(cli.*?)```", text, re.DOTALL)
    drawn = [re.split(r" {2,}", line)[0] for line in picture.splitlines() if not line.startswith(" ")]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert drawn == contracts["contracts"][0]["layers"]


def test_the_advice_on_presets_is_what_they_do() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    advised = dict(re.findall(r"\| `(\w+)` \| `(\w+@\d+)` \|", page))
    assert advised == {name: preset["primary"] for name, preset in PRESETS.items()}


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 120


def test_links_of_the_pages_outside_the_site_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = target.partition("#")
            assert (ROOT / path).is_file(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(ROOT / path), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """The names by which links lead to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", text) for text in words}


@pytest.mark.long
def test_commands_in_running_text_exist_with_their_options() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = [
        (page.name, words)
        for page in pages
        for text in re.findall(r"(?<!`)`ltr-harness ([^`]+)`", page.read_text(encoding="utf-8"))
        if (words := text.split())[0] != "…"
    ]
    assert len(named) > 20
    for page, words in named:
        options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        unknown = options - options_of(words)
        assert not unknown, f"{page}: ltr-harness {' '.join(words)}: {unknown}"


def options_of(words: list[str]) -> set[str]:
    """The options of the command, or subcommand, that the words begin with."""
    found: click.Command | None = cli.get_command(click.Context(cli), words[0])
    assert found is not None, f"no command {words[0]}"
    # `compare a.csv` is a command too: a group with arguments of its own
    if (
        isinstance(found, click.Group)
        and len(words) > 1
        and not (found.params and words[1] not in found.commands)
    ):
        found = found.get_command(click.Context(found), words[1])
        assert found is not None, f"no command {' '.join(words[:2])}"
    return {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
