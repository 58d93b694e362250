"""Crash tests: what kills and power losses leave of a checkpoint, against what was promised."""
