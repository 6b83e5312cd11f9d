"""The report of a monitor run: one file per section."""
