"""Control characters and commands of build servers, escaped in text for terminals, logs and text formats."""

from __future__ import annotations

import re

# C0, DEL and C1; directions and line separators; halves of surrogate pairs; what no XML may hold.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# ``::error::`` at the start of a line, ``##[error]`` anywhere: GitHub Actions, Azure Pipelines and TeamCity obey them.
_COMMAND = re.compile(r"^(?P<indent>[^\S\n]*):(?=:)|#(?=#\w*\[)", re.MULTILINE)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, lines: bool = False) -> str:
    """Text whose control characters are shown as escapes instead of being obeyed.

    JSON stays the same JSON: it has no raw characters below blank, and the others become escapes of its own.

    Example:
        >>> print(printable("run\x1b[2J\\nred"))
        run\\x1b[2J\\nred
    """
    if text.isprintable():
        return text
    return _OBEYED.sub(_kept_lines if lines else _escape, text)


def _kept_lines(match: re.Match[str]) -> str:
    return match[0] if match[0] in "\n\t" else _escape(match)


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0][-1])
    return _SHORT.get(match[0]) or (f"\\x{number:02x}" if number < 0x20 else f"\\u{number:04x}")


def without_commands(text: str) -> str:
    """Lines for stdout or stderr in which no build server finds a command; JSON stays the same JSON.

    Example:
        >>> print(without_commands("::error::x  0.7"))
        \\u003a:error::x  0.7
    """
    if "::" not in text and "##" not in text:
        return text
    return _COMMAND.sub(lambda match: f"{match['indent'] or ''}{_escape(match)}", text)
