"""An S3 server that keeps no byte: what is put is thrown away, what is asked for is made.

    python bench/discarding.py PORT

It answers as fast as the machine lets it, so whoever talks to it is at the client's own ceiling. Of
each object it knows the length. Signatures are not looked at, and a checksum is said to be right.
"""

import re
import socket
import sys
import threading
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

ROOM = 1 << 20
# No page of it repeats within a read: clients and networks that compress gain nothing.
MADE = memoryview(
    b"".join((n * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8) for n in range(1 << 20))
)
CHECKSUM = "x-amz-checksum-crc64nvme"
TIME = "Thu, 01 Jan 2026 00:00:00 GMT"


@dataclass
class Known:
    """Lengths of objects, and of the parts of uploads."""

    objects: dict[str, int] = field(default_factory=dict)
    uploads: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass
class Request:
    """A line and its headers."""

    method: str
    key: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    @property
    def length(self) -> int:
        """Bytes of its body; of one in signed chunks, with what surrounds them."""
        return int(self.headers.get("content-length", 0))

    @property
    def object_bytes(self) -> int:
        """Bytes of the object or part."""
        return int(self.headers.get("x-amz-decoded-content-length", self.length))


class Connection:
    """One client's connection."""

    def __init__(self, connection: socket.socket, known: Known) -> None:
        self.socket, self.known = connection, known
        self.buffer = bytearray(ROOM)
        self.rest = b""

    def serve(self) -> None:
        """Answer until the client hangs up."""
        with self.socket:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while (request := self._asked()) is not None:
                    if request.headers.get("expect"):
                        self.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                    self._throw_away(request.length)
                    self._answer(request)
            except ConnectionError:
                return

    def _asked(self) -> Request | None:
        while b"\r\n\r\n" not in self.rest:
            more = self.socket.recv(1 << 16)
            if not more:
                return None
            self.rest += more
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        line, *lines = head.decode().split("\r\n")
        method, target, _ = line.split(" ")
        parts = urlsplit(target)
        headers = {n.lower(): v.strip() for n, _, v in (text.partition(":") for text in lines)}
        query = parse_qs(parts.query, keep_blank_values=True)
        return Request(method, unquote(parts.path), query, headers)

    def _throw_away(self, length: int) -> None:
        left = length - len(self.rest)
        self.rest = self.rest[length:] if left < 0 else b""
        while left > 0:
            got = self.socket.recv_into(self.buffer, min(left, ROOM))
            if not got:
                raise ConnectionError
            left -= got

    def _answer(self, request: Request) -> None:
        uploads, objects, key = self.known.uploads, self.known.objects, request.key
        name = request.query.get("uploadId", [""])[0]
        match request.method:
            case "PUT" if name:
                uploads[name][request.query["partNumber"][0]] = request.object_bytes
                self._done(request)
            case "PUT":
                objects[key] = request.object_bytes
                self._done(request)
            case "POST" if "uploads" in request.query:
                name = f"upload-{len(uploads)}"
                uploads[name] = {}
                self._xml("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>")
            case "POST" if name:
                objects[key] = sum(uploads.pop(name).values())
                self._xml("CompleteMultipartUploadResult", '<ETag>"e"</ETag>')
            case "GET" if key.count("/") < 2 or key.endswith("/"):
                self._xml("ListBucketResult", "<IsTruncated>false</IsTruncated>")
            case "GET" | "HEAD" if key in objects:
                self._made(request, objects[key])
            case "DELETE":
                objects.pop(key, None)
                self._head(204, 0)
            case _:
                self._head(404, 0)

    def _done(self, request: Request) -> None:
        said = request.headers.get(CHECKSUM)
        self._head(200, 0, 'ETag: "e"', *([f"{CHECKSUM}: {said}"] if said else []))

    def _xml(self, root: str, text: str) -> None:
        body = f"<{root}>{text}</{root}>".encode()
        self._head(200, len(body), "Content-Type: application/xml")
        self.socket.sendall(body)

    def _made(self, request: Request, size: int) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
        first = int(asked[1]) if asked else 0
        last = min(int(asked[2]) if asked and asked[2] else size - 1, size - 1)
        place = [f"Content-Range: bytes {first}-{last}/{size}"] if asked else []
        left = last - first + 1
        self._head(206 if asked else 200, left, 'ETag: "e"', f"Last-Modified: {TIME}", *place)
        while request.method == "GET" and left > 0:
            left -= self.socket.send(MADE[: min(left, len(MADE))])

    def _head(self, status: int, length: int, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} so", f"Content-Length: {length}", *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())


def main() -> None:
    """Serve on loopback for as long as the process lives."""
    known = Known()
    with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024) as server:
        while True:
            connection = Connection(server.accept()[0], known)
            threading.Thread(target=connection.serve, daemon=True).start()


if __name__ == "__main__":
    main()
