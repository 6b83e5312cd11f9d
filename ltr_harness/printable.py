"""The one function through which foreign text passes on its way to a terminal or a text format."""

from __future__ import annotations

import re

# C0, DEL and C1; directions and line separators; halves of surrogate pairs; what no XML may hold.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, lines: bool = False) -> str:
    """Text whose control characters are shown as escapes instead of being obeyed.

    JSON stays the same JSON: it has no raw characters below blank, and the others become escapes of its own.

    Args:
        text: names, values or messages that may hold anything.
        lines: leave line breaks and tabs as they are, for text of several lines.

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
    number = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\x{number:02x}" if number < 0x20 else f"\\u{number:04x}")
