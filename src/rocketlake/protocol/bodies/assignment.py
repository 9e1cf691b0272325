"""Bodies of QUERY_ASSIGNMENT and SET_MESSAGE_REQUEST_MODE.

Owns        their shape.
Must not know   the sharing of queues.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from rocketlake.protocol.bodies.body import UNTYPED_BYTES_MAX, Body, Entry
from rocketlake.protocol.bodies.java_enum import MessageModel, MessageRequestMode
from rocketlake.protocol.bodies.queue_map import QueueEntry


class AssignmentRequest(Body, kw_only=True):
    """QUERY_ASSIGNMENT; `strategy_name` AVG or AVG_BY_CIRCLE."""

    untyped_bytes_max: ClassVar[int | None] = UNTYPED_BYTES_MAX
    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: MessageModel = "CLUSTERING"


class AssignmentEntry(Entry, kw_only=True):
    """One queue and how to read it: `mode` PULL or POP."""

    message_queue: QueueEntry
    mode: MessageRequestMode = "PULL"


class AssignmentReply(Body, kw_only=True):
    """Answer of QUERY_ASSIGNMENT; absent = "keep what you have", empty = "you have none"."""

    assignments: list[AssignmentEntry] | None = field(default=None, name="messageQueueAssignments")


class RequestModeBody(Body, kw_only=True):
    """SET_MESSAGE_REQUEST_MODE."""

    topic: str
    consumer_group: str
    mode: MessageRequestMode = "PULL"
    pop_share_queue_num: int = 0


class RequestModesBody(Body, kw_only=True):
    """Answer of GET_ALL_MESSAGE_REQUEST_MODE: by topic, by group."""

    modes: dict[str, dict[str, RequestModeBody]] = field(default_factory=dict, name="messageRequestModeMap")
