"""A broker name gets a new master: sends go over to it within their time, in order, without a storm of questions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketlake.base.errors import LinkError, RemoteError
from rocketlake.client.calls.send import SendStatus
from rocketlake.client.config import ProducerConfig
from rocketlake.client.errors import SendFailed
from rocketlake.client.producer.producer import Producer
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.request import HELD, Reply, Request
from rocketlake.protocol.response_code import ResponseCode

QUEUE = MessageQueue("T", "g", 0)
SLAVE = "this broker is a slave (brokerId 1): ask the master of g"


class Group:
    """A broker name with the members a (master at first) and b."""

    def __init__(self, peers: Any, a: Any, b: Any) -> None:
        self.peers, self.a, self.b = peers, a, b
        peers.group("T", "g", a, b)

    def switch(self) -> None:
        """The name servers know b as the master."""
        self.peers.group("T", "g", self.b, self.a)

    @property
    def questions(self) -> int:
        return len(self.peers.route_questions)

    async def asked(self) -> None:
        """Wait until a has a send."""
        while not self.a.sent:  # noqa: ASYNC110
            await asyncio.sleep(0)

    def bodies(self, broker: Any) -> list[bytes]:
        return [body for _, body in broker.sent]


@pytest.fixture
async def group(peers: Any, make_broker: Any) -> Group:
    return Group(peers, await make_broker("a"), await make_broker("b"))


@pytest.fixture
async def start(peers: Any) -> Any:
    started: list[Producer] = []

    async def make(*, send_timeout_ms: int = 20_000, knows_queues: bool = True, **settings: Any) -> Producer:
        instance = peers.client()
        await instance.start()
        producer = Producer("p", instance=instance, config=ProducerConfig(send_timeout_ms=send_timeout_ms, **settings))
        await producer.start()
        started.append(producer)
        if knows_queues:
            await producer.queues("T")
        return producer

    yield make
    for producer in started:
        await producer.stop()


@pytest.mark.parametrize("queue", [None, QUEUE])
async def test_a_send_whose_link_breaks_is_repeated_on_the_new_master(group: Group, start: Any, queue: Any) -> None:
    producer = await start()
    group.a.answer_send = lambda request: HELD
    sent = asyncio.create_task(producer.send(Message("T", b"x"), queue=queue))
    await group.asked()
    group.switch()
    await group.peers.kill("a")
    assert (await sent).status is SendStatus.OK
    assert group.bodies(group.b) == [b"x"]


async def test_a_repeat_says_when_its_message_was_born(group: Group, start: Any) -> None:
    """By that a broker knows a half message that came twice: the producer ends the second one only."""
    producer = await start()
    group.a.answer_send = lambda request: HELD
    sent = asyncio.create_task(producer.send(Message("T", b"x")))
    await group.asked()
    born_ms = group.a.sent[0][0].born_timestamp
    while producer.instance.clock.now_ms() == born_ms:  # noqa: ASYNC110
        await asyncio.sleep(0)
    group.switch()
    await group.peers.kill("a")
    await sent
    assert group.b.sent[0][0].born_timestamp == born_ms


async def test_while_no_master_is_known_sends_wait_and_the_questions_are_few(group: Group, start: Any) -> None:
    producer = await start()
    group.peers.group("T", "g", None, group.b)
    await group.peers.kill("a")
    before = group.questions
    sends = [asyncio.create_task(producer.send(Message("T", b"%d" % n), key=n)) for n in range(50)]
    while group.questions - before < 3:
        await asyncio.wait(sends, timeout=0.05)
    assert not any(task.done() for task in sends)
    assert group.questions - before <= 20
    group.switch()
    assert {(await task).status for task in sends} == {SendStatus.OK}
    assert sorted(group.bodies(group.b)) == sorted(b"%d" % n for n in range(50))


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.SLAVE_NOT_AVAILABLE, SLAVE),
        (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while"),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "service not available now, messages are put to the slave, ..."),
    ],
)
async def test_the_refusal_of_a_slave_leads_to_the_master(
    group: Group, start: Any, code: ResponseCode, remark: str
) -> None:
    producer = await start(retries=0)
    group.a.refuse(code, remark)
    group.switch()
    result = await producer.send(Message("T", b"x"), queue=QUEUE)
    assert (result.status, group.bodies(group.b)) == (SendStatus.OK, [b"x"])
    assert set(group.bodies(group.a)) == {b"x"}, "asked again if a busy machine makes the pause end before the answer"


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_a_message_that_no_replica_had_is_sent_again_if_the_master_is_replaced(
    group: Group, start: Any, is_replaced: bool
) -> None:
    producer = await start()

    def lacks_a_slave(request: Request) -> Reply:
        stored = group.a.accept(request)
        return Reply(ResponseCode.FLUSH_SLAVE_TIMEOUT, header=stored.header)

    group.a.answer_send = lacks_a_slave
    if is_replaced:
        group.switch()
    result = await producer.send(Message("T", b"x"), queue=QUEUE)
    assert result.status is (SendStatus.OK if is_replaced else SendStatus.FLUSH_SLAVE_TIMEOUT)
    assert (group.bodies(group.a), group.bodies(group.b)) == ([b"x"], [b"x"] if is_replaced else [])


async def test_a_master_that_hangs_is_left_as_soon_as_there_is_another(group: Group, start: Any) -> None:
    producer = await start()
    group.a.answer_send = lambda request: HELD
    loop = asyncio.get_running_loop()
    begun = loop.time()
    sends = [asyncio.create_task(producer.send(Message("T", b"%d" % n), queue=QUEUE)) for n in range(3)]
    await asyncio.wait(sends, timeout=0.3)
    assert group.questions == 1, "half a second has not passed"
    group.switch()
    await asyncio.gather(*sends)
    assert loop.time() - begun < 3
    assert group.bodies(group.b) == [b"0", b"1", b"2"]


async def test_sends_to_one_queue_keep_their_order_over_a_switch(group: Group, start: Any) -> None:
    producer = await start()
    await producer.send(Message("T", b"opens the link"), queue=QUEUE)
    group.a.answer_send = lambda request: group.a.accept(request) if len(group.a.sent) <= 6 else HELD
    refusals = 3

    def not_yet(request: Request) -> Reply:
        nonlocal refusals
        refusals -= 1
        return Reply(ResponseCode.SLAVE_NOT_AVAILABLE, remark=SLAVE) if refusals >= 0 else group.b.accept(request)

    group.b.answer_send = not_yet
    sends = []
    for n in range(40):
        sends.append(asyncio.create_task(producer.send(Message("T", b"%d" % n), queue=QUEUE)))
        await asyncio.sleep(0)
        if n == 20:
            group.switch()
            await group.peers.kill("a")
    await asyncio.gather(*sends)
    taken = group.bodies(group.a)[1:6] + group.bodies(group.b)[3:]
    assert taken == [b"%d" % n for n in range(40)]


async def test_a_send_is_not_repeated_behind_a_later_one_of_its_queue(group: Group, start: Any) -> None:
    producer = await start()
    held: list[Request] = []

    def answer(request: Request) -> Any:
        if len(group.a.sent) == 1:
            held.append(request)
            return HELD
        return group.a.accept(request)

    group.a.answer_send = answer
    first = asyncio.create_task(producer.send(Message("T", b"first"), queue=QUEUE))
    await group.asked()
    await producer.send(Message("T", b"second"), queue=QUEUE)
    held[0].answer(Reply(ResponseCode.SLAVE_NOT_AVAILABLE, remark=SLAVE))
    with pytest.raises(RemoteError, match="SLAVE_NOT_AVAILABLE"):
        await first
    assert group.bodies(group.a) == [b"first", b"second"]


async def test_a_send_that_failed_waits_for_those_that_went_out_behind_it(group: Group, start: Any) -> None:
    """The old master hangs with the first one; the new one has stored the second, and not answered yet."""
    producer = await start()
    group.a.answer_send = lambda request: HELD
    answers: list[Any] = []

    def store_and_hold(request: Request) -> Any:
        reply = group.b.accept(request)
        answers.append(lambda: request.answer(reply))
        return HELD

    group.b.answer_send = store_and_hold
    first = asyncio.create_task(producer.send(Message("T", b"first"), queue=QUEUE))
    await group.asked()
    group.switch()
    await producer.instance.refresh_route("T")
    second = asyncio.create_task(producer.send(Message("T", b"second"), queue=QUEUE))
    while not answers:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await group.peers.kill("a")
    third = asyncio.create_task(producer.send(Message("T", b"third"), queue=QUEUE))
    await asyncio.wait([first, third], timeout=0.3)
    assert (first.done(), group.bodies(group.b)) == (False, [b"second"])
    group.b.answer_send = group.b.accept
    answers[0]()
    with pytest.raises(SendFailed, match="behind a later message"):
        await first
    assert ((await second).status, (await third).status) == (SendStatus.OK, SendStatus.OK)
    assert group.bodies(group.b) == [b"second", b"third"]


async def test_a_send_that_was_refused_is_not_taken_behind_the_next_one(group: Group, start: Any) -> None:
    """The master refuses one, and the next one waits for a replica that has just joined."""
    producer = await start()
    loop = asyncio.get_running_loop()
    requests: list[Request] = []

    def answer(request: Request) -> Any:
        requests.append(request)
        if len(requests) == 2:
            requests[0].answer(Reply(ResponseCode.SYSTEM_BUSY, remark="[REJECTREQUEST]too few replicas are in step"))
            loop.call_later(0.3, request.answer, group.a.accept(request))
        return HELD if len(requests) <= 2 else group.a.accept(request)

    group.a.answer_send = answer
    sends = [asyncio.create_task(producer.send(Message("T", body), queue=QUEUE)) for body in (b"first", b"second")]
    with pytest.raises(SendFailed, match="behind a later message"):
        await sends[0]
    assert (await sends[1]).status is SendStatus.OK
    assert [bytes(request.body) for request in requests] == [b"first", b"second"]


async def test_the_first_sends_of_a_producer_go_out_as_they_come(group: Group, start: Any) -> None:
    """Those that wait for the route, and those that come when it is there."""
    producer = await start(knows_queues=False)
    sends = []
    for n in range(500):
        sends.append(asyncio.create_task(producer.send(Message("T", b"%d" % n), key="k")))
        await asyncio.sleep(0)
    await asyncio.gather(*sends)
    assert group.bodies(group.a) == [b"%d" % n for n in range(500)]


async def test_without_retries_a_send_that_may_be_stored_is_not_repeated(group: Group, start: Any) -> None:
    producer = await start(retries=0)
    group.a.answer_send = lambda request: HELD
    sent = asyncio.create_task(producer.send(Message("T", b"x"), queue=QUEUE))
    await group.asked()
    group.switch()
    await group.peers.kill("a")
    with pytest.raises(SendFailed) as caught:
        await sent
    assert isinstance(caught.value.__cause__, LinkError)
    assert group.bodies(group.b) == []


async def test_when_no_new_master_comes_the_time_of_the_send_counts(group: Group, start: Any) -> None:
    producer = await start(send_timeout_ms=600)
    await group.peers.kill("a")
    with pytest.raises(SendFailed, match="within 600 ms") as caught:
        await producer.send(Message("T", b"x"), queue=QUEUE)
    assert len(caught.value.attempts) == 1, "repeats at one broker are named once"


async def test_keys_keep_their_queue_while_one_of_two_groups_has_no_master(
    group: Group, peers: Any, make_broker: Any, start: Any
) -> None:
    other = await make_broker("z")
    route = peers.routes["T"]
    peers.route("T", other)
    peers.routes["T"].queues.extend(route.queues)
    peers.routes["T"].brokers.extend(route.brokers)
    producer = await start()
    queues = await producer.queues("T")
    lost = next(broker for broker in peers.routes["T"].brokers if broker.name == "g")
    del lost.addresses[0]
    await peers.kill("a")
    await producer.instance.refresh_route("T")
    assert await producer.queues("T") == queues
    results = [await producer.send(Message("T", b"x")) for _ in range(4)]
    assert {result.queue.broker_name for result in results} == {"z"}
    lost.addresses[0] = group.b.address
    assert (await producer.send(Message("T", b"y"), queue=QUEUE)).status is SendStatus.OK
