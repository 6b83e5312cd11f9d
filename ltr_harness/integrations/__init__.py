"""Our metrics inside other tools' own evaluation: MLflow's `evaluate`, ir_measures and with it PyTerrier."""
