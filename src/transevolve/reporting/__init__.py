"""Pages that set runs and benchmarks side by side."""
