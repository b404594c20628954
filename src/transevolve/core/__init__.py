"""Errors, files, tables and figures: what every other package uses."""
