"""The Brokers seam over the network.

Owns        translating questions to calls and answers to outcomes, choosing the master.
Must not know   ranges, offsets JSON, Spark's classes, how clients are kept (cluster.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from rocketlake.base.clock import SystemClock
from rocketlake.base.errors import ProtocolError, RemoteError, UsageError
from rocketlake.base.logs import get_logger
from rocketlake.client.wire import (
    ClientInstance,
    NoRoute,
    OwnLink,
    PreparedPulls,
    PullAnswer,
    PullStatus,
    Way,
    offset_calls,
    query_messages,
)
from rocketlake.model.message_queue import MessageQueue
from rocketlake.model.names import SPARK_GROUP
from rocketlake.model.subscription import SQL92, Subscription, parse_subscription
from rocketlake.protocol.response_code import ResponseCode
from rocketlake.spark.cluster import cluster_client
from rocketlake.spark.source.brokers import Bounds, Found, Pulled, PullOutcome, TopicNames
from rocketlake.spark.source.options import SourceOptions
from rocketlake.spark.source.queue_link import QueueLink

__all__ = ["ClusterBrokers", "connect"]

log = get_logger(__name__)
T = TypeVar("T")
_PULL_BYTES = 4 << 20
_SILENCE_SECONDS = 1.0
"""A link of one thread is left when it is silent for so long: the common link looks for another master soon."""
_HITS_MAX = 64
_UNIQUE_HITS_MAX = 32
"""Brokers never give more (maxMsgsNumBatch, defaultQueryMaxNum)."""

_OUTCOMES = {
    PullStatus.FOUND: PullOutcome.FOUND,
    PullStatus.NO_NEW_MESSAGE: PullOutcome.NOTHING_YET,
    PullStatus.NO_MATCHED_MESSAGE: PullOutcome.NOTHING_MATCHED,
    PullStatus.OFFSET_ILLEGAL: PullOutcome.OUT_OF_RANGE,
}


def connect(options: SourceOptions) -> ClusterBrokers:
    """The cluster of these options, over the links this process already has."""
    return ClusterBrokers(options, *cluster_client(options.namesrv, options.tls_file, options.credentials_file))


class ClusterBrokers:
    """Brokers (see brokers.py) over a ClientInstance that lives on a loop of another thread."""

    def __init__(self, options: SourceOptions, client: ClientInstance, loop: asyncio.AbstractEventLoop) -> None:
        self._options = options
        self._client = client
        self._loop = loop
        self._clock = SystemClock()
        self._pulls: dict[tuple[str, bool], PreparedPulls] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the loop's thread and wait."""
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run on the loop's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def topics(self) -> TopicNames:
        """Topics, and the names of clusters and brokers, as the name server knows them."""
        names, cluster = await asyncio.gather(self._client.name_servers.topics(), self._client.name_servers.cluster())
        return TopicNames(names, {*cluster.clusters, *cluster.brokers})

    async def queues(self, topic: str) -> Collection[MessageQueue]:
        """Readable queues by the route of now."""
        if not await self._client.refresh_route(topic):
            raise NoRoute(topic, self._client.name_servers.addresses, purpose="read")
        return self._client.routes.to_read(topic) or ()

    async def ends(self, topic: str, broker_name: str) -> Mapping[MessageQueue, Bounds]:
        """From the master, for a replica may be behind; empty for a topic that the broker no longer has."""
        timeout = self._options.pull_timeout_ms
        try:
            found = await self._at_master(
                broker_name, topic, lambda address: offset_calls.topic_ends(self._client.net, address, topic, timeout)
            )
        except RemoteError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return {}
            raise
        return {queue: Bounds(max(0, low), high) for queue, (low, high) in found.items()}

    async def offset_at(self, queue: MessageQueue, time_ms: int) -> int:
        """The master's answer."""
        timeout = self._options.pull_timeout_ms
        return await self._ask_master(
            queue,
            lambda address: offset_calls.offset_by_time(self._client.net, address, queue, time_ms, timeout_ms=timeout),
        )

    async def pull(self, queue: MessageQueue, offset: int, count: int, *, filtered: bool = True) -> Pulled:
        """One pull, its records left as bytes."""
        pulls = self._prepared(queue.topic, filtered)
        timeout = self._options.pull_timeout_ms

        async def pull(address: str) -> PullAnswer:
            answer = await pulls.pull(address, queue, offset, count, timeout)
            if answer.status is PullStatus.OFFSET_ILLEGAL and answer.min_offset <= offset < answer.max_offset:
                # An operator reset the offsets of 'consumerGroup'. The broker says so once; this reader has its own
                # offsets.
                answer = await pulls.pull(address, queue, offset, count, timeout)
            return answer

        try:
            answer = await self._ask_master(queue, pull)
        except RemoteError as error:
            if filtered and self._options.sql92 and "does not support" in error.remark:
                raise UsageError(
                    f"broker {queue.broker_name} does not filter by SQL92: {error.remark}",
                    where=error.where,
                    hint="set enablePropertyFilter=true on each broker, or filter in Spark instead of 'filter.sql92'",
                ) from error
            raise
        return _pulled(answer)

    def pull_link(self, queue: MessageQueue) -> QueueLink | None:
        """A connection to the master; None in a simulation."""
        way = self.run(self._way(queue))
        if way is None:
            return None
        link = OwnLink(way, min(_SILENCE_SECONDS, self._options.pull_timeout_ms / 1000))
        pulls, routes = self._prepared(queue.topic, True), self._client.routes
        return QueueLink(link, pulls, queue, _pulled, lambda: routes.master(queue.broker_name))

    async def _way(self, queue: MessageQueue) -> Way | None:
        return self._client.net.way(await self._client.master(queue.broker_name, queue.topic))

    def _prepared(self, topic: str, filtered: bool) -> PreparedPulls:
        return self._pulls.get((topic, filtered)) or self._prepare(topic, filtered)

    def _prepare(self, topic: str, filtered: bool) -> PreparedPulls:
        subscription = self._subscription(topic) if filtered else parse_subscription(topic, None)
        group = self._options.consumer_group or SPARK_GROUP
        self._pulls[topic, filtered] = PreparedPulls(self._client.net, group, subscription, _PULL_BYTES)
        return self._pulls[topic, filtered]

    def _subscription(self, topic: str) -> Subscription:
        if self._options.sql92:
            return parse_subscription(topic, self._options.sql92, SQL92)
        return parse_subscription(topic, self._options.tags)

    async def find(self, topic: str, broker_name: str, key: str, *, unique: bool) -> Found | None:
        """The answer of the master's key index, which works by a hash."""
        timeout = self._options.pull_timeout_ms
        try:
            found = await self._at_master(
                broker_name,
                topic,
                lambda address: query_messages(
                    self._client.net, address, topic, key, max_messages=_HITS_MAX, unique=unique, timeout_ms=timeout
                ),
            )
        except ProtocolError as error:
            log.warning("the key index of broker %s is not used for key %s: %s", broker_name, key, error)
            return None
        if len(found) >= (_UNIQUE_HITS_MAX if unique else _HITS_MAX):
            return None
        offsets: dict[MessageQueue, set[int]] = {}
        for message in found:
            queue = MessageQueue(message.topic, broker_name, message.queue_id)
            offsets.setdefault(queue, set()).add(message.queue_offset)
        return offsets

    async def kept_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The group's offset; None if the broker has none."""
        timeout = self._options.pull_timeout_ms
        found = await self._ask_master(
            queue,
            lambda address: offset_calls.committed_offset(self._client.net, address, group, queue, timeout),
        )
        return None if found < 0 else found

    async def keep_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit the group's offset."""
        await self._ask_master(queue, lambda address: self._keep(address, group, queue, offset))

    async def _keep(self, address: str, group: str, queue: MessageQueue, offset: int) -> None:
        net, timeout = self._client.net, self._options.pull_timeout_ms
        try:
            await offset_calls.commit_offset(net, address, group, queue, offset, timeout)
        except RemoteError as error:
            if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            # Brokers make a group when it first pulls (if autoCreateSubscriptionGroup), not when it commits.
            pulls = PreparedPulls(net, group, parse_subscription(queue.topic, None), max_bytes=1)
            await pulls.pull(address, queue, offset, 1, timeout)
            await offset_calls.commit_offset(net, address, group, queue, offset, timeout)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._clock.sleep(seconds)

    def monotonic(self) -> float:
        """Seconds."""
        return self._clock.monotonic()

    async def _ask_master(self, queue: MessageQueue, ask: Callable[[str], Awaitable[T]]) -> T:
        return await self._at_master(queue.broker_name, queue.topic, ask)

    async def _at_master(self, broker_name: str, topic: str, ask: Callable[[str], Awaitable[T]]) -> T:
        """Ask the master; after a broken link a new one is looked for, for the caller's next try."""
        return await self._client.at_master(broker_name, topic, ask)


def _pulled(answer: PullAnswer) -> Pulled:
    bounds = Bounds(max(0, answer.min_offset), answer.max_offset)
    return Pulled(_OUTCOMES[answer.status], answer.body, answer.next_offset, bounds)
