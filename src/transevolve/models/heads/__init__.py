"""One file per task head."""
