"""Data cards: facts of splits, and lints of what in them would mislead."""

from ltr_harness.experiments.inspection.card import DataCard, FeatureFacts, SplitCard, data_card, split_card
from ltr_harness.experiments.inspection.lints import LINTS, lint

__all__ = ["LINTS", "DataCard", "FeatureFacts", "SplitCard", "data_card", "lint", "split_card"]
