"""Saves and restores what users have: directories of files, and states in memory."""
