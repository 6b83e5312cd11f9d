"""Text of the data is shown, not obeyed."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness._util.escapes import printable, without_commands


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, é, 模型 🦆\u200d", "plain, é, 模型 🦆\u200d"),
        ("\x1b[2J\x00\x1f", "\\x1b[2J\\x00\\x1f"),
        ("\x7f\x9b31m", "\\u007f\\u009b31m"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\u202eabc\u2066\u2028", "\\u202eabc\\u2066\\u2028"),
        ("\udc80\ufffe", "\\udc80\\ufffe"),
    ],
)
def test_by_hand(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_text_of_several_lines_keeps_its_lines() -> None:
    assert printable("a\n\tb\r\n\x1b[0m", lines=True) == "a\n\tb\\r\n\\x1b[0m"


@pytest.mark.long
@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys_and_twice_is_once(text: str) -> None:
    once = printable(text)
    assert not [c for c in once if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    assert once.encode().decode() == once
    assert printable(once) == once


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x\n \t::set-output name=a::b", "\\u003a:error::x\n \t\\u003a:set-output name=a::b"),
        (
            "a ##[error]x ##vso[task.x]y ##teamcity[z]",
            "a \\u0023#[error]x \\u0023#vso[task.x]y \\u0023#teamcity[z]",
        ),
        ("\n\n:::stop", "\n\n\\u003a::stop"),
        ("a::b ## [1] #[2] :", "a::b ## [1] #[2] :"),
        ('{"a": "::error::##[error]"}', '{"a": "::error::\\u0023#[error]"}'),
    ],
)
def test_commands_of_build_servers(text: str, shown: str) -> None:
    assert without_commands(text) == shown == without_commands(shown)


@pytest.mark.long
@given(
    st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
)
def test_json_stays_the_same_json(value: object) -> None:
    for indent in (None, 1):
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        assert json.loads(without_commands(printable(text, lines=True))) == value
