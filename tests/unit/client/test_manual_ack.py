"""Messages acknowledged by hand: later, from another thread, too late, never; batches, ordered queues, stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import UsageError
from rocketlake.base.service import Service
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.concurrent import ConcurrentRunner
from rocketlake.client.consumer.listener import Answer, ConsumeResult, ListenerCall
from rocketlake.client.consumer.manual_ack import Delivery, manual_ack
from rocketlake.client.consumer.ordered import OrderedRunner
from rocketlake.model.message import StoredMessage
from rocketlake.model.property_names import LAST_ERROR
from tests.unit.client.runner_stage import RunnerStage


class Stage(RunnerStage):
    """A runner whose listener keeps the deliveries, and the messages that were sent back."""

    def __init__(
        self,
        clock: ManualClock,
        service: Service,
        function: Callable[[Delivery], Answer | Awaitable[Answer]] | None = None,
        *,
        orderly: bool = False,
        **settings: int,
    ) -> None:
        super().__init__(clock)
        self.deliveries: list[Delivery] = []
        self.sent_back: list[tuple[int, int, str | None]] = []
        call = ListenerCall(manual_ack(function or self.keep, within_ms=5000, clock=clock), threads=1)
        config = ConsumerConfig(concurrency=4, **settings)
        common: dict[str, Any] = {"group": "g", "config": config, "offsets": self.offsets, "hooks": self.hooks}
        if orderly:
            self.held.locked = True
            self.runner = OrderedRunner(call, **common, resend=None, lock=None, clock=clock)
        else:
            self.runner = ConcurrentRunner(call, **common, send_back=self.send_back, clock=clock)
        self.workers = self.runner.start(service, lambda: [self.held])

    async def keep(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    async def send_back(self, message: StoredMessage, level: int) -> bool:
        self.sent_back.append((message.queue_offset, level, message.properties.get(LAST_ERROR)))
        return True

    @property
    def offsets_given(self) -> list[int]:
        return [delivery.message.queue_offset for delivery in self.deliveries]


async def test_a_message_is_done_when_it_is_acknowledged(clock: ManualClock, service: Service) -> None:
    stage = Stage(clock, service)
    await stage.consume(0, 1, 2)
    assert stage.offsets_given == [0, 1, 2]
    assert stage.committed == -1
    assert stage.deliveries[1].ack()
    await clock.settle()
    assert stage.committed == 0, "the offset waits for the first one"
    assert stage.deliveries[0].ack()
    await clock.settle()
    assert stage.committed == 2
    assert stage.sent_back == []
    assert not stage.deliveries[0].ack(), "once"
    assert not stage.deliveries[0].nack(), "once"


async def test_a_message_that_is_not_acknowledged_comes_again(clock: ManualClock, service: Service) -> None:
    stage = Stage(clock, service)
    await stage.consume(0, 1, 2)
    assert stage.deliveries[0].nack(delay_level=2, error="no stock")
    assert stage.deliveries[1].nack()
    await clock.settle()
    assert stage.sent_back == [(0, 2, "no stock"), (1, 0, None)]
    await clock.run_for(4999)
    assert len(stage.sent_back) == 2
    await clock.run_for(1)
    assert stage.sent_back[2] == (2, 0, "not acknowledged within 5000 ms")
    assert not stage.deliveries[2].ack(), "too late"
    assert stage.committed == 3


async def test_what_the_function_returns_or_raises_counts_at_once(clock: ManualClock, service: Service) -> None:
    async def judge(delivery: Delivery) -> ConsumeResult | None:
        if delivery.message.queue_offset == 0:
            return ConsumeResult.SUCCESS
        if delivery.message.queue_offset == 1:
            return ConsumeResult.later(error="returned")
        raise ValueError("raised")

    stage = Stage(clock, service, judge)
    await stage.consume(0, 1, 2)
    assert stage.sent_back == [(1, 0, "returned"), (2, 0, "ValueError: raised")]
    assert stage.committed == 3


async def test_other_threads_may_acknowledge(clock: ManualClock, service: Service) -> None:
    stage = Stage(clock, service)
    await stage.consume(0)
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(stage.deliveries[0].ack()))
    thread.start()
    await asyncio.to_thread(thread.join)
    await clock.settle()
    assert done == [True]
    assert stage.committed == 1


async def test_a_plain_function_runs_on_a_thread(clock: ManualClock, service: Service) -> None:
    given = asyncio.Event()
    loop, names = asyncio.get_running_loop(), list[str]()

    def keep(delivery: Delivery) -> None:
        names.append(threading.current_thread().name)
        delivery.ack()
        loop.call_soon_threadsafe(given.set)

    stage = Stage(clock, service, keep)
    await stage.consume(0)
    await given.wait()
    async with asyncio.timeout(30):
        while stage.committed < 0:  # noqa: ASYNC110  # the thread has ended, its result is on its way
            await asyncio.sleep(0)
    assert stage.committed == 1
    assert names != [threading.current_thread().name]


async def test_of_a_batch_all_behind_the_first_failure_come_again(clock: ManualClock, service: Service) -> None:
    stage = Stage(clock, service, batch_size=4)
    await stage.consume(0, 1, 2, 3)
    for number in (0, 2, 3):
        stage.deliveries[number].ack()
    stage.deliveries[1].nack(error="no")
    await clock.settle()
    assert stage.sent_back == [(1, 0, "no"), (2, 0, "no"), (3, 0, "no")]


async def test_an_ordered_queue_waits_for_its_message(clock: ManualClock, service: Service) -> None:
    stage = Stage(clock, service, orderly=True, suspend_ms=1000)
    await stage.consume(0, 1)
    assert stage.offsets_given == [0]
    stage.deliveries[0].nack(suspend_ms=200)
    await clock.run_for(199)
    assert stage.offsets_given == [0]
    await clock.run_for(1)
    assert stage.offsets_given == [0, 0]
    stage.deliveries[1].ack()
    await clock.settle()
    assert stage.offsets_given == [0, 0, 1]
    assert stage.committed == 1


async def test_after_the_call_was_cancelled_an_ack_is_too_late(clock: ManualClock, service: Service) -> None:
    stage = Stage(clock, service)
    await stage.consume(0)
    await service.stop()
    assert not stage.deliveries[0].ack()
    assert stage.committed == -1


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="function"):
        manual_ack(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="within_ms"):
        manual_ack(lambda delivery: None, within_ms=0)
