"""Shared utilities: errors, files, settings, tables and figures."""
