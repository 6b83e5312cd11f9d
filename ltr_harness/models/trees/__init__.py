"""Finished runs and their models in the forms that other tools read; nothing else in the harness knows these tools."""
