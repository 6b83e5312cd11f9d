"""The README's pictures: the report's first screen, an opened query, and the terminal."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import chromium

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
LARGEST = 300_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, help="folder of runs to reuse; by default a temporary one")
    arguments = parser.parse_args()
    path_of_chromium = chromium.find()
    if path_of_chromium is None:
        print(f"screenshots: {chromium.MISSING}", file=sys.stderr)
        return 2
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from ltr_harness import run_experiment

    with tempfile.TemporaryDirectory() as folder:
        result = run_experiment(ROOT / "configs" / "quickstart.yaml", runs=arguments.runs or folder)
        assert result.report is not None
        assert result.report_path is not None
        IMAGES.mkdir(parents=True, exist_ok=True)
        photograph(result.report_path, path_of_chromium)
        (IMAGES / "terminal.svg").write_text(terminal(result.report), encoding="utf-8")
    too_large = [path.name for path in sorted(IMAGES.iterdir()) if path.stat().st_size > LARGEST]
    for path in sorted(IMAGES.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
    if too_large:
        print(f"screenshots: larger than {LARGEST:,} bytes: {', '.join(too_large)}", file=sys.stderr)
    return 1 if too_large else 0


def photograph(report: Path, path_of_chromium: str) -> None:
    """The first screen in light, an opened query in dark."""
    with chromium.launched(path_of_chromium) as browser:
        for name, scheme in (("report", "light"), ("query", "dark")):
            page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme=scheme)
            page.goto(report.resolve().as_uri())
            while not page.evaluate(
                "[...document.querySelectorAll('.plot:not([hidden] *)')].every((plot) => plot.dataset.drawn)"
            ):
                page.wait_for_timeout(50)
            if name == "query":
                page.locator("#queries > details > summary").click()
                page.locator("#queries .option details details > summary").first.click()
                page.locator("#queries").scroll_into_view_if_needed()
                page.evaluate(
                    "document.documentElement.style.scrollBehavior = 'auto'; location.hash = 'queries'"
                )
                page.wait_for_timeout(200)
            page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()


def terminal(data: object) -> str:
    """Draw the run's closing lines, in their colours, as a picture that fetches nothing."""
    from rich.console import Console
    from rich.text import Text

    from ltr_harness.report.terminal import render

    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(render(data, colour=True)), end="")  # type: ignore[arg-type]
    picture = console.export_svg(title="ltr-harness run configs/quickstart.yaml", unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL).replace("Fira Code", "ui-monospace")


if __name__ == "__main__":
    sys.exit(main())
