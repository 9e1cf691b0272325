"""Requests that wait for their answers.

Owns        the open requests of one producer by their correlation ids, and their ends.
Must not know   how a request is sent (producer.py), bytes of an answer (calls/reply.py).

A broker hands an answer on by the connection over which a heartbeat of the asker came. So a request is sent when each
master that may get its answer has a heartbeat by the link that is open now. While requests wait, this is looked after
once a second: a link may break, another broker may become the master.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from rocketlake.base.service import Service
from rocketlake.client.instance import ClientInstance
from rocketlake.model import property_names as names
from rocketlake.model.message import StoredMessage

__all__ = ["OpenRequest", "Requests"]

_LOOK_SECONDS = 1.0


class OpenRequest:
    """One request: its correlation id, and the answer to come."""

    def __init__(self) -> None:
        self.id = str(uuid.uuid4())
        self.answer: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self.sent: object = None
        """The result of its send."""

    def fail(self, error: BaseException) -> None:
        """It ends with this error, if it has not ended yet."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Requests:
    """The open requests of one producer."""

    def __init__(self, instance: ClientInstance, service: Service) -> None:
        """`service`: of the producer."""
        self._instance = instance
        self._clock = instance.clock
        self._service = service
        self._open: dict[str, OpenRequest] = {}
        self._is_watched = False

    @contextmanager
    def open(self) -> Iterator[OpenRequest]:
        """A new request; it takes an answer until the block ends."""
        request = OpenRequest()
        self._open[request.id] = request
        if not self._is_watched:
            self._is_watched = True
            self._service.spawn("requests that wait", self._watch())
        try:
            yield request
        finally:
            self._open.pop(request.id, None)
            if not request.answer.cancel():  # its send may still fail, and nobody would take the error
                request.answer.exception()

    def sent(self, request: OpenRequest, result: object, error: BaseException | None) -> None:
        """Its send has ended. An error is the outcome of the request, unless the answer is here all the same."""
        request.sent = result
        if error is not None:
            request.fail(error)
        else:
            self._instance.become_known()  # the link may have been opened for this send

    def take(self, answer: StoredMessage) -> bool:
        """Give an answer to its request; False when it has ended, or has an answer, or is none of this producer."""
        request = self._open.pop(answer.properties.get(names.CORRELATION_ID, ""), None)
        if request is None or request.answer.done():
            return False
        request.answer.set_result(answer)
        return True

    def end(self, error: Exception) -> None:
        """All open requests end with an error."""
        for request in tuple(self._open.values()):
            request.fail(error)

    async def _watch(self) -> None:
        try:
            while self._open:
                await self._clock.sleep(_LOOK_SECONDS)
                if greeting := self._instance.become_known(also_lost=True):
                    await asyncio.wait((greeting,))
        finally:
            self._is_watched = False
