"""The written format, read by what docs/format.md says and nothing else."""

import json
import random
import struct
import subprocess
import sys
import zlib
from functools import cache
from itertools import pairwise

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

START = b'{"format":"savemark-checkpoint","version":1,'
END = b',"checksum":"crc64-nvme:%016x"}\n'


@cache
def table():
    def entry(byte):
        for _ in range(8):
            byte = byte >> 1 ^ (0x9A6C9329AC4BC9B5 if byte & 1 else 0)
        return byte

    return [entry(byte) for byte in range(256)]


def digest(data):
    crc, of = (1 << 64) - 1, table()
    for byte in data:
        crc = crc >> 8 ^ of[(crc ^ byte) & 255]
    return crc ^ (1 << 64) - 1


def state(folder):
    """The members of a checkpoint, by name."""
    text = (folder / "manifest.json").read_bytes()
    end = len(text) - len(END % 0)
    assert text.startswith(START)
    assert text[end:] == END % digest(text[:end])
    manifest = json.loads(text)
    data = bytearray()
    for offset, user_bytes, shard, at, stored_bytes, stored, user in manifest["chunks"]:
        assert offset == len(data)
        extent = (folder / manifest["shards"][shard]["name"]).read_bytes()[at : at + stored_bytes]
        assert len(extent) == stored_bytes and stored_bytes % 4096 == 0
        assert digest(extent) == int(stored, 16)
        chunk = DECODERS[manifest["codec"]](extent, user_bytes)
        assert len(chunk) == user_bytes
        assert int(user, 16) == (0 if manifest["codec"] == "none" else digest(chunk))
        data += chunk
    assert len(data) == manifest["state_bytes"]
    found = manifest["members"]
    return {m["name"]: bytes(data[m["offset"] : m["offset"] + m["bytes"]]) for m in found}


def planes(extent, user_bytes):
    magic, version, user, end = struct.unpack_from("<4sIQQ", extent)
    assert (magic, version, user) == (b"SMPL", 1, user_bytes)
    assert not any(extent[end:]) and len(extent) - end < 4096
    at, chunk = 24, b""
    while len(chunk) < user_bytes:
        length, kind, skip, zero, stored = struct.unpack_from("<IBBHI", extent, at)
        body = extent[at + 12 : at + 12 + stored]
        part = segment(kind, skip, body, length)
        assert len(part) == length and zero == 0
        chunk, at = chunk + part, at + 12 + stored
    assert at == end
    return chunk


def segment(kind, skip, body, length):
    if kind in (0, 1):
        return zstd.decompress(body) if kind else body
    count = (length - skip) // kind
    heads = struct.unpack_from(f"<{2 * kind}I", body)
    at, edges = 8 * kind, length - count * kind
    before, after = body[at : at + skip], body[at + skip : at + edges]
    at += edges
    columns = []
    for method, stored in zip(heads[::2], heads[1::2], strict=True):
        columns.append(plane(method, body[at : at + stored], count))
        at += stored
    assert at == len(body)
    bits = 8 * kind
    rotated = (int.from_bytes(number, "little") for number in zip(*columns, strict=True))
    numbers = ((number >> 1 | (number & 1) << bits - 1) for number in rotated)
    return before + b"".join(number.to_bytes(kind, "little") for number in numbers) + after


def plane(method, body, count):
    if method < 2:
        return body * count if method else body
    lengths = [length for byte in body[:128] for length in (byte & 15, byte >> 4)]
    codes, code, last = {}, 0, 0
    for length, value in sorted((length, value) for value, length in enumerate(lengths) if length):
        code <<= length - last
        codes[length, code] = value
        code, last = code + 1, length
    assert code == 1 << last, "complete"
    ends = [0, *struct.unpack_from("<3I", body, 128)]
    starts = [140 + sum(ends[: i + 1]) for i in range(4)] + [len(body)]
    quarter = -(-count // 4)
    found = bytearray()
    for i, (start, end) in enumerate(pairwise(starts)):
        wanted = max(0, min((i + 1) * quarter, count) - i * quarter)
        found += symbols(body[start:end], codes, wanted)
    return bytes(found)


def symbols(stream, codes, wanted):
    found, code, length = bytearray(), 0, 0
    bits = (byte >> bit & 1 for byte in stream for bit in range(7, -1, -1))
    while len(found) < wanted:
        code, length = code << 1 | next(bits), length + 1
        if (length, code) in codes:
            found.append(codes[length, code])
            code = length = 0
    assert not any(bits), "zero bits at the end"
    return found


def first_zstd_frame(extent, _user_bytes):
    return zstd.ZstdDecompressor().decompress(extent)


DECODERS = {
    "none": lambda extent, user_bytes: extent[:user_bytes],
    "zstd": first_zstd_frame,
    "gzip": lambda extent, _: zlib.decompressobj(wbits=31).decompress(extent),
    "zlib": lambda extent, _: zlib.decompressobj().decompress(extent),
    "planes": planes,
}


def weights(random, count, width):
    """Numbers as of a trained model, in bf16 or fp32."""
    packed = (struct.pack("<f", random.gauss(0, 0.02)) for _ in range(count))
    return b"".join(number[-width:] for number in packed)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Weights of both widths, out of step, noise, text, one value, and nothing."""
    source, chance = tmp_path_factory.mktemp("source"), random.Random(1)
    members = {
        "model/bf16": weights(chance, 40_000, 2),
        "model/fp32": b"odd" + weights(chance, 30_000, 4) + b"x",
        "noise": chance.randbytes(140_000),
        "text": b"the quick brown fox jumps over the lazy dog\n" * 1000,
        "zeros": bytes(50_000),
        "empty": b"",
        "upcast": b"".join(b"\0\0" + weights(chance, 1, 2) for _ in range(40_000)),
    }
    for name, data in members.items():
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_bytes(data)
    return source, members


@pytest.mark.parametrize("codec", sorted(DECODERS))
def test_the_document_is_enough_to_read_what_savemark_writes(codec, tree, tmp_path):
    source, members = tree
    options = ["--codec", codec, "--streams", "2", "--chunk-size", "64KiB"]
    command = [sys.executable, "-m", "savemark", "save", source, tmp_path, *options]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert state(tmp_path) == members


def test_a_digest_is_the_one_of_the_standard():
    assert digest(b"123456789") == 0xAE8B14860A799888
