"""Offsets of the Spark source: one number per queue, as Spark's checkpoint keeps them.

Owns        the JSON form {"topic": {"broker": {"queue id": n}}}, naming queues to people.
Must not know   Spark classes, the network, options (positions.py).

Spark compares offsets as JSON text (tests/spark/test_facts.py), so the order of keys is part of the value: topics and
brokers by name, queue ids by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue

__all__ = ["MARKS", "Nested", "Offsets", "describe", "describe_all", "from_nested", "to_nested"]

Offsets = dict[MessageQueue, int]
Nested = dict[str, dict[str, dict[str, int]]]

MARKS = "#read"
"""Key of the marks among the topics (incarnations.py); no topic has such a name."""
_NAMED_AT_ONCE = 8


def to_nested(offsets: Mapping[MessageQueue, int]) -> Nested:
    """Offsets as nested dicts in canonical order: equal offsets give equal JSON text."""
    nested: Nested = {}
    for queue in sorted(offsets):
        nested.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def from_nested(nested: Mapping[str, Any]) -> Offsets:
    """Read what to_nested made. UsageError for any other text in a checkpoint."""
    offsets: Offsets = {}
    try:
        for topic, brokers in nested.items():
            if topic == MARKS:
                continue
            for broker, queues in brokers.items():
                for queue_id, offset in queues.items():
                    offsets[MessageQueue(topic, broker, int(queue_id))] = _whole(offset)
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f'these are not offsets of format("rocketmq"): {json.dumps(nested)[:200]}',
            hint="use a checkpoint folder of this query: this one belongs to another source",
        ) from error
    return offsets


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def describe(queue: MessageQueue) -> str:
    """A queue for a human reader."""
    return f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"


def describe_all(queues: Iterable[MessageQueue]) -> str:
    """Some queues for a human reader; the first few if they are many."""
    listed = sorted(queues)
    more = f" and {len(listed) - _NAMED_AT_ONCE} more" if len(listed) > _NAMED_AT_ONCE else ""
    return ("; ".join(describe(queue) for queue in listed[:_NAMED_AT_ONCE]) or "none") + more
