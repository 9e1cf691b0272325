"""One pull of one queue, from the replica that the broker suggested last.

Owns        the choice of address and of the pull's flags, the second try after a damaged answer.
Must not know   positions, flow control.

Rule: a pull whose answer holds a damaged record is repeated once, in case the record was damaged on its way. A record
that is damaged in the second answer is damaged at the broker.
"""

from __future__ import annotations

from rocketlake.base.errors import LinkError
from rocketlake.client.calls import pull as calls
from rocketlake.client.calls.pull import PullAnswer
from rocketlake.client.config import ConsumerConfig
from rocketlake.client.instance import ClientInstance
from rocketlake.client.routes import MASTER
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.subscription import Subscription


class Puller:
    """Pulls for one group; `lite` pulls carry their subscription and need no registered consumer."""

    def __init__(self, instance: ClientInstance, group: str, config: ConsumerConfig, *, lite: bool = False) -> None:
        self._instance = instance
        self._group = group
        self._config = config
        self._lite = lite
        self._suggested: dict[str, int] = {}

    async def pull(
        self, queue: MessageQueue, subscription: Subscription, offset: int, *, commit: int = 0
    ) -> PullAnswer:
        """Messages from `offset` on, held by the broker up to `hold_ms` when there is none; `commit` > 0 commits."""
        answer = await self._pull(queue, subscription, offset, commit)
        return await self._pull(queue, subscription, offset, commit) if answer.damaged else answer

    async def _pull(self, queue: MessageQueue, subscription: Subscription, offset: int, commit: int) -> PullAnswer:
        broker_id = self._suggested.get(queue.broker_name, MASTER)
        address, is_master = await self._instance.to_read_from(queue, broker_id)
        masters = self._instance.masters
        try:
            answer = await calls.pull(
                self._instance.net,
                address,
                queue,
                group=self._group,
                offset=offset,
                subscription=subscription,
                max_messages=self._config.pull_batch_size,
                max_bytes=self._config.pull_bytes,
                hold_ms=self._config.hold_ms,
                # A replica does not take commits.
                commit=commit if is_master else 0,
                lite=self._lite,
                around_damage=True,
                timeout_ms=self._config.pull_timeout_ms,
            )
        except LinkError:
            masters.doubt(queue.broker_name, queue.topic, address)
            self._suggested.pop(queue.broker_name, None)
            raise
        self._suggested[queue.broker_name] = answer.suggested_broker_id
        return answer
