"""Puts messages that were not acknowledged in time into the retry topic of their group.

Owns        the copy: its topic, marks and number of tries (RocketMQ's PopReviveService).
Must not know   check points, when a message comes again.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketlake.base.clock import Clock, Millis
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.broker.config import LiveConfig
from rocketlake.broker.intake.intake import Intake
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.stored_message import copy_message
from rocketlake.broker.topics.auto_create import AutoCreate
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import decode_records
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage
from rocketlake.model.pop import NO_RETRY, RETRY_V1, RETRY_V2, mark_of, pop_retry_topic
from rocketlake.model.positions import PhysicalOffset
from rocketlake.protocol.bodies.pop import CheckPoint
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutStatus

__all__ = ["PopRetries"]

_log = get_logger(__name__)

_CLOCKS_DIFFER_MS = 600_000
"""The store time of the copy is that of another broker, perhaps."""
_ANY_TIME = Millis(1 << 62)
_HITS_MAX = 64
_TIMES_OVER = (*names.TIMERS, names.TIMER_OUT_MS, names.DELAY)
"""The message was delivered: its copy is not delayed again."""


class PopRetries:
    """Stores the copies."""

    def __init__(
        self,
        *,
        config: LiveConfig,
        store: MessageStore,
        intake: Intake,
        topics: TopicTable,
        offsets: OffsetTable,
        auto_create: AutoCreate,
        clock: Clock,
        store_address: Callable[[], tuple[str, int]],
    ) -> None:
        self._config = config
        self._store = store
        self._intake = intake
        self._topics = topics
        self._offsets = offsets
        self._auto_create = auto_create
        self._store_address = store_address
        self._warnings = RareWarnings(_log, clock=clock)

    def prepare(self, point: CheckPoint) -> bool:
        """Make the retry topic, unless it is there. True if it is, and will be after a crash."""
        topic = self._topic(point)
        if self._topics.get(topic) is None:
            self._auto_create.for_group(topic, 1)
            self._offsets.commit(point.group, topic, 0, 0)
        return topic not in self._topics.unsaved

    def put(self, message: StoredMessage, point: CheckPoint) -> bool:
        """Store the copy of one message of the check point. False: not now, try it again."""
        properties = {name: value for name, value in message.properties.items() if name not in _TIMES_OVER}
        marks = {names.ORIGIN_GROUP: point.group}
        if message.reconsume_times == 0 or names.FIRST_POP_TIME not in properties:
            marks[names.FIRST_POP_TIME] = str(point.pop_ms)
        copy = copy_message(message, self._topic(point), 0)
        copy.born_host = copy.store_host = encode_host(*self._store_address())
        copy.reconsume_times += not point.suspend
        result = self._intake.put(copy, {**properties, **marks})
        if result.status is PutStatus.PROPERTIES_TOO_LONG:  # they were stored without the marks once
            result = self._intake.put(copy, properties)
        if not result.status.is_stored:
            self._warnings.warn(
                "put", "messages that were not acknowledged wait: %s %s", result.status.name, result.reason
            )
            return False
        # No sender waits for this copy. With SYNC_FLUSH consumers can read it after a sync only: ask for one.
        self._intake.when_durable(result, {names.WAIT: "false"}, lambda _status: None)
        return True

    def has_copy(self, message: StoredMessage, point: CheckPoint, behind: PhysicalOffset) -> bool:
        """True if the log has the copy already, behind the record of its check point. Raises NotInMemory.

        The key index leads to it: a message without a unique key is not found, and none is without the index.
        """
        if not message.unique_key:
            return False
        begin = Millis(max(0, point.pop_ms - _CLOCKS_DIFFER_MS))
        tries = message.reconsume_times + (not point.suspend)
        found = self._store.query(self._topic(point), message.unique_key, _HITS_MAX, begin, _ANY_TIME, unique=True)
        return any(
            copy.physical_offset > behind and copy.reconsume_times >= tries and copy.body_crc == message.body_crc
            for copy in decode_records(b"".join(found.slices), check_crc=False, decompress=False)
        )

    def _topic(self, point: CheckPoint) -> str:
        if mark_of(point.topic) != NO_RETRY:
            return point.topic
        return pop_retry_topic(point.topic, point.group, RETRY_V2 if self._config.now.retry_topic_v2 else RETRY_V1)
