"""A real S3 server on this machine: moto in its single-threaded form, whose conditional puts are atomic.

Owns        the process of the server, a bucket, the files of the keys (moto takes any).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["SECRET", "options_for", "s3_server"]

SECRET = "test-secret-of-the-store"

_SERVE = """
import sys
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, create_backend_app
server = make_server("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
server.serve_forever()
"""


def options_for(endpoint: str, folder: Path) -> dict[str, str]:
    """The options of format("rocketmq_lake") for this server; the folder gets the files that hold the keys."""
    (folder / "key").write_text("test-key")
    (folder / "secret").write_text(SECRET + "\n")
    return {
        "s3.endpoint": endpoint,
        "s3.access-key-id": f"file:{folder}/key",
        "s3.secret-access-key": f"file:{folder}/secret",
    }


@contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """The address of a server that has this bucket."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _make_bucket(server, f"{endpoint}/{bucket}")
        yield endpoint
    finally:
        server.kill()
        server.wait()


def _make_bucket(server: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10).close()
            return
        except OSError:
            assert server.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server does not answer"
            try:
                server.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
