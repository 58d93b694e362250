"""The study `gpu-read-grid`."""
