"""What to change: the best setting for a goal, and how often to save."""
