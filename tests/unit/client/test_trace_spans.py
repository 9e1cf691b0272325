"""Spans of sends and listener calls, and the context that messages carry from one to the other."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from rocketlake.base.clock import ManualClock
from rocketlake.base.errors import RemoteError, UsageError
from rocketlake.client.consumer.listener import ConsumeResult, ListenerCall
from rocketlake.client.consumer.running import consume
from rocketlake.client.hooks import Hooks
from rocketlake.client.producer.producer import Producer
from rocketlake.client.trace.spans import spanned
from rocketlake.codec import property_text
from rocketlake.codec.record_batch import decode_batch
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.response_code import ResponseCode

HAS_SDK = importlib.util.find_spec("opentelemetry") is not None


@pytest.mark.skipif(HAS_SDK, reason="opentelemetry is installed")
def test_without_the_package_the_error_tells_the_cure() -> None:
    with pytest.raises(UsageError, match=r"rocketlake\[otel\]"):
        spanned()


class Spans:
    """Hooks with spans, and the spans that have ended."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.hooks = spanned(Hooks(), provider=self.provider)

    @property
    def ended(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())

    async def consume(self, *messages: StoredMessage, answer: Any = None) -> ConsumeResult | None:
        def listen(batch: list[StoredMessage]) -> Any:
            with self.provider.get_tracer("test").start_as_current_span("in the listener"):
                if isinstance(answer, BaseException):
                    raise answer
                return answer

        call = ListenerCall(listen, threads=1)
        queue = MessageQueue("T", "b", 3)
        try:
            return await consume(call, "packers", queue, list(messages), self.hooks, ManualClock())
        finally:
            call.close()


@pytest.fixture
def spans() -> Spans:
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    return Spans()


@pytest.fixture
async def producer(peers: Any, make_broker: Any, spans: Spans) -> Any:
    broker = await make_broker("a")
    peers.route("T", broker, queues=1)
    instance = peers.client()
    await instance.start()
    async with Producer("sellers", instance=instance, hooks=spans.hooks) as producer:
        yield producer, broker


def stored(properties: dict[str, str], reconsume_times: int = 0) -> StoredMessage:
    return StoredMessage("T", b"x", properties=properties, broker_name="b", reconsume_times=reconsume_times)


async def test_a_call_of_a_plain_listener_continues_the_trace_of_the_send(producer: Any, spans: Spans) -> None:
    ours, broker = producer
    result = await ours.send(Message("T", b"four", tags="A", keys="k"))
    properties = property_text.decode(broker.sent[0][0].properties.encode())
    (send,) = spans.ended
    assert properties["traceparent"].startswith(f"00-{send.context.trace_id:032x}-{send.context.span_id:016x}-")
    assert (send.name, send.kind.name, send.status.is_ok) == ("send T", "PRODUCER", True)
    assert send.attributes["messaging.message.id"] == result.message_id
    assert send.attributes["messaging.rocketmq.message.keys"] == "k"
    await spans.consume(stored(properties))
    _, inner, process = spans.ended
    assert (process.name, process.kind.name) == ("process T", "CONSUMER")
    assert process.parent.span_id == send.context.span_id
    assert inner.parent.span_id == process.context.span_id
    assert {each.context.trace_id for each in spans.ended} == {send.context.trace_id}


async def test_batches_and_retries_are_linked(producer: Any, spans: Spans) -> None:
    ours, broker = producer
    await ours.send_batch([Message("T", b"0"), Message("T", b"1")])
    (send,) = spans.ended
    carried = [property_text.decode(properties) for _, _, properties in decode_batch(broker.sent[0][1])]
    assert len({each["traceparent"] for each in carried}) == 1
    await spans.consume(*map(stored, carried))
    await spans.consume(stored(carried[0], reconsume_times=1))
    batch, retry = (each for each in spans.ended if each.name == "process T")
    assert [[link.context.span_id for link in each.links] for each in (batch, retry)] == [
        [send.context.span_id] * 2,
        [send.context.span_id],
    ]
    assert batch.parent is retry.parent is None
    assert batch.attributes["messaging.batch.message_count"] == 2


async def test_a_context_of_the_user_stays(producer: Any, spans: Spans) -> None:
    ours, broker = producer
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await ours.send(Message("T", b"x", properties={"traceparent": own}))
    assert property_text.decode(broker.sent[0][0].properties.encode())["traceparent"] == own


async def test_failures_are_told(producer: Any, spans: Spans) -> None:
    ours, broker = producer
    broker.refuse(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(RemoteError):
        await ours.send(Message("T", b"x"))
    await spans.consume(stored({}), answer=ValueError("no"))
    await spans.consume(stored({}), answer=ConsumeResult.LATER)
    outer = [each for each in spans.ended if each.name != "in the listener"]
    assert [each.status.status_code.name for each in outer] == ["ERROR"] * 3
    assert [[event.attributes["exception.type"] for event in each.events] for each in outer[1:]] == [["ValueError"], []]


async def test_a_broken_context_in_a_message_does_no_harm(spans: Spans) -> None:
    assert await spans.consume(stored({"traceparent": "00-nonsense"})) == ConsumeResult.SUCCESS
    assert [each.name for each in spans.ended] == ["in the listener", "process T"]
