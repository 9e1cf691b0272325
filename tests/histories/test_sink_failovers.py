"""A batch with exactly_once in a group whose master dies at any step: each row is there once at the next master.

Each seed is one history: two batches, and one death of the master while half messages are written, decided or ended.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from rocketlake.base.errors import RocketLakeError
from rocketlake.client.config import ClientConfig
from rocketlake.client.instance import ClientInstance
from rocketlake.model.topic import HALF_TOPIC, TopicConfig
from rocketlake.spark.sink.cluster_sends import ClusterSends
from rocketlake.spark.sink.exactly_once.process import attempt_of_tasks, batch_end, open_journal
from rocketlake.spark.sink.identity import TaskIdentity
from rocketlake.spark.sink.options import parse_options
from tests.histories.sink_history import QUEUES, read, write_partition
from tests.replica_group import NAMESRV, ReplicaGroup
from tests.seeds import seeds

_QUERY, _ROWS, _BATCHES = "q", 30, 2
_OPTIONS = {
    "namesrvAddr": f"{NAMESRV}:9876",
    "topic": "T",
    "checkpointLocation": "/c",
    "deliveryGuarantee": "exactly_once",
    "batchTimeoutMs": "5000",
    "sendTimeoutMs": "1000",
    "retryIntervalMs": "50",
}


class Failover:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"sink failover {seed}")
        checks = {"transaction_checks_max": 1_000_000, "transaction_check_interval_ms": 1000}
        self.group = ReplicaGroup(3, transaction_timeout_ms=500, **checks)
        self.options = parse_options(_OPTIONS, streaming=True)
        self.client = ClientInstance(
            ClientConfig(namesrv=f"{NAMESRV}:9876", client_ip="10.0.0.88", instance_name="query"),
            clock=self.group.clock,
            network=self.group.net.host("10.0.0.88"),
        )
        self.tries = 0

    async def run(self) -> None:
        group = self.group
        await group.start()
        broker = group.brokers[group.master]
        for topic in ("T", "T__decisions"):
            broker.topics.put(TopicConfig(topic, read_queues=QUEUES, write_queues=QUEUES))
        await group.run_through(asyncio.ensure_future(broker.cluster.registration.register()))
        await group.until(lambda: all("T__decisions" in each.topics for each in group.brokers.values()), 30_000)
        group.net.delay_ms = (0.1, 1.0)
        query = asyncio.ensure_future(self.query())
        await group.clock.run_for(self.random.uniform(1, 120))
        old = group.master
        group.crash(old)
        await group.until(lambda: old not in group.masters and bool(group.masters), 30_000)
        await group.run_through(query)
        await group.until(lambda: self.open_halves() == 0, 60_000)
        broker = group.brokers[group.master]
        found = Counter(message.body for queue in range(QUEUES) for message in read(broker, "T", queue))
        assert found == Counter(row for batch in range(_BATCHES) for row in self.rows(batch))
        await group.run_through(asyncio.ensure_future(self.client.stop()))
        await group.stop()

    def rows(self, batch: int) -> list[bytes]:
        return [b"%d-%d" % (batch, row) for row in range(_ROWS)]

    async def query(self) -> None:
        await self.client.start()
        cluster = ClusterSends(self.client, asyncio.get_running_loop())
        for batch in range(_BATCHES):
            while not await self.is_through(cluster, batch):
                assert self.tries < 20

    async def is_through(self, cluster: ClusterSends, batch: int) -> bool:
        self.tries += 1
        rows = self.rows(batch)
        self.random.shuffle(rows)
        cut = self.random.randrange(_ROWS)
        try:
            done = [
                await write_partition(cluster, self.options, TaskIdentity(_QUERY, batch, number), part, self.random)
                for number, part in enumerate((rows[:cut], rows[cut:]))
            ]
            journal = await open_journal(cluster, self.options, _QUERY)
            await batch_end(journal, self.options).commit(attempt_of_tasks(done))
        except RocketLakeError:
            return False
        return True

    def open_halves(self) -> int:
        broker = self.group.brokers[self.group.master]
        end = broker.store.max_offset(HALF_TOPIC, 0)
        return end - max(0, broker.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0))


@pytest.mark.parametrize("seed", seeds("sink failovers", short=2, whole=30))
async def test_each_row_is_there_once_over_a_change_of_the_master(seed: int) -> None:
    history = Failover(seed)
    await history.run()
    assert history.tries >= _BATCHES
