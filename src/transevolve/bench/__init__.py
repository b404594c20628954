"""Benchmarks of speed, memory and decoding, side by side on this machine."""
