"""A range that is read over a link of its own: the same rows, whatever the link does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.model.message_queue import MessageQueue
from rocketlake.spark.schema import arrow_schema, chosen_schema
from rocketlake.spark.source.brokers import Pulled
from rocketlake.spark.source.losses import DamagedMessage, DataLoss
from rocketlake.spark.source.plan import QueueRange
from rocketlake.spark.source.range_read import read_ranges

SCHEMA = arrow_schema(chosen_schema("queueOffset,body"))
ROWS = 6000
Options = Callable[..., Any]


class MemoryLink:
    """A PullLink to the cluster in memory. `order` chooses which of so many waiting answers comes next."""

    def __init__(
        self,
        cluster: Any,
        queue: MessageQueue,
        *,
        order: Callable[[int], int] = lambda waiting: 0,
        lives: int = 1 << 30,
    ) -> None:
        self.cluster, self.queue, self.order, self.lives = cluster, queue, order, lives
        self.asked: list[tuple[int, int]] = []
        self.waiting: list[tuple[int, Pulled]] = []
        self.most_waiting = 0
        self.data = b""
        self.is_closed = False
        self.leads = True

    def ask(self, offset: int, count: int) -> int:
        number = len(self.asked)
        self.asked.append((offset, count))
        self.waiting.append((number, self.cluster.run(self.cluster.pull(self.queue, offset, count))))
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        return number

    def head(self) -> tuple[int, Pulled, int]:
        assert not self.data, "the answer before was not read"
        self._live()
        number, pulled = self.waiting.pop(self.order(len(self.waiting)))
        self.data = pulled.data
        return number, pulled, len(self.data)

    def read(self, place: memoryview) -> None:
        self._live()
        place[:], self.data = self.data[: len(place)], self.data[len(place) :]

    def _live(self) -> None:
        self.lives -= 1
        if self.lives < 0:
            raise LinkError("cut")

    def leads_to_master(self) -> bool:
        return self.leads

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def links(cluster: Any) -> list[MemoryLink]:
    """The links that were opened to the cluster, which gives 100 messages a pull."""
    opened: list[MemoryLink] = []

    def link(queue: MessageQueue) -> MemoryLink:
        opened.append(MemoryLink(cluster, queue))
        return opened[-1]

    cluster.pull_link, cluster.pull_max = link, 100
    return opened


@pytest.fixture
def queue(cluster: Any) -> MessageQueue:
    found: MessageQueue = cluster.add_queue(0)
    cluster.append(found, *(b"%d" % n for n in range(ROWS)))
    return found


def rows(cluster: Any, wanted: QueueRange, options: Any) -> list[tuple[int, bytes]]:
    return [
        row
        for batch in read_ranges(cluster, [wanted], options, SCHEMA)
        for row in zip(*(batch.column(name).to_pylist() for name in ("queueOffset", "body")), strict=True)
    ]


def expected(low: int, high: int) -> list[tuple[int, bytes]]:
    return [(n, b"%d" % n) for n in range(low, high)]


def test_a_long_range_is_read_over_a_link_of_its_own(
    cluster: Any, queue: MessageQueue, links: list[MemoryLink], make_options: Options
) -> None:
    wanted = QueueRange(queue, 10, ROWS - 3)
    assert rows(cluster, wanted, make_options(startingOffsets="earliest")) == expected(10, ROWS - 3)
    (link,) = links
    assert link.is_closed
    assert link.most_waiting == 4
    assert max(count for _, count in link.asked[1:]) == 100  # as many as the broker gave to the first
    assert len(link.asked) < 63


@pytest.mark.parametrize("given", [{"tags": "A"}, {"subscribe": "T", "filter.sql92": "a = 1"}])
def test_a_filtered_range_is_not(
    cluster: Any, queue: MessageQueue, links: list[MemoryLink], make_options: Options, given: dict[str, str]
) -> None:
    rows(cluster, QueueRange(queue, 0, ROWS), make_options(startingOffsets="earliest", **given))
    assert links == []


def test_a_short_range_is_not(
    cluster: Any, queue: MessageQueue, links: list[MemoryLink], make_options: Options
) -> None:
    assert rows(cluster, QueueRange(queue, 0, 4000), make_options(startingOffsets="earliest")) == expected(0, 4000)
    assert links == []


def test_a_range_that_is_not_read_to_its_end_leaves_no_link(
    cluster: Any, queue: MessageQueue, links: list[MemoryLink], make_options: Options
) -> None:
    reading = read_ranges(cluster, [QueueRange(queue, 0, ROWS)], make_options(startingOffsets="earliest"), SCHEMA)
    assert [next(reading).num_rows for _ in range(2)]
    reading.close()  # type: ignore[attr-defined]
    assert [link.is_closed for link in links] == [True]


@pytest.mark.parametrize("seed", range(60))
def test_links_that_break_and_answers_in_any_order_lose_and_double_nothing(
    cluster: Any, make_options: Options, seed: int
) -> None:
    rng = random.Random(seed)
    queue = cluster.add_queue(0)
    grown = rng.random() < 0.3
    bodies = [b"%d" % n + bytes(rng.randrange(3000) if grown else 0) for n in range(ROWS)]
    cluster.append(queue, *bodies)

    def link(queue: MessageQueue) -> MemoryLink:
        cluster.pull_max = rng.choice([32, 100, 256, 1024])
        lives = rng.choice([0, 1, 2, 10, 50, 1 << 30])
        return MemoryLink(cluster, queue, order=rng.randrange if rng.random() < 0.7 else lambda _: 0, lives=lives)

    cluster.pull_link = link
    options = make_options(startingOffsets="earliest", pullBatchSize=rng.choice([64, 256, 1024]))
    low = rng.randrange(500)
    assert rows(cluster, QueueRange(queue, low, ROWS), options) == [*enumerate(bodies)][low:]


def test_a_link_is_given_up_after_three_that_bring_nothing(
    cluster: Any, queue: MessageQueue, make_options: Options
) -> None:
    opened: list[MemoryLink] = []

    def link(queue: MessageQueue) -> MemoryLink:
        opened.append(MemoryLink(cluster, queue, lives=1))
        return opened[-1]

    cluster.pull_link = link
    options = make_options(startingOffsets="earliest", pullBatchSize=4)
    assert rows(cluster, QueueRange(queue, 0, ROWS), options) == expected(0, ROWS)
    assert [each.is_closed for each in opened] == [True] * 3


def test_without_a_link_the_range_is_read_all_the_same(
    cluster: Any, queue: MessageQueue, make_options: Options
) -> None:
    def refused(queue: MessageQueue) -> None:
        raise LinkError("cannot connect")

    cluster.pull_link = refused
    assert rows(cluster, QueueRange(queue, 0, ROWS), make_options(startingOffsets="earliest")) == expected(0, ROWS)


def test_a_link_to_a_broker_that_is_master_no_longer_is_left(
    cluster: Any, queue: MessageQueue, links: list[MemoryLink], make_options: Options
) -> None:
    options = make_options(startingOffsets="earliest")
    cluster.append(queue, *(b"%d" % n for n in range(ROWS, 4 * ROWS)))
    found: list[int] = []
    for batch in read_ranges(cluster, [QueueRange(queue, 0, 4 * ROWS)], options, SCHEMA):
        found += batch.column("queueOffset").to_pylist()
        if len(links) == 1 and links[0].asked:
            links[0].leads = False
    assert found == [*range(4 * ROWS)]
    assert len(links) > 1
    assert links[0].is_closed


def test_answers_larger_than_the_buffer_are_read(cluster: Any, make_options: Options) -> None:
    queue = cluster.add_queue(0)
    bodies = [b"x"] * 5000 + [b"y" * 100_000] * 200 + [b"z"] * 5000
    cluster.append(queue, *bodies)
    cluster.pull_max = 100
    cluster.pull_link = lambda queue: MemoryLink(cluster, queue)
    options = make_options(startingOffsets="earliest")
    assert rows(cluster, QueueRange(queue, 0, len(bodies)), options) == [*enumerate(bodies)]


def test_a_refusal_is_asked_again_over_the_common_link(
    cluster: Any, queue: MessageQueue, links: list[MemoryLink], make_options: Options
) -> None:
    options = make_options(startingOffsets="earliest", pullBatchSize=4)
    reading = read_ranges(cluster, [QueueRange(queue, 0, ROWS)], options, SCHEMA)
    found = next(reading).column("queueOffset").to_pylist()
    cluster.failures = [RemoteError("busy", code=2)]
    for batch in reading:
        found += batch.column("queueOffset").to_pylist()
    assert found == [*range(ROWS)]
    assert len(links) == 2


def test_what_is_gone_is_an_error_and_with_fail_on_data_loss_off_the_rest_is_read(
    cluster: Any, queue: MessageQueue, links: list[MemoryLink], make_options: Options
) -> None:
    for hole in (3000, 3001, 5500):
        cluster.logs[queue][hole] = b""
    with pytest.raises(DataLoss, match="offsets 3000 to 5999"):
        rows(cluster, QueueRange(queue, 0, ROWS), make_options(startingOffsets="earliest"))
    options = make_options(startingOffsets="earliest", failOnDataLoss="false")
    left = [row for row in expected(0, ROWS) if row[0] not in (3000, 3001, 5500)]
    assert rows(cluster, QueueRange(queue, 0, ROWS), options) == left
    assert len(links) == 2


def test_a_damaged_message_costs_itself_only(
    cluster: Any, queue: MessageQueue, links: list[MemoryLink], make_options: Options
) -> None:
    record = bytearray(cluster.logs[queue][4321])
    record[record.index(b"4321")] ^= 1
    cluster.logs[queue][4321] = bytes(record)
    with pytest.raises(DamagedMessage, match="4321"):
        rows(cluster, QueueRange(queue, 0, ROWS), make_options(startingOffsets="earliest"))
    options = make_options(startingOffsets="earliest", failOnDataLoss="false")
    assert rows(cluster, QueueRange(queue, 0, ROWS), options) == [r for r in expected(0, ROWS) if r[0] != 4321]
    assert len(links) == 2
