"""What a classifier does with a text, depth by depth."""
