"""The command line, for those who call it from Python: `main([...])` as typed after `transevolve`."""

from transevolve_cli import main

__all__ = ["main"]
