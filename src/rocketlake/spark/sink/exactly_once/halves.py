"""The half messages of one task, on their way to the brokers, and the list of their places.

Owns        the properties that make a message a half message, the requests under way at once.
Must not know   rows, what is decided.

A request without an answer is sent again. The first copy may lie in the half topic, too; no list names it, so it is
never committed, and rolled back when the broker asks.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocketlake.client.wire import Outgoing
from rocketlake.codec import property_text
from rocketlake.model import property_names as names
from rocketlake.model.message_id import parse_offset_message_id
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.sink.exactly_once.calls import Calls, all_of
from rocketlake.spark.sink.exactly_once.records import PLACE, HalfList
from rocketlake.spark.sink.identity import BATCH_PROPERTY

__all__ = ["HalfMessage", "HalfWriter", "half_properties"]

LIST_MAX = 20_000
"""Half messages of one list: under half a MiB, which every broker takes."""


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """A message to be sent. `number`: of its row in the task; it ends the unique key."""

    number: int
    queue: MessageQueue
    body: bytes
    properties: bytes
    """With the unique key, without `half_properties`."""


def half_properties(group: str, query: str, batch: int, immunity_seconds: int) -> bytes:
    """The properties that half messages of a batch have: brokers do not ask about it for so long."""
    return property_text.encode(
        {
            names.TRANSACTION_PREPARED: "true",
            names.PRODUCER_GROUP: group,
            names.CHECK_IMMUNITY_TIME: str(immunity_seconds),
            BATCH_PROPERTY: f"{query}/{batch}",
        }
    )


class HalfWriter:
    """Writes half messages of one attempt of a task."""

    def __init__(self, calls: Calls, properties: bytes) -> None:
        """`properties`: see `half_properties`."""
        self._calls = calls
        self._properties = properties
        self.prefix = secrets.token_hex(12).upper()
        """The start of the unique keys: other ones for each attempt."""
        self.born_ms = 0
        """When the first one was made; 0: there is none."""
        self._targets: dict[tuple[str, str], int] = {}
        self._places: list[tuple[int, int, int, int]] = []

    async def write(self, messages: Sequence[HalfMessage]) -> None:
        """Store them all, at once and in no order. Raises WriteFailed."""
        self.born_ms = self.born_ms or self._calls.client.clock.now_ms()
        await all_of(self._write(message) for message in messages)

    async def _write(self, message: HalfMessage) -> None:
        queue = message.queue
        unique_key = f"{self.prefix}{message.number:08X}"
        outgoing = Outgoing(queue.topic, unique_key, message.body, message.properties + self._properties)
        reply = await self._calls.store(queue, outgoing, f"a half message for {queue}")
        target = self._targets.setdefault((queue.topic, queue.broker_name), len(self._targets))
        log_offset = parse_offset_message_id(reply.msg_id)[2]
        self._places.append((message.number, target, log_offset, reply.queue_offset))

    def lists(self) -> list[HalfList]:
        """All that were stored, in the order of their numbers."""
        places = np.array(self._places, PLACE)
        places.sort(order="row", kind="stable")
        targets = list(self._targets)
        return [
            HalfList.of(self._calls.group, self.prefix, self.born_ms, targets, places[first : first + LIST_MAX])
            for first in range(0, len(places), LIST_MAX)
        ]
