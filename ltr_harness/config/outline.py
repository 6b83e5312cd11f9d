"""An experiment without its parts: what a comparison of its runs needs, and nothing that would have to be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ltr_harness.config.build import build_compare
from ltr_harness.config.experiment import CompareConfig, Experiment
from ltr_harness.config.load import plain_tree, resolved_yaml
from ltr_harness.config.references import Reference
from ltr_harness.config.yaml_tree import Node
from ltr_harness.errors import ConfigError, Problem
from ltr_harness.files import stored_file


class Outline(NamedTuple):
    """What an experiment says of its comparison.

    Attributes:
        name: of the experiment.
        models: their names, in the order of the file.
        compare: how they are set against each other.
        text: the whole configuration as YAML.
        references: published figures of the models.
        sections: of the report, in this order; None for all.
    """

    name: str
    models: tuple[str, ...]
    compare: CompareConfig
    text: str
    references: tuple[Reference, ...] = ()
    sections: tuple[str, ...] | None = None


def outline_of(experiment: Experiment) -> Outline:
    """That of an experiment at hand."""
    return Outline(
        experiment.name,
        tuple(experiment.models),
        experiment.compare,
        resolved_yaml(experiment),
        experiment.references,
        experiment.report.sections,
    )


def stored_tree(path: Path) -> Node:
    """The values of a stored configuration.

    Raises:
        ConfigError: it cannot be read, or is no regular file of its folder.
    """
    try:
        return plain_tree(stored_file(path.parent, path.name))
    except OSError as problem:
        raise ConfigError(Problem(str(path), f"cannot be read: {problem.strerror}")) from None


def read_outline(path: Path) -> Outline:
    """That of a stored configuration: readers, rankers and metrics may be from files that nobody here trusts.

    Raises:
        ConfigError: it cannot be read, or its section ``compare:``, ``references:`` or ``report:`` is wrong.
    """
    tree = stored_tree(path)
    models = tuple(tree.mapping["models"].mapping) if "models" in tree.mapping else ()
    name = tree.mapping["name"].plain() if "name" in tree.mapping else path.parent.name
    compare, references, report = build_compare(tree)
    return Outline(
        str(name), models, compare, path.read_text(encoding="utf-8-sig"), references, report.sections
    )
