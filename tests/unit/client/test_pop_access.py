"""Requests about popped messages, at a scripted broker: handles, times that are over, one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rocketlake import ClientConfig, HandleExpired, StoredMessage, UsageError
from rocketlake.base.clock import ManualClock
from rocketlake.base.service import Service
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.client.consumer.pops.renewals import Renewals
from rocketlake.client.instance import ClientInstance
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.pop import ANY_QUEUE
from rocketlake.model.subscription import parse_subscription
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.bodies.pop import BatchAckBody
from rocketlake.protocol.headers.pop import (
    AckHeader,
    ChangeInvisibleHeader,
    ChangeInvisibleReplyHeader,
    PopHeader,
    PopReplyHeader,
)
from rocketlake.protocol.request_code import RequestCode as Code
from tests.unit.client.conftest import Peers, ScriptedBroker
from tests.unit.client.records import stored_record

INVISIBLE_MS = 60_000
ANY = MessageQueue("T", "b", ANY_QUEUE)


class PopBroker:
    """Hands out two messages, offsets 7 and 9 of queue 0, and notes what is asked about them."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.acked: list[str] = []
        self.batches: list[BatchAckBody] = []
        self.changes: list[Request] = []
        self.is_slow = False
        self.silent_about = -1
        self.is_asked = asyncio.Event()
        self.handlers = {
            Code.POP_MESSAGE: self.pop,
            Code.ACK_MESSAGE: self.ack,
            Code.BATCH_ACK_MESSAGE: self.batch,
            Code.CHANGE_MESSAGE_INVISIBLETIME: self.change,
        }

    @property
    def now_ms(self) -> int:
        """The broker has a clock of its own."""
        return 5_000_000 + int(self._clock.monotonic() * 1000)

    def pop(self, request: Request) -> Reply:
        header = request.header(PopHeader)
        assert (header.born_time, header.queue_id) == (0, ANY_QUEUE)
        answer = PopReplyHeader(
            pop_time=self.now_ms,
            invisible_time=header.invisible_time,
            revive_qid=3,
            rest_num=0,
            start_offset_info="0 0 7",
            msg_offset_info="0 0 7,9",
        )
        return Reply(header=answer, body=stored_record(b"a", queue_offset=7) + stored_record(b"b", queue_offset=9))

    def ack(self, request: Request) -> Reply:
        header = request.header(AckHeader)
        self.acked.append(header.extra_info)
        return Reply()

    def batch(self, request: Request) -> Reply:
        self.batches.append(BatchAckBody.decode(request.body))
        return Reply()

    def change(self, request: Request) -> Reply | Held:
        self.changes.append(request)
        self.is_asked.set()
        if self.is_slow or request.header(ChangeInvisibleHeader).offset == self.silent_about:
            return HELD
        return self.changed(request)

    def changed(self, request: Request) -> Reply:
        header = request.header(ChangeInvisibleHeader)
        told = ChangeInvisibleReplyHeader(pop_time=self.now_ms, invisible_time=header.invisible_time, revive_qid=3)
        return Reply(header=told)


@pytest.fixture
def broker(clock: ManualClock) -> PopBroker:
    return PopBroker(clock)


@pytest.fixture
async def pops(
    peers: Peers, broker: PopBroker, clock: ManualClock, make_broker: Callable[..., Awaitable[ScriptedBroker]]
) -> PopAccess:
    peers.route("T", await make_broker("b", broker.handlers))
    config = ClientConfig(namesrv="ns:9876", client_ip="10.0.0.1")
    instance = ClientInstance(config, clock=clock, network=peers.net.host("client"))
    peers.instances.append(instance)
    return PopAccess(instance, "g")


async def popped(pops: PopAccess) -> list[StoredMessage]:
    answer = await pops.pop(
        ANY, parse_subscription("T", "*"), max_messages=2, invisible_ms=INVISIBLE_MS, poll_ms=0, from_first=True
    )
    return answer.messages


async def test_each_message_has_its_handle(pops: PopAccess, broker: PopBroker) -> None:
    first, second = await popped(pops)
    assert first.properties["POP_CK"] == f"7 {broker.now_ms} 60000 3 0 b 0 7"
    assert second.properties["POP_CK"] == f"7 {broker.now_ms} 60000 3 0 b 0 9"
    await pops.ack_all([first, second])
    ((entry,),) = [batch.acks for batch in broker.batches]
    assert (entry.start_offset, entry.offsets(), entry.retry, entry.revive_queue) == (7, [7, 9], "0", 3)


async def test_a_time_that_is_over_is_told_whatever_is_done_to_the_clock(
    pops: PopAccess, broker: PopBroker, clock: ManualClock
) -> None:
    first, second = await popped(pops)
    clock.jump_wall(3_600_000)
    await pops.ack(first)
    clock.jump_wall(-7_200_000)
    clock.advance(INVISIBLE_MS)
    assert pops.is_over(second)
    with pytest.raises(HandleExpired):
        await pops.ack(second)
    await pops.ack_all([second])
    assert (len(broker.acked), broker.batches) == (1, [])


async def test_an_acknowledgement_waits_for_the_handle_that_is_on_its_way(pops: PopAccess, broker: PopBroker) -> None:
    message, _ = await popped(pops)
    broker.is_slow = True
    change = asyncio.ensure_future(pops.change(message, 1000))
    await broker.is_asked.wait()
    ack = asyncio.ensure_future(pops.ack(message))
    (request,) = broker.changes
    for _ in range(100):
        await asyncio.sleep(0)
    assert broker.acked == []
    request.answer(broker.changed(request))
    await asyncio.gather(change, ack)
    assert broker.acked == [f"7 {broker.now_ms} 1000 3 0 b 0 7"]


@pytest.fixture
async def renewals(pops: PopAccess, clock: ManualClock, service: Service) -> Renewals:
    renewals = Renewals(pops, 3 * INVISIBLE_MS, clock, service.spawn)
    service.keep("renewals", renewals.run)
    return renewals


async def test_what_is_worked_on_is_renewed_and_no_longer(
    pops: PopAccess, broker: PopBroker, clock: ManualClock, renewals: Renewals
) -> None:
    first, second = await popped(pops)
    renewals.begin([first, second], INVISIBLE_MS)
    await clock.run_for(INVISIBLE_MS // 3 + 100)
    assert len(broker.changes) == 2
    renewals.end(first)
    await clock.run_for(10 * INVISIBLE_MS)
    offsets = [request.header(ChangeInvisibleHeader).offset for request in broker.changes]
    assert (offsets.count(7), offsets.count(9)) == (1, 8), "every third of its time, for as long as it may last"


async def test_a_renewal_without_an_answer_keeps_no_other_waiting(
    pops: PopAccess, broker: PopBroker, clock: ManualClock, renewals: Renewals
) -> None:
    first, second = (await popped(pops))[:2]
    invisible_ms = 3_000  # shorter than the timeout of a renewal
    broker.silent_about = 7
    renewals.begin([first, second], invisible_ms)
    await clock.run_for(invisible_ms * 2 + 100)
    offsets = [request.header(ChangeInvisibleHeader).offset for request in broker.changes]
    assert (offsets.count(7), offsets.count(9)) == (2, 6), "each third of its time, but for one that is being asked"


async def test_a_message_that_was_not_popped_is_refused(pops: PopAccess) -> None:
    with pytest.raises(UsageError, match="was not popped"):
        await pops.ack(StoredMessage("T", b"m"))
