"""Where tests find real data, and what they do where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# A busy machine is no failure.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# As the command line does, and before a booster is imported: threads that wait must not keep a core busy.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

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


@pytest.fixture(scope="session", autouse=True)
def _own_data_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests neither trust nor fill the data cache of whoever runs them."""
    os.environ["LTR_HARNESS_CACHE"] = str(tmp_path_factory.mktemp("data-cache"))


@pytest.fixture(scope="session")
def repository() -> Path:
    return _REPOSITORY
