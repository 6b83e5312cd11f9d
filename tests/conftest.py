"""Where tests find real data, and what they do where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before a booster is imported: on a busy machine their threads would burn the other's core while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_REPOSITORY = Path(__file__).resolve().parent.parent


def data_folder() -> Path | None:
    """``$LTR_HARNESS_DATA``, else ``../shared/data`` beside the repository's root, else None."""
    given = os.environ.get("LTR_HARNESS_DATA")
    folder = Path(given) if given else _REPOSITORY.parent / "shared" / "data"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = data_folder()
    if folder is None:
        pytest.skip("needs the real ranking data: set LTR_HARNESS_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def repository() -> Path:
    return _REPOSITORY
