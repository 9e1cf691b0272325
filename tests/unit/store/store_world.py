"""A store in memory whose clock and sync are moved by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.faulty import FaultyFiles
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.worker import HandWorker, InlineWorker, Worker
from rocketlake.codec.record import decode_records
from rocketlake.store.config import StoreConfig
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage, PutResult, PutStatus

ROOT = Path("/store")


class World:
    """One disk, one clock, and the stores opened on it one after the other."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disk = MemoryFiles(clock=self.clock)
        self.files = FaultyFiles(self.disk)
        self.sync = HandWorker()
        self.opened: list[MessageStore] = []

    def store(self, *, hold_sync: bool = False, **settings: Any) -> MessageStore:
        """A new store object on this disk; with `hold_sync` log syncs wait for `self.sync.run_one()`."""
        config = StoreConfig(
            **{"commit_log_file_bytes": 4096, "consume_queue_file_bytes": 200, "index_slots": 11, "index_entries": 100}
            | settings
        )

        def workers(name: str) -> Worker:
            return self.sync if hold_sync and name == "store-flush" else InlineWorker(name)

        store = MessageStore(ROOT, config, files=self.files, clock=self.clock, workers=workers)
        self.opened.append(store)
        return store

    async def started(self, *, hold_sync: bool = False, **settings: Any) -> MessageStore:
        store = self.store(hold_sync=hold_sync, **settings)
        await store.start()
        return store

    async def killed(self) -> None:
        """The process dies: what was written stays, locks go, nothing of it runs any more."""
        for store in self.opened:
            await abandon(store)
        self.opened.clear()
        self.disk.process_died()
        self.files.plan.clear()

    async def power_cut(self) -> None:
        """As `killed`, and what was not synced is gone."""
        await self.killed()
        self.disk = self.disk.power_cut()
        self.files = FaultyFiles(self.disk)


async def abandon(store: MessageStore) -> None:
    names = {
        "store",
        "durability",
        "timed-flush",
        "pool-commit",
        "queue-flush",
        "checkpoint",
        "retention",
        "index-check",
        "log-watch",
    }
    tasks = [task for task in asyncio.all_tasks() if task.get_name().split("/")[0] in names]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def message(body: bytes = b"hello", topic: str = "T", queue_id: int = 0, **fields: Any) -> PutMessage:
    return PutMessage(topic, queue_id, body, **fields)


def put_ok(store: MessageStore, *bodies: bytes, topic: str = "T", queue_id: int = 0) -> list[PutResult]:
    results = [store.put(message(body, topic, queue_id)) for body in bodies]
    assert [result.status for result in results] == [PutStatus.OK] * len(bodies)
    return results


def bodies_of(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    found: list[bytes] = []
    offset = store.min_offset(topic, queue_id)
    while (answer := store.get(topic, queue_id, offset, 32, 1 << 20)).count:
        found += [message.body for message in decode_records(b"".join(answer.slices))]
        offset = answer.next_offset
    return found
