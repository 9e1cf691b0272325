"""OpenTelemetry spans over sends and listener calls, tied together by W3C trace context in message properties.

Owns        the names and attributes of the spans, the properties that carry the context.
Must not know   producers, consumers: it is a set of hooks.

It needs opentelemetry-api, which is imported only for those who ask for spans: `Producer("g", hooks=spanned())`.

A send is a producer span, its context goes into the properties `traceparent`, `tracestate` and `baggage` of each
message, unless the user has put a `traceparent` there. A listener call is a consumer span: the child of the send of
its message, at the first delivery. A batch has many senders, and a retry comes long after its send: such a call begins
a trace of its own, with a link to each send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketlake.base.errors import UsageError
from rocketlake.client.hooks import ConsumeEvent, Hooks, Sending
from rocketlake.model.message import Message

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, TracerProvider

__all__ = ["spanned"]

_CONTEXT = "traceparent"


def spanned(hooks: Hooks | None = None, *, provider: TracerProvider | None = None) -> Hooks:
    """These hooks, or new ones, with spans; `provider`: None takes the global one. UsageError without the package."""
    try:
        from opentelemetry import propagate, trace
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode
    except ModuleNotFoundError as error:
        what = f"spans need the package {error.name}, which is not installed"
        raise UsageError(what, hint="pip install 'rocketlake[otel]'") from error
    tracer = trace.get_tracer("rocketlake", tracer_provider=provider)

    def context_of(message: Message) -> SpanContext | None:
        if _CONTEXT not in message.properties:
            return None
        context = trace.get_current_span(propagate.extract(message.properties, Context())).get_span_context()
        return context if context.is_valid else None

    @contextmanager
    def sending(event: Sending) -> Iterator[None]:
        first = event.messages[0]
        attributes = _attributes("send", event.group, event.messages)
        with tracer.start_as_current_span(f"send {first.topic}", kind=SpanKind.PRODUCER, attributes=attributes) as span:
            for message in event.messages:
                if _CONTEXT not in message.properties:
                    propagate.inject(message.properties)
            yield
            if len(event.results) == 1:
                span.set_attribute("messaging.message.id", event.results[0].message_id)
                span.set_attribute("messaging.destination.partition.id", str(event.results[0].queue.queue_id))

    @contextmanager
    def consuming(event: ConsumeEvent) -> Iterator[None]:
        first = event.messages[0]
        attributes = _attributes("process", event.group, event.messages) | {
            "messaging.consumer.group.name": event.group,
            "messaging.destination.partition.id": str(event.queue.queue_id),
        }
        if len(event.messages) == 1:
            attributes["messaging.message.id"] = first.message_id
        sends = [context for message in event.messages if (context := context_of(message)) is not None]
        parent = None
        if len(event.messages) == 1 and first.reconsume_times == 0 and sends:
            parent = propagate.extract(first.properties, Context())
        with tracer.start_as_current_span(
            f"process {first.topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[] if parent else list(map(Link, sends)),
        ) as span:
            yield
            if event.error is not None:
                span.record_exception(event.error)
            if event.is_success is False:
                span.set_status(Status(StatusCode.ERROR, f"{event.done} of {len(event.messages)} consumed"))

    hooks = hooks or Hooks()
    hooks.around_send.append(sending)
    hooks.around_consume.append(consuming)
    return hooks


def _attributes(operation: str, group: str, messages: Sequence[Message]) -> dict[str, str | int]:
    first = messages[0]
    found: dict[str, str | int] = {
        "messaging.system": "rocketmq",
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
        "messaging.destination.name": first.topic,
        "messaging.client.group": group,
    }
    if len(messages) > 1:
        found["messaging.batch.message_count"] = len(messages)
        return found
    found["messaging.message.body.size"] = len(first.body)
    if first.tags:
        found["messaging.rocketmq.message.tag"] = first.tags
    if first.key_list:
        found["messaging.rocketmq.message.keys"] = first.keys or ""
    return found
