"""What changed: periods, windows, tests, slices, drift, label health, presentation."""
