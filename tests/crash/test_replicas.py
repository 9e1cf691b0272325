"""`kill -9` of a SYNC_MASTER, and of its slave, under load: the slave has each byte that was acknowledged."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from interop.apache import free_ports
from rocketlake.store.audit import audit_store
from rocketlake.store.reader import StoreReader
from tests.crash.broker_process import BrokerProcess, Ledger, Load

KILLS = 4


def log_of(broker: BrokerProcess) -> bytes:
    files = sorted(path for path in (broker.store / "commitlog").iterdir() if path.name.isdigit())
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


async def kill_soon(master: BrokerProcess, ledger: Ledger, seconds: float, name: str) -> None:
    """Start the load, kill the master so long after the slave has begun to acknowledge."""
    before = len(ledger.acked)
    load = asyncio.create_task(Load(master.address, ledger).run(16, name))
    while len(ledger.acked) < before + 20 and not load.done():  # noqa: ASYNC110 (answers come to the senders)
        await asyncio.sleep(0.01)
    await asyncio.sleep(seconds)
    master.kill()
    await asyncio.wait_for(load, 20)


@pytest.mark.crash
async def test_no_acknowledged_message_is_missing_on_the_slave(tmp_path: Path) -> None:
    moments = random.Random(20261124)
    (ha_port,) = free_ports(1)
    master = BrokerProcess(
        tmp_path / "master", brokerName="b", brokerRole="SYNC_MASTER", haListenPort=ha_port, slaveTimeout=20_000
    )
    slave = BrokerProcess(
        tmp_path / "slave",
        brokerName="b",
        brokerRole="SLAVE",
        brokerId=1,
        haMasterAddress=f"127.0.0.1:{ha_port}",
    )
    ledger = Ledger()
    slave.start()
    try:
        for number in range(KILLS):
            master.start()
            if number == KILLS // 2:  # the slave dies, too, and comes back: sends wait for it meanwhile
                senders = asyncio.create_task(Load(master.address, ledger).run(16, "s"))
                await asyncio.sleep(moments.uniform(0.1, 0.4))
                slave.kill()
                slave.start()
                senders.cancel()
                await asyncio.wait((senders,))
            await kill_soon(master, ledger, moments.uniform(0.0, 0.3), f"k{number}")
            end = max(ledger.acked_physical.values(), default=0)
            copy, log = log_of(slave), log_of(master)
            assert log.startswith(copy), f"after kill {number}: the slave has bytes that its master never had"
            assert len(copy) > end, f"after kill {number}: {end} was acknowledged"
        assert ledger.refused == {}
        assert len(ledger.acked) > 10 * KILLS, "the load must really have run"
    finally:
        assert slave.stop() == 0
    assert audit_store(slave.store, index_slots=1000, index_entries=4000) == []
    log = StoreReader(slave.store)
    assert log.log_end().physical_offset == len(log_of(slave))
    log.close()
