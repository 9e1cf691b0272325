"""The producer against scripted brokers: retries, shared time, checks, batches, background sends."""

from __future__ import annotations

import asyncio
import random
import sys
import zlib
from collections import Counter
from typing import Any

import pytest

from rocketlake.base.errors import LinkError, RemoteError, UsageError
from rocketlake.client.calls.send import SendResult, SendStatus
from rocketlake.client.config import ProducerConfig
from rocketlake.client.errors import BatchFailed, NoRoute, NotRunning, SendFailed, TooManySends
from rocketlake.client.producer.producer import Producer
from rocketlake.codec import compression, property_text
from rocketlake.codec.record_batch import decode_batch
from rocketlake.model import sys_flag
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode


@pytest.fixture
async def brokers(peers: Any, make_broker: Any) -> Any:
    a, b = await make_broker("a"), await make_broker("b")
    peers.route("T", a, b)
    return a, b


@pytest.fixture
async def start(peers: Any) -> Any:
    started: list[Producer] = []

    async def make(**settings: Any) -> Producer:
        instance = peers.client()
        await instance.start()
        producer = Producer("g", instance=instance, config=ProducerConfig(**settings))
        await producer.start()
        started.append(producer)
        return producer

    yield make
    for producer in started:
        await producer.stop()


async def test_sends_go_round_all_queues_of_all_brokers(brokers: Any, start: Any) -> None:
    producer = await start()
    results = [await producer.send(Message("T", b"x")) for _ in range(8)]
    assert set(Counter(result.queue for result in results).values()) == {2}
    assert all(result.status is SendStatus.OK for result in results)
    assert len({result.message_id for result in results}) == 8


async def test_the_message_itself_is_left_alone(brokers: Any, start: Any) -> None:
    message = Message("T", b"x" * 9000, tags="A")
    await (await start()).send(message)
    assert message == Message("T", b"x" * 9000, tags="A")


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE])
async def test_a_passing_refusal_is_retried_on_another_broker(brokers: Any, start: Any, code: ResponseCode) -> None:
    a, _ = brokers
    a.refuse(code)
    producer = await start()
    results = [await producer.send(Message("T", b"x")) for _ in range(6)]
    assert {result.queue.broker_name for result in results} == {"b"}
    assert a.sent, "a was tried too"


async def test_a_retry_keeps_the_message_id(brokers: Any, start: Any) -> None:
    a, b = brokers
    a.refuse(ResponseCode.SYSTEM_BUSY)
    producer = await start()
    for _ in range(4):
        await producer.send(Message("T", b"x"))
    ids = Counter(property_text.decode(header.properties.encode())["UNIQ_KEY"] for header, _ in a.sent + b.sent)
    assert len(ids) == 4
    assert max(ids.values()) == 2


async def test_a_lasting_refusal_is_raised_at_once_with_code_remark_and_address(brokers: Any, start: Any) -> None:
    a, b = brokers
    a.refuse(ResponseCode.MESSAGE_ILLEGAL)
    b.refuse(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(RemoteError, match=r"MESSAGE_ILLEGAL: scripted") as caught:
        await (await start()).send(Message("T", b"x"))
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert caught.value.address in (a.address, b.address)
    assert len(a.sent) + len(b.sent) == 1


async def test_a_dead_broker_is_passed_over(peers: Any, brokers: Any, start: Any) -> None:
    producer = await start()
    await peers.kill("a")
    results = [await producer.send(Message("T", b"x")) for _ in range(4)]
    assert {result.queue.broker_name for result in results} == {"b"}


async def test_when_all_attempts_fail_each_is_named(peers: Any, brokers: Any, start: Any) -> None:
    a, _b = brokers
    a.refuse(ResponseCode.SYSTEM_BUSY)
    await peers.kill("b")
    with pytest.raises(SendFailed) as caught:
        await (await start(retries=1)).send(Message("T", b"x"))
    assert {broker for broker, _ in caught.value.attempts} == {"a", "b"}
    assert isinstance(caught.value.__cause__, RemoteError | LinkError)


async def test_all_attempts_share_the_time_of_the_call(brokers: Any, start: Any) -> None:
    producer = await start()
    for _ in range(4):  # both brokers are connected, so that the time of the call is that of its attempts
        await producer.send(Message("T", b"x"))
    for broker in brokers:
        broker.sent.clear()
        broker.answer_send = lambda request: HELD
    with pytest.raises(SendFailed, match="within 50 ms"):
        await producer.send(Message("T", b"x"), timeout_ms=50)
    assert sum(len(broker.sent) for broker in brokers) == 1


async def test_a_queue_of_the_callers_choice_is_tried_once(brokers: Any, start: Any) -> None:
    a, b = brokers
    a.refuse(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(RemoteError):
        await (await start()).send(Message("T", b"x"), queue=MessageQueue("T", "a", 1))
    assert len(a.sent) == 1
    assert b.sent == []


async def test_equal_keys_go_to_one_queue_and_selectors_decide(brokers: Any, start: Any) -> None:
    producer = await start()
    by_key = {(await producer.send(Message("T", b"x"), key="N123")).queue for _ in range(5)}
    assert len(by_key) == 1
    chosen = await producer.send(Message("T", b"x"), selector=lambda queues, message: queues[-1])
    assert chosen.queue == (await producer.queues("T"))[-1]
    with pytest.raises(UsageError, match="give one of them"):
        await producer.send(Message("T", b"x"), key="k", selector=lambda queues, message: queues[0])


async def test_a_message_stored_but_not_flushed_is_an_answer_not_an_error(brokers: Any, start: Any) -> None:
    for broker in brokers:
        broker.answer_send = lambda request, broker=broker: _late(broker, request)
    result = await (await start()).send(Message("T", b"x"))
    assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
    retried = await (await start(retry_when_not_stored_ok=True, retries=1)).send(Message("T", b"x"))
    assert retried.status is SendStatus.FLUSH_DISK_TIMEOUT
    assert sum(len(broker.sent) for broker in brokers) == 3


def _late(broker: Any, request: Any) -> Any:
    reply = broker.accept(request)
    reply.code = ResponseCode.FLUSH_DISK_TIMEOUT
    return reply


@pytest.mark.parametrize(("kind", "number"), [("zlib", 3), ("lz4", 1), ("zstd", 2)])
async def test_bodies_from_four_kib_on_are_compressed(brokers: Any, start: Any, kind: str, number: int) -> None:
    producer = await start(compression=kind)
    body = b"0123456789abcdef" * 256
    await producer.send(Message("T", body[:-1]), queue=MessageQueue("T", "a", 0))
    await producer.send(Message("T", body), queue=MessageQueue("T", "a", 0))
    (small, small_body), (large, large_body) = brokers[0].sent
    assert (small.sys_flag, small_body) == (0, body[:-1])
    assert large.sys_flag == sys_flag.COMPRESSED | number << 8
    assert compression.decompress(large_body, large.sys_flag) == body
    assert len(large_body) < 1000
    if kind == "zlib":
        assert zlib.decompress(large_body) == body


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
async def test_a_body_that_would_grow_is_sent_as_it_is(brokers: Any, start: Any, kind: str) -> None:
    """It was within the limit, and its compressed form was not: the broker refused it."""
    body = random.Random(5).randbytes(5000)
    producer = await start(compression=kind, message_bytes_max=5000)
    await producer.send(Message("T", body), queue=MessageQueue("T", "a", 0))
    ((header, sent),) = brokers[0].sent
    assert (header.sys_flag, sent) == (0, body)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("", b"x"), "topic"),
        (Message("a/../b", b"x"), "topic"),
        (Message("T", b""), "empty body"),
        (Message("T", b"x" * 101), "100"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "SCHEDULE_TOPIC_XXXX"),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_it_leaves(
    brokers: Any, start: Any, message: Message, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        await (await start(message_bytes_max=100)).send(message)
    assert brokers[0].sent == brokers[1].sent == []


async def test_an_unknown_topic_is_sent_by_the_templates_route(peers: Any, brokers: Any, start: Any) -> None:
    peers.route("TBW102", *brokers, queues=8)
    producer = await start()
    result = await producer.send(Message("New", b"x"))
    assert result.queue.topic == "New"
    assert len(await producer.queues("New")) == 8  # four on each of two brokers
    header, _ = (brokers[0].sent + brokers[1].sent)[0]
    assert (header.default_topic, header.default_topic_queue_nums) == ("TBW102", 4)


async def test_without_any_route_the_error_names_the_cure(peers: Any, start: Any) -> None:
    with pytest.raises(NoRoute, match="topic create Missing"):
        await (await start()).send(Message("Missing", b"x"))


async def test_a_broker_that_moved_is_found_without_waiting_for_the_next_interval(peers: Any, make_broker: Any) -> None:
    old = await make_broker("old")
    peers.route("T", old)
    instance = peers.client()
    await instance.start()
    async with Producer("g", instance=instance, config=ProducerConfig(retries=4)) as producer:
        await producer.send(Message("T", b"x"))
        await peers.kill("old")
        peers.route("T", await make_broker("new"))
        assert (await producer.send(Message("T", b"x"))).queue.broker_name == "new"


async def test_a_topic_whose_brokers_are_down_is_not_created_elsewhere(peers: Any, make_broker: Any) -> None:
    a, b = await make_broker("a"), await make_broker("b")
    peers.route("T", a)
    instance = peers.client(route_interval_ms=20)
    await instance.start()
    async with Producer("g", instance=instance) as producer:
        await producer.send(Message("T", b"x"))
        peers.route("TBW102", b)
        del peers.routes["T"]
        peers.route_questions.clear()
        async with asyncio.timeout(5):
            while len(peers.route_questions) < 3:  # noqa: ASYNC110  (the refresh runs in the client)
                await asyncio.sleep(0.005)
        await producer.send(Message("T", b"x"))
    assert len(a.sent) == 2
    assert b.sent == []


@pytest.mark.parametrize("group", ["DEFAULT_PRODUCER", "a b", ""])
async def test_groups_need_a_name_of_their_own(peers: Any, group: str) -> None:
    with pytest.raises(UsageError, match=r"group|placeholder"):
        await Producer(group, instance=peers.client()).start()


async def test_the_next_name_server_is_asked_when_one_is_down(peers: Any, brokers: Any) -> None:
    instance = peers.client("gone:9876;ns:9876")
    await instance.start()
    for _ in range(4):
        assert await instance.refresh_route("T")
    assert {host for host, _ in peers.route_questions} == {"ns"}


async def test_when_no_name_server_answers_the_error_names_them_all(peers: Any) -> None:
    instance = peers.client("gone:9876;lost:9876")
    await instance.start()
    with pytest.raises(LinkError, match=r"gone:9876.*lost:9876|lost:9876.*gone:9876"):
        await instance.refresh_route("T")


async def test_a_batch_is_split_to_size_and_each_message_has_its_result(brokers: Any, start: Any) -> None:
    producer = await start(batch_bytes_max=1000)
    messages = [Message("T", b"%d" % number * 50, tags="A") for number in range(20)]
    results = await producer.send_batch(messages, queue=MessageQueue("T", "a", 0))
    bodies = [body for _, sent in brokers[0].sent for _, body, _ in decode_batch(sent)]
    assert bodies == [message.body for message in messages]
    assert len(brokers[0].sent) > 1
    assert all(header.batch and len(sent) <= 1000 for header, sent in brokers[0].sent)
    assert len({result.message_id for result in results}) == 20


async def test_what_one_send_takes_a_batch_takes_and_those_behind_it(brokers: Any, start: Any) -> None:
    """An entry of a batch is longer than its body: as one of a batch the message was above the broker's limit."""
    producer = await start(message_bytes_max=5000)
    large = random.Random(5).randbytes(5000)
    messages = [Message("T", body, keys="k") for body in (b"before", large, b"behind", b"last")]
    results = await producer.send_batch(messages, queue=MessageQueue("T", "a", 0))
    parts = [
        [sent] if not header.batch else [body for _, body, _ in decode_batch(sent)] for header, sent in brokers[0].sent
    ]
    assert parts == [[b"before"], [large], [b"behind", b"last"]]
    assert len({result.message_id for result in results}) == 4
    assert [result.queue_offset for result in results] == [0, 1, 2, 3]
    assert all(len(sent) <= 5000 for _, sent in brokers[0].sent)


async def test_properties_that_fit_into_no_batch_are_told_before_the_first_message_is_sent(
    brokers: Any, start: Any
) -> None:
    messages = [Message("T", b"x" * 900_000), Message("T", b"x" * 900_000), Message("T", b"y", keys="k" * 32_768)]
    with pytest.raises(UsageError, match="message 2 of the batch"):
        await (await start()).send_batch(messages)
    assert brokers[0].sent == brokers[1].sent == []


async def test_a_batch_that_fails_half_way_tells_what_was_stored(brokers: Any, start: Any) -> None:
    a, _ = brokers
    a.answer_send = lambda request: a.accept(request) if len(a.sent) < 3 else _late_refusal()
    producer = await start(batch_bytes_max=200)
    with pytest.raises(BatchFailed, match="MESSAGE_ILLEGAL") as caught:
        await producer.send_batch([Message("T", b"x" * 60) for _ in range(8)], queue=MessageQueue("T", "a", 0))
    stored = sum(len(decode_batch(body)) for _, body in a.sent[:2])
    assert len(caught.value.sent) == stored


def _late_refusal() -> Reply:
    return Reply(ResponseCode.MESSAGE_ILLEGAL, remark="scripted")


async def test_background_sends_call_back_and_flush_waits_for_them(brokers: Any, start: Any) -> None:
    _a, b = brokers
    b.refuse(ResponseCode.MESSAGE_ILLEGAL)
    producer = await start()
    seen: list[tuple[SendResult | None, BaseException | None]] = []
    for broker in ("a", "b"):
        producer.send_nowait(Message("T", b"x"), lambda *args: seen.append(args), queue=MessageQueue("T", broker, 0))
    await producer.flush()
    results, errors = [r for r, _ in seen if r], [e for _, e in seen if e]
    assert len(results) == 1
    assert len(errors) == 1
    assert isinstance(errors[0], RemoteError)


async def test_a_background_send_takes_the_message_as_it_is_at_the_call(brokers: Any, start: Any) -> None:
    producer = await start()
    message, chosen = Message("T", b"", properties={"n": ""}), list[str]()

    def selector(queues: Any, message: Message) -> MessageQueue:
        chosen.append(message.properties["n"])
        return MessageQueue("T", "a", 0)

    for number in range(20):
        message.body, message.properties["n"] = b"%d" % number, str(number)
        producer.send_nowait(message, selector=selector)
    await producer.flush()
    assert sorted(int(body) for _, body in brokers[0].sent) == list(range(20))
    assert [property_text.decode(header.properties.encode())["n"] for header, _ in brokers[0].sent] == chosen
    assert sorted(map(int, chosen)) == list(range(20))


@pytest.mark.parametrize("way", ["send", "send_oneway", "send_batch"])
async def test_a_send_takes_the_message_before_its_task_begins(brokers: Any, start: Any, way: str) -> None:
    producer = await start()
    message, tasks = Message("T"), []
    for number in range(5):
        message.body, message.flag = b"%d" % number, number
        call = getattr(producer, way)([message] if way == "send_batch" else message, key="one")
        tasks.append(asyncio.create_task(call))
    await asyncio.gather(*tasks)
    await producer.send(Message("T", b"5", flag=5), key="one")
    sent = brokers[0].sent + brokers[1].sent
    if way == "send_batch":
        assert [decode_batch(body)[0][:2] for _, body in sent[:5]] == [(n, b"%d" % n) for n in range(5)]
    else:
        assert [(header.flag, body) for header, body in sent] == [(n, b"%d" % n) for n in range(6)]


async def test_the_parts_of_a_batch_are_those_of_the_call(brokers: Any, start: Any) -> None:
    producer = await start(batch_bytes_max=100)
    messages = [Message("T", b"%d" % number) for number in range(6)]
    task = asyncio.create_task(producer.send_batch(messages, key="one"))
    for message in messages:
        message.body = b"other"
    messages.clear()
    assert len(await task) == 6
    sent = [entry for _, body in brokers[0].sent + brokers[1].sent for entry in decode_batch(body)]
    assert [body for _, body, _ in sent] == [b"%d" % number for number in range(6)]


async def test_background_sends_are_limited(brokers: Any, start: Any) -> None:
    producer = await start(pending_sends_max=2)
    for broker in brokers:
        broker.answer_send = lambda request: HELD
    for _ in range(2):
        producer.send_nowait(Message("T", b"x"), timeout_ms=50)
    with pytest.raises(TooManySends):
        producer.send_nowait(Message("T", b"x"))
    await producer.flush()


async def test_oneway_sends_are_not_answered(brokers: Any, start: Any) -> None:
    producer = await start()
    await producer.send_oneway(Message("T", b"x"), queue=MessageQueue("T", "a", 0))
    await producer.send(Message("T", b"y"), queue=MessageQueue("T", "a", 0))
    assert [body for _, body in brokers[0].sent] == [b"x", b"y"]


async def test_before_start_and_after_stop_the_error_says_what_to_call(peers: Any, brokers: Any) -> None:
    producer = Producer("g", instance=peers.client())
    with pytest.raises(NotRunning, match="await start"):
        await producer.send(Message("T", b"x"))


async def test_two_producers_of_one_group_in_one_client_are_refused(peers: Any) -> None:
    instance = peers.client()
    first, second = Producer("g", instance=instance), Producer("g", instance=instance)
    await first.start()
    with pytest.raises(UsageError, match="twice"):
        await second.start()
    await first.stop()


async def test_stop_tells_the_brokers(brokers: Any, peers: Any) -> None:
    instance = peers.client()
    await instance.start()
    async with Producer("g", instance=instance) as producer:
        await producer.send(Message("T", b"x"))
    assert brokers[0].left == brokers[1].left == [instance.client_id]


async def test_slow_brokers_are_passed_over_when_asked(brokers: Any, start: Any) -> None:
    a, _b = brokers
    a.refuse(ResponseCode.SYSTEM_BUSY)
    producer = await start(avoid_slow_brokers=True)
    for _ in range(10):
        await producer.send(Message("T", b"x"))
    assert len(a.sent) <= 1


async def test_hooks_see_each_attempt(brokers: Any, start: Any) -> None:
    a, _ = brokers
    a.refuse(ResponseCode.SYSTEM_BUSY)
    producer = await start()
    events: list[tuple[str, bool]] = []
    producer.hooks.after_send.append(lambda event: events.append((event.queue.broker_name, event.error is None)))
    for _ in range(4):
        await producer.send(Message("T", b"x"))
    assert ("a", False) in events
    assert events.count(("b", True)) == 4


@pytest.mark.parametrize("error", [IndexError("no such queue"), asyncio.CancelledError(), SystemExit(3)])
async def test_a_callback_hears_of_every_error(brokers: Any, start: Any, error: BaseException) -> None:
    producer = await start()
    seen: list[BaseException | None] = []

    def selector(queues: Any, message: Message) -> MessageQueue:
        raise error

    producer.send_nowait(Message("T", b"x"), lambda _, problem: seen.append(problem), selector=selector)
    await producer.flush()
    assert seen == [error]


async def test_a_callback_that_raises_ends_nothing(brokers: Any, start: Any, caplog: Any) -> None:
    producer = await start()

    def callback(result: SendResult | None, error: BaseException | None) -> None:
        sys.exit(3)

    producer.send_nowait(Message("T", b"x"), callback)
    await producer.flush()
    assert "callback of a background send failed" in caplog.text
    await producer.send(Message("T", b"y"))


class Order(Message):
    number = 0


async def test_a_message_of_a_kind_of_its_own_reaches_the_selector_as_it_was(brokers: Any, start: Any) -> None:
    producer, order, seen = await start(), Order("T", b"x"), list[int]()
    order.number = 1

    def selector(queues: Any, message: Any) -> MessageQueue:
        seen.append(message.number)
        return MessageQueue("T", "a", 0)

    producer.send_nowait(order, selector=selector)
    order.number = 2
    await producer.send(order, selector=selector)
    await producer.flush()
    assert sorted(seen) == [1, 2]


@pytest.mark.parametrize("way", ["send", "send_oneway", "send_nowait", "send_batch"])
async def test_what_is_no_message_is_refused(brokers: Any, start: Any, way: str) -> None:
    producer = await start()
    with pytest.raises(UsageError, match="is a Message, not str") as refused:
        await getattr(producer, way)(["orders"] if way == "send_batch" else "orders")
    assert "rocketlake.Message(" in refused.value.hint


async def test_a_body_that_became_text_is_refused(brokers: Any, start: Any) -> None:
    message = Message("T", b"x")
    message.body = "text"  # type: ignore[assignment]
    with pytest.raises(UsageError, match="bytes, not str"):
        await (await start()).send(message)


@pytest.mark.parametrize(
    ("given", "problem"),
    [({"selector": 5}, "selector .* not int"), ({"callback": 5}, "callback .* not int"), ({"queue": 0}, "queue 0")],
)
async def test_what_is_no_function_and_no_queue_is_refused(
    brokers: Any, start: Any, given: dict[str, Any], problem: str
) -> None:
    producer = await start()
    with pytest.raises(UsageError, match=problem):
        if "callback" in given:
            producer.send_nowait(Message("T", b"x"), **given)
        await producer.send(Message("T", b"x"), **given)
    assert brokers[0].sent == brokers[1].sent == []


@pytest.mark.parametrize("level", [-1, 19, 99])
async def test_a_delay_level_that_is_none_is_refused(brokers: Any, start: Any, level: int) -> None:
    producer = await start()
    with pytest.raises(UsageError, match="use 1 to 18"):
        await producer.send(Message("T", b"x", delay_level=level))
    await producer.send(Message("T", b"x", delay_level=18))


@pytest.mark.parametrize(
    "message", [Message("T", b"x", tags="a || b"), Message.with_properties("T", b"x", {"TAGS": "a||b"})]
)
async def test_a_tag_that_no_subscription_can_name_is_refused(brokers: Any, start: Any, message: Message) -> None:
    producer = await start()
    with pytest.raises(UsageError, match="one tag"):
        await producer.send(message)


async def test_a_group_is_left_when_the_heartbeat_that_names_it_is_through(peers: Any, make_broker: Any) -> None:
    """A broker that serves it in turns took the group in again behind the farewell, for two minutes."""
    waiting: list[Request] = []
    came = asyncio.Event()

    def hold(request: Request) -> Held:
        waiting.append(request)
        came.set()
        return HELD

    broker = await make_broker("a", {RequestCode.HEART_BEAT: hold})
    peers.route("T", broker)
    instance = peers.client()
    await instance.start()
    producer = Producer("g", instance=instance)
    await producer.start()
    await producer.send(Message("T", b"x"))
    instance.heartbeat_soon()
    await came.wait()
    stop = asyncio.create_task(producer.stop())
    while producer.is_running:  # noqa: ASYNC110  (the stop goes on until it waits)
        await asyncio.sleep(0)
    await instance.refresh_route("T")
    assert broker.left == [], "the heartbeat is not answered yet"
    waiting[0].answer(Reply())
    await stop
    assert broker.left == [instance.client_id]
