"""Pages for people: what a model does with a text, depth by depth, and runs side by side."""
