"""The lines of the audit as messages of a topic of this broker: a consumer follows who did what.

Owns        the lines that are not stored yet, how many at most, when they are tried again.
Must not know   which requests are noted, the form of a line (net/gate/audit.py): the file has each of them first.

A line is stored by the broker itself, not by a send, so nothing is noted about it. One that the log cannot take now
waits, in order; of too many the oldest stay in the file only. On a slave nothing is stored: a slave appends what its
master has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rocketlake.base.clock import Clock
from rocketlake.base.service import Service
from rocketlake.broker.cluster.role import Role
from rocketlake.codec.host import encode_host
from rocketlake.model.topic import AUDIT_TOPIC
from rocketlake.store.message_store import MessageStore
from rocketlake.store.results import PutMessage

__all__ = ["LINES_MAX", "AuditTopic"]

LINES_MAX = 1000
"""Of at most some kilobytes each."""
_RETRY_SECONDS = 1.0
_TROUBLE = "audit topic"


class AuditTopic(Service):
    """Of one broker; `note` does nothing while it does not run."""

    def __init__(self, store: MessageStore, role: Role, clock: Clock, host: Callable[[], tuple[str, int]]) -> None:
        super().__init__("audit-topic", clock)
        self._store = store
        self._role = role
        self._host = host
        self._waiting: deque[bytes] = deque(maxlen=LINES_MAX)

    async def start(self) -> None:
        """Take lines."""
        await super().start()
        self.every("write", _RETRY_SECONDS, self._write)

    async def stop(self) -> None:
        """What waits stays in the file only."""
        await super().stop()
        self._waiting.clear()
        self.health.set(_TROUBLE, "")

    def note(self, line: bytes) -> None:
        """Store a line, now or later."""
        if self.is_running:
            self._waiting.append(line)
            self._write()

    def _write(self) -> None:
        while self._waiting and self._role.is_master and not self._role.pause and not self._store.log.is_late:
            host = encode_host(*self._host())
            now_ms = self._clock.now_ms()
            message = PutMessage(
                AUDIT_TOPIC, 0, self._waiting[0], born_ms=now_ms, born_host=host, store_host=host, is_own=True
            )
            result = self._store.put(message)
            if not result.status.is_stored:
                reason = f"lines are in audit.jsonl only: {result.status.value} {result.reason}"
                self.health.set(_TROUBLE, reason)
                return
            self._waiting.popleft()
        self.health.set(_TROUBLE, "")
