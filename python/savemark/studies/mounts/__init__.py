"""The study `mounts`."""
