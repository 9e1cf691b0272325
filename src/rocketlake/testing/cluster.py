"""An embedded cluster on the event loop of a thread of its own, for synchronous tests and for Spark.

Owns        the thread, start and stop from other threads, sends in one line.
Must not know   pytest.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from rocketlake.client.producer.producer import Producer
from rocketlake.model.message import Message
from rocketlake.spark.cluster import end_client
from rocketlake.standalone import Standalone

__all__ = ["EmbeddedCluster"]

T = TypeVar("T")
_TIMEOUT_S = 60


class EmbeddedCluster:
    """`with EmbeddedCluster(folder) as cluster:` then connect to cluster.namesrv. Calls may come from any thread."""

    def __init__(self, root: Path, *, settings: Mapping[str, Any] | None = None) -> None:
        self.root = root
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="embedded cluster", daemon=True)
        self._standalone: Standalone | None = None
        self._ports = (0, 0)

    @property
    def standalone(self) -> Standalone:
        """The cluster itself; touch it on its own loop only (run)."""
        assert self._standalone is not None, "not started"
        return self._standalone

    @property
    def namesrv(self) -> str:
        """host:port for clients."""
        return self.standalone.namesrv_address

    def run(self, work: Coroutine[Any, Any, T], *, seconds: float = _TIMEOUT_S) -> T:
        """Run a coroutine on the cluster's loop and wait for its result, `seconds` at most."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def start(self) -> None:
        """Start name server and broker; after stop() again on the same ports and files."""
        if not self._thread.is_alive():
            self._thread.start()
        namesrv_port, broker_port = self._ports
        self._standalone = Standalone(
            self.root, namesrv_port=namesrv_port, broker_port=broker_port, settings=self._settings
        )
        self.run(self._standalone.start())
        addresses = (self._standalone.namesrv_address, self._standalone.broker_address)
        self._ports = (int(addresses[0].rpartition(":")[2]), int(addresses[1].rpartition(":")[2]))

    def stop(self) -> None:
        """Stop both; the files stay."""
        self.run(self.standalone.stop())

    def send(self, topic: str, bodies: Iterable[bytes], *, tags: str | None = None, queue: int | None = None) -> None:
        """Send messages one after the other, to one queue if given. The topic is made if need be, and found then."""

        selector = None if queue is None else lambda queues, _: queues[queue]

        async def work() -> None:
            async with Producer("testing", namesrv=self.namesrv) as producer:
                for body in bodies:
                    await producer.send(Message(topic, body, tags=tags), selector=selector)
            told = asyncio.Event()  # a broker tells name servers of a new topic behind its first send
            self.standalone.broker.cluster.registration.when_registered(told.set)
            await told.wait()

        self.run(work())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            end_client(self.namesrv)
            self.stop()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_TIMEOUT_S)
            self._loop.close()
