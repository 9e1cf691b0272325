"""Power cuts under Apache's controller, which knows nothing of doubtful logs: no epoch has two logs, nothing is lost.

In `make ha-matrix` only, for both releases.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.apache_group import CLUSTER, NAME, ApacheGroup
from rocketlake.base.clock import SystemClock
from rocketlake.net.client import NetClient
from tests.crash.broker_process import BrokerProcess, Ledger, Reader, member
from tests.crash.group_processes import settled
from tests.crash.sending import Sending
from tests.interop.releases import jars_of, releases

pytestmark = pytest.mark.interop

LOST_BYTES = 1 << 15
"""Of the end of a log that had not reached the disk."""


@pytest.fixture(params=releases(""))
def apache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApacheGroup]:
    jars_of(request.param)
    group = ApacheGroup(tmp_path, peer=request.param, scan_ms=5000)  # Apache's default: the old master comes first
    try:
        group.start()
        yield group
    finally:
        group.stop()


def our_broker(apache: ApacheGroup, root: Path) -> BrokerProcess:
    return member(root, NAME, apache.namesrv, apache.controller, brokerClusterName=CLUSTER)


def cut_power(broker: BrokerProcess) -> None:
    """Its machine is gone: the end of its log is not on the disk, and the kernel that comes back is another one."""
    broker.kill()
    (broker.store / "bootId").write_text("another-boot ")
    first = broker.store / "commitlog" / f"{0:020}"  # the next one is there and empty
    end = len(first.read_bytes().rstrip(b"\0"))
    assert 2 * LOST_BYTES < end < first.stat().st_size / 2
    with first.open("r+b") as file:
        file.seek(end - LOST_BYTES)
        file.write(bytes(LOST_BYTES))


async def test_a_master_that_lost_its_end_does_not_go_on_in_its_epoch(apache: ApacheGroup, tmp_path: Path) -> None:
    """The machine of the master and of the only controller loses power: the controller names it the master again."""
    brokers = [our_broker(apache, tmp_path / name) for name in ("ours1", "ours2")]
    net, ledger = NetClient(clock=SystemClock()), Ledger()
    sending = Sending([broker.address for broker in brokers], ledger)
    try:
        for broker in brokers:
            broker.start()
        old = await settled(net, apache.controller, NAME, 2)
        sending.begin(2, "s")
        await asyncio.wait_for(sending.goes_on(300), 60)
        apache.kill_controller()
        victim, other = sorted(brokers, key=lambda broker: broker.address != old)
        cut_power(victim)
        victim.start()
        await asyncio.to_thread(apache.start)
        await asyncio.wait_for(sending.goes_on(1), 60)
        assert await settled(net, apache.controller, NAME, 2) == other.address
        await asyncio.wait_for(sending.goes_on(100), 60)
        await sending.end()
        assert "led in epoch 1, may have lost the end of its log" in (victim.root / "broker.log").read_text()
        histories = [(broker.store / "epochFileCheckpoint").read_text() for broker in brokers]
        assert histories[0] == histories[1]
        reader = Reader(other.address, ledger)
        await reader.read_new()
        assert (reader.lost(), len(ledger.acked) > 400) == ([], True)
    finally:
        for broker in brokers:
            with contextlib.suppress(ProcessLookupError):  # a test that failed may have killed it before
                broker.kill()
        await net.close()
