"""Who serves which request: one row for each request code.

Owns        code -> handler, the lane whose limits count, what the asker may change by it.
Must not know   what the handlers do.

The columns: request code; handler; lane (its oldest age and how many may wait are settings, see flow_control.py); Use.
Codes that are not here are answered REQUEST_CODE_NOT_SUPPORTED.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from rocketlake.broker.flow_control import Lane
from rocketlake.broker.processors.client import Client
from rocketlake.broker.processors.lock import Lock
from rocketlake.broker.processors.offset import Offset
from rocketlake.broker.processors.pull import Pull
from rocketlake.broker.processors.query import Query
from rocketlake.broker.processors.send import Send
from rocketlake.broker.processors.send_back import SendBack
from rocketlake.net import dispatcher
from rocketlake.net.admin_access import AdminAccess, guard
from rocketlake.net.request import Handler
from rocketlake.protocol.request_code import RequestCode as Code

__all__ = ["Processors", "Row", "Use", "dispatcher_rows", "rows"]


class Use(Enum):
    """What a request does to others: publish, subscribe, only read, or change what everybody relies on."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    READ = "read"
    CHANGE = "change"
    """Allowed by the setting adminAccess (docs/decisions/0005)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One request code."""

    code: Code
    handler: Handler
    lane: Lane
    use: Use


@dataclass(frozen=True, slots=True)
class Processors:
    """The processors of one broker."""

    send: Send
    send_back: SendBack
    pull: Pull
    query: Query
    offset: Offset
    client: Client
    lock: Lock


def rows(serve: Processors) -> Iterator[Row]:
    """Every request this broker serves."""
    # fmt: off
    yield Row(Code.SEND_MESSAGE,               serve.send.send,            Lane.SEND,      Use.PUBLISH)
    yield Row(Code.SEND_MESSAGE_V2,            serve.send.send,            Lane.SEND,      Use.PUBLISH)
    yield Row(Code.SEND_BATCH_MESSAGE,         serve.send.send,            Lane.SEND,      Use.PUBLISH)
    yield Row(Code.CONSUMER_SEND_MSG_BACK,     serve.send_back.send_back,  Lane.SEND,      Use.SUBSCRIBE)

    yield Row(Code.PULL_MESSAGE,               serve.pull.pull,            Lane.PULL,      Use.SUBSCRIBE)
    yield Row(Code.LITE_PULL_MESSAGE,          serve.pull.pull,            Lane.PULL,      Use.SUBSCRIBE)
    yield Row(Code.QUERY_MESSAGE,              serve.query.by_key,         Lane.ADMIN,     Use.READ)
    yield Row(Code.VIEW_MESSAGE_BY_ID,         serve.query.by_offset,      Lane.ADMIN,     Use.READ)

    yield Row(Code.QUERY_CONSUMER_OFFSET,      serve.offset.query,         Lane.QUICK,     Use.SUBSCRIBE)
    yield Row(Code.UPDATE_CONSUMER_OFFSET,     serve.offset.update,        Lane.QUICK,     Use.SUBSCRIBE)
    yield Row(Code.SEARCH_OFFSET_BY_TIMESTAMP, serve.offset.by_time,       Lane.ADMIN,     Use.READ)
    yield Row(Code.GET_MAX_OFFSET,             serve.offset.maximum,       Lane.QUICK,     Use.READ)
    yield Row(Code.GET_MIN_OFFSET,             serve.offset.minimum,       Lane.QUICK,     Use.READ)
    yield Row(Code.GET_EARLIEST_MSG_STORETIME, serve.offset.earliest_time, Lane.QUICK,     Use.READ)

    yield Row(Code.HEART_BEAT,                 serve.client.heartbeat,     Lane.HEARTBEAT, Use.SUBSCRIBE)
    yield Row(Code.UNREGISTER_CLIENT,          serve.client.unregister,    Lane.QUICK,     Use.SUBSCRIBE)
    yield Row(Code.GET_CONSUMER_LIST_BY_GROUP, serve.client.members,       Lane.QUICK,     Use.SUBSCRIBE)
    yield Row(Code.CHECK_CLIENT_CONFIG,        serve.client.check_config,  Lane.QUICK,     Use.SUBSCRIBE)
    yield Row(Code.LOCK_BATCH_MQ,              serve.lock.lock,            Lane.QUICK,     Use.SUBSCRIBE)
    yield Row(Code.UNLOCK_BATCH_MQ,            serve.lock.unlock,          Lane.QUICK,     Use.SUBSCRIBE)
    # fmt: on


def dispatcher_rows(serve: Processors, admin_access: AdminAccess) -> Iterator[dispatcher.Row]:
    """The rows as the dispatcher takes them, with a guard before those that change what others rely on."""
    for row in rows(serve):
        handler = guard(admin_access, row.handler) if row.use is Use.CHANGE else row.handler
        yield dispatcher.Row(row.code, handler, row.lane.value)
