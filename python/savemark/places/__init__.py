"""Directories and buckets in which we own a folder, of a run or of a checkpoint."""

# Bytes of a chunk in a bucket, which is one request of a restore: it costs a round trip, no seek.
# In a small state it is less, so that every stream gets some.
CHUNK_BYTES = 4 << 20
