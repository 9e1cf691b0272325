"""Listeners side by side: what becomes of a message after its listener returned, raised or hung."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.concurrent import ConcurrentRunner
from rocketlake.client.consumer.listener import Answer, ConsumeResult, ListenerCall
from rocketlake.client.consumer.running import NotConsumed
from rocketlake.client.hooks import ConsumeEvent
from rocketlake.model.message import StoredMessage
from tests.unit.client.runner_stage import RunnerStage


class Stage(RunnerStage):
    """A runner with one queue in hand, and what it sent back."""

    def __init__(self, clock: ManualClock, service: Service, *, broadcasting: bool = False, **settings: int) -> None:
        super().__init__(clock)
        self.seen: list[list[int]] = []
        self.sent_back: list[tuple[int, int]] = []
        self.send_back_works = True
        self.send_back_fails = False
        self.bodies: list[bytes] = []
        self.answers: dict[int, Answer | BaseException | asyncio.Event] = {}
        self.runner = ConcurrentRunner(
            ListenerCall(self.listen, threads=1),
            group="g",
            config=ConsumerConfig(concurrency=2, **settings),
            offsets=self.offsets,
            send_back=None if broadcasting else self.send_back,
            hooks=self.hooks,
            clock=clock,
        )
        self.workers = self.runner.start(service, lambda: [self.held])

    async def listen(self, batch: list[StoredMessage]) -> Answer:
        self.seen.append([message.queue_offset for message in batch])
        self.bodies += [message.body for message in batch]
        for message in batch:
            message.body = b""
        answer = self.answers.get(batch[0].queue_offset)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return None
        return answer

    async def send_back(self, message: StoredMessage, level: int) -> bool:
        if self.send_back_fails:
            raise ValueError("a bug")
        assert message.body == str(message.queue_offset).encode()
        if self.send_back_works:
            self.sent_back.append((message.queue_offset, level))
        return self.send_back_works


MakeStage = Callable[..., Stage]


@pytest.fixture
async def stage(clock: ManualClock, service: Service) -> AsyncIterator[MakeStage]:
    yield lambda **settings: Stage(clock, service, **settings)


async def test_success_commits_behind_the_last_message(stage: MakeStage) -> None:
    it = stage()
    await it.consume(0, 1, 2)
    assert sorted(it.seen) == [[0], [1], [2]]
    assert it.committed == 3
    assert it.held.count == 0


async def test_a_slow_message_holds_up_the_commit_but_not_its_neighbours(stage: MakeStage) -> None:
    it = stage()
    slow = asyncio.Event()
    it.answers[0] = slow
    await it.consume(0, 1, 2)
    assert len(it.seen) == 3
    assert it.committed == 0
    slow.set()
    await it.clock.settle()
    assert it.committed == 3


async def test_batches_have_the_size_asked_for(stage: MakeStage) -> None:
    it = stage(batch_size=2)
    await it.consume(0, 1, 2)
    assert sorted(it.seen) == [[0, 1], [2]]


@pytest.mark.parametrize("answer", [ConsumeResult.LATER, RuntimeError("boom")])
async def test_a_failed_message_is_sent_back_and_counts_as_finished(
    stage: MakeStage, answer: ConsumeResult | Exception
) -> None:
    it = stage()
    it.answers[1] = answer
    await it.consume(0, 1, 2)
    assert it.sent_back == [(1, 0)]
    assert it.committed == 3


async def test_part_of_a_batch_may_fail_with_a_delay_of_its_own(stage: MakeStage) -> None:
    it = stage(batch_size=4)
    it.answers[0] = ConsumeResult.partly(1, delay_level=5)
    await it.consume(0, 1, 2)
    assert it.sent_back == [(1, 5), (2, 5)]
    assert it.committed == 3


async def test_a_message_that_cannot_be_sent_back_comes_again_here(stage: MakeStage) -> None:
    it = stage()
    it.send_back_works = False
    it.answers[0] = ConsumeResult.LATER
    await it.consume(0, 1)
    assert it.committed == 0
    it.answers.clear()
    await it.clock.run_for(5000)
    assert it.seen.count([0]) == 2
    assert it.committed == 2


async def test_what_a_listener_made_of_a_body_is_not_seen_by_the_next_call(stage: MakeStage) -> None:
    it = stage()
    it.send_back_works = False
    it.answers[0] = ConsumeResult.LATER
    await it.consume(0)
    assert it.held.size == 1
    await it.clock.run_for(5000)
    assert it.bodies == [b"0", b"0"]
    it.answers[0] = None
    await it.clock.run_for(5000)
    assert it.held.size == 0


async def test_whatever_a_send_back_raises_ends_no_worker(stage: MakeStage) -> None:
    it = stage()
    it.send_back_fails = True
    it.answers |= {0: ConsumeResult.LATER, 1: ConsumeResult.LATER, 2: ConsumeResult.LATER}
    await it.consume(0, 1, 2, 3)
    assert it.seen == [[0], [1], [2], [3]] and not any(worker.done() for worker in it.workers)
    it.answers.clear()
    await it.clock.run_for(5000)
    assert it.committed == 4


async def test_a_hanging_listener_is_sent_back_at_the_next_try_too(stage: MakeStage) -> None:
    it = stage(consume_timeout_ms=60_000)
    hanging = it.answers[0] = asyncio.Event()
    it.send_back_fails = True
    await it.consume(0, 1)
    await it.clock.run_for(121_000)
    assert it.committed == 0
    it.send_back_fails = False
    await it.clock.run_for(60_000)
    assert (it.sent_back, it.committed) == ([(0, 3)], 2)
    hanging.set()
    await it.clock.settle()


async def test_broadcasting_drops_failed_messages(stage: MakeStage) -> None:
    it = stage(broadcasting=True)
    it.answers[0] = ConsumeResult.LATER
    await it.consume(0)
    assert it.sent_back == []
    assert it.committed == 1


async def test_the_answer_for_a_queue_that_was_lost_is_ignored(stage: MakeStage) -> None:
    it = stage()
    slow = asyncio.Event()
    it.answers[0] = slow
    await it.consume(0)
    it.held.dropped = True
    slow.set()
    await it.clock.settle()
    assert it.committed == -1
    await it.consume(1)
    assert it.seen == [[0]]


async def test_a_hanging_listener_has_its_message_sent_back_with_level_three(stage: MakeStage) -> None:
    it = stage(consume_timeout_ms=60_000)
    hanging = asyncio.Event()
    it.answers[0] = hanging
    await it.consume(0, 1)
    await it.clock.run_for(121_000)
    assert it.sent_back == [(0, 3)]
    assert it.committed == 2
    hanging.set()
    await it.clock.settle()
    assert it.committed == 2


async def test_a_message_nobody_looked_at_stays_in_hand(stage: MakeStage) -> None:
    it = stage()
    it.answers[0] = NotConsumed()
    await it.consume(0, 1)
    assert it.sent_back == []
    assert it.committed == 0
    assert it.held.count == 1


async def test_after_stop_running_listeners_finish_and_no_new_one_begins(stage: MakeStage) -> None:
    it = stage()
    slow = [asyncio.Event(), asyncio.Event()]
    it.answers |= dict(enumerate(slow))
    await it.consume(0, 1, 2)
    it.runner.stop()
    for event in slow:
        event.set()
    await asyncio.wait_for(asyncio.gather(*it.workers), 1)
    assert it.seen == [[0], [1]]
    assert it.committed == 2


async def test_a_retried_message_shows_its_first_topic(stage: MakeStage) -> None:
    it = stage()
    retried = StoredMessage("%RETRY%g", b"x", properties={"RETRY_TOPIC": "T"}, broker_name="b", queue_offset=0)
    topics: list[str] = []
    it.hooks.before_consume.append(lambda event: topics.append(event.messages[0].topic))
    it.held.add([retried])
    it.runner.submit(it.held, [retried])
    await it.clock.settle()
    assert topics == ["T"]


async def test_hooks_see_the_outcome_and_a_broken_hook_loses_nothing(stage: MakeStage) -> None:
    it = stage()
    outcomes: list[bool | None] = []

    def broken(event: ConsumeEvent) -> None:
        raise RuntimeError("broken hook")

    it.hooks.before_consume.append(broken)
    it.hooks.after_consume.append(lambda event: outcomes.append(event.is_success))
    it.answers[1] = ConsumeResult.LATER
    await it.consume(0, 1)
    assert sorted(outcomes, key=bool) == [False, True]
    assert it.committed == 2


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3)])
async def test_what_ends_other_tasks_is_a_failure_of_a_listener(stage: MakeStage, error: BaseException) -> None:
    it = stage()
    for offset in range(4):
        it.answers[offset] = error
    await it.consume(0, 1, 2, 3, 4, 5)
    assert sorted(it.seen) == [[n] for n in range(6)]
    assert sorted(offset for offset, _ in it.sent_back) == [0, 1, 2, 3]
    assert not any(worker.done() for worker in it.workers)


async def test_a_worker_that_is_cancelled_ends(stage: MakeStage) -> None:
    it = stage()
    it.answers[0] = asyncio.Event()
    await it.consume(0)
    for worker in it.workers:
        worker.cancel()
    await it.clock.settle()
    assert all(worker.cancelled() for worker in it.workers)
