"""Pages that compare runs and benchmarks."""
