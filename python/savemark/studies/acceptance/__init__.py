"""The study `acceptance`."""
