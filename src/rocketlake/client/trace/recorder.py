"""Trace records of sends, transactions and listener calls, made in hooks.

Owns        which of them are traced, the fields of their records.
Must not know   how records travel (dispatcher.py), their text (format.py).

As RocketMQ's clients do: a send without an answer of a broker is not traced, a broker may forbid the trace
(`traceOn=false`), messages of the trace topic are not traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rocketlake.base.clock import Clock
from rocketlake.client.calls.send import SendStatus
from rocketlake.client.calls.transaction import TransactionEnd
from rocketlake.client.hooks import ConsumeEvent, EndEvent, Hooks, SendEvent
from rocketlake.client.trace.format import (
    ConsumeCode,
    EndTransaction,
    MessageType,
    Pub,
    Record,
    SubAfter,
    SubBefore,
    TransactionState,
)
from rocketlake.model import property_names as names
from rocketlake.model.message import Message

__all__ = ["Recorder"]

DEFAULT_REGION = "DefaultRegion"
_STATES = {
    TransactionEnd.COMMIT: TransactionState.COMMIT,
    TransactionEnd.ROLLBACK: TransactionState.ROLLBACK,
    TransactionEnd.UNKNOWN: TransactionState.UNKNOWN,
}


class Recorder:
    """Makes the records of one producer or consumer."""

    def __init__(
        self,
        append: Callable[[Sequence[Record]], None],
        clock: Clock,
        make_id: Callable[[], str],
        *,
        trace_topic: str,
        consume_timeout_ms: float = float("inf"),
    ) -> None:
        """`append` takes records to be sent, `make_id` makes the id of a listener's call."""
        self._append = append
        self._clock = clock
        self._make_id = make_id
        self._trace_topic = trace_topic
        self._consume_timeout_ms = consume_timeout_ms

    def added_to(self, hooks: Hooks) -> Hooks:
        """These hooks and the recorder's own; those that were given may serve other producers and consumers, too."""
        return replace(
            hooks,
            before_send=[*hooks.before_send],
            around_send=[*hooks.around_send],
            before_consume=[*hooks.before_consume],
            after_consume=[*hooks.after_consume],
            on_damage=[*hooks.on_damage],
            after_send=[*hooks.after_send, self.sent],
            after_end=[*hooks.after_end, self.ended],
            around_consume=[*hooks.around_consume, self.consuming],
        )

    def sent(self, event: SendEvent) -> None:
        """Behind each attempt of a send."""
        result = event.result
        if result is None or not result.trace_on or self._is_trace(event.messages[0]):
            return
        cost_ms = math.ceil(event.latency_ms)  # so that it never seems to begin behind its storing
        at_ms = self._clock.now_ms() - cost_ms
        places = result.offset_message_id.split(",")
        if len(places) != len(event.messages):
            places = [places[0]] * len(event.messages)
        self._append(
            [
                Pub(
                    at_ms,
                    result.region or DEFAULT_REGION,
                    event.group,
                    message.topic,
                    message.unique_key or result.message_id,
                    message.tags,
                    message.keys,
                    event.address,
                    len(message.body),
                    cost_ms,
                    _type_of(message),
                    place,
                    result.status is SendStatus.OK,
                )
                for message, place in zip(event.messages, places, strict=True)
            ]
        )

    def ended(self, event: EndEvent) -> None:
        """Behind the end of a transaction."""
        message = event.message
        if not event.trace_on or _is_off(message) or self._is_trace(message):
            return
        record = EndTransaction(
            self._clock.now_ms(),
            event.region or message.properties.get(names.MESSAGE_REGION) or DEFAULT_REGION,
            event.group,
            message.topic,
            event.message_id,
            message.tags,
            message.keys,
            event.address,
            MessageType.TRANSACTION_END,
            event.message_id,
            _STATES[event.end],
            event.is_checked,
        )
        self._append([record])

    @contextmanager
    def consuming(self, event: ConsumeEvent) -> Iterator[None]:
        """Around a call of a listener."""
        traced = [not (_is_off(message) or self._is_trace(message)) for message in event.messages]
        if not any(traced):
            yield
            return
        begun, at_ms, request_id = self._clock.monotonic(), self._clock.now_ms(), self._make_id()
        # As they are now: the listener may change its messages.
        known = [(message.message_id, message.keys) for message in event.messages]
        self._append(
            [
                SubBefore(
                    at_ms,
                    message.properties.get(names.MESSAGE_REGION) or DEFAULT_REGION,
                    event.group,
                    request_id,
                    message.message_id,
                    message.reconsume_times,
                    message.keys,
                )
                for message, is_traced in zip(event.messages, traced, strict=True)
                if is_traced
            ]
        )
        yield
        if event.is_success is None:
            return  # the listener did not look at them
        took_ms = (self._clock.monotonic() - begun) * 1000
        codes = self._code(event, took_ms, is_done=True), self._code(event, took_ms, is_done=False)
        self._append(
            [
                SubAfter(
                    request_id,
                    message_id,
                    int(took_ms / len(known)),
                    number < event.done,
                    keys,
                    codes[number >= event.done],
                    self._clock.now_ms(),
                    event.group,
                )
                for number, (message_id, keys) in enumerate(known)
                if traced[number]
            ]
        )

    def _code(self, event: ConsumeEvent, took_ms: float, *, is_done: bool) -> ConsumeCode:
        if event.error is not None:
            return ConsumeCode.RAISED
        if took_ms >= self._consume_timeout_ms:
            return ConsumeCode.TIMED_OUT
        return ConsumeCode.SUCCESS if is_done else ConsumeCode.FAILED

    def _is_trace(self, message: Message) -> bool:
        return message.topic == self._trace_topic


def _is_off(message: Message) -> bool:
    return message.properties.get(names.TRACE_SWITCH) == "false"


def _type_of(message: Message) -> MessageType:
    if message.is_delayed:
        return MessageType.DELAYED
    return MessageType.HALF if message.properties.get(names.TRANSACTION_PREPARED) == "true" else MessageType.NORMAL
