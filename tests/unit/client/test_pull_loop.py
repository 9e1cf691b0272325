"""The loop of one queue: flow control, positions, the reaction to each answer."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.base.logs import RareWarnings
from rocketlake.base.service import Service
from rocketlake.client.calls.pull import PullAnswer, PullStatus
from rocketlake.client.calls.records import DamagedRecord
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.consumer.offset_store import RemoteOffsets
from rocketlake.client.consumer.process_queue import ProcessQueue
from rocketlake.client.consumer.pull_loop import PullLoop, PullPlan
from rocketlake.client.consumer.rates import Rates
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription, parse_subscription
from rocketlake.protocol.response_code import ResponseCode

QUEUE = MessageQueue("T", "b", 0)
Planned = PullAnswer | Exception


def found(*offsets: int, tags: str | None = None, size: int = 1) -> PullAnswer:
    messages = [StoredMessage("T", b"x" * size, broker_name="b", queue_offset=n, store_ms=n * 1000) for n in offsets]
    for message in messages:
        message.tags = tags
    return PullAnswer(PullStatus.FOUND, offsets[-1] + 1, 0, 1000, messages=messages)


def nothing(next_offset: int, status: PullStatus = PullStatus.NO_NEW_MESSAGE) -> PullAnswer:
    return PullAnswer(status, next_offset, 0, 1000)


class Stage:
    """One pull loop with planned answers; when they are used up a pull waits for ever."""

    def __init__(self, clock: ManualClock, service: Service, *, expression: str = "*", **settings: int) -> None:
        self.clock = clock
        self.pulls: list[tuple[int, int]] = []
        self.answers: deque[Planned] = deque()
        self.submitted: list[int] = []
        self.restarted: list[int] = []
        self.damaged: list[tuple[int, list[int]]] = []
        self.no_dead_letters = False
        self.heartbeats = 0
        self.route_questions = 0
        self.is_paused = False
        self.offset_since: dict[int, int] = {}
        """By store time: where messages lie that were stored since."""
        self.subscription: Subscription | None = parse_subscription("T", expression)
        self.held = ProcessQueue(QUEUE)
        self.offsets = RemoteOffsets(self._nowhere, self._nothing)
        self.rates = Rates()
        config = ConsumerConfig(**settings)
        self.plan = PullPlan(
            config=config,
            clock=clock,
            offsets=self.offsets,
            subscription=lambda topic: self.subscription,
            pull=self.pull,
            submit=self.submit,
            pulled=self.rates.pulled,
            restart=self.restart,
            by_time=self.by_time,
            unregistered=self.unregistered,
            after_break=self.after_break,
            is_paused=lambda: self.is_paused,
            is_locked=None,
            damaged=self.settle,
            commits=True,
            queue_limit=lambda topic: config.queue_messages_max,
            group="g",
            warnings=RareWarnings(logging.getLogger("pulls"), clock=clock),
        )
        self.service = service

    async def _nowhere(self, queue: MessageQueue) -> int:
        return -1

    async def _nothing(self, queue: MessageQueue, offset: int) -> None:
        return None

    async def pull(self, held: ProcessQueue, subscription: Subscription, offset: int, commit: int) -> PullAnswer:
        self.pulls.append((offset, commit))
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def submit(self, held: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        self.submitted += [message.queue_offset for message in messages]

    async def settle(self, record: DamagedRecord) -> bool:
        self.damaged.append((record.offset, list(self.submitted)))
        return not self.no_dead_letters

    async def restart(self, held: ProcessQueue, offset: int) -> None:
        held.dropped = True
        self.restarted.append(offset)

    async def by_time(self, queue: MessageQueue, ms: int) -> int:
        if ms not in self.offset_since:
            raise LinkError("the master is away")
        return self.offset_since[ms]

    async def after_break(self, queue: MessageQueue, seconds: float) -> None:
        self.route_questions += 1
        await self.clock.sleep(seconds)

    def unregistered(self) -> None:
        self.heartbeats += 1

    async def run(self, *answers: Planned, first: int = 0) -> None:
        self.answers += answers
        self.service.spawn("pull", PullLoop(self.plan, self.held, first).run())
        await self.clock.settle()


MakeStage = Callable[..., Stage]


@pytest.fixture
async def stage(clock: ManualClock, service: Service) -> AsyncIterator[MakeStage]:
    yield lambda **settings: Stage(clock, service, **settings)


async def test_messages_are_handed_over_and_the_next_pull_follows_at_once(stage: MakeStage) -> None:
    it = stage()
    await it.run(found(0, 1), found(2))
    assert it.submitted == [0, 1, 2]
    assert [offset for offset, _ in it.pulls] == [0, 2, 3]


async def test_a_queue_goes_on_behind_an_error_that_nobody_foresaw(
    stage: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    it = stage()
    await it.run(found(0), ValueError("of a bug"), found(1))
    assert it.submitted == [0]
    await it.clock.run_for(it.plan.config.error_pause_ms)
    assert it.submitted == [0, 1]
    assert [record.exc_info is not None for record in caplog.records if "it goes on" in record.message] == [True]


async def test_pulls_that_bring_messages_are_counted(stage: MakeStage) -> None:
    it = stage()
    it.rates.begin(it.clock.monotonic())
    await it.run(found(0, 1), nothing(2), found(2))
    rates = it.rates.status(["T"], it.clock.monotonic() + 2)["T"]
    assert (rates.pull_tps, rates.pull_rt) == (1.5, 0.0)


async def test_a_pull_carries_the_offset_to_commit(stage: MakeStage) -> None:
    it = stage()
    it.offsets.update(QUEUE, 7, increase_only=True)
    await it.run(first=9)
    assert it.pulls == [(9, 7)]


async def test_tags_are_compared_again_because_brokers_compare_hash_codes(stage: MakeStage) -> None:
    it = stage(expression="A")
    await it.run(found(0, tags="A"), found(1, tags="B"), found(2))
    assert it.submitted == [0]


@pytest.mark.parametrize("status", [PullStatus.NO_NEW_MESSAGE, PullStatus.NO_MATCHED_MESSAGE])
async def test_an_empty_answer_moves_the_commit_only_if_nothing_is_in_hand(
    stage: MakeStage, status: PullStatus
) -> None:
    it = stage()
    await it.run(nothing(50, status))
    assert it.offsets.memory(QUEUE) == 50
    assert it.pulls[-1][0] == 50

    busy = stage()
    await busy.run(found(0), nothing(50, status))
    assert busy.offsets.memory(QUEUE) == -1
    assert busy.pulls[-1][0] == 50


@pytest.mark.parametrize(
    ("settings", "size"),
    [({"queue_messages_max": 2}, 1), ({"queue_bytes_max": 100}, 60), ({"span_max": 1}, 1)],
)
async def test_a_full_queue_is_not_pulled_until_there_is_room(
    stage: MakeStage, settings: dict[str, int], size: int
) -> None:
    it = stage(**settings)
    answer = found(0, 1, 2, size=size)
    await it.run(answer)
    await it.clock.run_for(1000)
    assert len(it.pulls) == 1
    it.held.finish(answer.messages[:2])
    await it.clock.run_for(50)
    assert [offset for offset, _ in it.pulls] == [0, 3]


@pytest.mark.parametrize(
    ("error", "pause_ms", "heartbeats"),
    [
        (RemoteError("busy", code=ResponseCode.FLOW_CONTROL), 20, 0),
        (RemoteError("unknown group", code=ResponseCode.SUBSCRIPTION_NOT_EXIST), 1000, 1),
        (RemoteError("old", code=ResponseCode.SUBSCRIPTION_NOT_LATEST), 1000, 1),
        (RemoteError("forbidden", code=ResponseCode.NO_PERMISSION), 1000, 0),
        (LinkError("broken"), 1000, 0),
    ],
)
async def test_after_an_error_the_same_offset_is_pulled_again(
    stage: MakeStage, error: Exception, pause_ms: int, heartbeats: int
) -> None:
    it = stage()
    await it.run(error, first=5)
    await it.clock.run_for(pause_ms - 1)
    assert len(it.pulls) == 1
    await it.clock.run_for(1)
    assert [offset for offset, _ in it.pulls] == [5, 5]
    assert it.heartbeats == heartbeats
    assert it.route_questions == isinstance(error, LinkError)


async def test_an_illegal_offset_restarts_the_queue_where_the_broker_says(stage: MakeStage) -> None:
    it = stage()
    await it.run(nothing(700, PullStatus.OFFSET_ILLEGAL), first=5)
    assert it.restarted == [700]
    assert len(it.pulls) == 1


@pytest.mark.parametrize(("high", "goes_on"), [(7, 6), (6, 6), (3, 3)])
async def test_of_a_queue_that_lost_its_end_what_is_in_hand_is_pulled_again(
    stage: MakeStage, high: int, goes_on: int
) -> None:
    """A power cut with ASYNC_FLUSH: what lies before the cut is there, and no listener has ended with it."""
    it = stage()
    it.offset_since[8000] = high
    await it.run(found(6, 7, 8), PullAnswer(PullStatus.OFFSET_ILLEGAL, high, 0, high), first=6)
    assert it.restarted == [goes_on]


@pytest.mark.parametrize(("since", "goes_on"), [(2, 2), (0, 1), (4, 4), (5, 4)])
async def test_what_came_since_the_last_message_seen_is_not_passed_by(
    stage: MakeStage, since: int, goes_on: int
) -> None:
    """The queue ends at 4 and begins at 1; where the end was lost is not known, its new messages are newer."""
    it = stage()
    it.offset_since[8000] = since
    it.answers += [found(6, 7, 8)]
    it.plan.submit = lambda held, messages: held.finish(messages) and None
    await it.run(PullAnswer(PullStatus.OFFSET_ILLEGAL, 4, 1, 4), first=6)
    assert it.restarted == [goes_on]


async def test_while_the_master_cannot_tell_the_time_the_queue_waits(stage: MakeStage) -> None:
    it = stage(error_pause_ms=500)
    lost = PullAnswer(PullStatus.OFFSET_ILLEGAL, 4, 0, 4)
    await it.run(found(6, 7, 8), lost, lost, first=6)
    assert it.restarted == []
    it.offset_since[8000] = 3
    await it.clock.run_for(500)
    assert it.restarted == [3]


async def test_a_reset_skips_what_is_in_hand(stage: MakeStage) -> None:
    it = stage()
    await it.run(found(6, 7, 8), PullAnswer(PullStatus.OFFSET_ILLEGAL, 9, 0, 9), first=6)
    assert it.restarted == [9]


async def test_what_is_in_hand_stays_when_what_follows_was_deleted(stage: MakeStage) -> None:
    """A slow listener, and retention: no broker has these messages any more."""
    it = stage()
    deleted = PullAnswer(PullStatus.OFFSET_ILLEGAL, 700, 700, 1000)
    await it.run(found(5, 6), deleted, found(700), first=5)
    assert (it.restarted, it.submitted) == ([], [5, 6, 700])
    assert [offset for offset, _ in it.pulls] == [5, 7, 700, 701]
    assert it.held.safe_offset == 5


async def test_deleted_offsets_are_passed_when_nothing_is_in_hand(stage: MakeStage) -> None:
    it = stage()
    await it.run(PullAnswer(PullStatus.OFFSET_ILLEGAL, 700, 700, 1000), first=0)
    assert it.restarted == [] and it.offsets.memory(QUEUE) == 700
    assert [offset for offset, _ in it.pulls] == [0, 700]


async def test_a_suspended_consumer_does_not_pull(stage: MakeStage) -> None:
    it = stage()
    it.is_paused = True
    await it.run()
    await it.clock.run_for(5000)
    assert it.pulls == []
    it.is_paused = False
    await it.clock.run_for(1000)
    assert len(it.pulls) == 1


async def test_without_a_subscription_nothing_is_pulled(stage: MakeStage) -> None:
    it = stage()
    it.subscription = None
    await it.run()
    await it.clock.run_for(3000)
    assert it.pulls == []


async def test_an_answer_for_a_queue_that_was_lost_is_thrown_away(stage: MakeStage) -> None:
    it = stage()
    gate = asyncio.Event()

    async def late(held: ProcessQueue, subscription: Subscription, offset: int, commit: int) -> PullAnswer:
        await gate.wait()
        return found(0)

    it.plan.pull = late
    await it.run()
    it.held.dropped = True
    gate.set()
    await it.clock.settle()
    assert it.submitted == []


def with_damage(answer: PullAnswer, *offsets: int) -> PullAnswer:
    answer.damaged = [DamagedRecord(QUEUE, offset, "scripted") for offset in offsets]
    return answer


async def test_a_damaged_record_is_seen_to_between_its_neighbours(stage: MakeStage) -> None:
    it = stage()
    await it.run(with_damage(found(0, 1, 3, 5), 2, 4))
    assert it.damaged == [(2, [0, 1]), (4, [0, 1, 3])]
    assert it.submitted == [0, 1, 3, 5]
    assert [offset for offset, _ in it.pulls] == [0, 6]


async def test_a_filter_changed_while_a_damaged_record_is_settled_counts_from_the_record_on(stage: MakeStage) -> None:
    it = stage(expression="A")
    settle = it.plan.damaged

    async def subscribe_meanwhile(record: DamagedRecord) -> bool:
        it.subscription = parse_subscription("T", "A || B")
        return await settle(record)

    it.plan.damaged = subscribe_meanwhile
    await it.run(with_damage(found(0, 9, tags="A"), 2))  # the broker left 3 to 8 out: they have tag B
    assert it.submitted == [0]
    assert [offset for offset, _ in it.pulls] == [0, 3]


async def test_a_damaged_record_without_dead_letters_is_asked_for_again(stage: MakeStage) -> None:
    it = stage()
    it.no_dead_letters = True
    await it.run(with_damage(found(0, 1, 3), 2), with_damage(found(3), 2))
    assert it.submitted == [0, 1]
    it.no_dead_letters = False
    await it.clock.run_for(1000)
    assert [offset for offset, _ in it.pulls] == [0, 2, 4]
    assert it.submitted == [0, 1, 3]


async def test_a_queue_that_is_held_back_is_said_with_its_numbers(
    stage: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    it = stage(queue_messages_max=3)
    it.held.add([StoredMessage("T", b"x", queue_offset=offset) for offset in range(7, 12)])
    await it.run()
    assert (
        "flow control: T@b:0 has 5 messages (5 bytes) in hand from offset 7 on; the listener of group g" in caplog.text
    )
    assert it.pulls == []
