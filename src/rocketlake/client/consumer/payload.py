"""Typed payloads: values of the user in place of bodies.

Owns        a value to the body of a message and back, the fate of a body that is no such value.
Must not know   how messages are sent and received.

Rule: a body that cannot be read is a dead letter at once, with the reason as LAST_ERROR: it will not get better by
waiting. An exception of the user's own function is a failed message as any other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from rocketlake.base.errors import UsageError, error_line
from rocketlake.base.logs import get_logger
from rocketlake.client.consumer.consumer import Consumer
from rocketlake.client.consumer.listener import Answer, ConsumeResult
from rocketlake.client.user_functions import check_function
from rocketlake.model.message import StoredMessage

__all__ = ["Codec", "Payload"]

T = TypeVar("T")
_log = get_logger(__name__)


class Codec(Protocol[T]):
    """How a value becomes bytes. `decode` raises any exception for bytes that are no such value."""

    def encode(self, value: T) -> bytes:
        """The body of a message."""

    def decode(self, body: bytes) -> T:
        """The value."""


class Payload(Generic[T]):
    """`orders = Payload(Order)`, then `orders.body(order)`, `async for order, message in orders.read(consumer)`."""

    def __init__(self, kind: type[T] | Codec[T]) -> None:
        """`kind`: a class, whose values are JSON (msgspec's structs, dataclasses, TypedDict, pydantic's models, what
        msgspec reads), or an object with `encode` and `decode`. UsageError for a class of another kind."""
        if not isinstance(kind, type) and not (hasattr(kind, "encode") and hasattr(kind, "decode")):
            what = f"the kind of a payload is a class, not {type(kind).__name__}"
            raise UsageError(what, hint="give the class of its values, or an object with encode and decode")
        self._codec: Codec[T] = _json_of(kind) if isinstance(kind, type) else kind

    def body(self, value: T) -> bytes:
        """The body of a message with this value."""
        return self._codec.encode(value)

    def value(self, message: StoredMessage) -> T:
        """The value of a message. Raises what the codec raises for a body that is none."""
        return self._codec.decode(message.body)

    async def read(self, consumer: Consumer) -> AsyncIterator[tuple[T, StoredMessage]]:
        """Values and their messages, as `async for message in consumer` gives messages: the next one acknowledges."""
        async for message in consumer:
            try:
                value = self.value(message)
            except Exception as error:
                consumer.later(delay_level=-1, error=_give_up(message, error))
            else:
                yield value, message

    def listener(
        self, function: Callable[[T, StoredMessage], Answer | Awaitable[Answer]]
    ) -> Callable[[list[StoredMessage]], Awaitable[Answer]]:
        """A listener that calls `await function(value, message)`, for a consumer with `batch_size` 1, the default."""
        check_function("function", function, takes="(value, message)")

        async def listen(messages: list[StoredMessage]) -> Answer:
            if len(messages) > 1:
                raise UsageError("a listener of values takes one message at a time", hint="leave batch_size at 1")
            (message,) = messages
            try:
                value = self.value(message)
            except Exception as error:
                return ConsumeResult.later(delay_level=-1, error=_give_up(message, error))
            answer = function(value, message)
            return await answer if isinstance(answer, Awaitable) else answer

        return listen


def _give_up(message: StoredMessage, error: Exception) -> str:
    reason = f"the body is no value of its kind: {error_line(error)}"
    _log.error("message %s of %s becomes a dead letter: %s", message.message_id, message.message_queue, reason)
    return reason


class _Json(Generic[T]):
    """JSON by msgspec."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self.encode: Callable[[T], bytes] = msgspec.json.Encoder().encode
        self.decode: Callable[[bytes], T] = self._decoder.decode


class _Pydantic(Generic[T]):
    """JSON by a model of pydantic."""

    def __init__(self, kind: Any) -> None:
        self.decode: Callable[[bytes], T] = kind.model_validate_json

    @staticmethod
    def encode(value: Any) -> bytes:
        """The body."""
        return cast("str", value.model_dump_json()).encode()


def _json_of(kind: type[T]) -> Codec[T]:
    if hasattr(kind, "model_validate_json"):
        return _Pydantic(kind)
    if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
        raise UsageError(
            f"values of {kind.__name__} cannot be read from JSON",
            hint="give a dataclass, a msgspec struct, a model of pydantic, or an object with encode and decode",
        )
    return _Json(kind)
