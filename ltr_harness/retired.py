"""Names that were retired, as a user types them, and what to do instead."""

RETIRED: dict[str, str] = {}


def retirement(name: str) -> str | None:
    """Return the sentence about a retired name, or None for every other name."""
    return RETIRED.get(name)
