"""Stores the copy of a waiting message in the topic that it is meant for.

Owns        what of a waiting message is delivered, what is passed by and why, the copy.
Must not know   when a message is due, how far deliveries have come.

Rules (RocketMQ's ScheduleMessageService, TimerMessageStore): the copy keeps the properties of the waiting message, also
those that named its target. A record that is gone is passed by. The half topic is never a target.

Departures: a message that no store would ever take is passed by (Apache tries it for ever). A queue that the topic no
longer has is replaced by one that consumers read (topics/readable_queue.py). A copy has a unique key in any case.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.delay.delivered import DeliveredBefore, with_unique_key
from rocketlake.broker.stored_message import copy_message
from rocketlake.codec.record import decode_record
from rocketlake.codec.record_layout import RecordError
from rocketlake.codec.record_parts import properties_block
from rocketlake.model.message import StoredMessage
from rocketlake.model.positions import PhysicalOffset
from rocketlake.model.topic import HALF_TOPIC
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutStatus

__all__ = ["GONE", "Delivery", "nobody_waits"]

_log = get_logger(__name__)

GONE = 0
"""In place of a log offset: the message is passed by."""
_HOPELESS = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_TOO_LONG)


class Delivery:
    """Deliveries from one waiting topic."""

    def __init__(
        self,
        store: MessageStore,
        waiting_topic: str,
        clock: Clock,
        readable: Callable[[str, int], int],
        count_put: Callable[[str, int, int], None],
    ) -> None:
        """`readable`: (topic, queue id) -> a queue that consumers read; `count_put`: counts the copies stored."""
        self._store = store
        self._topic = waiting_topic
        self._readable = readable
        self._count_put = count_put
        self._warnings = RareWarnings(_log, clock=clock)

    def read(self, physical_offset: PhysicalOffset) -> tuple[StoredMessage, bytes] | None:
        """The waiting message and its stored properties: Apache's broker may have stored some that ours would not
        write. None if the record is gone, cannot be read or is none of the topic. Raises NotInMemory."""
        record = self._store.read_record(physical_offset)
        if record is None:
            return None
        try:
            waiting = decode_record(record, check_crc=False, decompress=False)
        except RecordError as error:
            _log.error("delayed message at %d is skipped, it cannot be read: %s", physical_offset, error)
            return None
        return (waiting, properties_block(record)) if waiting.topic == self._topic else None

    def deliver(
        self,
        waiting: StoredMessage,
        properties: bytes,
        target: tuple[str, int] | None,
        before: DeliveredBefore,
        level: int,
    ) -> int | None:
        """Store the copy, if there is none yet. Returns the log offset behind it, GONE if there will be none, None to
        try it again. Raises NotInMemory."""
        place = waiting.physical_offset
        if target is None or target[0] == HALF_TOPIC:
            _log.error("delayed message at %d is skipped: it names no target topic that may take it", place)
            return GONE
        topic, queue_id = target
        if self._store.deletions.is_dead(topic, PhysicalOffset(place)):
            return GONE  # its topic was deleted meanwhile, with all its messages
        end = before.end_of_copy(level, waiting, topic)
        return self._put(waiting, with_unique_key(waiting, properties), topic, queue_id) if end is None else end

    def _put(self, waiting: StoredMessage, properties: bytes, topic: str, queue_id: int) -> int | None:
        message = copy_message(waiting, topic, self._readable(topic, queue_id))
        message.properties = properties
        result = self._store.put(message)
        if result.status in _HOPELESS:
            place = waiting.physical_offset
            _log.error("delayed message at %d is skipped, no store would take it: %s", place, result.reason)
            return GONE
        if result.status is not PutStatus.OK:
            self._warnings.warn("put", "delayed messages wait: %s %s", result.status.name, result.reason)
            return None
        self._count_put(topic, 1, result.size)
        # No sender waits for this copy. With SYNC_FLUSH consumers can read it after a sync only: ask for one.
        self._store.when_durable(result, wait=False, done=nobody_waits)
        return result.next_offset


def nobody_waits(_status: PutStatus) -> None:
    """The copy is stored; how safe it is shows in the progress of deliveries."""
