"""How good predictions are, in numbers that others can reproduce."""
