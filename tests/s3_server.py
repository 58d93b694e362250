"""A small S3 server for the tests, on loopback: enough of the protocol for studies and checkpoints.

It checks neither signatures nor checksums; the engine's own tests do that, with a server that is
whole.
"""

import itertools
import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

CHECKSUM = "x-amz-checksum-crc64nvme"


@dataclass
class Upload:
    """A multipart upload that is not complete; `touched` is when something arrived last."""

    key: str
    parts: dict[int, bytes] = field(default_factory=dict)
    touched: datetime = field(default_factory=lambda: datetime.now(UTC))

    def xml(self):
        time = _time(self.touched)
        return "".join(
            f"<Part><PartNumber>{number}</PartNumber><LastModified>{time}</LastModified>"
            f"<Size>{len(self.parts[number])}</Size></Part>"
            for number in sorted(self.parts)
        )


def _time(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Handler(BaseHTTPRequestHandler):
    """Objects and uploads live in the server's dictionaries."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Say nothing."""

    def _asked(self):
        parts = urlsplit(self.path)
        _, bucket, *key = unquote(parts.path).split("/", 2)
        return bucket, "".join(key), parse_qs(parts.query, keep_blank_values=True)

    def _answer(self, status=200, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        length = headers.get("Content_Length")
        if length is None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _fail(self, status, code):
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def do_GET(self):
        """Answer a GET or a HEAD."""
        bucket, key, query = self._asked()
        if bucket != "bucket":
            return self._fail(404, "NoSuchBucket")
        if "uploads" in query:
            return self._list_uploads(query)
        if "uploadId" in query:
            return self._list_parts(query)
        return self._read(key) if key else self._list(query)

    def _read(self, key):
        data = self.server.objects.get(key)
        if data is None:
            return self._fail(404, "NoSuchKey")
        facts = {"ETag": '"x"', "Last_Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            return self._answer(body=data, **facts, Content_Length=str(len(data)))
        start, end = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        span = f"bytes {start}-{end}/{len(data)}"
        return self._answer(206, data[start : end + 1], Content_Range=span, **facts)

    def do_HEAD(self):
        """As a GET; `_answer` leaves the body out."""
        self.do_GET()

    def _list_parts(self, query):
        upload = self.server.uploads.get(query["uploadId"][0])
        if upload is None:
            return self._fail(404, "NoSuchUpload")
        return self._answer(body=f"<ListPartsResult>{upload.xml()}</ListPartsResult>".encode())

    def _list_uploads(self, query):
        prefix = query.get("prefix", [""])[0]
        items = "".join(
            f"<Upload><Key>{escape(upload.key)}</Key><UploadId>{name}</UploadId>"
            f"<Initiated>{_time(upload.touched)}</Initiated></Upload>"
            for name, upload in self.server.uploads.items()
            if upload.key.startswith(prefix)
        )
        kind = "ListMultipartUploadsResult"
        self._answer(body=f"<{kind}>{items}</{kind}>".encode())

    def _list(self, query):
        prefix = query.get("prefix", [""])[0]
        keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        folders = set()
        if "delimiter" in query:
            below = [(key, key[len(prefix) :]) for key in keys]
            folders = {prefix + rest.split("/")[0] + "/" for _, rest in below if "/" in rest}
            keys = [key for key, rest in below if "/" not in rest]
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key])}</Size>"
            f"<LastModified>{self.server.times.get(key, _time(datetime.now(UTC)))}</LastModified>"
            "</Contents>"
            for key in keys
        )
        items += "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            for folder in sorted(folders)
        )
        self._answer(body=f"<ListBucketResult>{items}</ListBucketResult>".encode())

    def _body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_PUT(self):
        """Store an object or a part."""
        bucket, key, query = self._asked()
        data = self._body()
        if bucket != "bucket":
            self._fail(404, "NoSuchBucket")
        elif "partNumber" in query:
            upload = self.server.uploads.get(query["uploadId"][0])
            if upload is None:
                return self._fail(404, "NoSuchUpload")
            upload.parts[int(query["partNumber"][0])] = data
            self._stored()
        else:
            self.server.objects[key] = data
            self._stored()
        return None

    def _stored(self):
        checksum = self.headers.get(CHECKSUM)
        self._answer(ETag='"x"', **({CHECKSUM: checksum} if checksum else {}))

    def do_POST(self):
        """Start or complete an upload."""
        _, key, query = self._asked()
        self._body()
        if "uploads" in query:
            name = str(next(self.server.ids))
            self.server.uploads[name] = Upload(key)
            kind = "InitiateMultipartUploadResult"
            self._answer(body=f"<{kind}><UploadId>{name}</UploadId></{kind}>".encode())
        else:
            parts = self.server.uploads.pop(query["uploadId"][0]).parts
            self.server.objects[key] = b"".join(parts[number] for number in sorted(parts))
            kind = "CompleteMultipartUploadResult"
            self._answer(body=f'<{kind}><ETag>"x"</ETag></{kind}>'.encode())

    def do_DELETE(self):
        """Remove an object, or abort an upload."""
        _, key, query = self._asked()
        if "uploadId" in query:
            self.server.uploads.pop(query["uploadId"][0], None)
        else:
            self.server.objects.pop(key, None)
        self._answer(204)


def start():
    """Return a running server: `shutdown()` ends it.

    `objects` and `uploads` are what it holds; `times` says when an object was written, if not now.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.objects, server.uploads, server.times = {}, {}, {}
    server.ids = itertools.count()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
