"""Names that were retired, as a user types them, and what to do instead."""

_JOINT = "p-values and intervals are always joint over each family of comparisons; leave it out"

RETIRED: dict[str, str] = {
    "data get": "sets are not fetched any more; `ltr-harness data list` prints where each is to be had and how to lay "
    "out its files",
    "references": "reports have no published figures any more; delete the section, and name the metrics as the "
    "source computes them under metrics.report, such as ndcg(as=lightgbm)",
    "report section published": "reports have no published figures any more; take it out of report.sections",
    "format ranklib": "was retired; --to opensearch and --to elasticsearch write the same trees for the plugins that "
    "read RankLib's models",
    "format solr": "was retired; a class of your own writes Solr's MultipleAdditiveTreesModel from the model's trees: "
    "--to FILE.py:NAME",
    "format treelite": "was retired; treelite itself loads the run's model.txt (load_lightgbm_model) and model.ubj "
    "(load_xgboost_model)",
    "compare sets": "is a command of its own now: compare-sets",
    "compare labels": "is a command of its own now: compare-labels",
    "compare interleaved": "was retired; docs/ab-test.md has forty lines of Python that count the votes",
    "power --interleaving": "was retired; --sd 0.5 --difference 0.02 plans for a share of 52 % of the decided votes",
    "--strata": "was retired; --sample N alone draws every kind of query in proportion, up to chance",
    "monitor seed": "has no effect; leave it out",
    "compare.correction": _JOINT,
    "--correction": _JOINT,
}


def retirement(name: str) -> str | None:
    """Return the sentence about a retired name, or None for every other name."""
    return RETIRED.get(name)
