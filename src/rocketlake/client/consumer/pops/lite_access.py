"""The requests of one group about lite messages, and about what its client subscribes to.

Owns        what differs from the requests of popped messages (access.py).
Must not know   which lite topics there are, when brokers are told.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rocketlake.client.calls import group as group_calls
from rocketlake.client.calls import pop as calls
from rocketlake.client.calls.pop import PopAnswer
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.model.message import StoredMessage
from rocketlake.model.message_queue import MessageQueue
from rocketlake.protocol.bodies.lite import LiteAction, LiteOffset, LiteSubscription

__all__ = ["LiteAccess"]


class LiteAccess(PopAccess):
    """Subscribes, pops and acknowledges for one group."""

    async def pop_lite(self, queue: MessageQueue, *, max_messages: int, invisible_ms: int, poll_ms: int) -> PopAnswer:
        """Take messages of what the client subscribes to at a broker. Raises RemoteError, LinkError."""

        async def pop(address: str) -> PopAnswer:
            return await calls.pop_lite(
                self._instance.net,
                address,
                queue,
                group=self._group,
                client_id=self._instance.client_id,
                max_messages=max_messages,
                invisible_ms=invisible_ms,
                poll_ms=poll_ms,
            )

        return await self._popped(queue, pop)

    async def subscribe(
        self,
        broker_name: str,
        parent: str,
        action: LiteAction,
        lites: Collection[str] = (),
        begin: LiteOffset | None = None,
    ) -> None:
        """Tell a broker. Raises RemoteError, LinkError."""
        change = LiteSubscription(
            action=action,
            client_id=self._instance.client_id,
            group=self._group,
            topic=parent,
            lite_topic_set=sorted(lites),
            offset_option=begin,
        )

        async def tell(address: str) -> None:
            await group_calls.change_lites(self._instance.net, address, change)

        await self._instance.at_master(broker_name, parent, tell)

    async def ack_all(self, messages: Sequence[StoredMessage]) -> None:
        """One by one: a request for many names no lite topic."""
        for message in messages:
            if not self.is_over(message):
                await self.ack(message)

    def _lite_of(self, message: StoredMessage) -> str | None:
        return message.lite_topic
