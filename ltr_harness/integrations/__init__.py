"""The harness inside other tools: scikit-learn, MLflow, ir_measures and with it PyTerrier."""
