"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: find messages by key or by their place in the log.

Owns        the limits of a query, the answers.
Must not know   the key index.
"""

from __future__ import annotations

from rocketlake.auth.action import Action, on_topic
from rocketlake.base.clock import Millis
from rocketlake.base.errors import RemoteError
from rocketlake.broker.rights.read import INNER_TOPICS
from rocketlake.broker.topics.table import TopicTable
from rocketlake.codec.record import decode_record
from rocketlake.model.positions import PhysicalOffset
from rocketlake.net.gate.access_gate import AccessGate
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.headers.query import QueryMessageHeader, QueryMessageReplyHeader, ViewMessageHeader
from rocketlake.protocol.request_code import request_name
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.store.message_store import MessageStore

__all__ = ["Query"]

_UNIQUE_KEY_HITS_MAX = 32
"""defaultQueryMaxNum: the limit of a query by unique key, whatever number it asks for."""
_HITS_MAX = 64
"""maxMsgsNumBatch of RocketMQ's store."""


class Query:
    """Looks messages up."""

    def __init__(self, store: MessageStore, topics: TopicTable, gate: AccessGate) -> None:
        """`gate`: asked about the topic of a message that only its place names."""
        self._store = store
        self._topics = topics
        self._gate = gate

    def by_key(self, request: Request) -> Reply:
        """QUERY_MESSAGE: records with a key, stored in a span of time."""
        header = request.header(QueryMessageHeader)
        self._check(request, header.topic)
        count_max = _UNIQUE_KEY_HITS_MAX if header.unique_key else min(header.max_num, _HITS_MAX)
        if header.topic in self._topics and count_max > 0:
            found = self._store.query(
                header.topic,
                header.key,
                count_max,
                Millis(header.begin_timestamp),
                Millis(header.end_timestamp),
                unique=header.unique_key,
            )
            if found.slices:
                reply = QueryMessageReplyHeader(
                    index_last_update_timestamp=found.index_last_ms,
                    index_last_update_phyoffset=found.index_last_offset,
                )
                return Reply(header=reply, body=found.slices)
        raise RemoteError("can not find message, maybe time range not correct", code=ResponseCode.QUERY_NOT_FOUND)

    def by_offset(self, request: Request) -> Reply:
        """VIEW_MESSAGE_BY_ID: the record at a physical offset."""
        header = request.header(ViewMessageHeader)
        record = self._store.readable_record(PhysicalOffset(header.offset))
        if record is None:
            raise RemoteError(f"can not find message by the offset, {header.offset}", code=ResponseCode.SYSTEM_ERROR)
        # The field topic only claims; without decompressing, this reads the head of the record.
        self._check(request, decode_record(record, check_crc=False, decompress=False).topic)
        return Reply(body=[record])

    def _check(self, request: Request, topic: str) -> None:
        if topic in INNER_TOPICS:
            self._gate.check_admin(request, f"{request_name(request.code)} of {topic}")
        self._gate.check_more(request, on_topic(topic, Action.SUB, Action.GET))
