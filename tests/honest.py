"""Ten runs that are honest in every respect but their length, which each study states."""

# What a busy neighbour can set off, rightly: tests on shared machines leave these out, and
# bench/honesty.py, which is for a quiet machine, does not.
NOISE = {"HC-15", "HC-19", "HC-31", "HC-34", "HC-37"}

# Short by intent: the study says so, and the finding repeats it.
SHORT = "checks: {HC-13: {seconds: 0.0001, operations: 1}}"

CHECKPOINT = "trial: {workload: checkpoint, size: 8MiB}"
FILE = "workload: sequential, size: 8MiB"
HONEST = {
    "checkpoint, codecs": f"{CHECKPOINT}\nfactors: {{codec: [none, zstd, lz4]}}",
    "checkpoint, streams": f"{CHECKPOINT}\nfactors: {{streams: [0, 1, 2]}}",
    "checkpoint of text": f"{CHECKPOINT}\nfactors: {{payload: [text, fp32]}}",
    "checkpoint of noise": "trial: {workload: checkpoint, size: 8MiB, payload: random}",
    "checkpoint, small chunks": "trial: {workload: checkpoint, size: 8MiB, chunk_size: 64KiB}",
    "write, flushed at the end": f"trial: {{{FILE}, operation: write, sync: end}}",
    "write, each flushed": (
        "trial: {workload: sequential, size: 1MiB, transfer_size: 64KiB, queue_depth: 1, "
        "operation: write, sync: each}"
    ),
    "read, cold": f"trial: {{{FILE}, operation: read}}",
    "read and look at it": f"trial: {{{FILE}, operation: read, checksum: true}}",
    "random read": "trial: {workload: random, size: 8MiB, operation: read, operations: 500}",
}


def study(body, repeats=6, checks=SHORT, storage="posix"):
    """The text of a study file."""
    defaults = f"defaults: {{storage: {storage}}}"
    return f"name: tiny\nrepeats: {repeats}\n{defaults}\n{checks}\n{body}\n"
