"""Arguments of another kind are refused where they are given, by name, with a cure: no TypeError from deep inside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from rocketlake import (
    ClientConfig,
    Consumer,
    ConsumerConfig,
    ConsumeResult,
    DeadLetters,
    LiteSimpleConsumer,
    Message,
    Payload,
    Producer,
    ProducerConfig,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    StoredMessage,
    TransactionProducer,
    UsageError,
    manual_ack,
    reply_to,
)
from rocketlake.admin import Admin
from rocketlake.admin.sync import Admin as BlockingAdmin
from rocketlake.client import sync
from rocketlake.model.message_queue import MessageQueue

ANY: Any = {"a": 1}
NO_NAMES: list[Any] = [5, b"orders", ["orders"], {"orders": "*"}, ("orders",)]
NO_NUMBERS: list[Any] = ["3", None, True, [1]]


def nothing(*_: object) -> None:
    """A listener, a check function."""


def refused(words: str, call: Callable[[], object]) -> UsageError:
    with pytest.raises(UsageError, match=words) as caught:
        call()
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("name", [*NO_NAMES, None])
@pytest.mark.parametrize(
    "make",
    [
        Producer, PullConsumer, DeadLetters, sync.Producer,
        lambda group: Consumer(group, "t"),
        lambda group: SimpleConsumer(group, "t"),
        lambda group: LiteSimpleConsumer(group, "t"),
        lambda group: PushConsumer(group, listener=nothing),
        lambda group: TransactionProducer(group, check=nothing),
    ],
)  # fmt: skip
def test_a_group_is_text(make: Callable[[Any], object], name: Any) -> None:
    refused(f"a group is text, not {type(name).__name__}", lambda: make(name))


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize(
    "give",
    [
        lambda topic: Consumer("g", topic),
        lambda topic: SimpleConsumer("g", topic),
        lambda topic: LiteSimpleConsumer("g", topic),
        lambda topic: PushConsumer("g", listener=nothing).subscribe(topic),
        lambda topic: PullConsumer("g").subscribe(topic),
        lambda topic: TransactionProducer("g", check=nothing, topics=topic if topic == b"orders" else [topic]),
    ],
)  # fmt: skip
def test_a_topic_is_text(give: Callable[[Any], object], name: Any) -> None:
    refused(r"(a topic is|topics are a list of) texts?, not", lambda: give(name))


def test_settings_in_the_place_of_a_topic_are_told_their_names() -> None:
    given: Any = ConsumerConfig()
    assert "config=ConsumerConfig" in refused("a topic is text", lambda: SimpleConsumer("g", given)).hint


@pytest.mark.parametrize("topics", ["orders", ["orders"], 5])
@pytest.mark.parametrize("kind", [Consumer, SimpleConsumer])
def test_topics_are_a_table(kind: Any, topics: Any) -> None:
    refused("topics is a dict, not", lambda: kind("g", topics=topics))


def test_topics_of_transactions_are_several() -> None:
    refused("topics are a list of texts, not str", lambda: TransactionProducer("g", check=nothing, topics="orders"))


@pytest.mark.parametrize("expression", [5, b"a", ["a"]])
@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
def test_an_expression_is_text(expression: Any, kind: str) -> None:
    refused("the expression for topic t is text", lambda: Consumer("g", "t", expression, kind))


@pytest.mark.parametrize("namesrv", [9876, b"127.0.0.1:9876", ["127.0.0.1:9876"], ("127.0.0.1", 9876)])
def test_name_servers_are_text(namesrv: Any) -> None:
    error = refused("namesrv is text, not .* host:port;host:port", lambda: Producer("g", namesrv=namesrv))
    assert str(error) == str(refused("namesrv", lambda: ClientConfig(namesrv=namesrv)))


@pytest.mark.parametrize("given", [{}, {"retries": 3}, 5, "x", ClientConfig()])
@pytest.mark.parametrize(
    "make",
    [
        lambda config: Producer("g", config=config),
        lambda config: Consumer("g", "t", config=config),
        lambda config: PushConsumer("g", listener=nothing, config=config),
        lambda config: SimpleConsumer("g", "t", config=config),
        lambda config: sync.PullConsumer("g", config=config),
    ],
)
def test_a_config_is_one_of_its_kind(make: Callable[[Any], object], given: Any) -> None:
    refused("config is a (Producer|Consumer)Config, not", lambda: make(given))


@pytest.mark.parametrize("name", ["client_config", "instance", "hooks"])
def test_other_settings_are_of_their_kind(name: str) -> None:
    for make in (lambda **given: Producer("g", **given), lambda **given: PullConsumer("g", **given)):
        refused(f"{name} is a .*, not ProducerConfig", lambda make=make: make(**{name: ProducerConfig()}))  # type: ignore[misc]


@pytest.mark.parametrize("number", [*NO_NUMBERS, 2.5])
def test_a_number_of_a_config_is_whole(number: Any) -> None:
    error = refused("retries is a whole number, not .*; it means:", lambda: ProducerConfig(retries=number))
    assert error.hint == "give it 0 to 16"


def test_texts_and_switches_of_a_config_are_such() -> None:
    refused("template_topic is text, not NoneType", lambda: ProducerConfig(template_topic=None))  # type: ignore[arg-type]
    refused("auto_batch is True or False, not str", lambda: ProducerConfig(auto_batch="yes"))  # type: ignore[arg-type]
    refused("credentials is a Credentials, not tuple", lambda: ClientConfig(credentials=("user", "secret")))  # type: ignore[arg-type]


@pytest.mark.parametrize("where", [None, 0, b"first"])
def test_where_a_group_begins_is_a_word(where: Any) -> None:
    refused("from_where=.* is not known", lambda: Consumer("g", "t", from_where=where))


@pytest.mark.parametrize("moment", ["1", -5, 1.5, datetime(2026, 1, 1)])  # what users give
def test_a_first_time_is_milliseconds(moment: Any) -> None:
    refused("timestamp_ms.*since 1970", lambda: Consumer("g", "t", from_where="timestamp", timestamp_ms=moment))


def test_a_rule_of_shares_is_a_function() -> None:
    refused("allocate is a function, not str", lambda: Consumer("g", "t", allocate="averagely"))  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [{"done": "x"}, {"done": None}, {"delay_level": "x"}, {"suspend_ms": 1.5}])
def test_an_answer_of_a_listener_has_numbers(answer: Any) -> None:
    refused(f"{next(iter(answer))} is a whole number", lambda: ConsumeResult(**answer))


def test_the_reason_of_an_answer_is_text() -> None:
    error: Any = ValueError("no such account")
    assert refused("error is text, not ValueError", lambda: ConsumeResult.later(error=error)).hint.endswith(
        "str(error)"
    )


@pytest.mark.parametrize("time", [*NO_NUMBERS, 0, -1])
def test_the_time_of_an_ack_is_a_number(time: Any) -> None:
    refused("within_ms", lambda: manual_ack(nothing, within_ms=time))


@pytest.mark.parametrize("kind", [None, "x", b"x", 5, {"a": 1}])
def test_a_payload_has_a_class(kind: Any) -> None:
    refused("the kind of a payload is a class", lambda: Payload(kind))


def test_an_answer_is_to_a_message_that_came() -> None:
    refused("a request is a StoredMessage, not Message", lambda: reply_to(Message("t", b"x"), b"y"))  # type: ignore[arg-type]


# other forms than that of a client

ASYNC: list[Callable[[], Any]] = [
    lambda: Producer("g"), lambda: TransactionProducer("g", check=nothing), lambda: PushConsumer("g", listener=nothing),
    lambda: PullConsumer("g"), lambda: SimpleConsumer("g", "t"), lambda: LiteSimpleConsumer("g", "t"),
    lambda: Consumer("g", "t"), lambda: Admin(namesrv="127.0.0.1:1"), lambda: DeadLetters("g"),
]  # fmt: skip
BLOCKING: list[Callable[[], Any]] = [
    lambda: sync.Producer("g"), lambda: sync.PushConsumer("g", listener=nothing), lambda: sync.PullConsumer("g"),
    lambda: sync.SimpleConsumer("g", "t"), lambda: sync.LiteSimpleConsumer("g", "t"), lambda: sync.Consumer("g", "t"),
    lambda: BlockingAdmin(namesrv="127.0.0.1:1"),
]  # fmt: skip


@pytest.mark.parametrize("make", ASYNC)
async def test_a_plain_with_of_an_async_client_names_the_right_one(make: Callable[[], Any]) -> None:
    client = make()
    name, home = type(client).__name__, "admin.sync" if isinstance(client, Admin) else "client.sync"
    twin = "" if isinstance(client, DeadLetters) else f", or take the blocking twin of rocketlake.{home}"

    def enter() -> None:
        with client:
            pass

    hint = refused(f"{name} is async and has no plain `with`", enter).hint
    assert hint == f"write `async with {name}(...)` in a coroutine{twin}"


@pytest.mark.parametrize("make", BLOCKING)
async def test_an_async_with_of_a_blocking_client_names_the_right_one(make: Callable[[], Any]) -> None:
    async def enter() -> None:
        async with make():
            pass

    await refused_later("is a blocking client and has no `async with`", enter)


# calls of clients that run


class Started:
    """Clients of one instance on scripted peers."""

    def __init__(self, peers: Any) -> None:
        self._peers = peers

    async def __call__(self, make: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        instance = self._peers.client()
        await instance.start()
        client = make("g", *args, instance=instance, **settings)
        await client.start()
        return client


@pytest.fixture
async def started(peers: Any, make_broker: Any) -> Started:
    peers.route("T", await make_broker("a"))
    return Started(peers)


async def refused_later(words: str, call: Callable[[], Any]) -> UsageError:
    with pytest.raises(UsageError, match=words) as caught:
        await call()
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("key", [b"a", ["a"], 1.5, ("a", 1), True, UUID(int=5)])
@pytest.mark.parametrize("way", ["send", "send_oneway", "request"])
async def test_a_key_is_text_or_a_number(started: Started, key: Any, way: str) -> None:
    async with await started(Producer) as producer:
        await refused_later("the key of a send is text or", lambda: getattr(producer, way)(Message("T", b"x"), key=key))


@pytest.mark.parametrize("chosen", [0, None, "T", MessageQueue("U", "a", 0)])
@pytest.mark.parametrize("batching", [False, True])
async def test_a_selector_returns_a_queue_of_the_topic(started: Started, chosen: Any, batching: bool) -> None:
    """An index, as in other systems, or a forgotten `return`, would send anywhere: without order, and silently."""
    async with await started(Producer, config=ProducerConfig(auto_batch=batching)) as producer:
        message, selector = Message("T", b"x"), lambda queues, message: chosen
        error = await refused_later("is not of topic 'T'", lambda: producer.send(message, selector=selector))
        assert "let the selector return" in error.hint


@pytest.mark.parametrize("time", ["3", [1], True])
@pytest.mark.parametrize("batching", [False, True])
async def test_the_time_of_a_send_is_a_number(started: Started, time: Any, batching: bool) -> None:
    async with await started(Producer, config=ProducerConfig(auto_batch=batching)) as producer:
        await refused_later("timeout_ms is a number", lambda: producer.send(Message("T", b"x"), timeout_ms=time))


@pytest.mark.parametrize("flag", [[1], [], None, "1", 1.5, True, 1 << 31])
@pytest.mark.parametrize("batching", [False, True])
async def test_the_flag_of_a_message_is_a_number_of_32_bits(started: Started, flag: Any, batching: bool) -> None:
    """A broker refuses another one; a one-way send would be lost without a word."""
    async with await started(Producer, config=ProducerConfig(auto_batch=batching)) as producer:
        message = Message("T", b"x", flag=flag)
        for send in (producer.send, producer.send_oneway):
            await refused_later("the flag of a message", lambda send=send: send(message))  # type: ignore[misc]
        await refused_later("the flag of a message", lambda: producer.send_batch([message]))


@pytest.mark.parametrize("messages", [None, 5, "T", Message("T", b"x")])
async def test_a_batch_is_a_list(started: Started, messages: Any) -> None:
    async with await started(Producer) as producer:
        await refused_later("messages are a list", lambda: producer.send_batch(messages))
        assert len(await producer.send_batch(Message("T", b"x") for _ in range(3))) == 3  # type: ignore[arg-type]


async def test_a_message_without_a_handle_cannot_be_taken_back(started: Started) -> None:
    async with await started(Producer) as producer:
        sent = await producer.send(Message("T", b"x"))
        error = await refused_later("has no recall handle", lambda: producer.recall("T", sent.recall_handle))
        assert "deliver_at=" in error.hint
        await refused_later("a recall handle is text", lambda: producer.recall("T", sent))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NO_NAMES)
async def test_the_topic_of_queues_is_text(started: Started, name: Any) -> None:
    async with await started(Producer) as producer, await started(PullConsumer) as consumer:
        await refused_later("a topic is text", lambda: producer.queues(name))
        await refused_later("a topic is text", lambda: consumer.fetch_queues(name))


@pytest.mark.parametrize("message", [None, "x", [StoredMessage("T", b"x")], Message("T", b"x")])
async def test_one_message_that_came_is_acknowledged(started: Started, message: Any) -> None:
    async with await started(SimpleConsumer, "T") as consumer:
        await refused_later("acknowledged is a StoredMessage", lambda: consumer.ack(message))
        await refused_later("acknowledged is a StoredMessage", lambda: consumer.change_invisible(message, 10))


@pytest.mark.parametrize("number", ["3", True, [1], -1])
async def test_what_is_asked_for_is_a_number(started: Started, number: Any) -> None:
    async with await started(SimpleConsumer, "T") as consumer:
        await refused_later("max_messages", lambda: consumer.receive(number))
        await refused_later("invisible_ms", lambda: consumer.receive(1, invisible_ms=number))
        await refused_later("await_ms", lambda: consumer.receive(1, await_ms=number))
        await refused_later("duration_ms", lambda: consumer.change_invisible(StoredMessage("T", b"x"), number))


@pytest.mark.parametrize("queues", [None, 5, "T", ["T"], [Message("T", b"x")], MessageQueue("T", "a", 0)])
async def test_queues_are_a_list_of_queues(started: Started, queues: Any) -> None:
    async with await started(PullConsumer) as consumer:
        for call in (consumer.assign, consumer.pause, consumer.resume):
            refused("queues are a list of MessageQueue values", lambda call=call: call(queues))  # type: ignore[misc]
        await refused_later("queues are a list", lambda: consumer.offsets_for_time(queues, 0))
        if not isinstance(queues, MessageQueue):
            for ask in (consumer.position, consumer.committed, consumer.begin_offset, consumer.end_offset):
                await refused_later("queues are a list", lambda ask=ask: ask(queues))  # type: ignore[misc]


async def test_times_and_counts_of_a_poll_are_numbers(started: Started) -> None:
    async with await started(PullConsumer) as consumer:
        consumer.subscribe("T")
        for wrong in NO_NUMBERS:
            await refused_later("timeout_ms is a number", lambda wrong=wrong: consumer.poll(wrong))  # type: ignore[misc]
        for wrong in (*NO_NUMBERS, 0, -1, 1.5):
            await refused_later("max_messages", lambda wrong=wrong: consumer.poll(0, wrong))  # type: ignore[misc]


@pytest.mark.parametrize("offset", [*NO_NUMBERS, -1, 1.5])
async def test_offsets_are_numbers(started: Started, offset: Any) -> None:
    async with await started(PullConsumer) as consumer:
        queue = MessageQueue("T", "a", 0)
        await refused_later("the offset of T@a:0", lambda: consumer.commit({queue: offset}))
        await refused_later("offsets is a dict", lambda: consumer.commit([(queue, 0)]))
