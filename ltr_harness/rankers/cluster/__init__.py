"""One model trained across the workers of a cluster: parts of the data, one coordinator of the stopping rule."""
