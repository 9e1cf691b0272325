"""All families of a broker, in the order in which they are told.

Owns        which there are, the figures that are one number of one part.
Must not know   HTTP, the text format.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterator

from rocketlake.broker.metrics.connected import client_families
from rocketlake.broker.metrics.lag import GroupLag
from rocketlake.broker.metrics.pops import pop_families
from rocketlake.broker.metrics.storage import storage_families
from rocketlake.broker.metrics.traffic import traffic_families
from rocketlake.broker.metrics.waiting import WaitingMessages
from rocketlake.broker.wings.clients import Clients
from rocketlake.broker.wings.delay import Delay
from rocketlake.broker.wings.ground import Ground
from rocketlake.broker.wings.popping import Popping
from rocketlake.broker.wings.reading import Reading
from rocketlake.broker.wings.replicas import Replicas
from rocketlake.broker.wings.transactions import Transactions
from rocketlake.net.dispatcher import Dispatcher
from rocketlake.net.http.exposition import Family, Pace, labels_text, number

__all__ = ["BrokerFamilies"]

_PROCESSORS = (
    "send", "async_put", "pull", "lite_pull", "ack", "query_message", "client_manager", "heartbeat", "transaction",
    "consumer_manager", "admin", "reply",
)  # fmt: skip


class BrokerFamilies:
    """Of one broker."""

    def __init__(
        self,
        ground: Ground,
        *,
        clients: Clients,
        reading: Reading,
        delay: Delay,
        replicas: Replicas,
        transactions: Transactions,
        popping: Popping,
        dispatcher: Dispatcher,
    ) -> None:
        self._ground = ground
        self._clients = clients
        self._reading = reading
        self._replicas = replicas
        self._dispatcher = dispatcher
        self._waiting = WaitingMessages(ground.store, delay.schedule, delay.timer, transactions.ledger, ground.clock)
        self._popping = popping
        self._lag = GroupLag(ground.offsets, ground.topics, ground.groups, popping.progress, ground.store, ground.clock)

    async def collect(self, pace: Pace) -> AsyncGenerator[Family, None]:
        """Everything, while the broker serves."""
        ground = self._ground
        for family in self._tables():
            yield family
        for family in traffic_families(ground.stats, ground.topics, self._dispatcher):
            yield family
        for family in client_families(self._clients.consumers, self._clients.producers):
            yield family
        async with contextlib.aclosing(storage_families(ground.store, ground.clock)) as families:
            async for family in families:
                yield family
        yield number("rocketlake_held_pulls", "Pulls that wait for messages", len(self._reading.hold))
        async with contextlib.aclosing(self._waiting.families()) as families:
            async for family in families:
                yield family
        for family in pop_families(self._popping.hold, self._popping.revive):
            yield family
        for family in self._copies():
            yield family
        async with contextlib.aclosing(self._lag.families(pace)) as families:
            async for family in families:
                yield family

    def _tables(self) -> Iterator[Family]:
        ground = self._ground
        waiting = {"send": ground.intake.waiting}
        marks = [(labels_text({"processor": name}), waiting.get(name, 0)) for name in _PROCESSORS]
        yield Family("rocketmq_processor_watermark", "gauge", "Requests that wait to be served", marks)
        yield number("rocketmq_broker_permission", "6 read and write, 4 read, 2 write", ground.config.now.permission)
        yield number("rocketmq_topic_number", "Topics", len(ground.topics))
        yield number("rocketmq_consumer_group_number", "Consumer groups", len(ground.groups.all()))
        roles = [(labels_text({"role": role}), ground.role.now == role.upper()) for role in ("master", "slave")]
        yield Family("rocketlake_role", "gauge", "1 for the role of this broker", roles)

    def _copies(self) -> Iterator[Family]:
        slaves = self._replicas.leader.slaves()
        behind = [(labels_text({"replica": slave.name or slave.address}), slave.behind) for slave in slaves]
        yield Family("rocketlake_replica_lag", "gauge", "Bytes of the log that a replica lacks", behind, "bytes")
        yield number("rocketlake_replicas_connected", "Replicas that copy from this broker", len(slaves))
        acks = self._replicas.leader.ack_seconds
        text = "Time from the sending of a place of the log until a replica reported it"
        yield Family("rocketlake_replica_ack", "histogram", text, [("", acks)], "seconds")
