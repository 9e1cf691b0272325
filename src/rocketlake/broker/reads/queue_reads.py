"""Reads a queue for a consumer.

Owns        the limits of one read, the choice between an offset reset, tags and SQL92.
Must not know   requests, askers, rights, how records are found, how a read waits.
"""

from __future__ import annotations

from typing import Protocol

from rocketlake.base.clock import Clock
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.property_filter import read_tested, record_test
from rocketlake.broker.rights.read import Admission, ReadAsked
from rocketlake.model.positions import QueueOffset
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetResult, GetStatus

__all__ = ["BYTES_MAX", "MESSAGES_MAX", "PullAsked", "QueueReads"]

MESSAGES_MAX = 4096
"""Queue entries one pull may make the store look at; how many it gets is a setting of the store."""
BYTES_MAX = 128 * 1024 * 1024


class PullAsked(ReadAsked, Protocol):
    """What a pull asks for: its typed header has these values, and so has a pull that a kernel cut from a chunk."""

    @property
    def queue_offset(self) -> int: ...
    @property
    def max_msg_nums(self) -> int: ...
    @property
    def max_msg_bytes(self) -> int | None: ...
    @property
    def commit_offset(self) -> int: ...
    @property
    def suspend_timeout_millis(self) -> int: ...


class QueueReads:
    """Reads for pulls that were admitted."""

    def __init__(self, store: MessageStore, offsets: OffsetTable, clock: Clock) -> None:
        self._store = store
        self._offsets = offsets
        self._clock = clock

    def read(self, pull: PullAsked, admission: Admission, *, wait: bool) -> GetResult:
        """What the pull finds. A pending offset reset is taken by it. `wait`: for the disk, if records are cold."""
        name, queue_id, offset = pull.topic, pull.queue_id, QueueOffset(pull.queue_offset)
        restart = self._offsets.take_reset(pull.consumer_group, name, queue_id)
        if restart >= 0:
            low, high = self.ends(pull)
            return GetResult(GetStatus.OFFSET_RESET, next_offset=QueueOffset(restart), min_offset=low, max_offset=high)
        bytes_max = BYTES_MAX if pull.max_msg_bytes is None else pull.max_msg_bytes
        messages_max = max(1, min(pull.max_msg_nums, MESSAGES_MAX))  # Go's PullConsumer asks for 0 and means 1
        subscription = admission.subscription
        if not subscription.is_tag_type:
            asked = (name, queue_id, offset, messages_max, bytes_max)
            return read_tested(self._store, self._clock, asked, record_test(subscription.expression), wait=wait)
        return self._store.get(name, queue_id, offset, messages_max, bytes_max, match=admission.match, wait=wait)

    def has_reset(self, pull: PullAsked) -> bool:
        """True while an offset reset waits for the next pull of this group from this queue."""
        return self._offsets.has_reset(pull.consumer_group, pull.topic, pull.queue_id)

    def ends(self, pull: PullAsked) -> tuple[QueueOffset, QueueOffset]:
        """(first offset that can be read, offset of the next message) of the queue."""
        name, queue_id = pull.topic, pull.queue_id
        return self._store.min_offset(name, queue_id), self._store.max_offset(name, queue_id)
