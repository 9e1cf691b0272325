"""Maps whose keys are message queues, as Java writes them: the key is a JSON object.

Owns        MessageQueue <-> JSON, `{{"brokerName":"b","queueId":0,"topic":"T"}:value}`.
Must not know   the bodies that have such maps.

Java and the other clients read the object form; Java alone also reads a string key that holds its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketlake.base.java import json_text
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.body import BodyError, Entry, convert, parse
from rocketlake.protocol.bodies.long_text import queue_json


class QueueEntry(Entry, kw_only=True):
    """A message queue as a JSON object."""

    topic: str
    broker_name: str
    queue_id: int

    def to_model(self) -> MessageQueue:
        """The model value."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @classmethod
    def from_model(cls, queue: MessageQueue) -> QueueEntry:
        """From the model value."""
        return cls(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)


def encode_queue_map(values: Mapping[MessageQueue, Any]) -> bytes:
    """Map -> JSON text with object keys; values are plain JSON values."""
    members = (
        json_text.to_text(queue_json(queue)) + b":" + json_text.to_text(value) for queue, value in values.items()
    )
    return b"{" + b",".join(members) + b"}"


def encode_object(members: Mapping[str, bytes]) -> bytes:
    """Names with ready JSON text -> JSON object."""
    return b"{" + b",".join(json_text.to_text(name) + b":" + text for name, text in members.items()) + b"}"


def read_queue_map(parsed: Any, name: str) -> dict[MessageQueue, Any]:
    """Parsed map (its keys are JSON texts, see base.json_text) -> map by message queue. Raises BodyError."""
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise BodyError(f"{name} is no object")
    queues: dict[MessageQueue, Any] = {}
    for key, value in parsed.items():
        found = parse(key.encode(), name)
        if isinstance(found, dict) and "$ref" not in found:
            queues[convert(QueueEntry, found).to_model()] = value
    return queues
