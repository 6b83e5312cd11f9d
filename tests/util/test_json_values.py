"""Numbers in JSON: one rule for what it does not know."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from ltr_harness._util.json_values import json_value, none_if_undefined


@dataclass(frozen=True)
class Part:
    mean: float
    parts: tuple[Part, ...] = ()
    by_name: dict[str, float] = field(default_factory=dict)


@pytest.mark.parametrize("unknown", [math.nan, math.inf, -math.inf, np.float64("inf")])
def test_what_json_does_not_know_is_null_at_every_depth(unknown: float) -> None:
    assert none_if_undefined(unknown) is None
    whole = json_value(Part(0.5, (Part(unknown),), {"low": unknown, "high": 1e308}))
    below = {"mean": None, "parts": [], "by_name": {}}
    assert whole == {"mean": 0.5, "parts": [below], "by_name": {"low": None, "high": 1e308}}
    assert json.loads(json.dumps(whole, allow_nan=False)) == whole


def test_other_values_stay_as_they_are() -> None:
    assert json_value([0, True, None, "inf", -0.0, (1, 2)]) == [0, True, None, "inf", 0.0, [1, 2]]
