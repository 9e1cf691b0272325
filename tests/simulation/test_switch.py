"""Clients over a change of the master: two real brokers and a name server on one virtual time, from one seed.

Sends to keys and queues, transactions, an ordered and a concurrent group go on while the master is killed, vanishes or
hands over, and its slave becomes the master.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from pathlib import Path

import pytest

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.clock import ManualClock
from rocketlake.base.disk.memory import MemoryFiles
from rocketlake.base.errors import RocketLakeError
from rocketlake.broker.config import BrokerRole
from rocketlake.client.calls.send import SendStatus
from rocketlake.client.config import ClientConfig, ConsumerConfig, FirstOffset, ProducerConfig
from rocketlake.client.consumer.push import PushConsumer
from rocketlake.client.instance import ClientInstance
from rocketlake.client.producer.transaction import TransactionEnd, TransactionProducer
from rocketlake.codec.record import decode_records
from rocketlake.model.message import Message, StoredMessage
from rocketlake.model.topic import TopicConfig
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from rocketlake.testing.virtual_time import run_virtual
from tests.replica_pair import MASTER, NAMESRV, SLAVE, ReplicaPair

SECONDS = 4.0
KEYS = 3
QUEUES = 4
CHECKS = {"transaction_timeout_ms": 1000, "transaction_check_interval_ms": 1000}


class Run:
    """One run from one seed."""

    def __init__(self, seed: int, kind: str, *, auto_batch: bool = False) -> None:
        self.random = random.Random(seed)
        self.kind = kind
        self.auto_batch = auto_batch
        self.pair = ReplicaPair()
        self.clock: ManualClock = self.pair.clock
        config = NameServerConfig(listen_host=NAMESRV, kv_config_path=Path("/n/kv.json"), admin_access=AdminAccess.ANY)
        self.pair.namesrv = NameServer(
            config, clock=self.clock, files=MemoryFiles(), network=self.pair.net.host(NAMESRV)
        )  # takes a new master while the link of the old one is open
        self.pair.master = self.pair.new_broker(MASTER, 0, broker_role=BrokerRole.SYNC_MASTER, **CHECKS)
        self.pair.slave = self.pair.new_broker(SLAVE, 1, **CHECKS)
        self.acked: dict[str, list[int]] = defaultdict(list)
        self.committed: list[bytes] = []
        self.rolled_back: list[bytes] = []
        self.seen: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.ack_times: list[float] = []
        self.failures: list[str] = []
        self.is_over = False
        self._hosts = 0

    def client(self) -> ClientInstance:
        self._hosts += 1
        host = f"10.0.9.{self._hosts}"
        config = ClientConfig(namesrv=f"{NAMESRV}:9876", client_ip=host, heartbeat_interval_ms=2000)
        return ClientInstance(config, clock=self.clock, network=self.pair.net.host(host))

    async def live(self) -> None:
        pair = self.pair
        await pair.start()
        pair.master.topics.put(TopicConfig("T", read_queues=QUEUES, write_queues=QUEUES))
        pair.master.topics.put(TopicConfig("X", read_queues=1, write_queues=1))
        await pair.master.cluster.registration.register()
        await self.clock.sleep(2)
        consumers = [await self.consumer(group) for group in ("ordered", "ordered", "plain")]
        await self.clock.sleep(3)
        instance = self.client()
        await instance.start()
        config = ProducerConfig(send_timeout_ms=5000, auto_batch=self.auto_batch)
        producer = TransactionProducer("p", check=self.ended, instance=instance, config=config)
        await producer.start()
        working = [asyncio.ensure_future(self.send_to_key(producer, f"k{number}")) for number in range(KEYS)]
        working.append(asyncio.ensure_future(self.send_transactions(producer)))
        await self.clock.sleep(self.random.uniform(1, 3))
        await self.switch()
        await self.clock.sleep(SECONDS)
        self.is_over = True
        await asyncio.gather(*working)
        await self.clock.sleep(25)
        for consumer in consumers:
            await consumer.stop()
            await consumer.instance.stop()
        await producer.stop()
        await instance.stop()
        self.stored = self.read()
        await pair.stop()

    async def consumer(self, group: str) -> PushConsumer:
        instance = self.client()
        await instance.start()

        async def listen(messages: list[StoredMessage]) -> None:
            for message in messages:
                key, _, number = message.body.decode().partition(" ")
                self.seen[group].append((key, int(number)))

        consumer = PushConsumer(
            group,
            listener=listen,
            orderly=group == "ordered",
            from_where=FirstOffset.FIRST,
            instance=instance,
            config=ConsumerConfig(rebalance_interval_ms=2000, lock_interval_ms=5000),
        )
        consumer.subscribe("T" if group == "ordered" else "X")
        await consumer.start()
        return consumer

    async def switch(self) -> None:
        """The end of the master, or of its role; a moment later its slave is the master."""
        pair = self.pair
        if self.kind == "kill":
            pair.hosts[MASTER].crash()
        elif self.kind == "vanish":
            for host in (NAMESRV, SLAVE, *[f"10.0.9.{number + 1}" for number in range(self._hosts)]):
                pair.net.partition(MASTER, host)
        else:
            await pair.master.become_slave(2)
        await self.clock.sleep(self.random.uniform(0.05, 1.5))
        await pair.slave.become_master()

    async def send_to_key(self, producer: TransactionProducer, key: str) -> None:
        """Some sends of the key at once, always; a refused one is not sent again."""
        number, flying = 0, set[asyncio.Task[None]]()
        while not self.is_over:
            flying.add(asyncio.ensure_future(self.send(producer, key, number)))
            number += 1
            if len(flying) >= 4:
                _, flying = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
            await self.clock.sleep(self.random.uniform(0, 0.15))
        await asyncio.gather(*flying)

    async def send(self, producer: TransactionProducer, key: str, number: int) -> None:
        try:
            result = await producer.send(Message("T", f"{key} {number}".encode()), key=key)
        except RocketLakeError as error:
            self.failures.append(f"{key} {number}: {error}")
        else:
            if result.status is SendStatus.OK:
                self.acked[key].append(number)
                self.ack_times.append(self.clock.monotonic())

    async def send_transactions(self, producer: TransactionProducer) -> None:
        number = 0
        while not self.is_over:
            body = f"x {number}".encode()
            is_commit, number = number % 3 > 0, number + 1

            async def local(_message: Message, is_commit: bool = is_commit) -> TransactionEnd:
                await self.clock.sleep(self.random.uniform(0, 0.3))
                return TransactionEnd.COMMIT if is_commit else TransactionEnd.ROLLBACK

            try:
                result = await producer.send_in_transaction(Message("X", body), local)
            except RocketLakeError as error:
                self.failures.append(f"{body!r}: {error}")
            else:
                if result.sent.status is SendStatus.OK:
                    (self.committed if is_commit else self.rolled_back).append(body)

    async def ended(self, message: StoredMessage) -> TransactionEnd:
        is_commit = int(message.body.split()[1]) % 3 > 0
        return TransactionEnd.COMMIT if is_commit else TransactionEnd.ROLLBACK

    def read(self) -> dict[int, list[str]]:
        """The bodies in each queue of the new master."""
        found: dict[int, list[str]] = {}
        store = self.pair.slave.store
        for queue_id in range(QUEUES):
            found[queue_id], offset = [], 0
            while offset < store.max_offset("T", queue_id):
                slices = store.get("T", queue_id, offset, 1000, 1 << 24).slices
                messages = decode_records(b"".join(slices))
                found[queue_id] += [bytes(message.body).decode() for message in messages]
                offset = messages[-1].queue_offset + 1
        return found

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        for queue in self.stored.values():
            first_seen: dict[str, list[int]] = defaultdict(list)
            for body in dict.fromkeys(queue):
                key, _, number = body.partition(" ")
                first_seen[key].append(int(number))
            for key, numbers in first_seen.items():
                assert numbers == sorted(numbers), f"{key} is out of order: {numbers}"
        stored = {body for queue in self.stored.values() for body in queue}
        lost = [f"{key} {number}" for key, numbers in self.acked.items() for number in numbers]
        assert [body for body in lost if body not in stored] == []
        handed = dict.fromkeys(self.seen["ordered"])
        assert {f"{key} {number}" for key, number in handed} == stored
        for key in self.acked:
            numbers = [number for each, number in handed if each == key]
            assert numbers == sorted(numbers), f"{key} was handed out of order"
        transacted = {f"{key} {number}".encode() for key, number in self.seen["plain"]}
        assert [body for body in self.committed if body not in transacted] == []
        assert [body for body in self.rolled_back if body in transacted] == []

    @property
    def gap(self) -> float:
        return max(after - before for before, after in zip(self.ack_times, self.ack_times[1:], strict=False))


@pytest.mark.parametrize(
    "auto_batch", [pytest.param(False, id="alone"), pytest.param(True, id="batches", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("kind", ["kill", "vanish", "hand over"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_and_keys_keep_their_order(seed: int, kind: str, auto_batch: bool) -> None:
    before = random.getstate()
    random.seed(seed)
    try:
        run = Run(seed, kind, auto_batch=auto_batch)
        run_virtual(run.live(), run.clock)
    finally:
        random.setstate(before)
    run.check()
    assert run.failures == []
    assert run.gap < 2.2
