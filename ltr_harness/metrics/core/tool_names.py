"""What another tool's name for a metric means here: ``ndcg_cut_5`` of trec_eval is not our `ndcg@5`.

Left out is what no choice of ours reproduces, such as ``RR@10`` of ir_measures, which breaks ties by ascending ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import UsageError
from ltr_harness.metrics.core.presets import SAME_TOOLS
from ltr_harness.metrics.table import built_in

# {k} stands for a cutoff.
TREC_EVAL = {
    "map": "map(as=trec_eval)",
    "map_cut_{k}": "map(as=trec_eval)@{k}",
    "Rprec": "rprec(as=trec_eval)",
    "bpref": "bpref(as=trec_eval)",
    "recip_rank": "mrr(as=trec_eval)",
    "P_{k}": "precision(as=trec_eval)@{k}",
    "recall_{k}": "recall(as=trec_eval)@{k}",
    "relative_P_{k}": "recall(as=trec_eval,denominator=min_rk)@{k}",
    "ndcg": "ndcg(as=trec_eval)",
    "ndcg_cut_{k}": "ndcg(as=trec_eval)@{k}",
    "success_{k}": "success(as=trec_eval)@{k}",
    "set_P": "precision(as=trec_eval)",
    "set_recall": "recall(as=trec_eval)",
    "set_F": "f1(as=trec_eval)",
    "num_rel": "n_relevant",
}
_PYTREC_EVAL = {theirs: ours.replace("trec_eval", "pytrec_eval") for theirs, ours in TREC_EVAL.items()}
_IR_MEASURES = {
    "nDCG": "ndcg(as=ir_measures)",
    "nDCG@{k}": "ndcg(as=ir_measures)@{k}",
    "AP": "map(as=ir_measures)",
    "AP@{k}": "map(as=ir_measures)@{k}",
    "P@{k}": "precision(as=ir_measures)@{k}",
    "R@{k}": "recall(as=ir_measures)@{k}",
    "Success@{k}": "success(as=ir_measures)@{k}",
    "RR": "mrr(as=ir_measures)",
    "Rprec": "rprec(as=ir_measures)",
    "Bpref": "bpref(as=ir_measures)",
    "SetP": "precision(as=ir_measures)",
    "SetR": "recall(as=ir_measures)",
    "SetF": "f1(as=ir_measures)",
    "NumRel": "n_relevant",
}
_RANX = {
    "ndcg": "ndcg(as=ranx)",
    "ndcg@{k}": "ndcg(as=ranx)@{k}",
    "ndcg_burges": "ndcg(as=ranx,gain=exp)",
    "ndcg_burges@{k}": "ndcg(as=ranx,gain=exp)@{k}",
    "dcg": "dcg(as=ranx)",
    "dcg@{k}": "dcg(as=ranx)@{k}",
    "dcg_burges": "dcg(as=ranx,gain=exp)",
    "dcg_burges@{k}": "dcg(as=ranx,gain=exp)@{k}",
    "map": "map(as=ranx)",
    "map@{k}": "map(as=ranx)@{k}",
    "mrr": "mrr(as=ranx)",
    "mrr@{k}": "mrr(as=ranx)@{k}",
    "precision@{k}": "precision(as=ranx)@{k}",
    "recall@{k}": "recall(as=ranx)@{k}",
    "f1@{k}": "f1(as=ranx)@{k}",
    "hit_rate@{k}": "success(as=ranx)@{k}",
    "r-precision": "rprec(as=ranx)",
}

TOOLS: Mapping[str, Mapping[str, str]] = {
    "ir_measures": _IR_MEASURES,
    "pytrec_eval": _PYTREC_EVAL,
    "ranx": _RANX,
    "trec_eval": TREC_EVAL,
}
# How a name says from which grade on rows are relevant.
_RELEVANT = {"ir_measures": r"\(rel=([0-9]+)\)", "ranx": r"-l([0-9]+)$"}


def spelling(tool: str, name: str) -> str | None:
    """How our grammar spells what the tool calls by this name; None where the name stands for nothing here.

    Raises:
        UsageError: a tool whose names are not known here.

    Example:
        >>> spelling("ir_measures", "P(rel=2)@5"), spelling("ranx", "hit_rate@10")
        ('precision(as=ir_measures,relevant=2)@5', 'success(as=ranx)@10')
    """
    tool = tool if tool in TOOLS else SAME_TOOLS.get(tool, tool)
    if tool not in TOOLS:
        raise UsageError(f"convention {tool!r} is not known; {did_you_mean(tool, TOOLS)}")
    threshold = re.search(_RELEVANT[tool], name) if tool in _RELEVANT else None
    bare = name if threshold is None else name.replace(threshold[0], "")
    for theirs, ours in TOOLS[tool].items():
        form = re.fullmatch(re.escape(theirs).replace(r"\{k\}", r"(?P<k>[1-9][0-9]*)"), bare)
        if form is not None:
            spelt = ours.format(**form.groupdict())
            return spelt if threshold is None else spelt.replace(")", f",relevant={threshold[1]})", 1)
    return None


def own_name(name: str) -> tuple[str, str] | None:
    """The tool that alone writes this name, and how our grammar spells it; None where the name is ours.

    A metric's name of ours stays ours, in whatever capitals: papers write ``nDCG@10``, ``NDCG@10``, ``P@5`` and ``AP``
    for no tool's metric in particular.

    Example:
        >>> own_name("ndcg_cut_10"), own_name("P.5")
        (('trec_eval', 'ndcg(as=trec_eval)@10'), ('trec_eval', 'precision(as=trec_eval)@5'))
        >>> own_name("SetP"), own_name("nDCG"), own_name("mrr")
        (('ir_measures', 'precision(as=ir_measures)'), None, None)
    """
    if built_in(name) is not None:
        return None
    typed = re.sub(r"\.([0-9]+)$", r"_\1", name)  # trec_eval's -m takes ndcg_cut.10
    for tool in ("trec_eval", "ir_measures", "ranx"):
        spelt = spelling(tool, typed)
        if spelt is not None:
            return tool, spelt
    return None
