"""Chromium as the scripts and the tests start it to open pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WITH_WINDOW = ("chromium", "chromium-browser", "google-chrome")
NAMES = (
    "chromium-headless-shell",
    *WITH_WINDOW,
)  # a page takes a browser with a window three times the CPU time
MISSING = "needs chromium, for example: apt-get install chromium-headless-shell"


def find(names: tuple[str, ...] = NAMES) -> str | None:
    """Return the path of the first of these programs that is installed."""
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def launched(path: str, *more_arguments: str) -> Iterator[Browser]:
    """Run the browser without a window until the block ends."""
    from playwright.sync_api import sync_playwright

    # as root, as in containers, chromium refuses to run with its sandbox; without one, a page that is no copy of
    # another process takes a sixth less CPU time
    arguments = ["--no-sandbox", "--no-zygote"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=[*arguments, *more_arguments])
        yield browser
        browser.close()
