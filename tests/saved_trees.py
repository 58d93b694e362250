"""What a directory of files is that is saved, and what saves of it leave."""

import os
from contextlib import suppress

from waiting import until


def tree(path):
    """Everything below a directory: names, modes, contents."""
    return {
        str(found.relative_to(path)): (
            found.stat().st_mode,
            found.read_bytes() if found.is_file() else None,
        )
        for found in path.rglob("*")
    }


def shards(path):
    return sorted(path.glob("shard-*"))


def slow(tmp_path):
    """A state whose save takes seconds."""
    big = tmp_path / "big"
    big.mkdir()
    with (big / "file").open("wb") as file:
        file.write(os.urandom(1 << 20) * 200)
    return big


def wait_for_new_shard(place, known):
    def begun():
        with suppress(FileNotFoundError):  # a folder is renamed when it is looked at
            return any(s.stat().st_size > 0 for s in set(place.rglob("shard-*")) - known)

    until(begun)
