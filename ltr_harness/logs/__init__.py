"""Logs of production: tables of any size, read in batches, their columns and their times."""
