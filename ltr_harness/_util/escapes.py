"""Text that is safe to print: without control characters, commands for build servers, and secrets in addresses."""

import re

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
    from urllib.parse import unquote  # slow to import, and needed by few commands

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
