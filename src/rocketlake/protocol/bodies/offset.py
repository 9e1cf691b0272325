"""Bodies of offsets: of all groups, of delay levels, of one client.

Owns        their shape.
Must not know   the table of offsets.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

from msgspec import field

from rocketlake.base.java import json_text
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.body import ANSWER_DIALECT_BYTES_MAX, Body, convert, parse_answer, to_bare_text
from rocketlake.protocol.bodies.data_version import DataVersionBody
from rocketlake.protocol.bodies.long_text import at_once, encoding, queue_json
from rocketlake.protocol.bodies.queue_map import (
    QueueEntry,
    encode_object,
    encode_queue_map,
    read_queue_map,
)
from rocketlake.protocol.command import Buffer


class OffsetTable(Body, kw_only=True):
    """Answer of GET_ALL_CONSUMER_OFFSET: offset by queue id, by `topic@group`."""

    bare_keys_bytes_max: ClassVar[int] = ANSWER_DIALECT_BYTES_MAX
    data_version: DataVersionBody | None = None
    offset_table: dict[str, dict[int, int]] = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON text with unquoted numeric keys, as Java writes it."""
        return to_bare_text(self)


class DelayOffsets(Body, kw_only=True):
    """Answer of GET_ALL_DELAY_OFFSET: offset by delay level."""

    data_version: DataVersionBody | None = None
    offset_table: dict[int, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON text with unquoted numeric keys, as Java writes it."""
        return to_bare_text(self)


class CorrectionOffsets(Body, kw_only=True):
    """Answer of QUERY_CORRECTION_OFFSET: offset by queue id."""

    correction_offsets: dict[int, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON text with unquoted numeric keys, as Java writes it."""
        return b"".join(at_once(self.encoding()))

    def encoding(self) -> Generator[None, None, list[Buffer]]:
        """The same, one queue a step."""
        return encoding({"correctionOffsets": self.correction_offsets}, bare_keys=True)


class ResetOffsets:
    """RESET_CONSUMER_CLIENT_OFFSET and answer of INVOKE_BROKER_TO_RESET_OFFSET: offset by message queue."""

    def __init__(self, offsets: dict[MessageQueue, int]) -> None:
        self.offsets = offsets

    def encode(self, as_list: bool = False) -> bytes:
        """JSON text; `as_list` is the form that C++ clients read."""
        if as_list:
            rows = [{**queue_json(queue), "offset": offset} for queue, offset in self.offsets.items()]
            return json_text.to_text({"offsetTable": rows})
        return encode_object({"offsetTable": encode_queue_map(self.offsets)})

    def encoding(self) -> Generator[None, None, list[Buffer]]:
        """The first form, one queue a step."""
        return encoding({"offsetTable": self.offsets})

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ResetOffsets:
        """Body bytes, either form -> offsets. Raises BodyError."""
        table = parse_answer(data, "ResetOffsets").get("offsetTable")
        if isinstance(table, list):
            rows = [(convert(QueueEntry, row).to_model(), convert(int, row.get("offset"))) for row in table]
            return cls(dict(rows))
        return cls({queue: convert(int, offset) for queue, offset in read_queue_map(table, "offsetTable").items()})


class ConsumerStatus:
    """Answer of GET_CONSUMER_STATUS_FROM_CLIENT (`queues`) and of its broker twin 223 (`clients`, by client id)."""

    def __init__(
        self,
        queues: dict[MessageQueue, int] | None = None,
        clients: dict[str, dict[MessageQueue, int]] | None = None,
    ) -> None:
        self.queues = queues or {}
        self.clients = clients or {}

    def encode(self) -> bytes:
        """JSON text, queues as object keys."""
        clients = encode_object({name: encode_queue_map(queues) for name, queues in self.clients.items()})
        return encode_object({"consumerTable": clients, "messageQueueTable": encode_queue_map(self.queues)})

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ConsumerStatus:
        """Body bytes -> offsets. Raises BodyError."""
        members = parse_answer(data, "ConsumerStatus")
        clients: dict[str, dict[MessageQueue, int]] = {}
        for name, table in (members.get("consumerTable") or {}).items():
            clients[name] = {queue: convert(int, offset) for queue, offset in read_queue_map(table, name).items()}
        queues = read_queue_map(members.get("messageQueueTable"), "messageQueueTable")
        return cls({queue: convert(int, offset) for queue, offset in queues.items()}, clients)
