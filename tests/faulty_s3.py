"""An S3 server that loses answers, refuses and does things late: for libraries that open urls.

Owns        the requests of S3 that object_store makes, faults of the line, a bucket in memory.
Must not know   tables. The same faults without a line: spark/places/memory.py.
"""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
import sys
import threading
import urllib.request
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from rocketlake.spark.places.memory import Fault, Faults

__all__ = ["FaultyS3", "faulty_s3"]

_DATE = formatdate(1_790_000_000, usegmt=True)
_HANG_SECONDS = 5
_CONTROL = "control"


class _Store:
    """What the server has, in its own process."""

    def __init__(self) -> None:
        self.faults: Faults | None = None
        self.planned: list[tuple[Fault, str, str]] = []
        self.objects: dict[str, bytes] = {}
        self.requests: deque[str] = deque(maxlen=1000)
        self._late: list[tuple[str, bytes, bool]] = []
        self._lock = threading.Lock()

    def fault(self, method: str, key: str) -> Fault:
        """Of the next request; late puts may land first."""
        with self._lock:
            self.requests.append(f"{method} {key}")
            if self.planned and self.planned[0][1] == method and re.search(self.planned[0][2], key):
                return self.planned.pop(0)[0]
            if self.faults is None:
                return Fault.NONE
            while self._late and self.faults.lands():
                self._apply(*self._late.pop(0))
            return self.faults.next(is_put=method == "PUT")

    def put(self, key: str, data: bytes, *, create: bool, is_late: bool = False) -> bool:
        """True unless the object is there and must not be."""
        with self._lock:
            if is_late:
                self._late.append((key, data, create))
                return True
            return self._apply(key, data, create)

    def end_faults(self) -> None:
        """Be a good store from here on; what is late is done."""
        with self._lock:
            self.faults, self.planned = None, []
            while self._late:
                self._apply(*self._late.pop(0))

    def _apply(self, key: str, data: bytes, create: bool) -> bool:
        if create and key in self.objects:
            return False
        self.objects[key] = data
        return True


class FaultyS3:
    """The server as a test sees it."""

    def __init__(self, address: str) -> None:
        self.address = address

    def begin_faults(self, seed: int, *, puts: float, others: float) -> None:
        """These parts of the requests have a fault."""
        self._ask(f"begin?seed={seed}&puts={puts}&others={others}")

    def plan(self, fault: Fault, key: str, *, times: int = 1, method: str = "PUT") -> None:
        """The next puts to a key in which the pattern is found have this fault."""
        self._ask(f"plan?fault={fault.name}&key={quote(key)}&times={times}&method={method}")

    def end_faults(self) -> None:
        """Be a good store from here on; what is late is done."""
        self._ask("end")

    def requests(self) -> list[str]:
        """Method and key of the last thousand requests, none of which is told twice; a list has an empty key."""
        return self._ask("requests").splitlines()

    def _ask(self, what: str) -> str:
        request = urllib.request.Request(f"{self.address}/{_CONTROL}/{what}", method="OPTIONS")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()


@contextmanager
def faulty_s3() -> Iterator[FaultyS3]:
    """A server in a process of its own: deltalake holds Python's lock while it waits for an answer."""
    command = [sys.executable, "-m", "tests.faulty_s3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1], text=True) as process:
        assert process.stdout is not None
        try:
            yield FaultyS3(process.stdout.readline().strip())
        finally:
            process.kill()


def _main() -> None:
    server = _Server(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has read enough goes away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store = _Store()

    def log_message(self, format: str, *arguments: object) -> None:
        return

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    def _answer(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Last-Modified", _DATE)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _is_lost(self) -> bool:
        """A fault of a request that is no put."""
        fault = self.store.fault(self.command, self._key())
        if fault is Fault.BUSY:
            self._answer(503)
        elif fault is not Fault.NONE:
            self.close_connection = True
        return fault is not Fault.NONE

    def do_OPTIONS(self) -> None:
        url = urlsplit(self.path)
        said = ""
        if url.path == f"/{_CONTROL}/requests":
            said = "\n".join(self.store.requests)
            self.store.requests.clear()
        if url.path == f"/{_CONTROL}/end":
            self.store.end_faults()
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == f"/{_CONTROL}/plan":
            self.store.planned += [(Fault[asked["fault"]], asked["method"], asked["key"])] * int(asked["times"])
        if url.path == f"/{_CONTROL}/begin":
            rng = random.Random(int(asked["seed"]))
            self.store.faults = Faults(rng, puts=float(asked["puts"]), others=float(asked["others"]))
        self._answer(200, said.encode())

    def do_PUT(self) -> None:
        data, create = self._body(), self.headers.get("If-None-Match") == "*"
        fault = self.store.fault(self.command, self._key())
        if fault is Fault.CONFLICT and create:
            return self._answer(409)
        if fault is Fault.LATE:
            self.store.put(self._key(), data, create=create, is_late=True)
            threading.Event().wait(_HANG_SECONDS)  # the client gives up before
        if fault in (Fault.LOST_BEFORE, Fault.LATE):
            self.close_connection = True
            return None
        if fault in (Fault.BUSY, Fault.CONFLICT):
            return self._answer(503)
        made = self.store.put(self._key(), data, create=create)
        if fault is not Fault.NONE:
            self.close_connection = True
            return None
        return self._answer(200 if made else 412, ETag=_tag(data))

    def do_GET(self) -> None:
        if self._is_lost():
            return
        key = self._key()
        if not key:
            self._list(parse_qs(urlsplit(self.path).query))
            return
        data = self.store.objects.get(key)
        if data is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._answer(200, data, ETag=_tag(data))
            return
        first = int(wanted[1]) if wanted[1] else max(0, len(data) - int(wanted[2]))
        end = min(int(wanted[2]) + 1, len(data)) if wanted[1] and wanted[2] else len(data)
        self._answer(206, data[first:end], ETag=_tag(data), Content_Range=f"bytes {first}-{end - 1}/{len(data)}")

    def do_HEAD(self) -> None:
        if self._is_lost():
            return
        data = self.store.objects.get(self._key())
        if data is None:
            self._answer(404)
        else:
            self._answer(200, length=len(data), ETag=_tag(data))

    def do_DELETE(self) -> None:
        if not self._is_lost():
            self.store.objects.pop(self._key(), None)
            self._answer(204)

    def do_POST(self) -> None:
        body = self._body().decode()
        if self._is_lost():
            return
        keys = [unescape(key) for key in re.findall("<Key>(.*?)</Key>", body)]
        for key in keys:
            self.store.objects.pop(key, None)
        done = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{done}</DeleteResult>".encode())

    def _list(self, asked: dict[str, list[str]]) -> None:
        prefix, after = asked.get("prefix", [""])[0], asked.get("start-after", [""])[0]
        found = sorted(key for key in list(self.store.objects) if key.startswith(prefix) and key > after)
        folders: set[str] = set()
        if "delimiter" in asked:
            folders = {prefix + key[len(prefix) :].split("/")[0] + "/" for key in found if "/" in key[len(prefix) :]}
            found = [key for key in found if "/" not in key[len(prefix) :]]
        objects = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.store.objects[key])}</Size>"
            f"<LastModified>2026-09-21T14:13:20.000Z</LastModified><ETag>{_tag(self.store.objects[key])}</ETag></Contents>"
            for key in found
        )
        prefixes = "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders)
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{objects}{prefixes}</ListBucketResult>"
        self._answer(200, text.encode(), Content_Type="application/xml")


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


if __name__ == "__main__":
    _main()
