"""What the stages found, as values and as files, and what later runs need of it."""
