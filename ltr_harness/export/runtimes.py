"""Runtimes of an exported model that are installed, other than the training library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ltr_harness.errors import DataError, MissingExtraError
from ltr_harness.export.formats import catalog
from ltr_harness.export.formats.model_format import Scores
from ltr_harness.export.libraries import forest_of
from ltr_harness.rankers.ranker import FittedModel

RUNTIMES = ("onnx", "treelite")
"""Forms whose own runtime reads them here, on one thread."""


def in_runtimes(
    model: FittedModel, feature_names: Sequence[str], folder: Path
) -> tuple[dict[str, Scores], list[str]]:
    """What scores in each runtime that is installed; and why a model cannot be taken there."""
    found: dict[str, Scores] = {}
    try:
        forest = forest_of(model, feature_names)
    except DataError as problem:
        return found, [str(problem)]
    refused = []
    for name in RUNTIMES:
        form = catalog.load(name)()
        try:
            form.write(forest, model, folder / name)
            found[name] = form.read(folder / name, feature_names)
        except MissingExtraError:
            continue
        except DataError as problem:
            refused.append(str(problem))
    return found, refused
