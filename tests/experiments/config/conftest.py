"""A small sound experiment, and the messages of one that is not."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment

SMALL = """\
name: small
data:
  reader: letor
  splits: {train: a.txt, valid: b.txt, test: c.txt}
stopping: {metric: ndcg@10}
models:
  trees: {ranker: lightgbm}
  chance: {ranker: random}
"""


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(in_folder: Path) -> Callable[..., Path]:
    """Write a file below the current folder; its name is then as short as in the messages."""

    def write_file(text: str, name: str = "exp.yaml") -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def messages(write: Callable[..., Path]) -> Callable[..., list[str]]:
    """The problems of a text, as the user sees them."""

    def problems(text: str, overrides: Sequence[str] = ()) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load_experiment(write(text), overrides)
        return str(caught.value).splitlines()

    return problems


@pytest.fixture
def small_yaml() -> str:
    return SMALL
