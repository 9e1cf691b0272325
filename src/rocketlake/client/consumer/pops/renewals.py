"""Extends the time of popped messages while they are worked on.

Owns        which messages are renewed, when, and for how long at most.
Must not know   who works on them.

A message is renewed when two thirds of its time are left. A renewal that fails is repeated a third of the time later: a
broker may be away for so long. Each goes alone: one at a broker that is silent keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.alarm import Alarm
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.client.errors import HandleExpired
from rocketlake.model.message import StoredMessage

__all__ = ["Renewals"]

log = get_logger(__name__)
_PARTS = 3
_IDLE_SECONDS = 3600.0


class _Renewed:
    """A message whose time is renewed. Times in monotonic seconds."""

    __slots__ = ("due", "invisible_ms", "is_asked", "message", "until")

    def __init__(self, message: StoredMessage, invisible_ms: int, now: float, until: float) -> None:
        self.message = message
        self.invisible_ms = invisible_ms
        self.until = until
        self.is_asked = False
        self.put_off(now)

    def put_off(self, now: float) -> None:
        self.due = now + self.invisible_ms / _PARTS / 1000


class Renewals:
    """The renewals of one consumer."""

    def __init__(
        self, pops: PopAccess, longest_ms: int, clock: Clock, spawn: Callable[..., asyncio.Task[None]]
    ) -> None:
        self._pops = pops
        self._spawn = spawn
        self._longest_ms = longest_ms
        self._clock = clock
        self._alarm = Alarm(clock)
        self._wakes_at = 0.0
        self._held: dict[int, _Renewed] = {}
        """By identity of the message: its handle changes with each renewal."""

    def begin(self, messages: Sequence[StoredMessage], invisible_ms: int) -> None:
        """Renew these, which were popped for `invisible_ms`, until `end`."""
        now = self._clock.monotonic()
        for message in messages:
            self._held[id(message)] = _Renewed(message, invisible_ms, now, now + self._longest_ms / 1000)
        if messages and self._held[id(messages[0])].due < self._wakes_at:
            self._alarm.ring()

    def end(self, message: StoredMessage) -> None:
        """Renew it no longer."""
        self._held.pop(id(message), None)

    async def run(self) -> None:
        """Renew what is due, and wait for the next: a duty of the consumer."""
        now = self._clock.monotonic()
        for each in list(self._held.values()):
            if each.due <= now:
                self._look_at(each, now)
        self._wakes_at = min((each.due for each in self._held.values()), default=now + _IDLE_SECONDS)
        await self._alarm.wait(self._wakes_at - self._clock.monotonic())

    def _look_at(self, renewed: _Renewed, now: float) -> None:
        message = renewed.message
        if now >= renewed.until:
            self.end(message)
            log.warning(
                "message %s is worked on for longer than consume_timeout_ms=%d: it comes again",
                message.message_id, self._longest_ms,
            )  # fmt: skip
            return
        renewed.put_off(now)
        if not renewed.is_asked:
            renewed.is_asked = True
            self._spawn("renew", self._renew(renewed))

    async def _renew(self, renewed: _Renewed) -> None:
        message = renewed.message
        try:
            await self._pops.change(message, renewed.invisible_ms, still=lambda: id(message) in self._held)
        except HandleExpired as error:
            self.end(message)
            log.warning("%s; it could not be renewed in time", error.what)
        except RocketLakeError as error:
            log.warning("message %s was not renewed, and will be tried again: %s", message.message_id, error)
        finally:
            renewed.is_asked = False
