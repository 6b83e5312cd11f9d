"""Every kind of page, opened in a browser: does its first screen answer, and is all of it legible?

Each page comes from real runs: the report of configs/quickstart.yaml (or of a stored folder of runs), monitor's
quickstart, a data card, a power page, the index of runs, a comparison of data sets; with --site the documentation
too. Each is opened at four widths, in light and dark, and as an A4 sheet with everything unfolded.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chromium

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "configs"
SCREENS = {1680: 1050, 1280: 800, 768: 1024, 400: 900}
SHEET = {"width": 703, "height": 1000}  # A4 between its margins, in pixels
LARGEST, MOST_MARKUP = 800_000, 200_000  # bytes of the quickstart's report, and of its tables
LONGEST = 12_000  # pixels as loaded, on a phone
MOST_SHEETS = 12  # A4, as loaded
READABLE, DRAWN = 0.4, 0.7  # seconds

CURES = {
    "wider than the window": "let it wrap, or let its own box scroll (.table, .plot)",
    "cut label": "give it room, or let it wrap",
    "outside the first screen": "shorten what stands above or beside it",
    "console": "correct the page's script",
    "request": "put what it fetches into the page",
    "not on white paper": "keep colours of the dark scheme within @media screen",
    "too large": f"at most {LARGEST:,} bytes: put fewer rows or charts into it",
    "too much markup of tables": f"at most {MOST_MARKUP:,} bytes: put fewer tables, rows or classes into it",
    "too long": f"at most {LONGEST:,} px as loaded: fold sections, or show the first rows of long tables",
    "too many sheets": f"at most {MOST_SHEETS} as loaded: fold what few readers need",
}

# Boxes beyond the window's edge, unless a box around them scrolls or hides what is outside.
WIDER = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const held = (one) => {
    for (let up = one.parentElement; up && up !== document.body; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== "visible") return true;
    return false;
  };
  const beyond = [...document.body.querySelectorAll("*")]
    .map((one) => [one, Math.round(one.getBoundingClientRect().right)])
    .filter(([one, right]) => right > room && !held(one));
  const outermost = beyond.filter(([one]) => !beyond.some(([other]) => other !== one && other.contains(one)));
  return outermost.slice(0, 3).map(([one, right]) => [one, `ends at ${right} of ${room} px`]);
}"""

# Text in a box that hides what does not fit, and text of charts outside the picture or shortened.
CUT = """() => {
  const found = [];
  for (const one of document.body.querySelectorAll("*")) {
    if (one.closest("svg, .md-header") || one.clientWidth <= 1) continue;
    if (!one.textContent.trim() || !one.checkVisibility()) continue;
    const hides = ["hidden", "clip"].includes(getComputedStyle(one).overflowX);
    const inView = one.getBoundingClientRect().right > 0; // a drawer waits outside of the window
    if (hides && inView && one.scrollWidth > one.clientWidth + 1)
      found.push([one, `${one.scrollWidth} px of text in ${one.clientWidth}`]);
  }
  for (const svg of document.querySelectorAll(".plot svg")) {
    const box = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const { left, right, top, bottom, width } = text.getBoundingClientRect();
      if (!width || getComputedStyle(text).opacity === "0") continue;
      const outside = Math.max(box.left - left, right - box.right, box.top - top, bottom - box.bottom);
      if (outside > 1.5) found.push([text, `${Math.round(outside)} px outside its picture`]);
      else if (text.textContent.endsWith("…")) found.push([text, "shortened"]);
    }
  }
  return found;
}"""

# The banner, and of the table of the decision the heads of the first models with their verdicts.
OUTSIDE = """() => [
  ...document.querySelectorAll(".banner"),
  ...document.querySelectorAll("#verdict table.answer tbody tr:nth-child(-n + 6)"),
].flatMap((one) => {
  const { bottom, width } = one.getBoundingClientRect();
  const area = one.closest(".table");
  if (!width || bottom > innerHeight) return [[one, `ends at ${Math.round(bottom)} of ${innerHeight} px`]];
  if (!area || area.scrollWidth <= area.clientWidth + 1) return [];
  return [[one, `is ${area.scrollWidth} px wide and shown in ${area.clientWidth}`]];
})"""

# An element by its nearest name, and its first words.
NAMED = """(found) => found.map(([one, detail]) => {
  const named = one.closest("[id]");
  const own = one.localName + [...one.classList].map((name) => "." + name).join("");
  const place = one === named || !named ? (one.id ? "#" + one.id : own) : `#${named.id} ${own}`;
  const text = one.textContent.trim().replaceAll(/\\s+/g, " ").slice(0, 60);
  return [`${place} "${text}"`, detail];
})"""

WAITING = """() => document.querySelector("#library") !== null &&
  [...document.querySelectorAll(".plot:not([hidden] *)")].some((plot) => !plot.dataset.drawn)"""

# When each visible chart was drawn, from before the page's own script begins.
CLOCK = """
window.drawnAt = 0;
new MutationObserver((changes) => {
  const seen = changes.some(({ target }) => target.dataset.drawn && target.checkVisibility());
  if (seen) window.drawnAt = performance.now();
}).observe(document, { attributes: true, attributeFilter: ["data-drawn"], subtree: true });
"""
UNFOLD_ALL = """() => document.querySelectorAll("main details").forEach((one) => { one.open = true; })"""
# One of each kind is enough on screens: of thirty queries, the first. axe would look through the others as well.
REMOVE_REPEATED = (
    """() => document.querySelectorAll("main details ~ details").forEach((one) => one.remove())"""
)
# axe finds nothing new in the marks of charts, which are hidden from screen readers, and in a row with the elements,
# classes and attributes of an earlier row: most of its time goes to the colours behind each text.
SPARE_AXE = """() => {
  document.querySelectorAll(".plot svg[aria-hidden=true]").forEach((one) => one.replaceChildren());
  for (const body of document.querySelectorAll("main tbody")) {
    const kinds = new Set();
    for (const row of [...body.rows]) {
      const elements = [row, ...row.querySelectorAll("*")];
      const kind = elements.map((one) => [
        one.localName, one.className, one.id, one.textContent === "",
        ...[...one.attributes].map(({ name, value }) => [name, value === ""]),
      ]).join();
      if (kinds.has(kind)) row.remove();
      kinds.add(kind);
    }
  }
}"""


@dataclass(frozen=True)
class Finding:
    """A fault and its place in the page; in another window its detail is another."""

    kind: str
    place: str
    detail: str = field(default="", compare=False)

    def __str__(self) -> str:
        cure = CURES.get(self.kind)
        words = f"{self.kind}: {self.place}{f' {self.detail}' if self.detail else ''}"
        return words if cure is None else f"{words}; {cure}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, help="stored runs to report; by default the quickstart is run"
    )
    parser.add_argument("--site", action="store_true", help="the documentation too; needs the extra docs")
    parser.add_argument("--keep", type=Path, help="folder for the pages; by default a temporary one")
    parser.add_argument("--only", help="pages whose name has this in it")
    arguments = parser.parse_args()
    path_of_chromium = chromium.find()
    if path_of_chromium is None:
        print(f"pages: {chromium.MISSING}", file=sys.stderr)
        return 2
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    n_wrong = 0
    with tempfile.TemporaryDirectory() as temporary, chromium.launched(path_of_chromium) as browser:
        folder = arguments.keep or Path(temporary)
        pages = make_pages(folder, arguments.folder)
        if arguments.site:
            pages |= built_site(folder / "site")
        for name, path in pages.items():
            if arguments.only and arguments.only not in name:
                continue
            prefix = (folder / "site").resolve().as_uri() if name.startswith("site") else "data:"
            windows_of = findings(browser, path, prefix=prefix)
            if name == "report" and arguments.folder is None:
                windows_of |= {finding: ["any width"] for finding in sizes(path)}
            n_wrong += len(windows_of)
            print(f"{name}: {summary(browser, path, prefix)}; {len(windows_of) or 'no'} findings", flush=True)
            for finding, windows in windows_of.items():
                print(f"  {finding} ({', '.join(windows)})", flush=True)
        browser.close()
    return 1 if n_wrong else 0


def make_pages(folder: Path, stored: Path | None) -> dict[str, Path]:
    """Each kind of page by its name, written into the folder from real runs."""
    runs = stored or folder / "runs" / "quickstart"
    if stored is None:
        ltr("run", CONFIGS / "quickstart.yaml", "--runs", folder / "runs")
    ltr("report", runs, "-o", folder / "report", "--format", "html")
    small = ("seeds=[1]", "stopping.max_rounds=5", "data.n_queries.train=60")
    for seed in (1, 2):
        changed = [f"--set={override}" for override in (f"name=set-{seed}", f"data.seed={seed}", *small)]
        ltr("run", CONFIGS / "quickstart.yaml", "--runs", folder / "runs", *changed)
    sets = [folder / "runs" / f"set-{seed}" for seed in (1, 2)]
    ltr("compare-sets", *sets, "-o", folder / "sets")
    ltr("show", "runs", folder / "runs", "-o", folder / "index.html")
    ltr("monitor", CONFIGS / "monitor_quickstart.yaml", "-o", folder / "monitor", "--exit-zero")
    ltr("data", "describe", CONFIGS / "quickstart.yaml", "-o", folder / "card")
    ltr("power", sets[0], "--difference", "0.01", "-o", folder / "power")
    return {
        "report": folder / "report" / "report.html",
        "monitor": folder / "monitor" / "report.html",
        "data card": folder / "card" / "data_card.html",
        "power": folder / "power" / "report.html",
        "runs": folder / "index.html",
        "data sets": folder / "sets" / "report.html",
    }


def ltr(*arguments: object) -> None:
    """One command, in this process; what it prints is kept back unless it fails."""
    import contextlib
    import io

    from ltr_harness.cli import cli
    from ltr_harness.cli.exit_codes import run_command

    words = [str(argument) for argument in arguments]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = run_command(cli, words)
    if code:
        raise SystemExit(
            f"{printed.getvalue()}\npages: ltr-harness {' '.join(words)} ended with exit code {code}"
        )


def built_site(folder: Path) -> dict[str, Path]:
    """The documentation's pages by their path."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    os.environ["NO_MKDOCS_2_WARNING"] = "1"  # an advertisement, which its theme prints
    os.chdir(ROOT)
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    config.plugins.on_shutdown()
    pages = sorted(folder.rglob("*.html"))  # 404.html is for servers alone: its addresses are absolute
    return {f"site: {path.relative_to(folder)}": path for path in pages if path.name != "404.html"}


def findings(
    browser: Any, path: Path, screens: Mapping[int, int] = SCREENS, prefix: str = "data:"
) -> dict[Finding, list[str]]:
    """Return the faults of a page, with their windows; the addresses of its site's files begin with `prefix`."""
    windows_of: dict[Finding, list[str]] = {}

    def note(window: str, *new_findings: Finding) -> None:
        for finding in dict.fromkeys(new_findings):
            windows_of.setdefault(finding, []).append(window)

    heard: list[Finding] = []
    for width, height in screens.items():
        page = open_page(browser, path, heard, prefix, viewport={"width": width, "height": height})
        note(f"{width}", *boxes(page, "outside the first screen", OUTSIDE))
        if width == min(screens) and prefix == "data:":
            note(f"{width}", *length(page))
        page.evaluate(REMOVE_REPEATED)
        page.evaluate(UNFOLD_ALL)
        wait_for_charts(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            note(f"{width} {scheme}", *boxes(page, "wider than the window", WIDER))
            note(f"{width} {scheme}", *boxes(page, "cut label", CUT))
        page.evaluate(SPARE_AXE)
        if width == min(screens):
            # at one width: they are of the same words
            note("dark", *inaccessible(page, runOnly=["cat.color"]))
        page.emulate_media(color_scheme="light")
        note(f"{width} light", *inaccessible(page))
        page.context.close()
    page = open_page(browser, path, heard, prefix, viewport=SHEET, color_scheme="dark")
    if prefix == "data:":
        note("printed", *sheets(page))
    page.evaluate(UNFOLD_ALL)
    page.emulate_media(media="print", color_scheme="dark")
    wait_for_charts(page)
    note("printed", *boxes(page, "wider than the window", WIDER), *boxes(page, "cut label", CUT))
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    if paper not in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"):
        note("printed", Finding("not on white paper", "body", paper))
    page.context.close()
    note("any width", *heard)
    return windows_of


def sizes(path: Path) -> list[Finding]:
    """Return findings where the file or the markup of its tables is too large."""
    text = path.read_text(encoding="utf-8")
    markup = sum(len(table.encode()) for table in re.findall(r"<table\b.*?</table>", text, re.DOTALL))
    found = []
    if len(text.encode()) > LARGEST:
        found.append(Finding("too large", "the page", f"{len(text.encode()):,} bytes"))
    if markup > MOST_MARKUP:
        found.append(Finding("too much markup of tables", "the page", f"{markup:,} bytes"))
    return found


def length(page: Any) -> list[Finding]:
    """Return a finding where the page as loaded is too long."""
    height = page.evaluate("document.documentElement.scrollHeight")
    return [Finding("too long", "the page", f"{height:,} px")] if height > LONGEST else []


def sheets(page: Any) -> list[Finding]:
    """Return a finding where the page as loaded takes too many sheets."""
    n = n_sheets(page)
    return [Finding("too many sheets", "the page", f"{n} sheets")] if n > MOST_SHEETS else []


def n_sheets(page: Any) -> int:
    """Return the number of A4 sheets on which the page is printed."""
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))


def open_page(browser: Any, path: Path, heard: list[Finding], prefix: str, **options: Any) -> Any:
    """Open the page in a window of its own, charts drawn; its messages and requests are appended to `heard`."""
    page = browser.new_context(offline=True, **options).new_page()
    address = path.resolve().as_uri()

    def note_request(request: Any) -> None:
        if request.url != address and not request.url.startswith(("data:", "blob:", prefix)):
            heard.append(Finding("request", request.url))

    page.on("request", note_request)
    page.on("console", lambda message: heard.append(Finding("console", f"{message.type}: {message.text}")))
    page.on("pageerror", lambda error: heard.append(Finding("console", str(error))))
    page.add_init_script(CLOCK)
    page.goto(address)
    wait_for_charts(page)
    return page


def wait_for_charts(page: Any, seconds: float = 30) -> None:
    """Wait until the charts are drawn, and drawn anew where the width has changed."""
    end = time.monotonic() + seconds
    page.wait_for_timeout(200)
    while page.evaluate(WAITING):
        if time.monotonic() > end:
            raise SystemExit(f"pages: {page.url}: charts are not drawn after {seconds:g} s")
        page.wait_for_timeout(20)


def boxes(page: Any, kind: str, query: str) -> list[Finding]:
    """Elements that a query finds, by their names."""
    return [Finding(kind, place, detail) for place, detail in page.evaluate(f"({NAMED})(({query})())")]


def inaccessible(page: Any, **options: Any) -> list[Finding]:
    """The rules of axe that the page breaks."""
    from axe_playwright_python.sync_playwright import Axe

    # of the documentation what is ours: the frame around it is the theme's
    selector = ".md-content" if page.locator(".md-content").count() else None
    if selector:
        options = {"runOnly": ["wcag2a", "wcag2aa"]}
    found = Axe().run(page, selector, options={"resultTypes": ["violations"], "preload": False, **options})
    return [
        Finding(
            f"axe: {rule['id']}",
            " ".join(map(str, rule["nodes"][0]["target"])),
            f"({len(rule['nodes'])} places, {rule['impact']}): {rule['help']}: {rule['helpUrl']}",
        )
        for rule in found.response["violations"]
    ]


def summary(browser: Any, path: Path, prefix: str) -> str:
    """Size, and when the page is readable and its last visible chart is drawn: the best of three loads."""
    heard: list[Finding] = []
    readable, drawn = [], []
    for _ in range(3):
        page = open_page(browser, path, heard, prefix, viewport={"width": 1280, "height": 800})
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        readable.append(page.evaluate(paint) / 1000)
        drawn.append(page.evaluate("window.drawnAt") / 1000)
        page.context.close()
    charts = f", drawn after {min(drawn):.2f} s (goal {DRAWN:g})" if min(drawn) else ""
    size = path.stat().st_size
    return f"{size:,} bytes, readable after {min(readable):.2f} s (goal {READABLE:g}){charts}"


if __name__ == "__main__":
    sys.exit(main())
