"""Systems side by side on this machine: how fast they are and how much memory they need."""
