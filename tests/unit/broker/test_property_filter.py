from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import UsageError
from rocketlake.broker.property_filter import SCAN_SECONDS, Arrivals, TimedTest, read_tested, record_test, unserved
from rocketlake.filter.sql_parser import parse_sql92
from rocketlake.filter.sql_record import RecordTest
from rocketlake.model.subscription import SQL92, TAG, Subscription
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import GetStatus
from tests.unit.store.store_world import World, message


class Slow(ManualClock):
    """Each look at the clock takes a fifth of what a read may go on testing."""

    def monotonic(self) -> float:
        self.advance(SCAN_SECONDS * 1000 / 5)
        return super().monotonic()


class CountingTest(RecordTest):
    """n = 22, and how often that was asked."""

    def __init__(self) -> None:
        super().__init__(parse_sql92("n = 22"))
        self.count = 0

    def matches(self, record: memoryview) -> bool:
        self.count += 1
        return super().matches(record)


@pytest.fixture
async def store() -> AsyncIterator[MessageStore]:
    """20 messages in one queue, numbered by the property n."""
    store = await World().started(consume_queue_file_bytes=2000)
    for number in range(20):
        put(store, number)
    yield store
    await store.stop()


def put(store: MessageStore, number: int) -> None:
    store.put(message(b"%d" % number, properties=b"n\x01%d\x02" % number))


@pytest.mark.parametrize(
    ("kind", "enabled", "served"),
    [(TAG, False, True), ("", False, True), (SQL92, False, False), (SQL92, True, True), ("XPATH", True, False)],
)
def test_which_filters_are_served(kind: str, enabled: bool, served: bool) -> None:
    reason = unserved(Subscription("T", "a > 1", expression_type=kind), enabled=enabled)
    assert reason == ("" if served else f"The broker does not support consumer to filter message by {kind}")


def test_a_test_is_made_once() -> None:
    assert record_test("a > 1") is record_test("a > 1")
    with pytest.raises(UsageError, match="column 4"):
        record_test("a >")


async def test_a_read_ends_when_its_time_is_up_and_the_next_goes_on(store: MessageStore) -> None:
    asked, found, reads = 0, [], 0
    while asked < 20:
        result = read_tested(store, Slow(), ("T", 0, asked, 32, 1 << 20), record_test("n = 17"), wait=True)
        assert asked < result.next_offset <= asked + 6
        asked, reads = result.next_offset, reads + 1
        found += [asked] * result.count
    assert (len(found), reads) == (1, 4)


async def test_the_first_record_of_a_read_is_tested_however_late_it_is(store: MessageStore) -> None:
    clock = ManualClock()
    timed = TimedTest(record_test("n >= 0"), clock)
    clock.advance(60_000)
    result = store.get("T", 0, 0, 32, 1 << 20, match_record=timed)
    assert result.count == 20
    clock.advance(60_000)
    assert store.get("T", 0, 0, 32, 1 << 20, match_record=timed).count == 0


async def test_arrivals_are_tested_once_each(store: MessageStore) -> None:
    test = CountingTest()
    arrivals = Arrivals(store, ManualClock(), "T", 0, 20, test)
    for number in (20, 21, 22):
        put(store, number)
        assert arrivals.is_wanted(0) == (number == 22)
    assert test.count == 3


async def test_arrivals_that_could_not_all_be_tested_wake_the_pull(store: MessageStore) -> None:
    arrivals = Arrivals(store, Slow(), "T", 0, 0, record_test("n = 99"))
    assert arrivals.is_wanted(0)


async def test_what_is_not_in_memory_is_left_for_the_next_read(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = record_test("n = 17")
    cold = store.get("T", 0, 0, 1, 1)
    cold.status, cold.next_offset = GetStatus.NOT_IN_MEMORY, 5
    real = store.get
    monkeypatch.setattr(store, "get", lambda *asked, wait=True, **tests: real(*asked, **tests) if wait else cold)
    asked = ("T", 0, 0, 32, 1 << 20)
    result = read_tested(store, ManualClock(), asked, test, wait=False)
    assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 5)
    cold.next_offset = 0
    assert read_tested(store, ManualClock(), asked, test, wait=False).status is GetStatus.NOT_IN_MEMORY
    assert read_tested(store, ManualClock(), asked, test, wait=True).count == 1
