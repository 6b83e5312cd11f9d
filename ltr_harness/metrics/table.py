"""The table of metrics: a name, the class behind it, and the other spellings of the name."""

from ltr_harness._util.catalog import Catalog

METRICS = {
    "alpha_ndcg": "ltr_harness.metrics.alpha_ndcg:AlphaNDCG",
    "bpref": "ltr_harness.metrics.bpref:BPref",
    "brier": "ltr_harness.metrics.brier:Brier",
    "cg": "ltr_harness.metrics.cg:CG",
    "dcg": "ltr_harness.metrics.dcg:DCG",
    "err": "ltr_harness.metrics.err:ERR",
    "err_ia": "ltr_harness.metrics.err_ia:ERRIA",
    "f1": "ltr_harness.metrics.f1:F1",
    "gauc": "ltr_harness.metrics.gauc:GAUC",
    "judged": "ltr_harness.metrics.judged:Judged",
    "kendall_tau_distance": "ltr_harness.metrics.kendall_tau_distance:KendallTauDistance",
    "log_loss": "ltr_harness.metrics.log_loss:LogLoss",
    "map": "ltr_harness.metrics.map:MAP",
    "mean_label": "ltr_harness.metrics.mean_label:MeanLabel",
    "mrr": "ltr_harness.metrics.mrr:MRR",
    "n_relevant": "ltr_harness.metrics.n_relevant:NRelevant",
    "ndcg": "ltr_harness.metrics.ndcg:NDCG",
    "nerr": "ltr_harness.metrics.nerr:NERR",
    "pfound": "ltr_harness.metrics.pfound:PFound",
    "precision": "ltr_harness.metrics.precision:Precision",
    "q": "ltr_harness.metrics.q:Q",
    "rbp": "ltr_harness.metrics.rbp:RBP",
    "rbp_residual": "ltr_harness.metrics.rbp_residual:RBPResidual",
    "recall": "ltr_harness.metrics.recall:Recall",
    "rprec": "ltr_harness.metrics.rprec:RPrec",
    "spearman": "ltr_harness.metrics.spearman:Spearman",
    "success": "ltr_harness.metrics.success:Success",
    "tau_ap": "ltr_harness.metrics.tau_ap:TauAP",
}

# Other names for the same thing, written out or as other tools have them; they parse to the canonical one.
_ALSO = {
    "alpha_ndcg": "andcg",
    "cg": "cumulative_gain",
    "dcg": "discounted_cumulative_gain",
    "err": "expected_reciprocal_rank",
    "f1": "f",
    "gauc": "group_auc",
    "log_loss": "logloss",
    "map": "ap average_precision mean_average_precision",
    "mrr": "mean_reciprocal_rank reciprocal_rank rr",
    "n_relevant": "num_rel",
    "ndcg": "normalized_discounted_cumulative_gain",
    "precision": "p pre",
    "q": "q_measure",
    "rbp": "rank_biased_precision",
    "recall": "r",
    "rprec": "r_precision rprecision",
    "spearman": "spearman_rho spearmanr",
    "success": "hit hit_rate hitrate",
    "tau_ap": "tauap",
}
ALIASES = {alias: name for name, aliases in _ALSO.items() for alias in aliases.split()}

# A definition that goes by a name of its own.
DEFINITIONS = {"map_retrieved": "map(denominator=retrieved)"}

# What is asked for under another name, and is not the same: a distance for a correlation; nothing here, although the
# name looks like one of ours.
SIMILAR = {
    **dict.fromkeys(("kendall", "kendall_tau", "kendalltau"), "kendall_tau_distance"),
    "hits": "success",
    **dict.fromkeys(("aucpr", "auprc", "bpr", "ctr", "gmap", "idcg", "mae", "mse", "pr_auc", "rbo", "rmse")),
}

# What is no metric of a ranking although many ask for it, and what to do in its place.
ELSEWHERE = {
    "bpr": "a training objective; did you mean the objective `rank:pairwise` of XGBoost, or the metric 'gauc'?",
    "ctr": "no metric of a ranking: it depends on the page; did you mean 'mean_label@10', of labels that are clicks?",
    "idcg": "what ndcg divides by; `ltr-harness explain ndcg@10` shows it for a query",
    **dict.fromkeys(
        ("mae", "mse", "rmse"), "an error of predicted labels; metrics here look at the order alone"
    ),
}

# What models are trained for, and some would measure.
OBJECTIVES = ("lambdamart", "lambdarank", "rank_xendcg", "xe_ndcg", "xendcg", "yetirank")

catalog = Catalog("metric", METRICS, "ltr_harness.metrics", synonyms=SIMILAR)


def built_in(name: str) -> str | None:
    """The metric of ours that a name stands for, in capitals, with hyphens or by an alias; None for any other."""
    small = name.lower().replace("-", "_")
    return ALIASES.get(small, small if small in METRICS else None)
