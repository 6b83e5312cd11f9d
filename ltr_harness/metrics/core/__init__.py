"""What all metrics share: the interface, names and parameters, binding to judgments, ranking rows, gains."""
