"""Offsets of the Spark source: one number per queue, as Spark's checkpoint keeps them.

Owns        the JSON form {"topic": {"broker": {"queue id": n}}}, startingOffsets/endingOffsets, sharing a limit.
Must not know   Spark classes, the network.

Spark compares offsets as JSON text (reference spark.md 1.2 fact 10), so the order of keys is part of the value:
topics and brokers by name, queue ids by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rocketlake.base.errors import UsageError
from rocketlake.model.message_queue import MessageQueue

__all__ = [
    "EARLIEST",
    "LATEST",
    "Nested",
    "Offsets",
    "StartPositions",
    "describe",
    "from_nested",
    "parse_positions",
    "share_limit",
    "to_nested",
]

EARLIEST = "earliest"
LATEST = "latest"
_NUMBERS = {-2: EARLIEST, -1: LATEST}

Offsets = dict[MessageQueue, int]
Nested = dict[str, dict[str, dict[str, int]]]


def to_nested(offsets: Mapping[MessageQueue, int]) -> Nested:
    """Offsets as nested dicts in canonical order: equal offsets give equal JSON text."""
    nested: Nested = {}
    for queue in sorted(offsets):
        nested.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def from_nested(nested: Mapping[str, Any]) -> Offsets:
    """Read what to_nested made. UsageError if the text in the checkpoint is something else."""
    offsets: Offsets = {}
    try:
        for topic, brokers in nested.items():
            for broker, queues in brokers.items():
                for queue_id, offset in queues.items():
                    offsets[MessageQueue(topic, broker, int(queue_id))] = _whole(offset)
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f'these are not offsets of format("rocketmq"): {json.dumps(nested)[:200]}',
            hint="the checkpoint belongs to another source; use a checkpoint folder of this query",
        ) from error
    return offsets


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


@dataclass(frozen=True, slots=True)
class StartPositions:
    """Parsed startingOffsets or endingOffsets: a word per topic, or a word or number per queue."""

    option: str
    by_topic: Mapping[str, str]
    by_queue: Mapping[MessageQueue, int | str]

    def mentions(self, word: str) -> bool:
        """Is any queue placed by this word?"""
        return word in self.by_topic.values() or word in self.by_queue.values()

    def resolve(self, low: Mapping[MessageQueue, int], high: Mapping[MessageQueue, int]) -> Offsets:
        """One number per queue of the route; low and high are each queue's first and next offset.

        UsageError when the JSON leaves queues out, names unknown ones, or a number lies past the end.
        """
        self._check_queues(low)
        resolved: Offsets = {}
        for queue in low:
            wanted = self.by_topic.get(queue.topic, "") or self.by_queue[queue]
            if isinstance(wanted, str):
                resolved[queue] = low[queue] if wanted == EARLIEST else high[queue]
                continue
            if wanted > high[queue]:
                raise UsageError(
                    f"option '{self.option}' wants offset {wanted} of {describe(queue)}, past its end",
                    hint=f"the queue holds offsets {low[queue]} to {high[queue]} (next); use one of them or 'latest'",
                )
            resolved[queue] = wanted
        return resolved

    def _check_queues(self, known: Iterable[MessageQueue]) -> None:
        listed = {queue for queue in known if queue.topic not in self.by_topic}
        missing, extra = sorted(listed - self.by_queue.keys()), sorted(self.by_queue.keys() - listed)
        if missing or extra:
            raise UsageError(
                f"option '{self.option}' must name each queue once; missing: {_list(missing)}; unknown: {_list(extra)}",
                hint='a whole topic can be given as {"topic": "earliest"}; -2 = earliest, -1 = latest',
            )


def describe(queue: MessageQueue) -> str:
    """A queue for a human reader."""
    return f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"


def _list(queues: list[MessageQueue]) -> str:
    return "; ".join(describe(queue) for queue in queues[:8]) + (" ..." if len(queues) > 8 else "") or "none"


def parse_positions(option: str, text: str, topics: tuple[str, ...]) -> StartPositions:
    """Parse `earliest`, `latest` or JSON; UsageError names the option, the value and the cure."""
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        if option == "endingOffsets" and word == EARLIEST:
            raise UsageError("option 'endingOffsets' says earliest, and nothing ends before it starts", hint="latest")
        return StartPositions(option, dict.fromkeys(topics, word), {})
    nested = _json_object(option, text)
    if set(nested) != set(topics):
        raise UsageError(
            f"option '{option}' names topics {sorted(nested)}, and 'subscribe' names {sorted(topics)}",
            hint="name the same topics in both",
        )
    by_topic: dict[str, str] = {}
    by_queue: dict[MessageQueue, int | str] = {}
    for topic, value in nested.items():
        if isinstance(value, str):
            by_topic[topic] = str(_position(option, value))
        else:
            by_queue.update(_queues(option, topic, value))
    return StartPositions(option, by_topic, by_queue)


def _json_object(option: str, text: str) -> dict[str, Any]:
    try:
        nested = json.loads(text)
    except ValueError:
        nested = None
    if not isinstance(nested, dict):
        raise UsageError(f"option '{option}' is '{text}'", hint='earliest, latest or {"topic": {"broker": {"0": 23}}}')
    return nested


def _queues(option: str, topic: str, value: Any) -> dict[MessageQueue, int | str]:
    try:
        return {
            MessageQueue(topic, broker, int(queue_id)): _position(option, position)
            for broker, queues in value.items()
            for queue_id, position in queues.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"option '{option}' of topic {topic} is {json.dumps(value)[:200]}",
            hint='{"broker-name": {"0": 23, "1": -2}}',
        ) from error


def _position(option: str, value: Any) -> int | str:
    if isinstance(value, str) and value.lower() in (EARLIEST, LATEST):
        value = value.lower()
    elif isinstance(value, int) and not isinstance(value, bool) and value >= -2:
        value = _NUMBERS.get(value, value)
    else:
        raise UsageError(f"option '{option}' holds position {value!r}", hint="earliest, latest, -2, -1 or an offset")
    if value == EARLIEST and option == "endingOffsets":
        raise UsageError("option 'endingOffsets' holds earliest (-2)", hint="latest (-1) or an offset")
    return value  # type: ignore[no-any-return]


def share_limit(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], limit: int) -> Offsets:
    """End offsets that read about `limit` messages, shared by backlog.

    The rule of Spark's Kafka source: shares are rounded down, but a waiting queue gets at least one message, so that
    a short queue is never starved by long ones. The sum passes `limit` by less than the number of queues.
    """
    backlog = {queue: max(0, end[queue] - start.get(queue, 0)) for queue in end}
    total = sum(backlog.values())
    if total <= limit:
        return dict(end)
    return {
        queue: start.get(queue, 0) + max(1, size * limit // total) if size else end[queue]
        for queue, size in backlog.items()
    }
