"""What is told of listener calls; contexts around them."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from collections.abc import Iterator

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.concurrent import ConcurrentRunner
from rocketlake.client.consumer.listener import Answer, ConsumeResult, ListenerCall
from rocketlake.client.consumer.ordered import OrderedRunner
from rocketlake.client.consumer.running import NotConsumed
from rocketlake.client.hooks import ConsumeEvent
from rocketlake.client.trace.format import ConsumeCode, Record, SubAfter, SubBefore
from rocketlake.client.trace.recorder import Recorder
from rocketlake.model.message import StoredMessage
from tests.unit.client.runner_stage import RunnerStage

TIMEOUT_MS = 5000


class Stage(RunnerStage):
    """A runner whose listener does what `answers` says, traced."""

    def __init__(self, clock: ManualClock, service: Service, *, orderly: bool = False) -> None:
        super().__init__(clock)
        self.records: list[Record] = []
        self.takes_seconds = 0.0
        self.answers: list[Answer | BaseException] = []
        calls = itertools.count(1)
        recorder = Recorder(
            self.records.extend, clock, lambda: f"call{next(calls)}", trace_topic="TRACE", consume_timeout_ms=TIMEOUT_MS
        )
        self.hooks = recorder.added_to(self.hooks)
        call = ListenerCall(self.listen, threads=1)
        config = ConsumerConfig(concurrency=1, batch_size=3)
        if orderly:
            self.runner = OrderedRunner(
                call, group="g", config=config, offsets=self.offsets, resend=None, lock=None,
                hooks=self.hooks, clock=clock,
            )  # fmt: skip
        else:
            self.runner = ConcurrentRunner(
                call, group="g", config=config, offsets=self.offsets, send_back=self.send_back,
                hooks=self.hooks, clock=clock,
            )  # fmt: skip
        self.runner.start(service, lambda: [self.held])

    async def listen(self, batch: list[StoredMessage]) -> Answer:
        if self.takes_seconds:
            await self.clock.sleep(self.takes_seconds)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def send_back(self, message: StoredMessage, level: int) -> bool:
        return True

    async def take(self, *messages: StoredMessage) -> None:
        self.held.add(list(messages))
        self.runner.submit(self.held, list(messages))
        await self.clock.settle()


def message(number: int, **properties: str) -> StoredMessage:
    own = {"UNIQ_KEY": f"id{number}", "MSG_REGION": "north"} | properties
    return StoredMessage("T", b"x", properties=own, broker_name="b", queue_offset=number)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_call_is_told_before_and_after(clock: ManualClock, service: Service, orderly: bool) -> None:
    it = Stage(clock, service, orderly=orderly)
    now = clock.now_ms()
    await it.take(message(0, KEYS="k"), message(1))
    assert it.records == [
        SubBefore(now, "north", "g", "call1", "id0", 0, "k"),
        SubBefore(now, "north", "g", "call1", "id1", 0, None),
        SubAfter("call1", "id0", 0, True, "k", ConsumeCode.SUCCESS, now, "g"),
        SubAfter("call1", "id1", 0, True, None, ConsumeCode.SUCCESS, now, "g"),
    ]


def outcomes(records: list[Record]) -> list[tuple[str, bool, ConsumeCode]]:
    return [(each.message_id, each.is_success, each.code) for each in records if isinstance(each, SubAfter)]


async def test_how_the_call_ended_is_told_of_each_message(clock: ManualClock, service: Service) -> None:
    it = Stage(clock, service)
    it.answers = [ConsumeResult.partly(1), ValueError("no"), ConsumeResult.LATER]
    for first in (0, 2, 4):
        await it.take(message(first), message(first + 1))
    failed, raised = ConsumeCode.FAILED, ConsumeCode.RAISED
    assert outcomes(it.records) == [
        ("id0", True, ConsumeCode.SUCCESS), ("id1", False, failed), ("id2", False, raised), ("id3", False, raised),
        ("id4", False, failed), ("id5", False, failed),
    ]  # fmt: skip


async def test_the_cost_is_shared_by_the_messages_and_a_long_call_is_told(clock: ManualClock, service: Service) -> None:
    it = Stage(clock, service)
    it.takes_seconds = 6.0
    await it.take(message(0), message(1), message(2))
    clock.advance(6000)
    await clock.settle()
    after = [each for each in it.records if isinstance(each, SubAfter)]
    assert [each.cost_ms for each in after] == [2000] * 3
    assert outcomes(it.records) == [(f"id{n}", True, ConsumeCode.TIMED_OUT) for n in range(3)]


async def test_what_a_broker_forbids_and_the_trace_itself_are_not_told(clock: ManualClock, service: Service) -> None:
    it = Stage(clock, service)
    trace = StoredMessage("TRACE", b"x", properties={"UNIQ_KEY": "t"}, broker_name="b", queue_offset=3)
    await it.take(message(0, TRACE_ON="false"))
    await it.take(trace)
    assert it.records == []
    await it.take(message(1, TRACE_ON="false"), message(2, TRACE_ON="true"))
    assert [each.message_id for each in it.records] == ["id2", "id2"]


async def test_a_listener_that_did_not_look_has_no_end(clock: ManualClock, service: Service) -> None:
    it = Stage(clock, service)
    it.answers = [NotConsumed()]
    await it.take(message(0))
    assert [type(each) for each in it.records] == [SubBefore]


async def test_a_plain_listener_sees_the_context_around_it(clock: ManualClock, service: Service) -> None:
    span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")
    seen: list[str] = []

    @contextlib.contextmanager
    def around(event: ConsumeEvent) -> Iterator[None]:
        token = span.set("of this call")
        yield
        span.reset(token)

    from rocketlake.client.consumer.running import consume
    from rocketlake.client.hooks import Hooks
    from rocketlake.model.message_queue import MessageQueue

    call = ListenerCall(lambda messages: seen.append(span.get()), threads=1)
    hooks = Hooks(around_consume=[around])
    assert await consume(call, "g", MessageQueue("T", "b", 0), [message(0)], hooks, clock) == ConsumeResult.SUCCESS
    call.close()
    assert seen == ["of this call"]
    assert span.get() == "none"
