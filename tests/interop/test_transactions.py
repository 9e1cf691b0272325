"""Transactions between both worlds: Java's producer on our broker, a store with open half messages under both brokers.

The driver commits numbers divisible by three, rolls back the next ones, and leaves the third to the second check: then
even ones are committed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.apache import ApacheCluster, apache_cluster, free_ports, run_driver, wait_for_port
from rocketlake import Consumer, Message, StoredMessage, TransactionEnd, TransactionProducer
from tests.crash.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

SOON: dict[str, object] = {
    "transactionCheckInterval": 500,
    # Longer than a JVM on a busy machine needs from a half message to its end. And Apache asks about messages whose
    # ends came while its walk slept: all ends are written before it looks.
    "transactionTimeOut": 3000,
    "transactionOpBatchInterval": 200,
    "transactionCheckMax": 1000,  # nobody is there to be asked while brokers change
    "flushCommitLogThoroughInterval": 200,
}
COUNT = 60


def committed(count: int) -> list[int]:
    return [n for n in range(count) if n % 3 == 0 or (n % 3 == 2 and n % 2 == 0)]


def transact(namesrv: str, topic: str, count: int, seconds: int, *awaited: int, peer: str = "server") -> dict[str, int]:
    return run_driver("Transact", namesrv, topic, f"group_{topic}", count, seconds, *awaited, peer=peer)


def expect(namesrv: str, topic: str, numbers: list[int], *, duplicates: int = 0, group: str = "reader") -> None:
    got = run_driver("Consume", namesrv, topic, f"{group}_{topic}", "*", "concurrent", len(numbers), 60, 0)
    assert (got["distinct"], got["sum"], got["duplicates"]) == (len(numbers), sum(numbers), duplicates)


@dataclass
class Cluster:
    namesrv: str
    broker: BrokerProcess


@pytest.fixture(scope="module")
def ours(apache_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Our name server and our broker, which asks producers soon."""
    root = tmp_path_factory.mktemp("ours")
    (port,) = free_ports(1)
    process = subprocess.Popen([sys.executable, "-m", "rocketlake", "run", "namesrv", "--port", str(port)])
    broker = BrokerProcess(root, **SOON, namesrvAddr=f"127.0.0.1:{port}")
    try:
        wait_for_port(port, process)
        with broker.running():
            yield Cluster(f"127.0.0.1:{port}", broker)
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("peer", ["server", "client49"])
def test_javas_transaction_producer_commits_rolls_back_and_is_asked(ours: Cluster, peer: str) -> None:
    topic = f"Transacted_{peer}"
    done = transact(ours.namesrv, topic, COUNT, 60, peer=peer)
    assert done == {"sent": COUNT, "failed": 0, "settled": COUNT // 3, "wrong": 0}
    expect(ours.namesrv, topic, committed(COUNT))


def test_half_messages_left_open_by_one_broker_are_ended_under_the_other(apache_jars: None, tmp_path: Path) -> None:
    sizes: dict[str, object] = {
        "mappedFileSizeCommitLog": 1 << 20,
        "mappedFileSizeConsumeQueue": 20_000,
        "maxHashSlotNum": 1000,
        "maxIndexNum": 4000,
        "brokerName": "moved",
        "brokerIP1": "127.0.0.1",
    }
    with apache_cluster(tmp_path, settings={**sizes, **SOON}) as cluster:
        leave_open(cluster, "FromApache")
        cluster.stop_broker()
        here = {"namesrvAddr": cluster.namesrv, "storePathRootDir": cluster.store}
        broker = BrokerProcess(tmp_path / "ours", **sizes, **SOON, **here)
        with broker.running():
            settle(cluster, "FromApache")
            leave_open(cluster, "FromOurs")
        cluster.start_broker()
        settle(cluster, "FromOurs")
        expect(cluster.namesrv, "FromApache", committed(COUNT), duplicates=1, group="late")
        cluster.kill()


async def test_our_transaction_producer_on_apache(apache_jars: None, tmp_path: Path) -> None:
    asked: Counter[int] = Counter()

    def local(message: Message) -> TransactionEnd:
        return (TransactionEnd.COMMIT, TransactionEnd.ROLLBACK, TransactionEnd.UNKNOWN)[int(message.body) % 3]

    async def check(message: StoredMessage) -> TransactionEnd:
        number = int(message.body)
        asked[number] += 1
        assert (number % 3, message.topic) == (2, "OursTransacted")
        if asked[number] == 1:
            raise ValueError("not known yet")
        return TransactionEnd.COMMIT if number % 2 == 0 else TransactionEnd.ROLLBACK

    with apache_cluster(tmp_path, settings=SOON) as cluster:
        async with TransactionProducer("ours", check=check, namesrv=cluster.namesrv) as producer:
            for number in range(COUNT):
                result = await producer.send_in_transaction(Message("OursTransacted", str(number).encode()), local)
                assert result.error is None
            async with Consumer("reader", "OursTransacted", namesrv=cluster.namesrv, from_where="first") as consumer:
                wanted = committed(COUNT)
                async with asyncio.timeout(60):
                    found = [int((await consumer.receive()).body) for _ in wanted]
        assert sorted(found) == wanted
        expect(cluster.namesrv, "OursTransacted", wanted)
        cluster.kill()


def leave_open(cluster: ApacheCluster, topic: str) -> None:
    done = transact(cluster.namesrv, topic, COUNT, 0, 0)
    assert done == {"sent": COUNT, "failed": 0, "settled": 0, "wrong": 0}


def settle(cluster: ApacheCluster, topic: str) -> None:
    """The producer is back: it sends number 0 once more, which makes it known to the broker, and is asked."""
    done = transact(cluster.namesrv, topic, 1, 60, COUNT // 3)
    assert done == {"sent": 1, "failed": 0, "settled": COUNT // 3, "wrong": 0}
    expect(cluster.namesrv, topic, committed(COUNT), duplicates=1)
