"""Requests of one group about one queue: offsets, locks, with the address looked up.

Owns        looking up the address of the broker for each request.
Must not know   how offsets and locks are used.
"""

from __future__ import annotations

from collections.abc import Collection

from rocketlake.base.errors import LinkError, RocketLakeError
from rocketlake.base.logs import get_logger
from rocketlake.client.calls import group as group_calls
from rocketlake.client.calls import offset as calls
from rocketlake.client.instance import ClientInstance
from rocketlake.model.message_queue import MessageQueue

log = get_logger(__name__)
LOCK_TIMEOUT_MS = 1000
OFFSET_TIMEOUT_MS = 5000


class QueueAccess:
    """Offsets and locks of one group's queues."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def committed(self, queue: MessageQueue) -> int:
        """The group's committed offset; -1 when there is none.

        While the master is away a replica is asked. It may not have heard of the group's first offset yet, so that it
        has none is no answer: a group that starts at the end would miss messages.
        """
        address, is_master = await self._instance.to_read_from(queue)
        offset = await calls.committed_offset(
            self._instance.net, address, self._group, queue, OFFSET_TIMEOUT_MS, zero_if_young=is_master
        )
        if offset < 0 and not is_master:
            raise LinkError(
                f"replica {address} knows no offset of group {self._group} in {queue}, and the master is away",
                hint="wait for the master; a group that never committed cannot start without it",
            )
        return offset

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Save the group's offset at the queue's broker: at its master, while that is away at a replica.

        A replica takes its master's offsets over when that is back; members that still run save theirs there again.
        """
        address, _is_master = await self._instance.to_read_from(queue)
        await calls.commit_offset(self._instance.net, address, self._group, queue, offset, OFFSET_TIMEOUT_MS)

    async def end_of(self, queue: MessageQueue) -> int:
        """The offset the next message will get."""
        return await calls.max_offset(self._instance.net, await self._master(queue), queue)

    async def begin_of(self, queue: MessageQueue) -> int:
        """The offset of the oldest message kept."""
        return await calls.min_offset(self._instance.net, await self._master(queue), queue)

    async def by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at or after this time (epoch ms)."""
        return await calls.offset_by_time(self._instance.net, await self._master(queue), queue, timestamp_ms)

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Ask for the locks of these queues or renew them; returns the locks got. A broker that fails grants none."""
        locked: set[MessageQueue] = set()
        for broker_name, own in _by_broker(queues).items():
            try:
                address = await self._instance.master(broker_name, own[0].topic)
                locked |= await group_calls.lock(
                    self._instance.net, address, self._instance.client_id, self._group, own, LOCK_TIMEOUT_MS
                )
            except RocketLakeError as error:
                log.warning("locks of %d queue(s) of broker %s were not granted: %s", len(own), broker_name, error)
        return locked

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Give locks up; a broker that is not reached drops them after 60 s."""
        for broker_name, own in _by_broker(queues).items():
            try:
                address = await self._instance.master(broker_name, own[0].topic)
                await group_calls.unlock(
                    self._instance.net, address, self._instance.client_id, self._group, own, LOCK_TIMEOUT_MS
                )
            except RocketLakeError as error:
                log.warning("locks of broker %s were not given up, they expire in 60 s: %s", broker_name, error)

    async def _master(self, queue: MessageQueue) -> str:
        return await self._instance.master(queue.broker_name, queue.topic)


def _by_broker(queues: Collection[MessageQueue]) -> dict[str, list[MessageQueue]]:
    groups: dict[str, list[MessageQueue]] = {}
    for queue in sorted(queues):
        groups.setdefault(queue.broker_name, []).append(queue)
    return groups
