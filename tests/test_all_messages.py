"""Every message of the project side by side: found, and written in one voice."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def collector(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("messages", repository / "scripts" / "messages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_messages_are_collected_into_one_file_for_reading(collector: ModuleType, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "one.py").write_text(
        "raise DataError(Problem(path, f'label {label!r} is below 0', 'grades >= 0', cure='map ' + 'them'))\n"
        "raise UsageError('both ' 'given') if twice else None\n"
        "log('not a message')\n"
    )
    found = [(message.line, message.text) for message in collector.messages(package)]
    assert found == [(1, "label {label} is below 0; grades >= 0; map them"), (2, "both given")]


def test_all_messages_speak_with_one_voice(collector: ModuleType, tmp_path: Path) -> None:
    messages = list(collector.messages())
    assert len(messages) > 400
    wrong = {
        f"{message.file}:{message.line}: {message.text}"
        for message in messages
        if re.search(
            r"\.$|\binvalid\b|\billegal\b|\bplease\b|\bsorry\b|\boops\b|\bfailed to\b|!$",
            re.sub(r"\{[^{}]*\}", "…", message.text),  # what stands in braces is source, not text
            re.IGNORECASE,
        )
    }
    assert wrong == set()
