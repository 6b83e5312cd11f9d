"""Our metrics inside other tools' own evaluation: ir_measures, and with it PyTerrier."""
