"""Offsets: of groups (query, update) and of queues (minimum, maximum, by time, time of the earliest message).

Owns        the checks and answers of codes 14, 15 and 29 to 32.
Must not know   where offsets are kept.
"""

from __future__ import annotations

from rocketlake.auth.action import Action, on_group
from rocketlake.base.clock import Millis
from rocketlake.base.errors import RemoteError
from rocketlake.base.logs import get_logger
from rocketlake.broker.clients.consumers import ConsumerTable
from rocketlake.broker.clients.member import SILENT_SECONDS_MAX
from rocketlake.broker.groups.table import GroupTable
from rocketlake.broker.offsets.table import OffsetTable
from rocketlake.broker.topics.table import TopicTable
from rocketlake.model.positions import QueueOffset
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.headers.offset import (
    EarliestTimeHeader,
    MaxOffsetHeader,
    MinOffsetHeader,
    OffsetReplyHeader,
    QueryOffsetHeader,
    SearchOffsetHeader,
    TimestampReplyHeader,
    UpdateOffsetHeader,
)
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore

__all__ = ["Offset"]

_log = get_logger(__name__)

_FIRST = QueueOffset(0)


class Offset:
    """Answers and changes the offsets of groups, answers the ends of queues."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerTable,
        offsets: OffsetTable,
        gate: AccessGate,
    ) -> None:
        """`gate`: asked when a group is put behind the end of a queue, where it misses new messages."""
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._gate = gate

    def query(self, request: Request) -> Reply:
        """QUERY_CONSUMER_OFFSET: the stored offset; 0 for a new group on a queue whose first message lies in memory."""
        header = request.header(QueryOffsetHeader)
        offset = self._offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset >= 0:
            return _offset(offset)
        if header.set_zero_if_not_found is False:
            raise RemoteError(
                "Not found, do not set to zero, maybe this group boot first", code=ResponseCode.QUERY_NOT_FOUND
            )
        if self._is_young(header.topic, header.queue_id):
            return _offset(0)
        raise RemoteError("Not found, maybe this group consumer boot first", code=ResponseCode.QUERY_NOT_FOUND)

    def update(self, request: Request) -> Reply:
        """UPDATE_CONSUMER_OFFSET: keep the offset of a consumer; not while a reset waits for its next pull."""
        header = request.header(UpdateOffsetHeader)
        group, name, queue_id = header.consumer_group, header.topic, header.queue_id
        if self._groups.find_or_create(group) is None:
            raise RemoteError(f"Group {group} not exist!", code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        topic = self._topics.get(name)
        if topic is None:
            raise RemoteError(f"Topic {name} not exist!", code=ResponseCode.TOPIC_NOT_EXIST)
        if not 0 <= queue_id < topic.queues:
            raise RemoteError(f"QueueId is {queue_id}, topic {name}", code=ResponseCode.INVALID_PARAMETER)
        if header.commit_offset < 0:
            raise RemoteError(f"Offset is {header.commit_offset}", code=ResponseCode.INVALID_PARAMETER)
        end = self._store.max_offset(name, queue_id)
        if header.commit_offset > end + 1:  # Spark's first offsets are kept as offset + 1
            what = f"offset {header.commit_offset} of group {group} behind the end {end} of queue {queue_id} of {name}"
            self._gate.check_admin(request, what, on_group(group, Action.UPDATE))
        if self._offsets.has_reset(group, name, queue_id):
            if self._will_pull(group):
                return Reply(remark="Offset has been previously reset")
            self._offsets.take_reset(group, name, queue_id)
            _log.info(
                "group %s commits but does not pull: it goes on at %d of %s/%d, not at the offset of its reset",
                group, header.commit_offset, name, queue_id,
            )  # fmt: skip
        self._offsets.commit(group, name, queue_id, header.commit_offset)
        return Reply()

    def _will_pull(self, group: str) -> bool:
        """True if a member of the group may still pull and take the reset. A live member is not silent for so long."""
        return self._consumers.find(group) is not None or (
            self._offsets.seconds_since_reset(group) < SILENT_SECONDS_MAX
        )

    def by_time(self, request: Request) -> Reply:
        """SEARCH_OFFSET_BY_TIMESTAMP."""
        header = request.header(SearchOffsetHeader)
        if not self._has_queue(header.topic, header.queue_id):
            return _offset(0)
        ms = Millis(header.timestamp)
        return _offset(self._store.offset_by_time(header.topic, header.queue_id, ms, upper=header.upper))

    def maximum(self, request: Request) -> Reply:
        """GET_MAX_OFFSET: the offset the next message will get."""
        header = request.header(MaxOffsetHeader)
        if not self._has_queue(header.topic, header.queue_id):
            return _offset(0)
        return _offset(self._store.max_offset(header.topic, header.queue_id))

    def minimum(self, request: Request) -> Reply:
        """GET_MIN_OFFSET: the first offset that can still be read."""
        header = request.header(MinOffsetHeader)
        if not self._has_queue(header.topic, header.queue_id):
            return _offset(0)
        return _offset(max(0, self._store.min_offset(header.topic, header.queue_id)))

    def earliest_time(self, request: Request) -> Reply:
        """GET_EARLIEST_MSG_STORETIME: when the first message of a queue was stored, -1 if there is none."""
        header = request.header(EarliestTimeHeader)
        stored_ms = -1
        if self._has_queue(header.topic, header.queue_id):
            stored_ms = self._store.earliest_store_ms(header.topic, header.queue_id)
        return Reply(header=TimestampReplyHeader(timestamp=stored_ms))

    def _has_queue(self, name: str, queue_id: int) -> bool:
        # A question about an unknown queue must not make the queue.
        topic = self._topics.get(name)
        return topic is not None and 0 <= queue_id < topic.queues

    def _is_young(self, name: str, queue_id: int) -> bool:
        """True if the first message that the queue ever had is still there, and lies in memory."""
        if not self._has_queue(name, queue_id) or self._store.min_offset(name, queue_id) > 0:
            return False
        return self._store.is_in_memory(name, queue_id, _FIRST)


def _offset(offset: int) -> Reply:
    return Reply(header=OffsetReplyHeader(offset=offset))
