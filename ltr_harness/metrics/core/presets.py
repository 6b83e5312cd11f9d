"""Other tools' conventions by name, ``ndcg(as=lightgbm)@10`` for LightGBM's number, and their names for metrics.

A preset is nothing but a set of the conventions every metric has. What a preset does not name is our default.
Each is held equal to the tool itself, or to output it once wrote, by `tests/metrics/test_oracles.py` and
`test_references.py`. Where a tool cannot be matched, the comment says in what.
"""

import re
from collections.abc import Mapping
from typing import Any

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.errors import MetricError, UsageError
from ltr_harness.metrics.table import built_in

Conventions = Mapping[str, Any]

# Its `metric="ndcg"`; an unweighted 1.0 for an empty query even where queries have weights (a fault of its ndcg).
_LIGHTGBM = {"ties": "stable", "empty": "one"}
# Scores are float32. `ndcg` without @ stops at rank 32, `ndcg@10-` is empty=zero, weights as in LightGBM.
_XGBOOST = {"ties": "stable", "empty": "one", "score_precision": "float32"}
# Lower label first among equal scores.
_CATBOOST = {"ties": "worst", "empty": "zero"}
# Needs lists of equal length and at least two rows.
_SKLEARN = {"empty": "zero"}
# Rows of a query that its run leaves out are `retrieved=False` here. Version 10 holds scores as float64; version 9,
# pytrec_eval and what ir-measures takes from there as float32, so that more of them tie.
_TREC_EVAL = {"ties": "id", "empty": "zero"}
_PYTREC_EVAL = {**_TREC_EVAL, "score_precision": "float32"}
# Drops queries without relevant documents; prints five decimals.
_GDEVAL = {"ties": "id"}
# Grades count as 0 or 1 and scores rank after ids; with -traditional, as pyndeval and ir-measures run it.
_NDEVAL = {"ties": "id", "empty": "zero"}
# The script of LETOR 4.0; the one of MSLR counts documents as relevant from grade 2 on: add relevant=2.
_LETOR = {"ties": "stable", "empty": "zero"}
# Its sort is unstable, so equal scores come in any order: equal without ties only. `ndcg_burges` is gain=exp.
_RANX = {"empty": "zero"}
# -gmax, the scale of its ERR, is 4 unless said otherwise. Gains by integer shift: wrong above grade 31.
_RANKLIB = {"ties": "stable", "empty": "zero"}
# NTCIREVAL, MSnDCG for NDCG, with the gain of level Lx being x. Runs of NTCIR break ties by document id.
_NTCIR = {"ties": "id"}
# The Search Relevance Workbench, as of 2025; prints two decimals. A list ranks as the engine returned it. Every rating
# above 0 is relevant: add relevant=0.001 where ratings are fractions.
_OPENSEARCH = {"ties": "stable", "empty": "zero"}
# Ranked lists of ids against sets of ids, so labels are 0 or 1 and nothing ties. Its ideal list is no longer than
# the ranking: equal where K documents or all of a query are ranked.
_MLFLOW = {"empty": "zero"}
# Computes in float32, so equal to six digits. Scores of 0 and below are not retrieved in all but its NDCG; ties in
# all but its NDCG come in any order: equal without them only.
_TORCHMETRICS = {"empty": "zero", "score_precision": "float32"}

_OF_TREC_EVAL = ("mrr", "precision", "recall", "f1", "success", "rprec", "bpref")

PRESETS: Mapping[str, Mapping[str, Conventions]] = {
    "lightgbm": dict.fromkeys(("ndcg", "map"), _LIGHTGBM),
    "xgboost": {
        "ndcg": _XGBOOST,
        "map": _XGBOOST,
        "precision": {**_XGBOOST, "empty": "zero", "denominator": "min_kn"},
    },
    "catboost": {
        "ndcg": {**_CATBOOST, "empty": "one", "gain": "linear"},
        "dcg": {**_CATBOOST, "gain": "linear"},
        "mrr": _CATBOOST,
        "map": _CATBOOST,
        "err": {**_CATBOOST, "stop": "label"},
        "pfound": {**_CATBOOST, "stop": "label"},
        "precision": {**_CATBOOST, "denominator": "min_kn"},
        "recall": {**_CATBOOST, "empty": "one"},
    },
    "sklearn": {
        "ndcg": {**_SKLEARN, "gain": "linear"},
        "dcg": {**_SKLEARN, "gain": "linear"},
    },
    "trec_eval": {
        "ndcg": {**_TREC_EVAL, "gain": "linear"},
        "dcg": {**_TREC_EVAL, "gain": "linear"},
        "map": {**_TREC_EVAL, "denominator": "total"},
        **dict.fromkeys(_OF_TREC_EVAL, _TREC_EVAL),
        "judged": {"ties": "id"},
        "n_relevant": {},
    },
    "pytrec_eval": {
        "ndcg": {**_PYTREC_EVAL, "gain": "linear"},
        "map": {**_PYTREC_EVAL, "denominator": "total"},
        **dict.fromkeys(_OF_TREC_EVAL, _PYTREC_EVAL),
        "n_relevant": {},
    },
    "gdeval": {
        "ndcg": _GDEVAL,
        "err": {**_GDEVAL, "max_grade": 4},
    },
    "ndeval": {
        "alpha_ndcg": _NDEVAL,
        "err_ia": {**_NDEVAL, "relevant": 1, "normalized": True},
    },
    "letor": {
        "ndcg": {**_LETOR, "discount": "letor", "short_list": "zero"},
        "map": {**_LETOR, "denominator": "total"},
        "precision": _LETOR,
    },
    "ranx": {
        "ndcg": {**_RANX, "gain": "linear"},
        "dcg": {**_RANX, "gain": "linear"},
        "map": {**_RANX, "denominator": "total"},
        **dict.fromkeys(("mrr", "precision", "recall", "f1", "success", "rprec"), _RANX),
    },
    "ranklib": {
        "ndcg": _RANKLIB,
        "dcg": _RANKLIB,
        "map": {**_RANKLIB, "denominator": "total"},
        "mrr": _RANKLIB,
        "precision": {**_RANKLIB, "denominator": "min_kn"},
        "err": {**_RANKLIB, "max_grade": 4},
    },
    "ntcir": {
        "ndcg": {**_NTCIR, "gain": "linear"},
        "err": {**_NTCIR, "stop": "linear"},
        "nerr": {**_NTCIR, "stop": "linear"},
        **dict.fromkeys(("q", "map", "mrr", "precision", "success"), _NTCIR),
    },
    "opensearch": {
        "ndcg": _OPENSEARCH,
        "map": {**_OPENSEARCH, "denominator": "total"},
        "precision": {**_OPENSEARCH, "denominator": "min_kn"},
    },
    "mlflow": {
        "ndcg": {**_MLFLOW, "gain": "linear"},
        "precision": {**_MLFLOW, "denominator": "min_kn"},
        "recall": _MLFLOW,
    },
    "torchmetrics": {
        "ndcg": {**_TORCHMETRICS, "gain": "linear"},
        "map": {**_TORCHMETRICS, "denominator": "retrieved"},
        **dict.fromkeys(("mrr", "precision", "recall", "success", "rprec"), _TORCHMETRICS),
    },
}

OF_CANDIDATES = frozenset({"lightgbm", "xgboost", "catboost", "sklearn", "letor", "ranklib", "torchmetrics"})
"""Tools that are given rows with scores and no other judgments, RankLib without -qrel: to them, nothing is missed."""

# Tools and versions whose numbers are another's.
SAME_TOOLS = {
    "ir_measures": "pytrec_eval",
    "pyterrier": "pytrec_eval",
    "trec_eval_9": "pytrec_eval",
    "trec_eval_10": "trec_eval",
}


def conventions(tool: str, metric: str) -> Conventions:
    """Return the choices of `tool` where `metric` leaves one."""
    tool = SAME_TOOLS.get(tool, tool)
    if tool not in PRESETS:
        tool_names = [*PRESETS, *SAME_TOOLS]
        raise MetricError(f"{metric}(as={tool}): unknown preset {tool!r}; {did_you_mean(tool, tool_names)}")
    if metric not in PRESETS[tool]:
        found = f"{metric}(as={tool}): {tool} computes no {metric} that could be reproduced"
        message = f"{found}; as={tool} is for {', '.join(sorted(PRESETS[tool]))}"
        if tools := sorted(name for name, metrics in PRESETS.items() if metric in metrics):
            message += f"; {metric} has presets of {', '.join(tools)}"
        raise MetricError(message)
    return PRESETS[tool][metric]


# What another tool's name for a metric means here: ``ndcg_cut_5`` of trec_eval is not our `ndcg@5`; {k} stands for
# a cutoff. Left out is what no choice of ours reproduces: ``RR@10`` of ir_measures breaks ties by ascending ids.
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
_PYTREC_EVAL_NAMES = {theirs: ours.replace("trec_eval", "pytrec_eval") for theirs, ours in TREC_EVAL.items()}
_IR_MEASURES_NAMES = {
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
_RANX_NAMES = {
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
    "ir_measures": _IR_MEASURES_NAMES,
    "pytrec_eval": _PYTREC_EVAL_NAMES,
    "ranx": _RANX_NAMES,
    "trec_eval": TREC_EVAL,
}
# How a name says from which grade on rows are relevant.
_RELEVANT = {"ir_measures": r"\(rel=([0-9]+)\)", "ranx": r"-l([0-9]+)$"}


def spelling(tool: str, name: str) -> str | None:
    """Return the tool's metric of this name as our grammar writes it; None where there is none."""
    tool = tool if tool in TOOLS else SAME_TOOLS.get(tool, tool)
    if tool not in TOOLS:
        raise UsageError(f"convention {tool!r} is not known; {did_you_mean(tool, TOOLS)}")
    threshold = re.search(_RELEVANT[tool], name) if tool in _RELEVANT else None
    bare = name if threshold is None else name.replace(threshold[0], "")
    for tool_name, grammar_text in TOOLS[tool].items():
        form = re.fullmatch(re.escape(tool_name).replace(r"\{k\}", r"(?P<k>[1-9][0-9]*)"), bare)
        if form is not None:
            text = grammar_text.format(**form.groupdict())
            return text if threshold is None else text.replace(")", f",relevant={threshold[1]})", 1)
    return None


def own_name(name: str) -> tuple[str, str] | None:
    """The tool that alone writes this name, and how our grammar spells it; None where the name is ours.

    A metric's name of ours stays ours, in whatever capitals: papers write ``nDCG@10``, ``NDCG@10``, ``P@5`` and ``AP``
    for no tool's metric in particular.
    """
    if built_in(name) is not None:
        return None
    typed = re.sub(r"\.([0-9]+)$", r"_\1", name)  # trec_eval's -m takes ndcg_cut.10
    for tool in ("trec_eval", "ir_measures", "ranx"):
        grammar_text = spelling(tool, typed)
        if grammar_text is not None:
            return tool, grammar_text
    return None
