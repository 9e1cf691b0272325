"""Requests and answers against scripted brokers: who must know the asker, and how each request ends."""

from __future__ import annotations

import asyncio
import logging
import zlib
from typing import Any

import pytest

from rocketlake import Message, NoReply, NotRunning, Producer, StoredMessage, UsageError, reply_to
from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RemoteError
from rocketlake.client.config import ClientConfig, ProducerConfig
from rocketlake.client.errors import SendFailed
from rocketlake.client.instance import ClientInstance
from rocketlake.codec import property_text
from rocketlake.model import sys_flag
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.send import PushReplyHeader, SendReplyHeader, read_send_header
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

ANSWERS = "c_REPLY_TOPIC"
TIES = ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")


class Desk:
    """A broker that takes requests, and the answers that a test has it hand on."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        broker.answer_send = self.take
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.known: list[bool] = []
        """For each request: had a heartbeat come before it?"""

    def take(self, request: Request) -> Reply | Held:
        header = read_send_header(request.command)
        self.asked.append((property_text.decode((header.properties or "").encode()), bytes(request.body)))
        self.known.append(bool(self.broker.heartbeats))
        accepted: Reply = self.broker.accept(request)
        return accepted

    async def is_asked(self, times: int = 1) -> None:
        while len(self.asked) < times:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def hand_on(self, body: bytes, number: int = 0, *, flags: int = 0, **properties: str) -> int:
        """The client's word when it gets this answer to a request."""
        ties = {name: self.asked[number][0][name] for name in TIES if name in self.asked[number][0]}
        header = PushReplyHeader(
            producer_group="answers",
            topic=ANSWERS,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=flags,
            born_timestamp=1000,
            flag=7,
            properties=property_text.encode({**ties, **properties}).decode(),
            born_host="/10.0.0.9:4711",
            store_host="10.0.0.2:10911",
            store_timestamp=2000,
        )
        answer = await self.broker.ask_client(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, header, body)
        return int(answer.code)


@pytest.fixture
async def desk(peers: Any, make_broker: Any) -> Desk:
    broker = await make_broker("a")
    peers.route("T", broker)
    peers.route(ANSWERS, broker)
    return Desk(broker)


@pytest.fixture
async def asker(peers: Any) -> Any:
    started: list[Producer] = []

    async def start(group: str = "asks", instance: Any = None, **settings: Any) -> Producer:
        instance = instance or peers.client()
        await instance.start()
        producer = Producer(group, instance=instance, config=ProducerConfig(**settings))
        await producer.start()
        started.append(producer)
        return producer

    yield start
    for producer in started:
        await producer.stop()


def on_clock(peers: Any, clock: ManualClock) -> ClientInstance:
    """A client whose time stands still until a test moves it."""
    config = ClientConfig(namesrv="ns:9876", client_ip="10.0.0.1")
    peers.instances.append(ClientInstance(config, clock=clock, network=peers.net.host("client")))
    return peers.instances[-1]  # type: ignore[no-any-return]


def asking(producer: Producer, body: bytes = b"?", timeout_ms: int = 20_000) -> asyncio.Task[StoredMessage]:
    async def ask() -> StoredMessage:
        return await producer.request(Message("T", body), timeout_ms=timeout_ms)

    return asyncio.create_task(ask())


async def test_the_answer_is_a_message_as_java_makes_it(desk: Desk, asker: Any) -> None:
    producer = await asker()
    question = Message("T", b"?", keys="k")
    asked = asyncio.create_task(producer.request(question, timeout_ms=20_000))
    await desk.is_asked()
    properties, body = desk.asked[0]
    assert (body, properties["KEYS"], properties["TTL"]) == (b"?", "k", "20000")
    assert properties["REPLY_TO_CLIENT"] == producer.instance.client_id
    assert question == Message("T", b"?", keys="k"), "the message of the user is not changed"
    assert await desk.hand_on(b"!", KEYS="a") == ResponseCode.SUCCESS
    answer = await asked
    assert (answer.body, answer.topic, answer.flag, answer.keys) == (b"!", ANSWERS, 7, "a")
    assert (answer.born_ms, answer.born_host) == (1000, ("10.0.0.9", 4711))
    assert (answer.store_ms, answer.store_host) == (2000, ("10.0.0.2", 10911))
    assert answer.properties["CORRELATION_ID"] == properties["CORRELATION_ID"]
    assert 0 <= producer.instance.clock.now_ms() - int(answer.properties["ARRIVE_TIME"]) < 60_000


async def test_a_compressed_answer_is_unpacked_and_a_broken_one_refused(desk: Desk, asker: Any) -> None:
    asked = asking(await asker())
    await desk.is_asked()
    flags = sys_flag.mark_compressed(0, sys_flag.ZLIB)
    assert await desk.hand_on(zlib.compress(b"!" * 9000)[:-3], flags=flags) == ResponseCode.SYSTEM_ERROR
    assert await desk.hand_on(zlib.compress(b"!" * 9000), flags=flags) == ResponseCode.SUCCESS
    assert (await asked).body == b"!" * 9000


async def test_all_brokers_of_the_cluster_know_the_asker_before_its_request_goes_out(
    peers: Any, make_broker: Any, clock: ManualClock, desk: Desk, asker: Any
) -> None:
    """The topic is on one broker, and the answer may come to any."""
    other = await make_broker("b")
    peers.route(ANSWERS, desk.broker, other)
    asked = asking(await asker(instance=on_clock(peers, clock)))
    await desk.is_asked()
    assert desk.known == [True]
    for broker in (desk.broker, other):
        assert "asks" in [each.group_name for each in broker.heartbeats[0].producers]
    await desk.hand_on(b"!")
    assert (await asked).body == b"!"


async def test_without_a_topic_of_answers_the_brokers_of_the_topic_know_the_asker(
    peers: Any, clock: ManualClock, desk: Desk, asker: Any
) -> None:
    del peers.routes[ANSWERS]
    asked = asking(await asker(instance=on_clock(peers, clock)))
    await desk.is_asked()
    assert desk.known == [True]
    await desk.hand_on(b"!")
    assert (await asked).body == b"!"


async def test_a_link_that_was_opened_anew_begins_with_a_heartbeat(
    peers: Any, make_broker: Any, clock: ManualClock, desk: Desk, asker: Any
) -> None:
    """A broker that restarts has forgotten its clients; so has one whose link broke."""
    other = await make_broker("b")
    peers.route(ANSWERS, desk.broker, other)
    producer = await asker(instance=on_clock(peers, clock))
    for number, is_lost in enumerate((False, True)):
        if is_lost:
            for host in ("a", "b"):
                await peers.kill(host)
            desk.broker.heartbeats.clear()
            other.heartbeats.clear()
            await peers.broker(desk.broker)
            await peers.broker(other)
        asked = asking(producer)
        await desk.is_asked(number + 1)
        assert desk.known[-1]
        assert other.heartbeats, "the broker that may get the answer knows the asker, too"
        await desk.hand_on(b"!", number)
        assert (await asked).body == b"!"


@pytest.mark.parametrize("is_silent", [False, True])
async def test_a_broker_that_is_gone_holds_up_one_request_and_for_half_a_second_at_most(
    peers: Any, make_broker: Any, clock: ManualClock, desk: Desk, asker: Any, is_silent: bool
) -> None:
    peers.route(ANSWERS, desk.broker, await make_broker("b"))
    await peers.kill("b")
    if is_silent:
        peers.net.vanished.add("b")
    producer = await asker(instance=on_clock(peers, clock))
    first = asking(producer, b"1", timeout_ms=5000)
    await clock.run_for(500)
    assert [body for _, body in desk.asked] == [b"1"]
    await clock.run_for(4000)  # an attempt to connect has failed by now
    others = [asking(producer, body, timeout_ms=5000) for body in (b"2", b"3")]
    await clock.settle()
    assert sorted(body for _, body in desk.asked) == [b"1", b"2", b"3"]
    for number in range(3):
        await desk.hand_on(b"!", number)
    assert {(await each).body for each in (first, *others)} == {b"!"}


async def test_each_answer_is_given_out_once_and_only_to_its_request(
    desk: Desk, asker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await asker()
    first, second = asking(producer, b"1"), asking(producer, b"2")
    await desk.is_asked(2)
    by_body = {body: number for number, (_, body) in enumerate(desk.asked)}
    with caplog.at_level(logging.INFO):
        assert await desk.hand_on(b"to 2", by_body[b"2"]) == ResponseCode.SUCCESS
        assert await desk.hand_on(b"to 2 again", by_body[b"2"]) == ResponseCode.SUCCESS
        assert await desk.hand_on(b"to nobody", CORRELATION_ID="17") == ResponseCode.SUCCESS
    assert "no request waits for it" in caplog.text
    assert await desk.hand_on(b"to 1", by_body[b"1"]) == ResponseCode.SUCCESS
    assert [(await each).body for each in (first, second)] == [b"to 1", b"to 2"]


async def test_producers_of_one_instance_get_their_own_answers(desk: Desk, asker: Any) -> None:
    one = await asker("one")
    other = await asker("other", instance=one.instance)
    calls = [asking(one, b"1"), asking(other, b"2")]
    await desk.is_asked(2)
    for number, (_, body) in enumerate(desk.asked):
        assert await desk.hand_on(b"to " + body, number) == ResponseCode.SUCCESS
    assert [(await each).body for each in calls] == [b"to 1", b"to 2"]


async def test_an_answer_that_comes_before_the_brokers_word_is_taken(desk: Desk, asker: Any) -> None:
    desk.broker.answer_send = lambda request: (desk.take(request), HELD)[1]
    asked = asking(await asker())
    await desk.is_asked()
    await desk.hand_on(b"!")
    assert (await asked).body == b"!"


async def test_without_an_answer_in_time_the_error_says_that_the_request_is_stored(
    peers: Any, clock: ManualClock, desk: Desk, asker: Any
) -> None:
    producer = await asker(instance=on_clock(peers, clock))
    asked = asking(producer, timeout_ms=5000)
    await desk.is_asked()
    await clock.run_for(4999)
    assert not asked.done()
    await clock.run_for(2)
    with pytest.raises(NoReply, match="'T' is stored, but no answer came within 5000 ms") as caught:
        await asked
    assert caught.value.sent.queue.topic == "T"  # type: ignore[attr-defined]
    assert not producer._requests._open, "nothing is left of it"
    assert await desk.hand_on(b"late") == ResponseCode.SUCCESS


async def test_a_request_that_is_not_stored_fails_as_its_send_does(peers: Any, desk: Desk, asker: Any) -> None:
    producer = await asker(retries=0)
    desk.broker.answer_send = lambda request: HELD
    with pytest.raises(SendFailed, match="within 60 ms"):
        await asking(producer, timeout_ms=60)
    desk.broker.refuse(ResponseCode.MESSAGE_ILLEGAL)
    async with asyncio.timeout(10):  # at once, not when the time of the request is over
        with pytest.raises(RemoteError, match="MESSAGE_ILLEGAL"):
            await asking(producer, timeout_ms=600_000)
    with pytest.raises(UsageError, match="empty body"):
        await producer.request(Message("T"))
    assert not producer._requests._open


async def test_a_producer_that_stops_ends_its_requests(desk: Desk, asker: Any) -> None:
    producer = await asker()
    asked = asking(producer, timeout_ms=600_000)
    await desk.is_asked()
    await producer.stop()
    with pytest.raises(NotRunning, match="was stopped"):
        await asked
    with pytest.raises(NotRunning):
        await producer.request(Message("T", b"?"))


async def test_a_request_that_is_given_up_leaves_nothing_behind(desk: Desk, asker: Any) -> None:
    producer = await asker()
    asked = asking(producer)
    await desk.is_asked()
    asked.cancel()
    await asyncio.wait((asked,))
    assert not producer._requests._open
    assert await desk.hand_on(b"!") == ResponseCode.SUCCESS


# -- answering ---------------------------------------------------------------------------------------------------------


def request_of(**properties: str) -> StoredMessage:
    ties = {"CLUSTER": "c", "CORRELATION_ID": "17", "REPLY_TO_CLIENT": "10.0.0.1@1", "TTL": "3000"}
    request = StoredMessage("T", b"?", broker_name="a")
    request.properties = {name: value for name, value in {**ties, **properties}.items() if value}
    return request


def test_an_answer_is_tied_to_its_request() -> None:
    ties = {"CORRELATION_ID": "17", "REPLY_TO_CLIENT": "10.0.0.1@1", "TTL": "3000", "MSG_TYPE": "reply"}
    assert reply_to(request_of(), b"!") == Message.with_properties(ANSWERS, b"!", ties)
    own = Message("", b"!", tags="A", properties={"unit": "m"}, flag=3)
    assert reply_to(request_of(), own) == Message.with_properties(
        ANSWERS, b"!", {"TAGS": "A", "unit": "m", **ties}, flag=3
    )
    assert own == Message("", b"!", tags="A", properties={"unit": "m"}, flag=3)
    echo = reply_to(request_of(UNIQ_KEY="its", DELAY="3", KEYS="k"), request_of(UNIQ_KEY="its", DELAY="3", KEYS="k"))
    assert echo == Message.with_properties(ANSWERS, b"?", {"KEYS": "k", **ties})


@pytest.mark.parametrize("lacks", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT"])
def test_a_message_that_asks_for_nothing_has_no_answer(lacks: str) -> None:
    with pytest.raises(UsageError, match="asks for no answer"):
        reply_to(request_of(**{lacks: ""}), b"!")


class Counter:
    """A broker that takes answers."""

    def __init__(self) -> None:
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.code = ResponseCode.SUCCESS

    def take(self, request: Request) -> Reply:
        header = read_send_header(request.command)
        self.taken.append((property_text.decode((header.properties or "").encode()), bytes(request.body)))
        return Reply(self.code, header=SendReplyHeader(msg_id="0", queue_id=0, queue_offset=0))


@pytest.fixture
async def counter(peers: Any, make_broker: Any) -> Counter:
    counter = Counter()
    peers.route(ANSWERS, await make_broker("a", {RequestCode.SEND_REPLY_MESSAGE_V2: counter.take}))
    return counter


async def test_what_the_function_returns_is_sent_to_the_asker(counter: Counter, asker: Any) -> None:
    producer = await asker()
    await producer.replier(lambda request: b"re: " + request.body)([request_of()])

    async def answer(request: StoredMessage) -> Message | None:
        return Message("", b"two") if request.properties["CORRELATION_ID"] == "18" else None

    await producer.replier(answer)([request_of(), request_of(CORRELATION_ID="18")])
    assert [(ties["CORRELATION_ID"], body) for ties, body in counter.taken] == [("17", b"re: ?"), ("18", b"two")]


async def test_an_answer_that_nobody_takes_is_lost_and_its_request_is_done(
    counter: Counter, asker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    counter.code = ResponseCode.SYSTEM_ERROR
    producer = await asker(retries=1)
    await producer.replier(lambda _: b"!")([request_of()])
    assert len(counter.taken) == 2, "it is tried again, as a send is"
    assert "is lost" in caplog.text


async def test_an_answer_to_a_message_that_asks_for_none_is_dropped(
    counter: Counter, asker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await (await asker()).replier(lambda _: b"!")([request_of(REPLY_TO_CLIENT="")])
    assert counter.taken == []
    assert "asks for no answer" in caplog.text


async def test_a_request_comes_again_when_it_was_not_handled(counter: Counter, asker: Any) -> None:
    producer = await asker()

    def fail(_: StoredMessage) -> bytes:
        raise LookupError("no price")

    with pytest.raises(LookupError):
        await producer.replier(fail)([request_of()])
    with pytest.raises(UsageError, match="bytes, not str"):
        await producer.replier(lambda _: "text")([request_of()])  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="function is a function"):
        producer.replier(b"!")  # type: ignore[arg-type]

    async def answer(_: StoredMessage) -> bytes:
        await producer.stop()
        return b"!"

    with pytest.raises(NotRunning):
        await producer.replier(answer)([request_of()])
    assert counter.taken == []


async def test_answers_go_one_by_one(asker: Any) -> None:
    with pytest.raises(UsageError, match="answer to a request"):
        await (await asker()).send_batch([reply_to(request_of(), b"!")])
