"""The listener that answers requests: a function takes a message and returns its answer.

Owns        sending what the function returns, what becomes of an answer that cannot be sent.
Must not know   how messages reach it, how an answer is tied to its request (calls/reply.py).

Rule: a request is done when its function has returned. If its answer cannot be sent, because the producer that asked
is gone or no broker takes it, the log says so and the request does not come again: the asker waits no longer. If the
function raises, the request comes again, as any message whose listener fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.calls.reply import is_request, reply_to
from rocketlake.client.errors import NotRunning
from rocketlake.client.user_functions import FunctionCall
from rocketlake.model.message import Message, StoredMessage

__all__ = ["Replier", "ReplyFunction"]

_log = get_logger(__name__)
_Reply = bytes | bytearray | memoryview | Message | None
ReplyFunction = Callable[[StoredMessage], _Reply | Awaitable[_Reply]]


class Replier:
    """Calls a function for each message, one after the other, and sends what it returns to the producer that asked."""

    def __init__(
        self, function: ReplyFunction, send: Callable[[Message], Awaitable[object]], *, threads: int, clock: Clock
    ) -> None:
        """A plain function runs on one of `threads` worker threads. `send`: that of a producer."""
        self._call: FunctionCall[StoredMessage, _Reply] = FunctionCall(function, threads=threads)
        self._send = send
        self._warnings = RareWarnings(_log, clock=clock)
        self.close = self._call.close

    async def __call__(self, messages: Sequence[StoredMessage]) -> None:
        """Answer each of them. Raises the error of the function."""
        for message in messages:
            answer = await self._call.begin(message)
            if answer is None:
                continue
            if not is_request(message):
                self._warnings.warn("asked", "message %s asks for no answer: it is dropped", message.message_id)
                continue
            reply = reply_to(message, answer)
            try:
                await self._send(reply)
            except NotRunning:
                raise  # the producer was stopped before the consumer: another member may answer
            except RocketLakeError as error:
                self._warnings.warn("lost", "the answer to message %s is lost: %s", message.message_id, error)
