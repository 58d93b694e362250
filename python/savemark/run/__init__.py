"""Runs the trials of a study and keeps the run folder."""
