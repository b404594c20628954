"""One file per kind of task: defaults, model, loss, score."""
