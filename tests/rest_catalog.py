"""An Iceberg REST catalog in this process over pyiceberg's SQL catalog, which may lose answers and do commits late.

Owns        the routes that pyiceberg asks for, faults of commits.
Must not know   tables of ours.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import CommitTableRequest, Table

from rocketlake.spark.places.memory import Fault, Faults

__all__ = ["RestCatalogServer", "rest_catalog"]


class RestCatalogServer:
    """`faults` may be set and taken away between requests."""

    def __init__(self, folder: Path, properties: dict[str, str]) -> None:
        self.catalog = SqlCatalog("served", uri=f"sqlite:///{folder}/catalog.db", **properties)
        self.address = ""
        self.faults: Faults | None = None
        self.planned: list[Fault] = []
        self.lock = threading.Lock()
        self._late: list[tuple[tuple[str, ...], CommitTableRequest]] = []

    def fault(self, *, is_put: bool) -> Fault:
        """Of the next request; late commits may be made first."""
        if is_put and self.planned:
            return self.planned.pop(0)
        if self.faults is None:
            return Fault.NONE
        while self._late and self.faults.lands():
            self._land()
        return self.faults.next(is_put=is_put)

    def end_faults(self) -> None:
        """Be a good catalog from here on; what is late is done."""
        with self.lock:
            self.faults, self.planned = None, []
            while self._late:
                self._land()

    def commit(self, name: tuple[str, ...], request: CommitTableRequest, *, is_late: bool = False) -> Any:
        """The new metadata. CommitFailedException if a requirement is not met."""
        if is_late:
            self._late.append((name, request))
            return None
        try:
            table = self.catalog.load_table(name)
        except NoSuchTableError:
            table = Table(name, None, "", None, self.catalog)  # type: ignore[arg-type]
        return self.catalog.commit_table(table, request.requirements, request.updates)

    def _land(self) -> None:
        try:
            self.commit(*self._late.pop(0))
        except (CommitFailedException, TableAlreadyExistsError):
            return


@contextmanager
def rest_catalog(folder: Path, **properties: str) -> Iterator[RestCatalogServer]:
    """A catalog on a free port of this machine; `properties` are those of its files."""
    served = RestCatalogServer(folder, properties)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": served}))
    server.daemon_threads = True
    served.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        served.catalog.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: RestCatalogServer

    def log_message(self, format: str, *arguments: object) -> None:
        return

    def _answer(self, status: int, value: object) -> None:
        body = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, status: int, kind: str) -> None:
        self._answer(status, {"error": {"message": kind, "type": kind, "code": status}})

    def _words(self) -> list[str]:
        return self.path.partition("?")[0].removeprefix("/v1/").split("/")

    def do_GET(self) -> None:
        words = self._words()
        with self.served.lock:
            if words == ["config"]:
                return self._answer(200, {"defaults": {}, "overrides": {}})
            if self.served.fault(is_put=False) is not Fault.NONE:
                return self._refuse(503, "ServiceUnavailableException")
            try:
                table = self.served.catalog.load_table((words[1], words[3]))
            except NoSuchTableError:
                return self._refuse(404, "NoSuchTableException")
            return self._answer(200, _table(table.metadata_location, table.metadata))

    def do_POST(self) -> None:
        body, words = self.rfile.read(int(self.headers["Content-Length"])), self._words()
        with self.served.lock:
            if words == ["namespaces"]:
                self.served.catalog.create_namespace_if_not_exists(tuple(json.loads(body)["namespace"]))
                return self._answer(200, {"namespace": json.loads(body)["namespace"], "properties": {}})
            if len(words) == 3:
                return self._stage(words[1], CreateTableRequest.model_validate_json(body))
            return self._commit((words[1], words[3]), CommitTableRequest.model_validate_json(body))

    def _stage(self, namespace: str, asked: CreateTableRequest) -> None:
        catalog = self.served.catalog
        if catalog.table_exists((namespace, asked.name)):
            return self._refuse(409, "AlreadyExistsException")
        staged = catalog._create_staged_table(
            (namespace, asked.name), asked.table_schema, asked.location, properties=asked.properties
        )
        return self._answer(200, _table(None, staged.metadata))

    def _commit(self, name: tuple[str, ...], asked: CommitTableRequest) -> None:
        fault = self.served.fault(is_put=True)
        if fault is Fault.LATE:
            self.served.commit(name, asked, is_late=True)
        if fault in (Fault.LOST_BEFORE, Fault.LATE):
            self.close_connection = True
            return None
        if fault in (Fault.BUSY, Fault.CONFLICT):
            return self._refuse(503, "ServiceUnavailableException")
        try:
            done = self.served.commit(name, asked)
        except (CommitFailedException, TableAlreadyExistsError):
            return self._refuse(409, "CommitFailedException")
        if fault is Fault.LOST_AFTER:
            self.close_connection = True
            return None
        if fault is Fault.REPEATED:  # something in between asked again, and was told of its own commit
            return self._refuse(409, "CommitFailedException")
        return self._answer(200, _table(done.metadata_location, done.metadata))


def _table(location: str | None, metadata: Any) -> str:
    return f'{{"metadata-location": {json.dumps(location)}, "metadata": {metadata.model_dump_json()}, "config": {{}}}}'
