"""Data cards: facts of splits, and lints of what in them would mislead."""

from ltr_harness.inspection.card import DataCard, data_card
from ltr_harness.inspection.lints import LINTS, Finding, lint
from ltr_harness.inspection.split_facts import FeatureFacts, SplitCard, split_card

__all__ = [
    "LINTS",
    "DataCard",
    "FeatureFacts",
    "Finding",
    "SplitCard",
    "data_card",
    "lint",
    "split_card",
]
