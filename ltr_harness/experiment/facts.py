"""What identities and records say of a configuration."""

from __future__ import annotations

from typing import Any

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.catalog import is_own_file, own_file_digest
from ltr_harness.config.experiment import ModelConfig
from ltr_harness.metrics import Metric


def ranker_facts(config: ModelConfig) -> dict[str, Any]:
    """A ranker's name and every field, with the digest of the file it comes from if it is the user's own."""
    facts: dict[str, Any] = {"ranker": config.ranker_name, **config.ranker.facts()}
    if is_own_file(config.ranker_name):
        facts["ranker"] = own_file_digest(config.ranker_name)
    return facts


def definition(metric: Metric) -> str:
    """A metric's canonical name, with the digest of its code where that is not the harness's own."""
    return str(metric) if metric.digest is None else f"{metric} {metric.digest}"


def stopping_facts(rule: StoppingRule) -> dict[str, Any]:
    """A stopping rule as records keep it."""
    return {
        "metric": str(rule.metric),
        "on": "valid",
        "patience": rule.patience,
        "min_delta": rule.min_delta,
        "every": rule.every,
        "max_rounds": rule.max_rounds,
    }
