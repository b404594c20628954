"""Shows how a classifier processes a text, depth by depth."""
