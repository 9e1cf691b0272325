"""Bodies of numbers and lists for administrators: topic and group progress, tables, statistics.

Owns        their shape.
Must not know   the sources of the numbers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from msgspec import field

from rocketlake.base.callbacks import Step, Wait
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.body import Body, Entry, convert, parse_answer
from rocketlake.protocol.bodies.long_text import Each, at_once, encoding
from rocketlake.protocol.bodies.queue_map import QueueEntry, read_queue_map
from rocketlake.protocol.command import Buffer


class KVTable(Body, kw_only=True):
    """Names and values: GET_BROKER_RUNTIME_INFO, GET_KVLIST_BY_NAMESPACE, answer of REGISTER_BROKER."""

    table: dict[str, str] = field(default_factory=dict)


class TopicList(Body, kw_only=True):
    """Topic names; some answers name a broker too."""

    topics: list[str] = field(default_factory=list, name="topicList")
    broker_addr: str | None = None


class GroupList(Body, kw_only=True):
    """Answer of QUERY_TOPIC_CONSUME_BY_WHO."""

    groups: list[str] = field(default_factory=list, name="groupList")


class TopicOffsets(Entry, kw_only=True):
    """The first and the next offset of a queue; `last_update_timestamp` in ms, 0 when empty."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class TopicStats:
    """Answer of GET_TOPIC_STATS_INFO."""

    def __init__(self, offsets: dict[MessageQueue, TopicOffsets], put_tps: float = 0.0) -> None:
        self.offsets = offsets
        self.put_tps = put_tps

    def encode(self) -> bytes:
        """JSON text, queues as object keys."""
        return b"".join(at_once(self.encoding(iter(self.offsets.items()), self.put_tps)))

    @staticmethod
    def encoding(
        offsets: Iterator[tuple[MessageQueue, TopicOffsets] | Wait], put_tps: float
    ) -> Generator[Step, None, list[Buffer]]:
        """The same, one queue a step."""
        return encoding({"offsetTable": offsets, "topicPutTps": put_tps})

    @classmethod
    def decode(cls, data: bytes | memoryview) -> TopicStats:
        """Body bytes -> stats. Raises BodyError."""
        members = parse_answer(data, "TopicStats")
        table = read_queue_map(members.get("offsetTable"), "offsetTable")
        offsets = {queue: convert(TopicOffsets, value) for queue, value in table.items()}
        return cls(offsets, float(members.get("topicPutTps") or 0))


class GroupOffsets(Entry, kw_only=True):
    """The next offset of a queue and of a group; `last_timestamp` in ms: store time of the last consumed message."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0
    pull_offset: int = 0
    pop_offset: int | None = None
    """Ours, and so are the next two: the offset that is popped next, if it is not the committed one."""
    pop_in_flight: int | None = None
    """Popped and not acknowledged, in time."""
    pop_overdue: int | None = None
    """Popped and not acknowledged in time: they come again in a moment."""

    @property
    def lag(self) -> int:
        """Messages that the group is not done with."""
        consumed = max(self.consumer_offset, self.pop_offset or 0)
        return self.broker_offset - consumed + (self.pop_in_flight or 0) + (self.pop_overdue or 0)


GroupRows = Iterator[tuple[MessageQueue, GroupOffsets] | Wait]
GroupTopic = tuple[float, GroupRows]
"""Messages a second that a group takes from a topic, and its offset in each queue."""


class ConsumeStats:
    """Answer of GET_CONSUME_STATS."""

    def __init__(self, offsets: dict[MessageQueue, GroupOffsets], consume_tps: float = 0.0) -> None:
        self.offsets = offsets
        self.consume_tps = consume_tps

    def encode(self) -> bytes:
        """JSON text, queues as object keys."""
        return b"".join(at_once(self.encoding(iter(self.offsets.items()), self.consume_tps)))

    @staticmethod
    def encoding(offsets: GroupRows, consume_tps: float) -> Generator[Step, None, list[Buffer]]:
        """The same, one queue a step."""
        return encoding({"consumeTps": consume_tps, "offsetTable": offsets})

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ConsumeStats:
        """Body bytes -> stats. Raises BodyError."""
        members = parse_answer(data, "ConsumeStats")
        table = read_queue_map(members.get("offsetTable"), "offsetTable")
        offsets = {queue: convert(GroupOffsets, value) for queue, value in table.items()}
        return cls(offsets, float(members.get("consumeTps") or 0))


class ConsumeStatsList:
    """Answer of GET_BROKER_CONSUME_STATS."""

    def __init__(self, broker_addr: str) -> None:
        self.broker_addr = broker_addr
        self.total_diff = 0
        self.inflight_diff = 0

    def encoding(self, groups: Iterator[tuple[str, Iterator[GroupTopic]]]) -> Generator[Step, None, list[Buffer]]:
        """JSON text, one queue a step; `groups` gives (group, its topics), and each topic its queues."""

        def members() -> Iterator[tuple[str, object]]:
            yield "brokerAddr", self.broker_addr
            yield (
                "consumeStatsList",
                Each(iter([(group, Each(map(self._counted, topics)))]) for group, topics in groups),
            )
            yield "totalDiff", self.total_diff
            yield "totalInflightDiff", self.inflight_diff

        return encoding(members())

    def _counted(self, topic: GroupTopic) -> dict[str, object]:
        consume_tps, queues = topic

        def rows() -> GroupRows:
            for row in queues:
                if isinstance(row, tuple):
                    progress = row[1]
                    self.total_diff += progress.broker_offset - progress.consumer_offset
                    self.inflight_diff += progress.pull_offset - progress.consumer_offset
                yield row

        return {"consumeTps": consume_tps, "offsetTable": rows()}


class BrokerStatsItem(Entry, kw_only=True):
    """One statistic over one time."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStats(Body, kw_only=True):
    """Answer of VIEW_BROKER_STATS_DATA."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


class ConsumeTimeSpan(Entry, kw_only=True):
    """How old the messages of a queue are, in ms; the Str members are `yyyy-MM-dd#HH:mm:ss:SSS`."""

    message_queue: QueueEntry
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None


class ConsumeTimeSpans(Body, kw_only=True):
    """Answer of QUERY_CONSUME_TIME_SPAN."""

    spans: list[ConsumeTimeSpan] = field(default_factory=list, name="consumeTimeSpanSet")
