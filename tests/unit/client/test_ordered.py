"""Listeners in order: suspend, retry limit, locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.listener import Answer, ConsumeResult, ListenerCall
from rocketlake.client.consumer.ordered import OrderedRunner
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from tests.unit.client.runner_stage import RunnerStage


class Stage(RunnerStage):
    """A runner with one locked queue in hand."""

    def __init__(self, clock: ManualClock, service: Service, **settings: int) -> None:
        super().__init__(clock)
        self.seen: list[int] = []
        self.bodies: list[bytes] = []
        self.running = 0
        self.entered = asyncio.Event()
        self.given_up: list[int] = []
        self.lock_granted = True
        self.lock_requests = 0
        self.bug: Exception | None = None
        self.answers: dict[int, list[ConsumeResult | BaseException | None]] = {}
        self.held.locked = True
        self.runner = OrderedRunner(
            ListenerCall(self.listen, threads=1),
            group="g",
            config=ConsumerConfig(concurrency=4, **settings),
            offsets=self.offsets,
            resend=self.resend,
            lock=self.lock,
            hooks=self.hooks,
            clock=clock,
        )
        self.workers = self.runner.start(service, lambda: [self.held])

    async def listen(self, batch: list[StoredMessage]) -> Answer:
        self.running += 1
        self.entered.set()
        assert self.running == 1, "two listener calls of one queue at once"
        await asyncio.sleep(0)
        self.running -= 1
        self.seen += [message.queue_offset for message in batch]
        self.bodies += [message.body for message in batch]
        for message in batch:
            message.body = b""
        planned = self.answers.get(batch[0].queue_offset)
        answer = planned.pop(0) if planned else None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        self.lock_requests += 1
        if self.bug is not None:
            raise self.bug
        return set(queues) if self.lock_granted else set()

    async def resend(self, message: StoredMessage, limit: int) -> bool:
        if self.bug is not None:
            raise self.bug
        assert message.body == str(message.queue_offset).encode()
        self.given_up.append(message.queue_offset)
        return True


MakeStage = Callable[..., Stage]


@pytest.fixture
async def stage(clock: ManualClock, service: Service) -> AsyncIterator[MakeStage]:
    yield lambda **settings: Stage(clock, service, **settings)


async def test_messages_come_in_order_one_at_a_time(stage: MakeStage) -> None:
    it = stage()
    await it.consume(0, 1, 2)
    await it.consume(3)
    assert it.seen == [0, 1, 2, 3]
    assert it.committed == 4


@pytest.mark.parametrize("failure", [ConsumeResult.LATER, ValueError("boom")])
async def test_a_failed_message_comes_again_before_all_others(
    stage: MakeStage, failure: ConsumeResult | Exception
) -> None:
    it = stage()
    it.answers[1] = [failure]
    await it.consume(0, 1, 2)
    assert it.seen == [0, 1]
    assert it.committed == 1
    await it.clock.run_for(999)
    assert it.seen == [0, 1]
    await it.clock.run_for(1)
    assert it.seen == [0, 1, 1, 2]
    assert it.committed == 3


async def test_a_listener_may_ask_for_its_own_pause_within_limits(stage: MakeStage) -> None:
    it = stage()
    it.answers[0] = [ConsumeResult.later(suspend_ms=200), ConsumeResult.later(suspend_ms=1)]
    await it.consume(0)
    await it.clock.run_for(200)
    assert it.seen == [0, 0]
    await it.clock.run_for(10)
    assert it.seen == [0, 0, 0]


async def test_after_its_retries_a_message_is_given_up_and_the_queue_goes_on(stage: MakeStage) -> None:
    it = stage(reconsume_max=2)
    it.answers[0] = [ConsumeResult.LATER] * 9
    await it.consume(0, 1)
    await it.clock.run_for(3000)
    assert it.seen == [0, 0, 0, 1]
    assert it.bodies == [b"0", b"0", b"0", b"1"]
    assert it.given_up == [0]
    assert it.committed == 2
    assert it.held.size == 0


async def test_without_a_lock_nothing_is_consumed_and_it_is_asked_for(stage: MakeStage) -> None:
    it = stage()
    it.held.locked = False
    it.lock_granted = False
    await it.consume(0)
    await it.clock.run_for(2900)
    assert it.seen == []
    it.lock_granted = True
    await it.clock.run_for(200)
    assert it.held.locked
    assert it.seen == [0]


async def test_a_lock_that_was_not_renewed_is_not_trusted(stage: MakeStage) -> None:
    it = stage(lock_interval_ms=100_000)
    it.clock.advance(30_000)
    assert not it.runner.is_locked(it.held)


async def test_locks_are_renewed_and_a_lost_one_stops_the_queue(stage: MakeStage) -> None:
    it = stage()
    await it.clock.run_for(20_000)
    assert it.lock_requests == 1
    assert it.runner.is_locked(it.held)
    it.lock_granted = False
    await it.clock.run_for(20_000)
    assert not it.held.locked
    await it.consume(0)
    assert it.seen == []


async def test_locks_are_renewed_and_messages_come_after_an_unexpected_error(stage: MakeStage) -> None:
    """Of the lock in the background, of the lock a worker asks for, and of giving up a message."""
    it = stage(reconsume_max=0)
    it.bug = ValueError("a bug")
    await it.clock.run_for(40_000)
    await it.consume(0, 1)
    await it.clock.run_for(3000)
    it.bug = None
    await it.clock.run_for(20_000)
    assert it.seen == [0, 1] and it.runner.is_locked(it.held)
    it.bug = ValueError("a bug")
    it.answers[2] = [ConsumeResult.LATER] * 2
    await it.consume(2, 3)
    assert (it.given_up, it.committed) == ([], 2)
    it.bug = None
    await it.clock.run_for(2000)
    assert (it.given_up, it.committed, it.seen) == ([2], 4, [0, 1, 2, 2, 3])
    assert not any(worker.done() for worker in it.workers)


async def test_an_offset_is_still_ours_to_set_while_the_lock_is(stage: MakeStage) -> None:
    it = stage()
    it.answers[0] = [None]
    batch = [StoredMessage("T", b"x", broker_name="b", queue_offset=0)]
    it.held.add(batch)
    it.runner.submit(it.held, batch)
    await it.entered.wait()
    it.held.dropped = True
    await it.clock.settle()
    assert it.committed == 1


async def test_after_stop_no_new_listener_call_begins(stage: MakeStage) -> None:
    it = stage()
    it.runner.stop()
    await it.consume(0)
    await asyncio.wait_for(asyncio.gather(*it.workers), 1)
    assert it.seen == []


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
async def test_what_ends_other_tasks_only_suspends_the_queue(stage: MakeStage, error: BaseException) -> None:
    it = stage()
    it.answers[0] = [error]
    await it.consume(0, 1)
    assert it.seen == [0]
    await it.clock.run_for(1000)
    assert it.seen == [0, 0, 1]
    assert not any(worker.done() for worker in it.workers)


async def test_after_a_reset_the_listener_ends_before_the_queue_goes_on(stage: MakeStage) -> None:
    it = stage()
    gate = asyncio.Event()
    log: list[str] = []

    async def listen(batch: list[StoredMessage]) -> Answer:
        log.append(f"begin {batch[0].queue_offset}")
        await gate.wait()
        log.append(f"end {batch[0].queue_offset}")
        return None

    it.runner._call = ListenerCall(listen, threads=1)
    await it.consume(5)
    it.held.dropped = True  # what HeldQueues.restart does
    it.held = ProcessQueue(it.queue)
    it.held.locked = True
    await it.consume(0)
    await it.clock.run_for(200)
    assert log == ["begin 5"]
    gate.set()
    await it.clock.run_for(200)
    assert log == ["begin 5", "end 5", "begin 0", "end 0"]
    assert it.committed == 1


async def test_a_queue_that_stands_still_is_said(stage: MakeStage, caplog: pytest.LogCaptureFixture) -> None:
    """behaviour.md: 173 repeats without a word."""
    it = stage()
    it.answers[0] = [ConsumeResult.LATER] * 17
    await it.consume(0, 1)
    await it.clock.run_for(14_000)
    assert "stands still" not in caplog.text
    await it.clock.run_for(10_000)
    assert "the message at offset 0 failed 16 times and comes again before all others" in caplog.text
    assert caplog.text.count("stands still") == 1
