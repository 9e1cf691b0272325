"""Plain reads for pops: records that lie in memory, found by the kernel that finds those of pulls.

Owns        when a pop is read so.
Must not know   how records are found (store/plain_fetch.pyx), what a pop hands out of them.

What is not found here is read by MessageStore.get, which finds the same.
"""

from __future__ import annotations

from rocketlake.base.errors import RocketLakeError
from rocketlake.model.positions import QueueOffset
from rocketlake.store import plain_fetch
from rocketlake.store.fetch import MatchTag
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["PlainReads"]


class PlainReads:
    """Reads queues of one store, in `with` blocks of one turn of the loop each."""

    def __init__(self, store: MessageStore) -> None:
        self._find = store.queues.find
        self._wait = store.disk_wait
        self._fetch = plain_fetch.PlainFetch(store.fetch)
        self._before = True

    def __enter__(self) -> None:
        self._before = self._wait.is_allowed
        self._fetch.begin()

    def __exit__(self, *_error: object) -> None:
        self._fetch.end()
        self._wait.is_allowed = self._before

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        messages_max: int,
        bytes_max: int,
        *,
        match: MatchTag | None,
    ) -> GetResult | None:
        """What MessageStore.get finds without waiting; None if it must be asked."""
        queue, fetch = self._find(topic, queue_id), self._fetch
        if queue is None:
            return None
        try:
            if not fetch.fetch(queue, offset, messages_max, bytes_max, match):
                return None
            pieces = fetch.framed(b"")
        except (RocketLakeError, OSError):
            return None
        next_offset = QueueOffset(fetch.next_offset)
        result = GetResult(
            GetStatus.FOUND,
            [memoryview(piece) for piece in pieces if piece],
            next_offset,
            QueueOffset(fetch.min_offset),
            QueueOffset(fetch.max_offset),
            fetch.size,
            fetch.count,
        )
        if fetch.count == next_offset - offset:  # the kernel has compared the numbers in the records
            result.offsets = range(offset, next_offset)
        return result
