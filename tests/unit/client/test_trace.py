"""Traces of producers against a scripted broker: what is told of sends, and what tracing may not do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from rocketlake.base.errors import RemoteError
from rocketlake.client.calls.send import SendResult
from rocketlake.client.config import ProducerConfig
from rocketlake.client.hooks import Hooks, SendEvent, Sending
from rocketlake.client.producer.producer import Producer
from rocketlake.client.producer.transaction import TransactionEnd, TransactionProducer
from rocketlake.client.trace import dispatcher
from rocketlake.client.trace.format import EndTransaction, MessageType, Pub, Record, TransactionState, decode
from rocketlake.codec import property_text
from rocketlake.codec.compression import decompress
from rocketlake.codec.record_batch import decode_batch
from rocketlake.model.message import Message
from rocketlake.model.message_id import offset_message_id
from rocketlake.model.sys_flag import COMPRESSED
from rocketlake.net.request import Held, Reply, Request
from rocketlake.protocol.headers.send import SendHeader, SendReplyHeader, read_send_header
from rocketlake.protocol.headers.transaction import CheckTransactionHeader
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode
from tests.unit.client.records import stored_record

TRACE = "RMQ_SYS_TRACE_TOPIC"


class Stage:
    """One broker, and a client that traces. `reply` are fields of the answer to a send of topic T."""

    def __init__(self, peers: Any, broker: Any) -> None:
        self.peers = peers
        self.broker = broker
        self.reply: dict[str, Any] = {}
        self.trace_code = ResponseCode.SUCCESS
        broker.answer_send = self.answer
        peers.route("T", broker, queues=1)
        peers.route(TRACE, broker, queues=1)

    def answer(self, request: Request) -> Reply | Held:
        header = read_send_header(request.command)
        if header.topic == TRACE and self.trace_code is not ResponseCode.SUCCESS:
            return Reply(self.trace_code, remark="scripted")
        place = offset_message_id("10.0.0.9", 10911, len(self.broker.sent))
        values = {"msg_id": place, "queue_id": 0, "queue_offset": 0} | self.reply
        return Reply(header=SendReplyHeader(**values))

    async def producer(self, kind: Any = Producer, *, trace: bool = True, **options: Any) -> Any:
        instance = self.peers.client(trace=trace)
        await instance.start()
        producer = kind("g", instance=instance, **options)
        await producer.start()
        return producer

    def traces(self) -> list[tuple[SendHeader, bytes]]:
        return [
            (header, decompress(body, header.sys_flag) if header.sys_flag & COMPRESSED else body)
            for header, body in self.broker.sent
            if header.topic == TRACE
        ]

    def records(self) -> list[Record]:
        return [record for _, body in self.traces() for record in decode(body.decode())]


@pytest.fixture
async def stage(peers: Any, make_broker: Any) -> Stage:
    return Stage(peers, await make_broker("a"))


async def test_a_send_is_told(stage: Stage) -> None:
    stage.reply = {"region": "north"}
    producer = await stage.producer()
    result = await producer.send(Message("T", b"four", tags="tag", keys="k1 k2"))
    await producer.stop()
    (record,) = stage.records()
    assert isinstance(record, Pub)
    assert record == Pub(
        record.at_ms, "north", "g", "T", result.message_id, "tag", "k1 k2", "a:10911", 4, record.cost_ms,
        MessageType.NORMAL, result.offset_message_id, True,
    )  # fmt: skip
    ((header, _),) = stage.traces()
    properties = property_text.decode(header.properties.encode())
    assert properties["KEYS"].split() == [result.message_id, "k1", "k2"]
    assert header.producer_group == "_INNER_TRACE_PRODUCER-g-PRODUCE-1"


async def test_nothing_is_told_without_the_setting(stage: Stage) -> None:
    producer = await stage.producer(trace=False)
    await producer.send(Message("T", b"x"))
    await producer.stop()
    assert [header.topic for header, _ in stage.broker.sent] == ["T"]


async def test_a_broker_may_forbid_the_trace(stage: Stage) -> None:
    stage.reply = {"trace_on": False}
    producer = await stage.producer()
    await producer.send(Message("T", b"x"))
    await producer.stop()
    assert stage.records() == []


async def test_messages_to_the_trace_topic_are_not_told(stage: Stage) -> None:
    producer = await stage.producer()
    await producer.send(Message(TRACE, b"by hand"))
    await producer.stop()
    assert [body for _, body in stage.traces()] == [b"by hand"]


async def test_each_message_of_a_batch_is_told_with_its_own_place(stage: Stage) -> None:
    stage.reply = {"msg_id": "P0,P1,P2"}
    producer = await stage.producer()
    results = await producer.send_batch([Message("T", bytes([n]), keys=f"k{n}") for n in range(3)])
    await producer.stop()
    told = [record for record in stage.records() if isinstance(record, Pub)]
    assert [(each.message_id, each.keys, each.offset_message_id) for each in told] == [
        (result.message_id, f"k{n}", f"P{n}") for n, result in enumerate(results)
    ]
    assert len(stage.traces()) == 1


async def test_each_message_of_a_background_batch_is_told(stage: Stage) -> None:
    stage.reply = {"msg_id": "P0,P1,P2"}
    producer = await stage.producer(config=ProducerConfig(auto_batch=True))
    results = await asyncio.gather(*[producer.send(Message("T", bytes([n]), keys=f"k{n}")) for n in range(3)])
    await producer.stop()
    told = [record for record in stage.records() if isinstance(record, Pub)]
    assert [(each.message_id, each.keys, each.offset_message_id) for each in told] == [
        (result.message_id, f"k{n}", f"P{n}") for n, result in enumerate(results)
    ]


async def test_attempts_without_an_answer_are_not_told_those_less_safe_are_failures(
    stage: Stage, make_broker: Any
) -> None:
    other = await make_broker("b")
    other.refuse(ResponseCode.SYSTEM_BUSY)
    stage.peers.route("T", stage.broker, other, queues=1)
    producer = await stage.producer()
    for _ in range(2):
        await producer.send(Message("T", b"x"))
    stage.peers.route("U", other, queues=1)
    with pytest.raises(RemoteError):
        await producer.send(Message("U", b"x"), queue=(await producer.queues("U"))[0])
    other.answer_send = lambda request: Reply(
        ResponseCode.FLUSH_DISK_TIMEOUT, SendReplyHeader(msg_id="P", queue_id=0, queue_offset=0)
    )
    await producer.send(Message("U", b"x"))
    await producer.stop()
    told = [record for record in stage.records() if isinstance(record, Pub)]
    assert [(each.topic, each.store_host, each.is_success) for each in told] == [
        ("T", "a:10911", True), ("T", "a:10911", True), ("U", "b:10911", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "message, expected",
    [
        (Message("T", b"x", delay_level=3), MessageType.DELAYED),
        (Message("T", b"x", delay=3), MessageType.DELAYED),
        (Message("T", b"x"), MessageType.NORMAL),
    ],
)
async def test_the_kind_of_message_is_told(stage: Stage, message: Message, expected: MessageType) -> None:
    producer = await stage.producer()
    await producer.send(message)
    await producer.stop()
    assert [record.message_type for record in stage.records() if isinstance(record, Pub)] == [expected]


async def test_a_transaction_is_told_with_its_end(stage: Stage) -> None:
    stage.broker.handlers[RequestCode.END_TRANSACTION] = lambda request: Reply()
    await stage.peers.kill("a")
    await stage.peers.broker(stage.broker)
    producer = await stage.producer(TransactionProducer, check=lambda message: None)
    outcome = await producer.send_in_transaction(Message("T", b"x", keys="k"), lambda message: TransactionEnd.COMMIT)
    await producer.stop()
    half, end = stage.records()
    assert isinstance(half, Pub) and isinstance(end, EndTransaction)
    assert (half.message_type, half.message_id) == (MessageType.HALF, outcome.sent.message_id)
    assert end == EndTransaction(
        end.at_ms, "DefaultRegion", "g", "T", half.message_id, None, "k", "a:10911", MessageType.TRANSACTION_END,
        half.message_id, TransactionState.COMMIT, False,
    )  # fmt: skip


async def test_an_end_that_a_broker_asked_for_is_told(stage: Stage) -> None:
    answered = asyncio.Event()

    def end(request: Request) -> Reply:
        answered.set()
        return Reply()

    stage.broker.handlers[RequestCode.END_TRANSACTION] = end
    await stage.peers.kill("a")
    await stage.peers.broker(stage.broker)
    producer = await stage.producer(TransactionProducer, check=lambda message: TransactionEnd.ROLLBACK, topics=["T"])
    await producer.instance.heartbeat()
    async with asyncio.timeout(60):
        for switch in ("false", "true"):
            properties = {
                "PGROUP": "g",
                "UNIQ_KEY": switch,
                "TRAN_MSG": "true",
                "TRACE_ON": switch,
                "MSG_REGION": "north",
            }
            record = stored_record(b"body", property_text.encode(properties), queue_id=0, queue_offset=1)
            question = CheckTransactionHeader(tran_state_table_offset=1, commit_log_offset=9, transaction_id="x")
            await stage.broker.ask_client(RequestCode.CHECK_TRANSACTION_STATE, question, record)
            await answered.wait()
            answered.clear()
    await producer.stop()
    (told,) = stage.records()
    assert isinstance(told, EndTransaction)
    assert (told.message_id, told.region, told.state, told.is_checked) == (
        "true", "north", TransactionState.ROLLBACK, True,
    )  # fmt: skip


async def test_a_broker_that_takes_no_traces_fails_no_send(stage: Stage, caplog: Any) -> None:
    stage.trace_code = ResponseCode.NO_PERMISSION
    producer = await stage.producer()
    results = [await producer.send(Message("T", b"x")) for _ in range(250)]
    await producer.stop()
    assert len(results) == 250
    assert producer._trace.dropped == 250
    assert caplog.text.count("dropped trace records") == 1


async def test_without_the_topic_the_log_tells_the_cure(stage: Stage, caplog: Any) -> None:
    del stage.peers.routes[TRACE]
    producer = await stage.producer()
    await producer.send(Message("T", b"x"))
    await producer.stop()
    assert "traceTopicEnable" in caplog.text


async def test_what_does_not_fit_is_dropped_and_counted(stage: Stage, caplog: Any) -> None:
    """The broker of the trace topic hangs: sends go on, and no more than the bound waits."""
    release = asyncio.Event()
    answer = stage.answer

    def hang(request: Request) -> Reply | Held:
        if read_send_header(request.command).topic == TRACE and not release.is_set():
            return Reply(ResponseCode.SYSTEM_BUSY, remark="scripted")
        return answer(request)

    stage.broker.answer_send = hang
    producer = await stage.producer()
    record = Pub(1, "R", "g", "T", "ID", None, None, "h", 1, 1, MessageType.NORMAL, "P", True)
    for _ in range(dispatcher.RECORDS_MAX + 7):
        producer._trace.append([record])
    assert producer._trace.dropped == 7
    release.set()
    await producer.stop()
    assert len(stage.records()) == dispatcher.RECORDS_MAX
    assert f"dropped trace records, 1 so far: {dispatcher.RECORDS_MAX} wait already" in caplog.text


async def test_trace_messages_are_filled_up_to_their_limits(stage: Stage) -> None:
    producer = await stage.producer()
    long = "k" * 5000
    for number in range(6):
        await producer.send(Message("T", b"x", keys=f"{long}{number}"))
    await producer.send(Message("T", b"x", keys="q" * 20_000))
    await producer.stop()
    keys = [property_text.decode(header.properties.encode())["KEYS"].split() for header, _ in stage.traces()]
    assert [len(each) for each in keys] == [6, 6, 1]  # the last one's keys fit into no properties
    assert len(stage.records()) == 7


def test_the_hooks_of_the_user_are_not_changed() -> None:
    own = Hooks()
    from rocketlake.client.config import ClientConfig
    from rocketlake.client.instance import ClientInstance

    producer = Producer("g", instance=ClientInstance(ClientConfig(trace=True)), hooks=own)
    assert own == Hooks()
    assert len(producer.hooks.after_send) == 1


# hooks around a send


class Around:
    """A hook that puts a property on and notes how the send went."""

    def __init__(self) -> None:
        self.ends: list[tuple[list[SendResult], BaseException | None]] = []

    @contextlib.contextmanager
    def __call__(self, sending: Sending) -> Iterator[None]:
        for message in sending.messages:
            message.properties["traceparent"] = f"00-{len(sending.messages)}"
        error: BaseException | None = None
        try:
            yield
        except BaseException as problem:
            error = problem
            raise
        finally:
            self.ends.append(([*sending.results], error))


@pytest.fixture
async def hooked(stage: Stage) -> Any:
    around = Around()
    producer = await stage.producer(trace=False, hooks=Hooks(around_send=[around]), config=ProducerConfig(retries=2))
    yield producer, around
    await producer.stop()


def properties_of(header: SendHeader) -> dict[str, str]:
    return property_text.decode(header.properties.encode())


async def test_a_hook_puts_properties_on_before_the_encoding(stage: Stage, hooked: Any) -> None:
    producer, around = hooked
    message = Message("T", b"x")
    result = await producer.send(message)
    await producer.send_oneway(message)
    done = asyncio.get_running_loop().create_future()
    producer.send_nowait(message, lambda result, error: done.set_result(result))
    background = await done
    batch = await producer.send_batch([message, message])
    sent = stage.broker.sent
    assert [properties_of(header).get("traceparent") for header, _ in sent[:3]] == ["00-1"] * 3
    assert [property_text.decode(properties)["traceparent"] for _, _, properties in decode_batch(sent[3][1])] == [
        "00-2"
    ] * 2
    assert around.ends == [([result], None), ([], None), ([background], None), (batch, None)]
    assert message == Message("T", b"x")


async def test_a_hook_runs_once_for_a_send_however_many_attempts(stage: Stage, hooked: Any) -> None:
    producer, around = hooked
    attempts: list[BaseException | None] = []

    def note(event: SendEvent) -> None:
        attempts.append(event.error)

    producer.hooks.after_send.append(note)
    stage.broker.refuse(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(Exception) as caught:
        await producer.send(Message("T", b"x"))
    assert around.ends == [([], caught.value)]
    assert len(attempts) == 3


async def test_a_broken_hook_loses_no_message_and_no_error(stage: Stage, hooked: Any, caplog: Any) -> None:
    producer, around = hooked

    def broken(sending: Sending) -> Any:
        raise ValueError("at the call")

    @contextlib.contextmanager
    def broken_later(sending: Sending) -> Iterator[None]:
        with contextlib.suppress(Exception):
            yield
        raise ValueError("at the end")

    producer.hooks.around_send += [broken, broken_later]
    result = await producer.send(Message("T", b"x"))
    stage.broker.refuse(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(RemoteError) as caught:
        await producer.send(Message("T", b"x"))
    assert around.ends == [([result], None), ([], caught.value)]
    assert caplog.text.count("broken at 0x") == 2
    assert caplog.text.count("hook context") == 2
