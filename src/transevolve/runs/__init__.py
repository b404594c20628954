"""Run folders on disk: layout, checksums, locks, results."""
