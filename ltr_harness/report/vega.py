"""The charts' program, Vega with Vega-Lite, as one script for a page that needs no network."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from ltr_harness.files import cache_folder, write_whole
from ltr_harness.report import engine


@cache
def vega_bundle() -> str:
    """Vega, Vega-Lite and their loader as one script, from the installed package.

    Bundling takes almost two seconds and always gives the same text, so it is kept in the cache folder;
    a cached file that is not what was written is made anew, and without a writable folder nothing is kept.

    Raises:
        EngineError: none is kept, and the chart engine cannot work here.
    """
    folder = cache_folder()
    if folder is None:
        return _bundled()
    path = folder / "charts" / f"vega-{engine.VEGALITE_VERSION}-{version('vl-convert-python')}.js"
    bundle = _kept(path)
    if bundle is None:
        bundle = _bundled()
        _keep(path, bundle)
    return bundle


def _bundled() -> str:
    # The HTML parser ends a script at this text wherever it stands; in JavaScript strings both mean the same.
    return re.sub(r"</(script)", r"<\\/\1", engine.javascript(), flags=re.IGNORECASE).replace(
        "<!--", r"<\!--"
    )


def _kept(path: Path) -> str | None:
    """What `_keep` wrote, if it is still that: the first line is the digest of the rest."""
    try:
        digest, _, script = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return script if hashlib.sha256(script.encode()).hexdigest() == digest else None


def _keep(path: Path, script: str) -> None:
    with suppress(OSError):  # read-only or full disk: the next run bundles again
        write_whole(path, f"{hashlib.sha256(script.encode()).hexdigest()}\n{script}")
