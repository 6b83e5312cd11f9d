"""Text for people: counts with their noun, numbers, escapes of control characters, small tables.

Every command imports this module, so a function imports by itself what few of them need.
"""

import dataclasses
import io
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

_FORMS = {"is": "are", "was": "were", "has": "have"}


def count_of(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count:,} {plural(noun, count)}"


def named(noun: str, names: Sequence[str]) -> str:
    """Return a count with the names: all up to twenty, else the first ten."""
    listed = ", ".join(names) if len(names) <= 20 else f"{', '.join(names[:10])}, …"
    return f"{count_of(len(names), noun)}: {listed}" if names else count_of(0, noun)


def shortened(names: Collection[object], most: int) -> str:
    """The first names, and whether there are more."""
    listing = ", ".join(map(str, islice(names, most)))
    return f"{listing}, …" if len(names) > most else listing


def plural(word: str, count: int) -> str:
    """A noun, or a verb such as *is* and *has*, in the form that goes with the number."""
    if count == 1:
        return word
    if word in _FORMS:
        return _FORMS[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


# C0, DEL and C1; directions and line separators; halves of surrogate pairs; what no XML may hold.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
# ``::error::`` at the start of a line, ``##[error]`` anywhere: GitHub Actions, Azure Pipelines and TeamCity obey them.
_COMMAND = re.compile(r"^(?P<indent>[^\S\n]*):(?=:)|#(?=#\w*\[)", re.MULTILINE)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


ADDRESSES: dict[str, str] = {}
"""Folders of copies and the beginning of the addresses they were made from; messages name the original."""


def addressed(text: str) -> str:
    """Text in which paths of copies are the addresses they were copied from."""
    for folder, scheme in ADDRESSES.items():
        text = text.replace(folder, scheme)
    return text


# An address in any text: up to a blank or a quotation mark, which JSON has escapes for. Paths keep one slash of two.
_ADDRESS = re.compile(r"""(?<![A-Za-z0-9+.-])([A-Za-z0-9+.-]{2,})(:/+)((?:\\.|[^\s"\\])+)""")
_OPTION = re.compile("([?&#;])([^=?&#;]*)=([^&#;]*)")
_SECRET = re.compile("key|secret|token|passw|pwd|sig|credential|auth", re.IGNORECASE)
_WITHOUT_PORT = re.compile(
    "s3|gs|abfs|.*sql", re.IGNORECASE
)  # what stands before @ may begin as host:80/ does
_HIDDEN = "…"


def without_secrets(text: str) -> str:
    """Text in whose addresses passwords, and options that hold a secret, are left out.

    This is the one rule of what a secret is. Whatever is printed passes through it, and so do errors that are stored;
    an address that it changes is refused where addresses are stored.
    """
    return _ADDRESS.sub(_hide_secrets, text) if ":/" in text else text


def _hide_secrets(match: re.Match[str]) -> str:
    scheme, slashes, rest = match.groups()
    user, sign, place = rest.rpartition("@")
    if sign and _signs_in(scheme.lower(), user):
        rest = f"{_HIDDEN}@{place}"
    return f"{scheme}{slashes}{_OPTION.sub(_hide_value, rest)}"


def _signs_in(scheme: str, user: str) -> bool:
    """Return whether the text before the last @ has a password, which may have slashes, and is no path."""
    host = re.split("[/?#]", user, maxsplit=1)[0]
    if scheme == "file" or host.startswith("["):
        return False
    if host != user and re.fullmatch(r"[^:]*:\d{1,5}", host) and not _WITHOUT_PORT.match(scheme):
        return False
    return ":" in host or (host == user and scheme in ("http", "https"))  # where a token stands alone


def _hide_value(match: re.Match[str]) -> str:
    from urllib.parse import unquote

    before, name, value = match.groups()
    user, sign, _ = unquote(value).rpartition("@")  # an address within the address
    held = _SECRET.search(unquote(name)) or (sign and ":" in user)
    return f"{before}{name}={_HIDDEN}" if held else match[0]


def printable(text: str, *, lines: bool = False) -> str:
    """Text whose control characters are shown as escapes instead of being obeyed, and copies as their addresses.

    Secrets in addresses are left out. JSON stays the same JSON: it has no raw characters below blank, and the others
    become escapes of its own.
    """
    text = without_secrets(addressed(text))
    if text.isprintable():
        return text
    return _CONTROL_CHARACTERS.sub(
        lambda match: match[0] if lines and match[0] in "\n\t" else _escape(match), text
    )


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0][-1])
    if match[0] in _SHORT:
        return _SHORT[match[0]]
    return f"\\x{number:02x}" if number < 0x20 else f"\\u{number:04x}"


def without_commands(text: str) -> str:
    """Lines for stdout or stderr in which no build server finds a command; JSON stays the same JSON."""
    if "::" not in text and "##" not in text:
        return text
    return _COMMAND.sub(lambda match: f"{match['indent'] or ''}{_escape(match)}", text)


FORMULA = r"^'('*[=+\-@])"
"""A cell that `csv_cell` put an apostrophe before; the group is the cell without."""

_WOULD_BE_FORMULA = re.compile(r"'*[=+\-@]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """One line per row: numbers to the right, columns of words to the left."""
    lines = [list(head), *map(list, rows)]
    columns = []
    for index, column in enumerate(zip(*lines, strict=True)):
        pad = str.ljust if index in left else str.rjust
        width = max(map(len, column))
        columns.append([pad(cell, width) for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def csv_cell(text: str) -> str:
    """A text in a CSV file: no formula, and control characters as escapes; a number stays."""
    escaped = printable(text)
    return f"'{escaped}" if _WOULD_BE_FORMULA.match(escaped) and not _NUMBER.fullmatch(escaped) else escaped


def _csv_value(value: Any) -> Any:
    """Return a cell of CSV: "" for NaN, and texts that no spreadsheet takes for a formula."""
    if isinstance(value, float) and math.isnan(value):
        return ""
    return csv_cell(value) if isinstance(value, str) else value


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV: texts by `csv_cell`, numbers in full, nothing for None and NaN."""
    import csv

    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    for row in rows:
        writer.writerow(map(_csv_value, row))
    return table.getvalue()


def plain_number(value: float) -> str:
    """Shortest text without exponent that reads back as the same number."""
    import numpy as np

    return np.format_float_positional(value, trim="-")


def four_decimals(value: float | None) -> str:
    """A metric's value or mean, as tables of the terminal and of the report have it."""
    return "–" if value is None or math.isnan(value) else f"{value:z.4f}"


def p_text(p: float) -> str:
    """A p-value as a reader should see it: never 0."""
    if p != p:
        return "n/a"
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def p_equals(p: float) -> str:
    """A p-value with its sign of equality."""
    return f"p = {p_text(p)}".replace("= <", "< ")


def none_if_undefined(value: float) -> float | None:
    """NaN and infinities, which JSON does not know, as None."""
    return value if math.isfinite(value) else None


def json_value(value: Any) -> Any:
    """Return a value in JSON's types: dataclasses become objects, and numbers that JSON lacks become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    return none_if_undefined(value) if isinstance(value, float) else value


def json_text(value: Any) -> str:
    """The same as indented text."""
    import json

    return json.dumps(json_value(value), indent=2)
