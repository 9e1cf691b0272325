"""What a pull leaves behind: how far its group has fetched and consumed, and the figures of the broker.

Owns        when the offset that a consumer brings along is kept.
Must not know   requests, askers, how offsets and figures are kept.
"""

from __future__ import annotations

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.reads.queue_reads import PullAsked
from rocketlake.broker.stats import BrokerStats
from rocketlake.protocol.headers.pull import PULL_COMMIT_OFFSET
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["ReadProgress"]

_log = get_logger(__name__)


class ReadProgress:
    """Notes what pulls have done."""

    def __init__(self, store: MessageStore, offsets: OffsetTable, stats: BrokerStats, clock: Clock) -> None:
        self._store = store
        self._offsets = offsets
        self._stats = stats
        self._warnings = RareWarnings(_log, clock=clock)

    def note_read(self, pull: PullAsked, result: GetResult) -> None:
        """The pull has read."""
        if result.status is GetStatus.FOUND:
            self.note_found(pull, result.next_offset, result.count, result.bytes)
        else:
            self._offsets.commit_pull(pull.consumer_group, pull.topic, pull.queue_id, result.next_offset)

    def note_found(self, pull: PullAsked, next_offset: int, count: int, size: int) -> None:
        """The pull found messages, which are sent now."""
        self._offsets.commit_pull(pull.consumer_group, pull.topic, pull.queue_id, next_offset)
        self._stats.count_get(pull.consumer_group, pull.topic, count, size)

    def note_at_end(self, pull: PullAsked) -> None:
        """The pull is at the end of its queue, and waits there."""
        self._offsets.commit_pull(pull.consumer_group, pull.topic, pull.queue_id, pull.queue_offset)
        self.keep_brought(pull)

    def keep_brought(self, pull: PullAsked) -> None:
        """Keep the offset that the consumer brings along. Once, when the pull comes: later it may be an old one."""
        if not pull.sys_flag & PULL_COMMIT_OFFSET or pull.commit_offset < 0:
            return
        group, name, queue_id = pull.consumer_group, pull.topic, pull.queue_id
        end = self._store.max_offset(name, queue_id)
        if pull.commit_offset <= end:
            self._offsets.commit(group, name, queue_id, pull.commit_offset)
        else:  # the queue never had these messages
            text = "group %s brings offset %d of queue %d of %s, which ends at %d: it is not kept"
            self._warnings.warn(f"{group}/{name}", text, group, pull.commit_offset, queue_id, name, end)
