"""POP mode of a push consumer: the broker says which queues a member reads, and whether it pulls or pops them.

Owns        the parts of this mode, the questions for a share, the retry topics that a change back to pulls leaves.
Must not know   pulls, when the questions are asked (rebalance.py).

Messages that were popped come again in a retry topic of their own. A pop of their topic reads that as well. Once the
group pulls, it must pull that topic, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rocketlake.base.errors import UsageError
from rocketlake.base.service import Service
from rocketlake.client.calls.assignment import Share, query_assignment
from rocketlake.client.config import ConsumerConfig, FirstOffset
from rocketlake.client.consumer.allocate import Allocate, averagely, by_circle
from rocketlake.client.consumer.concurrent import ConcurrentRunner
from rocketlake.client.consumer.damage import Damage
from rocketlake.client.consumer.listener import ListenerCall
from rocketlake.client.consumer.pops.access import PopAccess
from rocketlake.client.consumer.pops.acks import Acks
from rocketlake.client.consumer.pops.popped_queues import PoppedQueues
from rocketlake.client.consumer.pops.renewals import Renewals
from rocketlake.client.consumer.pops.runner import PopRunner
from rocketlake.client.hooks import Hooks
from rocketlake.client.instance import ClientInstance
from rocketlake.model import names
from rocketlake.model.message import StoredMessage
from rocketlake.model.pop import RETRY_MARKS, pop_retry_topic
from rocketlake.model.subscription import Subscription, parse_subscription

__all__ = ["PopMode", "strategy_name"]

_STRATEGIES: dict[Allocate, str] = {averagely: "AVG", by_circle: "AVG_BY_CIRCLE"}


def strategy_name(allocate: Allocate) -> str:
    """The name by which a broker knows the strategy. UsageError for one that it does not know."""
    name = _STRATEGIES.get(allocate)
    if name is None:
        raise UsageError(
            "a broker shares queues out by AVG and AVG_BY_CIRCLE only",
            where="ConsumerConfig.client_rebalance=False",
            hint="use allocate=averagely or by_circle, or client_rebalance=True",
        )
    return name


class PopMode:
    """The part of a push consumer that has the broker share queues out."""

    def __init__(
        self,
        service: Service,
        instance: ClientInstance,
        runner: ConcurrentRunner,
        call: ListenerCall,
        *,
        group: str,
        config: ConsumerConfig,
        from_where: FirstOffset,
        allocate: Allocate,
        subscriptions: dict[str, Subscription],
        damage: Damage,
        to_dead_letters: Callable[[StoredMessage], Awaitable[None]],
        hooks: Hooks,
        is_suspended: Callable[[], bool],
    ) -> None:
        self._instance = instance
        self._group = group
        self._strategy = strategy_name(allocate)
        self._subscriptions = subscriptions
        self.topics: set[str] = set()
        """The topics whose queues are shared, retry topics among them."""
        pops = PopAccess(instance, group)
        self.acks = Acks(pops, instance.clock, service.spawn)
        self.renewals = Renewals(pops, config.consume_timeout_ms, instance.clock, service.spawn)
        pop_runner = PopRunner(
            call,
            runner.submit_job,
            pops=pops,
            acks=self.acks,
            renewals=self.renewals,
            to_dead_letters=to_dead_letters,
            group=group,
            config=config,
            hooks=hooks,
            clock=instance.clock,
        )
        self.queues = PoppedQueues(
            instance,
            pops,
            self.acks,
            group=group,
            config=config,
            from_where=from_where,
            subscription=subscriptions.get,
            damage=damage,
            is_suspended=is_suspended,
            submit=pop_runner.submit,
            pulled=call.rates.pulled,
            spawn=service.spawn,
        )

    async def share(self, topic: str) -> Share | None:
        """What a broker gives to this member; None: keep what you have. Raises RemoteError, LinkError."""
        await self._instance.queues_to_read(topic)
        address = self._instance.routes.broker_of_topic(topic)
        if address is None:
            return None
        share = await query_assignment(
            self._instance.net,
            address,
            self._instance.client_id,
            group=self._group,
            topic=topic,
            strategy=self._strategy,
            timeout_ms=self._instance.config.call_timeout_ms,
        )
        if share is None:
            # The broker has not seen our heartbeat yet, or has restarted.
            self._instance.heartbeat_soon()
        elif not topic.startswith(names.RETRY_PREFIX):
            await self._fit_retries(topic, is_popped=bool(share.popped))
        return share

    async def _fit_retries(self, topic: str, *, is_popped: bool) -> None:
        """Read the retry topics of pops by themselves if nobody pops. One that is not there has nothing to read."""
        for mark in RETRY_MARKS:
            retry = pop_retry_topic(topic, self._group, mark)
            if is_popped and retry in self.topics:
                self.topics.discard(retry)
                self._subscriptions.pop(retry, None)
                self._instance.heartbeat_soon()
            elif not is_popped and retry not in self.topics and await self._instance.refresh_route(retry):
                self._subscriptions[retry] = parse_subscription(retry, "*", version=self._instance.new_version())
                self.topics.add(retry)
                self._instance.heartbeat_soon()
