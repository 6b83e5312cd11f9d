"""XGBoost: the ranker, its parameters, what is checked before training, position bias, training across workers."""
