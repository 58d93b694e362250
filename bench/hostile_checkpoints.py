"""Checkpoints that no save ever wrote: manifests with valid seals, shards with valid checksums.

Their cases are run by `hostile.py`.
"""

import json
import os
from collections.abc import Iterable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from hostile import MIB, Commands, case

ID = "0123456789abcdef-00000001"
PAGE = 4096
POLYNOMIAL = 0x9A6C9329AC4BC9B5
ONES = (1 << 64) - 1
LANES = 8192


def _table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


TABLE = _table()


def _times(matrix: list[int], vector: int) -> int:
    total = 0
    for row in matrix:
        if vector & 1:
            total ^= row
        vector >>= 1
    return total


def _skip(count: int) -> list[int]:
    """What `count` bytes of zero do to the state, as a matrix."""
    step = [TABLE[(1 << bit) & 255] ^ (1 << bit) >> 8 for bit in range(64)]
    power, result = step, [1 << bit for bit in range(64)]
    while count:
        if count & 1:
            result = [_times(power, row) for row in result]
        power = [_times(power, row) for row in power]
        count >>= 1
    return result


def crc64(data: bytes) -> str:
    """CRC-64/NVME, as manifests write it; many lanes side by side where there is much."""
    crc, each = ONES, len(data) // LANES
    if each > PAGE:
        table = np.array(TABLE, dtype=np.uint64)
        lanes = np.frombuffer(data, np.uint8, each * LANES).reshape(LANES, each)
        states = np.zeros(LANES, dtype=np.uint64)
        for column in np.ascontiguousarray(lanes.T):
            states = table[
                (states & np.uint64(255)).astype(np.uint8) ^ column
            ] ^ states >> np.uint64(8)
        matrix = _skip(each)
        for state in states.tolist():
            crc = _times(matrix, crc) ^ state
        data = data[each * LANES :]
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return f"{crc ^ ONES:016x}"


def seal(text: bytes) -> bytes:
    """The manifest of which this is all but the seal and the last brace."""
    return text + b',"checksum":"crc64-nvme:' + crc64(text).encode() + b'"}\n'


def manifest(**changes: Any) -> dict[str, Any]:
    """A manifest of one page in one shard, but for the changes."""
    zeros = crc64(bytes(PAGE))
    return {
        "format": "savemark-checkpoint",
        "version": 1,
        "id": ID,
        "codec": "none",
        "library": "none",
        "streams": 1,
        "chunk_bytes": PAGE,
        "state_bytes": PAGE,
        "members": [{"name": "a", "bytes": PAGE, "mode": 420, "offset": 0}],
        "shards": [shard(0, PAGE)],
        "chunks": [[0, PAGE, 0, 0, PAGE, zeros, "0" * 16]],
    } | changes


def shard(index: int, size: int, name: str = "") -> dict[str, Any]:
    """A shard as a manifest lists it."""
    name = name or f"shard-{ID}-{index:04x}"
    return {"name": name, "bytes": size, "trailer_bytes": 0, "trailer_digest": "0" * 16}


def put(
    folder: Path, text: bytes | dict[str, Any], shards: Iterable[bytes | int] = (PAGE,)
) -> Commands:
    """Makes the checkpoint (a shard is its bytes, or how many zeros); returns what reads it."""
    place = folder / "ck"
    place.mkdir()
    if isinstance(text, dict):
        text = seal(json.dumps(text, separators=(",", ":")).encode()[:-1])
    (place / "manifest.json").write_bytes(text)
    for index, data in enumerate(shards):
        path = place / f"shard-{ID}-{index:04x}"
        path.write_bytes(b"" if isinstance(data, int) else data)
        os.truncate(path, data if isinstance(data, int) else len(data))
    reading = ["--storage", "posix", "--no-direct"]
    return [
        ["list", "ck"],
        ["verify", "ck", *reading],
        ["restore", "ck", "out", *reading],
    ]


def one_chunk(user: int, stored: int, **changes: Any) -> dict[str, Any]:
    """A manifest whose only chunk claims these lengths."""
    digest = crc64(bytes(PAGE))
    return manifest(
        chunk_bytes=changes.pop("chunk_bytes", -(-user // PAGE) * PAGE),
        state_bytes=user,
        members=[{"name": "a", "bytes": user, "mode": 420, "offset": 0}],
        shards=[shard(0, stored)],
        chunks=[[0, user, 0, 0, stored, digest, digest]],
        **changes,
    )


@case
def a_good_one(folder: Path) -> Commands:
    return put(folder, manifest())


@case
def chunks_of_200_gib(folder: Path) -> Commands:
    return put(folder, manifest(chunk_bytes=200 << 30, codec="zstd"))


@case
def chunks_of_2_gib(folder: Path) -> Commands:
    return put(folder, manifest(chunk_bytes=2 << 30, codec="lz4"))


@case
def one_chunk_of_2_to_the_45(folder: Path) -> Commands:
    return put(folder, one_chunk(1 << 45, PAGE, codec="zstd"))


@case
def an_index_of_2_to_the_45(folder: Path) -> Commands:
    text = one_chunk(1 << 45, PAGE, codec="zstd")
    text["members"][0]["name"] = "savemark-state.json"
    return put(folder, text)


@case
def chunk_sums_that_wrap(folder: Path) -> Commands:
    digest = "0" * 16
    chunks = [
        [0, (1 << 63), 0, 0, PAGE, digest, digest],
        [1 << 63, 1 << 63, 0, PAGE, PAGE, digest, digest],
    ]
    text = manifest(chunk_bytes=1 << 63, state_bytes=0, chunks=chunks, members=[], codec="zstd")
    text["shards"] = [shard(0, 2 * PAGE)]
    return put(folder, text, [2 * PAGE])


@case
def shard_sums_that_wrap(folder: Path) -> Commands:
    text = manifest(shards=[shard(0, PAGE), shard(1, (1 << 64) - PAGE)])
    return put(folder, text)


@case
def member_sums_that_wrap(folder: Path) -> Commands:
    members = [{"name": "a", "bytes": (1 << 64) - 1, "mode": 420, "offset": 0}]
    members += [{"name": "b", "bytes": PAGE, "mode": 420, "offset": (1 << 64) - PAGE}]
    return put(folder, manifest(members=members))


@case
def nothing_at_all(folder: Path) -> Commands:
    return put(folder, manifest(streams=0, state_bytes=0, members=[], shards=[], chunks=[]), [])


@case
def shards_4000_empty(folder: Path) -> Commands:
    shards = [shard(0, PAGE), *(shard(index, 0) for index in range(1, 4000))]
    return put(folder, manifest(shards=shards), [PAGE, *repeat(0, 3999)])


@case
def shards_1024_of_a_page(folder: Path) -> Commands:
    zeros = crc64(bytes(PAGE))
    return put(
        folder,
        manifest(
            streams=1024,
            state_bytes=1024 * PAGE,
            members=[{"name": "a", "bytes": 1024 * PAGE, "mode": 420, "offset": 0}],
            shards=[shard(index, PAGE) for index in range(1024)],
            chunks=[[i * PAGE, PAGE, i, 0, PAGE, zeros, "0" * 16] for i in range(1024)],
        ),
        repeat(PAGE, 1024),
    )


@case
def sparse_shards_of_64_mib(folder: Path) -> Commands:
    chunk, count = 64 * MIB, 16
    zeros = crc64(bytes(chunk))
    return put(
        folder,
        manifest(
            streams=count,
            chunk_bytes=chunk,
            state_bytes=count * chunk,
            members=[{"name": "a", "bytes": count * chunk, "mode": 420, "offset": 0}],
            shards=[shard(index, chunk) for index in range(count)],
            chunks=[[i * chunk, chunk, i, 0, chunk, zeros, "0" * 16] for i in range(count)],
        ),
        repeat(chunk, count),
    )


def _bomb(user: int) -> bytes:
    """A zstd frame of `user` zeros: a block of 128 KiB in four bytes."""
    block = 1 << 17
    blocks = [(min(block, user - at), at + block >= user) for at in range(0, user, block)]
    body = b"".join(
        (size << 3 | 1 << 1 | last).to_bytes(3, "little") + b"\0" for size, last in blocks
    )
    frame = bytes.fromhex("28b52ffd a0") + user.to_bytes(4, "little") + body
    gap = -len(frame) % PAGE
    gap += PAGE if gap < 8 else 0
    return frame + bytes.fromhex("502a4d18") + (gap - 8).to_bytes(4, "little") + bytes(gap - 8)


@case
def bombs_of_64_mib(folder: Path) -> Commands:
    chunk, count = 64 * MIB, 16
    extent = _bomb(chunk)
    digests = [crc64(extent), crc64(bytes(chunk))]
    text = manifest(
        codec="zstd",
        streams=count,
        chunk_bytes=chunk,
        state_bytes=count * chunk,
        members=[{"name": "a", "bytes": count * chunk, "mode": 420, "offset": 0}],
        shards=[shard(i, len(extent), f"shard-{ID}-{i:04x}.zst") for i in range(count)],
        chunks=[[i * chunk, chunk, i, 0, len(extent), *digests] for i in range(count)],
    )
    commands = put(folder, text, [extent] * count)
    for path in (folder / "ck").glob("shard-*"):
        path.rename(f"{path}.zst")
    return commands


@case
def a_bomb_of_1_gib(folder: Path) -> Commands:
    user = 1 << 30
    extent = _bomb(user)
    text = one_chunk(user, len(extent), codec="zstd")
    text["chunks"][0][5:] = [crc64(extent), "0" * 16]
    text["shards"][0]["name"] += ".zst"
    commands = put(folder, text, [extent])
    (folder / "ck" / f"shard-{ID}-0000").rename(folder / "ck" / f"shard-{ID}-0000.zst")
    return commands


def _entries(key: str, entries: Iterable[str], text: dict[str, Any]) -> bytes:
    """The manifest with these entries under `key`, made as text: there are many."""
    start = json.dumps(text | {key: []}, separators=(",", ":"))
    head, tail = start[:-1].split(f'"{key}":[]')
    return seal((head + f'"{key}":[' + ",".join(entries) + "]" + tail).encode())


@case
def members_2_million(folder: Path) -> Commands:
    names = (f'{{"name":"m{i}","bytes":0,"mode":0,"offset":0}}' for i in range((1 << 21) - 1))
    last = f'{{"name":"z","bytes":{PAGE},"mode":0,"offset":0}}'
    return put(folder, _entries("members", chain(names, [last]), manifest()))[:2]


@case
def directories_2_million(folder: Path) -> Commands:
    names = (f'{{"name":"d{i:07}","mode":448}}' for i in range(1 << 21))
    return put(folder, _entries("directories", names, manifest()))[:2]


@case
def directories_3_million(folder: Path) -> Commands:
    names = (f'{{"name":"d{i:07}","mode":448}}' for i in range(3 << 20))
    return put(folder, _entries("directories", names, manifest()))[:2]


@case
def a_manifest_of_300_mib(folder: Path) -> Commands:
    return put(
        folder, b'{"format":"savemark-checkpoint","version":1,"library":"' + b"x" * (300 * MIB)
    )


@case
def a_manifest_of_1_tib_of_nothing(folder: Path) -> Commands:
    commands = put(folder, b"")
    os.truncate(folder / "ck" / "manifest.json", 1 << 40)
    return commands


@case
def a_manifest_that_is_a_directory(folder: Path) -> Commands:
    commands = put(folder, b"")
    (folder / "ck" / "manifest.json").unlink()
    (folder / "ck" / "manifest.json").mkdir()
    return commands


@case
def a_manifest_that_is_a_pipe(folder: Path) -> Commands:
    commands = put(folder, b"")
    (folder / "ck" / "manifest.json").unlink()
    os.mkfifo(folder / "ck" / "manifest.json")
    return commands


@case
def a_shard_that_is_a_pipe(folder: Path) -> Commands:
    commands = put(folder, manifest())
    path = folder / "ck" / f"shard-{ID}-0000"
    path.unlink()
    os.mkfifo(path)
    return commands


@case
def nested_100000_deep(folder: Path) -> Commands:
    return put(folder, seal(b'{"format":"savemark-checkpoint","version":1,"x":' + b"[" * 100_000))


def _names(*names: str) -> dict[str, Any]:
    members = [{"name": name, "bytes": 0, "mode": 420, "offset": 0} for name in names[1:]]
    return manifest(members=[*members, {"name": names[0], "bytes": PAGE, "mode": 420, "offset": 0}])


@case
def names_that_leave(folder: Path) -> Commands:
    return put(folder, _names("../../escaped"))


@case
def names_twice(folder: Path) -> Commands:
    return put(folder, _names("a", "a"))


@case
def names_of_a_file_and_in_it(folder: Path) -> Commands:
    return put(folder, _names("a/b", "a"))


@case
def names_of_5000_bytes(folder: Path) -> Commands:
    return put(folder, _names("x" * 5000))


@case
def names_2000_deep(folder: Path) -> Commands:
    return put(folder, _names("/".join("d" * 2000)))


@case
def names_with_escapes(folder: Path) -> Commands:
    return put(folder, _names("/\x1b[2J\x1b]0;owned\x07"))


@case
def an_id_that_is_none(folder: Path) -> Commands:
    return put(folder, manifest(id="zzz", shards=[shard(0, PAGE, "shard-zzz-0000")]))


@case
def a_shard_that_is_somebody_elses(folder: Path) -> Commands:
    commands = put(folder, manifest(shards=[shard(0, PAGE, "precious.bin")]))
    (folder / "ck" / "precious.bin").write_bytes(bytes(PAGE))
    return commands


@case
def a_newer_version(folder: Path) -> Commands:
    return put(folder, manifest(version=2, more={"of": "it"}))


@case
def a_field_that_is_unknown(folder: Path) -> Commands:
    return put(folder, manifest(more=1))
