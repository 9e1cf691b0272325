"""Requests that tests write themselves, field by field, instead of asking the client for them."""

from __future__ import annotations

from typing import Any

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
