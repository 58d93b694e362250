"""The study `mounts-s3`."""
