"""Queue locks of ordered consumers.

Owns        how many queues one request may name.
Must not know   how long a lock lives.

Source: docs/internals/clients.md.
"""

from __future__ import annotations

from rocketlake.base.errors import UsageError
from rocketlake.broker.queue_locks import QueueLocks
from rocketlake.net.request import Reply, Request
from rocketlake.protocol.bodies.lock import LockBody, LockReply
from rocketlake.protocol.bodies.queue_map import QueueEntry

__all__ = ["Lock"]

_QUEUES_MAX = 65_536
_NAME_MAX = 255


class Lock:
    """LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

    def __init__(self, queue_locks: QueueLocks) -> None:
        self._queue_locks = queue_locks

    def lock(self, request: Request) -> Reply:
        """Take or renew queues; the answer names those the client owns now."""
        body = _read(request)
        queues = [entry.to_model() for entry in body.queues]
        held = self._queue_locks.lock(body.consumer_group, body.client_id, queues)
        return Reply(
            body=LockReply(queues=[QueueEntry.from_model(queue) for queue in queues if queue in held]).encode()
        )

    def unlock(self, request: Request) -> Reply:
        """Give queues back."""
        body = _read(request)
        self._queue_locks.unlock(body.consumer_group, body.client_id, [entry.to_model() for entry in body.queues])
        return Reply()


def _read(request: Request) -> LockBody:
    body = LockBody.decode(request.body)
    longest = max((len(entry.topic) for entry in body.queues), default=0)
    if len(body.queues) > _QUEUES_MAX or max(longest, len(body.consumer_group), len(body.client_id)) > _NAME_MAX:
        raise UsageError(
            f"a lock request with {len(body.queues)} queues or a name that is too long",
            hint=f"send at most {_QUEUES_MAX} queues, names of {_NAME_MAX} characters",
        )
    return body
