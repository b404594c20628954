"""What happens around the steps, one concern per file."""
