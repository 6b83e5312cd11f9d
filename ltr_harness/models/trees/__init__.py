"""Trees of trained models, and their forms for other tools; nothing else in the harness knows these tools."""
