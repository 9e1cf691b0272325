"""ProcessQueue against a plain model: what is in hand, what is safe to commit."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue

QUEUE = MessageQueue("T", "b", 0)


def message(offset: int, size: int = 3) -> StoredMessage:
    return StoredMessage("T", b"x" * size, broker_name="b", queue_offset=offset)


class ConcurrentUse(RuleBasedStateMachine):
    """Pull adds in rising order, listeners finish in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.held = ProcessQueue(QUEUE)
        self.model: dict[int, StoredMessage] = {}
        self.next = 0

    @rule(gaps=st.lists(st.integers(0, 3), min_size=1, max_size=5), size=st.integers(0, 9))
    def pulled(self, gaps: list[int], size: int) -> None:
        batch = []
        for gap in gaps:
            self.next += gap
            batch.append(message(self.next, size))
            self.next += 1
        self.held.add(batch)
        self.model |= {each.queue_offset: each for each in batch}

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def finished(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.model)), min_size=1, unique=True))
        answer = self.held.finish([self.model.pop(offset) for offset in chosen])
        assert answer == (min(self.model) if self.model else self.held.highest + 1)

    @rule()
    def finished_twice(self) -> None:
        before = self.held.count, self.held.size
        self.held.finish([message(self.next + 1000)])
        assert (self.held.count, self.held.size) == before

    @invariant()
    def counts_agree(self) -> None:
        assert self.held.count == len(self.model)
        assert self.held.size == sum(len(each.body) for each in self.model.values())
        assert self.held.lowest == (min(self.model) if self.model else -1)
        assert self.held.span == (self.held.highest - min(self.model) if self.model else 0)


class OrderedUse(RuleBasedStateMachine):
    """Taken in order, then committed or put back as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.held = ProcessQueue(QUEUE)
        self.waiting: list[int] = []
        self.taken: list[StoredMessage] = []
        self.next = 0

    @rule(count=st.integers(1, 5))
    def pulled(self, count: int) -> None:
        self.held.add([message(self.next + number) for number in range(count)])
        self.waiting += range(self.next, self.next + count)
        self.next += count

    @precondition(lambda self: not self.taken)
    @rule(limit=st.integers(1, 4))
    def take(self, limit: int) -> None:
        self.taken = self.held.take(limit)
        assert [each.queue_offset for each in self.taken] == self.waiting[:limit]
        del self.waiting[:limit]

    @precondition(lambda self: self.taken)
    @rule()
    def commit(self) -> None:
        assert self.held.commit() == self.taken[-1].queue_offset + 1
        self.taken = []

    @precondition(lambda self: self.taken)
    @rule()
    def put_back(self) -> None:
        self.held.put_back(self.taken)
        self.waiting[:0] = [each.queue_offset for each in self.taken]
        self.taken = []

    @invariant()
    def counts_agree(self) -> None:
        in_hand = [each.queue_offset for each in self.taken] + self.waiting
        assert self.held.count == len(in_hand)
        assert self.held.size == 3 * len(in_hand)
        assert self.held.lowest == (in_hand[0] if in_hand else -1)


TestConcurrentUse = ConcurrentUse.TestCase
TestOrderedUse = OrderedUse.TestCase


def test_safe_offset_is_unknown_before_the_first_message() -> None:
    assert ProcessQueue(QUEUE).safe_offset == -1


def test_a_message_added_twice_counts_once() -> None:
    held = ProcessQueue(QUEUE)
    held.add([message(5)])
    held.add([message(5)])
    assert (held.count, held.size) == (1, 3)


@pytest.mark.parametrize("body", [b"", b"x" * 1000])
@pytest.mark.parametrize("orderly", [False, True])
def test_a_body_set_by_the_listener_leaves_the_bytes_in_hand_right(body: bytes, orderly: bool) -> None:
    """A listener that freed its bodies stopped its queue: their bytes stayed in hand until the limit was reached."""
    held = ProcessQueue(QUEUE)
    pulled = [message(0), message(1), message(2)]
    held.add(pulled)
    batch = held.take(2) if orderly else pulled[:2]
    for each in batch:
        each.body = body
    assert (held.commit() if orderly else held.finish(batch)) == 2
    assert (held.count, held.size) == (1, 3)


def test_expired_are_only_the_first_messages_whose_listener_runs_too_long() -> None:
    held = ProcessQueue(QUEUE)
    batch = [message(number) for number in range(5)]
    held.add(batch)
    held.finish(batch[:1])
    held.start(batch[1:3], now=10.0)
    held.start(batch[3:4], now=50.0)
    assert [each.queue_offset for each in held.expired(before=20.0, limit=16)] == [1, 2]
    assert [each.queue_offset for each in held.expired(before=20.0, limit=1)] == [1]
    assert held.expired(before=5.0, limit=16) == []


def test_a_message_that_comes_again_has_the_body_that_was_pulled() -> None:
    held = ProcessQueue(QUEUE)
    mine, finished = message(0), message(1)
    held.add([mine, finished])
    held.finish([finished])
    mine.body = finished.body = b"decrypted"
    held.restore([mine, finished], None)
    assert mine.body == b"xxx"
    assert finished.body == b"decrypted", "it is no longer in hand"


def test_clear_forgets_everything_in_hand() -> None:
    held = ProcessQueue(QUEUE)
    held.add([message(number) for number in range(5)])
    held.take(2)
    held.clear()
    assert (held.count, held.size, held.lowest) == (0, 0, -1)
