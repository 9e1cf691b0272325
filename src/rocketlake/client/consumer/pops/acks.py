"""Acknowledges messages behind the listener.

Owns        which acknowledgements share a request, how often one is tried.
Must not know   listeners, when a message is done with.

One request at a time goes to a broker; what is done with meanwhile shares the next. An acknowledgement may be repeated
without harm. One that fails in the end is not told to anyone: the message comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from rocketlake.base.clock import Clock
from rocketlake.base.errors import LinkError, RocketLakeError
from rocketlake.base.logs import RareWarnings, get_logger
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.model.message import StoredMessage

__all__ = ["Acks"]

log = get_logger(__name__)
_TRIES = 3
_PAUSE_SECONDS = 0.5
_TOGETHER_MAX = 512


class Acks:
    """The acknowledgements of one consumer."""

    def __init__(
        self, pops: PopAccess, clock: Clock, spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]]
    ) -> None:
        self._pops = pops
        self._clock = clock
        self._spawn = spawn
        self._waiting: dict[str, list[StoredMessage]] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._warnings = RareWarnings(log, interval_seconds=30.0, clock=clock)

    def add(self, messages: Sequence[StoredMessage]) -> None:
        """These are done with."""
        for message in messages:
            name = message.broker_name
            self._waiting.setdefault(name, []).append(message)
            if name not in self._sending:
                self._sending[name] = self._spawn(f"acks {name}", self._send(name))

    async def drain(self) -> None:
        """Return when all are sent, or have failed."""
        if self._sending:
            await asyncio.wait(list(self._sending.values()))

    async def _send(self, name: str) -> None:
        try:
            while waiting := self._waiting.pop(name, None):
                for first in range(0, len(waiting), _TOGETHER_MAX):
                    await self._send_some(waiting[first : first + _TOGETHER_MAX])
        finally:
            del self._sending[name]

    async def _send_some(self, messages: list[StoredMessage]) -> None:
        for number in range(1, _TRIES + 1):
            try:
                return await self._pops.ack_all(messages)
            except RocketLakeError as error:
                if number == _TRIES or not isinstance(error, LinkError):
                    self._warnings.warn(
                        "acks", "%d message(s) were not acknowledged, and come again: %s", len(messages), error
                    )
                    return
            await self._clock.sleep(_PAUSE_SECONDS)
