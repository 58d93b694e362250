"""The study `checkpoint-restore`."""
