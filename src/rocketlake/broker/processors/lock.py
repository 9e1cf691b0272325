"""Queue locks of ordered consumers.

Owns        the number of queues that one request may name.
Must not know   how long a lock lives, how many brokers must have it.

Source: docs/internals/clients.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketlake.base.errors import UsageError
from rocketlake.base.slices import in_slices
from rocketlake.broker.clients.client_ids import ClientIds
from rocketlake.broker.clients.member_locks import MemberLocks
from rocketlake.broker.clients.queue_locks import QueueLocks
from rocketlake.net.reply_steps import ReplySteps
from rocketlake.net.request import HELD, Reply, Request
from rocketlake.protocol.bodies.lock import LockBody, LockReply
from rocketlake.protocol.bodies.long_text import encoding
from rocketlake.protocol.bodies.queue_map import QueueEntry

__all__ = ["Lock"]

_QUEUES_MAX = 65_536
_NAME_MAX = 255
_PORTION = 100
"""Queues looked at in one step."""


class Lock:
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    def __init__(self, queue_locks: QueueLocks, members: MemberLocks, client_ids: ClientIds) -> None:
        self._client_ids = client_ids
        self._queue_locks = queue_locks
        self._members = members

    def lock(self, request: Request) -> ReplySteps:
        """LOCK_BATCH_MQ: take or renew queues. The answer names the queues that the client owns now."""
        body = _read(request)
        if body.only_this_broker:  # of another broker, for its client
            self._client_ids.check(request.user, body.client_id)
        else:
            self._client_ids.claim(request.user, body.client_id)
        held: list[QueueEntry] = []
        for some in _in_portions(body.queues):
            queues = [entry.to_model() for entry in some]
            owned = self._queue_locks.lock(body.consumer_group, body.client_id, queues)
            held += [entry for entry, queue in zip(some, queues, strict=True) if queue in owned]
            yield
        if self._members.is_strict and not body.only_this_broker:
            self._members.spawn("confirm", self._confirm(request, body, held))
            return HELD
        return Reply(body=(yield from encoding(LockReply(queues=held))))

    async def _confirm(self, request: Request, body: LockBody, held: list[QueueEntry]) -> None:
        held = await self._members.confirmed(body, held)
        request.answer(Reply(body=await in_slices(encoding(LockReply(queues=held)))))

    def unlock(self, request: Request) -> ReplySteps:
        """UNLOCK_BATCH_MQ: give queues back."""
        body = _read(request)
        self._client_ids.check(request.user, body.client_id)
        for some in _in_portions(body.queues):
            self._queue_locks.unlock(body.consumer_group, body.client_id, [entry.to_model() for entry in some])
            yield
        if self._members.is_strict and not body.only_this_broker:
            self._members.unlock(body)
        return Reply()


def _in_portions(entries: list[QueueEntry]) -> Iterator[list[QueueEntry]]:
    return (entries[start : start + _PORTION] for start in range(0, len(entries), _PORTION))


def _read(request: Request) -> LockBody:
    body = LockBody.decode(request.body)
    longest = max((len(entry.topic) for entry in body.queues), default=0)
    if len(body.queues) > _QUEUES_MAX or max(longest, len(body.consumer_group), len(body.client_id)) > _NAME_MAX:
        raise UsageError(
            f"a lock request with {len(body.queues)} queues or a name that is too long",
            hint=f"send at most {_QUEUES_MAX} queues, names of {_NAME_MAX} characters",
        )
    return body
