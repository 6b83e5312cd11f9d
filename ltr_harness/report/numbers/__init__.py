"""What sections and JSON say and the comparison does not hold: computed from the stored scores."""
