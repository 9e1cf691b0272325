"""One client per process and cluster, on an event loop of its own thread.

Owns        the loop thread, the cache of clients in a Spark process.
Must not know   the requests that go over these clients.

Spark keeps Python workers alive between batches and queries (tests/spark/test_facts.py) and forks them from a daemon.
So clients live at module level and belong to the process that made them: a fork makes its own. All formats and queries
of a process share them, so that a worker has one connection to each broker, however many queries run in it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from rocketlake.client.wire import ClientConfig, ClientInstance

__all__ = ["cluster_client", "end_client"]

_ROUTE_TIMEOUT_MS = 10_000
"""Timeout of questions to name servers. Calls to brokers bring their own."""
_END_SECONDS = 10.0
_SWITCH_SECONDS = 0.0005


class _Process:
    """Shared by one process: a loop on a thread of its own, and a client for each cluster.

    A cluster is a list of name servers, a file of certificates and one of credentials.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._clients: dict[tuple[str, str, str], ClientInstance] = {}
        self._lock = threading.Lock()
        # With Python's 5 ms the network would pause that long whenever the other thread makes rows of a chunk.
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
        threading.Thread(target=self.loop.run_forever, name="rocketlake-spark", daemon=True).start()

    def client(self, namesrv: str, tls_file: str, credentials_file: str) -> ClientInstance:
        """The client of this cluster, started."""
        key = namesrv, tls_file, credentials_file
        with self._lock:
            if key not in self._clients:
                started = asyncio.run_coroutine_threadsafe(self._start(*key), self.loop)
                self._clients[key] = started.result()
            return self._clients[key]

    def end(self, namesrv: str) -> None:
        """Stop the clients of this cluster, if there are any."""
        with self._lock:
            for key in [key for key in self._clients if key[0] == namesrv]:
                client = self._clients.pop(key)
                asyncio.run_coroutine_threadsafe(client.stop(), self.loop).result(_END_SECONDS)

    @staticmethod
    async def _start(namesrv: str, tls_file: str, credentials_file: str) -> ClientInstance:
        settings = ClientConfig(
            namesrv=namesrv,
            call_timeout_ms=_ROUTE_TIMEOUT_MS,
            tls_config_file=tls_file,
            credentials_file=credentials_file,
        )
        client = ClientInstance(settings)
        await client.start()
        return client


_process: _Process | None = None
_process_lock = threading.Lock()


def cluster_client(
    namesrv: str, tls_file: str = "", credentials_file: str = ""
) -> tuple[ClientInstance, asyncio.AbstractEventLoop]:
    """The client of this cluster over the links this process already has, and the loop it lives on.

    `tls_file`: of certificates; empty: that of the variable ROCKETLAKE_TLS_CONFIG, or the connections are plain.
    `credentials_file`: of a user; empty: ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY, or nothing is signed.
    """
    global _process
    with _process_lock:
        if _process is None or _process.pid != os.getpid():
            _process = _Process()
        return _process.client(namesrv, tls_file, credentials_file), _process.loop


def end_client(namesrv: str) -> None:
    """Close the links of this process to a cluster that is about to go: its client would ask for routes for ever."""
    with _process_lock:
        if _process is not None and _process.pid == os.getpid():
            _process.end(namesrv)
