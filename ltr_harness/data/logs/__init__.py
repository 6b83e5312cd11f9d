"""Production logs: tables of any size, read in batches, with their columns and times."""
