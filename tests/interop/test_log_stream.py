"""The log between Apache's broker and ours, both ways, over a kill -9 of the master."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interop.apache import ApacheCluster, free_ports, wait_for_port
from rocketlake.namesrv.config import NameServerConfig
from rocketlake.namesrv.server import NameServer
from tests.crash.broker_process import BrokerProcess, Ledger, Load
from tests.interop.releases import jars_of, releases

pytestmark = pytest.mark.interop

FILE_BYTES = 1 << 17
STILL_SECONDS = 60.0
SIZES: dict[str, object] = {
    "mappedFileSizeCommitLog": FILE_BYTES,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
    "brokerName": "pair",
    "haSendHeartbeatInterval": 500,
    "waitTimeMillsInSendQueue": 60_000,
}


class ApacheBroker(ApacheCluster):
    """Apache's broker alone, without a name server."""

    def __init__(self, root: Path, peer: str, **settings: object) -> None:
        root.mkdir(parents=True)
        super().__init__(root, settings={**SIZES, **settings}, peer=peer)
        del self.settings["namesrvAddr"]
        self.ha_address = f"127.0.0.1:{self.settings['haListenPort']}"

    def start(self) -> None:
        self.launch_broker()
        wait_for_port(self.broker_port, self._processes[-1])


def log_of(store: Path) -> bytes:
    """All bytes of a log, without the zeros behind it."""
    files = sorted(path for path in (store / "commitlog").iterdir() if path.name.isdigit())
    assert [int(path.name) for path in files] == [FILE_BYTES * number for number in range(len(files))]
    return b"".join(path.read_bytes() for path in files).rstrip(b"\0")


async def load(address: str, ledger: Ledger, name: str, count: int, kill: Callable[[], object] | None = None) -> None:
    """Send until `count` more messages are acknowledged, then kill the master under the load.

    Apache's slave comes within 10 s; until then a SYNC_MASTER refuses.
    """
    enough, tries = len(ledger.acked) + count, 0
    senders = asyncio.create_task(Load(address, ledger).run(8, name))
    while len(ledger.acked) < enough and tries < 1500:
        await asyncio.sleep(0.02)
        if senders.done():
            tries += 1
            senders = asyncio.create_task(Load(address, ledger).run(8, f"{name}{tries}"))
    if kill is not None:
        kill()
        await asyncio.wait_for(senders, 20)
    else:
        senders.cancel()
        await asyncio.wait((senders,))
    assert len(ledger.acked) >= enough, ledger.refused


async def until_copied(slave: Path, master: Path) -> None:
    """Wait as long as the slave's log moves: Apache's slave may need long to come back on a busy machine."""
    length, moved = -1, time.monotonic()
    while (copied := log_of(slave)) != (log := log_of(master)):
        if len(copied) != length:
            length, moved = len(copied), time.monotonic()
        assert time.monotonic() - moved < STILL_SECONDS, f"{length} of {len(log)} bytes are copied, and no more come"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("peer", releases("server"))
async def test_logs_are_equal_both_ways(peer: str, tmp_path: Path) -> None:
    """Together: most of the time goes by while Java starts."""
    jars_of(peer)
    async with asyncio.TaskGroup() as ways:
        ways.create_task(our_slave_of_apaches_master(tmp_path / "ours", peer))
        ways.create_task(apaches_slave_of_our_master(tmp_path / "theirs", peer))


async def our_slave_of_apaches_master(tmp_path: Path, peer: str) -> None:
    master = ApacheBroker(tmp_path / "apache", peer)
    slave = BrokerProcess(
        tmp_path / "slave", **SIZES, brokerRole="SLAVE", brokerId=1, haMasterAddress=master.ha_address
    )
    ledger = Ledger()
    try:
        await asyncio.to_thread(master.start)
        await asyncio.to_thread(slave.start)
        await load(master.broker, ledger, "a", 400, master.kill)
        await asyncio.to_thread(master.start)
        await load(master.broker, ledger, "b", 200)
        await until_copied(slave.store, master.store)
        assert len(log_of(slave.store)) > 2 * FILE_BYTES  # blanks of closed files, too
    finally:
        master.kill()
        assert await asyncio.to_thread(slave.stop) == 0


async def apaches_slave_of_our_master(tmp_path: Path, peer: str) -> None:
    """Apache's slave forgets its own haMasterAddress at the start, so it must hear of our master by a name server."""
    (ha_port,) = free_ports(1)
    namesrv = NameServer(NameServerConfig(listen_port=0, kv_config_path=tmp_path / "kv.json"))
    await namesrv.start()
    named = {**SIZES, "namesrvAddr": namesrv.address}
    master = BrokerProcess(
        tmp_path / "master", **named, brokerClusterName="DefaultCluster", brokerRole="SYNC_MASTER", haListenPort=ha_port
    )
    slave = ApacheBroker(tmp_path / "apache", peer, brokerRole="SLAVE", brokerId=1)
    slave.settings["namesrvAddr"] = namesrv.address
    ledger = Ledger()
    try:
        await asyncio.to_thread(master.start)
        await asyncio.to_thread(slave.start)
        await load(master.address, ledger, "a", 400, master.kill)
        end = max(ledger.acked_physical.values())
        assert log_of(slave.store)[:end] == log_of(master.store)[:end]  # acknowledged: Apache's slave has it
        await asyncio.to_thread(master.start)
        await load(master.address, ledger, "b", 200)
        await until_copied(slave.store, master.store)
        assert len(log_of(slave.store)) > 2 * FILE_BYTES
    finally:
        slave.kill()
        assert await asyncio.to_thread(master.stop) == 0
        await namesrv.stop()
