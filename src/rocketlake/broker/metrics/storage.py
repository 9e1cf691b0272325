"""The store: room, what is behind, flushes.

Owns        the families of the store.
Must not know   how it works.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from rocketlake.base.clock import Clock
from rocketlake.base.errors import StoreError
from rocketlake.broker.metrics.labels import STORAGE
from rocketlake.net.http.exposition import Family, labels_text, number
from rocketlake.store.message_store import MessageStore

__all__ = ["storage_families"]


async def storage_families(store: MessageStore, clock: Clock) -> AsyncGenerator[Family, None]:
    """The oldest record may have to be read from disk, by a worker."""
    total, free = store.retention.disk_room
    end = store.max_physical_offset
    used = "Used bytes of the file system that holds the store"
    yield Family("rocketmq_storage_size", "gauge", used, [(STORAGE, total - free)], "bytes")
    behind = [(STORAGE, end - store.flushed_offset)]
    yield Family("rocketmq_storage_flush_behind_bytes", "gauge", "Bytes of the log not on disk", behind, "bytes")
    behind = [(STORAGE, end - store.dispatched_offset)]
    yield Family(
        "rocketmq_storage_dispatch_behind_bytes", "gauge", "Bytes of the log not in the queues yet", behind, "bytes"
    )
    age = [(STORAGE, await _age_ms(store, clock))]
    yield Family("rocketmq_storage_message_reserve_time", "gauge", "Age of the oldest message", age, "milliseconds")
    flushes = [(labels_text({"kind": kind}), times) for kind, times in store.flush_seconds.items()]
    yield Family("rocketlake_flush", "histogram", "Time of the syncs and commits of the log", flushes, "seconds")
    yield number("rocketlake_disk_free", "Free bytes of that file system", free, "bytes")
    yield number("rocketlake_disk_total", "All bytes of that file system", total, "bytes")
    yield number("rocketlake_log_min_offset", "Where the log begins", store.min_physical_offset, "bytes")
    yield number("rocketlake_log_max_offset", "Where the log ends", end, "bytes")
    yield number("rocketlake_writable", "1 while the store takes messages", store.writable)


async def _age_ms(store: MessageStore, clock: Clock) -> int:
    start = store.min_physical_offset
    if start >= store.max_physical_offset:
        return 0
    try:
        stored = await store.read(partial(store.log.store_ms_at, start))
    except (OSError, StoreError):
        return 0
    return max(0, clock.now_ms() - stored) if stored > 0 else 0
