"""Queue locks that most brokers of the group have (lockInStrictMode).

Owns        asking the other members for the same locks, the count that a lock needs.
Must not know   the locks of this broker (queue_locks.py), how members are found.

A master that takes the place of another one begins without locks: a second consumer could lock a queue that the first
one still reads. In strict mode a lock counts when more than half of `totalReplicas` brokers have it, so the next master
knows it, or cannot give it to another client. A lock that too few have is not taken back: it may be an older one that
is renewed, and expires by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection

from rocketlake.base.clock import Clock
from rocketlake.base.errors import RemoteError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.base.service import Service
from rocketlake.broker.config import LiveConfig
from rocketlake.model.message_queue import MessageQueue
from rocketlake.net.client import NetClient
from rocketlake.protocol.bodies.lock import LockBody, LockReply
from rocketlake.protocol.bodies.queue_map import QueueEntry
from rocketlake.protocol.command import Command
from rocketlake.protocol.request_code import RequestCode
from rocketlake.protocol.response_code import ResponseCode

__all__ = ["MemberLocks"]

_log = get_logger(__name__)
_MEMBER_MS = 700
"""A client waits 1,000 ms for its locks: it shall hear of those that the other members have."""


class MemberLocks(Service):
    """Asks the other members."""

    def __init__(
        self, config: LiveConfig, others: Callable[[], Awaitable[Collection[str] | None]], net: NetClient, clock: Clock
    ) -> None:
        """`others`: addresses of the other brokers of the group; None when that cannot be told now."""
        super().__init__("member-locks", clock)
        self._config = config
        self._others = others
        self._net = net
        self._known: Collection[str] = ()
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_strict(self) -> bool:
        """True if a lock of this broker alone does not count."""
        return self._config.now.lock_in_strict_mode

    async def confirmed(self, asked: LockBody, held: list[QueueEntry]) -> list[QueueEntry]:
        """Those of `held`, which this broker has locked for the client, that enough brokers have locked for it."""
        least = self._config.now.total_replicas // 2 + 1
        counts = Counter(entry.to_model() for entry in held)
        waiting = {
            self.spawn("lock", self._locked_at(address, asked, held))
            for address in (await self._members() if held else ())
        }
        while waiting and min(counts.values()) < least:
            ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                counts.update(task.result())
        return [entry for entry in held if counts[entry.to_model()] >= least]

    def unlock(self, asked: LockBody) -> None:
        """Give these locks back at the other members, in the background: they expire there if one is not reached."""
        self.spawn("unlock", self._unlock(asked))

    async def _unlock(self, asked: LockBody) -> None:
        for address in await self._members():
            self.spawn("unlock", self._unlock_at(address, asked))

    async def _members(self) -> Collection[str]:
        """Those known; they are looked up anew meanwhile: a name server that hangs holds up no lock but the first."""
        if self._looking is None or self._looking.done():
            self._looking = self.spawn("members", self._look())
        if not self._known:
            await asyncio.wait((self._looking,))
        return self._known

    async def _look(self) -> None:
        self._known = await self._others() or self._known

    async def _locked_at(self, address: str, asked: LockBody, held: list[QueueEntry]) -> set[MessageQueue]:
        try:
            answer = await self._ask(address, RequestCode.LOCK_BATCH_MQ, asked, held)
            return {entry.to_model() for entry in LockReply.decode(answer).queues}
        except RocketLakeError as error:
            _log.warning("member %s gives no locks to group %s: %s", address, asked.consumer_group, error)
            return set()

    async def _unlock_at(self, address: str, asked: LockBody) -> None:
        try:
            await self._ask(address, RequestCode.UNLOCK_BATCH_MQ, asked, asked.queues)
        except RocketLakeError as error:
            _log.warning("member %s keeps locks of group %s, they expire: %s", address, asked.consumer_group, error)

    async def _ask(self, address: str, code: RequestCode, asked: LockBody, queues: list[QueueEntry]) -> bytes:
        """The body of the member's answer."""
        body = LockBody(
            client_id=asked.client_id, consumer_group=asked.consumer_group, queues=queues, only_this_broker=True
        )
        answer = await self._net.invoke(address, Command.request(code, body=body.encode()), _MEMBER_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteError(answer.remark or f"answered {answer.code}", code=answer.code, address=address)
        return answer.body_bytes
