"""The door: a file (or the same content as a mapping) in, an experiment out, and back to YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ltr_harness.config.build import build_data, build_experiment
from ltr_harness.config.experiment import DataConfig, Experiment
from ltr_harness.config.merge import merged_tree
from ltr_harness.config.normal import normal_form
from ltr_harness.config.references import as_plain
from ltr_harness.config.sweep import spelt_out
from ltr_harness.config.yaml_text import plain_scalar
from ltr_harness.config.yaml_tree import Node


def load_experiment(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, check_rankers: bool = True
) -> Experiment:
    """Read an experiment, with everything it extends and every ``--set``, and check it.

    Raises:
        ConfigError: every problem, each with its place in the file and how to mend it.

    Example:
        >>> experiment = load_experiment({
        ...     "name": "first",
        ...     "data": {"reader": "synthetic"},
        ...     "stopping": {"metric": "ndcg@10"},
        ...     "models": {"chance": {"ranker": "random"}},
        ... })
        >>> str(experiment.metrics.primary), experiment.compare.baseline
        ('ndcg@10', 'chance')
    """
    return build_experiment(plain_tree(source, overrides), check_rankers=check_rankers)


def load_data(section: Mapping[str, Any]) -> DataConfig:
    """The section ``data:`` of an experiment, alone.

    Raises:
        ConfigError: every problem of it.
    """
    return build_data(plain_tree({"data": section}))


def plain_tree(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Node:
    """The source in normal form, with everything it extends and every ``--set``; nothing is built of it.

    Raises:
        ConfigError: what cannot be read or merged.
    """
    return normal_form(spelt_out(merged_tree(source, overrides)))


def as_mapping(experiment: Experiment) -> dict[str, Any]:
    """The whole experiment as dicts, lists and scalars; `load_experiment` makes an equal one of it."""
    models = experiment.models
    plain = experiment.model_dump(mode="json", include={"name", "seeds"})
    plain["data"] = data_mapping(experiment.data)
    plain["metrics"] = experiment.metrics.model_dump(mode="json")
    plain["stopping"] = None if experiment.stopping is None else experiment.stopping.model_dump(mode="json")
    plain["models"] = {
        name: {
            "ranker": model.ranker_name,
            **model.model_dump(mode="json", exclude={"ranker_name", "ranker"}, exclude_none=True),
            **model.ranker.model_dump(mode="json"),
        }
        for name, model in models.items()
    }
    if experiment.tune is not None:
        plain["tune"] = experiment.tune.model_dump(mode="json")
    plain["compare"] = experiment.compare.model_dump(mode="json")
    plain["report"] = experiment.report.model_dump(mode="json", exclude_none=True)
    if experiment.references:
        plain["references"] = as_plain(experiment.references)
    return plain


def data_mapping(data: DataConfig) -> dict[str, Any]:
    """The section ``data:`` of `as_mapping`."""
    own = data.model_dump(mode="json", exclude={"reader_name", "reader"}, exclude_none=True)
    if data.folds is not None:
        del own["splits"]
    else:
        del own["fold_seed"]
    return {"reader": data.reader_name, **own, **data.reader.model_dump(mode="json")}


def resolved_yaml(experiment: Experiment) -> str:
    """The whole experiment as YAML: every default spelt out, paths absolute, loadable again and then equal."""
    text: str = yaml.dump(
        as_mapping(experiment),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=110,
    )
    return text


class Setting(NamedTuple):
    """One resolved value and where it comes from: ``file:line:column``, ``--set …`` or ``default``."""

    path: str
    value: Any
    origin: str


def settings(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> list[Setting]:
    """Every value of the resolved experiment with its origin; paths are as ``--set`` takes them.

    Raises:
        ConfigError: as `load_experiment`.
    """
    tree = plain_tree(source, overrides)
    resolved = as_mapping(build_experiment(tree, check_rankers=False))
    return [Setting(".".join(path), value, _origin(tree, path)) for path, value in _leaves(resolved, ())]


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path, value


def _origin(tree: Node, path: tuple[str, ...]) -> str:
    node = tree.at(path)
    if node is not None:
        return str(node.place)
    return "default"


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either YAML 1.1 or our own 1.2 reading would take for something other than text."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None if isinstance(plain_scalar(value), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
