"""Reading XGBoost's learned position biases, which stand in its configuration."""

from __future__ import annotations

import json
from typing import Any

import xgboost


class LastBias(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # untyped base
    """Position biases after the last trained round, relative to the first position.

    Attributes:
        learned: position to bias of the better row of a pair (ti+), and of the worse one (tj-).
    """

    learned: tuple[dict[int, float], ...] = ({}, {})

    def after_training(self, model: Any) -> Any:
        objective = json.loads(model.save_config())["learner"]["objective"]
        # XGBoost keeps at least 32 places; those beyond the longest query stay 0
        self.learned = tuple(
            {at: value for at, value in enumerate(objective[name]) if value != 0} for name in ("ti+", "tj-")
        )
        return model
