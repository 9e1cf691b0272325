"""A cluster in memory behind the Brokers seam, and a driver that calls as Spark does, crashes included."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from rocketlake.base.crc32 import crc32
from rocketlake.client.errors import NoRoute
from rocketlake.codec import property_text
from rocketlake.codec.host import encode_host
from rocketlake.codec.record import encode_record
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import parse_subscription
from rocketlake.spark.schema import full_schema
from rocketlake.spark.source.brokers import Bounds, Found, Pulled, PullLink, PullOutcome, TopicNames
from rocketlake.spark.source.options import SourceOptions, parse_options
from rocketlake.spark.source.plan import RangesPartition
from rocketlake.spark.source.stream_reader import RocketMQStreamReader

HOST = encode_host("127.0.0.1", 10911)


def make_record(queue: MessageQueue, offset: int, body: bytes, *, tag: str = "", **more: Any) -> bytes:
    properties = more.pop("properties", {"TAGS": tag} if tag else {})
    values: dict[str, Any] = {
        "queue_id": queue.queue_id,
        "flag": 0,
        "queue_offset": offset,
        "physical_offset": offset * 1000,
        "sys_flag": 0,
        "born_ms": 1_600_000_000_123,
        "born_host": HOST,
        "store_ms": 1_600_000_000_456,
        "store_host": HOST,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body_crc": crc32(body),
    } | more
    return bytes(encode_record(queue.topic.encode(), body, property_text.encode(properties), **values))


@dataclass
class MemoryCluster:
    """The Brokers seam over lists of records. Time moves only when somebody sleeps."""

    logs: dict[MessageQueue, list[bytes]] = field(default_factory=dict)
    tags: dict[MessageQueue, list[str]] = field(default_factory=lambda: defaultdict(list))
    times: dict[MessageQueue, list[int]] = field(default_factory=lambda: defaultdict(list))
    seek_error: int = 0
    low: dict[MessageQueue, int] = field(default_factory=lambda: defaultdict(int))
    remade: dict[MessageQueue, int] = field(default_factory=lambda: defaultdict(int))
    index: dict[tuple[str, bool], dict[MessageQueue, set[int]]] = field(default_factory=dict)
    kept: dict[tuple[str, MessageQueue], int] = field(default_factory=dict)
    hidden: set[MessageQueue] = field(default_factory=set)
    failures: list[Exception] = field(default_factory=list)
    filter_tags: str = "*"
    pull_max: int = 32
    seconds: float = 0.0
    calls: list[str] = field(default_factory=list)
    pull_link: Callable[[MessageQueue], PullLink | None] = field(default=lambda queue: None)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop, repr=False)

    def close(self) -> None:
        self._loop.close()

    # -- what a test does

    def add_queue(self, number: int, *, topic: str = "T", broker: str = "broker-a") -> MessageQueue:
        queue = MessageQueue(topic, broker, number)
        self.logs[queue] = []
        return queue

    def append(self, queue: MessageQueue, *bodies: bytes, tag: str = "", store_ms: int = 1_600_000_000_456) -> None:
        for body in bodies:
            offset = len(self.logs[queue])
            place = self.remade[queue] * 1_000_000 + offset * 1000
            record = make_record(queue, offset, body, tag=tag, store_ms=store_ms, physical_offset=place)
            self.logs[queue].append(record)
            self.tags[queue].append(tag)
            self.times[queue].append(store_ms)

    def expire(self, queue: MessageQueue, low: int) -> None:
        self.low[queue] = low

    def recreate(self, queue: MessageQueue) -> None:
        self.remade[queue] += 1
        self.logs[queue], self.low[queue], self.tags[queue], self.times[queue] = [], 0, [], []

    # -- the seam

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(self.run(work))
        except Exception as error:
            done.set_exception(error)
        return done

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failures:
            raise self.failures.pop(0)

    async def queues(self, topic: str) -> Collection[MessageQueue]:
        self._called("queues")
        found = [queue for queue in self.logs if queue.topic == topic and queue not in self.hidden]
        if not found:
            raise NoRoute(topic, ["memory:1"], purpose="read")
        return found

    async def topics(self) -> TopicNames:
        self._called("topics")
        return TopicNames({queue.topic for queue in self.logs if queue not in self.hidden}, {"DefaultCluster"})

    async def ends(self, topic: str, broker_name: str) -> dict[MessageQueue, Bounds]:
        self._called("ends")
        return {
            queue: Bounds(self.low[queue], len(log))
            for queue, log in self.logs.items()
            if (queue.topic, queue.broker_name) == (topic, broker_name)
        }

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        self._called("offset_at")
        times = self.times[queue]
        exact = next((at for at in range(self.low[queue], len(times)) if times[at] >= time_ms), len(times))
        return exact + self.seek_error

    async def pull(self, queue: MessageQueue, offset: int, count: int, *, filtered: bool = True) -> Pulled:
        self._called("pull")
        log, bounds = self.logs[queue], Bounds(self.low[queue], len(self.logs[queue]))
        if not bounds.low <= offset <= bounds.high:
            return Pulled(PullOutcome.OUT_OF_RANGE, b"", max(bounds.low, min(offset, bounds.high)), bounds)
        if offset == bounds.high:
            return Pulled(PullOutcome.NOTHING_YET, b"", offset, bounds)
        end = min(offset + min(count, self.pull_max), bounds.high)
        wanted = parse_subscription(queue.topic, self.filter_tags if filtered else "*").tags
        found = [log[at] for at in range(offset, end) if not wanted or self.tags[queue][at] in wanted]
        outcome = PullOutcome.FOUND if found else PullOutcome.NOTHING_MATCHED
        return Pulled(outcome, b"".join(found), end, bounds)

    async def find(self, topic: str, broker_name: str, key: str, *, unique: bool) -> Found | None:
        self._called("find")
        found = {
            queue: offsets
            for queue, offsets in self.index.get((key, unique), {}).items()
            if (queue.topic, queue.broker_name) == (topic, broker_name)
        }
        return None if sum(map(len, found.values())) >= 64 else found

    async def kept_offset(self, group: str, queue: MessageQueue) -> int | None:
        self._called("kept_offset")
        return self.kept.get((group, queue))

    async def keep_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        self._called("keep_offset")

        # As Apache's ConsumerOffsetManager: of a group's first offsets of a topic that come at once the last stays.
        def of_topic(kept: tuple[str, MessageQueue]) -> bool:
            return (kept[0], kept[1].topic, kept[1].broker_name) == (group, queue.topic, queue.broker_name)

        was_known = any(map(of_topic, self.kept))
        await asyncio.sleep(0)
        if not was_known:
            self.kept = {kept: each for kept, each in self.kept.items() if not of_topic(kept)}
        self.kept[group, queue] = offset

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def monotonic(self) -> float:
        return self.seconds


class Killed(Exception):
    """The driver process ended here."""


KILL_POINTS = (
    "after initial offset",
    "before offsets are written",
    "after offsets are written",
    "after rows are read",
    "before batch is committed",
    "after batch is committed",
)


class SparkDriver:
    """One streaming query with its checkpoint and an exactly-once sink; every start is a new process.

    The order of calls is Spark's own, which tests/spark/test_facts.py asserts. Offsets travel as JSON text, readers to
    workers by pickle.
    """

    def __init__(self, make_reader: Callable[[], RocketMQStreamReader]) -> None:
        self._make_reader = make_reader
        self.offsets: list[str] = []
        self.commits = 0
        self.sink: dict[int, list[tuple[str, int, int, bytes]]] = {}

    @property
    def rows(self) -> list[tuple[str, int, int, bytes]]:
        return [row for batch in self.sink.values() for row in batch]

    def start(self, *, kill_at: str = "", batches: int = 1_000, available_now: bool = False) -> None:
        """Run micro-batches until nothing is new; `kill_at` names the point of the first batch where it dies."""
        self._reader = self._make_reader()
        self._previous: str | None = None
        if available_now:
            self._reader.prepareForTriggerAvailableNow()
        limit = self._reader.getDefaultReadLimit()
        assert isinstance(limit, ReadAllAvailable | ReadMaxRows | ReadMaxBytes | ReadMinRows)
        try:
            for _ in range(batches):
                if not self._batch(limit, kill_at):
                    return
        except Killed:
            return

    def _initial(self) -> str:
        first, second = (json.dumps(self._reader.initialOffset()) for _ in range(2))
        assert first == second
        return first

    def _batch(self, limit: Any, kill_at: str) -> bool:
        number = self.commits
        replayed = len(self.offsets) > number
        start = self.offsets[number - 1] if number else self._initial()
        self._die(kill_at, "after initial offset")
        if not replayed:
            end = json.dumps(self._reader.latestOffset(json.loads(start), limit))
            self._reader.reportLatestOffset()
            if end == start:
                return False
            self._die(kill_at, "before offsets are written")
            self.offsets.append(end)
            self._die(kill_at, "after offsets are written")
            if self._previous is not None:
                self._reader.commit(json.loads(self._previous))
        end = self.offsets[number]
        partitions = self._reader.partitions(json.loads(start), json.loads(end))
        rows = [row for part in partitions for row in self._task(part)]
        self._die(kill_at, "after rows are read")
        self.sink[number] = rows
        self._die(kill_at, "before batch is committed")
        self.commits += 1
        self._previous = end
        self._die(kill_at, "after batch is committed")
        return True

    def _task(self, partition: Any) -> Iterator[tuple[str, int, int, bytes]]:
        sent = pickle.loads(pickle.dumps(partition))  # noqa: S301  Spark itself sends partitions so
        assert isinstance(sent, RangesPartition)
        for batch in self._reader.read(sent):
            names = ("brokerName", "queueId", "queueOffset", "body")
            yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)

    @staticmethod
    def _die(kill_at: str, point: str) -> None:
        if kill_at == point:
            raise Killed(point)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`kill_point`: every point at which a driver may die."""
    if "kill_point" in metafunc.fixturenames:
        metafunc.parametrize("kill_point", KILL_POINTS)


@pytest.fixture
def kill_points() -> tuple[str, ...]:
    return KILL_POINTS


def make_options(*, streaming: bool = True, **given: Any) -> SourceOptions:
    values = {"namesrvAddr": "memory:1", "fetchOffset.numRetries": "2"}
    values |= {name.replace("_", "."): str(value) for name, value in given.items()}
    if not values.keys() & {"subscribePattern", "assign"}:
        values.setdefault("subscribe", "T")
    return parse_options(values, streaming=streaming)


@pytest.fixture(name="make_options")
def _make_options() -> Callable[..., SourceOptions]:
    return make_options


@pytest.fixture(name="make_record")
def _make_record() -> Callable[..., bytes]:
    return make_record


@pytest.fixture
def cluster() -> Iterator[MemoryCluster]:
    cluster = MemoryCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def driver(cluster: MemoryCluster) -> Callable[..., SparkDriver]:
    """driver(startingOffsets="earliest", ...) is a query on the cluster that was never started."""

    def make(**given: Any) -> SparkDriver:
        options = make_options(**given)
        cluster.filter_tags = options.tags
        schema = full_schema()
        return SparkDriver(lambda: RocketMQStreamReader(options, schema, connect=lambda _: cluster))

    return make
