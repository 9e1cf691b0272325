"""Bodies of pops: acknowledgements together, and the records of the revive topic.

Owns        their shape. Members stand in the order of their names, as fastjson writes them.
Must not know   what becomes of them.

Source: docs/internals/wire.md, "POP".
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field

from rocketlake.model.pop import POINT_SPAN_MAX
from rocketlake.protocol.bodies.body import Body, Entry


class AckEntry(Entry, kw_only=True):
    """Messages of one check point. `retry`: the mark of the topic they lie in; bit i of `bits`: offset start + i."""

    bits: bytes = field(name="b", default=b"")
    group: str = field(name="c")
    invisible_ms: int = field(name="it")
    pop_ms: int = field(name="pt")
    queue_id: int = field(name="q")
    retry: str = field(name="r", default="0")
    revive_queue: int = field(name="rq")
    start_offset: int = field(name="so")
    topic: str = field(name="t")

    def offsets(self) -> list[int]:
        """The queue offsets that are acknowledged."""
        value = int.from_bytes(self.bits, "little")
        return [self.start_offset + i for i in range(value.bit_length()) if value >> i & 1]


class BatchAckBody(Body, kw_only=True):
    """BATCH_ACK_MESSAGE."""

    acks: list[AckEntry] = field(default_factory=list)
    broker_name: str | None = None


class CheckPoint(Body, kw_only=True):
    """Messages that were handed out together: message i has the queue offset start_offset + differences[i]."""

    bit_map: int = field(name="bm", default=0)
    """Bit i: message i is acknowledged."""
    broker_name: str = field(name="bn", default="")
    group: str = field(name="c")
    differences: list[int] = field(name="d", default_factory=list)
    invisible_ms: int = field(name="it")
    count: int = field(name="n")
    pop_ms: int = field(name="pt")
    queue_id: int = field(name="q")
    due_ms: int = field(name="reviveTime", default=0)
    """When messages that are not acknowledged come again."""
    revive_offset: int = field(name="ro", default=0)
    put_again: str | UnsetType = field(name="rp", default=UNSET)
    start_offset: int = field(name="so")
    suspend: bool = field(name="sp", default=False)
    """The messages come again without counting a try."""
    topic: str = field(name="t")
    """The topic that the messages lie in, a retry topic perhaps."""

    def __post_init__(self) -> None:
        if self.count > POINT_SPAN_MAX:  # `offsets` would be as long
            raise ValueError(f"a check point of {self.count} messages, more than {POINT_SPAN_MAX}")
        self.due_ms = self.pop_ms + self.invisible_ms

    @property
    def offsets(self) -> list[int]:
        """The queue offset of each message. Old brokers name none: the messages are neighbours then."""
        if self.differences:
            return [self.start_offset + difference for difference in self.differences]
        return [self.start_offset + i for i in range(self.count)]


class AckRecord(Body, kw_only=True):
    """One message of a check point is acknowledged; or those of `offsets`."""

    offset: int = field(name="ao", default=0)
    offsets: list[int] | UnsetType = field(name="aol", default=UNSET)
    broker_name: str = field(name="bn", default="")
    group: str = field(name="c")
    pop_ms: int = field(name="pt")
    queue_id: int = field(name="q")
    start_offset: int = field(name="so")
    topic: str = field(name="t")
