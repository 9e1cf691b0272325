"""One client per process and cluster, on an event loop of its own thread.

Owns        the loop thread, the cache of clients in a Spark process.
Must not know   what is asked over them.

Spark keeps Python workers alive between batches and queries (reference spark.md 1.2 fact 23) and forks them from a
daemon, so clients live at module level and belong to the process that made them: a fork makes its own.
"""

from __future__ import annotations

import asyncio
import os
import threading

from rocketlake.client.config import ClientConfig
from rocketlake.client.instance import ClientInstance

__all__ = ["cluster_client"]


class _Process:
    """What one process shares: a loop on a thread of its own, and a client per list of name servers."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._clients: dict[tuple[str, int], ClientInstance] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self.loop.run_forever, name="rocketlake-spark", daemon=True).start()

    def client(self, namesrv: str, timeout_ms: int) -> ClientInstance:
        """The client of this cluster, started."""
        key = (namesrv, timeout_ms)
        with self._lock:
            if key not in self._clients:
                started = asyncio.run_coroutine_threadsafe(self._start(*key), self.loop)
                self._clients[key] = started.result()
            return self._clients[key]

    @staticmethod
    async def _start(namesrv: str, timeout_ms: int) -> ClientInstance:
        client = ClientInstance(ClientConfig(namesrv=namesrv, call_timeout_ms=timeout_ms))
        await client.start()
        return client


_process: _Process | None = None
_process_lock = threading.Lock()


def cluster_client(namesrv: str, timeout_ms: int) -> tuple[ClientInstance, asyncio.AbstractEventLoop]:
    """The client of this cluster over the links this process already has, and the loop it lives on."""
    global _process
    with _process_lock:
        if _process is None or _process.pid != os.getpid():
            _process = _Process()
        return _process.client(namesrv, timeout_ms), _process.loop
