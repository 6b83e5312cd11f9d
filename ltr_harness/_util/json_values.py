"""Results as values and text of JSON."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any


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
    """Return a value as indented JSON."""
    import json  # slow to import, and needed by few commands

    return json.dumps(json_value(value), indent=2)
