"""Requests that tests write themselves, field by field, instead of asking the client for them."""

from __future__ import annotations

from typing import Any

from rocketlake.protocol.headers.pull import PULL_SUBSCRIPTION, PULL_SUSPEND, PullHeader
from rocketlake.protocol.headers.send import SendHeaderV2


def send_header(topic: str = "T", queue_id: int = 0, properties: str = "", **fields: Any) -> SendHeaderV2:
    """The header of an ordinary send; `fields` are what the test wants otherwise."""
    usual: dict[str, Any] = {
        "producer_group": "p",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "sys_flag": 0,
        "born_timestamp": 1,
        "flag": 0,
    }
    return SendHeaderV2(**{**usual, "topic": topic, "queue_id": queue_id, "properties": properties, **fields})


def pull_header(topic: str = "T", queue_id: int = 0, offset: int = 0, wait_ms: int = 0, **fields: Any) -> PullHeader:
    """The header of an ordinary pull, which waits if `wait_ms` is given; `fields` are what the test wants otherwise."""
    usual: dict[str, Any] = {
        "consumer_group": "g",
        "max_msg_nums": 32,
        "sys_flag": PULL_SUBSCRIPTION | (PULL_SUSPEND if wait_ms else 0),
        "commit_offset": 0,
        "suspend_timeout_millis": wait_ms,
        "sub_version": 0,
        "subscription": "*",
    }
    return PullHeader(**{**usual, "topic": topic, "queue_id": queue_id, "queue_offset": offset, **fields})
