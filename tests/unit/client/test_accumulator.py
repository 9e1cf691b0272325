"""Background batches against scripted brokers: who shares a batch, when it goes out, room, errors, flush and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.client.calls.send import SendResult
from rocketlake.client.config import ClientConfig, ProducerConfig
from rocketlake.client.errors import NotRunning, SendFailed, TooManySends
from rocketlake.client.hooks import Hooks, SendEvent, Sending
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.producer import Producer
from rocketlake.codec import property_text
from rocketlake.codec.record_batch import decode_batch
from rocketlake.model.message import Message
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.request import HELD, Held, Reply, Request
from rocketlake.protocol.headers.send import SendReplyHeader, read_send_header
from rocketlake.protocol.response_code import ResponseCode

FIRST = MessageQueue("T", "a", 0)
Start = Callable[..., Any]


class Stage:
    """One broker and one producer whose clock is moved by hand."""

    def __init__(self, clock: ManualClock, broker: Any) -> None:
        self.clock = clock
        self.broker = broker
        broker.answer_send = self.accept
        self.stored = 0

    def accept(self, request: Request) -> Reply:
        header = read_send_header(request.command)
        count = len(decode_batch(request.body)) if header.batch else 1
        first, self.stored = self.stored, self.stored + count
        ids = ",".join(f"P{first + number}" for number in range(count))
        return Reply(header=SendReplyHeader(msg_id=ids, queue_id=header.queue_id, queue_offset=first))

    @property
    def requests(self) -> list[list[bytes]]:
        """The bodies of each request so far; those of a single message are lists of one."""
        return [
            [body for _, body, _ in decode_batch(sent)] if header.batch else [sent] for header, sent in self.broker.sent
        ]

    async def began(self, *sends: Any) -> list[asyncio.Task[SendResult]]:
        """The sends as tasks, each of which has come as far as it can without time."""
        tasks = [asyncio.ensure_future(send) for send in sends]
        await self.clock.settle()
        return tasks


@pytest.fixture
async def stage(clock: ManualClock, peers: Any, make_broker: Any) -> Stage:
    broker = await make_broker("a")
    peers.route("T", broker)
    peers.route("U", broker)
    return Stage(clock, broker)


@pytest.fixture
async def start(stage: Stage, peers: Any) -> Any:
    started: list[Producer] = []

    async def make(hooks: Hooks | None = None, **settings: Any) -> Producer:
        config = ClientConfig(namesrv="ns:9876", client_ip="10.0.0.1")
        instance = ClientInstance(config, clock=stage.clock, network=peers.net.host("client"))
        peers.instances.append(instance)
        await instance.start()
        producer = Producer("g", instance=instance, hooks=hooks, config=ProducerConfig(auto_batch=True, **settings))
        await producer.start()
        started.append(producer)
        for topic in ("T", "U"):
            await producer.queues(topic)
        return producer

    yield make
    for producer in started:
        await producer.stop()


async def test_messages_wait_for_others_and_go_out_together(stage: Stage, start: Start) -> None:
    producer = await start()
    tasks = await stage.began(*[producer.send(Message("T", b"%d" % n, tags="ab"[n % 2])) for n in range(5)])
    await stage.clock.run_for(9)
    assert stage.requests == []
    await stage.clock.run_for(1)
    assert stage.requests == [[b"0", b"1", b"2", b"3", b"4"]]
    results = await asyncio.gather(*tasks)
    assert [(each.queue_offset, each.offset_message_id) for each in results] == [(n, f"P{n}") for n in range(5)]
    sent = [property_text.decode(text) for _, _, text in decode_batch(stage.broker.sent[0][1])]
    assert [each["UNIQ_KEY"] for each in sent] == [each.message_id for each in results]
    assert [each["TAGS"] for each in sent] == list("ababa")


async def test_a_message_alone_goes_out_as_without_batches(stage: Stage, start: Start) -> None:
    producer = await start()
    (task,) = await stage.began(producer.send(Message("T", b"x")))
    await stage.clock.run_for(10)
    assert (await task).queue_offset == 0
    assert not stage.broker.sent[0][0].batch


async def test_a_full_batch_waits_for_no_time(stage: Stage, start: Start) -> None:
    producer = await start(auto_batch_bytes_max=1000)
    tasks = await stage.began(*[producer.send(Message("T", bytes([65 + n]) * 200)) for n in range(7)])
    assert [len(each) for each in stage.requests] == [3, 3]
    assert all(len(body) <= 1000 for _, body in stage.broker.sent)
    await stage.clock.run_for(10)
    assert [len(each) for each in stage.requests] == [3, 3, 1]
    assert [(await task).queue_offset for task in tasks] == list(range(7))


async def test_without_a_delay_one_turn_of_the_loop_is_a_batch(stage: Stage, start: Start) -> None:
    producer = await start(auto_batch_delay_ms=0)
    await asyncio.gather(*[producer.send(Message("T", b"%d" % n)) for n in range(3)])
    await producer.send(Message("T", b"3"))
    assert stage.requests == [[b"0", b"1", b"2"], [b"3"]]


async def test_topics_and_chosen_queues_have_batches_of_their_own(stage: Stage, start: Start) -> None:
    producer = await start()
    second = MessageQueue("T", "a", 1)
    choices: list[tuple[str, MessageQueue | None]] = [("T", None), ("U", None), ("T", FIRST), ("T", second)] * 2
    tasks = await stage.began(*[producer.send(Message(topic, b"x"), queue=queue) for topic, queue in choices])
    await stage.clock.run_for(10)
    results = await asyncio.gather(*tasks)
    assert [(header.topic, header.batch) for header, _ in stage.broker.sent] == [
        ("T", True), ("U", True), ("T", True), ("T", True),
    ]  # fmt: skip
    assert {each.queue for each in (results[2], results[6])} == {FIRST}
    assert {each.queue for each in (results[3], results[7])} == {second}


@pytest.mark.parametrize(
    "odd",
    [
        Message("T", b"odd", delay_level=3),
        Message("T", b"odd", delay=3),
        Message("T", b"odd", deliver_at=4_000_000_000_000),
        Message.with_properties("T", b"odd", {"TRAN_MSG": "true", "PGROUP": "g"}),
        Message.with_properties("T", b"odd", {"MSG_TYPE": "other"}),
        Message("T", b"odd", keys="k" * 40_000),
        Message("T", b"odd" * 2000),
    ],
    ids=["level", "delay", "time", "half", "reply", "properties", "compressed"],
)
async def test_what_may_not_share_goes_alone_and_in_its_place(stage: Stage, start: Start, odd: Message) -> None:
    producer = await start()
    messages = [Message("T", b"1"), Message("T", b"2"), odd, Message("T", b"3"), Message("T", b"4")]
    tasks = await stage.began(*[producer.send(message, queue=FIRST) for message in messages])
    await stage.clock.run_for(10)
    await asyncio.gather(*tasks)
    assert [header.batch for header, _ in stage.broker.sent] == [True, False, True]
    assert stage.requests[0] == [b"1", b"2"]
    assert stage.requests[2] == [b"3", b"4"]
    assert all(len(sent) < 200 for _, sent in stage.broker.sent), "large bodies are still compressed"


async def test_other_time_limits_and_wait_flags_do_not_mix(stage: Stage, start: Start) -> None:
    producer = await start()
    hasty = Message("T", b"2")
    hasty.wait_store_ok = False
    sends = [
        producer.send(Message("T", b"1"), queue=FIRST),
        producer.send(hasty, queue=FIRST),
        producer.send(Message("T", b"3"), queue=FIRST, timeout_ms=500),
        producer.send(Message("T", b"4"), queue=FIRST, timeout_ms=500),
    ]
    await stage.began(*sends)
    await stage.clock.run_for(10)
    assert stage.requests == [[b"1"], [b"2"], [b"3", b"4"]]


async def test_a_send_without_room_waits_and_is_not_dropped(stage: Stage, start: Start) -> None:
    producer = await start(auto_batch_bytes_max=1000, auto_batch_total_bytes_max=2000)
    stage.broker.answer_send = lambda request: HELD
    tasks = await stage.began(*[producer.send(Message("T", b"%02d" % n * 100), timeout_ms=400) for n in range(20)])
    assert [len(each) for each in stage.requests] == [3, 3]
    stage.broker.answer_send = stage.accept
    await stage.clock.run_for(400)  # the held ones fail, their bytes are free
    await stage.clock.run_for(400)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(end, SendFailed) for end in ends] == [True] * 6 + [False] * 14
    assert [end.queue_offset for end in ends if isinstance(end, SendResult)] == list(range(14)), "in order"


async def test_a_message_larger_than_all_room_is_sent_when_nothing_else_is_held(stage: Stage, start: Start) -> None:
    producer = await start(auto_batch_bytes_max=100, auto_batch_total_bytes_max=100, compress_over_bytes=1 << 20)
    tasks = await stage.began(*[producer.send(Message("T", b"x" * 5000)) for _ in range(3)])
    await asyncio.gather(*tasks)
    assert [len(body) for _, body in stage.broker.sent] == [5000] * 3


async def test_a_cancelled_send_is_taken_back_until_its_batch_goes_out(stage: Stage, start: Start) -> None:
    producer = await start(auto_batch_bytes_max=1000, auto_batch_total_bytes_max=1000)
    tasks = await stage.began(*[producer.send(Message("T", bytes([65 + n]) * 200)) for n in range(2)])
    waiting = await stage.began(*[producer.send(Message("T", bytes([48 + n]) * 800)) for n in range(2)])
    tasks[0].cancel()
    waiting[0].cancel()
    await stage.clock.run_for(10)
    await stage.clock.run_for(10)
    assert [body[0][:1] for body in stage.requests] == [b"B", b"1"]
    assert (await tasks[1]).queue_offset == 0
    assert (await waiting[1]).queue_offset == 1


async def test_a_refused_message_of_a_batch_costs_itself_only(stage: Stage, start: Start) -> None:
    def judge(request: Request) -> Reply | Held:
        if b"bad" in request.body:
            return Reply(ResponseCode.MESSAGE_ILLEGAL, remark="scripted")
        return stage.accept(request)

    stage.broker.answer_send = judge
    producer = await start()
    tasks = await stage.began(*[producer.send(Message("T", body)) for body in (b"1", b"bad", b"2")])
    await stage.clock.run_for(10)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [SendResult, RemoteError, SendResult]
    assert [body for (body,) in stage.requests[1:]] == [b"1", b"bad", b"2"]


async def test_a_refused_batch_of_a_chosen_queue_is_not_taken_apart(stage: Stage, start: Start) -> None:
    """Its messages would come behind later ones. Each caller has an error of its own."""
    stage.broker.refuse(ResponseCode.MESSAGE_ILLEGAL)
    producer = await start()
    tasks = await stage.began(*[producer.send(Message("T", b"x"), queue=FIRST) for _ in range(3)])
    await stage.clock.run_for(10)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert len(stage.broker.sent) == 1
    assert len({id(end) for end in ends}) == 3
    assert {(type(end), str(end), getattr(end, "code", None)) for end in ends} == {
        (RemoteError, str(ends[0]), ResponseCode.MESSAGE_ILLEGAL)
    }


async def test_a_batch_is_repeated_on_another_broker(stage: Stage, start: Start, peers: Any, make_broker: Any) -> None:
    other = await make_broker("b")
    peers.route("T", stage.broker, other, queues=1)
    stage.broker.refuse(ResponseCode.SYSTEM_BUSY)
    producer = await start()
    for _ in range(2):
        tasks = await stage.began(*[producer.send(Message("T", b"x")) for _ in range(3)])
        await stage.clock.run_for(10)
        assert {(await task).queue.broker_name for task in tasks} == {"b"}
    assert stage.broker.sent, "a was tried too"


async def test_flush_sends_what_waits(stage: Stage, start: Start) -> None:
    producer = await start(auto_batch_delay_ms=30_000)
    seen: list[Any] = []
    producer.send_nowait(Message("T", b"0"), lambda result, error: seen.append((result, error)))
    tasks = await stage.began(*[producer.send(Message("T", b"%d" % n)) for n in range(1, 3)])
    producer.send_nowait(Message("T", b"3"))
    await producer.flush()
    assert stage.requests == [[b"0", b"1", b"2", b"3"]]
    assert all(task.done() for task in tasks)
    assert [(result.queue_offset, error) for result, error in seen] == [(0, None)]


async def test_sends_in_the_background_hear_of_their_own_end(stage: Stage, start: Start, caplog: Any) -> None:
    def judge(request: Request) -> Reply | Held:
        if b"bad" in request.body:
            return Reply(ResponseCode.MESSAGE_ILLEGAL, remark="scripted")
        return stage.accept(request)

    stage.broker.answer_send = judge
    producer = await start(pending_sends_max=4)
    seen: list[Any] = []
    for body in (b"1", b"bad"):
        producer.send_nowait(Message("T", body), lambda result, error: seen.append(result or error))
        producer.send_nowait(Message("T", body))
    with pytest.raises(TooManySends):
        producer.send_nowait(Message("T", b"one too many"))
    await producer.flush()
    assert [type(end) for end in seen] == [SendResult, RemoteError]
    assert [record.getMessage()[:22] for record in caplog.records] == ["background send failed"]
    producer.send_nowait(Message("T", b"there is room again"))


async def test_a_flag_that_no_entry_can_hold_costs_its_own_message_only(stage: Stage, start: Start) -> None:
    producer = await start()
    messages = [Message("T", b"1"), Message("T", b"odd", flag=1 << 31), Message("T", b"2")]
    tasks = await stage.began(*[producer.send(message) for message in messages])
    await stage.clock.run_for(4000)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(end, SendResult) for end in ends] == [True, False, True]


async def test_a_message_keeps_the_key_that_it_came_with(stage: Stage, start: Start) -> None:
    producer = await start()
    messages = [Message("T", b"0"), Message.with_properties("T", b"1", {"UNIQ_KEY": "own", "a": "b"})]
    tasks = await stage.began(*[producer.send(message) for message in messages])
    await stage.clock.run_for(10)
    first, second = [(await task).message_id for task in tasks]
    sent = [property_text.decode(text) for _, _, text in decode_batch(stage.broker.sent[0][1])]
    assert sent == [{"UNIQ_KEY": first}, {"UNIQ_KEY": "own", "a": "b"}]
    assert second == "own"


async def test_a_message_sent_again_alone_has_the_key_of_its_batch(stage: Stage, start: Start) -> None:
    """A broker that had stored the batch all the same tells by it that the message came twice."""
    sent: list[str] = []

    def judge(request: Request) -> Reply | Held:
        header = read_send_header(request.command)
        if header.batch:
            sent.extend(property_text.decode(text)["UNIQ_KEY"] for _, _, text in decode_batch(request.body))
            return Reply(ResponseCode.MESSAGE_ILLEGAL, remark="scripted")
        return stage.accept(request)

    stage.broker.answer_send = judge
    producer = await start()
    tasks = await stage.began(*[producer.send(Message("T", b"%d" % n)) for n in range(3)])
    await stage.clock.run_for(10)
    assert [(await task).message_id for task in tasks] == sent


async def test_flush_waits_for_messages_without_room_not_for_later_ones(stage: Stage, start: Start) -> None:
    producer = await start(auto_batch_bytes_max=300, auto_batch_total_bytes_max=300, auto_batch_delay_ms=30_000)
    seen: list[int] = []
    for n in range(4):
        producer.send_nowait(Message("T", b"%d" % n * 200), lambda result, error: seen.append(result.queue_offset))
    (flushing,) = await stage.began(producer.flush())
    await flushing
    assert seen == [0, 1, 2, 3]
    producer.send_nowait(Message("T", b"later"), lambda result, error: seen.append(result.queue_offset))
    assert len(stage.requests) == 4


async def test_ctrl_c_in_a_callback_comes_out_when_the_others_know(stage: Stage, start: Start) -> None:
    seen: list[Any] = []
    caught: list[object] = []

    def press(result: object, error: object) -> None:
        raise GeneratorExit  # as Ctrl-C, which would end this test

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: caught.append(context["exception"]))
    producer = await start()
    producer.send_nowait(Message("T", b"0"), press)
    producer.send_nowait(Message("T", b"1"), lambda result, error: seen.append(result.queue_offset))
    await producer.flush()
    await stage.clock.settle()
    assert seen == [1]
    assert [type(each) for each in caught] == [GeneratorExit]


async def test_stop_sends_all_that_was_accepted_also_what_waits_for_room(stage: Stage, start: Start) -> None:
    producer = await start(auto_batch_delay_ms=30_000, auto_batch_bytes_max=600, auto_batch_total_bytes_max=600)
    tasks = await stage.began(*[producer.send(Message("T", bytes([65 + n]) * 200)) for n in range(9)])
    await producer.stop()
    results = await asyncio.gather(*tasks)
    assert [each.queue_offset for each in results] == list(range(9))
    with pytest.raises(NotRunning):
        await producer.send(Message("T", b"late"))


async def test_a_stop_that_is_cut_short_leaves_nobody_waiting(stage: Stage, start: Start) -> None:
    stage.broker.answer_send = lambda request: HELD
    producer = await start(auto_batch_bytes_max=600, auto_batch_total_bytes_max=600)
    tasks = await stage.began(*[producer.send(Message("T", bytes([65 + n]) * 200)) for n in range(9)])
    (stopping,) = await stage.began(producer.stop())
    for _ in range(2):  # it waits for the messages again, with no more of them coming
        stopping.cancel()
        await stage.clock.settle()
    await asyncio.wait((stopping,))
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(end) for end in ends} == {SendFailed}


async def test_hooks_around_a_send_see_its_message_those_of_attempts_the_batch(stage: Stage, start: Start) -> None:
    around: list[Sending] = []
    after: list[SendEvent] = []

    @contextmanager
    def note(sending: Sending) -> Iterator[None]:
        sending.messages[0].put_user_property("number", str(len(around)))
        around.append(sending)
        yield

    hooks = Hooks(around_send=[note], after_send=[after.append])
    producer = await start(hooks)
    tasks = await stage.began(*[producer.send(Message("T", b"%d" % n)) for n in range(3)])
    await stage.clock.run_for(10)
    results = await asyncio.gather(*tasks)
    assert [tuple(each.results) for each in around] == [(result,) for result in results]
    assert [[message.body for message in event.messages] for event in after] == [[b"0", b"1", b"2"]]
    sent = [property_text.decode(text) for _, _, text in decode_batch(stage.broker.sent[0][1])]
    assert [each["number"] for each in sent] == ["0", "1", "2"]


async def test_a_caller_may_change_its_message_at_once(stage: Stage, start: Start) -> None:
    producer = await start()
    message = Message("T", b"0")
    sends = []
    for n in range(3):
        message.body = b"%d" % n
        sends.append(producer.send(message))
    await stage.began(*sends)
    await stage.clock.run_for(10)
    assert stage.requests == [[b"0", b"1", b"2"]]
    assert message.unique_key is None


def test_a_batch_larger_than_all_room_is_refused() -> None:
    with pytest.raises(UsageError, match="auto_batch_total_bytes_max"):
        ProducerConfig(auto_batch_bytes_max=2000, auto_batch_total_bytes_max=1000)
