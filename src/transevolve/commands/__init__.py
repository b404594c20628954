"""The commands of `transevolve`, one module each; the list of them is in `transevolve.cli`."""
